"""What the policies on fits of a generalised linear model share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from syndicated._models.glm import LINKS, REWARDS, check_link, mean_of, means_of, slope_of
from syndicated._models.glm_fits import GLMFits
from syndicated._models.kernels import dot
from syndicated._validation import MAX_MAGNITUDE, check_count, check_number
from syndicated.policies._scaled_policy import ScaledPolicy
from syndicated.types import Arms, Array, Params


@dataclass(kw_only=True, eq=False)
class GLMPolicy(ScaledPolicy):
    """A policy that explores at rate `alpha` around the fit with penalty `lam`.

    `link` is logistic, probit, poisson or identity. `delta` (the error probability), `horizon`, `S` (a bound on
    |theta|) and `L` (one on |x|) enter the theoretical alpha. Every candidate `lam` has its own fit to all the data;
    where none is given, it is 1 in the features' own units.
    """

    link: str = "logistic"
    delta: float = 0.1
    S: float = 1.0
    L: float = 1.0
    horizon: int = 10_000
    hyper: ClassVar[dict[str, tuple[float, float]]] = {"alpha": (0.0, 1e12), "lam": (1e-9, 1e12)}
    exploring: ClassVar[tuple[str, ...]] = ("alpha",)
    model: GLMFits = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_link(self.link)
        check_number("delta", self.delta, low=1e-300, high=1.0)
        check_number("S", self.S, low=0.0, high=MAX_MAGNITUDE)
        check_number("L", self.L, low=0.0, high=MAX_MAGNITUDE)
        check_count("horizon", self.horizon)
        self.prepare([])

    @property
    def rewards(self) -> tuple[float, float]:  # type: ignore[override]
        return REWARDS[LINKS[self.link]]

    def prepare(self, points: Sequence[Params], catalogue: Array | None = None) -> None:
        super().prepare(points, catalogue)
        self.model = GLMFits(self.size, LINKS[self.link])
        self.model.keep([point.get("lam", 1.0) for point in points])

    def predict(self, arms: Arms, params: Params) -> Array:
        return means_of(self.model.link, dot(self.columns(arms), self.model.theta(params["lam"])))

    def expected(self, score: float) -> float:
        return mean_of(self.model.link, score)

    def learn(self, x: Array, reward: float, params: Params) -> None:
        self.model.learn(self._row(x), reward)

    def _rescale(self, factors: Array) -> None:
        self.model.rescale(factors)

    def _slopes(self) -> tuple[float, float]:
        """The least and the largest mu'(z) for |z| at most S L."""
        slopes = [slope_of(LINKS[self.link], z) for z in (-self.S * self.L, 0.0, self.S * self.L)]
        return max(min(slopes), 1e-12), max(slopes)
