"""`syndicated backup` and `syndicated restore`: a journal as one file, and back."""

import argparse
import os
from pathlib import Path

from syndicated.cli.serve import PREFIX, default_store
from syndicated.store.backup import backup, restore


def add_backup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a new file")
    add_store(parser)
    parser.set_defaults(command=_backup)


def add_restore(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a file that backup wrote")
    add_store(parser)
    parser.set_defaults(command=_restore)


def add_store(parser: argparse.ArgumentParser) -> None:
    store = f"a file, or postgresql://... (default: {PREFIX}STORE, or a file in the user's data folder)"
    parser.add_argument("--store", default=os.environ.get(f"{PREFIX}STORE"), metavar="ADDRESS", help=store)


def _backup(options: argparse.Namespace) -> None:
    count = backup(options.store or str(default_store()), options.file)
    print(f"{options.file} has {count} events")


def _restore(options: argparse.Namespace) -> None:
    count = restore(options.file, options.store or str(default_store()))
    print(f"the journal has the {count} events of {options.file}")
