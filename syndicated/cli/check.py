"""`syndicated verify` and `syndicated repair`: whether a journal is whole, and what can be saved of it."""

import argparse
from contextlib import ExitStack, closing
from pathlib import Path

from syndicated._extras import extra
from syndicated.cli.backup import add_store
from syndicated.cli.serve import add_stores, default_store, stores_of
from syndicated.errors import SyndicatedError
from syndicated.store import check_group, open_store


def add_verify(parser: argparse.ArgumentParser) -> None:
    add_stores(parser)
    parser.set_defaults(command=_verify)


def add_repair(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a new file")
    add_store(parser)
    parser.set_defaults(command=_repair)


def _verify(options: argparse.Namespace) -> None:
    with extra("serve", "a check of a journal"):
        from syndicated.service.core.journal_check import verify
    count = 0
    with ExitStack() as stack:
        addresses = stores_of(options)
        stores = [stack.enter_context(closing(open_store(address, read_only=True))) for address in addresses]
        check_group(stores)
        for number, store in enumerate(stores, 1):
            which = f"journal {number}" if len(stores) > 1 else "the journal"
            faults = verify(store)
            for fault in faults:
                print(fault if len(stores) == 1 else f"{which}: {fault}")
            if not faults:
                print(f"{which} is whole, up to event {store.last()}")
            count += len(faults)
    if count:
        raise SyndicatedError(f"the journal has {count} faults; `syndicated repair` saves what is not damaged")


def _repair(options: argparse.Namespace) -> None:
    with extra("serve", "a repair of a journal"):
        from syndicated.service.core.journal_check import repair
    repaired = repair(options.store or str(default_store()), options.file)
    for fault in repaired.faults:
        print(f"left out: {fault}")
    print(f"{options.file} has {repaired.events} events and {repaired.snapshots} snapshots")
    if not repaired.can_start:
        raise SyndicatedError(f"no service can start from {options.file}: too much is lost")
