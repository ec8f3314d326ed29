"""A journal whose file SQLite refuses, or reads only in part: a copy that can be read as far as possible."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from syndicated.store import DamageError, SQLite, Store, StoreError, file_of, open_store
from syndicated.store._wal import USUAL_PAGE_BYTES, read_wal

SCHEMA = "SELECT type, name, rootpage, sql FROM sqlite_master ORDER BY rowid"
# Places in the first page.
MODES = slice(18, 20)  # of writing and reading: 1, or 2 with a write-ahead log
CHANGES, CHANGES_COUNTED = slice(24, 28), slice(92, 96)  # the same if the count of pages is to be believed
PAGES, FREE_PAGES = slice(28, 32), slice(32, 40)


@contextmanager
def readable(address: str) -> Iterator[tuple[Store, list[str]]]:
    """The journal at an address, to be read, and what is wrong with its file.

    If SQLite cannot open it, or not read all of its write-ahead log, this is a copy: with all pages of that log that
    are what was written, also after one that is not, and with the first page of a new journal where its own is damaged.
    """
    file = file_of(address)
    if file is None:
        with closing(open_store(address, read_only=True)) as store:
            yield store, []
        return
    wal = read_wal(file)
    faults = [wal.damage] if wal is not None and wal.damage else []
    try:
        if faults:
            raise DamageError(faults[0])
        store = SQLite(file, read_only=True)
    except StoreError as error:
        if not file.is_file():
            raise
        with TemporaryDirectory(prefix=".journal-", dir=file.parent) as folder:
            copy = Path(folder, "copy.db")
            copyfile(file, copy)
            if wal is not None:
                wal.apply_to(copy)
            _mend_first_page(copy, Path(folder, "new.db"))
            with closing(SQLite(copy, read_only=True)) as store:
                yield store, faults or [str(error)]
    else:
        with closing(store):
            yield store, []


def _mend_first_page(file: Path, new: Path) -> None:
    """Give a file the first page of a new journal if its own is damaged, and let it have the pages that there are.

    Tables are made in the same order in every journal, so that they begin at the same pages.
    """
    SQLite(new).close()
    with closing(sqlite3.connect(new)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        schema = db.execute(SCHEMA).fetchall()
    with open(file, "r+b") as target:
        first = target.read(USUAL_PAGE_BYTES)
        pages = target.seek(0, 2) // USUAL_PAGE_BYTES
        for page in (first, new.read_bytes()[:USUAL_PAGE_BYTES]):
            mended = bytearray(page)
            mended[MODES] = bytes([1, 1])
            mended[PAGES] = pages.to_bytes(4, "big")
            mended[CHANGES_COUNTED] = mended[CHANGES]
            mended[FREE_PAGES] = bytes(8)
            target.seek(0)
            target.write(mended)
            target.flush()
            if _schema(file) == schema:
                return


def _schema(file: Path) -> list[tuple[object, ...]] | None:
    """What the first page says of the tables, if it can be read."""
    try:
        with closing(sqlite3.connect(file)) as db:
            return db.execute(SCHEMA).fetchall()
    except (sqlite3.Error, UnicodeDecodeError):
        return None
