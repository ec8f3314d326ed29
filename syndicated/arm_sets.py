"""Arm sets: infinitely many arms, given where a table of rows is given.

A policy that can play one needs two things of it only: the arm that is best for a linear reward, and a random arm.
"""

import numpy as np
import numpy.typing as npt

from syndicated._validation import MAX_MAGNITUDE, check_count, check_number, shorten
from syndicated.errors import InputError
from syndicated.streams import Stream
from syndicated.types import Array

__all__ = ["ArmSet"]


class ArmSet:
    """A convex set of arms, each a vector of `dim` features."""

    dim: int

    def best(self, directions: Array) -> Array:
        """(n, dim) directions v -> (n, dim) arms x with the largest x'v. If v is 0, any arm will do."""
        raise NotImplementedError

    def draw(self, rng: Stream) -> Array:
        """An arm at random, so that every direction is met."""
        raise NotImplementedError


class Ellipsoid(ArmSet):
    """All x = centre + Σ u_i a_i with |u| <= 1: the a_i, its semi-axes, are the rows of `axes`.

    The best arm for x'v is centre + A'A v / |A v|; without a `centre` it is 0.

    >>> Ellipsoid([[2.0, 0.0], [0.0, 1.0]]).best(np.array([[1.0, 0.0], [0.0, -3.0]])).tolist()
    [[2.0, 0.0], [0.0, -1.0]]
    """

    def __init__(self, axes: npt.ArrayLike, centre: npt.ArrayLike | None = None) -> None:
        self.axes = _numbers("the axes of an ellipsoid", axes)
        if self.axes.ndim != 2 or not self.axes.size:
            raise InputError(f"the axes of an ellipsoid must be rows of numbers; got shape {self.axes.shape}")
        self.dim = self.axes.shape[1]
        self.centre = _numbers("the centre", np.zeros(self.dim) if centre is None else centre)
        if self.centre.shape != (self.dim,):
            raise InputError(f"the centre must have {self.dim} numbers, as the axes; got shape {self.centre.shape}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dim={self.dim}, {len(self.axes)} axes)"

    def best(self, directions: Array) -> Array:
        return self._at(_unit_vectors(directions @ self.axes.T))

    def draw(self, rng: Stream) -> Array:
        k = len(self.axes)
        radius = rng.uniforms(1)[0] ** (1 / k)
        arm: Array = self._at(radius * _unit_vectors(rng.normals(k)[None]))[0]
        return arm

    def _at(self, u: Array) -> Array:
        return self.centre + u @ self.axes


class Ball(Ellipsoid):
    """All x with |x - centre| <= radius.

    >>> Ball(dim=2, radius=2.0).best(np.array([[3.0, 4.0]])).round(6).tolist()
    [[1.2, 1.6]]
    """

    def __init__(self, dim: int, radius: float = 1.0, centre: npt.ArrayLike | None = None) -> None:
        radius = check_number("the radius of a ball", radius, low=0.0, high=MAX_MAGNITUDE)
        super().__init__(radius * np.eye(check_count("dim", dim)), centre)

    def __repr__(self) -> str:
        return f"Ball(dim={self.dim}, radius={self.axes[0, 0]:g})"


def _numbers(what: str, given: npt.ArrayLike) -> Array:
    try:
        numbers = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} must be numbers; got {shorten(given)}") from None
    if not (np.abs(numbers) <= MAX_MAGNITUDE).all():
        raise InputError(f"{what} must be finite and at most {MAX_MAGNITUDE:g} in size; got {shorten(given)}")
    numbers.flags.writeable = False
    return numbers


def _unit_vectors(rows: Array) -> Array:
    """Rows divided by their length; 0 where that is 0."""
    largest = np.abs(rows).max(axis=1, keepdims=True)  # so that no square is too large or too small
    scaled = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0.0)
    lengths = np.sqrt((scaled**2).sum(axis=1, keepdims=True))
    units: Array = np.divide(scaled, lengths, out=np.zeros_like(rows), where=lengths > 0.0)
    return units
