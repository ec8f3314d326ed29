"""The arms of a bandit: what share each has, what it earns, and where that goes."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from syndicated.service.bandits.arm_numbers import arm_numbers, most_played
from syndicated.service.bandits.history import History
from syndicated.service.bandits.messages import ArmNumbers
from syndicated.service.dashboard.formatting import STANDARD_ERRORS_95, Interval

ARMS_PER_PAGE = 50
MIN_TREND_REWARDS = 30  # of an arm; with fewer, its margin of error is too rough for an arrow


@dataclass(frozen=True)
class ArmRow:
    """An arm with its numbers; `trend` is the mean of its recent rewards minus that of those before."""

    numbers: ArmNumbers
    reward: Interval
    trend: Interval

    @property
    def direction(self) -> int:
        """1 or -1 where the trend is larger than its margin of error, else 0."""
        clear = self.numbers.rewards >= MIN_TREND_REWARDS and abs(self.trend.mean) > self.trend.half
        return int(math.copysign(1, self.trend.mean)) if clear else 0


@dataclass(frozen=True)
class ArmsView:
    """A page of the arms that were found."""

    rows: list[ArmRow]
    played: int
    found: int
    page: int
    pages: int


def arm_rows(history: History, arms: Iterable[str]) -> list[ArmRow]:
    return [
        ArmRow(each, _interval(each.mean, each.error), _interval(each.change, each.change_error))
        for each in arm_numbers(history, arms)
    ]


def _interval(mean: float | None, error: float | None) -> Interval:
    return Interval(math.nan if mean is None else mean, math.nan if error is None else STANDARD_ERRORS_95 * error)


def arms_view(history: History, text: str, page: int) -> ArmsView:
    """The arms whose id has this text in it, those played most first; pages count from 1, and the nearest is shown."""
    played = most_played(history)
    found = [arm for arm in played if text.casefold() in arm.casefold()]
    pages = max(1, math.ceil(len(found) / ARMS_PER_PAGE))
    page = min(max(page, 1), pages)
    shown = found[(page - 1) * ARMS_PER_PAGE : page * ARMS_PER_PAGE]
    return ArmsView(arm_rows(history, shown), len(played), len(found), page, pages)
