"""The page of a decision: why this arm, and what became of it."""

import math
from dataclasses import dataclass

from syndicated.service.core.bandit import Bandit
from syndicated.service.core.messages import By
from syndicated.service.core.records import COUNTED, Decided, Record, decode
from syndicated.service.dashboard.formatting import WHO, name_of
from syndicated.store import Event

_OUTCOMES = {
    "learned": "learned",
    "counted": "counted, not learned",
    "collected": "collected until the window closes",
    "held": "held until the decision is activated",
    "late": "it came after the window had closed; logged, not learned",
}


@dataclass(frozen=True)
class Draw:
    """What was drawn on one axis, and with what probability."""

    values: str
    probability: float


@dataclass(frozen=True)
class Bar:
    """Why an arm stood where it stood: score = plain + bonus; `predicted` is the reward that was expected of it."""

    arm: str
    chosen: bool
    predicted: float
    plain: float
    bonus: float
    score: float


@dataclass(frozen=True)
class Explained:
    """All that the page of a decision shows."""

    at: float
    event_id: str | None
    subject: str | None
    decided: Decided
    who: str
    drawn: list[Draw]
    alike: tuple[int, int] | None
    bars: list[Bar]
    same_scale: bool
    unlearned: bool
    deferred: bool
    old: bool
    about: list[tuple[float, str]]


def explained(bandit: Bandit, record: Record) -> Explained:
    """A decision and what became of it."""
    event, decided = record.event, record.decided
    bars = [
        Bar(top.arm, top.arm == decided.arm, top.predicted, top.score - top.bonus, top.bonus, top.score)
        for top in decided.top
    ]
    return Explained(
        at=event.at,
        event_id=event.key,
        subject=event.subject,
        decided=decided,
        who=WHO[decided.by],
        drawn=draws(decided),
        alike=alike(decided),
        bars=bars,
        same_scale=all(math.isclose(b.predicted, b.plain, rel_tol=1e-6, abs_tol=1e-9) for b in bars),
        unlearned=decided.version == decided.epoch,
        deferred=decided.deferred,
        old=decided.epoch != bandit.epoch,
        about=[(about.at, happened(about, decided.by)) for about in record.about],
    )


def alike(decided: Decided) -> tuple[int, int] | None:
    """How many of the tuner's candidates would have played this arm, where its propensity is their probability."""
    choice = decided.choice
    if choice is None or decided.by != "agent" or not choice.allies:
        return None
    together = sum(choice.odds[j] for j in choice.allies)
    return (len(choice.allies), len(choice.odds)) if math.isclose(together, decided.propensity) else None


def draws(decided: Decided) -> list[Draw]:
    """What the tuner drew: on one axis all values at once, on several one value each."""
    choice = decided.choice
    if choice is None or not choice.params:
        return []
    if len(choice.index) == 1:
        return [Draw(name_of(choice.params), choice.probability[0])]
    parts = zip(choice.params.items(), choice.probability, strict=True)
    return [Draw(name_of({name: value}), chance) for (name, value), chance in parts]


def happened(event: Event, by: By) -> str:
    """An event about a decision, in a sentence."""
    body = decode(event.body) if event.body else {}
    took = "learned" if by in COUNTED else "counted, not learned"
    if event.kind in ("reward", "late"):
        return f"Reward {body.get('value', 0.0):g}: {_OUTCOMES.get(body.get('outcome', ''), event.kind)}."
    if event.kind == "activate":
        return "Activated." if event.learn is None else f"Activated: its reward {event.learn:g} was {took}."
    if event.kind == "close":
        return f"The reward window closed: {event.learn:g} was {took}." if event.learn is not None else "Closed."
    return f"{event.kind.capitalize()}."
