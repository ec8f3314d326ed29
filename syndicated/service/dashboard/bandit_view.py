"""What the page of a bandit shows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from syndicated._decided_by import BY_THE_BANDIT, By
from syndicated.policies import POLICIES
from syndicated.registry import find
from syndicated.service.bandits.arm_numbers import most_played
from syndicated.service.bandits.bandit import Bandit
from syndicated.service.bandits.history import History
from syndicated.service.bandits.messages import Spec
from syndicated.service.bandits.records import Record
from syndicated.service.dashboard.arms_view import ArmRow, arm_rows
from syndicated.service.dashboard.axis import By as Axis
from syndicated.service.dashboard.axis import Mark, Span
from syndicated.service.dashboard.curves import (
    COLUMN,
    Curves,
    EpochCurve,
    Progress,
    curves,
    epoch_curves,
    history_rows,
    joint,
    progress,
)
from syndicated.service.dashboard.formatting import DECIDED_BY, Interval, duration, params_text, percent, share
from syndicated.service.dashboard.list_view import BanditRow, bandit_row
from syndicated.tuners import TUNERS
from syndicated.types import Array, Params

TOP_ARMS = 10  # on the page of a bandit; all have a page of their own
FEW_REWARDS = 30  # with fewer, a margin of error is rough

Kept = tuple[int, float, int]  # of a kept model: its version, when it was kept, and its bytes


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


@dataclass(frozen=True)
class Gain:
    """How much more a decision of one kind earned than one of another; `joined` is whether both have their rewards."""

    of: str
    against: str
    difference: Interval
    few: bool
    joined: bool


def gains(history: History, spec: Spec) -> list[Gain]:
    """What the bandit earns against the hold-out, and its model against uniform play: the floor of random arms."""
    held = "the hold-out" + (", which is uniform play" if spec.fallback == "uniform" else f" ({_fallback(spec)})")
    compared = [
        ("the bandit (warm-up and floor included)", BY_THE_BANDIT, held, "holdout"),
        ("the model", ("agent",), "uniform play (the floor of random arms)", "floor"),
    ]
    found = (_gain(history, *each) for each in compared)
    return [gain for gain in found if gain is not None]


def compared_with(history: History, spec: Spec) -> list[str]:
    """What decisions of the bandit can be compared with, once there are rewards."""
    kinds = (("holdout", spec.holdout, "the hold-out"), ("floor", spec.floor, "uniform play"))
    return [text for by, part, text in kinds if part or by in history.tallies]


def _gain(history: History, of: str, kinds: Sequence[str], against: str, other: str) -> Gain | None:
    """None without rewards of both."""
    ours = np.sum([history.tallies.get(by, [0.0] * 4) for by in kinds], axis=0).tolist()
    theirs = history.tallies.get(other, [0.0] * 4)
    if min(ours[1], theirs[1]) < 2:
        return None
    one, two = Interval.of_sums(*ours[1:]), Interval.of_sums(*theirs[1:])
    difference = Interval(one.mean - two.mean, math.hypot(one.half, two.half))
    joined = abs(share(ours[1], ours[0]) - share(theirs[1], theirs[0])) < 0.05
    return Gain(of, against, difference, min(ours[1], theirs[1]) < FEW_REWARDS, joined)


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
class EpochRow:
    """An epoch: what decided in it, and what it earned."""

    epoch: int
    parts: str
    began: float | None
    decisions: int
    rewards: int
    reward: Interval


@dataclass(frozen=True)
class KeptModel:
    """A saved model; `usable` if it is of the current epoch, so that the bandit can be rolled back to it."""

    version: int
    at: float
    bytes: int
    usable: bool


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
    gains: list[Gain]
    compares: str
    loads: int
    top_arms: list[ArmRow]
    played_arms: int
    span: Span
    epochs: list[EpochRow]
    all_epochs: tuple[Span, list[EpochCurve]]
    kept: list[KeptModel]
    latest: list[DecisionRow]
    spec: list[tuple[str, str]]


def bandit_view(
    bandit: Bandit, latest: Mapping[str, Record], last: float | None, kept: Sequence[Kept] = (), by: Axis = "decisions"
) -> BanditView:
    """A bandit, given its latest decisions by id, the time of its last activity and its kept models."""
    history, rows = bandit.history, history_rows(bandit)
    newest = next((r.decided for r in latest.values() if r.decided.epoch == bandit.epoch and r.decided.choice), None)
    callers = history.tallies.get("caller", [0])[0]
    models = [KeptModel(version, at, size, version >= bandit.epoch) for version, at, size in kept]
    arms = most_played(history)
    return BanditView(
        row=bandit_row(bandit, last),
        began=history.began,
        version=bandit.version,
        epoch=bandit.epoch,
        arms=len(bandit.arms),
        lates=bandit.lates,
        explored=share(history.explored, history.count),
        agreed=share(history.agreed, callers),
        warmup=max(0, bandit.agent.player.warmup - bandit.agent.round),
        rewards=progress(rows, by),
        curves=curves(bandit, rows, by),
        joint=joint(bandit),
        drawn=newest.choice.params if newest and newest.choice else {},
        params=newest.params if newest else {},
        tallies=tallies(history),
        gains=gains(history, bandit.spec),
        compares=" and ".join(compared_with(history, bandit.spec)),
        loads=len(bandit.loads),
        top_arms=arm_rows(history, arms[:TOP_ARMS]),
        played_arms=len(arms),
        span=Span(by, rows[0, COLUMN[by]], rows[-1, COLUMN[by]], marks(bandit, models, rows, by)),
        epochs=epoch_rows(bandit, rows),
        all_epochs=all_epochs(bandit, rows, by),
        kept=models,
        latest=[decision_row(id_, record) for id_, record in latest.items()],
        spec=settings(bandit),
    )


def marks(bandit: Bandit, kept: Sequence[KeptModel], rows: Array, by: Axis) -> list[Mark]:
    """Where models were kept and loaded in this epoch."""
    low, high = rows[0, 0], rows[-1, 0]
    places = [(np.interp(each.at, rows[:, 0], rows[:, 1]), each) for each in kept if each.usable]
    found = [
        Mark(
            float(place if by == "decisions" else min(max(each.at, low), high)), "kept", f"kept model {each.version:,}"
        )
        for place, each in places
    ]
    loads = [(load.decisions if by == "decisions" else min(max(load.at, low), high), load.seq) for load in bandit.loads]
    return found + [Mark(float(x), "load", f"a model was loaded: version {seq:,}") for x, seq in loads]


def epoch_rows(bandit: Bandit, rows: Array) -> list[EpochRow]:
    """The current epoch and earlier ones, the newest first."""
    now = (bandit.epoch, bandit.spec.policy["name"], bandit.spec.tuner["name"], rows[0, 0], rows[-1].tolist())
    before = [(past.epoch, past.policy, past.tuner, past.began, past.totals) for past in bandit.past]
    return [
        EpochRow(
            epoch,
            f"{find(POLICIES, policy).__name__}, {find(TUNERS, tuner).__name__}",
            None if math.isnan(began) else float(began),
            int(totals[1]),
            int(totals[2]),
            Interval.of_sums(*totals[2:5]),
        )
        for epoch, policy, tuner, began, totals in [now, *reversed(before)]
    ]


def all_epochs(bandit: Bandit, rows: Array, by: Axis) -> tuple[Span, list[EpochCurve]]:
    """The rewards of all epochs, and what they are drawn over."""
    made = epoch_curves(bandit.past, bandit.epoch, rows, by) if bandit.history.count else []
    end = float(rows[-1, 0]) if by == "time" else sum(past.totals[1] for past in bandit.past) + bandit.history.count
    begun = [Mark(curve.began, "epoch", f"epoch {curve.epoch:,} began") for curve in made]
    return Span(by, begun[0].x if begun else 0.0, end, begun), made


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
