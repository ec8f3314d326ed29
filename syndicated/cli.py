"""The command line."""

import argparse
import inspect
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

import syndicated
from syndicated import data
from syndicated.agent import Agent
from syndicated.environments import ENVIRONMENTS
from syndicated.errors import InputError, SyndicatedError, check_count
from syndicated.evaluate import Evaluation, evaluate, read_log
from syndicated.evaluate.table import print_evaluations
from syndicated.experiments import boardpage, boardplot, facts, page, paper, plots, report, scoreboard
from syndicated.experiments.engines import dask, processes
from syndicated.experiments.experiment import Experiment, Task
from syndicated.experiments.results import Result, collect, write_table
from syndicated.experiments.run import Curve, Engine, run
from syndicated.experiments.standings import gather, write_regrets
from syndicated.policies import POLICIES
from syndicated.registry import find
from syndicated.service import backup, serve, simulate
from syndicated.space import Space
from syndicated.spec import Spec, build
from syndicated.tuners import TUNERS, Consensus, Fixed

Played = tuple[Experiment, list[Task], list[Curve]]
EXAMPLES = """\
examples:
  syndicated list
      what is registered: policies with their hyper-parameters, tuners, environments

  syndicated run
      LinUCB tuned by Syndicated in the paper's linear simulation

  syndicated run --policy LinTS --tuner TwoLayer --tuner Theory --repeats 20 --jobs 2
      two tuners on the same 20 worlds, with paired differences

  syndicated run --tuner Fixed --set alpha=0.5 --set lam=0.1
      fixed hyper-parameters; theory fills in those that are not set

  syndicated run --set alpha=0,0.1,1 --set policy.intercept=false --set environment.noise=0.5
      other candidates, and other constructor arguments of the policy, the tuner or the environment

  syndicated reproduce table1 --repeats 50
  syndicated reproduce figure2 --policy LinUCB
      the paper's experiments, by default at the paper's size; ended at any time, the same command goes on

  syndicated scoreboard --world linucb-paper --tuner OP
      the standing comparison, or a part of it

  syndicated evaluate log.jsonl --tuner Consensus --tuner Theory
      what each would have earned, from a log of decisions with propensities

  syndicated simulate --rounds 1000
      play a simulated world against a running service, with the key of SYNDICATED_KEY

  syndicated backup --store service.db monday.db
  syndicated restore monday.db --store other.db
      a service's journal as one file, also while it serves, and back
"""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors are one line on standard error and exit code 2."""
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
    except (SyndicatedError, OSError) as error:
        print(f"syndicated: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("syndicated: interrupted; finished tasks are kept, the same command goes on", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="syndicated",
        description="Contextual bandits that tune themselves.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"syndicated {syndicated.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    commands.add_parser("list", help="what is registered").set_defaults(command=_list)

    play = commands.add_parser("run", help="play any policy with any tuners in any environment")
    play.add_argument("--policy", default="LinUCB")
    play.add_argument("--tuner", action="append", metavar="TUNER", help="may be repeated; default Syndicated")
    play.add_argument("--environment", default="Linear")
    play.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE[,VALUE]",
        help="candidates of a hyper-parameter, or with a prefix policy., tuner. or environment. an argument",
    )
    play.add_argument("--delay", type=int, default=0, help="after how many rounds a reward is learned (default 0)")
    play.set_defaults(command=_run)

    again = commands.add_parser("reproduce", help="the paper's experiments")
    again.add_argument("what", choices=[*paper.PAPER, "all"])
    again.add_argument("--environment", choices=["simulation", "movielens"], help="only this one's panels")
    again.add_argument("--policy", help="only this policy's panels")
    again.set_defaults(command=_reproduce)

    board = commands.add_parser("scoreboard", help="every tuner in every kind of world, and who stands where")
    board.add_argument("--world", action="append", default=[], metavar="NAME", help="only this; may be repeated")
    board.add_argument(
        "--tuner", action="append", default=[], metavar="LABEL", help="only this and Syndicated; may be repeated"
    )
    board.set_defaults(command=_scoreboard)

    judge = commands.add_parser("evaluate", help="what a policy with other tuners would have earned, from a log")
    judge.add_argument("log", type=Path, metavar="LOG", help="decisions and rewards as JSON lines")
    judge.add_argument("--policy", default="LinUCB")
    judge.add_argument("--tuner", action="append", metavar="TUNER", help="may be repeated; default Consensus")
    judge.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE[,VALUE]",
        help="candidates of a hyper-parameter, or with a prefix policy. or tuner. an argument",
    )
    judge.add_argument("--bandit", metavar="NAME", help="which, if the log has several")
    judge.add_argument("--confidence", type=float, default=0.95, help="of the intervals (default 0.95)")
    judge.add_argument("--acceptance", type=float, help="c (default: the least propensity of the log)")
    judge.add_argument("--histories", type=int, default=5, help="of each target, each with its own seed (default 5)")
    judge.add_argument("--seed", type=int, default=0, help="of the targets' first history (default 0)")
    judge.set_defaults(command=_evaluate)

    fetch = commands.add_parser("data", help="fetch a data set into the user's cache")
    fetch.add_argument("action", choices=["get"])
    fetch.add_argument("name", choices=["movielens-100k"])
    fetch.add_argument("--from", dest="source", type=Path, metavar="FILE", help="u.data, ml-100k.zip or ml-100k.inter")
    fetch.set_defaults(command=_data)

    for module in (serve, simulate, backup):
        module.add_command(commands)

    _add_size(play)
    _add_size(again)
    _add_size(board)
    return parser


def _add_size(command: argparse.ArgumentParser) -> None:
    """How much is run, where, and where the results go."""
    command.add_argument(
        "--repeats", type=int, help="how many worlds (default: run 10, else the paper's, or the board's)"
    )
    command.add_argument("--horizon", type=int, help="how many rounds (default 10000)")
    command.add_argument("--seed", type=int, help="the first world's seed (default 1, of the board 1001)")
    command.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    command.add_argument("--engine", choices=["processes", "dask"], default="processes", help="default processes")
    command.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster (default: --jobs processes here)")
    command.add_argument("--out", "--output", type=Path, default=Path("results"), help="folder (default results)")


def _data(options: argparse.Namespace) -> None:
    print(f"{data.movielens(options.source)}\n\n{data.NOTICE}")


def _list(options: argparse.Namespace) -> None:
    console = _console()
    for title, registry in (("policies", POLICIES), ("tuners", TUNERS), ("environments", ENVIRONMENTS)):
        console.print(f"[bold]{title}[/bold]")
        for name, cls in registry.items():
            first = (cls.__doc__ or "").split("\n")[0]
            console.print(f"  {name:<12} {first}", highlight=False, soft_wrap=True)


def _run(options: argparse.Namespace) -> None:
    settings = _settings(options.set)
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
    results = _perform(options, "run", [experiment])
    report.print_results(_console(), results)
    _save(options, "run", plots.draw_regret(results))


def _reproduce(options: argparse.Namespace) -> None:
    parts = paper.PAPER if options.what == "all" else {options.what: paper.PAPER[options.what]}
    wanted = {name: [e for e in experiments if _wanted(options, e)] for name, experiments in parts.items()}
    experiments = [e for own in wanted.values() for e in own]
    if not experiments:
        titles = "; ".join(e.title for experiments in parts.values() for e in experiments)
        raise InputError(f"{options.what} has no such panel; it has {titles}")
    started = time.perf_counter()
    results = iter(_perform(options, options.what, experiments))
    sections = {name: [next(results) for _ in own] for name, own in wanted.items() if own}
    for name, own in sections.items():
        report.print_results(_console(), own)
        if name == "table1":
            report.print_published(_console(), own)
        _save(options, name, plots.draw_grid(own) if name == "table1" else plots.draw_regret(own))
    if options.what == "all":
        file = options.out / "report.html"
        page.write_report(file, sections, {"Time on the wall, this command": f"{time.perf_counter() - started:.0f} s"})
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
    played = _play(options, [experiment for experiments in board.values() for experiment in experiments])
    wall = time.perf_counter() - started
    write_regrets(options.out / "scoreboard.csv", [(tasks, curves) for _, tasks, curves in played])
    worlds = [gather(groups[experiment.name], experiment, curves) for experiment, _, curves in played]
    file = options.out / "scoreboard.md"
    boardpage.write_page(file, worlds, {"Time on the wall, this command": facts.time_text(wall)})
    report.print_board(_console(), worlds)
    print(f"every regret: {file.with_suffix('.csv')}\nthe board: {file}")
    _save(options, "scoreboard", boardplot.draw_board(worlds))


def _evaluate(options: argparse.Namespace) -> None:
    settings = _settings(options.set)
    if settings["environment"]:
        raise InputError("--set of this command takes policy. and tuner. only; got environment.")
    log = read_log(options.log, options.bandit)
    policy = build(POLICIES, {"name": options.policy, "dim": log.dim, **settings["policy"]})
    found: dict[str, Evaluation] = {}
    for name in options.tuner or ["Consensus"]:
        tuner = find(TUNERS, name)
        space = Space(**settings["space"]) if settings["space"] or tuner is Fixed else policy.space
        takes = "space" in inspect.signature(tuner).parameters
        spec = {"name": name, **({"space": space} if takes else {}), **settings["tuner"]}
        agent = Agent(policy, build(TUNERS, spec), seed=options.seed)
        found[tuner.__name__] = evaluate(
            log,
            agent,
            confidence=options.confidence,
            acceptance=options.acceptance,
            histories=options.histories,
        )
    print_evaluations(_console(), type(policy).__name__, log, found)


def _perform(options: argparse.Namespace, name: str, experiments: Sequence[Experiment]) -> list[Result]:
    """Run the experiments and write the tidy table of their curves."""
    played = _play(options, experiments)
    table = options.out / f"{name}.csv"
    write_table(table, [(tasks, curves) for _, tasks, curves in played])
    print(f"every curve: {table}")
    return [collect(experiment, curves) for experiment, _, curves in played]


def _play(options: argparse.Namespace, experiments: Sequence[Experiment]) -> list[Played]:
    """Run the experiments at the size asked for, and show progress."""
    asked = {key: getattr(options, key) for key in ("repeats", "horizon", "seed")}
    given = {key: value for key, value in asked.items() if value is not None}
    experiments = [replace(experiment, **given) for experiment in experiments]
    engine = _engine(options)
    tasks = [experiment.tasks() for experiment in experiments]
    for task in (task for each in tasks for task in each if task.repeat == 0):
        task.world()
        task.agent()
    with _progress() as progress:
        bars = {e.name: progress.add_task(e.title, total=len(t)) for e, t in zip(experiments, tasks, strict=True)}

        def done(task: Task) -> None:
            progress.advance(bars[task.experiment])

        curves = iter(run([task for each in tasks for task in each], options.out / "tasks", engine, done))
    return [(e, t, [next(curves) for _ in t]) for e, t in zip(experiments, tasks, strict=True)]


def _engine(options: argparse.Namespace) -> Engine:
    jobs = check_count("jobs", options.jobs)
    if options.engine == "dask":
        return dask(jobs, options.scheduler, say=lambda text: print(text, file=sys.stderr))
    if options.scheduler is not None:
        raise InputError("--scheduler is for --engine dask; got --engine processes")
    return processes(jobs)


def _console() -> Console:
    """Where tables are printed: as wide as the terminal, or wide enough for all of them in a file or a pipe."""
    return Console(width=None if sys.stdout.isatty() else 140)


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


def _save(options: argparse.Namespace, name: str, figure: Figure) -> None:
    print("figure:", *plots.save(figure, options.out / name))


def _settings(pairs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """--set options by what they set: the space, or an argument of the policy, the tuner or the environment."""
    settings: dict[str, dict[str, Any]] = {"space": {}, "policy": {}, "tuner": {}, "environment": {}}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        kind, dot, argument = name.rpartition(".")
        kind = kind if dot else "space"
        if not equals or not argument or kind not in settings:
            raise InputError(f"--set takes NAME=VALUE with NAME as alpha or policy.intercept; got {pair!r}")
        values = [_value(part) for part in text.split(",")]
        settings[kind][argument] = values if kind == "space" or len(values) > 1 else values[0]
    return settings


def _value(text: str) -> Any:
    """A number, true, false or null as JSON has them, otherwise the text itself."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
