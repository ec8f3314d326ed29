"""`syndicated evaluate`: what other configurations would have earned, from a log."""

import argparse
from pathlib import Path

from syndicated.agent import build_agent
from syndicated.cli.options import console, settings_of
from syndicated.errors import InputError
from syndicated.evaluate import Evaluation, evaluate, print_evaluations, read_log
from syndicated.policies import POLICIES
from syndicated.registry import find
from syndicated.tuners import TUNERS, Fixed


def add_evaluate(command: argparse.ArgumentParser) -> None:
    command.add_argument("log", type=Path, metavar="LOG", help="decisions and rewards as JSON lines")
    command.add_argument("--policy", default="LinUCB", help="default LinUCB; `syndicated list` names all")
    command.add_argument("--tuner", action="append", metavar="TUNER", help="may be repeated; default Consensus")
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE[,VALUE]",
        help="candidates of a hyper-parameter, or with a prefix policy. or tuner. an argument",
    )
    command.add_argument("--bandit", metavar="NAME", help="which, if the log has several")
    command.add_argument("--confidence", type=float, default=0.95, help="of the intervals (default 0.95)")
    command.add_argument(
        "--acceptance",
        type=float,
        help="how readily rounds are accepted, the factor c of docs/evaluate.md (default: the log's least propensity)",
    )
    command.add_argument("--histories", type=int, default=5, help="of each target, each with its own seed (default 5)")
    command.add_argument("--seed", type=int, default=0, help="of the targets' first history (default 0)")
    command.set_defaults(command=_evaluate)


def _evaluate(options: argparse.Namespace) -> None:
    settings = settings_of(options.set)
    if settings["environment"]:
        raise InputError("--set of this command takes policy. and tuner. only; got environment.")
    log = read_log(options.log, options.bandit)
    policy = {"name": options.policy, "dim": log.dim, **settings["policy"]}
    found: dict[str, Evaluation] = {}
    for name in options.tuner or ["Consensus"]:
        tuner = find(TUNERS, name)
        space = settings["space"] or ({} if tuner is Fixed else None)  # Fixed without values plays by theory
        agent = build_agent(policy, {"name": name, **settings["tuner"]}, space=space, seed=options.seed)
        found[tuner.__name__] = evaluate(
            log,
            agent,
            confidence=options.confidence,
            acceptance=options.acceptance,
            histories=options.histories,
        )
    print_evaluations(console(), find(POLICIES, options.policy).__name__, log, found)
