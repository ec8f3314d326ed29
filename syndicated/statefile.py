"""A saved state: arrays plus JSON in one file (a zip of .npy members), with a format version. Never pickle.

Behind the zip stands the SHA-256 of what is before it, so a file that was cut short or damaged is noticed.
"""

import hashlib
import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from syndicated.errors import StateError

VERSION = 1
DIGEST = 32
Arrays = Mapping[str, npt.NDArray[np.generic]]


def pack(head: Mapping[str, Any], arrays: Arrays) -> bytes:
    """One file out of a JSON-ready head and named arrays."""
    text = json.dumps({"version": VERSION, **head})
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, __head__=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)
    return out.getvalue() + hashlib.sha256(out.getvalue()).digest()


def unpack(data: bytes) -> tuple[dict[str, Any], Arrays]:
    """Head and arrays of a file that `pack` wrote."""
    content, digest = data[:-DIGEST], data[-DIGEST:]
    if hashlib.sha256(content).digest() != digest:
        raise StateError(f"a state must be a whole file as state() gave it; got {len(data)} other bytes")
    with np.load(io.BytesIO(content), allow_pickle=False) as members:
        arrays = {name: members[name] for name in members.files}
    head = json.loads(arrays.pop("__head__").tobytes())
    if head.get("version") != VERSION:
        raise StateError(f"a state must have format version {VERSION}; got {head.get('version')}")
    return head, arrays
