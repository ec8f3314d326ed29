"""What the two forms of Laplace-TS share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from syndicated import _special
from syndicated._models.kernels import dot
from syndicated._models.logistic import sigmoid
from syndicated._validation import check_number
from syndicated.policies._scaled_policy import ScaledPolicy
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Params


@dataclass(kw_only=True, eq=False)
class LaplacePolicy(ScaledPolicy):
    """A logistic model with a mean m and a precision q for each coordinate; `lam` is the precision of the prior."""

    lam: float = 1.0
    hyper: ClassVar[dict[str, tuple[float, float]]] = {"alpha": (0.0, 1e12)}
    exploring: ClassVar[tuple[str, ...]] = ("alpha",)
    rewards: ClassVar[tuple[float, float]] = (0.0, 1.0)
    m: Array = field(init=False, repr=False)
    q: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("lam", self.lam, low=1e-12, high=1e12)
        self.m, self.q = np.zeros(self.size), np.full(self.size, self.lam)
        self.prepare([])

    def theory(self, t: int, given: Params) -> dict[str, float]:
        return {"alpha": 1.0, **given}

    def theory_ignores_round(self, given: Params) -> bool:
        return True

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        columns = self.columns(arms)
        means, noise = dot(columns, self.m), dot(columns, rng.normals(self.size) / np.sqrt(self.q))
        return means + np.array([[point["alpha"]] for point in points]) * noise

    def predict(self, arms: Arms, params: Params) -> Array:
        return np.asarray(_special.expit(dot(self.columns(arms), self.m)))

    def expected(self, score: float) -> float:
        return sigmoid(score)

    def learn(self, x: Array, reward: float, params: Params) -> None:
        x = self._row(x)
        self.m = self.likeliest(x, reward, params)
        p = sigmoid(float(x @ self.m))
        self.q = self.q + p * (1.0 - p) * x**2

    def _rescale(self, factors: Array) -> None:
        shift = self.q * self.m * factors  # what the data say stays, and the prior is that of the new units
        self.q = self.lam + (self.q - self.lam) * factors**2
        self.m = shift / self.q

    def likeliest(self, x: Array, reward: float, params: Params) -> Array:
        """The w that is likeliest after the reward: argmin ½ Σ q (w - m)² + log(1 + e^(x'w)) - r x'w."""
        raise NotImplementedError
