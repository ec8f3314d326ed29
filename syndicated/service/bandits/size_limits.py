"""What requests and bandits may be: not so large that they delay the others by more than a tenth of a second.

What is checked here is what callers ask for: journals of before these limits still open.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from syndicated._models.network import CALL_WORK
from syndicated._validation import shorten
from syndicated.agent import Agent
from syndicated.errors import InputError
from syndicated.features import Encoder
from syndicated.features._json_table import MAX_ID as MAX_ARM_ID
from syndicated.policies import POLICIES, LinUCB
from syndicated.policies._kernel_policy import KernelPolicy
from syndicated.policies._neural_policy import NeuralPolicy
from syndicated.policies.base import Policy
from syndicated.registry import find
from syndicated.service.bandits.messages import Arm, DecideRequest, Spec
from syndicated.tuners import OP, TUNERS, Tuner
from syndicated.types import Array

MAX_ARMS = 10_000  # of a request, and registered with a bandit
MAX_CELLS = 1_000_000  # numbers in the table of a request's arms
MAX_SCORED_CELLS = 2_560_000  # of the table that they become: as many arms with 256 columns
MAX_LOGGED_CELLS = 1_000_000  # of such a table, where the log has all arms
MAX_FEATURES = 100_000  # fields of a request's context and arms
BYTES_PER_FIELD = 128  # about: of an arm's id, or of a field, as an object in memory
QUICK_WORK = 2_000  # arms and fields of a request that the event loop reads itself; more are read on another thread
MAX_REGISTERED_AT_ONCE = 2_000  # arms of a request to register them; checked and folded between two batches
MAX_FEATURES_AT_ONCE = 10_000  # fields of such a request
MAX_COLUMNS = 256  # of a policy with matrices, whose rewards cost the square of it, and some the cube
MAX_POINTS = 400  # combinations of candidates
MAX_COSTLY_POINTS = 100  # the same with tuners that copy the policy for each, or with `OP`, whose choices cost the cube
MAX_MODEL_ENTRIES = 2**19  # pairs of columns of all models: of those that candidates need, or of a policy's copies
# Arguments and candidates of policies: what a decision or a reward costs grows with them, with `cap` by its square.
MAX_ARGUMENTS = {"cap": 300, "steps": 200, "width": 32, "depth": 3, "window": 20_000}
MAX_NETWORK_WORK = 10_000_000  # gradients of a decision: by each weight of all candidates' networks, at each arm
MAX_KERNEL_WORK = 400_000_000  # products that a decision by Gaussian processes takes, those of all candidates
MAX_WEIGHTS = 2**22  # of all models of a policy without matrices
ARM_MODELS_BYTES = 2**30  # of the models of a bandit's arms together
BYTES_PER_ENTRY = 32  # of such a model: what is kept for each pair of columns


def check_request(request: DecideRequest, X: Array | None) -> int:
    """How much there is to read in a request to decide: arms and fields. One with too many of them is refused."""
    arms = request.arms or ()
    count, fields = len(arms) if X is None else len(X), _fields(request.context)
    if count > MAX_ARMS:
        raise InputError(f"arms must be at most {MAX_ARMS} in a request; got {count}")
    if X is None:
        described = [arm for arm in arms if type(arm) is Arm]
        _check_cells(sum([len(arm.x) for arm in described if arm.x is not None]))
        fields += sum([_fields(arm.features) for arm in described if arm.features is not None])
    else:
        _check_cells(X.size)
    if X is None or request.shape is not None:  # `split_json` has checked the ids that it reads
        check_ids([arm if isinstance(arm, str) else arm.id for arm in arms])
    if fields > MAX_FEATURES:
        raise InputError(f"the context and the arms of a request must have at most {MAX_FEATURES} fields; got {fields}")
    return count + fields


def check_registration(arms: Sequence[Arm], known: Mapping[str, Arm]) -> None:
    """Refuse to register too many arms, at once or together."""
    if len(arms) > MAX_REGISTERED_AT_ONCE:
        raise InputError(f"at most {MAX_REGISTERED_AT_ONCE} arms can be registered by a request; got {len(arms)}")
    check_ids([arm.id for arm in arms])
    fields = sum(_fields(arm.features) + len(arm.x or ()) for arm in arms)
    if fields > MAX_FEATURES_AT_ONCE:
        raise InputError(f"at most {MAX_FEATURES_AT_ONCE} features can be registered by a request; got {fields}")
    count = len(known.keys() | {arm.id for arm in arms})
    if count > MAX_ARMS:
        raise InputError(f"a bandit must have at most {MAX_ARMS} registered arms; it would have {count}")


def check_ids(ids: Sequence[str]) -> None:
    """Refuse ids of arms that are too long, empty or with a NUL. Every request waits for it: first all at once."""
    if max(map(len, ids), default=1) <= MAX_ARM_ID and "" not in ids and "\x00" not in "".join(ids):
        return
    for k, id_ in enumerate(ids):
        if not 0 < len(id_) <= MAX_ARM_ID or "\x00" in id_:
            must = f"must have 1 to {MAX_ARM_ID} characters and no NUL"
            raise InputError(f"the id of arms[{k}] {must}; got {shorten(id_)} with {len(id_)}")


def check_spec(spec: Spec) -> None:
    """Refuse a bandit whose rewards or decisions would take long. Before it is built, which may take long too."""
    encoder, points, name = Encoder.from_spec(spec.features), 1, spec.policy.get("name")
    policy = find(POLICIES, name) if isinstance(name, str) else LinUCB
    if not policy.sparse and encoder.dim > MAX_COLUMNS:
        must = f"features must have at most {MAX_COLUMNS} columns with {policy.__name__} in a service"
        raise InputError(f"{must}: use DiagonalUCB or DiagonalTS for more; got {encoder.dim}")
    for argument, most in MAX_ARGUMENTS.items():
        for value in (spec.policy.get(argument), *(spec.space or {}).get(argument, ())):
            if isinstance(value, (int, float)) and value > most:
                raise InputError(f"{argument} of a policy must be at most {most} in a service; got {shorten(value)}")
    for values in (spec.space or {}).values():
        points *= len(values)
    tuner = find(TUNERS, str(spec.tuner.get("name")))
    most_points = MAX_COSTLY_POINTS if tuner is OP or _copies(tuner, spec) else MAX_POINTS
    if points > most_points:
        raise InputError(f"a space must have at most {most_points} combinations with {tuner.__name__}; got {points}")
    _check_models(points if _copies(tuner, spec) else _priors(policy, spec), encoder.dim, policy)


def check_theory(agent: Agent) -> None:
    """Refuse a policy that would choose too much itself, as a window by a long horizon.

    Also where candidates are given for it: the policy keeps the rows of its own window beside those of theirs.
    """
    own = agent.policy.theory(0, {})
    for argument, most in MAX_ARGUMENTS.items():
        if own.get(argument, 0) > most:
            must = f"{argument} of a policy must be at most {most} in a service"
            raise InputError(f"{must}: its own is {own[argument]:g}, by its horizon and variation")
    _check_models(count_models(agent), agent.policy.dim, type(agent.policy))
    check_work(agent, 1)


def count_models(agent: Agent) -> int:
    """How many models score the arms of a decision: one for each copy of the policy, or for each prior."""
    exploring, tuner = _exploring(type(agent.policy)), agent.player.tuner
    priors = {tuple((name, point[name]) for name in sorted(point.keys() - exploring)) for point in tuner.points}
    return max(tuner.slots, len(priors))


def check_scored(models: int, X: Array) -> None:
    """Refuse a table of arms that is too large, or that too many models are to score."""
    if X.size > MAX_SCORED_CELLS:
        must = f"a request's arms must become a table of at most {MAX_SCORED_CELLS} numbers"
        raise InputError(f"{must}: use fewer arms or columns; got {X.size}")
    if models > 1 and models * X.size > MAX_CELLS:
        must = f"the numbers of a request's arms times the bandit's models must be at most {MAX_CELLS}"
        raise InputError(f"{must}: use fewer arms or candidates; got {X.size} numbers and {models} models")


def check_logged(X: Array) -> None:
    """Refuse a table of arms that is too large for the log to have all of it."""
    if X.size > MAX_LOGGED_CELLS:
        must = f"where the log has all arms, they must become a table of at most {MAX_LOGGED_CELLS} numbers"
        raise InputError(f"{must}: use fewer arms, or log the chosen ones; got {X.size}")


def check_work(agent: Agent, arms: int) -> None:
    """Refuse to score arms by networks or processes that are too many or too large for it."""
    policy, points = agent.player.policies[0], agent.player.tuner.points
    if isinstance(policy, KernelPolicy) and (work := policy.work(arms, points)) > MAX_KERNEL_WORK:
        must = f"with {type(policy).__name__} a service takes at most {MAX_KERNEL_WORK} products for a decision"
        raise InputError(f"{must}: use fewer arms, candidates or a smaller cap; got {work} for {arms} arms")
    work = policy.work(arms, points) if isinstance(policy, NeuralPolicy) else 0
    if work > MAX_NETWORK_WORK:
        must = f"arms times the weights of all candidates' networks must be at most {MAX_NETWORK_WORK}"
        raise InputError(f"{must}, with {CALL_WORK} more for each network; got {work} for {arms} arms")


def check_rewards(spec: Spec, agent: Agent) -> None:
    """Refuse a range of rewards that the policy cannot learn: they would be refused one by one."""
    low, high = agent.policy.rewards
    if spec.rewards is not None and not low <= spec.rewards[0] <= spec.rewards[1] <= high:
        must = f"rewards must be within [{low:g}, {high:g}], which is what {type(agent.policy).__name__} can learn"
        raise InputError(f"{must}; got {list(spec.rewards)}")


def max_known_arms(dim: int, copies: int) -> int:
    """How many arms may have a model of their own, in each copy of the policy."""
    return max(1, ARM_MODELS_BYTES // (BYTES_PER_ENTRY * dim * dim * copies))


def _copies(tuner: type[Tuner], spec: Spec) -> bool:
    """Whether there is a copy of the policy for each candidate."""
    return tuner.slots is not Tuner.slots and not spec.tuner.get("shared")


def _priors(policy: type[Policy], spec: Spec) -> int:
    """How many models the candidates of a spec need if they share one policy, before they are made."""
    exploring = _exploring(policy)
    return math.prod(len(values) for name, values in (spec.space or {}).items() if name not in exploring)


def _exploring(policy: type[Policy]) -> set[str]:
    """The hyper-parameters in which points may differ and share a model."""
    natural = {
        name for name, stands_for in policy.natural.items() if set(stands_for) <= {*policy.exploring, *policy.natural}
    }
    return {*policy.exploring, *natural}


def _check_models(models: int, dim: int, policy: type[Policy]) -> None:
    """Refuse models that together are too large: each is made and kept, and may learn every reward."""
    if issubclass(policy, (KernelPolicy, NeuralPolicy)):  # which have rewards and networks in their place
        return
    entries, most, size = models * dim**2, MAX_MODEL_ENTRIES, "the square of the columns"
    if policy.sparse:
        entries, most, size = models * dim, MAX_WEIGHTS, "the columns"
    if entries > most:
        must = f"models of candidates times {size} must be at most {most} in a service"
        raise InputError(f"{must}: use fewer candidates or columns; got {models} models with {dim} columns")


def _check_cells(count: int) -> None:
    if count > MAX_CELLS:
        raise InputError(f"the table of a request's arms must have at most {MAX_CELLS} numbers; got {count}")


def _fields(given: Any) -> int:
    """The fields of a context or of an arm's features; the items of a list in it count too."""
    if not isinstance(given, dict):
        return len(given) if given is not None else 0
    return len(given) + sum(len(value) for value in given.values() if isinstance(value, (list, dict)))
