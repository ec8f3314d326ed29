"""Copies of models that are made in pieces."""

from collections.abc import Iterable

from syndicated._learner import PIECE_BYTES, RowsCopy


def finish(copies: Iterable[RowsCopy]) -> None:
    """Make all that is left of them."""
    for copy in copies:
        while not copy.finished:
            copy.advance(PIECE_BYTES)
