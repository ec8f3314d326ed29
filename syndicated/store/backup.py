"""Backups: a journal as one file, and back."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from syndicated.errors import InputError
from syndicated.store import SQLite, copy, file_of, open_store

__all__ = ["backup", "restore"]


def backup(address: str, file: Path) -> int:
    """Copy a journal, also while it is in use, into a new file, and return how many events it has.

    Only the owner may read the file. It is complete, or it does not exist.
    """
    if file.exists():
        raise InputError(f"a backup must go into a new file; {file} exists")
    journal = file_of(address)
    if journal is not None and not journal.exists():
        raise InputError(f"a backup must be of a journal; there is no file {journal}")
    with closing(open_store(address, read_only=True)) as source, new_journal(file) as target:
        return copy(source, target)


@contextmanager
def new_journal(file: Path) -> Iterator[SQLite]:
    """A journal that becomes this file at the end, if nothing fails. Only its owner may read it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".journal-", dir=file.parent) as folder:
        part = Path(folder, file.name)
        part.touch(mode=0o600)
        with closing(SQLite(part)) as journal:
            yield journal
        _leave_wal_mode(part)
        part.rename(file)


def restore(file: Path, address: str) -> int:
    """Fill an empty journal of any kind from a backup, and return how many events it has."""
    if not file.is_file():
        raise InputError(f"a backup must be a file; there is no {file}")
    with closing(open_store(f"sqlite:{file}", read_only=True)) as source, closing(open_store(address)) as target:
        return copy(source, target)


def _leave_wal_mode(file: Path) -> None:
    """Make the file complete by itself: SQLite then needs no second file beside it, and it can be moved and copied."""
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
