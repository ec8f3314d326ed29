"""Ridge regression under several priors at once, and what the policies that use it share."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from syndicated._learner import Learner
from syndicated._validation import MAX_MAGNITUDE, check_number
from syndicated.errors import InputError
from syndicated.policies._kernels import (
    dot,
    evidence,
    learn_factors,
    learn_inverses,
    squares,
    ucb_scores,
    ucb_scores_by_number,
    update_squares,
)
from syndicated.policies.base import Policy
from syndicated.space import Space
from syndicated.types import Arms, Array, Ints, Params

REFRESH_ROUNDS = 1000  # observations after which inverses and factors are recomputed from G, against drift
MIN_PENALTY_LEFT = 0.5  # the share of the penalty that forgetting may leave before they are recomputed
MAX_PRECISION_LOSS = 1e8  # what one rank-one update may cost in precision before they are recomputed at once
MIN_PENALTY_SHARE = 1e-14  # of the trace of G: a smaller penalty would be rounded away, and V might be singular
NO_INTERCEPT_PENALTY = 1e200  # of an intercept that is not there
CANDIDATE_LAMS, CANDIDATE_MEMORIES = (1e-4, 1e-2, 1.0), (0.995, 1.0)  # what evidence chooses from


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
        self.keep([], np.zeros((self.size, 0)))

    def keep(self, priors: Sequence[Prior], catalogue: Array) -> None:
        """Before the first observation: hold an inverse or factor for each of these, for the arms of this catalogue."""
        self.priors = sorted(set(priors))
        self._memories = sorted({prior.memory for prior in self.priors} | {1.0})
        self._gammas = np.array(self._memories)
        self._of_memory = np.array([self._memories.index(prior.memory) for prior in self.priors], dtype=np.int64)
        fade = math.log(MIN_PENALTY_LEFT) / min(-1e-9, math.log(self._memories[0]))
        self._refresh = max(1, min(REFRESH_ROUNDS, math.floor(fade)))
        self._catalogue = catalogue
        self._selected: dict[tuple[tuple[float, float, float], ...], Solutions] = {}
        self._likeliest: int | None = None  # of all priors; like the next, until something is learned
        self._noise: tuple[int, float] | None = None  # of a row
        self.G = np.zeros((len(self._memories), self.size, self.size))
        self.b = np.zeros((len(self._memories), self.size))
        self.tallies = np.zeros((len(self.priors), 4))
        self.stack, self.thetas, self.squared = self._build(self.priors)

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
        self._selected.clear()
        self._likeliest = self._noise = None

    def noise(self, row: int) -> float:
        """The noise as this prior's one-step errors show it; 1 as long as there was none."""
        if self._noise is None or self._noise[0] != row:
            errors, count = self.tallies[row, 0], self.tallies[row, 1]
            self._noise = row, math.sqrt(errors / count) if errors > 0 else 1.0
        return self._noise[1]

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
        rows = [row for row, prior in enumerate(self.priors) if prior._asdict().items() >= _prior(given).items()]
        if not rows:
            raise InputError(f"points in natural units must be prepared before the first round; got {dict(given)}")
        return rows

    def learn(self, x: Array, reward: float) -> None:
        self.count += 1
        self._likeliest = self._noise = None
        if self.squared.size:
            update_squares(self.squared, self._catalogue, self.stack, self._gammas, self._of_memory, x)
        update = learn_factors if self.factored else learn_inverses
        statistics = self.G, self.b, self.stack, self.thetas, self.tallies
        lost = update(*statistics, self._gammas, self._of_memory, x, reward)
        if self.count % self._refresh == 0 or not lost < MAX_PRECISION_LOSS:
            self.stack, self.thetas, self.squared = self._build(self.priors)
            self._selected.clear()

    def _build(self, priors: Sequence[Prior]) -> tuple[Array, Array, Array]:
        unknown = {prior.memory for prior in priors} - set(self._memories)
        if unknown:
            raise InputError(f"a memory must be kept from the first round on, as {self._memories}; got {min(unknown)}")
        of = [self._memories.index(prior.memory) for prior in priors]
        V, b = self.G[of], self.b[of]
        for row, prior in enumerate(priors):
            seen = max(prior.lam, MIN_PENALTY_SHARE * np.trace(V[row]))
            V[row] += seen * np.eye(self.size)
            if self.intercept and not prior.intercept:
                V[row, -1, -1] = NO_INTERCEPT_PENALTY
        thetas = np.linalg.solve(V, b[:, :, None])[:, :, 0]
        stack = np.linalg.cholesky(V) if self.factored else np.linalg.inv(V)
        squared = np.zeros((len(V), 0 if self.factored else self._catalogue.shape[1]))
        for row in range(len(V) if squared.size else 0):
            squared[row] = squares(self._catalogue, stack[row])
        return np.ascontiguousarray(stack), np.ascontiguousarray(thetas), squared


def _prior(given: Params) -> dict[str, float]:
    return {name: given[name] for name in Prior._fields if name in given}


