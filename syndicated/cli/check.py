"""`syndicated verify` and `syndicated repair`: whether a journal is whole, and what can be saved of it."""

import argparse
from contextlib import closing
from pathlib import Path

from syndicated._extras import extra
from syndicated.cli.backup import add_store
from syndicated.cli.serve import default_store
from syndicated.errors import SyndicatedError
from syndicated.store import open_store


def add_verify(parser: argparse.ArgumentParser) -> None:
    add_store(parser)
    parser.set_defaults(command=_verify)


def add_repair(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a new file")
    add_store(parser)
    parser.set_defaults(command=_repair)


def _verify(options: argparse.Namespace) -> None:
    with extra("serve", "a check of a journal"):
        from syndicated.service.core.journal_check import verify
    with closing(open_store(options.store or str(default_store()), read_only=True)) as store:
        faults, count = verify(store), store.last()
    for fault in faults:
        print(fault)
    if faults:
        must = "`syndicated repair` saves what is not damaged"
        raise SyndicatedError(f"the journal has {len(faults)} faults; {must}")
    print(f"the journal is whole, up to event {count}")


def _repair(options: argparse.Namespace) -> None:
    with extra("serve", "a repair of a journal"):
        from syndicated.service.core.journal_check import repair
    repaired = repair(options.store or str(default_store()), options.file)
    for fault in repaired.faults:
        print(f"left out: {fault}")
    print(f"{options.file} has {repaired.events} events and {repaired.snapshots} snapshots")
