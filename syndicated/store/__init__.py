"""Journals: `open_store` finds the kind by the scheme of its address."""

from pathlib import Path

from syndicated.errors import InputError
from syndicated.store._base import (
    DamageError,
    Event,
    Held,
    Snapshot,
    Store,
    StoreConflictError,
    StoreError,
    UnknownCommitError,
    copy,
)
from syndicated.store._group import check_group, form_group, place_of
from syndicated.store._sqlite import SQLite

__all__ = [
    "SCHEMES",
    "DamageError",
    "Event",
    "Held",
    "SQLite",
    "Snapshot",
    "Store",
    "StoreConflictError",
    "StoreError",
    "UnknownCommitError",
    "check_group",
    "copy",
    "form_group",
    "open_store",
    "place_of",
]

SCHEMES = ("sqlite", "postgresql")


def open_store(address: str, *, read_only: bool = False) -> Store:
    """The journal at `postgresql://...`, `sqlite:FILE`, or in the file of that name."""
    file = file_of(address)
    if file is not None:
        return SQLite(file, read_only=read_only)
    scheme, colon, _ = address.partition(":")
    if scheme in ("postgresql", "postgres"):
        from syndicated.store._postgres import Postgres  # needs the extra `postgres`

        return Postgres(address, read_only=read_only)
    raise InputError(f"a journal must be a file or an address of {', '.join(SCHEMES)}; got {scheme + colon!r}")


def file_of(address: str) -> Path | None:
    """The file of an address that names one."""
    scheme, colon, rest = address.partition(":")
    return Path(rest if colon else address) if not colon or scheme == "sqlite" else None
