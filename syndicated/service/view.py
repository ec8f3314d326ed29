"""What the pages show: plain functions from the state to numbers and words. There is no HTML here."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from syndicated.policies import POLICIES
from syndicated.registry import find
from syndicated.service.api import By, Decided, Spec
from syndicated.service.bandit import COUNTED, Bandit
from syndicated.service.history import FIXED, History, mean_and_error
from syndicated.service.state import Record, State, decode
from syndicated.store import Event
from syndicated.tuners import TUNERS
from syndicated.types import Array, Params

WIDE = 1.96  # standard errors on each side of a mean that has a 95% band
STRETCHES = 40  # parts of an epoch whose rewards are shown apart
SHORTEST = 25  # decisions in each of them
WHO: dict[By, str] = {
    "agent": "the model",
    "warmup": "warm-up: a random arm",
    "floor": "floor: a random arm",
    "holdout": "hold-out: the fallback",
    "fallback": "switched off: the fallback",
    "caller": "the caller",
}
MEANINGS = {
    "boldness": "how far the model explores, in standard errors of what it expects",
    "stride": "how far the model moves with what it learns, in Newton steps",
}
RUN: tuple[By, ...] = ("agent", "warmup", "floor")  # what a bandit plays where it is not held out


@dataclass(frozen=True)
class Interval:
    """A mean and half of its 95% band; nan where there is too little to tell."""

    mean: float
    half: float

    @classmethod
    def of(cls, count: float, total: float, squares: float) -> "Interval":
        mean, error = mean_and_error(count, total, squares)
        return cls(mean, WIDE * error)

    @property
    def size(self) -> "Interval":
        """The same without its sign."""
        return Interval(abs(self.mean), self.half)


def share(part: float, whole: float) -> float:
    """A part of a whole; nan if there is none."""
    return part / whole if whole else math.nan


def name_of(params: Params) -> str:
    """Hyper-parameters in words."""
    return ", ".join(f"{name} = {value:.5g}" for name, value in params.items()) or "none"


# the list


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


# one bandit


@dataclass(frozen=True)
class Curves:
    """The probability of every candidate of a hyper-parameter, a column each, after so many decisions."""

    name: str
    labels: list[str]
    decisions: Array
    p: Array

    @property
    def likeliest(self) -> tuple[str, float]:
        best = int(np.argmax(self.p[-1]))
        alike = np.ptp(self.p[-1]) < 1e-9
        return "all alike" if alike else self.labels[best], float(self.p[-1, best])

    @property
    def meaning(self) -> str | None:
        """What a hyper-parameter in natural units is a multiple of."""
        return MEANINGS.get(self.name)


def table(bandit: Bandit) -> Array:
    """The rows of a bandit's history between its beginning and now, both included."""
    history = bandit.history
    now = [math.nan, history.count, history.learned, history.total, history.squares, history.explored]
    last = np.concatenate([now, *bandit.agent.tuner.probabilities()])
    rows = history.rows()
    first = last.copy()
    first[1:FIXED] = 0.0
    first[FIXED:] = rows[0, FIXED:] if len(rows) else last[FIXED:]
    return np.vstack([first, rows[rows[:, 1] < history.count], last])


def curves(bandit: Bandit, rows: Array) -> list[Curves]:
    """For every hyper-parameter that the tuner has a choice in. One that is drawn jointly is shown by its marginals."""
    found, start = [], FIXED
    for axis in bandit.agent.tuner.axes():
        p = rows[:, start : start + len(axis)]
        start += len(axis)
        for name in axis[0]:
            values = sorted({point[name] for point in axis})
            columns = [
                p[:, [k for k, point in enumerate(axis) if point[name] == value]].sum(axis=1) for value in values
            ]
            if len(values) > 1:
                found.append(Curves(name, [f"{value:.12g}" for value in values], rows[:, 1], np.column_stack(columns)))
    return found


def joint(bandit: Bandit) -> list[tuple[str, float]]:
    """Candidates that set several hyper-parameters at once, the likeliest first; none where axes are drawn apart."""
    tuner = bandit.agent.tuner
    found = [
        (name_of(point), float(chance))
        for axis, p in zip(tuner.axes(), tuner.probabilities(), strict=True)
        for point, chance in zip(axis, p, strict=True)
        if len(point) > 1
    ]
    return sorted(found, key=lambda each: -each[1]) if len(found) > 1 else []


@dataclass(frozen=True)
class Progress:
    """Stretches of an epoch: the middle of each in decisions, the rewards that came in it, the share of exploration."""

    decisions: Array
    mean: Array
    low: Array
    high: Array
    explored: Array


