"""A new model for a bandit, empty: it is checked and made on another thread before the event that begins it is written.

To make a hundred copies of a policy, or to read ten thousand registered arms for other features, takes a tenth of a
second.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from syndicated._validation import shorten
from syndicated.errors import InputError
from syndicated.service.bandits.arms import RegisteredArms
from syndicated.service.bandits.bandit import EpochParts, build_parts
from syndicated.service.bandits.messages import Spec
from syndicated.service.bandits.model_load import EpochStart
from syndicated.service.bandits.size_limits import check_rewards, check_spec, check_theory


@dataclass(frozen=True)
class NewEpoch:
    """An epoch that a change of a bandit's spec is to begin, with the registered arms that it has."""

    actor: str
    bandit: int
    spec: Spec
    registered: RegisteredArms

    def start(self) -> EpochStart:
        """The body of the event that begins it. On any thread."""
        body = change_body(self.actor, self.bandit, self.spec)
        return EpochStart.of(body, checked_parts(self.spec, self.registered))


def change_body(actor: str, bandit: int, spec: Spec) -> dict[str, Any]:
    """The body of an event that changes a spec."""
    return {"actor": actor, "bandit": bandit, "spec": msgspec.to_builtins(spec)}


def checked_parts(spec: Spec, before: RegisteredArms | None = None) -> EpochParts:
    """What an epoch of a spec begins with; a spec that cannot work, or would take too long, is refused."""
    check_spec(spec)
    encoder, agent = build_parts(spec)
    check_theory(agent)
    check_rewards(spec, agent)
    try:
        return EpochParts.of(encoder, agent, before)
    except InputError:
        for arm in () if before is None else before.arms.values():  # again, to say which
            encoder.prepare(arm, f"the registered arm {shorten(arm.id)}")
        raise
