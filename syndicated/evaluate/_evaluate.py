"""What a target would have earned in place of the player that wrote a log."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from syndicated._progress import progress_bar
from syndicated._validation import check_count, check_number, check_range, shorten
from syndicated.agent import Agent
from syndicated.errors import InputError
from syndicated.evaluate._estimates import Evaluation, Range, pool, summarise
from syndicated.evaluate._log import MIN_PROPENSITY, Log, Logged
from syndicated.evaluate._walk import Advance, Walk, knows_ids, predict_rewards, walk, walk_fixed
from syndicated.features._reader import ArmReader
from syndicated.types import Array

Mode = Literal["fresh", "trained", "frozen"]
MODES = ("fresh", "trained", "frozen")
DEFAULT_HISTORIES = 5


def evaluate(
    log: Log,
    target: Agent | Callable[[Logged], npt.ArrayLike] | Sequence[npt.ArrayLike] | Array,
    *,
    mode: Mode = "fresh",
    confidence: float = 0.95,
    acceptance: float | None = None,
    histories: int = DEFAULT_HISTORIES,
    rewards: Range | None = None,
    progress: bool = False,
) -> Evaluation:
    """What a target would have earned in place of the player that wrote the log.

    A target is an agent, or a policy that does not change: the probabilities of all arms in every round, as a table or
    as a function of a round. An agent is `fresh` (it has no history and learns from the log), `trained` (it goes on
    from its state) or `frozen` (it has its state and learns nothing).

    `acceptance` is c, by default the least propensity in the log, which clips nothing; a larger one gives an agent that
    learns a longer history that is not quite that of a real run. Such an agent goes through the log as many times as
    there are `histories`, with the seeds from its own on, and the intervals include how far these differ. `rewards` is
    the range that rewards may have, by default that of the log. `progress` shows a progress bar.

    >>> from syndicated import LinUCB
    >>> log = Log([Logged(np.eye(2), place=t % 2, propensity=0.5, reward=float(t % 2)) for t in range(1000)])
    >>> found = evaluate(log, Agent(LinUCB(dim=2)))
    >>> round(found.logged.value, 2), bool(found.dr.value > 0.9)
    (0.5, True)
    >>> round(evaluate(log, lambda round_: [0.1, 0.9]).ips.value, 4)
    0.9
    """
    if not isinstance(log, Log):
        raise InputError(f"log must be a Log, as of read_log(path) or log_from_frame(frame); got {shorten(log)}")
    check_number("confidence", confidence, low=0.01, high=0.9999)
    if mode not in MODES:
        raise InputError(f"mode must be one of {', '.join(MODES)}; got {shorten(mode)}")
    paid = np.array([each.reward for each in log.rounds])
    bounds = _bounds(paid, rewards)
    least = min(each.propensity for each in log.rounds)
    c = least if acceptance is None else check_number("acceptance", acceptance, low=MIN_PROPENSITY, high=1.0)
    count = check_count("histories", histories)
    if isinstance(target, Agent):
        _check_agent(log, target)
        count = 1 if mode == "frozen" else count
    with progress_bar("rounds", len(log.rounds) * (1 + count), progress) as advance:
        walks = _walks(log, target, mode, c, count, advance)
    return pool([summarise(paid, each, confidence, c, bounds, 1 / least) for each in walks])


def _walks(log: Log, target: Any, mode: Mode, c: float, count: int, advance: Advance) -> list[Walk]:
    """Every history of the target."""
    if not isinstance(target, Agent):
        return [walk_fixed(log, _function(target, log), predict_rewards(log, log.named, advance))]
    named = knows_ids(log, target)
    predictions = predict_rewards(log, named, advance)
    twins = (_twin(target, mode, target.player.seed + k) for k in range(count))
    return [walk(log, twin, c, predictions, mode != "frozen", advance) for twin in twins]


def _function(target: Any, log: Log) -> Callable[[Logged], npt.ArrayLike]:
    """The probabilities of a policy that does not change, as a function of a round."""
    if callable(target):
        return target  # type: ignore[no-any-return]
    try:
        count = len(target)
    except TypeError:
        must = "a target must be an agent, a function, or a table of probabilities"
        raise InputError(f"{must}; got {shorten(target)}") from None
    if count != len(log.rounds):
        raise InputError(f"a table of probabilities must have a row for each of {len(log.rounds)} rounds; got {count}")
    rows = iter(target)
    return lambda _: next(rows)


def _twin(agent: Agent, mode: Mode, seed: int) -> Agent:
    """A copy of an agent, with or without its history, that draws by this seed."""
    twin = Agent(agent.policy, agent.tuner, seed=agent.player.seed)
    if agent._reader is not None:
        twin._reader = ArmReader.from_state(agent._reader.state())
    if mode != "fresh":
        twin.restore(agent.state())
    twin.player.seed = seed
    return twin


def _bounds(paid: Array, given: Range | None) -> Range:
    """The range of rewards, which must hold those of the log."""
    seen = float(paid.min()), float(paid.max())
    if given is None:
        return seen
    low, high = check_range("rewards", given)
    if not low <= seen[0] <= seen[1] <= high:
        raise InputError(f"rewards must hold those of the log, from {seen[0]:g} to {seen[1]:g}; got {shorten(given)}")
    return low, high


def _check_agent(log: Log, agent: Agent) -> None:
    if agent.player.catalogue is not None:
        raise InputError("an agent without a catalogue can be evaluated: a log has features; got one with a catalogue")
    if agent._reader is not None:
        if not log.named or any(each.context is None for each in log.rounds):
            raise InputError("an agent that reads contexts needs a log with contexts and arms that have ids")
    elif not knows_ids(log, agent) and agent.policy.dim != log.dim:
        raise InputError(f"the policy must have dim {log.dim}, as the log has; got {agent.policy.dim}")
    for each in log.rounds:
        check_number("a reward of this policy", each.reward, *agent.policy.rewards)
