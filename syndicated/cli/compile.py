"""`syndicated compile`: every kernel now, so that nobody has to wait for one later."""

import argparse

import syndicated.datasets._factorise
import syndicated.environments
import syndicated.features
import syndicated.policies
import syndicated.tuners  # noqa: F401
from syndicated._compiled import KERNELS, load_all


def add_compile(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=_compile)


def _compile(options: argparse.Namespace) -> None:
    load_all()
    print(f"{len(KERNELS)} kernels are compiled")
