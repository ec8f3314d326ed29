"""`syndicated backup` and `syndicated restore`: a journal as one file, and back."""

import argparse
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from syndicated.cli.serve import PREFIX, default_store
from syndicated.errors import InputError
from syndicated.store import SQLite, copy, open_store


def add_command(commands: Any) -> None:
    """Add both commands."""
    save = commands.add_parser("backup", help="copy a service's journal into a file, also while it serves")
    save.add_argument("file", type=Path, metavar="FILE", help="a new file")
    _add_store(save)
    save.set_defaults(command=_backup)
    load = commands.add_parser("restore", help="fill an empty journal from a backup")
    load.add_argument("file", type=Path, metavar="FILE", help="what backup wrote")
    _add_store(load)
    load.set_defaults(command=_restore)


def _add_store(parser: argparse.ArgumentParser) -> None:
    store = f"a file, or postgresql://... (default: {PREFIX}STORE, or a file in the user's data folder)"
    parser.add_argument("--store", default=os.environ.get(f"{PREFIX}STORE"), metavar="ADDRESS", help=store)


def _backup(options: argparse.Namespace) -> None:
    count = backup(options.store or str(default_store()), options.file)
    print(f"{count} events are in {options.file}")


def _restore(options: argparse.Namespace) -> None:
    count = restore(options.file, options.store or str(default_store()))
    print(f"{count} events of {options.file} are in the journal")


def backup(address: str, file: Path) -> int:
    """Copy a journal into a new file that only its owner may read; how many events. The file is whole or not there."""
    if file.exists():
        raise InputError(f"a backup must go into a new file; there is a {file}")
    journal = address.removeprefix("sqlite:")
    if (journal != address or ":" not in address) and not Path(journal).exists():
        raise InputError(f"a backup must be of a journal; there is no file {journal}")
    with closing(open_store(address, read_only=True)) as source:
        file.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".backup-", dir=file.parent) as folder:
            part = Path(folder, file.name)
            part.touch(mode=0o600)
            with closing(SQLite(part)) as target:
                count = copy(source, target)
            _settle(part)
            part.rename(file)
    return count


def restore(file: Path, address: str) -> int:
    """Fill an empty journal of any kind from a backup; how many events."""
    if not file.is_file():
        raise InputError(f"a backup must be a file; there is no {file}")
    with closing(open_store(f"sqlite:{file}", read_only=True)) as source, closing(open_store(address)) as target:
        return copy(source, target)


def _settle(file: Path) -> None:
    """Leave no journal of SQLite's own beside the file, so that it may be moved, and read from anywhere."""
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
