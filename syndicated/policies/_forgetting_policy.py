"""What the policies on a ridge model that forgets share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from syndicated._models.forgetting import Discounted, Solution, Windowed, solve
from syndicated._models.kernels import dot, squares
from syndicated._validation import MAX_MAGNITUDE, check_count, check_number
from syndicated.policies._scaled_policy import ScaledPolicy
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Params


@dataclass(kw_only=True, eq=False)
class ForgettingPolicy(ScaledPolicy):
    """LinUCB on a model that forgets; `forgets` names the hyper-parameter that says how fast.

    `horizon` and `variation`, the length of theta's way in all, enter the theoretical value of that one; `delta`, `S`
    (a bound on |theta|) and `L` (one on |x|) the theoretical alpha. `boldness` c stands for alpha = c s, with s the
    noise that the model's errors show; features are then in units of their own, and rewards counted from the first.
    """

    delta: float = 0.1
    S: float = 1.0
    L: float = 1.0
    horizon: int = 10_000
    variation: float = 1.0
    natural: ClassVar[dict[str, tuple[str, ...]]] = {"boldness": ("alpha",)}
    exploring: ClassVar[tuple[str, ...]] = ("alpha",)
    forgets: ClassVar[str]
    _feature_units: ClassVar[tuple[str, ...]] = ("alpha", "lam")
    model: Discounted | Windowed = field(init=False, repr=False)
    origin: float = field(init=False, default=0.0, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("delta", self.delta, low=1e-300, high=1.0)
        check_number("S", self.S, low=0.0, high=MAX_MAGNITUDE)
        check_number("L", self.L, low=0.0, high=MAX_MAGNITUDE)
        check_count("horizon", self.horizon)
        check_number("variation", self.variation, low=1e-12, high=MAX_MAGNITUDE)
        self.prepare([])

    def prepare(self, points: Sequence[Params], catalogue: Array | None = None) -> None:
        super().prepare(points, catalogue)
        own = self.rate()
        self.model = self.sums(sorted({point.get(self.forgets, own) for point in points} | {own}))
        self._solved: dict[tuple[float, float], Solution] = {}

    def rate(self) -> float:
        """The theoretical value of what says how fast it forgets."""
        raise NotImplementedError

    def sums(self, rates: Sequence[float]) -> Discounted | Windowed:
        """The sums for these values."""
        raise NotImplementedError

    def radius(self, t: int, params: Params) -> float:
        """The theoretical alpha."""
        raise NotImplementedError

    def theory(self, t: int, given: Params) -> dict[str, float]:
        params = {"lam": 1.0, self.forgets: self.rate(), **given}
        if "boldness" in params:
            params["alpha"] = params.pop("boldness") * self.model.noise(params[self.forgets])
        elif "alpha" not in params:
            params["alpha"] = self.radius(t, params)
        return params

    def theory_ignores_round(self, given: Params) -> bool:
        return "alpha" in given or "boldness" in given

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        columns = self.columns(arms)
        return np.stack([self._optimistic(columns, point) for point in points])

    def predict(self, arms: Arms, params: Params) -> Array:
        return dot(self.columns(arms), self._solution(params).theta) + self.origin

    def expected(self, score: float) -> float:
        return score + self.origin

    def learn(self, x: Array, reward: float, params: Params) -> None:
        self._solved, row = {}, self._row(x)
        if self.model.count == 0 and self.intercept and self.units.due:
            self.origin = reward
        self.model.learn(row, reward - self.origin)

    def _rescale(self, factors: Array) -> None:
        self.model.rescale(factors)

    def upgraded(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Mapping[str, npt.NDArray[Any]]:
        return {"origin": np.array(0.0), **super().upgraded(arrays)}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        self._solved = {}
        super().restore(arrays)

    def _optimistic(self, columns: Array, point: Params) -> Array:
        theta, widths = self._solution(point)
        return np.asarray(dot(columns, theta) + point["alpha"] * np.sqrt(np.maximum(squares(columns, widths), 0.0)))

    def _solution(self, point: Params) -> Solution:
        key = point[self.forgets], point["lam"]
        if key not in self._solved:
            self._solved[key] = solve(self.model.sums(key[0]), key[1])
        return self._solved[key]
