"""What the page of a bandit shows."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from syndicated._decided_by import BY_THE_BANDIT, By
from syndicated.policies import POLICIES
from syndicated.registry import find
from syndicated.service.core.bandit import Bandit
from syndicated.service.core.history import History
from syndicated.service.core.messages import Spec
from syndicated.service.core.records import Record
from syndicated.service.dashboard.curves import Curves, Progress, curves, history_rows, joint, progress
from syndicated.service.dashboard.formatting import DECIDED_BY, Interval, duration, params_text, percent, share
from syndicated.service.dashboard.list_view import BanditRow, bandit_row
from syndicated.tuners import TUNERS
from syndicated.types import Params


@dataclass(frozen=True)
class Tally:
    """What the decisions of one kind earned."""

    who: str
    decisions: int
    rewards: int
    joined: float
    reward: Interval


def tallies(history: History) -> list[Tally]:
    """One for each kind of decision, by who decided."""
    found = []
    for by, who in DECIDED_BY.items():
        if by in history.tallies:
            made, rewards, total, squares = history.tallies[by]
            interval = Interval.of_sums(rewards, total, squares)
            found.append(Tally(who, int(made), int(rewards), share(rewards, made), interval))
    return found


def uplift(history: History) -> Interval | None:
    """How much more a decision of the bandit earned than one of the hold-out; None without rewards of both."""
    run = np.sum([history.tallies.get(by, [0.0] * 4) for by in BY_THE_BANDIT], axis=0).tolist()
    held = history.tallies.get("holdout", [0.0] * 4)
    if min(run[1], held[1]) < 2:
        return None
    ours, theirs = Interval.of_sums(*run[1:]), Interval.of_sums(*held[1:])
    return Interval(ours.mean - theirs.mean, math.hypot(ours.half, theirs.half))


@dataclass(frozen=True)
class DecisionRow:
    """A decision in the table of the latest."""

    id: str
    at: float
    arm: str
    by: By
    propensity: float
    params: str
    explored: bool
    agrees: bool
    reward: float | None
    late: bool


def decision_row(id_: str, record: Record) -> DecisionRow:
    event, decided = record.event, record.decided
    drawn = decided.choice.params if decided.choice else {}
    return DecisionRow(
        id=id_,
        at=event.at,
        arm=decided.arm,
        by=decided.by,
        propensity=decided.propensity,
        params=params_text(drawn) if drawn else "",
        explored=decided.explored,
        agrees=decided.agrees,
        reward=next((about.learn for about in record.about if about.learn is not None), None),
        late=any(about.kind == "late" for about in record.about),
    )


@dataclass(frozen=True)
class BanditView:
    """Everything that the page of a bandit shows."""

    row: BanditRow
    began: float | None
    version: int
    epoch: int
    arms: int
    lates: int
    explored: float
    agreed: float
    warmup: int
    rewards: Progress
    curves: list[Curves]
    joint: list[tuple[str, float]]
    drawn: Params
    params: Params
    tallies: list[Tally]
    uplift: Interval | None
    latest: list[DecisionRow]
    spec: list[tuple[str, str]]


def bandit_view(bandit: Bandit, latest: Mapping[str, Record], last: float | None) -> BanditView:
    """A bandit, given its latest decisions by id and the time of its last activity."""
    history, rows = bandit.history, history_rows(bandit)
    newest = next((r.decided for r in latest.values() if r.decided.epoch == bandit.epoch and r.decided.choice), None)
    times = history.rows()[:1, 0].tolist()
    callers = history.tallies.get("caller", [0])[0]
    return BanditView(
        row=bandit_row(bandit, last),
        began=times[0] if times else None,
        version=bandit.version,
        epoch=bandit.epoch,
        arms=len(bandit.arms),
        lates=bandit.lates,
        explored=share(history.explored, history.count),
        agreed=share(history.agreed, callers),
        warmup=max(0, bandit.agent.player.warmup - bandit.agent.round),
        rewards=progress(rows),
        curves=curves(bandit, rows),
        joint=joint(bandit),
        drawn=newest.choice.params if newest and newest.choice else {},
        params=newest.params if newest else {},
        tallies=tallies(history),
        uplift=uplift(history),
        latest=[decision_row(id_, record) for id_, record in latest.items()],
        spec=settings(bandit),
    )


# settings

_AGGREGATE = {"first": "the first counts", "last": "the last counts", "sum": "they are summed"}
_MODES = {
    "live": "live: the model decides",
    "apprentice": "apprentice: the caller decides, the model learns from it",
    "off": "off: the fallback decides",
}


def settings(bandit: Bandit) -> list[tuple[str, str]]:
    """The settings of a bandit as labels and text."""
    spec = bandit.spec
    return [
        ("Features", _part(spec.features, "kind")),
        ("Policy", _part({**spec.policy, "name": find(POLICIES, spec.policy["name"]).__name__})),
        ("Tuner", _part({**spec.tuner, "name": find(TUNERS, spec.tuner["name"]).__name__})),
        ("Space", _space(bandit)),
        ("Chosen by itself", "; ".join(bandit.agent.policy.chosen.values()) or "nothing"),
        ("Seed", str(spec.seed)),
        ("Range of rewards", f"{spec.rewards[0]:g} to {spec.rewards[1]:g}" if spec.rewards else "not limited"),
        ("Reward window", "no end" if spec.window is None else duration(spec.window)),
        (
            "Reward if the window closes without one",
            "none" if spec.default_reward is None else f"{spec.default_reward:g}",
        ),
        ("Several rewards for a decision", _AGGREGATE[spec.aggregate]),
        ("Learns", "when a decision is activated" if spec.deferred else "when a reward comes"),
        ("Mode", _MODES[spec.mode]),
        ("Fallback", _fallback(spec)),
        ("Hold-out", _of_the_decisions(spec.holdout)),
        ("Floor of random arms", _of_the_decisions(spec.floor)),
        ("Arms that are not registered", "accepted" if spec.new_arms else "refused"),
        ("Features in the log", "of all arms" if spec.log == "all" else "of the chosen arm"),
        ("Decisions are kept", "for ever" if spec.retention is None else f"for {duration(spec.retention)}"),
    ]


def _part(part: Mapping[str, Any], head: str = "name") -> str:
    more = ", ".join(f"{name} = {value}" for name, value in part.items() if name != head)
    return f"{part[head]} ({more})" if more else str(part[head])


def _of_the_decisions(part: float) -> str:
    return f"{percent(part)} of the decisions" if part else "none"


def _space(bandit: Bandit) -> str:
    values: dict[str, set[float]] = {}
    for point in bandit.agent.tuner.points:
        for name, value in point.items():
            values.setdefault(name, set()).add(value)
    text = "; ".join(f"{name}: {', '.join(f'{v:.12g}' for v in sorted(own))}" for name, own in values.items())
    return text + ("" if bandit.spec.space or not text else " (the policy's default)") or "none: theory sets everything"


def _fallback(spec: Spec) -> str:
    if spec.fallback == "arm":
        return f"the arm {spec.fallback_arm}, or the first where it is missing"
    return "the first arm" if spec.fallback == "first" else "a random arm"
