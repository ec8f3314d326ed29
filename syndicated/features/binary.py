"""Binary bodies: many arms with vectors, read faster than from JSON. `syndicated_client.join_body` makes them."""

import json

import numpy as np

from syndicated._validation import check_count, check_features, shorten
from syndicated.errors import InputError
from syndicated.types import Array

__all__ = ["split_body"]


def split_body(data: bytes) -> tuple[bytes, Array]:
    """A binary body as its JSON head and its table of arms.

    The body is the length of the head (32 bits), the head, and K * d numbers of 32 bits in the order of rows, all
    little-endian. The head's `shape` is [K, d]; its `arms`, if it has them, are K ids.
    """
    head = head_of(data)
    K, d = _shape(head)
    rest = len(data) - 4 - len(head)
    if rest != 4 * K * d:
        raise InputError(f"a binary body of shape [{K}, {d}] must have {4 * K * d} bytes after its head; got {rest}")
    X = np.frombuffer(data, "<f4", offset=4 + len(head)).reshape(K, d).astype(np.float64)
    check_features(X)
    return head, X


def head_of(data: bytes) -> bytes:
    """The head of a binary body, which may be no JSON."""
    length = int.from_bytes(data[:4], "little")
    if len(data) < 4 + length:
        raise InputError(f"a binary body must hold 4 bytes and a head of {length}; got {len(data)} bytes")
    return bytes(data[4 : 4 + length])


def _shape(head: bytes) -> tuple[int, int]:
    try:
        thing = json.loads(head)
    except (ValueError, RecursionError):
        raise InputError(f"the head of a binary body must be JSON; got {shorten(head)}") from None
    if not isinstance(thing, dict):
        raise InputError(f"the head of a binary body must be an object; got {shorten(thing)}")
    shape = thing.get("shape")
    if not isinstance(shape, list) or len(shape) != 2:
        raise InputError(f"shape must be [K, d]; got {shorten(shape)}")
    K, d = check_count("shape[0]", shape[0]), check_count("shape[1]", shape[1])
    ids = thing.get("arms")
    if ids is not None and (not isinstance(ids, list) or len(ids) != K):
        raise InputError(f"arms must be a list of shape[0] = {K} ids; got {shorten(ids)}")
    return K, d