@dataclass(kw_only=True, eq=False)
class RidgePolicy(Policy):
    """A policy that explores at rate `alpha` along the confidence ellipsoid of a ridge model.

    The model has the penalty `lam`, an `intercept` or none, and the `memory` that a round leaves of what was before.
    `delta` (the error probability), `S` (a bound on |theta|) and `L` (one on |x|) enter the theoretical alpha only:

        alpha(t) = sigma sqrt(d log((1 + t L²/lam) / delta)) + S sqrt(lam)      (equation 3 of the paper)

    In natural units the policy estimates what theory would have to be told. `boldness` c stands for alpha = c s: c
    standard errors, with s the noise that the model's one-step errors show. What the point leaves open of lam,
    intercept and memory is chosen by evidence: the prior under which the rewards seen lately were most likely, each
    predicted from those before it.
    """

    delta: float = 0.1
    S: float = 1.0
    L: float = 1.0
    hyper: ClassVar[dict[str, tuple[float, float]]] = {
        "alpha": (0.0, 1e12),
        "lam": (1e-12, 1e12),
        "intercept": (0.0, 1.0),
        "memory": (0.01, 1.0),
    }
    natural: ClassVar[dict[str, tuple[str, ...]]] = {"boldness": ("alpha",)}
    exploring: ClassVar[tuple[str, ...]] = ("alpha",)
    factored: ClassVar[bool] = False
    model: Ridge = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("delta", self.delta, low=1e-300, high=1.0)
        check_number("S", self.S, low=0.0, high=MAX_MAGNITUDE)
        check_number("L", self.L, low=0.0, high=MAX_MAGNITUDE)
        self._last: tuple[Sequence[Params], Solutions, Array] | None = None
        self.prepare([])

    @property
    def space(self) -> Space:
        return Space(boldness=[1.0, 2.0, 4.0])

    def theory(self, t: int, given: Params) -> dict[str, float]:
        if "boldness" in given:
            return self.estimate(given)
        params = {"lam": 1.0, "intercept": float(self.intercept), "memory": 1.0, **given}
        if "alpha" not in params:
            lam, size = params["lam"], self.dim + params["intercept"]
            log = math.log((1 + t * self.L**2 / lam) / self.delta)
            params["alpha"] = self.sigma * math.sqrt(size * log) + self.S * math.sqrt(lam)
        return params

    def theory_ignores_round(self, given: Params) -> bool:
        return "alpha" in given or "boldness" in given

    def estimate(self, given: Params) -> dict[str, float]:
        """Boldness in the units of what was learned so far."""
        row = self.model.likeliest(given)
        lam, intercept, memory = self.model.priors[row]
        return {
            "alpha": given["boldness"] * self.model.noise(row),
            "lam": lam,
            "intercept": intercept,
            "memory": memory,
        }

    def prepare(self, points: Sequence[Params], catalogue: Array | None = None) -> None:
        priors = [prior for point in points for prior in self._priors(point)]
        self.model = Ridge(self.dim, self.intercept or any(prior.intercept for prior in priors), self.factored)
        self.size = self.model.size
        super().prepare(points, catalogue)
        self.model.keep(priors, self.catalogue)

    def _priors(self, point: Params) -> list[Prior]:
        """The priors that a point may play with."""
        given = point if "boldness" in point else self.theory(0, point)
        axes = {"lam": CANDIDATE_LAMS, "intercept": (float(self.intercept),), "memory": CANDIDATE_MEMORIES}
        return [Prior(*values) for values in product(*((given[n],) if n in given else v for n, v in axes.items()))]

    def check(self, params: Params) -> None:
        super().check(params)
        if params.get("intercept", 0.0) not in (0.0, 1.0):
            raise InputError(f"intercept must be 0 or 1; got {params['intercept']}")

    def _optimistic(self, arms: Arms, alphas: Array, solutions: Solutions, thetas: Array) -> Array:
        """x' theta + alpha sqrt(x' V⁻¹ x) for every point and arm."""
        out = np.empty((len(alphas), len(arms)))
        if arms.ndim == 2:
            ucb_scores(out, arms, solutions.stack, thetas, solutions.rows, alphas)
        else:
            ucb_scores_by_number(out, arms, self.catalogue, solutions.squared, thetas, solutions.rows, alphas)
        return out

    def _lookup(self, points: Sequence[Params]) -> tuple[Solutions, Array]:
        """The solutions for these points, and their alphas; at hand if the same tuple of points comes again."""
        last = self._last
        if last is not None and last[0] is points and last[1].stack is self.model.stack:
            return last[1:]
        found = self._solutions(points), np.array([point["alpha"] for point in points])
        self._last = (points, *found) if isinstance(points, tuple) else None
        return found

    def _solutions(self, points: Sequence[Params]) -> Solutions:
        own = float(self.intercept)
        return self.model.select([(p["lam"], p.get("intercept", own), p.get("memory", 1.0)) for p in points])

    def predict(self, arms: Arms, params: Params) -> Array:
        found = self._solutions([params])
        return dot(self.columns(arms), found.thetas[found.rows[0]])

    def learn(self, x: Array, reward: float, params: Params) -> None:
        self.model.learn(x, reward)
