"""What a round costs: against its floor, part by part, and for every policy and every tuner."""

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from floor import Floor, Rounds
from measure import Row, Section, Side, interleave, over, ratio

from syndicated import Agent, Choice, Decision, Fixed, LinTS, LinUCB, Space, Syndicated, Theory
from syndicated._argmax import best
from syndicated._models.kernels import learn_inverses, ucb_scores
from syndicated._validation import check_arms
from syndicated.environments import Environment, Linear, Logistic
from syndicated.experiments.paper import CANDIDATES
from syndicated.policies import POLICIES
from syndicated.streams import POLICY, TUNER, Stream
from syndicated.tuners import TUNERS, Tuner
from syndicated.types import Array

LAMS = CANDIDATES["lam"]
SPACE = Space(alpha=CANDIDATES["alpha"], lam=LAMS)
MAX_ROUND_COST = 4.0  # of a round, in floors
MAX_DEFAULT_COST = 2.0  # of a round with nothing set, in rounds with alpha and lam fixed


class Kernels(Floor):
    """The floor with the package's own kernels in place of the plain loops."""

    def play(self, rounds: Rounds) -> None:
        inverses, thetas, d = self.inverses, self.thetas, len(self.b)
        G, b, tallies = np.zeros((1, d, d)), np.zeros((1, d)), np.zeros((len(thetas), 4))
        out, rows, alphas = np.empty((1, len(rounds[0][0]))), np.array([1]), np.array([0.1])
        gammas, of, played = np.ones(1), np.zeros(len(thetas), dtype=np.int64), np.zeros(1, dtype=np.int64)
        units = np.zeros(d), np.ones(d)
        for X, rewards in rounds:
            ucb_scores(out, X, *units, inverses, thetas, rows, alphas)
            best(played, out, X)
            arm = played[0]
            learn_inverses(G, b, inverses, thetas, tallies, gammas, of, X[arm], rewards[arm])


def rounds_of(world: Environment, count: int) -> Rounds:
    return [(each.arms, each.rewards.tolist()) for each in world.rounds(seed=1, horizon=count)]


def play(agent: Agent, rounds: Rounds) -> None:
    for X, rewards in rounds:
        decision = agent.decide(X)
        agent.learn(decision, rewards[decision.arm])


def against_the_floor(arms: int, dim: int, count: int, blocks: int) -> Section:
    """A full round of Syndicated over 5 alphas and 3 penalties, in floors."""
    rounds = rounds_of(Linear(dim=dim, arms=arms), count)
    bare, whole = (Agent(LinUCB(dim=dim, intercept=i), Syndicated(SPACE), seed=1) for i in (False, True))
    sides: list[Side] = [partial(each.play, rounds) for each in (Floor(dim, LAMS), Kernels(dim, LAMS))]
    sides += [partial(play, agent, rounds) for agent in (bare, whole)]
    floor, kernels, without, with_ = interleave(sides, blocks).T / count
    rows = [
        ratio("the floor: plain compiled loops", "itself", floor, floor),
        ratio("our kernels alone", "the floor", kernels, floor),
        ratio("decide + learn, intercept=False", "the floor", without, floor, at_most=MAX_ROUND_COST),
        ratio("decide + learn, intercept=True", "the floor", with_, floor),
        ratio("decide + learn, intercept=False", "our kernels alone", without, kernels),
    ]
    return Section(f"One round of LinUCB with Syndicated, K={arms}, d={dim}", rows)


def with_nothing_set(count: int = 300, blocks: int = 25) -> Section:
    """`Agent(policy)` beside one whose alpha and lam are fixed, which estimates nothing.

    A block has more rounds than a model remembers rows: so the rows of changing arms are new in every block.
    """
    rows: list[Row] = []
    kinds = {"are new": {}, "come back": {"fixed": True}, "have effects": {"fixed": True, "shape": "square"}}
    for cls, arms, dim in (
        (LinUCB, 10, 5),
        (LinUCB, 100, 10),
        (LinUCB, 1000, 20),
        (LinUCB, 100, 100),
        (LinTS, 100, 10),
    ):
        for kind, given in kinds.items():
            rounds = rounds_of(Linear(dim=dim, arms=arms, **given), count)  # type: ignore[arg-type]
            agents = Agent(cls(dim=dim), seed=1), Agent(cls(dim=dim), Fixed(Space(alpha=[1.0], lam=[1.0])), seed=1)
            ours, theirs = interleave([partial(play, agent, rounds) for agent in agents], blocks).T / count
            what = f"{cls.__name__}, K={arms}, d={dim}, rows {kind}"
            rows.append(ratio(what, "alpha, lam fixed", ours, theirs, at_most=MAX_DEFAULT_COST))
    return Section("One round with nothing set", rows)


