"""What the policies on models of arms share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from syndicated._models.arm_kernels import FOLLOWING, ROWS, SUMS
from syndicated._models.arm_models import ArmModels
from syndicated._models.logistic import sigmoid
from syndicated._models.scaled_ridge import OUTLIERS, RESTARTS, TRIALS
from syndicated._validation import check_number, check_parts, shorten
from syndicated.errors import InputError
from syndicated.policies.base import ArmPolicy
from syndicated.space import Space
from syndicated.streams import Stream
from syndicated.types import ArmRows, Arms, Array, Ints, Params

LINKS = ("auto", "logistic", "linear")
STRUCTURES = ("per-arm", "hybrid", "shared")
LOGISTIC_VARIANCE, LINEAR_VARIANCE = 8.0, 2.0  # of a row's logit, and of its reward in units of the noise's
OLD_SUMS = 6  # of the states of before
OLD_SCALE = {"center": "centers", "weight": "weights", "slope_variance": "slope_variances", "share": "shares"}
UNKNOWN = np.zeros(0)
BOLDNESS = 1.0  # of points that say nothing of it
LOGIT_UNIT = 0.35  # of boldness, in standard deviations of a logit; that of a linear reward is 1


@dataclass(kw_only=True, eq=False)
class ArmModelPolicy(ArmPolicy):
    """A policy that explores by what it does not know of an arm: `boldness` times the standard deviation of its reward.

    `models` are one for each arm (Li et al. 2010 call them disjoint), a shared one with what is an arm's own beside it
    (hybrid), or one for all arms. Of a shared one, rows must tell the arms apart. `link` is logistic for rewards from 0
    to 1 such as clicks, linear for any, or auto: logistic as long as every reward has been 0 or 1. For logistic models
    boldness counts 0.35 standard deviations of the logit. Features may have any units: the models scale them by what
    they see. `variance` is that of the logit of a typical row before anything is known, or of the linear reward in
    units of the noise's; by default 8 and 2. `without` names `parts` that are left out: the cut of outliers, restarts
    of the models or of an arm's where the world has changed, trials of arms that went unplayed.
    """

    link: str = "auto"
    models: str = "per-arm"
    variance: float | None = None
    without: Sequence[str] = field(default=(), repr=False)
    parts: ClassVar[tuple[str, ...]] = (OUTLIERS, RESTARTS, TRIALS)
    hyper: ClassVar[dict[str, tuple[float, float]]] = {"boldness": (0.0, 1e12)}
    exploring: ClassVar[tuple[str, ...]] = ("boldness",)
    scale_free: ClassVar[bool] = True
    logistic: ArmModels = field(init=False, repr=False)
    linear: ArmModels = field(init=False, repr=False)
    fractions: int = field(init=False, default=0, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value, values in (("link", self.link, LINKS), ("models", self.models, STRUCTURES)):
            if value not in values:
                raise InputError(f"{name} must be one of {', '.join(values)}; got {shorten(value)}")
        if self.variance is not None:
            check_number("variance", self.variance, low=1e-12, high=1e12)
        check_parts(type(self).__name__, self.without, self.parts)
        hybrid, other = self.models == "hybrid", (self.intercept, tuple(self.without))
        self.logistic = ArmModels(self.dim, True, hybrid, self.variance or LOGISTIC_VARIANCE, *other)
        self.linear = ArmModels(self.dim, False, hybrid, self.variance or LINEAR_VARIANCE, *other)
        self._last: tuple[Sequence[Params], bool, Array] = (), False, np.empty(0)
        self.prepare([])

    @property
    def is_logistic(self) -> bool:
        """Whether the logistic models decide. With link auto they do until a reward is neither 0 nor 1."""
        return self.link == "logistic" or (self.link == "auto" and not self.fractions)

    @property
    def chosen(self) -> dict[str, str]:
        said = {"link": self._link} if self.link == "auto" else {}
        if self.models == "per-arm":
            said["models"] = "a model for each arm, by rule"
        elif self.models == "hybrid" and self.model.count:
            said["models"] = f"{self.model.share:.0%} of the prior variance is common to all arms, by evidence"
        if self.model.sums[FOLLOWING]:
            said["level"] = "the level of rewards moves and is followed"
        return said

    @property
    def _link(self) -> str:
        """Which link decides, and why."""
        if not self.is_logistic:
            return "linear: a reward was neither 0 nor 1"
        return "logistic: every reward was 0 or 1" if self.logistic.count else "logistic until a reward comes"

    @property
    def model(self) -> ArmModels:
        """The models that decide."""
        return self.logistic if self.is_logistic else self.linear

    @property
    def rewards(self) -> tuple[float, float]:  # type: ignore[override]
        return (0.0, 1.0) if self.link == "logistic" else ArmPolicy.rewards

    @property
    def space(self) -> Space:
        return Space(boldness=[0.5, 1.0, 2.0])

    @property
    def advised(self) -> Params:
        return {"boldness": BOLDNESS}

    def theory(self, t: int, given: Params) -> dict[str, float]:
        return {"boldness": BOLDNESS, **given}

    def theory_ignores_round(self, given: Params) -> bool:
        return True

    def predict(self, arms: Arms | ArmRows, params: Params) -> Array:
        means, _ = self.model.beliefs(self._rows(arms))
        return np.array([self.expected(mean) for mean in means])

    def expected(self, score: float) -> float:
        return float(sigmoid(score)) if self.is_logistic else float(score)

    def usual(self, reward: float) -> float:
        return reward if self.is_logistic else reward - self.linear.excess

    def upgraded(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Mapping[str, npt.NDArray[Any]]:
        """A state from before outliers were cut, levels followed and arms watched: nothing is known of these.

        One from before arms could be behind has one scale.
        """
        old = {name for name, array in arrays.items() if name.endswith(".sums") and array.shape == (OLD_SUMS,)}
        cut = {n: np.append(array, np.zeros(SUMS - OLD_SUMS)) if n in old else array for n, array in arrays.items()}
        for part in ("logistic", "linear"):
            plays, sums = cut.get(f"{part}.plays", UNKNOWN), cut.get(f"{part}.sums", UNKNOWN)
            if sums.shape == (SUMS,) and sums.dtype == float and np.isfinite(sums[ROWS]):  # else the state is refused
                last = np.full(plays.size, int(sums[ROWS]))
                watched = {"falls": np.zeros((plays.size, 2)), "last": last, "trial": np.zeros(3)}
                cut = {f"{part}.{name}": array for name, array in watched.items()} | cut
            if all(f"{part}.{old}" in cut for old in OLD_SCALE):  # else the state is refused
                behind = np.zeros(plays.size, dtype=np.int64)
                pairs = {new: np.stack([cut[f"{part}.{old}"]] * 2) for old, new in OLD_SCALE.items()}
                cut = {f"{part}.{name}": array for name, array in {"behind": behind, **pairs}.items()} | cut
                cut = {name: array for name, array in cut.items() if name not in {f"{part}.{old}" for old in OLD_SCALE}}
        return cut

    def learn_arm(self, number: int, x: Array, reward: float, params: Params) -> None:
        if self.link == "auto" and self.is_logistic and reward not in (0.0, 1.0):
            self.fractions += 1
            self.linear = self.linear.fresh()
            self.linear.learn_rows_of(self.logistic)
            self.logistic = self.logistic.fresh()
        self.model.learn(0 if self.models == "shared" else number, x, reward)

    def learn_arms(self, numbers: Ints, X: Array, rewards: Array, params: Sequence[Params]) -> None:
        done, numbers = 0, np.zeros_like(numbers) if self.models == "shared" else numbers
        while done < len(X):
            end = done + self._same_link(rewards[done:])
            self.model.learn_many(numbers[done:end], X[done:end], rewards[done:end])
            if end < len(X):  # the reward that changes the link
                self.learn_arm(int(numbers[end]), X[end], float(rewards[end]), params[end])
            done = end + 1

    def _same_link(self, rewards: Array) -> int:
        """How many of the next rewards leave the link as it is."""
        if self.link != "auto" or not self.is_logistic:
            return len(rewards)
        changes = (rewards != 0.0) & (rewards != 1.0)
        return int(changes.argmax()) if changes.any() else len(rewards)

    def retire_arm(self, number: int) -> None:
        if self.models != "shared":
            self.logistic.retire(number)
            self.linear.retire(number)

    def _boldness(self, points: Sequence[Params]) -> Array:
        """The boldness of every point, in standard deviations; at hand if the same tuple of points comes again."""
        given, link, boldness = self._last
        if given is not points or link != self.is_logistic:
            unit = LOGIT_UNIT if self.is_logistic else 1.0
            boldness = np.array([point.get("boldness", BOLDNESS) for point in points]) * unit
            self._last = points if isinstance(points, tuple) else (), self.is_logistic, boldness
        return boldness

    def _rows(self, arms: Arms | ArmRows) -> ArmRows:
        if isinstance(arms, ArmRows) and self.models != "shared":
            return arms
        x = arms.x if isinstance(arms, ArmRows) else arms if arms.ndim == 2 else self.catalogue[: self.dim].T[arms]
        number = 0 if len(self.model.plays) else -1
        return ArmRows(np.ascontiguousarray(x), np.full(len(x), number))


def draws_of_arms(numbers: Ints, rng: Stream) -> Array:
    """A standard normal for each arm, whatever its place."""
    draws = np.empty(len(numbers))
    draws[np.argsort(numbers, kind="stable")] = rng.normals(len(numbers))
    return draws
