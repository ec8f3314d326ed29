"""Estimates of what a target would have earned, from its weights and a model of rewards.

Of round k, whose logged arm a with reward r had propensity p:

    w = pi(a)/p                                   pi: the target's chances of every arm, given its history so far
    IPS:  w r           SNIPS:  Σ w r / Σ w           DR:  Σ_b pi(b) g(b) + w (r - g(a))

g predicts rewards from the rounds before k. The intervals are those of `_intervals`: to the rounds of the log one is
added that could not be worse, or better, with the largest weight and the least or the largest reward.

Several histories of a target are pooled as several imputations of what is missing are: with W the mean of their
squared distances from estimate to end, and B the variance of their H estimates, the distance is the root of
W + (1 + 1/H) z² B.

Rubin, *Multiple imputation for nonresponse in surveys*, Wiley 1987.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from syndicated._formatting import number
from syndicated._frames import frame_of
from syndicated._html import html_table
from syndicated.evaluate._intervals import interval, quantile
from syndicated.evaluate._walk import Walk
from syndicated.types import Array

MIN_EFFECTIVE_ROUNDS = 100  # below which a few rounds decide
MIN_EFFECTIVE_REWARDS = 10  # below which targets can hardly be told apart
MAX_WEIGHT_ERRORS = 3.0  # standard errors by which the mean weight may differ from 1
ROUNDING = 1e-9
POOLED_ESTIMATES = ("ips", "snips", "dr", "gain", "weight")
Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean reward a round, and the ends of its interval."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation:
    """What the log earned, what the target would have earned by three estimators, and how far to trust them.

    `gain` is DR less what the log earned, paired round by round. `accepted` rounds are those that the target learned
    from; in `clipped` ones c w was above 1. `effective` is (Σ w)²/Σ w², the number of rounds that the weights leave,
    and `rewarded` the same of w (r - the least reward), the number of rewards that they leave. `weight` is the mean of
    w, with its interval, which is 1 if the propensities are right and cover all arms. Of several `histories` all these
    are means. `rewards` is the range that rewards may have.
    """

    logged: Estimate
    ips: Estimate
    snips: Estimate
    dr: Estimate
    gain: Estimate
    weight: Estimate
    confidence: float
    rounds: int
    accepted: int
    clipped: int
    effective: float
    rewarded: float
    rewards: Range
    histories: int = 1

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why not to trust it, if there is a reason."""
        found = []
        if self.rewards[0] == self.rewards[1]:
            found.append(f"all rewards are {self.rewards[0]:g}: nothing can be said of other ones (set their range)")
        if self.effective < MIN_EFFECTIVE_ROUNDS:
            left = f"the weights leave {self.effective:.0f} effective rounds, fewer than {MIN_EFFECTIVE_ROUNDS}"
            found.append(f"{left}: a few rounds decide")
        elif self.rewarded < MIN_EFFECTIVE_REWARDS:
            left = f"the weights leave {self.rewarded:.1f} rewards above {self.rewards[0]:g}"
            found.append(f"{left}, fewer than {MIN_EFFECTIVE_REWARDS}: the intervals count that, and are wide")
        if abs(self.weight.value - 1.0) > MAX_WEIGHT_ERRORS * self._weight_error:
            reason = "the propensities are wrong, or arms that the target plays were never played"
            found.append(f"the weights average {self.weight.value:.2f} instead of 1: {reason}")
        if self.clipped:
            share = self.clipped / self.rounds
            found.append(
                f"{share:.1%} of the rounds were clipped: the target's history is not quite that of a real run"
            )
        return tuple(found)

    def to_frame(self, library: str | None = None) -> Any:
        """A data frame of pandas or polars with a row for each estimate."""
        rows = [getattr(self, name) for name in ("logged", *POOLED_ESTIMATES)]
        return frame_of(
            {
                "estimate": [each.name for each in rows],
                "value": [each.value for each in rows],
                "low": [each.low for each in rows],
                "high": [each.high for each in rows],
            },
            library,
        )

    def __repr__(self) -> str:
        named = {"DR": self.dr, "the log": self.logged, "gain": self.gain}
        values = [f"{name} {number(e.value)} ({number(e.low)} to {number(e.high)})" for name, e in named.items()]
        return f"<Evaluation: {'; '.join([', '.join(values), self._counts, *self.warnings])}>"

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        rows = [getattr(self, name) for name in ("logged", *POOLED_ESTIMATES)]
        cells = [(each.name, *(f"{v:.4g}" for v in (each.value, each.low, each.high))) for each in rows]
        head = ("estimate", "value", f"low, {100 * self.confidence:g} %", "high")
        return html_table(head, cells, [self._counts, *self.warnings])

    @property
    def _counts(self) -> str:
        """A target that does not learn accepts nothing."""
        return f"{self.rounds:,} rounds" + (f", {self.accepted:,} accepted" if self.accepted else "")

    @property
    def _weight_error(self) -> float:
        """The standard error of the mean weight, on the side where 1 is."""
        weight = self.weight
        half = weight.high - weight.value if weight.value < 1.0 else weight.value - weight.low
        return half / quantile(self.confidence)


