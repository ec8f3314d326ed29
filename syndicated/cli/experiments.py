"""`syndicated run`, `syndicated reproduce` and `syndicated scoreboard`: experiments, here or on a cluster."""

import argparse
import time

from syndicated.agent import default_tuner
from syndicated.cli.execution import add_size, run_and_tabulate, run_with_progress, save_and_print
from syndicated.cli.options import console, settings_of
from syndicated.environments import ENVIRONMENTS
from syndicated.errors import InputError
from syndicated.experiments import (
    Experiment,
    draw_grid,
    draw_regret,
    paper,
    print_published,
    print_results,
    scoreboard,
)
from syndicated.experiments._formatting import time_text
from syndicated.policies import POLICIES
from syndicated.registry import find
from syndicated.spec import Spec, build, spec_of, takes
from syndicated.tuners import TUNERS, Consensus, Fixed


def add_run(command: argparse.ArgumentParser) -> None:
    command.add_argument("--policy", default="LinUCB", help="default LinUCB; `syndicated list` names all")
    command.add_argument("--tuner", action="append", metavar="TUNER", help="may be repeated; default: the agent's")
    command.add_argument("--environment", default="Linear", help="default Linear")
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE[,VALUE]",
        help="candidates of a hyper-parameter, or with a prefix policy., tuner. or environment. an argument",
    )
    command.add_argument("--delay", type=int, default=0, help="after how many rounds a reward is learned (default 0)")
    command.add_argument("--lost", type=float, default=0.0, help="which share of rewards never comes (default 0)")
    add_size(command)
    command.set_defaults(command=_run)


def add_demo(command: argparse.ArgumentParser) -> None:
    add_size(command)
    command.set_defaults(command=_demo)


def add_reproduce(command: argparse.ArgumentParser) -> None:
    command.add_argument("what", choices=[*paper.PAPER, "all"])
    command.add_argument("--environment", choices=["simulation", "movielens"], help="only this one's panels")
    command.add_argument("--policy", help="only this policy's panels")
    add_size(command)
    command.set_defaults(command=_reproduce)


def add_scoreboard(command: argparse.ArgumentParser) -> None:
    command.add_argument("--world", action="append", default=[], metavar="NAME", help="only this; may be repeated")
    command.add_argument(
        "--tuner", action="append", default=[], metavar="LABEL", help="only this and Syndicated; may be repeated"
    )
    add_size(command)
    command.set_defaults(command=_scoreboard)


def _run(options: argparse.Namespace) -> None:
    settings = settings_of(options.set)
    policy, world = find(POLICIES, options.policy), find(ENVIRONMENTS, options.environment)
    environment = {"name": world.__name__, **settings["environment"]}
    candidates = {name: paper.CANDIDATES[name] for name in policy.hyper if name in paper.CANDIDATES}
    tuners: dict[str, Spec] = {}
    plays = {"name": policy.__name__, "dim": build(ENVIRONMENTS, environment).dim, **settings["policy"]}
    if not options.tuner and not settings["space"]:
        usual = spec_of(default_tuner(build(POLICIES, plays)))
        tuners[usual["name"]] = {**usual, **settings["tuner"]}
    for name in options.tuner or ([Consensus.__name__] if settings["space"] else []):
        tuner = find(TUNERS, name)
        space = settings["space"] or ({} if tuner is Fixed else candidates)
        own = tuner is Consensus and not settings["space"]
        given = {"space": space} if takes(TUNERS, name, "space") and not own else {}
        tuners[tuner.__name__] = {"name": tuner.__name__, **given, **settings["tuner"]}
    experiment = Experiment(
        name="run",
        title=f"{policy.__name__} in {world.__name__}",
        environment=environment,
        policy=plays,
        tuners=tuners,
        delay=options.delay,
        lost=options.lost,
    )
    results = run_and_tabulate(options, "run", [experiment])
    print_results(console(), results)
    save_and_print(options, "run", draw_regret(results))


def _demo(options: argparse.Namespace) -> None:
    (result,) = run_and_tabulate(options, "demo", [paper.DEMO])
    print_results(console(), [result])
    save_and_print(options, "demo", paper.draw_demo(result))


def _reproduce(options: argparse.Namespace) -> None:
    parts = paper.PAPER if options.what == "all" else {options.what: paper.PAPER[options.what]}
    wanted = {name: [e for e in experiments if _wanted(options, e)] for name, experiments in parts.items()}
    experiments = [e for own in wanted.values() for e in own]
    if not experiments:
        titles = "; ".join(e.title for experiments in parts.values() for e in experiments)
        raise InputError(f"{options.what} has no such panel; it has {titles}")
    started = time.perf_counter()
    results = iter(run_and_tabulate(options, options.what, experiments))
    sections = {name: [next(results) for _ in own] for name, own in wanted.items() if own}
    for name, own in sections.items():
        print_results(console(), own)
        if name == "table1":
            print_published(console(), own)
            papers, ours = wanted[name][0].horizon, own[0].experiment.horizon
            if ours != papers:
                print(f"Do not compare: the paper's numbers are after {papers:,} rounds, ours after {ours:,}.")
        save_and_print(options, name, draw_grid(own) if name == "table1" else draw_regret(own))
    if options.what == "all":
        file = options.out / "report.html"
        wall = time_text(time.perf_counter() - started)
        paper.write_report(file, sections, {"Time on the wall, this command": wall})
        print(f"report: {file}")


def _wanted(options: argparse.Namespace, experiment: Experiment) -> bool:
    """Whether --policy and --environment leave this panel in."""
    policy = find(POLICIES, options.policy).__name__ if options.policy else experiment.policy["name"]
    place = "movielens" if experiment.environment["name"] == "MovieLens" else "simulation"
    return bool(experiment.policy["name"] == policy) and options.environment in (None, place)


def _scoreboard(options: argparse.Namespace) -> None:
    board = scoreboard.choose(options.world, options.tuner)
    groups = {experiment.name: group for group, experiments in board.items() for experiment in experiments}
    started = time.perf_counter()
    runs = run_with_progress(options, [experiment for experiments in board.values() for experiment in experiments])
    wall = time.perf_counter() - started
    scoreboard.write_regrets(options.out / "scoreboard.csv", runs)
    worlds = [scoreboard.gather(groups[run.experiment.name], run) for run in runs]
    file = options.out / "scoreboard.md"
    total = time_text(scoreboard.task_seconds(runs))
    scoreboard.write_page(
        file, worlds, {"CPU time, all tasks": total, "Time on the wall, this command": time_text(wall)}
    )
    tuned = [world for world in worlds if world.group in scoreboard.BOARD]
    if tuned:
        scoreboard.print_board(console(), tuned)
        save_and_print(options, "scoreboard", scoreboard.draw_board(tuned))
    ways = scoreboard.trade_off(tuned)
    if ways:
        save_and_print(options, "scoreboard-trade-off", scoreboard.draw_trade_off(ways))
    print(f"every regret: {file.with_suffix('.csv')}\nthe board: {file}")
