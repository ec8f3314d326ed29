"""What the policies on a ridge model share."""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from syndicated._argmax import table_in
from syndicated._models.kernels import (
    NO_DRAWS,
    break_ties,
    columns,
    dot,
    have_ties,
    one_after_another,
    standard_columns,
    take,
    ucb_scores,
    ucb_scores_by_number,
)
from syndicated._models.ridge import Prior, Ridge, Solutions
from syndicated._models.scaled_kernels import CHECK_ROUNDS
from syndicated._models.scaled_ridge import (
    DISCOUNT,
    EFFECTS,
    MAX_OWN_ARMS,
    OUTLIERS,
    RELEVANCE,
    RESTARTS,
    Effects,
    ScaledRidge,
)
from syndicated._validation import MAX_MAGNITUDE, check_number, check_parts
from syndicated.errors import InputError
from syndicated.policies.base import Policy
from syndicated.space import Space
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Ints, Params

# Rounds in which a row that was never played is, of those that come back: four in the time in which rounds double. In
# every second of them it is the one of which features tell least, of those that may be the best one.
TRIAL_ROUNDS = frozenset(math.floor(2 ** (k / 4)) for k in range(4 * 62))
TRIALS_IN_ORDER = sorted(TRIAL_ROUNDS)
WIDE_TRIALS = frozenset(TRIALS_IN_ORDER[::2])
NO_ROW = np.zeros(1, dtype=np.bool_)
CANDIDATE_LAMS, CANDIDATE_MEMORIES = (1e-4, 1e-2, 1.0), (0.995, 1.0)  # what evidence chooses from


def trials_between(start: int, end: int) -> list[int]:
    """The trial rounds from a round on, until before another."""
    return TRIALS_IN_ORDER[bisect_left(TRIALS_IN_ORDER, start) : bisect_left(TRIALS_IN_ORDER, end)]


