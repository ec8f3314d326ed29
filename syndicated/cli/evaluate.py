"""`syndicated evaluate`: what other configurations would have earned, from a log."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from syndicated.agent import Agent, build_agent
from syndicated.cli.options import console, settings_of
from syndicated.errors import InputError
from syndicated.evaluate import Evaluation, Log, evaluate, print_evaluations, read_log
from syndicated.policies import POLICIES
from syndicated.registry import find
from syndicated.tuners import TUNERS, Fixed

COLUMNS = ("arm", "reward", "propensity", "position")


def add_evaluate(command: argparse.ArgumentParser) -> None:
    command.add_argument("log", type=Path, metavar="LOG", help="decisions and rewards: JSON lines, CSV or Parquet")
    command.add_argument("--policy", help="default LinUCB, of tables ArmUCB; `syndicated list` names all")
    command.add_argument("--tuner", action="append", metavar="TUNER", help="may be repeated; default Consensus")
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE[,VALUE]",
        help="candidates of a hyper-parameter, or with a prefix policy. or tuner. an argument",
    )
    command.add_argument("--agent", type=Path, metavar="FILE", help="a saved agent (Agent.save) in place of --policy")
    command.add_argument(
        "--mode",
        choices=["trained", "frozen", "fresh"],
        help="of a saved agent: goes on learning, learns nothing, or starts anew (default frozen)",
    )
    command.add_argument("--bandit", metavar="NAME", help="which, if the log has several")
    command.add_argument(
        "--columns",
        default="",
        metavar="NAME=COLUMN[,...]",
        help="of a table: which column is the arm, reward, propensity, position (default: those of these names)",
    )
    command.add_argument("--context", default="", metavar="COLUMN[,...]", help="of a table: the columns of the context")
    command.add_argument("--confidence", type=float, default=0.95, help="of the intervals (default 0.95)")
    command.add_argument(
        "--rewards",
        type=float,
        nargs=2,
        metavar=("LOW", "HIGH"),
        help="what rewards may be (default: as in the log)",
    )
    command.add_argument(
        "--acceptance",
        type=float,
        help="how readily rounds are accepted, the factor c of docs/evaluate.md (default: the log's least propensity)",
    )
    command.add_argument("--histories", type=int, default=5, help="of each target, each with its own seed (default 5)")
    command.add_argument("--seed", type=int, default=0, help="of the targets' first history (default 0)")
    command.set_defaults(command=_evaluate, interrupted="nothing was written")


def _evaluate(options: argparse.Namespace) -> None:
    log = read_log(options.log, options.bandit, **_columns(options))
    found: dict[str, Evaluation] = {}
    for name, agent, mode in _targets(options, log):
        found[name] = evaluate(
            log,
            agent,
            mode=mode,
            confidence=options.confidence,
            acceptance=options.acceptance,
            histories=options.histories,
            rewards=None if options.rewards is None else tuple(options.rewards),
            progress=sys.stderr.isatty(),
        )
    title = options.agent.name if options.agent else find(POLICIES, _policy(options, log)).__name__
    print_evaluations(console(), title, log, found)


def _policy(options: argparse.Namespace, log: Log) -> str:
    return options.policy or ("ArmUCB" if log.contexts_only else "LinUCB")


def _targets(options: argparse.Namespace, log: Log) -> Iterator[tuple[str, Agent, Any]]:
    """The name, the agent and the mode of every target."""
    settings = settings_of(options.set)
    if settings["environment"]:
        raise InputError("--set of this command takes policy. and tuner. only; got environment.")
    if options.agent is not None:
        if options.policy or options.tuner or options.set:
            raise InputError("a saved agent has its policy and tuner; --agent takes no --policy, --tuner or --set")
        yield options.agent.stem, Agent.load(options.agent), options.mode or "frozen"
        return
    if options.mode is not None:
        raise InputError("--mode is for --agent; other targets are fresh")
    policy = {"name": _policy(options, log), "dim": log.dim, **settings["policy"]}
    for name in options.tuner or ["Consensus"]:
        tuner = find(TUNERS, name)
        space = settings["space"] or ({} if tuner is Fixed else None)  # Fixed without values plays by theory
        agent = build_agent(policy, {"name": name, **settings["tuner"]}, space=space, seed=options.seed)
        yield tuner.__name__, agent, "fresh"


def _columns(options: argparse.Namespace) -> dict[str, Any]:
    """What the columns of a table are, as `log_from_frame` takes it."""
    pairs = [part.partition("=") for part in options.columns.split(",") if part]
    if any(not column or name not in COLUMNS for name, _, column in pairs):
        raise InputError(f"--columns takes NAME=COLUMN with NAME one of {', '.join(COLUMNS)}; got {options.columns!r}")
    context = {"context": options.context.split(",")} if options.context else {}
    return {name: column for name, _, column in pairs} | context
