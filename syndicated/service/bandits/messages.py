"""Requests and replies. These structs check what comes in, and the OpenAPI document is made from them.

Those of the hot routes are not tracked by the garbage collector (`gc=False`): thousands come a second, and they have no
cycles.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr

from syndicated._decided_by import By
from syndicated.agent import ARM_POLICY, ROW_POLICY
from syndicated.errors import InputError
from syndicated.policies import POLICIES
from syndicated.spec import build
from syndicated.types import Params

Text = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[^\x00]*$")]
ShortText = Annotated[str, Meta(min_length=1, max_length=256)]  # to match a pattern takes longer than all the rest
Name = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$(?!\n)", description="letters, digits and . _ -, at most 64"),
]
Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(gt=0, le=1e9)]
Scope = Literal["decide", "reward", "read", "admin"]
NAMED_KINDS = ("open", "fields")  # of features: for arms that have ids, and by default a model each
Outcome = Literal["learned", "counted", "collected", "held", "activated", "late", "repeated"]


class Strict(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A request: fields that are not known are refused."""


class Spec(Strict, frozen=True):
    """What a bandit is.

    Nothing has to be given: contexts are objects or lists, arms are ids, and each arm has a model of its own. `policy`,
    `tuner` and `space` are as in the library: a name and arguments; what is left out has defaults. A change of these,
    of `features` or of `seed` starts a new epoch with an empty model; other changes apply from then on.
    """

    features: dict[str, Any] = field(default_factory=lambda: {"kind": "open"})
    policy: Annotated[dict[str, Any], Meta(description="empty: the default for these features")] = field(
        default_factory=dict
    )
    tuner: Annotated[dict[str, Any], Meta(description="empty: the default for this policy")] = field(
        default_factory=dict
    )
    space: dict[str, list[float]] | None = None
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    rewards: tuple[float, float] | None = None
    window: Seconds | None = None
    default_reward: float | None = None
    aggregate: Literal["first", "last", "sum"] = "first"
    deferred: bool = False
    mode: Literal["live", "apprentice", "off"] = "live"
    fallback: Literal["first", "uniform", "arm"] = "first"
    fallback_arm: Text | None = None
    holdout: Share = 0.0
    floor: Share = 0.0
    log: Literal["chosen", "all"] = "chosen"
    retention: Annotated[Seconds, Meta(description="seconds that decisions and rewards are kept")] | None = None
    new_arms: Annotated[bool, Meta(description="whether arms may come that are not registered")] = True

    def __post_init__(self) -> None:
        named = self.features.get("kind") in NAMED_KINDS
        if not self.policy:
            force_setattr(self, "policy", {"name": ARM_POLICY if named else ROW_POLICY})
        if not self.tuner:
            point = _advised(self.policy) if named and not self.space else None
            force_setattr(self, "tuner", {"name": "Consensus" if point is None else "Fixed"})
            force_setattr(self, "space", self.space if point is None else {name: [v] for name, v in point.items()})


def _advised(policy: dict[str, Any]) -> Params | None:
    """The point that a policy advises; one that cannot be built is refused elsewhere."""
    try:
        return build(POLICIES, {**policy, "dim": 1}).advised
    except (InputError, KeyError, TypeError, ValueError):
        return None


class Create(Strict, frozen=True):
    """A new bandit."""

    name: Name
    spec: Spec = field(default_factory=Spec)


class BanditReply(Struct, frozen=True, kw_only=True):
    """A bandit as it is now: `arms` are registered, `known_arms` have a model of their own."""

    name: str
    spec: Spec
    epoch: int
    version: int
    retired: bool
    decisions: int
    rewards: int
    arms: int
    known_arms: int


class ArmNumbers(Struct, frozen=True, kw_only=True):
    """How often an arm was played in this epoch, how many rewards came, their mean and its standard error.

    `share` is its share of all decisions, and `recent_share` that of the recent ones, an eighth to a half of the epoch.
    `change` is the mean of the recent rewards minus that of those before, with its standard error; `first` and `last`
    are the times when it was played. What is not known is null.
    """

    arm: str
    decisions: int
    rewards: int
    mean: float | None
    error: float | None
    share: float
    recent_share: float | None
    change: float | None
    change_error: float | None
    first: float | None
    last: float | None


class Arm(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """An arm of a request: its id, and `x` or `features` or nothing, as the kind of features wants."""

    id: str
    x: list[float] | None = None
    features: dict[str, Any] | None = None


class DecideRequest(Strict, frozen=True, gc=False):
    """Arms are ids, or objects with ids; left out, all registered ones. Ids alone are of registered arms where features
    of kind vector or hashed are needed."""

    arms: list[ShortText | Arm] | None = None
    context: list[float] | dict[str, Any] | None = None
    event_id: Text | None = None
    subject: Text | None = None
    played: Text | None = None
    deferred: bool | None = None
    shape: tuple[int, int] | None = None
    k: Annotated[int, Meta(ge=1, le=100, description="how many arms to rank, the one to play first")] | None = None


class RankedArm(Struct, frozen=True, array_like=False, gc=False):
    """An arm of a ranking: its probability of being the first, and its score where the policy gave one."""

    arm: str
    propensity: float
    score: float | None = None


class DecideReply(Struct, frozen=True, kw_only=True, gc=False):
    """The arm to play. `propensity` is its probability, given the policy's own draw.

    If `k` arms were asked for, `ranking` has them: the arm to play, then those with the best scores. Only the first is
    the decision: its reward is learned.
    """

    decision_id: str
    arm: str
    propensity: float
    by: By
    version: int
    epoch: int
    params: dict[str, float]
    repeated: bool = False
    ranking: list[RankedArm] = []


class RewardRequest(Strict, frozen=True):
    """The reward of a decision.

    The decision is named by its `decision_id`, and then an `event_id` tells a retry from a second reward where rewards
    are collected; or by the `event_id` that it was asked for with, alone.
    """

    reward: float
    decision_id: Text | None = None
    event_id: Text | None = None


class RewardReply(Struct, frozen=True, kw_only=True):
    """What happened to the reward.

    learned; counted, for a decision that the model does not learn from; collected until the window closes; held until
    the decision is activated; activated, with no reward yet; late: logged, not learned; repeated: it is known already.
    """

    decision_id: str
    outcome: Outcome


class ActivateRequest(Strict, frozen=True):
    decision_id: Text


class Arms(Strict, frozen=True):
    """Arms to register, or to change."""

    arms: list[Arm]


class KeyRequest(Strict, frozen=True):
    name: Text
    scopes: Annotated[list[Scope], Meta(min_length=1)]


class KeyReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key; its secret is shown once, when it is made."""

    id: str
    name: str
    scopes: list[Scope]
    created: float
    revoked: bool = False
    secret: str | None = None


class ModelReply(Struct, frozen=True, kw_only=True):
    """A stored state of a bandit's model, by the sequence number up to which it has learned."""

    version: int
    at: float
    bytes: int
