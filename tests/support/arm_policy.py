"""A small policy with a model for each arm, in plain loops: ridge regression of its own, and one that all share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from syndicated.policies.base import ArmPolicy
from syndicated.space import Space
from syndicated.streams import Stream
from syndicated.types import ArmRows, Arms, Array, Params


@dataclass(kw_only=True, eq=False)
class RidgeOfEachArm(ArmPolicy):
    """Optimism about a ridge regression of each arm on [x, 1], with no scaling. Rows may grow."""

    G: Array = field(init=False, repr=False)
    b: Array = field(init=False, repr=False)
    hyper: ClassVar[dict[str, tuple[float, float]]] = {"boldness": (0.0, 100.0)}
    exploring = ("boldness",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.G, self.b = np.zeros((0, self.dim + 1, self.dim + 1)), np.zeros((0, self.dim + 1))

    @property
    def space(self) -> Space:
        return Space(boldness=[0.5, 1.0, 2.0])

    def theory(self, t: int, given: Params) -> dict[str, float]:
        return {"boldness": 1.0, **given}

    def _predict(self, number: int, x: Array) -> tuple[float, float]:
        """The reward that is expected of a row, and its standard deviation in units of the noise."""
        size = max(self.b.shape[1], len(x) + 1)
        z, V, b = np.zeros(size), np.eye(size), np.zeros(size)
        z[0], z[1 : len(x) + 1] = 1.0, x
        known = self.b.shape[1]
        if 0 <= number < len(self.b):
            V[:known, :known] += self.G[number]
            b[:known] = self.b[number]
        return float(z @ np.linalg.solve(V, b)), float(np.sqrt(z @ np.linalg.solve(V, z)))

    def scores(self, arms: Arms | ArmRows, points: Sequence[Params], rng: Stream) -> Array:
        rows = arms if isinstance(arms, ArmRows) else ArmRows(arms, np.zeros(len(arms), dtype=np.int64))
        seen = np.array([self._predict(n, x) for n, x in zip(rows.numbers.tolist(), rows.x, strict=True)])
        return np.array([seen[:, 0] + point["boldness"] * seen[:, 1] for point in points])

    def predict(self, arms: Arms | ArmRows, params: Params) -> Array:
        expected: Array = self.scores(arms, [{"boldness": 0.0}], Stream(0, 0))[0]
        return expected

    def learn_arm(self, number: int, x: Array, reward: float, params: Params) -> None:
        count, size = max(len(self.b), number + 1), max(self.b.shape[1], len(x) + 1)
        G, b = np.zeros((count, size, size)), np.zeros((count, size))
        known, width = self.b.shape
        G[:known, :width, :width], b[:known, :width] = self.G, self.b
        z = np.zeros(size)
        z[0], z[1 : len(x) + 1] = 1.0, x
        G[number] += np.outer(z, z)
        b[number] += reward * z
        self.G, self.b = G, b

    def retire_arm(self, number: int) -> None:
        self.G[number], self.b[number] = 0.0, 0.0

    def invalid_array(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> str | None:
        """Arms and columns may be more than at the start."""
        right = arrays["G"].shape == (*arrays["b"].shape, arrays["b"].shape[-1])
        return None if right else "G"