def summarise(rewards: Array, rows: Walk, confidence: float, c: float, bounds: Range, heaviest: float) -> Evaluation:
    """The estimates of the means, with their intervals; SNIPS by linearisation.

    `bounds` is the range of rewards; `heaviest` is the largest weight there can be, if the log has no weight at all.
    """
    w, (low, high) = rows.weights, bounds
    robust = rows.direct + w * (rewards - rows.guesses)
    total, level = float(w.sum()), float(rows.direct.mean())
    ratio = float(w @ rewards) / total if total else math.nan
    share = total / len(w) if total else math.nan
    linear = ratio + w * (rewards - ratio) / share
    corners = [(v, r) for v in (0.0, float(w.max()) or heaviest) for r in bounds]

    def estimate(name: str, values: Array, extremes: Iterable[float]) -> Estimate:
        mean, possible = float(values.mean()), list(extremes)
        known = math.isfinite(mean) and low < high
        ends = interval(values, min(possible), max(possible), confidence) if known else (-math.inf, math.inf)
        return _possible(name, mean, ends, bounds)

    return Evaluation(
        logged=estimate("log", rewards, bounds),
        ips=estimate("IPS", w * rewards, (v * r for v, r in corners)),
        snips=estimate("SNIPS", linear, (ratio + v * (r - ratio) / share for v, r in corners)),
        dr=estimate("DR", robust, (level + v * (r - level) for v, r in corners)),
        gain=estimate("gain", robust - rewards, (level + v * (r - level) - r for v, r in corners)),
        weight=estimate("weight", w, (v for v, _ in corners)),
        confidence=confidence,
        rounds=len(w),
        accepted=int(rows.accepted.sum()),
        clipped=int((c * w > 1.0 + ROUNDING).sum()) if rows.accepted.any() else 0,
        effective=_effective(w),
        rewarded=_effective(w * (rewards - low)),
        rewards=bounds,
    )


def _possible(name: str, value: float, ends: Range, bounds: Range) -> Estimate:
    """An estimate whose interval has nothing that cannot be, with rewards in these bounds; the value is in it."""
    if not math.isfinite(value) or bounds[0] == bounds[1]:
        return Estimate(name, value, *ends)
    width = bounds[1] - bounds[0]
    least, most = {"gain": (-width, width), "weight": (0.0, math.inf)}.get(name, bounds)
    return Estimate(name, value, min(value, max(ends[0], least)), max(value, min(ends[1], most)))


def _effective(weights: Array) -> float:
    """How many equal weights are worth as much as these."""
    squares = float(weights @ weights)
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def pool(found: Sequence[Evaluation]) -> Evaluation:
    """One evaluation of several histories of a target."""
    if len(found) == 1:
        return found[0]

    def together(estimates: Sequence[Estimate]) -> Estimate:
        values = np.array([each.value for each in estimates])
        between = (1 + 1 / len(values)) * (quantile(found[0].confidence) * values.std(ddof=1)) ** 2
        mean = float(values.mean())
        below = math.sqrt(between + float(np.mean([(each.value - each.low) ** 2 for each in estimates])))
        above = math.sqrt(between + float(np.mean([(each.high - each.value) ** 2 for each in estimates])))
        return _possible(estimates[0].name, mean, (mean - below, mean + above), found[0].rewards)

    pooled: dict[str, Any] = {name: together([getattr(each, name) for each in found]) for name in POOLED_ESTIMATES}
    return replace(
        found[0],
        **pooled,
        accepted=round(sum(each.accepted for each in found) / len(found)),
        clipped=math.ceil(sum(each.clipped for each in found) / len(found)),
        effective=sum(each.effective for each in found) / len(found),
        rewarded=sum(each.rewarded for each in found) / len(found),
        histories=len(found),
    )
