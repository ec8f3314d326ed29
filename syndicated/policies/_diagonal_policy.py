"""What the policies on a diagonal model share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from syndicated import _special
from syndicated._models.diagonal import Diagonal, rows_of_table, rows_with_intercept
from syndicated._models.logistic import sigmoid
from syndicated._validation import check_number, shorten
from syndicated.errors import InputError
from syndicated.policies.base import Policy
from syndicated.types import Arms, Array, Ints, Params

LINKS = ("logistic", "linear")


@dataclass(kw_only=True, eq=False)
class DiagonalPolicy(Policy):
    """A policy on a diagonal model that explores at `boldness` c: c standard deviations of what it does not know.

    `link` is logistic for rewards between 0 and 1, such as clicks, or linear for any. `variance` is that of a typical
    row before anything is known: of its logit, or of its reward in units of the noise's.
    """

    link: str = "logistic"
    variance: float = 4.0
    hyper: ClassVar[dict[str, tuple[float, float]]] = {"boldness": (0.0, 1e12)}
    exploring: ClassVar[tuple[str, ...]] = ("boldness",)
    scale_free: ClassVar[bool] = True
    sparse: ClassVar[bool] = True
    model: Diagonal = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.link not in LINKS:
            raise InputError(f"link must be one of {', '.join(LINKS)}; got {shorten(self.link)}")
        check_number("variance", self.variance, low=1e-12, high=1e12)
        self.model = Diagonal(self.size, self.link == "logistic", self.variance)

    @property
    def rewards(self) -> tuple[float, float]:  # type: ignore[override]
        return (0.0, 1.0) if self.link == "logistic" else super().rewards

    def theory(self, t: int, given: Params) -> dict[str, float]:
        return {"boldness": 1.0, **given}

    def theory_ignores_round(self, given: Params) -> bool:
        return True

    def prepare(self, points: Sequence[Params], catalogue: Array | None = None) -> None:
        self._catalogue = None if catalogue is None else self._rows(catalogue)

    def update_catalogue(self, catalogue: Array, changed: Ints) -> None:
        self._catalogue = self._rows(catalogue)

    def predict(self, arms: Arms, params: Params) -> Array:
        means, _ = self.model.beliefs(self._rows(arms))
        return np.asarray(_special.expit(means)) if self.model.logistic else means + self.model.origin

    def expected(self, score: float) -> float:
        return sigmoid(score) if self.model.logistic else score + self.model.origin

    def learn(self, x: Array, reward: float, params: Params) -> None:
        self.model.learn(self._rows(x[None])[0], reward)

    def _rows(self, arms: Arms) -> Array:
        """The entries of every arm, with that of the intercept: of a table, of sparse rows, or of a catalogue's."""
        if arms.ndim == 2:
            return rows_of_table(arms, self.size)
        if arms.ndim == 3:
            return rows_with_intercept(arms, self.size) if self.intercept else arms
        assert self._catalogue is not None
        return self._catalogue[arms]
