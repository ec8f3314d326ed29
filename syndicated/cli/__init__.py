"""The command line."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import syndicated
from syndicated.cli import backup, evaluate, experiments, serve, simulate
from syndicated.datasets import movielens as data
from syndicated.environments import ENVIRONMENTS
from syndicated.errors import InputError, SyndicatedError
from syndicated.policies import POLICIES
from syndicated.registry import Registry
from syndicated.tuners import TUNERS

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
    experiments.add_command(commands)
    evaluate.add_command(commands)
    _add_data(commands)
    for module in (serve, simulate, backup):
        module.add_command(commands)
    return parser


def _add_data(commands: Any) -> None:
    fetch = commands.add_parser("data", help="fetch a data set into the user's cache")
    fetch.add_argument("action", choices=["get"])
    fetch.add_argument("name", choices=["movielens-100k"])
    fetch.add_argument("--from", dest="source", type=Path, metavar="FILE", help="u.data, ml-100k.zip or ml-100k.inter")
    fetch.set_defaults(command=_data)


def _list(options: argparse.Namespace) -> None:
    registries: dict[str, Registry[Any]] = {"policies": POLICIES, "tuners": TUNERS, "environments": ENVIRONMENTS}
    for title, registry in registries.items():
        print(title)
        for name in registry:
            _list_class(registry, name)
        for reason in registry.refused():
            print(f"syndicated: {reason}", file=sys.stderr)


def _list_class(registry: Registry[Any], name: str) -> None:
    """One line: the name, what it is, and the package unless it is this one. A broken plug-in does not end the list."""
    try:
        first = (registry[name].__doc__ or "").split("\n")[0]
    except InputError as error:
        print(f"syndicated: {error}", file=sys.stderr)
        return
    package = registry.package(name)
    print(f"  {name:<12} {first}" + (f" ({package})" if package else ""))


def _data(options: argparse.Namespace) -> None:
    print(f"{data.movielens(options.source)}\n\n{data.NOTICE}")
