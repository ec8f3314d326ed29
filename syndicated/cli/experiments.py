"""`syndicated run`, `syndicated reproduce` and `syndicated scoreboard`: experiments, played here or on a cluster."""

import argparse
import inspect
import time
from typing import Any

from syndicated.cli.execution import add_size, perform, play, save
from syndicated.cli.options import console, settings_of
from syndicated.environments import ENVIRONMENTS
from syndicated.errors import InputError
from syndicated.experiments import formatting as facts
from syndicated.experiments import plots
from syndicated.experiments import tables as report
from syndicated.experiments.experiment import Experiment
from syndicated.experiments.paper import experiments as paper
from syndicated.experiments.paper import report as page
from syndicated.experiments.scoreboard import figure as boardplot
from syndicated.experiments.scoreboard import markdown as boardpage
from syndicated.experiments.scoreboard import worlds as scoreboard
from syndicated.experiments.scoreboard.ratios import gather, write_regrets
from syndicated.policies import POLICIES
from syndicated.registry import find
from syndicated.spec import Spec, build
from syndicated.tuners import TUNERS, Consensus, Fixed


def add_command(commands: Any) -> None:
    """Add the three commands."""
    _add_run(commands)
    _add_reproduce(commands)
    _add_scoreboard(commands)


def _add_run(commands: Any) -> None:
    command = commands.add_parser("run", help="play any policy with any tuners in any environment")
    command.add_argument("--policy", default="LinUCB")
    command.add_argument("--tuner", action="append", metavar="TUNER", help="may be repeated; default Syndicated")
    command.add_argument("--environment", default="Linear")
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE[,VALUE]",
        help="candidates of a hyper-parameter, or with a prefix policy., tuner. or environment. an argument",
    )
    command.add_argument("--delay", type=int, default=0, help="after how many rounds a reward is learned (default 0)")
    add_size(command)
    command.set_defaults(command=_run)


def _add_reproduce(commands: Any) -> None:
    command = commands.add_parser("reproduce", help="the paper's experiments")
    command.add_argument("what", choices=[*paper.PAPER, "all"])
    command.add_argument("--environment", choices=["simulation", "movielens"], help="only this one's panels")
    command.add_argument("--policy", help="only this policy's panels")
    add_size(command)
    command.set_defaults(command=_reproduce)


def _add_scoreboard(commands: Any) -> None:
    command = commands.add_parser("scoreboard", help="every tuner in every kind of world, and who stands where")
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
    for name in options.tuner or ["Syndicated"]:
        tuner = find(TUNERS, name)
        space = settings["space"] or ({} if tuner is Fixed else candidates)
        own = tuner is Consensus and not settings["space"]
        takes = "space" in inspect.signature(tuner).parameters and not own
        spec = {"name": tuner.__name__, **({"space": space} if takes else {}), **settings["tuner"]}
        tuners[tuner.__name__] = spec
    experiment = Experiment(
        name="run",
        title=f"{policy.__name__} in {world.__name__}",
        environment=environment,
        policy={"name": policy.__name__, "dim": build(ENVIRONMENTS, environment).dim, **settings["policy"]},
        tuners=tuners,
        delay=options.delay,
    )
    results = perform(options, "run", [experiment])
    report.print_results(console(), results)
    save(options, "run", plots.draw_regret(results))


def _reproduce(options: argparse.Namespace) -> None:
    parts = paper.PAPER if options.what == "all" else {options.what: paper.PAPER[options.what]}
    wanted = {name: [e for e in experiments if _wanted(options, e)] for name, experiments in parts.items()}
    experiments = [e for own in wanted.values() for e in own]
    if not experiments:
        titles = "; ".join(e.title for experiments in parts.values() for e in experiments)
        raise InputError(f"{options.what} has no such panel; it has {titles}")
    started = time.perf_counter()
    results = iter(perform(options, options.what, experiments))
    sections = {name: [next(results) for _ in own] for name, own in wanted.items() if own}
    for name, own in sections.items():
        report.print_results(console(), own)
        if name == "table1":
            report.print_published(console(), own)
        save(options, name, plots.draw_grid(own) if name == "table1" else plots.draw_regret(own))
    if options.what == "all":
        file = options.out / "report.html"
        wall = facts.time_text(time.perf_counter() - started)
        page.write_report(file, sections, {"Time on the wall, this command": wall})
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
    played = play(options, [experiment for experiments in board.values() for experiment in experiments])
    wall = time.perf_counter() - started
    write_regrets(options.out / "scoreboard.csv", [(tasks, curves) for _, tasks, curves in played])
    worlds = [gather(groups[experiment.name], experiment, curves) for experiment, _, curves in played]
    file = options.out / "scoreboard.md"
    boardpage.write_page(file, worlds, {"Time on the wall, this command": facts.time_text(wall)})
    report.print_board(console(), worlds)
    print(f"every regret: {file.with_suffix('.csv')}\nthe board: {file}")
    save(options, "scoreboard", boardplot.draw_board(worlds))
