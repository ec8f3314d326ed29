"""GradientLaplaceTS: Laplace-TS whose update is gradient descent, with the step size as a hyper-parameter.

    as Laplace-TS, but w = m, then up to `steps` times w -= eta [q (w - m) + x (sigmoid(x'w) - r)]

A step that would go uphill is halved instead, and so are all after it; descent ends where the gradient is shorter than
10⁻⁴. The step size is what Ding et al. (2021) and Kang et al. (2023) tune in their experiments: Laplace-TS needs none.
Their code halves it every 100 of up to 1,000 steps, downhill or not, and starts at 0 or at m + Uniform(-1, 1). Needs
rewards from 0 to 1; a round costs O(K d + steps d), and a step size that is far too small leaves the model behind the
data. There is no bound.

Chapelle and Li, *An empirical evaluation of Thompson sampling*, NeurIPS 2011, algorithm 3.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from syndicated._models.glm import LOGISTIC, potential_of
from syndicated._models.logistic import sigmoid
from syndicated._validation import check_count
from syndicated.policies._laplace_policy import LaplacePolicy
from syndicated.space import Space
from syndicated.types import Array, Params

GRADIENT_TOLERANCE = 1e-4


@dataclass(kw_only=True, eq=False)
class GradientLaplaceTS(LaplacePolicy):
    """Laplace-TS with exploration `alpha`, and gradient steps of size `eta`.

    `stride` s stands for eta = s/max(q): a Newton step along the best known coordinate at s = 1; features are then in
    units of their own. The step size is that of the candidate whose reward is learned.

    >>> policy = GradientLaplaceTS(dim=2, intercept=False)
    >>> policy.learn(np.array([1.0, 0.0]), 1.0, {"eta": 0.5})
    >>> policy.m.round(3).tolist(), policy.q.round(3).tolist()
    ([0.401, 0.0], [1.24, 1.0])
    """

    steps: int = 100
    hyper: ClassVar[dict[str, tuple[float, float]]] = {"alpha": (0.0, 1e12), "eta": (1e-12, 1e12)}
    natural: ClassVar[dict[str, tuple[str, ...]]] = {"stride": ("eta",)}
    _feature_units: ClassVar[tuple[str, ...]] = ("eta",)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("steps", self.steps)

    @property
    def space(self) -> Space:
        return Space(alpha=[0.25, 0.5, 1.0], stride=[0.1, 1.0])

    def theory(self, t: int, given: Params) -> dict[str, float]:
        params = {"alpha": 1.0, **given}
        if "eta" not in params:
            params["eta"] = params.pop("stride", 1.0) / float(self.q.max())
        return params

    def likeliest(self, x: Array, reward: float, params: Params) -> Array:
        w, step = self.m, params["eta"]
        value = self._loss(w, x, reward)
        for _ in range(self.steps):
            gradient = self.q * (w - self.m) + (sigmoid(float(x @ w)) - reward) * x
            if math.sqrt(gradient @ gradient) <= GRADIENT_TOLERANCE:
                break
            moved = w - step * gradient
            lower = self._loss(moved, x, reward)
            if lower <= value:
                w, value = moved, lower
            else:
                step /= 2
        return np.asarray(w)

    def _loss(self, w: Array, x: Array, reward: float) -> float:
        z = float(x @ w)
        return float(0.5 * self.q @ (w - self.m) ** 2) + potential_of(LOGISTIC, z) - reward * z
