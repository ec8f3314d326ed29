"""CDT: Thompson sampling that zooms into a continuum of hyper-parameters, with restarts.

    r(v) = tau0 sqrt(13 log(T) / (2 n_v)),   s(v) = tau0 sqrt(52 pi log(T) / n_v),   f(v) the mean reward of point v
    a point that no ball B(v, r(v)) of an active v covers becomes active, and is played
    else play the active v with the largest  f(v) + s(v) max(1/sqrt(2 pi), z_v),   z_v ~ N(0, 1)
    an active u with f(v) - f(u) > r(v) + 2 r(u) for some v is dropped, with the points of its ball; after `epoch`
    rewards everything begins again

The continuum is the points of a fine space: each axis is mapped to [0, 1] by the rank of its candidates, so that
`Space(alpha=np.geomspace(0.01, 10, 200))` is a line on which alpha doubles in equal steps. Distances are Euclidean.
One shared model; O(n²) a choice for n points; needs T. Regret of order T^((p + 2)/(p + 3)), p the zooming dimension,
where the mean reward is Lipschitz and changes a bounded number of times, with `epoch` of the order of the same power.

Kang, Hsieh and Lee, *Online continuous hyperparameter optimization for generalized linear contextual bandits*, 2023.
"""

import math
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import numpy.typing as npt

from syndicated import _special
from syndicated._validation import check_count, check_flag, check_number
from syndicated.streams import Stream
from syndicated.tuners._draws import QUADRATURE_QUANTILES, probability_of_largest
from syndicated.tuners.base import Adaptive, could_draw_unstated
from syndicated.types import Array, Choice

LEAST_DRAW = 1.0 / math.sqrt(2.0 * math.pi)  # what a standard normal is cut off at from below


@dataclass(eq=False)
class CDT(Adaptive):
    """Continuous dynamic tuning: Zooming-TS over the points of a fine space.

    `tau0` is the sub-Gaussian scale of rewards in units of their range: 1/2 for any that stay within it. `epoch` is the
    number of rewards between restarts, by default the horizon. With `released`, what the authors' code plays: f(v) +
    sqrt(13) tau0 / sqrt(n_v), without a draw and without dropping points. The probability of a draw has no closed form:
    choices state it as NaN, and `probabilities` integrates it numerically.

    >>> from syndicated.space import Space
    >>> tuner = CDT(Space(alpha=[0.1, 0.2, 0.4, 0.8]))
    >>> tuner.learn(Choice({"alpha": 0.2}, (1,), (math.nan,)), 0.5)
    >>> tuner.choose(Stream(0, 0)).params  # its ball still covers all points
    {'alpha': 0.2}
    """

    tau0: float = 0.5
    epoch: int | None = None
    released: bool = False
    n: Array = field(init=False, repr=False)
    sums: Array = field(init=False, repr=False)
    dropped: npt.NDArray[np.bool_] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("tau0", self.tau0, low=1e-300)
        check_flag("released", self.released)
        if self.epoch is not None:
            check_count("epoch", self.epoch)
        places = [np.linspace(0.0, 1.0, len(axis)) if len(axis) > 1 else [0.0] for axis in self.space.axes.values()]
        at = np.array(list(product(*places))).reshape(len(self.points), -1)
        self._distances = np.sqrt(((at[:, None] - at[None]) ** 2).sum(axis=2))
        self._log = math.log(max(self.horizon, 2))
        self._restart()

    def _restart(self) -> None:
        N = len(self.points)
        self.n, self.sums, self.dropped = np.zeros(N), np.zeros(N), np.zeros(N, dtype=np.bool_)

    def radii(self) -> Array:
        """r of every point; infinite for one that was not played."""
        with np.errstate(divide="ignore"):
            r: Array = self.tau0 * np.sqrt(6.5 * self._log / self.n)
        return r

    def uncovered(self) -> npt.NDArray[np.int64]:
        """The points that no ball of an active one covers."""
        active = (self.n > 0.0) & ~self.dropped
        covered = (self._distances[:, active] <= self.radii()[active]).any(axis=1)
        return np.flatnonzero(~covered & ~self.dropped)

    def _active(self) -> tuple[npt.NDArray[np.int64], Array, Array]:
        """The active points, their mean rewards, and their s."""
        active = np.flatnonzero((self.n > 0.0) & ~self.dropped)
        n = self.n[active]
        s = math.sqrt(13.0) if self.released else math.sqrt(52.0 * math.pi * self._log)
        return active, self.sums[active] / n, self.tau0 * s / np.sqrt(n)

    def probabilities(self) -> list[Array]:
        """By quadrature over the quantiles of each active point's index."""
        p, fresh = np.zeros(len(self.points)), self.uncovered()
        if len(fresh):
            p[fresh] = 1 / len(fresh)
            return [p]
        active, f, s = self._active()
        if self.released:
            p[active[np.argmax(f + s)]] = 1.0
            return [p]
        z = np.maximum(LEAST_DRAW, _special.ndtri(QUADRATURE_QUANTILES))

        def below(x: Array) -> Array:
            at = (x[None] - f[:, None, None]) / s[:, None, None]
            return np.where(at >= LEAST_DRAW, _special.ndtr(at), 0.0)

        p[active] = probability_of_largest(f[:, None] + s[:, None] * z, below)
        return [p]

    def choose(self, rng: Stream) -> Choice:
        fresh = self.uncovered()
        if len(fresh):
            i = int(fresh[int(rng.uniforms(1)[0] * len(fresh))])
        else:
            active, f, s = self._active()
            z = 1.0 if self.released else np.maximum(LEAST_DRAW, rng.normals(len(self.points))[active])
            i = int(active[np.argmax(f + s * z)])
        return Choice(self.points[i], (i,), (math.nan,))

    def could_draw(self, choice: Choice) -> bool:
        return could_draw_unstated(choice, super().could_draw)

    def learn(self, choice: Choice, reward: float, share: float = 1.0) -> None:
        i = choice.index[0]
        self.n[i] += share
        self.sums[i] += share * self.rescale(reward)
        if self.n.sum() >= (self.epoch or self.horizon) - 1e-9:
            self._restart()
        elif not self.released:
            self._drop()

    def _drop(self) -> None:
        r, (active, f, _) = self.radii(), self._active()
        if not len(active):
            return
        best = (f - r[active]).max()
        for u in active[f + 2.0 * r[active] < best]:
            self.dropped |= (self._distances[u] <= r[u]) & (self.n == 0.0)
            self.dropped[u] = True
