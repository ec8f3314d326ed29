"""`syndicated data`: fetch a data set into the user's cache."""

import argparse
from pathlib import Path

from syndicated.datasets import movielens, open_bandit
from syndicated.errors import InputError


def add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["get"])
    parser.add_argument("name", choices=["movielens-100k", "open-bandit"])
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help="u.data, ml-100k.zip or ml-100k.inter")
    parser.set_defaults(command=_get)


def _get(options: argparse.Namespace) -> None:
    if options.name == "movielens-100k":
        print(f"{movielens.movielens(options.source)}\n\n{movielens.NOTICE}")
    elif options.source is not None:
        raise InputError("--from is for movielens-100k; open-bandit comes from the package index")
    else:
        print(f"{open_bandit.open_bandit().parent}\n\n{open_bandit.NOTICE}")
