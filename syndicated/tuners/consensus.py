"""Consensus: every candidate that would have played the same arm shares the credit.

    every point j names the arm a_j that it would play;   draw i ~ p, play a = a_i, see the reward y
    q = Σ_{j: a_j = a} p_j;   every j with a_j = a gets the credit (y - m) / (q + ix)
    p_j ∝ exp(eta G_j),   G_j = Σ its credits,   eta = sqrt(log n / (V + 10 B²))

m is the mean reward, V = Σ q (1 - q) credit² the variance that the credits had, and B a bound on the largest of them.
So nothing has to be known beforehand: the rate follows the noise of the comparison, a shift of all rewards cancels, a
scale cancels too, and a round in which all agree (q = 1) costs nothing and tells only what is usual. Rewards may come
late and in any order: the sums do not care, and what a credit needs of the past is in the choice. Rewards are counted
from the first one on: a level of 10^9 that all share takes no digits from what they differ by.

One shared model; all points score the arms, which is what a choice costs. No horizon is needed. The regret of tuning is
at most 3 s sqrt(log(n) Σ_t (k_t - 1)) + B sqrt(10 log n), with k_t the arms that the points named and s² a bound on the
mean of (y - m)²; docs/theory.md has the sketch of a proof. There is no floor: points that explore by themselves need
none. On a space with more than `MAX_JOINT_POINTS` points the axes learn apart, each given what the others drew, as in
Syndicated.

EXP4 with implicit exploration (Auer et al., SIAM J. Comput. 2002; Neu, NeurIPS 2015) with points for experts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from syndicated._compiled import compiled
from syndicated._validation import check_flag, check_number
from syndicated.space import Space
from syndicated.streams import Stream, Word, fill_uniforms
from syndicated.tuners.base import Tuner, check_space, could_share
from syndicated.types import Array, Choice, Ints, Params

MAX_JOINT_POINTS = 64  # up to which the points are weighed against each other one by one
IX = 0.02  # added to q: a little bias for credits that cannot explode
CAUTION = 10.0  # the largest squared credits that V counts with from the start
SUMS = "f8[::1], f8[::1], f8[:,::1], f8[::1]"  # gains, weights, spreads, seen
HOW = "i8[::1], f8, b1, f8"  # ends, floor, baseline, rate


@dataclass(eq=False)
class Consensus(Tuner):
    """Shared credit over the points of the space; needs no horizon, no range of rewards and no noise level.

    `floor` is the share of choices that are uniform over the candidates. The other arguments take parts of the method
    away, to see what each is worth: `sharing`, `baseline` (m = 0 without), and a fixed `rate` in place of eta.

    >>> from syndicated.space import Space
    >>> tuner = Consensus(Space(boldness=[0.3, 0.6, 1.2]))
    >>> choice = tuner.choose(Stream(0, 0))
    >>> choice.index, [p.round(3).tolist() for p in tuner.probabilities()]
    ((0,), [[0.333, 0.333, 0.333]])
    """

    space: Space
    floor: float = 0.0
    sharing: bool = True
    baseline: bool = True
    rate: float | None = None
    gains: Array = field(init=False, repr=False)
    weights: Array = field(init=False, repr=False)
    spreads: Array = field(init=False, repr=False)
    seen: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_space(self.space)
        check_number("floor", self.floor, low=0.0, high=1.0)
        if self.rate is not None:
            check_number("rate", self.rate, low=0.0)
        for name in ("sharing", "baseline"):
            check_flag(name, getattr(self, name))
        self._axes, self._points = self.axes(), self.points
        self._ends = np.cumsum([len(axis) for axis in self._axes])
        self._starts = [0, *self._ends[:-1].tolist()]
        self.gains, self.weights = np.zeros(self._ends[-1]), np.zeros(self._ends[-1])
        self.spreads = np.zeros((len(self._axes), 4))
        self.seen = np.array([0.0, 0.0, math.inf, -math.inf, 0.0])
        self._p, self._drawn = np.empty(len(self.gains)), np.empty(len(self._axes), dtype=np.int64)
        self._collect()

    @property
    def points(self) -> tuple[Params, ...]:
        return self.space.points

    def axes(self) -> list[Sequence[Params]]:
        if len(self.points) <= MAX_JOINT_POINTS:
            return [self.points]
        return [[{name: value} for value in values] for name, values in self.space.axes.items()]

    def probabilities(self) -> list[Array]:
        return np.split(self._candidate_probabilities(), self._ends[:-1])

    def choose(self, rng: Stream) -> Choice:
        i = draw(self._p, self._drawn, *self._sums, *self._how, *rng.skip(len(self._axes)))
        p = tuple(self._p.tolist())
        if len(self._axes) == 1:
            return Choice(self._points[i], (i,), (p[i],), 0, p)
        params: dict[str, float] = {}
        index = tuple(self._drawn.tolist())
        for axis, i in zip(self._axes, index, strict=True):
            params |= axis[i]
        probability = tuple([p[start + i] for start, i in zip(self._starts, index, strict=True)])
        return Choice(params, index, probability, 0, p)

    def rivals(self, choice: Choice) -> Sequence[Params]:
        if not self.sharing:
            return ()
        if len(self._axes) == 1:
            return self.points
        return [{**choice.params, **part} for axis in self._axes for part in axis]

    def could_draw(self, choice: Choice) -> bool:
        return could_share(self, choice, super().could_draw)

    def learn(self, choice: Choice, reward: float, share: float = 1.0) -> None:
        p, agreeing = choice.candidate_probabilities, choice.agreeing or choice.index
        if len(p) > MAX_JOINT_POINTS or len(self._axes) > 1:  # an axis alone may have more candidates than bits
            drawn = [start + i for start, i in zip(self._starts, choice.index, strict=True)]
            credit(*self._sums, self._ends, np.array(choice.agreeing or drawn), np.array(p), reward, share)
            return
        q, members = 0.0, 0
        for j in agreeing:
            q += p[j]
            members |= 1 << j
        credit_points(*self._sums, members, q, reward, share)

    def upgraded(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Mapping[str, npt.NDArray[Any]]:
        """A state whose rewards were counted from 0 has no origin: it gets the mean."""
        shapes = {name: array.shape for name, array in self.state().items()} | {"seen": (4,)}
        if {name: array.shape for name, array in arrays.items()} != shapes:
            return arrays
        count, total, low, high = arrays["seen"].tolist()
        m = total / count if count > 0.0 else 0.0
        v, vy, vyy = arrays["spreads"][:, 0], arrays["spreads"][:, 1], arrays["spreads"][:, 2]
        spreads = np.stack([v, vy - m * v, vyy - 2.0 * m * vy + m * m * v, arrays["spreads"][:, 3]], axis=1)
        seen = np.array([count, 0.0, low - m, high - m, m])
        return {**arrays, "gains": arrays["gains"] - m * arrays["weights"], "spreads": spreads, "seen": seen}

    def _candidate_probabilities(self) -> Array:
        p = np.empty(len(self.gains))
        probabilities(p, *self._sums, *self._how)
        return p

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        super().restore(arrays)
        self._collect()

    def _collect(self) -> None:
        """What kernels take, at hand: the sums, and what the probabilities depend on apart from them."""
        self._sums = self.gains, self.weights, self.spreads, self.seen
        self._how = self._ends, self.floor, self.baseline, -1.0 if self.rate is None else self.rate


@compiled("f8(f8[::1], f8)")
def count_reward(seen: Array, reward: float) -> float:
    """The reward, counted from the first one on, which `seen` has."""
    if seen[0] == 0.0:
        seen[4] = reward
    return float(reward - seen[4])


@compiled("f8(f8[::1], f8, f8, f8)")
def spread(spreads: Array, q: float, reward: float, share: float) -> float:
    """Add a reward of probability q to the sums of an axis; gives 1/(q + ix)."""
    weight = 1.0 / (q + IX)
    v = share * max(q * (1.0 - q), 0.0) * weight * weight
    spreads[0] += v
    spreads[1] += v * reward
    spreads[2] += v * reward * reward
    if q < 1.0 - 1e-9:
        spreads[3] = max(spreads[3], weight)
    return weight


@compiled("void(f8[::1], f8, f8)")
def see(seen: Array, reward: float, share: float) -> None:
    """The count, the sum, the least and the largest of the rewards."""
    seen[0] += share
    seen[1] += share * reward
    seen[2], seen[3] = min(seen[2], reward), max(seen[3], reward)


@compiled(f"void({SUMS}, i8[::1], i8[::1], f8[::1], f8, f8)")
def credit(
    gains: Array,
    weights: Array,
    spreads: Array,
    seen: Array,
    ends: Ints,
    agreeing: Ints,
    p: Array,
    reward: float,
    share: float,
) -> None:
    """Add one reward to the sums that credits with any baseline m follow from.

    For every candidate Σ y/(q + ix) and Σ 1/(q + ix); for every axis Σ v, Σ v y, Σ v y² with v = q (1 - q)/(q + ix)²
    and the largest 1/(q + ix); of the rewards the count, the sum, the least and the largest. All are counted from the
    first reward on, which `seen` has too.
    """
    reward = count_reward(seen, reward)
    start = 0
    for axis in range(len(ends)):
        q = 0.0
        for j in agreeing:
            if start <= j < ends[axis]:
                q += p[j]
        weight = spread(spreads[axis], q, reward, share)
        for j in agreeing:
            if start <= j < ends[axis]:
                gains[j] += share * weight * reward
                weights[j] += share * weight
        start = ends[axis]
    see(seen, reward, share)


@compiled(f"void({SUMS}, u8, f8, f8, f8)")
def credit_points(
    gains: Array, weights: Array, spreads: Array, seen: Array, members: int, q: float, reward: float, share: float
) -> None:
    """`credit` of a single axis, whose agreeing candidates are the bits of `members` and have the probability q."""
    reward = count_reward(seen, reward)
    weight = spread(spreads[0], q, reward, share)
    for j in range(len(gains)):
        if (members >> np.uint64(j)) & np.uint64(1):
            gains[j] += share * weight * reward
            weights[j] += share * weight
    see(seen, reward, share)


@compiled(f"void(f8[::1], {SUMS}, {HOW})")
def probabilities(
    p: Array,
    gains: Array,
    weights: Array,
    spreads: Array,
    seen: Array,
    ends: Ints,
    floor: float,
    baseline: bool,
    rate: float,
) -> None:
    """p of every candidate of every axis."""
    m = -seen[4]
    if baseline and seen[0] > 0.0:
        m = seen[1] / seen[0]
    reach = max(seen[3] - m, m - seen[2]) if seen[0] > 0.0 else 0.0
    least, largest = seen[2] + seen[4], seen[3] + seen[4]
    differ = seen[3] - seen[2] > 1e-12 * max(abs(least), abs(largest))  # by more than rounding does
    start = 0
    for axis in range(len(ends)):
        end = ends[axis]
        V = max(spreads[axis, 2] - 2.0 * m * spreads[axis, 1] + m * m * spreads[axis, 0], 0.0)
        V += CAUTION * (reach * spreads[axis, 3]) ** 2
        eta = rate
        if rate < 0.0:
            eta = math.sqrt(math.log(end - start) / V) if V > 0.0 and differ else 0.0
        largest = -np.inf
        for j in range(start, end):
            p[j] = eta * (gains[j] - m * weights[j])
            largest = max(largest, p[j])
        total = 0.0
        for j in range(start, end):
            p[j] = math.exp(p[j] - largest)
            total += p[j]
        for j in range(start, end):
            p[j] = (1.0 - floor) * p[j] / total + floor / (end - start)
        start = end


@compiled(f"i8(f8[::1], i8[::1], {SUMS}, {HOW}, u8, u8, u8, u8)")
def draw(
    p: Array,
    drawn: Ints,
    gains: Array,
    weights: Array,
    spreads: Array,
    seen: Array,
    ends: Ints,
    floor: float,
    baseline: bool,
    rate: float,
    seed: Word,
    purpose: Word,
    round_: Word,
    block: Word,
) -> int:
    """The probabilities, and the candidate of every axis that a uniform falls on; gives the first one's."""
    probabilities(p, gains, weights, spreads, seen, ends, floor, baseline, rate)
    u = np.empty(len(ends))
    fill_uniforms(u, seed, purpose, round_, block)
    start = 0
    for axis in range(len(ends)):
        below, last = 0.0, start
        for j in range(start, ends[axis]):
            below += p[j]
            if p[j] > 0.0:
                last = j
            if u[axis] < below:
                break
        drawn[axis] = last - start
        start = ends[axis]
    return int(drawn[0])
