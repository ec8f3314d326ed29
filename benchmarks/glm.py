"""UCB-GLM against the same loop with scikit-learn's LogisticRegression fitted again every round."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import cast

import numpy as np
from floor import Rounds
from measure import Row, Section, interleave, seconds_of
from rounds import SPACE, rounds_of
from sklearn.linear_model import LogisticRegression

from syndicated import UCBGLM, Agent, Decision, Syndicated, Theory
from syndicated.environments import Logistic
from syndicated.policies._ridge_policy import RidgePolicy
from syndicated.streams import Stream
from syndicated.tuners import Tuner
from syndicated.types import Arms, Array, Params

MIN_SPEEDUP = 20.0  # how many times faster a run must be
ROUNDS, BLOCK, REPEATS = 1500, 50, 3
HORIZON, STRIDE, SAMPLE = 10_000, 500, 10  # the paper's horizon; the last SAMPLE rounds of every STRIDE are timed


def fit(X: Array, y: Array, lam: float, theta: Array) -> None:
    """As the paper's scripts fit: the default l2 penalty with C = lam; nothing until both rewards were seen."""
    if 0 < y.sum() < len(y):
        theta[:] = LogisticRegression(C=lam, fit_intercept=False).fit(X, y).coef_[0]


class Refitted(UCBGLM):
    """The same policy, fitted from nothing to all the data before it scores."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.X, self.y = np.zeros((ROUNDS, self.size)), np.zeros(ROUNDS)

    def learn(self, x: Array, reward: float, params: Params) -> None:
        RidgePolicy.learn(self, x, reward, params)
        self.X[self.model.count - 1], self.y[self.model.count - 1] = x, reward

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        for point in points:
            self.refit(point["lam"])
        return super().scores(arms, points, rng)

    def refit(self, lam: float) -> None:
        n = self.model.count
        fit(self.X[:n], self.y[:n], lam, self.fits[[prior.lam for prior in self._kept.priors].index(lam)])


def policy(cls: type[UCBGLM]) -> UCBGLM:
    return cls(dim=10, intercept=False, L=math.sqrt(10), ridge="inverse")


def playing(cls: type[UCBGLM], tuner: Tuner, rounds: Rounds) -> Iterator[list[Decision]]:
    """A whole run, a block at each step."""
    agent = Agent(policy(cls), tuner, seed=1)
    for start in range(0, len(rounds), BLOCK):
        decisions = []
        for X, rewards in rounds[start : start + BLOCK]:
            decisions.append(agent.decide(X))
            agent.learn(decisions[-1], rewards[decisions[-1].arm])
        yield decisions


def learning(cls: type[UCBGLM], seen: Sequence[tuple[Array, float]]) -> Iterator[None]:
    """Only what a run learns, a block at each step; the fit is up to date after every observation."""
    learner, params = policy(cls), {"lam": 1.0}
    learner.prepare([params])
    for start in range(0, len(seen), BLOCK):
        for x, reward in seen[start : start + BLOCK]:
            learner.learn(x, reward, params)
            if isinstance(learner, Refitted):
                learner.refit(1.0)
        yield


def whole_run(tuner: Tuner, rounds: Rounds) -> Array:
    """Seconds of our run and of theirs."""
    runs = [playing(cls, tuner, rounds) for cls in (UCBGLM, Refitted)]
    return np.asarray(interleave([run.__next__ for run in runs], len(rounds) // BLOCK).sum(axis=0))


def learning_alone(rounds: Rounds) -> Array:
    """The same for learning alone, from what our run observed."""
    decisions = [decision for block in playing(UCBGLM, Theory(), rounds) for decision in block]
    seen = [(d.x, rewards[d.arm]) for d, (_, rewards) in zip(decisions, rounds, strict=True)]
    runs = [learning(cls, seen) for cls in (UCBGLM, Refitted)]
    return np.asarray(interleave([run.__next__ for run in runs], len(rounds) // BLOCK).sum(axis=0))


def long_run() -> Array:
    """The same for learning in a run of the paper's length, from a sample of its rounds."""
    agent, seconds = Agent(policy(UCBGLM), Theory(), seed=1), np.zeros(2)
    for t, world in enumerate(Logistic().rounds(seed=1, horizon=HORIZON), start=1):
        decision = agent.decide(world.arms)
        ours = seconds_of(partial(agent.learn, decision, world.rewards[decision.arm]))
        if -t % STRIDE < SAMPLE:
            model = cast(UCBGLM, agent.policy)
            seconds += ours, seconds_of(partial(fit, model.X[:t], model.y[:t], 1.0, np.empty(10)))
    return seconds * STRIDE / SAMPLE


def against_scikit_learn() -> Section:
    """A ratio for each of a few runs; within a run the blocks are interleaved."""
    rounds = rounds_of(Logistic(), ROUNDS)
    one, three, alone, long = zip(
        *(
            (whole_run(Theory(), rounds), whole_run(Syndicated(SPACE), rounds), learning_alone(rounds), long_run())
            for _ in range(REPEATS)
        ),
        strict=True,
    )
    rows = [
        _row(f"a run of {ROUNDS:,} rounds, Theory: one penalty", one, MIN_SPEEDUP),
        _row(f"a run of {ROUNDS:,} rounds, Syndicated: fits 3, theirs 1", three, MIN_SPEEDUP),
        _row("the first run's learning alone", alone),
        _row(f"learning in {HORIZON:,} rounds, by a sample of them", long),
    ]
    return Section("UCB-GLM, K=100, d=10: a refit every round over ours", rows)


def _row(what: str, runs: Sequence[Array], at_least: float | None = None) -> Row:
    ours, theirs = np.array(runs).T
    return Row(what, "scikit-learn", float(np.median(ours)), theirs / ours, at_least=at_least)
