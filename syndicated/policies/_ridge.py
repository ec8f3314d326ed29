"""Ridge regression under several penalties at once, and what the policies that stand on it share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from syndicated.errors import LIMIT, check_number
from syndicated.policies._kernels import (
    dot,
    learn_factors,
    learn_inverses,
    squares,
    ucb_scores,
    ucb_scores_by_number,
    update_squares,
)
from syndicated.policies.base import Policy
from syndicated.types import Arms, Array, Ints, Learner, Params

REFRESH = 1000  # observations after which inverses and factors are computed anew from G, against drift
MOST_LOST = 1e8  # what one rank-one update may cost in precision before they are computed anew at once
LEAST_SEEN = 1e-14  # of the trace of G: a smaller penalty would be rounded away, and V might be singular


class Rows(NamedTuple):
    """For each of several penalties V⁻¹ (or its factor), theta, and x' V⁻¹ x of a catalogue; the row of each point."""

    stack: Array
    thetas: Array
    squared: Array
    of: Ints


@dataclass(eq=False)
class Ridge(Learner):
    """The shared model: G, b, and for each kept penalty V⁻¹ (or the C with C C' = V) and theta = V⁻¹ b.

    With a catalogue of arms the inverses come with x' V⁻¹ x of each, kept up to date in O(N d) a penalty.
    """

    size: int
    factored: bool = False
    G: Array = field(init=False)
    b: Array = field(init=False)
    lams: Array = field(init=False)
    stack: Array = field(init=False)
    thetas: Array = field(init=False)
    squared: Array = field(init=False)
    count: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.G, self.b = np.zeros((self.size, self.size)), np.zeros(self.size)
        self.keep([], np.zeros((self.size, 0)))

    def keep(self, lams: Sequence[float], catalogue: Array) -> None:
        """From now on hold an inverse or factor for each of these penalties, for the arms of this catalogue."""
        self.lams = np.unique(np.array(lams, dtype=np.float64))
        self._catalogue = catalogue
        self.stack, self.thetas, self.squared = self._build(self.lams)
        self._places: dict[tuple[float, ...], Ints] = {}

    def select(self, lams: Sequence[float]) -> Rows:
        """What is held for the penalties asked for; others than the kept are built."""
        key = tuple(lams)
        if key not in self._places:
            if not set(key) <= set(self.lams.tolist()):
                return Rows(*self._build(np.array(lams)), np.arange(len(lams)))
            self._places[key] = np.searchsorted(self.lams, key)
        return Rows(self.stack, self.thetas, self.squared, self._places[key])

    def learn(self, x: Array, reward: float) -> None:
        self.count += 1
        if self.squared.size:
            update_squares(self.squared, self._catalogue, self.stack, x)
        update = learn_factors if self.factored else learn_inverses
        lost = update(self.G, self.b, self.stack, self.thetas, x, reward)
        if self.count % REFRESH == 0 or not lost < MOST_LOST:
            self.stack, self.thetas, self.squared = self._build(self.lams)

    def _build(self, lams: Array) -> tuple[Array, Array, Array]:
        seen = np.maximum(lams, LEAST_SEEN * np.trace(self.G))
        V = seen[:, None, None] * np.eye(self.size) + self.G
        thetas = np.linalg.solve(V, np.broadcast_to(self.b[:, None], (len(V), self.size, 1)))[:, :, 0]
        stack = np.linalg.cholesky(V) if self.factored else np.linalg.inv(V)
        squared = np.zeros((len(V), 0 if self.factored else self._catalogue.shape[1]))
        for row in range(len(V) if squared.size else 0):
            squared[row] = squares(self._catalogue, stack[row])
        return np.ascontiguousarray(stack), np.ascontiguousarray(thetas), squared


@dataclass(kw_only=True, eq=False)
class RidgePolicy(Policy):
    """A policy that explores at rate `alpha` along the confidence ellipsoid of a ridge model with penalty `lam`.

    `delta` (the error probability), `S` (a bound on |theta|) and `L` (one on |x|) enter the theoretical value only:

        alpha(t) = sigma sqrt(d log((1 + t L²/lam) / delta)) + S sqrt(lam)      (equation 3 of the paper)
    """

    delta: float = 0.1
    S: float = 1.0
    L: float = 1.0
    hyper: ClassVar[dict[str, tuple[float, float]]] = {"alpha": (0.0, 1e12), "lam": (1e-12, 1e12)}
    factored: ClassVar[bool] = False
    model: Ridge = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("delta", self.delta, low=1e-300, high=1.0)
        check_number("S", self.S, low=0.0, high=LIMIT)
        check_number("L", self.L, low=0.0, high=LIMIT)
        self.model = Ridge(self.size, self.factored)

    def theory(self, t: int, given: Params) -> dict[str, float]:
        params = {"lam": 1.0, **given}
        if "alpha" not in params:
            lam = params["lam"]
            log = math.log((1 + t * self.L**2 / lam) / self.delta)
            params["alpha"] = self.sigma * math.sqrt(self.size * log) + self.S * math.sqrt(lam)
        return params

    def prepare(self, points: Sequence[Params], catalogue: Array | None = None) -> None:
        super().prepare(points, catalogue)
        self.model.keep([point["lam"] for point in points], self.catalogue)

    def optimistic(self, arms: Arms, points: Sequence[Params], rows: Rows, thetas: Array) -> Array:
        """x' theta + alpha sqrt(x' V⁻¹ x) for every point and arm."""
        alphas, out = np.array([point["alpha"] for point in points]), np.empty((len(points), len(arms)))
        if arms.ndim == 2:
            ucb_scores(out, arms, rows.stack, thetas, rows.of, alphas)
        else:
            ucb_scores_by_number(out, arms, self.catalogue, rows.squared, thetas, rows.of, alphas)
        return out

    def predict(self, arms: Arms, params: Params) -> Array:
        rows = self.model.select([params["lam"]])
        return dot(self.columns(arms), rows.thetas[rows.of[0]])

    def learn(self, x: Array, reward: float, params: Params) -> None:
        self.model.learn(x, reward)