def progress(rows: Array) -> Progress:
    """Differences between rows of the history, in stretches that are long enough to tell something."""
    count = min(STRETCHES, max(1, int(rows[-1, 1]) // SHORTEST))
    edges = rows[np.unique(np.linspace(0, len(rows) - 1, count + 1).round().astype(int))]
    steps = np.diff(edges[:, :FIXED], axis=0)
    steps, middles = steps[steps[:, 1] > 0], (edges[1:, 1] + edges[:-1, 1])[steps[:, 1] > 0] / 2
    means = np.array([mean_and_error(*step[2:5]) for step in steps]).reshape(-1, 2)
    mean, half = means[:, 0], WIDE * np.nan_to_num(means[:, 1])
    return Progress(middles, mean, mean - half, mean + half, steps[:, 5] / steps[:, 1])


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


def settings(bandit: Bandit) -> list[tuple[str, str]]:
    """A spec in words."""
    spec = bandit.spec
    return [
        ("Features", _part(spec.features, "kind")),
        ("Policy", _part({**spec.policy, "name": find(POLICIES, spec.policy["name"]).__name__})),
        ("Tuner", _part({**spec.tuner, "name": find(TUNERS, spec.tuner["name"]).__name__})),
        ("Space", _space(bandit)),
        ("Seed", str(spec.seed)),
        ("Range of rewards", f"{spec.rewards[0]:g} to {spec.rewards[1]:g}" if spec.rewards else "not limited"),
        ("Reward window", "no end" if spec.window is None else duration(spec.window)),
        ("Reward when it closes without one", "none" if spec.default_reward is None else f"{spec.default_reward:g}"),
        ("Several rewards of a decision", _AGGREGATE[spec.aggregate]),
        ("Learned", "when activated" if spec.deferred else "when the reward comes"),
        ("Mode", _MODES[spec.mode]),
        ("Fallback", _fallback(spec)),
        ("Hold-out", _of_the_decisions(spec.holdout)),
        ("Floor of random arms", _of_the_decisions(spec.floor)),
        ("Features in the log", "of all arms" if spec.log == "all" else "of the chosen arm"),
        ("Decisions are kept for", "ever" if spec.retention is None else duration(spec.retention)),
    ]


_AGGREGATE = {"first": "the first counts", "last": "the last counts", "sum": "they are summed"}
_MODES = {
    "live": "live: the model decides",
    "apprentice": "apprentice: the caller decides, the model learns from it",
    "off": "off: the fallback decides",
}


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
    said = "; ".join(f"{name}: {', '.join(f'{v:.12g}' for v in sorted(own))}" for name, own in values.items())
    return said + ("" if bandit.spec.space or not said else " (the policy's own)") or "none: theory sets everything"


def _fallback(spec: Spec) -> str:
    if spec.fallback == "arm":
        return f"the arm {spec.fallback_arm}, or the first where it is missing"
    return "the first arm" if spec.fallback == "first" else "a random arm"


# one decision


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


_OUTCOMES = {
    "learned": "learned",
    "counted": "counted, not learned",
    "collected": "collected until the window closes",
    "held": "held until the decision is activated",
    "late": "it came after the window had closed; logged, not learned",
}


# numbers in words


def number(value: float) -> str:
    """A number for a table.

    >>> number(1234567), number(0.123456), number(12.0), number(float("nan"))
    ('1,234,567', '0.1235', '12', '–')
    """
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.4g}"


def percent(value: float) -> str:
    """
    >>> percent(0.5), percent(0.123), percent(0.0004), percent(1.0)
    ('50%', '12.3%', '0.04%', '100%')
    """
    if not math.isfinite(value):
        return "–"
    return f"{100 * value:.3g}%" if 0.01 <= value <= 0.995 or value in (0, 1) else f"{100 * value:.4g}%"


def plus_minus(interval: Interval) -> str:
    """A mean and its band, with as many digits as the band allows.

    >>> plus_minus(Interval(0.51234, 0.0231)), plus_minus(Interval(12345.6, 210.0))
    ('0.512 ± 0.023', '12,346 ± 210')
    """
    if not math.isfinite(interval.half):
        return number(interval.mean)
    if interval.half == 0:
        return f"{number(interval.mean)} ± 0"
    digits = max(0, 1 - math.floor(math.log10(interval.half)))
    return f"{interval.mean:,.{digits}f} ± {interval.half:,.{digits}f}"


def duration(seconds: float) -> str:
    """
    >>> duration(0.0123), duration(59), duration(90), duration(7200), duration(200000)
    ('12.3 ms', '59 s', '1.5 min', '2 h', '2.31 days')
    """
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{1000 * seconds:.3g} ms"
