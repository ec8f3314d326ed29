"""The list of bandits."""

from dataclasses import dataclass

from syndicated.policies import POLICIES
from syndicated.registry import find
from syndicated.service.bandits.bandit import Bandit
from syndicated.service.dashboard.formatting import Interval, share
from syndicated.tuners import TUNERS


@dataclass(frozen=True)
class BanditRow:
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


def bandit_row(bandit: Bandit, last: float | None) -> BanditRow:
    history, spec = bandit.history, bandit.spec
    return BanditRow(
        name=bandit.name,
        policy=find(POLICIES, spec.policy["name"]).__name__,
        tuner=find(TUNERS, spec.tuner["name"]).__name__,
        mode=spec.mode,
        retired=bandit.retired,
        decisions=history.count,
        rewards=history.learned,
        joined=share(history.learned, history.count),
        reward=Interval.of_sums(history.learned, history.total, history.squares),
        alarms=bandit.alarms(),
        last=last,
    )
