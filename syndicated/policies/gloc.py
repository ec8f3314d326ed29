"""GLOC: optimism about a generalised linear model whose predictions come from an online learner.

    play argmax_a x_a' theta^ + alpha sqrt(x_a' V⁻¹ x_a),   V = lam I + Σ x x',   theta^ = V⁻¹ Σ z x
    z = x'theta~ before the step;   g = mu(x'theta~) - r;   A += x x'
    theta~ = argmin_{|theta| <= S} |theta - (theta~ - (g/kappa) A⁻¹ x)|_A           (online Newton step)

A starts as I, and kappa is the least mu'(z) for |z| <= S L. The regression is on the learner's predictions, not on the
rewards, so that a linear confidence set holds for any link:

    alpha² = beta = 1 + (4/kappa) B + (8 R²/kappa²) log((2/delta) sqrt(1 + (2/kappa) B + 4 R⁴/(kappa⁴ delta²)))
                    + lam S² - (Σ z² - theta^' Σ z x),      B = Σ g² |x|²_{A⁻¹} / (2 kappa) + 2 kappa S²

Needs the link and S, which bounds |theta|: both enter what is learned. A round costs O(K d²), whatever t: nothing is
refitted. Its regret is O~((1/kappa) d sqrt(T)). The theoretical alpha is far larger than what does best.

Jun, Bhargava, Nowak and Willett, *Scalable generalized linear bandits: online computation and hashing*, NeurIPS 2017.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from syndicated._models.glm import LINKS, REWARDS, check_link, mean_of, means_of, slope_of
from syndicated._models.kernels import dot, squares, update_inverse
from syndicated._validation import MAX_MAGNITUDE, check_number
from syndicated.policies._scaled_policy import ScaledPolicy
from syndicated.space import Space
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Params

BISECTIONS = 100
MIN_VARIANCE = 1e-6
LOSSES, SQUARES, ERRORS = range(3)  # of the sums: B without its constant, Σ z², Σ g²


@dataclass(kw_only=True, eq=False)
class GLOC(ScaledPolicy):
    """GLOC with exploration rate `alpha`.

    `boldness` c stands for alpha = c/sqrt(v) with v the mean squared error of the predictions: for a logistic model v
    is about mu', and c counts standard errors of x'theta; features are then in units of their own. `lam` and `S` are
    the penalty and the bound on |theta|, `L` bounds |x|, `delta` is the error probability; R is `sigma`.

    >>> policy = GLOC(dim=2, intercept=False)
    >>> for reward in (1.0, 1.0, 0.0):
    ...     policy.learn(np.array([1.0, 0.0]), reward, {})
    >>> policy.scores(np.eye(2), [{"alpha": 0.0}], Stream(0, 0)).round(3).tolist()
    [[0.5, 0.0]]
    """

    link: str = "logistic"
    lam: float = 1.0
    S: float = 1.0
    L: float = 1.0
    delta: float = 0.1
    hyper: ClassVar[dict[str, tuple[float, float]]] = {"alpha": (0.0, 1e12)}
    natural: ClassVar[dict[str, tuple[str, ...]]] = {"boldness": ("alpha",)}
    exploring: ClassVar[tuple[str, ...]] = ("alpha",)
    _feature_units: ClassVar[tuple[str, ...]] = ("alpha",)
    A: Array = field(init=False, repr=False)
    learner: Array = field(init=False, repr=False)
    inverse: Array = field(init=False, repr=False)
    xz: Array = field(init=False, repr=False)
    sums: Array = field(init=False, repr=False)
    count: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_link(self.link)
        check_number("lam", self.lam, low=1e-12, high=1e12)
        check_number("S", self.S, low=1e-12, high=MAX_MAGNITUDE)
        check_number("L", self.L, low=0.0, high=MAX_MAGNITUDE)
        check_number("delta", self.delta, low=1e-300, high=1.0)
        self.A, self.inverse = np.eye(self.size), np.eye(self.size) / self.lam
        self.learner, self.xz, self.sums = np.zeros(self.size), np.zeros(self.size), np.zeros(3)
        self.prepare([])

    @property
    def rewards(self) -> tuple[float, float]:  # type: ignore[override]
        return REWARDS[LINKS[self.link]]

    @property
    def kappa(self) -> float:
        """The least mu'(z) for |z| at most S L."""
        return max(min(slope_of(LINKS[self.link], z) for z in (-self.S * self.L, self.S * self.L)), 1e-12)

    @property
    def space(self) -> Space:
        return Space(boldness=[0.25, 0.5, 1.0])

    def theory(self, t: int, given: Params) -> dict[str, float]:
        if "boldness" in given:
            variance = self.sums[ERRORS] / self.count if self.count else 0.25
            return {"alpha": given["boldness"] / math.sqrt(max(variance, MIN_VARIANCE))}
        return {"alpha": math.sqrt(max(self._beta(), 0.0)), **given}

    def theory_ignores_round(self, given: Params) -> bool:
        return True

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        columns = self.columns(arms)
        widths = np.sqrt(np.maximum(squares(columns, self.inverse), 0.0))
        alphas = np.array([[point["alpha"]] for point in points])
        return np.asarray(dot(columns, self._theta()) + alphas * widths)

    def predict(self, arms: Arms, params: Params) -> Array:
        return means_of(LINKS[self.link], dot(self.columns(arms), self._theta()))

    def expected(self, score: float) -> float:
        return mean_of(LINKS[self.link], score)

    def learn(self, x: Array, reward: float, params: Params) -> None:
        x = self._row(x)
        z = float(x @ self.learner)
        error = mean_of(LINKS[self.link], z) - reward
        self.A = self.A + np.outer(x, x)
        along = np.linalg.solve(self.A, x)
        self.learner = self._within(self.learner - error / self.kappa * along)
        update_inverse(self.inverse, x, 1.0)
        self.xz = self.xz + z * x
        self.sums = self.sums + np.array([error**2 * float(x @ along) / (2 * self.kappa), z**2, error**2])
        self.count += 1

    def _rescale(self, factors: Array) -> None:
        one, shift = np.eye(self.size), factors * (self.A @ self.learner)
        seen = (self.A - one) * np.outer(factors, factors)
        self.A, self.inverse = one + seen, np.ascontiguousarray(np.linalg.inv(self.lam * one + seen))
        self.learner = self._within(np.asarray(np.linalg.solve(self.A, shift), dtype=np.float64))
        self.xz = self.xz * factors

    def _theta(self) -> Array:
        return np.asarray(self.inverse @ self.xz)

    def _beta(self) -> float:
        R, kappa, delta = self.sigma, self.kappa, self.delta
        B = self.sums[LOSSES] + 2 * kappa * self.S**2
        log = math.log(2 / delta * math.sqrt(1 + 2 / kappa * B + 4 * R**4 / (kappa**4 * delta**2)))
        left = self.sums[SQUARES] - float(self._theta() @ self.xz)
        return float(1 + 4 / kappa * B + 8 * R**2 / kappa**2 * log + self.lam * self.S**2 - left)

    def _within(self, theta: Array) -> Array:
        """The nearest point of the ball |theta| <= S in the norm of A: (A + nu I)⁻¹ A theta with the nu that fits."""
        if theta @ theta <= self.S**2:
            return np.asarray(theta)
        values, Q = np.linalg.eigh(self.A)
        along = values * (Q.T @ theta)
        low, high = 0.0, float(np.linalg.norm(along)) / self.S
        for _ in range(BISECTIONS):
            nu = (low + high) / 2
            outside = float(np.sum((along / (values + nu)) ** 2)) > self.S**2
            low, high = (nu, high) if outside else (low, nu)
        return np.asarray(Q @ (along / (values + high)))
