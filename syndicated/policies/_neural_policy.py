"""What the policies on a network share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from syndicated._models.arm_draws import sorted_rows
from syndicated._models.network import Network, Settings
from syndicated.errors import InputError
from syndicated.policies._scaled_policy import ScaledPolicy
from syndicated.space import Space
from syndicated.types import Arms, Array, Params

WHOLE = ("steps", "width", "depth")


@dataclass(kw_only=True, eq=False)
class NeuralPolicy(ScaledPolicy):
    """A policy on a network with exploration `alpha` and what it is trained with: all of them hyper-parameters.

    `lam` is the penalty, `eta` the step size, in units of one over the largest curvature, `steps` the number of steps,
    `width` half of the units of a hidden layer, `depth` the number of layers of weights. Every candidate has its own
    network, which all observations reach. `boldness` c stands for alpha = c s, with s the standard deviation of the
    rewards. Where no alpha is given, features are in units of their own, and rewards in s. The state has the
    observations only: networks are made of them when they are asked for.
    """

    hyper: ClassVar[dict[str, tuple[float, float]]] = {
        "alpha": (0.0, 1e12),
        "lam": (1e-6, 1e12),
        "eta": (1e-6, 1e6),
        "steps": (1, 100_000),
        "width": (1, 512),
        "depth": (1, 8),
    }
    natural: ClassVar[dict[str, tuple[str, ...]]] = {"boldness": ("alpha",)}
    exploring: ClassVar[tuple[str, ...]] = ("alpha",)
    _feature_units: ClassVar[tuple[str, ...]] = ("alpha",)
    growing: ClassVar[tuple[str, ...]] = ("X", "y")
    X: Array = field(init=False, repr=False)
    y: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.X, self.y = np.zeros((0, self.size)), np.zeros(0)
        self._networks: dict[Settings, Network] = {}
        self.prepare([])

    @property
    def space(self) -> Space:
        return Space(boldness=[0.1, 0.3], lam=[0.1, 1.0])

    def theory(self, t: int, given: Params) -> dict[str, float]:
        params = {"lam": 1.0, "eta": 8.0, "steps": 60.0, "width": 8.0, "depth": 2.0, **given}
        if "alpha" not in params:
            spread = float(self.y.std()) if len(self.y) else 0.0
            params["alpha"] = params.pop("boldness", 1.0) * (spread if spread > 0 else 1.0)
        return params

    def theory_ignores_round(self, given: Params) -> bool:
        return True

    def check(self, params: Params) -> None:
        super().check(params)
        for name in WHOLE:
            if params.get(name, 1) % 1:
                raise InputError(f"{name} must be a whole number; got {params[name]}")

    def predict(self, arms: Arms, params: Params) -> Array:
        rows, order = sorted_rows(self.columns(arms))
        network = self._network(params)
        means = np.empty(len(rows))
        means[order] = network.means(rows) + network.level
        low, high = self.rewards
        return np.clip(means, low, high)

    def learn(self, x: Array, reward: float, params: Params) -> None:
        row = self._row(x)
        self.X, self.y = np.vstack([self.X, row]), np.append(self.y, reward)

    def _rescale(self, factors: Array) -> None:
        self.X, self._networks = self.X * factors, {}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        self._networks = {}
        super().restore(arrays)

    def invalid_array(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> str | None:
        wrong = super().invalid_array(arrays)
        return "y" if wrong is None and len(arrays["X"]) != len(arrays["y"]) else wrong

    def _network(self, point: Params) -> Network:
        whole = (int(point[name]) for name in WHOLE)
        settings = Settings(point["lam"], point["eta"], *whole)
        network = self._networks.setdefault(settings, Network(settings, self.size, scaled=self.units.due > 0))
        network.follow(self.X, self.y)
        return network

    def _beliefs(self, rows: Array, points: Sequence[Params]) -> list[tuple[Array, Array]]:
        """For every point f of the rows, from the level, and sqrt(g'Z⁻¹g/m)."""
        found = {}
        for network in {id(each): each for each in map(self._network, points)}.values():
            f, g = network.evaluate(rows)
            found[network.settings] = network.unit * f, np.sqrt(network.squares(g))
        return [found[self._network(point).settings] for point in points]
