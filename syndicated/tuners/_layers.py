"""The bandits that can be the layer of `TwoLayer` and `Syndicated`: one for n candidates, of which one is drawn.

A layer keeps its numbers in an array that the tuner gives it: n sums, and for a layer whose rate follows the time also
how many rewards came. Only `EXP3` is the paper's; the others are for losses 1 - y, which are small where rewards are
high, or for a best candidate that changes.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from syndicated._learner import overrides
from syndicated.tuners import _exp3
from syndicated.tuners._draws import drawn
from syndicated.types import Array, Ints

MAX_NEWTON_STEPS = 100


@dataclass(frozen=True)
class Layer:
    """A bandit over n candidates for T choices; what it has learned is in the array that every method is given."""

    n: int
    horizon: int
    counts: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """A subclass with a credit of its own inherits no compiled form that knows nothing of it."""
        if overrides(cls, "credit_many", "credit"):
            cls.credit_many = Layer.credit_many  # type: ignore[method-assign]

    @property
    def size(self) -> int:
        """How many numbers it keeps, all 0 at first."""
        return self.n + self.counts

    def probabilities(self, kept: Array) -> Array:
        """p of every candidate."""
        raise NotImplementedError

    def draw(self, kept: Array, u: float) -> tuple[int, float]:
        """The candidate that the uniform u falls on, and its probability."""
        p = self.probabilities(kept).tolist()
        i = drawn(p, u)
        return i, p[i]

    def draw_many(self, kept: Array, uniforms: Array) -> list[tuple[int, float]]:
        """`draw` with each of these uniforms."""
        return [self.draw(kept, u) for u in uniforms.tolist()]

    def credit(self, kept: Array, i: int, p: float, y: float, share: float) -> None:
        """Learn that i, drawn with probability p, had the reward y in [0, 1], which is a share of a choice's."""
        raise NotImplementedError

    def credit_many(self, kept: Array, i: Ints, p: Array, y: Array, share: Array) -> None:
        """`credit` one after the other."""
        for each in zip(i.tolist(), p.tolist(), y.tolist(), share.tolist(), strict=True):
            self.credit(kept, *each)


class EXP3(Layer):
    """The paper's: gains, uniform exploration. Regret at most 2 sqrt((e - 1) n T log n); needs T."""

    @cached_property
    def beta(self) -> float:
        return _exp3.rate(self.n, self.horizon)

    def probabilities(self, kept: Array) -> Array:
        return _exp3.probabilities(kept, self.beta)

    def draw(self, kept: Array, u: float) -> tuple[int, float]:
        return _exp3.draw(kept, self.beta, u)

    def draw_many(self, kept: Array, uniforms: Array) -> list[tuple[int, float]]:
        candidates, probabilities = np.empty(len(uniforms), dtype=np.int64), np.empty(len(uniforms))
        _exp3.draw_many(candidates, probabilities, kept, self.beta, uniforms)
        return list(zip(candidates.tolist(), probabilities.tolist(), strict=True))

    def credit(self, kept: Array, i: int, p: float, y: float, share: float) -> None:
        _exp3.credit(kept, i, self.beta / self.n * (share * y) / p)

    def credit_many(self, kept: Array, i: Ints, p: Array, y: Array, share: Array) -> None:
        _exp3.credit_many(kept, i, self.beta / self.n * (share * y) / p)


class EXP3S(EXP3):
    """EXP3.S: every reward also gives each candidate a little of all weight, so that the best one may change.

        beta = min(1, sqrt(n log(n T) / T));   w_j += (e / (n T)) Σ w, of the weights before the reward

    Against any sequence of candidates with S changes: at most (S + 1) sqrt(n T log(n T)) + 2 e sqrt(n T / log(n T)).
    Needs T, but not S. The order of rewards matters, and an epoch's shares are not quite their mean (Auer et al. 2002,
    section 8).
    """

    @cached_property
    def beta(self) -> float:
        return min(1.0, math.sqrt(self.n * math.log(self.n * self.horizon) / self.horizon))

    def credit(self, kept: Array, i: int, p: float, y: float, share: float) -> None:
        mixed = share * math.e / (self.n * self.horizon) * np.exp(kept).sum()
        kept[i] += self.beta / self.n * (share * y) / p
        kept[:] = np.logaddexp(kept, math.log(mixed))
        kept -= kept.max()


class EXP3IX(Layer):
    """EXP3-IX: losses with implicit exploration, no mixing.

        p_j ∝ exp(-eta L_j),  eta = 2 gamma = sqrt(2 log n / (n T));   L_i += (1 - y) / (p_i + gamma)

    Regret of order sqrt(n T log n) with high probability, not only in expectation; needs T (Neu, NeurIPS 2015).
    """

    @cached_property
    def eta(self) -> float:
        return math.sqrt(2.0 * math.log(self.n) / (self.n * self.horizon))

    def probabilities(self, kept: Array) -> Array:
        return _softmax(-self.eta * kept)

    def credit(self, kept: Array, i: int, p: float, y: float, share: float) -> None:
        kept[i] += share * (1.0 - y) / (p + 0.5 * self.eta)
        kept -= kept.min()


class _AnytimeLosses(Layer):
    """Importance-weighted losses L_i += (1 - y) / p_i, and the number of rewards last."""

    counts: ClassVar[bool] = True

    def credit(self, kept: Array, i: int, p: float, y: float, share: float) -> None:
        kept[i] += share * (1.0 - y) / p
        kept[:-1] -= kept[:-1].min()
        kept[-1] += share


class AnytimeEXP3(_AnytimeLosses):
    """EXP3 for losses, without a horizon: p_j ∝ exp(-eta_t L_j), eta_t = sqrt(log n / (n t)).

    Regret at most 2 sqrt(n T log n) for every T (Bubeck and Cesa-Bianchi, *Regret analysis*, 2012, theorem 3.1).
    """

    def probabilities(self, kept: Array) -> Array:
        eta = math.sqrt(math.log(self.n) / (self.n * (kept[-1] + 1.0)))
        return _softmax(-eta * kept[:-1])


class TsallisINF(_AnytimeLosses):
    """Tsallis-INF: mirror descent with the Tsallis entropy of power 1/2.

        p_j = 4 / (eta_t (L_j - x))²,  eta_t = 2 / sqrt(t),  x such that Σ p = 1

    Regret at most 4 sqrt(n T) + 1 for every T, and of order Σ log T / gap where rewards do not drift; needs no T
    (Zimmert and Seldin, *Tsallis-INF*, JMLR 2021, with importance-weighted losses).
    """

    def probabilities(self, kept: Array) -> Array:
        return tsallis(kept[:-1], 2.0 / math.sqrt(kept[-1] + 1.0))


def tsallis(losses: Array, eta: float) -> Array:
    """The p of Tsallis-INF. From where the least loss alone has p = 1, Newton's steps go down to x, never past it."""
    x = losses.min() - 2.0 / eta
    for _ in range(MAX_NEWTON_STEPS):
        root = 2.0 / (eta * (losses - x))
        p: Array = root * root
        excess = p.sum() - 1.0
        if excess <= 1e-14:
            break
        x -= excess / (eta * (p * root).sum())
    p /= p.sum()
    return p


def _softmax(scores: Array) -> Array:
    w = np.exp(scores - scores.max())
    p: Array = w / w.sum()
    return p


LAYERS: dict[str, type[Layer]] = {
    "EXP3": EXP3,
    "EXP3-anytime": AnytimeEXP3,
    "EXP3-IX": EXP3IX,
    "EXP3.S": EXP3S,
    "Tsallis-INF": TsallisINF,
}
