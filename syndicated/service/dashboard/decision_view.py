"""What the page of a decision shows: why this arm was played, and what has happened since."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from syndicated._decided_by import COUNTED, By
from syndicated.service.bandits.bandit import Bandit
from syndicated.service.bandits.records import Decided, Record, decode
from syndicated.service.dashboard.formatting import DECIDED_BY, params_text
from syndicated.store import Event

_OUTCOMES = {
    "learned": "learned",
    "counted": "counted, not learned",
    "collected": "collected until the window closes",
    "held": "held until the decision is activated",
    "late": "came after the window had closed; logged, not learned",
}


@dataclass(frozen=True)
class Draw:
    """What was drawn on one axis, and with what probability."""

    values: str
    probability: float


@dataclass(frozen=True)
class ScoredArm:
    """An arm and its score = plain + bonus. `predicted` is the reward that the model expected of it."""

    arm: str
    chosen: bool
    predicted: float
    plain: float
    bonus: float
    score: float


@dataclass(frozen=True)
class DecisionView:
    """Everything that the page of a decision shows."""

    at: float
    event_id: str | None
    subject: str | None
    decided: Decided
    who: str
    drawn: list[Draw]
    agreeing: tuple[int, int] | None
    bars: list[ScoredArm]
    same_scale: bool
    unlearned: bool
    deferred: bool
    old: bool
    about: list[tuple[float, str]]
    context: list[tuple[str, str]] | None


def decision_view(bandit: Bandit, record: Record) -> DecisionView:
    """A decision and what has happened since."""
    event, decided = record.event, record.decided
    bars = [
        ScoredArm(top.arm, top.arm == decided.arm, top.predicted, top.score - top.bonus, top.bonus, top.score)
        for top in decided.top
    ]
    return DecisionView(
        at=event.at,
        event_id=event.key,
        subject=event.subject,
        decided=decided,
        who=DECIDED_BY[decided.by],
        drawn=draws(decided),
        agreeing=agreeing(decided),
        bars=bars,
        same_scale=all(math.isclose(b.predicted, b.plain, rel_tol=1e-6, abs_tol=1e-9) for b in bars),
        unlearned=decided.version == decided.epoch,
        deferred=decided.deferred,
        old=decided.epoch != bandit.epoch,
        about=[(about.at, event_text(about, decided.by)) for about in record.about],
        context=None if decided.context is None else context_rows(decided.context),
    )


def context_rows(context: Any) -> list[tuple[str, str]]:
    """The fields of a context, or its numbers with their places, and each value as JSON.

    >>> context_rows({"hour": 9, "device": {"kind": "phone"}}), context_rows([0.5])
    ([('hour', '9'), ('device', '{"kind":"phone"}')], [('0', '0.5')])
    """
    parts = context.items() if isinstance(context, Mapping) else enumerate(context)
    return [(str(name), msgspec.json.encode(value).decode()) for name, value in parts]


def agreeing(decided: Decided) -> tuple[int, int] | None:
    """How many of the tuner's candidates would have played this arm, and how many there are.

    None where the propensity is not the probability of those candidates.
    """
    choice = decided.choice
    if choice is None or decided.by != "agent" or not choice.allies:
        return None
    together = sum(choice.odds[j] for j in choice.allies)
    return (len(choice.allies), len(choice.odds)) if math.isclose(together, decided.propensity) else None


def draws(decided: Decided) -> list[Draw]:
    """What the tuner drew: all values at once if there is one axis, or else one value on each axis."""
    choice = decided.choice
    if choice is None or not choice.index:  # nothing was drawn: theory or fixed values
        return []
    if len(choice.index) == 1:
        return [Draw(params_text(choice.params), choice.probability[0])]
    parts = zip(choice.params.items(), choice.probability, strict=True)
    return [Draw(params_text({name: value}), chance) for (name, value), chance in parts]


def event_text(event: Event, by: By) -> str:
    """An event about a decision as a sentence."""
    body = decode(event.body) if event.body else {}
    effect = "learned" if by in COUNTED else "counted, not learned"
    if event.kind in ("reward", "late"):
        return f"Reward {body.get('value', 0.0):g}: {_OUTCOMES.get(body.get('outcome', ''), event.kind)}."
    if event.kind == "activate":
        return "Activated." if event.learn is None else f"Activated: its reward {event.learn:g} was {effect}."
    if event.kind == "close":
        return f"The reward window closed: {event.learn:g} was {effect}." if event.learn is not None else "Closed."
    return f"{event.kind.capitalize()}."