def part_by_part(count: int = 50, blocks: int = 300) -> Section:
    """Where the time of a round goes: every part on its own, with the arguments of real rounds."""
    arms = [X for X, _ in rounds_of(Linear(), count)]
    agent = Agent(LinUCB(dim=10, intercept=False), Syndicated(SPACE), seed=1)
    parts = _parts(agent, arms)
    seconds = interleave([*_halves(agent, arms), *parts.values()], blocks).T / count
    whole, rest = seconds[:2].sum(axis=0), seconds[:2].sum(axis=0) - seconds[2:].sum(axis=0)
    names = ["decide", "learn", *(f"- {name}" for name in parts), "- the rest: calls, bookkeeping, colder caches"]
    rows = [ratio(name, "decide + learn", mine, whole) for name, mine in zip(names, [*seconds, rest], strict=True)]
    return Section("The parts of a round, K=100, d=10, intercept=False", rows)


def _halves(agent: Agent, arms: Sequence[Array]) -> list[Side]:
    """decide and learn, each for a block at once; rewards come a block late."""
    waiting = deque(agent.decide(X) for X in arms)

    def decide() -> None:
        for X in arms:
            waiting.append(agent.decide(X))

    def learn() -> None:
        for _ in arms:
            agent.learn(waiting.popleft(), 0.5)

    return [decide, learn]


def _parts(agent: Agent, arms: Sequence[Array]) -> dict[str, Side]:
    policy, tuner, t = agent.policy, agent.tuner, range(len(arms))
    streams = [Stream(1, TUNER, i) for i in t]
    choices: list[Choice] = [tuner.choose(stream) for stream in streams]
    params = [policy.theory(0, choice.params) for choice in choices]
    points = [[each] for each in params]
    scores = [policy.scores(X, point, streams[0]) for X, point in zip(arms, points, strict=True)]
    best_arms = [np.empty(1, dtype=np.int64) for _ in t]
    over(best, best_arms, scores, arms)()
    played = [int(each[0]) for each in best_arms]
    xs = [X[arm].copy() for X, arm in zip(arms, played, strict=True)]
    half = [0.5 for _ in t]

    def decision(i: int) -> Decision:
        return Decision(agent.id, i, played[i], arms[i][played[i]].copy(), 0.1, params[i], choices[i])

    return {
        "check the arms": over(check_arms, arms, [10 for _ in t]),
        "open two streams": over(lambda i: (Stream(1, TUNER, i), Stream(1, POLICY, i)), t),
        "tuner.choose": over(tuner.choose, streams),
        "policy.theory": over(policy.theory, t, [choice.params for choice in choices]),
        "policy.scores": over(policy.scores, arms, points, streams),
        "argmax": over(best, best_arms, scores, arms),
        "the Decision, with its copy of x": over(decision, t),
        "policy.learn": over(policy.learn, xs, half, params),
        "tuner.learn": over(tuner.learn, choices, half),
    }


def of_every_policy(count: int = 40, blocks: int = 50) -> Section:
    """Policies whose cost grows with t are met at the start of a run."""
    agents = {
        name: Agent(
            cls(dim=10),
            Syndicated(Space(**{axis: CANDIDATES[axis] for axis in cls.hyper if axis in CANDIDATES})),
            seed=1,
        )
        for name, cls in POLICIES.items()
    }
    title = f"Every policy with Syndicated, {count * blocks:,} rounds"
    return Section(title, _relative(agents, "LinUCB", rounds_of(Logistic(), count), blocks))


def of_every_tuner(count: int = 40, blocks: int = 150) -> Section:
    agents = {name: Agent(LinUCB(dim=10), _tuner(cls), seed=1) for name, cls in TUNERS.items()}
    title = "Every tuner with LinUCB, K=100, d=10"
    return Section(title, _relative(agents, "Theory", rounds_of(Linear(), count), blocks))


def _tuner(cls: type[Tuner]) -> Tuner:
    if cls is Theory:
        return Theory()
    return Fixed(Space(alpha=[0.1], lam=[1.0])) if cls is Fixed else cls(SPACE)  # type: ignore[call-arg]


def _relative(agents: Mapping[str, Agent], base: str, rounds: Rounds, blocks: int) -> list[Row]:
    seconds = interleave([partial(play, agent, rounds) for agent in agents.values()], blocks).T / len(rounds)
    named = dict(zip(agents, seconds, strict=True))
    return [ratio(name, base, mine, named[base]) for name, mine in named.items()]
