"""Data sets that may not be redistributed: fetched once into the user's cache and verified, never shipped.

MovieLens 100K comes from a file that the user names, from GroupLens, or from the copy inside a package on the Python
package index, tried in this order. Whatever the source, what is kept is the same: a line with user, movie and rating,
separated by tabs, for each rating, in the order of users and movies, with a known SHA-256.
"""

import hashlib
import subprocess
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

import numpy as np
import numpy.typing as npt

from syndicated._extras import extra
from syndicated._files import write
from syndicated.datasets._wheels import archive_member, wheel_members
from syndicated.errors import DataError

GROUPLENS = "https://files.grouplens.org/datasets/movielens/ml-100k.zip"
PACKAGE, MEMBER = "recbole==1.2.1", "recbole/dataset_example/ml-100k/ml-100k.inter"
SHA256 = "273f855410feb093231e19c35b690a9098bed32c77d1aa7b33d7cdcfec2d8b11"
USERS, MOVIES, RATINGS = 943, 1_682, 100_000
NOTICE = """\
MovieLens 100K belongs to GroupLens Research (University of Minnesota): free for research, no redistribution, no
commercial use without permission. Cite F. M. Harper and J. A. Konstan, "The MovieLens Datasets: History and Context",
ACM Transactions on Interactive Intelligent Systems 5(4), 19:1-19:19, 2015."""

Ratings = npt.NDArray[np.int64]


def movielens(source: Path | None = None) -> Path:
    """The verified ratings in the cache; fetched if they are not there, or taken from `source` in any case."""
    file = cache() / "movielens-100k.txt"
    if source is not None or not file.exists():
        text = normalise(source.read_bytes(), str(source)) if source else _fetch()
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, text)
    _verify(_text(file.read_bytes()), f"{file}; remove it to fetch it again")
    return file


def ratings() -> Ratings:
    """(100000, 3): user and movie, both from 0, and the rating from 1 to 5."""
    table: Ratings = np.array(movielens().read_text().split(), dtype=np.int64).reshape(-1, 3)
    table[:, :2] -= 1
    return table


def cache() -> Path:
    """Where fetched and computed data are kept."""
    with extra("experiments", "the cache of data sets"):
        from platformdirs import user_cache_path
    return user_cache_path("syndicated")


def normalise(content: bytes, origin: str) -> str:
    """The ratings of GroupLens' `u.data` or `ml-100k.zip` or of RecBole's `ml-100k.inter`, as they are kept."""
    if content[:2] == b"PK":
        content = archive_member(content, "ml-100k/u.data", origin)
    rows = [line.split("\t")[:3] for line in _text(content).splitlines() if line[:1].isdigit()]
    try:
        table = np.array(rows, dtype=np.float64).reshape(-1, 3)
    except ValueError:
        raise DataError(f"ratings must be lines of user, movie, rating; got others in {origin}") from None
    text = "".join(f"{user:.0f}\t{movie:.0f}\t{rating:.0f}\n" for user, movie, rating in sorted(table.tolist()))
    _verify(text, origin)
    return text


def _text(content: bytes) -> str:
    return content.decode("ascii", "replace")


def _verify(text: str, origin: str) -> None:
    if hashlib.sha256(text.encode()).hexdigest() != SHA256:
        lines = text.count("\n")
        got = f"{lines:,} others" if lines == RATINGS else f"{lines:,}"
        raise DataError(f"the ratings must be the {RATINGS:,} of MovieLens 100K; got {got} from {origin}")


def _fetch() -> str:
    """From the first source that has it."""
    failures = []
    sources: dict[str, Callable[[], bytes]] = {"GroupLens": _grouplens, "the package index": _package}
    for name, get in sources.items():
        try:
            return normalise(get(), name)
        except (OSError, HTTPException, subprocess.SubprocessError, DataError) as error:
            failures.append(f"{name}: {error}")
    raise DataError(f"MovieLens 100K could not be fetched ({'; '.join(failures)}); give a file with --from")


def _grouplens() -> bytes:
    with urllib.request.urlopen(GROUPLENS, timeout=20) as answer:
        content: bytes = answer.read()
    return content


def _package() -> bytes:
    return wheel_members(PACKAGE, [MEMBER])[MEMBER]
