"""What the policies share that count features in units of their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from syndicated._models.kernels import FEW, take
from syndicated._models.units import Units
from syndicated.policies.base import Policy
from syndicated.types import Arms, Array, Ints, Params


@dataclass(kw_only=True, eq=False)
class ScaledPolicy(Policy):
    """A policy whose model is in the features' own units, unless a hyper-parameter is given in those they come in.

    So penalties, steps and bounds that nobody gave mean the same whatever the features are measured in, and those that
    somebody gave mean what the formulas say. `_feature_units` names the hyper-parameters that are in the units that
    features come in; a point that has no natural one, if there are such, leaves them to theory.
    """

    scale_free: ClassVar[bool] = True
    _feature_units: ClassVar[tuple[str, ...]] = ()
    units: Units = field(init=False, repr=False)

    def prepare(self, points: Sequence[Params], catalogue: Array | None = None) -> None:
        self.units = Units(self.dim, natural=not self._feature_units or self._leave_units_open(points))
        self._rows = np.zeros((0, self.dim)) if catalogue is None else catalogue
        super().prepare(points, catalogue)

    def update_catalogue(self, catalogue: Array, changed: Ints) -> None:
        self._rows, self.catalogue = catalogue, self.columns(catalogue)

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        super().restore(arrays)
        self.catalogue = self.columns(self._rows)

    def _leave_units_open(self, points: Sequence[Params]) -> bool:
        named, given = set(self.natural or self.hyper), set(self._feature_units)
        return bool(points) and all(named & point.keys() and not given & point.keys() for point in points)

    def columns(self, arms: Arms) -> Array:
        if arms.ndim == 1 and self.units.inverse.all():
            return take(self.catalogue, arms)
        return self.units.columns(arms if arms.ndim == 2 else self._rows[arms], self.size)

    def _placed_columns(self, arms: Arms) -> tuple[Array, Ints]:
        """Columns, and the place of each arm among them: where arms are much of a catalogue, those of all of it."""
        if arms.ndim == 1 and FEW * len(arms) >= len(self._rows) and self.units.inverse.all():
            return self.catalogue, arms
        return self.columns(arms), np.arange(len(arms))

    def upgraded(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Mapping[str, npt.NDArray[Any]]:
        """A state from before features had units of their own goes on in those they come in."""
        if any(name.startswith("units.") for name in arrays):
            return arrays
        return {**arrays, **{f"units.{name}": array for name, array in Units(self.dim, natural=False).state().items()}}

    def _row(self, x: Array) -> Array:
        """The row that the model learns. What it knows is brought into the row's units before."""
        factors = self.units.learn(x)
        if factors is not None:
            self.catalogue = self.columns(self._rows)
            self._rescale(np.append(factors, np.ones(self.size - self.dim)))
        return self.units.row(x, self.size)

    def _rescale(self, factors: Array) -> None:
        """Bring what was learned into new units, in which each column is so many times what it was."""
        raise NotImplementedError
