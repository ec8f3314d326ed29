"""What the policies on a network share."""

import math
from collections.abc import Iterator, Mapping, Sequence
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
MOMENT_WORK = 2_000_000  # gradients by a weight that scores compute to train, if others train the rest: some 10 ms
PIECE_GRADIENTS = 2**15  # that are computed at once for scores


@dataclass(kw_only=True, eq=False)
class NeuralPolicy(ScaledPolicy):
    """A policy on a network with exploration `alpha` and what it is trained with: all of them hyper-parameters.

    `lam` is the penalty, `eta` the step size, in units of one over the largest curvature, `steps` the number of steps,
    `width` half of the units of a hidden layer, `depth` the number of layers of weights. Every candidate has its own
    network, which all observations reach. `boldness` c stands for alpha = c s, with s the standard deviation of the
    rewards. Where no alpha is given, features are in units of their own, and rewards in s. The state has the
    observations only: networks are made of them when they are asked for.

    Where somebody `trains_apart`, scores train only what takes a moment, and are those of the networks as far as they
    are trained; `training` is what is left to do, on any thread.
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
        self._asked: list[Settings] = []  # of the networks that were asked for last
        self.trains_apart = False
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
        if (factors != 1.0).any():  # not if a column has its first unit: all rows had a 0 there
            self.X, self._networks = self.X * factors, {}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        self._networks = {}
        super().restore(arrays)

    def invalid_array(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> str | None:
        wrong = super().invalid_array(arrays)
        return "y" if wrong is None and len(arrays["X"]) != len(arrays["y"]) else wrong

    @property
    def is_behind(self) -> bool:
        """Whether a network that was just asked for has still to learn some of the observations."""
        return any(network.count < len(self.y) for network in self._asked_networks())

    def training(self) -> "Training":
        """What the networks that were just asked for have still to learn."""
        return Training(self._networks, self._asked_networks(), self.X, self.y)

    def _asked_networks(self) -> list[Network]:
        return [self._networks[settings] for settings in self._asked if settings in self._networks]

    def work(self, rows: int, points: Sequence[Params]) -> int:
        """What it takes to score so many rows, in gradients by a weight."""
        return sum(
            settings.work(self.size, rows) for settings in {_settings(self.theory(0, point)) for point in points}
        )

    def _network(self, point: Params) -> Network:
        return self._followed([point])[0]

    def _followed(self, points: Sequence[Params]) -> list[Network]:
        """The network of every point, brought up to the data; as far as is a moment's work if others train."""
        asked = [_settings(point) for point in points]
        self._asked = list(dict.fromkeys(asked))
        work = MOMENT_WORK / len(self._asked) if self.trains_apart else math.inf
        for settings in self._asked:
            if settings not in self._networks:
                self._networks[settings] = Network(settings, self.size, scaled=self.units.due > 0)
            self._networks[settings].follow(self.X, self.y, work)
        return [self._networks[settings] for settings in asked]

    def _beliefs(self, rows: Array, points: Sequence[Params]) -> list[tuple[Array, Array]]:
        """For every point f of the rows, from the level, and sqrt(g'Z⁻¹g/m)."""
        networks, found = self._followed(points), {}
        for network in {id(each): each for each in networks}.values():
            pieces = [_belief(network, piece) for piece in _pieces(rows, network)]
            f, widths = (np.concatenate(part) for part in zip(*pieces, strict=True))
            found[network.settings] = f, widths
        return [found[network.settings] for network in networks]


class Training:
    """Networks on their way to the observations of a moment, on any thread, while the policy goes on with its own."""

    def __init__(self, own: dict[Settings, Network], asked: Sequence[Network], X: Array, y: Array) -> None:
        self._own, self._X, self._y = own, X, y
        self._copies = [network.copy() for network in asked if network.count < len(y)]

    def run(self) -> None:
        """Learn what there was to learn."""
        for network in self._copies:
            network.follow(self._X, self._y)

    def hand_over(self) -> None:
        """Give the policy what was trained. One that was restored or has other units meanwhile has other networks."""
        for network in self._copies:
            if network.count > self._own[network.settings].count:
                self._own[network.settings] = network


def _settings(point: Params) -> Settings:
    return Settings(point["lam"], point["eta"], *(int(point[name]) for name in WHOLE))


def _pieces(rows: Array, network: Network) -> Iterator[Array]:
    """Some rows at a time: gradients that are in the processor's cache take a fifth of the time of others."""
    count = max(1, PIECE_GRADIENTS // len(network.first))
    return (rows[begin : begin + count] for begin in range(0, len(rows), count))


def _belief(network: Network, rows: Array) -> tuple[Array, Array]:
    f, g = network.evaluate(rows)
    return network.unit * f, np.sqrt(network.squares(g))
