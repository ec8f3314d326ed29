"""The settings on the page of a bandit."""

from collections.abc import Mapping
from typing import Any

from syndicated.policies import POLICIES
from syndicated.registry import find
from syndicated.service.core.bandit import Bandit
from syndicated.service.core.messages import Spec
from syndicated.service.dashboard.formatting import duration, percent
from syndicated.tuners import TUNERS

_AGGREGATE = {"first": "the first counts", "last": "the last counts", "sum": "they are summed"}
_MODES = {
    "live": "live: the model decides",
    "apprentice": "apprentice: the caller decides, the model learns from it",
    "off": "off: the fallback decides",
}


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
