"""Ridge regression under several priors at once."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from syndicated._catalogue import put_columns
from syndicated._learner import Learner
from syndicated._models.kernels import (
    evidence,
    learn_factors,
    learn_inverses,
    learn_observations,
    squares,
    update_squares,
)
from syndicated.errors import InputError
from syndicated.types import Array, Ints, Params

REFRESH_ROUNDS = 1000  # observations after which inverses and factors are recomputed from G, against drift
MIN_PENALTY_LEFT = 0.5  # the share of the penalty that forgetting may leave before they are recomputed
MAX_PRECISION_LOSS = 1e8  # what one rank-one update may cost in precision before they are recomputed at once
MIN_PENALTY_SHARE = 1e-11  # a dimension, of a column in G: a smaller penalty is rounded away if columns are alike
NO_INTERCEPT_PENALTY = 1e200  # of an intercept that is not there


class Prior(NamedTuple):
    """What is believed before the data: the penalty, whether there is an intercept, what a round leaves of the past.

    theta = V⁻¹ b,   V = lam I + Σ memory^(age) x x',   b = Σ memory^(age) x r

    Forgetting shrinks lam too. V is recomputed before half of lam is gone.
    """

    lam: float
    intercept: float = 1.0
    memory: float = 1.0


class Solutions(NamedTuple):
    """For each of several priors V⁻¹ (or its factor), theta, and x' V⁻¹ x of a catalogue; the row of each point."""

    stack: Array
    thetas: Array
    squared: Array
    rows: Ints


