"""The page of a bandit."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from syndicated.service.core.bandit import Bandit
from syndicated.service.core.history import History
from syndicated.service.core.messages import By
from syndicated.service.core.records import Record
from syndicated.service.dashboard.curves import Curves, Progress, curves, joint, progress, table
from syndicated.service.dashboard.formatting import WHO, Interval, name_of, share
from syndicated.service.dashboard.list_view import Line, line
from syndicated.service.dashboard.settings import settings
from syndicated.types import Params

RUN: tuple[By, ...] = ("agent", "warmup", "floor")  # what a bandit plays where it is not held out


@dataclass(frozen=True)
class Tally:
    """What one kind of decision earned."""

    who: str
    decisions: int
    rewards: int
    joined: float
    reward: Interval


def tallies(history: History) -> list[Tally]:
    """By who decided."""
    found = []
    for by, who in WHO.items():
        if by in history.tallies:
            made, rewards, total, squares = history.tallies[by]
            interval = Interval.of(rewards, total, squares)
            found.append(Tally(who, int(made), int(rewards), share(rewards, made), interval))
    return found


def uplift(history: History) -> Interval | None:
    """What a decision of the bandit earned more than one of its hold-out; None where there are not both."""
    run = np.sum([history.tallies.get(by, [0.0] * 4) for by in RUN], axis=0).tolist()
    held = history.tallies.get("holdout", [0.0] * 4)
    if min(run[1], held[1]) < 2:
        return None
    ours, theirs = Interval.of(*run[1:]), Interval.of(*held[1:])
    return Interval(ours.mean - theirs.mean, math.hypot(ours.half, theirs.half))


@dataclass(frozen=True)
class Made:
    """A decision among the latest."""

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


def made(id_: str, record: Record) -> Made:
    event, decided = record.event, record.decided
    drawn = decided.choice.params if decided.choice else {}
    return Made(
        id=id_,
        at=event.at,
        arm=decided.arm,
        by=decided.by,
        propensity=decided.propensity,
        params=name_of(drawn) if drawn else "",
        explored=decided.explored,
        agrees=decided.agrees,
        reward=next((about.learn for about in record.about if about.learn is not None), None),
        late=any(about.kind == "late" for about in record.about),
    )


@dataclass(frozen=True)
class Page:
    """All that the page of a bandit shows."""

    line: Line
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
    latest: list[Made]
    spec: list[tuple[str, str]]


def page(bandit: Bandit, latest: Mapping[str, Record], last: float | None) -> Page:
    """A bandit, given its latest decisions by their ids and when something happened to it."""
    history, rows = bandit.history, table(bandit)
    newest = next((r.decided for r in latest.values() if r.decided.epoch == bandit.epoch and r.decided.choice), None)
    times = history.rows()[:1, 0].tolist()
    callers = history.tallies.get("caller", [0])[0]
    return Page(
        line=line(bandit, last),
        began=times[0] if times else None,
        version=bandit.version,
        epoch=bandit.epoch,
        arms=len(bandit.arms),
        lates=bandit.lates,
        explored=share(history.explored, history.count),
        agreed=share(history.agreed, callers),
        warmup=max(0, bandit.agent.warmup - bandit.agent.round),
        rewards=progress(rows),
        curves=curves(bandit, rows),
        joint=joint(bandit),
        drawn=newest.choice.params if newest and newest.choice else {},
        params=newest.params if newest else {},
        tallies=tallies(history),
        uplift=uplift(history),
        latest=[made(id_, record) for id_, record in latest.items()],
        spec=settings(bandit),
    )
