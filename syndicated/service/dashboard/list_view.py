"""The list of bandits."""

from collections.abc import Mapping
from dataclasses import dataclass

from syndicated.policies import POLICIES
from syndicated.registry import find
from syndicated.service.core.bandit import Bandit
from syndicated.service.core.state import State
from syndicated.service.dashboard.formatting import Interval, share
from syndicated.tuners import TUNERS


@dataclass(frozen=True)
class Line:
    """A bandit in the list."""

    name: str
    policy: str
    tuner: str
    mode: str
    retired: bool
    decisions: int
    rewards: int
    joined: float
    reward: Interval
    alarms: list[str]
    last: float | None


def line(bandit: Bandit, last: float | None) -> Line:
    history, spec = bandit.history, bandit.spec
    return Line(
        name=bandit.name,
        policy=find(POLICIES, spec.policy["name"]).__name__,
        tuner=find(TUNERS, spec.tuner["name"]).__name__,
        mode=spec.mode,
        retired=bandit.retired,
        decisions=history.count,
        rewards=history.learned,
        joined=share(history.learned, history.count),
        reward=Interval.of(history.learned, history.total, history.squares),
        alarms=bandit.alarms(),
        last=last,
    )


def listing(state: State, last: Mapping[int, float]) -> tuple[list[Line], list[Line]]:
    """The bandits that are in use and the retired ones, each by name; `last` says when something happened to each."""
    lines = [line(bandit, last.get(bandit.id)) for _, bandit in sorted(state.names.items())]
    return [each for each in lines if not each.retired], [each for each in lines if each.retired]
