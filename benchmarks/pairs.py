"""Rounds a second of every policy with every tuner."""

from time import process_time

import numpy as np

from syndicated import Agent, Space
from syndicated.errors import InputError
from syndicated.experiments._formatting import table
from syndicated.policies import POLICIES, Policy
from syndicated.tuners import TUNERS, Fixed, Theory, Tuner
from syndicated.types import Array

ARMS, DIM, ROUNDS = 20, 5, 200
SECONDS = 0.25  # of the processor, after which a pair has played enough
BLOCK = 10  # rounds that are timed together


def pair_table() -> str:
    """A row a policy, a column a tuner: the median of blocks after the first rounds, in which kernels are loaded."""
    rng = np.random.default_rng(5)
    tables = rng.uniform(-1, 1, (ROUNDS, ARMS, DIM))
    rewards = 1 / (1 + np.exp(-tables @ rng.normal(size=DIM)))
    rows = [[name, *(_cell(cls, TUNERS[tuner], tables, rewards) for tuner in TUNERS)] for name, cls in POLICIES.items()]
    return table(["rounds a second", *TUNERS], rows)


def _cell(policy: type[Policy], tuner: type[Tuner], tables: Array, rewards: Array) -> str:
    try:
        made = policy(dim=DIM)
        agent = Agent(made, _tuner(tuner, made.space), seed=1)
    except InputError:  # a tuner that cannot have this policy
        return "-"
    return f"{rate(agent, tables, rewards):,.0f}"


def _tuner(cls: type[Tuner], space: Space) -> Tuner:
    if cls is Theory:
        return Theory()
    first = Space(**{name: values[:1] for name, values in space.axes.items()})
    return cls(first if cls is Fixed else space)  # type: ignore[call-arg]


def rate(agent: Agent, tables: Array, rewards: Array) -> float:
    """Rounds a second."""
    seconds, begin = [], process_time()
    for start in range(0, len(tables), BLOCK):
        before = process_time()
        for X, earned in zip(tables[start : start + BLOCK], rewards[start : start + BLOCK], strict=True):
            decision = agent.decide(X)
            agent.learn(decision, earned[decision.arm])
        seconds.append(process_time() - before)
        if process_time() - begin > SECONDS and len(seconds) > 1:
            break
    return BLOCK / float(np.median(seconds[1:]))