@dataclass(eq=False)
class Ridge(Learner):
    """The shared model: for each kept prior V⁻¹ (or the C with C C' = V), theta = V⁻¹ b, and how well it predicted.

    `G` and `b` are kept once for each memory. `tallies` hold, for each prior and over all observations before they were
    learned, e = r - x'theta and w = x' V⁻¹ x:   Σ e²/(1 + w) and the count, both forgetting as the prior does, for the
    noise; Σ e²/(1 + w) and Σ log(1 + w), forgetting slowly, for the evidence. With a catalogue of arms the inverses
    come with x' V⁻¹ x of each, kept up to date in O(N d) a prior.
    """

    dim: int
    intercept: bool
    factored: bool = False
    G: Array = field(init=False)
    b: Array = field(init=False)
    stack: Array = field(init=False)
    thetas: Array = field(init=False)
    squared: Array = field(init=False)
    tallies: Array = field(init=False)
    count: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.size = self.dim + self.intercept
        self.centre, self.unit, self.level = (
            np.zeros(self.dim),
            np.ones(self.dim),
            0.0,
        )  # features and rewards as they come
        self.origin_weights = np.ones(self.size)  # of the columns' penalties, in a model through the origin
        self.keep([], np.zeros((self.size, 0)))

    def keep(self, priors: Sequence[Prior], catalogue: Array) -> None:
        """Before the first observation: hold an inverse or factor for each of these, for the arms of this catalogue."""
        self.priors = sorted(set(priors))
        self._memories = sorted({prior.memory for prior in self.priors} | {1.0})
        self._gammas = np.array(self._memories)
        self._of_memory = np.array([self._memories.index(prior.memory) for prior in self.priors], dtype=np.int64)
        fade = math.log(MIN_PENALTY_LEFT) / min(-1e-9, math.log(self._memories[0]))
        self._refresh = max(1, min(REFRESH_ROUNDS, math.floor(fade)))
        self.catalogue, self._arms = catalogue, catalogue.shape[1]
        self._selected: dict[tuple[tuple[float, float, float], ...], Solutions] = {}
        self._rows_like: dict[tuple[float | None, ...], list[int]] = {}
        self._likeliest: int | None = None  # of all priors; like the next, until something is learned
        self._noise: tuple[int, float] | None = None  # of a row
        self.G = np.zeros((len(self._memories), self.size, self.size))
        self.b = np.zeros((len(self._memories), self.size))
        self.tallies = np.zeros((len(self.priors), 4))
        self.stack, self.thetas, self.squared = self._build(self.priors)

    def put(self, numbers: Ints, columns: Array) -> None:
        """Give these arms of the catalogue these features."""
        self._arms = max(self._arms, int(numbers.max()) + 1)
        self.catalogue = put_columns(self.catalogue, numbers, columns)
        if not self.factored:
            widths = np.array([squares(columns, each) for each in self.stack]).reshape(len(self.stack), len(numbers))
            self.squared = put_columns(self.squared, numbers, widths)
        self._selected.clear()

    def select(self, priors: Sequence[tuple[float, float, float]]) -> Solutions:
        """The solutions for these priors; those of priors that are not kept are computed."""
        key = tuple(priors)
        found = self._selected.get(key)
        if found is None:
            wanted = [Prior(*values) for values in key]
            if not set(wanted) <= set(self.priors):
                return Solutions(*self._build(wanted), np.arange(len(key)))
            index = np.array([self.priors.index(prior) for prior in wanted], dtype=np.int64)
            found = self._selected[key] = Solutions(self.stack, self.thetas, self.squared, index)
        return found

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        super().restore(arrays)
        self.catalogue = np.ascontiguousarray(self.catalogue[:, : self._arms])  # as many as have squared widths now
        self._selected.clear()
        self._likeliest = self._noise = None

    def _history(self) -> dict[str, object]:
        return {**super()._history(), "squared": self.squared[:, : self._arms]}  # without the room for more

    def noise(self, row: int) -> float:
        """The noise as this prior's one-step errors show it; 1 as long as there was none."""
        if self._noise is None or self._noise[0] != row:
            errors, count = self.tallies[row, 0], self.tallies[row, 1]
            self._noise = row, math.sqrt(errors / count) if errors > 0 else 1.0
        return self._noise[1]

    def estimate(self, given: Params) -> tuple[Prior, float]:
        """The likeliest prior with the given values, and the noise under it."""
        row = self.likeliest(given)
        return self.priors[row], self.noise(row)

    def likeliest(self, given: Params) -> int:
        """The row with the most evidence among those whose prior has the given values."""
        if len(given) == 1 and self.priors and "boldness" in given:
            if self._likeliest is None:
                self._likeliest = evidence(self.tallies, self.count)
            return self._likeliest
        rows = self.like(given)
        return rows[evidence(self.tallies[rows], self.count)]

    def like(self, given: Params) -> list[int]:
        """The rows whose prior has the given values."""
        wanted = tuple(given.get(name) for name in Prior._fields)
        rows = self._rows_like.get(wanted)
        if rows is None:
            rows = [row for row, prior in enumerate(self.priors) if _agrees(prior, wanted)]
            if not rows:
                raise InputError(f"points in natural units must be prepared before the first round; got {dict(given)}")
            self._rows_like[wanted] = rows
        return rows

    def sums(self) -> tuple[Array, Array, float]:
        """Σ v v', Σ v r and Σ r² over all that was learned, with v = (x, 1); without an intercept, Σ x counts as 0."""
        whole = self._memories.index(1.0)
        row = [prior.memory for prior in self.priors].index(1.0)
        total = self.tallies[row, 0] + self.b[whole] @ self.thetas[row]  # since Σ e²/(1 + w) = Σ r² - b'V⁻¹b
        G, b = np.zeros((self.dim + 1, self.dim + 1)), np.zeros(self.dim + 1)
        G[: self.size, : self.size], b[: self.size] = self.G[whole], self.b[whole]
        G[-1, -1] = self.count
        return G, b, float(total)

    def learn(self, x: Array, reward: float) -> None:
        self.count += 1
        self._likeliest = self._noise = None
        if self.squared.size:
            update_squares(self.squared, self.catalogue, self.stack, self._gammas, self._of_memory, x)
        update = learn_factors if self.factored else learn_inverses
        self._keep_up(update(*self._statistics, x, reward))

    def learn_many(self, X: Array, rewards: Array) -> None:
        """`learn` one row after the other."""
        done = 0
        while done < len(X):
            if self.squared.size:
                self.learn(X[done], float(rewards[done]))
                done += 1
                continue
            end = done + self._looks_again_after
            given = X[done:end], rewards[done:end], self.factored, MAX_PRECISION_LOSS
            taken, lost = learn_observations(*self._statistics, *given)
            self.count, self._likeliest, self._noise = self.count + int(taken), None, None
            self._keep_up(lost)
            done += int(taken)

    @property
    def _statistics(self) -> tuple[Array, Array, Array, Array, Array, Array, Ints]:
        return self.G, self.b, self.stack, self.thetas, self.tallies, self._gammas, self._of_memory

    @property
    def _looks_again_after(self) -> int:
        """How many observations there are until inverses may be recomputed, but for lost precision."""
        return min(self._refresh - self.count % self._refresh, (1 << self.count.bit_length()) - self.count)

    def _keep_up(self, lost: float) -> None:
        """Recompute inverses, if it is time, or the last observation has cost too much precision."""
        if self._is_due or not lost < MAX_PRECISION_LOSS:
            self.stack, self.thetas, self.squared = self._build(self.priors)
            self._selected.clear()

    @property
    def _is_due(self) -> bool:
        """Whether inverses are recomputed: at times, and where a penalty is too small, whenever the count doubled.

        Else the penalty of the last time would be too small for what came since.
        """
        if self.count % self._refresh == 0:
            return True
        doubled = self.count & (self.count - 1) == 0
        return doubled and any(np.any(self._least(prior) > prior.lam * self.weights(prior)) for prior in self.priors)

    def _least(self, prior: Prior) -> Array:
        """The least penalty of each column, which may have any unit."""
        seen = np.diag(self.G[self._memories.index(prior.memory)])
        return MIN_PENALTY_SHARE * self.size * seen

    def weights(self, prior: Prior) -> Array:
        """What the penalty of each column is multiplied by under a prior."""
        return np.ones(self.size) if prior.intercept else self.origin_weights

    def rescale(self, factors: Array, origin_weights: Array) -> None:
        """Bring the statistics into new units, in which each column is so many times what it was."""
        self.G, self.b, self.origin_weights = self.G * np.outer(factors, factors), self.b * factors, origin_weights
        self.stack, self.thetas, self.squared = self._build(self.priors)
        self._selected.clear()

    def _build(self, priors: Sequence[Prior]) -> tuple[Array, Array, Array]:
        unknown = {prior.memory for prior in priors} - set(self._memories)
        if unknown:
            raise InputError(f"a memory must be kept from the first round on, as {self._memories}; got {min(unknown)}")
        of = [self._memories.index(prior.memory) for prior in priors]
        V, b = self.G[of], self.b[of]
        for row, prior in enumerate(priors):
            V[row] += np.diag(np.maximum(prior.lam * self.weights(prior), self._least(prior)))
            if self.intercept and not prior.intercept:
                V[row, -1, -1] = NO_INTERCEPT_PENALTY
        thetas = np.linalg.solve(V, b[:, :, None])[:, :, 0]
        stack = np.linalg.cholesky(V) if self.factored else np.linalg.inv(V)
        squared = np.zeros((len(V), 0 if self.factored else self.catalogue.shape[1]))
        for row in range(len(V) if squared.size else 0):
            squared[row] = squares(self.catalogue, stack[row])
        return np.ascontiguousarray(stack), np.ascontiguousarray(thetas), squared


def _agrees(prior: Prior, wanted: Sequence[float | None]) -> bool:
    return all(value is None or value == own for own, value in zip(prior, wanted, strict=True))
