"""The command line."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import syndicated
from syndicated.errors import SyndicatedError

# Name, what it does, and the module and function that add its arguments.
COMMANDS = (
    ("list", "what is registered", "listing", "add_list"),
    ("demo", "an agent with nothing set beside the paper's methods, in half a minute", "experiments", "add_demo"),
    ("run", "play any policy with any tuners in any environment", "experiments", "add_run"),
    ("reproduce", "the paper's experiments", "experiments", "add_reproduce"),
    ("scoreboard", "every tuner in every kind of world, compared", "experiments", "add_scoreboard"),
    ("bakeoff", "real classified data played as bandits, beside other libraries", "bakeoff", "add_bakeoff"),
    ("evaluate", "what a policy with other tuners would have earned, from a log", "evaluate", "add_evaluate"),
    ("data", "fetch a data set into the user's cache", "data", "add_data"),
    ("serve", "serve bandits over HTTP", "serve", "add_serve"),
    ("simulate", "play a simulated world against a running service", "simulate", "add_simulate"),
    ("backup", "copy a service's journal into a file, also while it is in use", "backup", "add_backup"),
    ("restore", "fill an empty journal from a backup", "backup", "add_restore"),
    ("verify", "check a journal for damage", "check", "add_verify"),
    ("repair", "save what is not damaged of a journal into a new one", "check", "add_repair"),
    ("quickstart", "write a runnable example into a folder", "quickstart", "add_quickstart"),
    ("doctor", "what is installed, compiled, cached and reachable", "doctor", "add_doctor"),
    ("completion", "a script with which a shell completes commands and options", "completion", "add_completion"),
    ("compile", "compile the package now, for example while an image is built", "compile", "add_compile"),
)
EXAMPLES = """\
examples:
  syndicated list
      what is registered: policies with their hyper-parameters, tuners, environments

  syndicated demo
      an agent with nothing set beside the paper's methods: a table and a figure

  syndicated run
      LinUCB with nothing set in the paper's linear simulation

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

  syndicated bakeoff --data wine --data digits --no-peers --repeats 1
      real data played as bandits, or a part of it

  syndicated quickstart news
      a runnable example, news/first_agent.py

  syndicated evaluate log.jsonl --tuner Consensus --tuner Theory
      what each would have earned, from a log of decisions with propensities

  syndicated simulate --rounds 1000
      play a simulated world against a running service, with the key of SYNDICATED_KEY

  syndicated backup --store service.db monday.db
  syndicated restore monday.db --store other.db
      a service's journal as one file, also while it serves, and back

  syndicated verify --store service.db
  syndicated repair --store service.db saved.db
      whether a journal is whole; what is not damaged of it, as a new one
"""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


class Command(Parser):
    """The parser of one command. Its module is imported when the command is chosen: `--help` needs none of them."""

    def __init__(self, *, module: str, add_arguments: str, **options: Any) -> None:
        super().__init__(**options)
        self._module, self._add_arguments = module, add_arguments
        self._complete = False

    def parse_known_args(self, *arguments: Any, **named: Any) -> Any:
        self.load()
        return super().parse_known_args(*arguments, **named)

    def load(self) -> None:
        """Add the arguments of the command, once."""
        if not self._complete:
            self._complete = True
            getattr(import_module(f"{__name__}.{self._module}"), self._add_arguments)(self)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors are one line on standard error and exit code 2."""
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe, such as head, had enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - Python flushes it when it ends
        return 141
    except (SyndicatedError, OSError) as error:
        print(f"syndicated: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        word = getattr(options, "interrupted", None)
        print("syndicated: interrupted" + (f"; {word}" if word else ""), file=sys.stderr)
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
    commands = parser.add_subparsers(required=True, metavar="command", parser_class=Command)
    for name, help_, module, add_arguments in COMMANDS:
        commands.add_parser(name, help=help_, module=module, add_arguments=add_arguments)
    return parser