@dataclass(kw_only=True, eq=False)
class RidgePolicy(Policy):
    """A policy that explores at rate `alpha` along the confidence ellipsoid of a ridge model.

    The model has the penalty `lam`, an `intercept` or none, and the `memory` that a round leaves of what was before.
    `delta` (the error probability), `S` (a bound on |theta|) and `L` (one on |x|) enter the theoretical alpha only:

        alpha(t) = sigma sqrt(d log((1 + t L²/lam) / delta)) + S sqrt(lam)      (equation 3 of the paper)

    `alpha_multiple` m stands for alpha = m alpha(t): candidates of at least 1 are what Theorem 1(2) asks for.

    In natural units the policy estimates what theory would have to be told. `boldness` c stands for alpha = c s: c
    standard errors, with s the noise that the model's errors show. Points that say nothing else have one model in the
    data's own units, whose `lam` is estimated by evidence (`ScaledRidge`): neither the units of features nor the unit
    and the level of rewards matter. As far as its rows are new, s is less: they explore by themselves. Rows that come
    back have effects of their own, if features do not tell all of what they pay. `without` names `parts` of this model
    that are left out: the discount of s where rows are new, effects of rows, the cut of outliers, the relevance of
    features, restarts where the world has changed, trials of rows that were never played. Where points also say
    something of lam, intercept or memory, these are in the features' units, and what is left open is chosen among a few
    values: the prior under which the rewards seen lately were most likely, each predicted from those before it.
    """

    delta: float = 0.1
    S: float = 1.0
    L: float = 1.0
    without: Sequence[str] = field(default=(), repr=False)
    parts: ClassVar[tuple[str, ...]] = (DISCOUNT, EFFECTS, OUTLIERS, RELEVANCE, RESTARTS)
    hyper: ClassVar[dict[str, tuple[float, float]]] = {
        "alpha": (0.0, 1e12),
        "lam": (1e-12, 1e12),
        "intercept": (0.0, 1.0),
        "memory": (0.01, 1.0),
    }
    natural: ClassVar[dict[str, tuple[str, ...]]] = {"boldness": ("alpha",), "alpha_multiple": ("alpha", "boldness")}
    exploring: ClassVar[tuple[str, ...]] = ("alpha",)
    scale_free: ClassVar[bool] = True
    factored: ClassVar[bool] = False
    _scaled: ClassVar[bool] = True
    model: Ridge | ScaledRidge = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("delta", self.delta, low=1e-300, high=1.0)
        check_number("S", self.S, low=0.0, high=MAX_MAGNITUDE)
        check_number("L", self.L, low=0.0, high=MAX_MAGNITUDE)
        check_parts(type(self).__name__, self.without, self.parts)
        self._last: tuple[Sequence[Params], Solutions, Array] | None = None
        self._natural: tuple[Sequence[Params], Array | None] = (), None
        self.prepare([])

    @property
    def space(self) -> Space:
        return Space(boldness=[1.0, 2.0, 4.0])

    @property
    def chosen(self) -> dict[str, str]:
        return self.model.chosen if isinstance(self.model, ScaledRidge) else {}

    def theory(self, t: int, given: Params) -> dict[str, float]:
        if "boldness" in given:
            return self.estimate(given)
        params = {"lam": 1.0, "intercept": float(self.intercept), "memory": 1.0, **given}
        multiple = params.pop("alpha_multiple", 1.0)
        if "alpha" not in params:
            lam, size = params["lam"], self.dim + params["intercept"]
            log = math.log((1 + t * self.L**2 / lam) / self.delta)
            params["alpha"] = multiple * (self.sigma * math.sqrt(size * log) + self.S * math.sqrt(lam))
        return params

    def theory_ignores_round(self, given: Params) -> bool:
        return "alpha" in given or "boldness" in given

    def estimate(self, given: Params) -> dict[str, float]:
        """Boldness in the units of what was learned so far."""
        (lam, intercept, memory), noise = self.model.estimate(given)
        return {"alpha": given["boldness"] * noise, "lam": lam, "intercept": intercept, "memory": memory}

    def prepare(self, points: Sequence[Params], catalogue: Array | None = None) -> None:
        if self._scaled and points and all(point.keys() == {"boldness"} for point in points):
            scaled = ScaledRidge(self.dim, self.intercept, self.factored, tuple(self.without))
            self.model, self.size = scaled, scaled.size
            super().prepare(points)
            scaled.keep(np.zeros((0, self.dim)) if catalogue is None else catalogue)
            return
        priors = [prior for point in points for prior in self._priors(point)]
        ridge = Ridge(self.dim, self.intercept or any(prior.intercept for prior in priors), self.factored)
        self.model, self.size = ridge, ridge.size
        super().prepare(points, catalogue)
        ridge.keep(priors, self.catalogue)

    def update_catalogue(self, catalogue: Array, changed: Ints) -> None:
        self._last = None
        if isinstance(self.model, ScaledRidge):
            self.model.put(changed, catalogue)
        else:
            self.model.put(changed, columns(catalogue[changed], self.size))

    def _priors(self, point: Params) -> list[Prior]:
        """The priors that a point may play with."""
        given = point if "boldness" in point else self.theory(0, point)
        axes = {"lam": CANDIDATE_LAMS, "intercept": (float(self.intercept),), "memory": CANDIDATE_MEMORIES}
        return [Prior(*values) for values in product(*((given[n],) if n in given else v for n, v in axes.items()))]

    def upgraded(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Mapping[str, npt.NDArray[Any]]:
        """A state in natural units from when each of a few priors had its own inverse: its sums are taken over."""
        if not isinstance(self.model, ScaledRidge):
            return arrays
        older = Ridge(self.dim, self.intercept, self.factored)
        older.keep(self._priors({"boldness": 1.0}), columns(self.model.rows, older.size))
        own = {name.removeprefix("model."): array for name, array in arrays.items()}
        unlike = own.keys() != older.state().keys() or older.invalid_array(own) is not None
        if unlike or not own["count"]:
            later = self.model.upgraded(own)
            return arrays if later is own else {f"model.{name}": array for name, array in later.items()}
        older.restore(own)
        begun = ScaledRidge(self.dim, self.intercept, self.factored, tuple(self.without))
        begun.keep(self.model.rows)
        begun.begin(*older.sums())
        return {f"model.{name}": array for name, array in begun.state().items()}

    def check(self, params: Params) -> None:
        super().check(params)
        if params.get("intercept", 0.0) not in (0.0, 1.0):
            raise InputError(f"intercept must be 0 or 1; got {params['intercept']}")

    def _optimistic(self, arms: Arms, alphas: Array, solutions: Solutions, thetas: Array, rng: Stream) -> Array:
        """x' theta + alpha sqrt(x' V⁻¹ x) for every point and arm.

        In natural units arms that are equally good are put in a random order: before the first rewards all may be
        equal, and rewards may come late.
        """
        scores = self._untied_scores(arms, alphas, solutions, thetas)
        self._decide_between(scores, arms, alphas, rng)
        return scores

    def _optimistic_many(
        self, tables: Sequence[Arms], alphas: Array, solutions: Solutions, thetas: Array, rng: Stream
    ) -> Array:
        """`_optimistic` of tables one after the other, in rounds from that of a stream on.

        All are scored at once: a kernel gives an arm the same score whatever its place in a table.
        """
        ends, points = np.cumsum([len(table) for table in tables]), len(alphas)
        scores = one_after_another(self._untied_scores(np.concatenate(tables), alphas, solutions, thetas), ends)
        if isinstance(self.model, ScaledRidge):
            tied = have_ties(scores, ends, points)
            for n, table in enumerate(tables):
                if tied[n] or self._tries(rng.round + n):
                    self._decide_between(table_in(scores, ends, points, n), table, alphas, rng.later(n))
        return scores

    def _untied_scores(self, arms: Arms, alphas: Array, solutions: Solutions, thetas: Array) -> Array:
        effects = self._effects(arms)
        if effects is None:
            return self._linear_scores(arms, alphas, solutions, thetas)
        return self._own_scores(effects, arms, alphas, solutions, thetas)

    def _decide_between(self, scores: Array, arms: Arms, alphas: Array, rng: Stream) -> None:
        """In natural units, put arms that are equally good in a random order, and in a trial round a row first."""
        if isinstance(self.model, ScaledRidge) and break_ties(scores, NO_DRAWS):
            break_ties(scores, rng.uniforms(len(arms)))
        self._put_trial_first(scores, arms, alphas, rng.round)

    def _put_trial_first(self, scores: Array, arms: Arms, alphas: Array, t: int) -> None:
        """In a trial round, raise the score of a row that was never played above all others.

        A model that is wrong may never play the best row, and what it plays may not show that it is wrong. So rows that
        come back are all tried some time, those with the best scores first; and in turn with them the one of which
        features tell least, since a wrong model is wrong about scores. Where what is played was never played anyway,
        that changes nothing. A level that is in doubt is checked by a row that was not played for long. A point that
        does not explore tries nothing.
        """
        if not isinstance(self.model, ScaledRidge) or not self._tries(t) or len(self.model.rows) > MAX_OWN_ARMS:
            return
        rows = arms if arms.ndim == 2 else self.model.rows[arms]
        wanted = self.model.unseen(rows) if t % CHECK_ROUNDS == 0 and self._doubts_level else NO_ROW
        bold = alphas > 0.0
        if t in TRIAL_ROUNDS and not wanted.any():
            untried = self.model.untried(rows)
            wanted = self.model.widest(rows, untried) if t in WIDE_TRIALS else untried
            bold &= ~untried[scores.argmax(axis=1)]
        if wanted.any():
            best = np.where(wanted, scores, -np.inf).argmax(axis=1)
            scores[bold, best[bold]] = np.nextafter(scores[bold].max(axis=1), np.inf)

    def _tries(self, t: int) -> bool:
        """Whether another row than the best one may be played in this round."""
        return t in TRIAL_ROUNDS or (t % CHECK_ROUNDS == 0 and self._doubts_level)

    @property
    def _doubts_level(self) -> bool:
        return isinstance(self.model, ScaledRidge) and self.model.doubts_level

    def _linear_scores(self, arms: Arms, alphas: Array, solutions: Solutions, thetas: Array) -> Array:
        out = np.empty((len(alphas), len(arms)))
        if arms.ndim == 2:
            units = self.model.centre, self.model.unit
            ucb_scores(out, arms, *units, solutions.stack, thetas, solutions.rows, alphas)
        else:
            ucb_scores_by_number(out, arms, self.model.catalogue, solutions.squared, thetas, solutions.rows, alphas)
        return out

    def _own_scores(self, effects: Effects, arms: Arms, alphas: Array, solutions: Solutions, thetas: Array) -> Array:
        """Optimism about rows that have effects of their own."""
        means = self._linear_scores(arms, np.zeros(len(alphas)), solutions, thetas)
        widths = self._linear_scores(arms, np.ones(len(alphas)), solutions, thetas) - means
        shares, own, left = effects
        scores: Array = means + shares * (own - means)
        scores += alphas[:, None] * np.sqrt(((1.0 - shares) * widths) ** 2 + left)
        return scores

    def _effects(self, arms: Arms) -> Effects | None:
        """`ScaledRidge.effects` of arms, which may be numbers of the catalogue; None if rows have none of their own."""
        if not isinstance(self.model, ScaledRidge) or not self.model.own_variance:
            return None
        return self.model.effects(arms if arms.ndim == 2 else self.model.rows[arms])

    def _lookup(self, points: Sequence[Params]) -> tuple[Solutions, Array]:
        """The solutions for these points, and their alphas; at hand if the same tuple of points comes again."""
        last = self._last
        if last is not None and last[0] is points and last[1].stack is self.model.stack:
            return last[1:]
        found = self._solutions(points), np.array([point["alpha"] for point in points])
        self._last = (points, *found) if isinstance(points, tuple) else None
        return found

    def _boldness(self, points: Sequence[Params]) -> Array | None:
        """The boldness of points that say nothing else; at hand if the same tuple of points comes again."""
        given, boldness = self._natural
        if given is not points:
            natural = all(point.keys() == {"boldness"} for point in points)
            boldness = np.array([point["boldness"] for point in points]) if natural else None
            self._natural = points if isinstance(points, tuple) else (), boldness
        return boldness

    def _solutions(self, points: Sequence[Params]) -> Solutions:
        own = float(self.intercept)
        return self.model.select([(p["lam"], p.get("intercept", own), p.get("memory", 1.0)) for p in points])

    def predict(self, arms: Arms, params: Params) -> Array:
        means: Array = self._means(arms, [params])[0]
        return means + self.model.level

    def _means(self, arms: Arms, points: Sequence[Params]) -> Array:
        """(n, K): what every point expects of every arm, from the level of rewards."""
        columns, found, effects = self.columns(arms), self._solutions(points), self._effects(arms)
        means = np.stack([dot(columns, found.thetas[row]) for row in found.rows])
        if effects is not None:
            means += effects[0] * (effects[1] - means)
        return means

    def expected(self, score: float) -> float:
        return score + self.model.level

    @property
    def cuts_outliers(self) -> bool:
        return isinstance(self.model, ScaledRidge)

    def usual(self, reward: float) -> float:
        return reward - self.model.excess if isinstance(self.model, ScaledRidge) else reward

    def columns(self, arms: Arms) -> Array:
        model = self.model
        if arms.ndim == 2:
            return standard_columns(arms, model.centre, model.unit, self.size)
        return take(model.catalogue, arms)

    def learn(self, x: Array, reward: float, params: Params) -> None:
        self.model.learn(x, reward)

    def learn_many(self, X: Array, rewards: Array, params: Sequence[Params]) -> None:
        self.model.learn_many(X, rewards)
