"""A saved state: arrays plus JSON in one file (a zip of .npy members), with a format version. Never pickle.

After the zip comes its SHA-256, so that a file that was cut short or damaged is noticed. Anyone can compute a SHA-256:
the rest of the file is checked too, not trusted.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from syndicated._validation import shorten
from syndicated.errors import StateError

STATE_VERSION = 1  # raise it when what a saved state says changes its meaning
DIGEST = 32
Arrays = Mapping[str, npt.NDArray[np.generic]]


def pack(head: Mapping[str, Any], arrays: Arrays) -> bytes:
    """One file out of a JSON-ready head and named arrays."""
    pieces: list[bytes] = []
    pack_into(pieces.append, head, arrays)
    return b"".join(pieces)


def pack_into(take: Callable[[bytes], object], head: Mapping[str, Any], arrays: Arrays) -> None:
    """Give the file that `pack` makes in pieces, none of which takes long, to one who takes them."""
    text = json.dumps({"version": STATE_VERSION, **head})
    out = _Sealed(take)
    np.savez(out, allow_pickle=False, __head__=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)
    take(out.digest())


class _Sealed(io.RawIOBase):
    """What a zip is written to, with the SHA-256 of it."""

    def __init__(self, take: Callable[[bytes], object]) -> None:
        self._take, self._hash = take, hashlib.sha256()
        self.digest = self._hash.digest

    def write(self, data: Any) -> int:
        self._hash.update(data)
        self._take(data)
        return len(data)


def unpack(data: bytes) -> tuple[dict[str, Any], Arrays]:
    """Head and arrays of a file that `pack` wrote.

    It may be large: nothing here keeps other threads from their turn for as long as it takes to copy the whole.
    """
    if not isinstance(data, bytes):  # a column of a damaged journal may hold anything
        raise StateError(f"a state must be bytes; got {shorten(data)}")
    content, digest = memoryview(data)[:-DIGEST], data[-DIGEST:]
    if hashlib.sha256(content).digest() != digest:
        raise StateError(f"a state must be a whole file as state() gave it; got {len(data)} other bytes")
    try:
        arrays = _members(content)
        head = dict(json.loads(arrays.pop("__head__").tobytes()))
    except Exception as error:
        must = "a state must be a zip of arrays, not compressed, and a JSON object"
        raise StateError(f"{must}; reading it gave {shorten(error)}") from None
    if head.get("version") != STATE_VERSION:
        raise StateError(f"a state must have format version {STATE_VERSION}; got {shorten(head.get('version'))}")
    return head, arrays


class _View(io.RawIOBase):
    """Bytes as a file, of which only what is read is copied."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._place = data, 0

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: len(self._data)}[whence]
        if start + offset < 0:
            raise OSError("a place before the start")
        self._place = start + offset
        return self._place

    def readinto(self, target: Any) -> int:
        part = self._data[self._place : self._place + len(target)]
        target[: len(part)] = part
        self._place += len(part)
        return len(part)


def _members(content: memoryview) -> dict[str, npt.NDArray[np.generic]]:
    """The arrays of a zip; none if they would be larger than the zip itself."""
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    with zipfile.ZipFile(_View(content)) as archive:
        infos = archive.infolist()
        plain = all(info.compress_type == zipfile.ZIP_STORED for info in infos)
        plain = plain and sum(info.file_size for info in infos) <= len(content)
        for info in infos if plain else ():
            with archive.open(info) as member:  # read in pieces, with its checksum
                arrays[info.filename.removesuffix(".npy")] = np.lib.format.read_array(member, allow_pickle=False)
    return arrays
