"""What each arm of a bandit earned in this epoch, for the API and for the dashboard."""

import math
from collections.abc import Iterable, Sequence

from syndicated.service.bandits.history import History, mean_and_error
from syndicated.service.bandits.messages import ArmNumbers

NOTHING = (0, 0, 0.0, 0.0)


def most_played(history: History) -> list[str]:
    """The arms that were played, those played most first."""
    return sorted(history.arms, key=lambda arm: -history.arms[arm][0])


def arm_numbers(history: History, arms: Iterable[str]) -> list[ArmNumbers]:
    """The numbers of these arms."""
    return [_of_arm(history, arm) for arm in arms]


def _of_arm(history: History, arm: str) -> ArmNumbers:
    whole = history.arms[arm]
    recent = [sum(parts) for parts in zip(*(block.get(arm, NOTHING) for block in history.recent), strict=True)]
    change, change_error = _change(recent, [a - b for a, b in zip(whole, recent, strict=True)])
    mean, error = mean_and_error(*whole[1:])
    first, last = history.played.get(arm, (None, None))
    recent_decisions = history.count - history.recent_starts[1]
    return ArmNumbers(
        arm=arm,
        decisions=int(whole[0]),
        rewards=int(whole[1]),
        mean=_known(mean),
        error=_known(error),
        share=whole[0] / history.count,
        recent_share=recent[0] / recent_decisions if recent_decisions else None,
        change=_known(change),
        change_error=_known(change_error),
        first=first,
        last=last,
    )


def _change(recent: Sequence[float], before: Sequence[float]) -> tuple[float, float]:
    """The mean of the recent rewards minus that of those before, and its standard error; nan where there are few."""
    new, new_error = mean_and_error(*recent[1:])
    old, old_error = mean_and_error(*before[1:])
    error = math.hypot(new_error, old_error)
    return (new - old if math.isfinite(error) else math.nan), error


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
