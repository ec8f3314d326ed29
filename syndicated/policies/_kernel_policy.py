"""What the policies on a Gaussian process share."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from syndicated._models.arm_draws import sorted_rows
from syndicated._models.gaussian_process import GaussianProcess, Posterior
from syndicated._validation import MAX_MAGNITUDE, check_count, check_number
from syndicated.policies._scaled_policy import ScaledPolicy
from syndicated.space import Space
from syndicated.types import Arms, Array, Params


@dataclass(kw_only=True, eq=False)
class KernelPolicy(ScaledPolicy):
    """A policy on a Gaussian process with noise `lam` and `lengthscale`, on the last `cap` observations.

    `boldness` c stands for alpha = c s, with s the amplitude of the kernel under which the rewards are likeliest: c
    posterior standard deviations. `reach` r stands for a lengthscale of r times the usual distance of two rows; where
    no lengthscale is given, features are in units of their own. `B`
    bounds the norm of the reward function, and `delta` is the error probability: both enter the theoretical alpha.
    Rewards are counted from their mean, so `intercept` changes nothing.
    """

    cap: int = 300
    B: float = 1.0
    delta: float = 0.1
    horizon: int = 10_000
    hyper: ClassVar[dict[str, tuple[float, float]]] = {
        "alpha": (0.0, 1e12),
        "lam": (1e-6, 1e12),
        "lengthscale": (1e-12, 1e12),
    }
    natural: ClassVar[dict[str, tuple[str, ...]]] = {"boldness": ("alpha",), "reach": ("lengthscale",)}
    exploring: ClassVar[tuple[str, ...]] = ("alpha",)
    _feature_units: ClassVar[tuple[str, ...]] = ("lengthscale",)
    doubt: ClassVar[float]  # log(doubt/delta) is in the theoretical alpha
    model: GaussianProcess = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("cap", self.cap)
        check_number("B", self.B, low=0.0, high=MAX_MAGNITUDE)
        check_number("delta", self.delta, low=1e-300, high=1.0)
        check_count("horizon", self.horizon)
        self.model = GaussianProcess(self.size, self.cap)
        self._posteriors: dict[tuple[float, float], Posterior] = {}
        self.prepare([])

    @property
    def space(self) -> Space:
        return Space(boldness=[0.5, 1.0], lam=[0.1, 1.0], reach=[0.5, 1.0])

    def theory(self, t: int, given: Params) -> dict[str, float]:
        """alpha = B + sigma sqrt(2 (gamma + 1 + log(doubt/delta))), gamma = ½ log det(I + K/lam), lam = 1 + 2/T."""
        params = {"lam": 1 + 2 / self.horizon, **given}
        if "lengthscale" not in params:
            params["lengthscale"] = params.pop("reach", 1.0) * self.model.spread()
        if "boldness" in params:
            params["alpha"] = params.pop("boldness") * self.model.amplitude(self._posterior(params))
        elif "alpha" not in params:
            information = self._posterior(params).information
            params["alpha"] = self.B + self.sigma * math.sqrt(2 * (information + 1 + math.log(self.doubt / self.delta)))
        return params

    def theory_ignores_round(self, given: Params) -> bool:
        return True

    def work(self, rows: int, points: Sequence[Params]) -> int:
        """About how many products it takes to fit a full process to the last reward, and to score so many rows."""
        fitted = {(point.get("lam"), point.get("lengthscale"), point.get("reach")) for point in points}
        return len(fitted) * self.cap**3 // 3 + len(points) * self.cap**2 * rows

    def predict(self, arms: Arms, params: Params) -> Array:
        rows, order = sorted_rows(self.columns(arms))
        posterior = self._posterior(params)
        means = np.empty(len(rows))
        means[order] = self.model.beliefs(rows, posterior)[0] + posterior.level
        return means

    def expected(self, score: float) -> float:
        _, y = self.model.kept
        return score + (float(y.mean()) if len(y) else 0.0)

    def learn(self, x: Array, reward: float, params: Params) -> None:
        self._posteriors = {}
        self.model.learn(self._row(x), reward)

    def _rescale(self, factors: Array) -> None:
        self.model.rescale(factors)

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        self._posteriors = {}
        super().restore(arrays)

    def _posterior(self, point: Params) -> Posterior:
        key = point["lam"], point["lengthscale"]
        if key not in self._posteriors:
            self._posteriors[key] = self.model.posterior(*key)
        return self._posteriors[key]

    def _unsorted(self, scores: Array, order: npt.NDArray[np.int64]) -> Array:
        out = np.empty_like(scores)
        out[:, order] = scores
        return out
