"""Arm sets: the best arm against dense grids, LinTS against its formula, and agents, worlds and states with them."""

from dataclasses import replace

import numpy as np
import pytest

from syndicated import Agent, Ball, Consensus, Corral, Ellipsoid, Fixed, InputError, LinTS, LinUCB, Space, Syndicated
from syndicated.arm_sets import ArmSet
from syndicated.cli import main
from syndicated.environments import LinearArmSet
from syndicated.experiments import Experiment, run_task, simulate
from syndicated.policies import POLICIES
from syndicated.streams import POLICY, Stream
from syndicated.types import Array

ELLIPSOID = Ellipsoid([[0.9, 0.3, 0.0], [-0.2, 0.5, 0.1], [0.0, 0.0, 0.2]], centre=[0.3, -0.2, 0.1])
FLAT = Ellipsoid([[1.0, 0.5]])  # a piece of a line in the plane


def unit_vectors(dim: int) -> Array:
    """Directions all over the circle, or the sphere."""
    if dim == 2:
        angles = np.linspace(0, 2 * np.pi, 20_000)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    k = np.arange(200_000)
    heights, angles = 1 - (2 * k + 1) / len(k), k * np.pi * (3 - np.sqrt(5))
    rings = np.sqrt(1 - heights**2)
    return np.stack([rings * np.cos(angles), rings * np.sin(angles), heights], axis=1)


def boundary(arms: ArmSet) -> Array:
    return arms.best(unit_vectors(arms.dim))


@pytest.mark.parametrize("arms", [Ball(2), Ball(3, radius=2.0, centre=[1.0, 0.0, -3.0]), ELLIPSOID, FLAT])
def test_the_best_arm_for_a_linear_reward_is_the_best_of_a_dense_grid(arms: ArmSet) -> None:
    rng = np.random.default_rng(0)
    inside = np.array([arms.draw(Stream(1, 1, n)) for n in range(2000)])
    for v in rng.normal(size=(5, arms.dim)):
        best = float((arms.best(v[None]) @ v)[0])
        assert (inside @ v).max() <= best
        assert best == pytest.approx((boundary(arms) @ v).max(), abs=1e-3 * np.abs(v).max())


def test_a_ball_and_an_ellipsoid_are_what_their_formulas_say() -> None:
    ball = Ball(3, radius=2.0, centre=[1.0, 0.0, -3.0])
    drawn = np.array([ball.draw(Stream(1, 1, n)) for n in range(4000)])
    lengths = np.linalg.norm(drawn - [1.0, 0.0, -3.0], axis=1)
    assert lengths.max() <= 2
    assert np.mean(lengths <= 1) == pytest.approx(1 / 8, abs=0.02)  # uniform in the volume
    u = np.linalg.solve(ELLIPSOID.axes.T, (boundary(ELLIPSOID) - ELLIPSOID.centre).T)
    np.testing.assert_allclose(np.linalg.norm(u, axis=0), 1.0, atol=1e-12)


@pytest.mark.parametrize("arms", [Ball(2), Ball(3), Ball(3, 0.5, centre=[0.2, 0.1, 0.4]), ELLIPSOID, FLAT])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("natural", [False, True])
def test_linucb_plays_the_arm_with_the_largest_score_of_the_whole_set(
    arms: ArmSet, intercept: bool, natural: bool
) -> None:
    grid, rng = boundary(arms), np.random.default_rng(3)
    points = tuple({"boldness": c} if natural else {"alpha": c, "lam": 0.1} for c in (0.0, 0.5, 3.0, 50.0))
    policy = LinUCB(dim=arms.dim, intercept=intercept)
    policy.prepare(points)
    theta = rng.normal(size=arms.dim)
    for n in range(60):
        x = arms.draw(Stream(2, 2, n))
        policy.learn(x, float(x @ theta + 0.3 * rng.normal()), {})
        if n not in (3, 9, 59):
            continue
        filled, stream = [policy.theory(n, point) for point in points], Stream(0, POLICY, n)
        found = policy.best_in(arms, points, n, stream)
        for point, x in zip(filled, found, strict=True):
            on_grid = policy.scores(grid, [point], stream)[0]
            own = policy.scores(np.vstack([x, grid[:1]]), [point], stream)[0, 0]
            assert own >= on_grid.max() - 1e-7 * (on_grid.max() - on_grid.min())
            assert np.linalg.norm(grid - x, axis=1).min() < 0.05  # and it is an arm of the set


def test_lints_plays_the_arm_that_is_best_for_the_drawn_theta() -> None:
    policy, points = LinTS(dim=3, intercept=True), [{"alpha": 0.4, "lam": 0.5}, {"alpha": 2.0, "lam": 0.5}]
    policy.prepare(points)
    G, b, rng = 0.5 * np.eye(4), np.zeros(4), np.random.default_rng(1)
    for x, reward in zip(rng.normal(size=(20, 3)), rng.normal(size=20), strict=True):
        policy.learn(x, reward, {})
        z = np.append(x, 1.0)
        G, b = G + np.outer(z, z), b + reward * z
    found = policy.best_in(ELLIPSOID, points, 20, Stream(5, POLICY, 20))
    z = Stream(5, POLICY, 20).normals(4)
    for point, x in zip(points, found, strict=True):
        theta = np.linalg.solve(G, b) + point["alpha"] * np.linalg.solve(np.linalg.cholesky(G).T, z)
        v = ELLIPSOID.axes @ theta[:3]
        np.testing.assert_allclose(x, ELLIPSOID.centre + ELLIPSOID.axes.T @ v / np.linalg.norm(v))


@pytest.mark.parametrize("policy", [LinUCB(dim=3), LinTS(dim=3)])
def test_before_the_first_reward_any_arm_is_as_good(policy: LinUCB | LinTS) -> None:
    arms = Ball(3)
    played = {tuple(Agent(policy, seed=seed).decide(arms).x) for seed in range(5)}
    assert len(played) == 5


@pytest.mark.parametrize("policy", [LinUCB(dim=4), LinTS(dim=4)])
@pytest.mark.parametrize(
    "tuner",
    [
        None,
        Syndicated(Space(alpha=[0.1, 1.0], lam=[0.1, 1.0]), horizon=60, warmup="T^4/7"),
        Consensus(Space(boldness=[0.5, 2.0])),
        Corral(Space(boldness=[0.5, 2.0])),
    ],
)
def test_an_agent_on_an_arm_set_goes_on_from_its_state(policy: LinUCB, tuner: Syndicated) -> None:
    world = LinearArmSet(dim=4, shortest=0.3)
    agent, twin = (Agent(policy, tuner, seed=3, id="a") for _ in range(2))
    rounds = list(world.rounds(1, 40))
    for seen in rounds[:20]:
        decision = agent.decide(seen.arms)
        assert (decision.arm, decision.place) == (0, 0)
        agent.learn(decision, seen.reward(decision))
    kept = agent.decide(rounds[20].arms)
    twin.restore(agent.state())
    agent.learn(kept, 0.5)
    twin.learn(twin.decision_from_json(kept.to_json()), 0.5)
    assert twin.state() == agent.state()
    for seen in rounds[21:]:
        one, other = agent.decide(seen.arms), twin.decide(seen.arms)
        assert one.to_json() == other.to_json()
        agent.learn(one, seen.reward(one))
        twin.learn(other, seen.reward(other))


def test_candidates_that_play_the_same_arm_share_its_probability() -> None:
    agent = Agent(LinUCB(dim=2), Consensus(Space(boldness=[1.0, 2.0])))
    first = agent.decide(Ball(2))  # nothing is known, and all play the same random arm
    assert first.choice is not None
    assert first.choice.agreeing == (0, 1)
    assert first.propensity == pytest.approx(1.0)
    for x in ([1.0, 0.2], [-0.4, 0.9], [0.3, -0.7]):
        decision = agent.decide([x])
        agent.learn(decision, x[0])
    later = agent.decide(Ball(2))
    assert later.choice is not None
    assert len(later.choice.agreeing) == 1
    assert later.propensity == later.choice.probability[0]
    assert Agent(LinUCB(dim=2)).decide(Ball(2)).propensity == 1.0


def test_agents_with_nothing_set_take_an_arm_set() -> None:
    agent = Agent()
    assert agent.decide(Ball(3)).x.shape == (3,)
    assert isinstance(agent.policy, LinUCB)


def test_it_learns_and_a_warmup_draws_arms_at_random() -> None:
    world = LinearArmSet(dim=4, shortest=0.5)
    for policy in (LinUCB(dim=4), LinTS(dim=4)):
        regret = simulate(world, Agent(policy, seed=1), 300, seed=1)
        assert regret.min() >= -1e-12
        assert regret[200:].mean() < 0.1 * regret[:10].mean()
    agent = Agent(LinUCB(dim=4), Syndicated(Space(alpha=[0.1, 1.0]), horizon=300, warmup="T^4/7"), seed=1)
    assert agent.player.warmup == 27  # T^(4/7) = 26.02
    lengths = []
    for seen in LinearArmSet(dim=4).rounds(1, 27):
        decision = agent.decide(seen.arms)
        assert (decision.choice, decision.propensity) == (None, None)
        lengths.append(np.linalg.norm(decision.x))
        agent.learn(decision, seen.reward(decision))
    assert max(lengths) < 1 - 1e-6  # inside
    later = agent.decide(Ball(4))
    assert np.linalg.norm(later.x) == pytest.approx(1.0)  # on the boundary, where the best arms are


def test_an_experiment_plays_arm_sets_watched_or_not() -> None:
    space = {"alpha": [0.0, 1.0]}
    experiment = Experiment(
        name="sets",
        title="sets",
        environment={"name": "LinearArmSet", "dim": 3},
        policy={"name": "LinUCB", "dim": 3},
        tuners={"TL": {"name": "TwoLayer", "space": space, "warmup": "T^4/7"}, "C": {"name": "Corral", "space": space}},
        horizon=40,
        repeats=1,
    )
    for watched in (experiment.tasks(), replace(experiment, watched=False).tasks()):
        first, other = (run_task(task) for task in watched)
        assert 0 < first["regret"][-1] < 40
        assert 0 < other["regret"][-1] < 40
    assert run_task(experiment.tasks()[0])["warmup"][-1] > 0


def test_policies_that_cannot_play_arm_sets_say_so_and_change_nothing() -> None:
    for name in POLICIES.built_in:
        if name in ("LinUCB", "LinTS"):
            continue
        policy = POLICIES[name](dim=2)
        with pytest.raises(InputError, match=rf"{name} takes a table of arms, one row an arm; got Ball\(dim=2"):
            policy.best_in(Ball(2), [{}], 0, Stream(0, 0))
    agent = Agent(POLICIES["UCBGLM"](dim=2))
    with pytest.raises(InputError, match="UCBGLM takes a table"):
        agent.decide(Ball(2))
    assert (agent.round, agent.open) == (0, 0)


class MyUCB(LinUCB):
    """Another score, of which the best arm of a set is not known."""

    def scores(self, *args: object) -> Array:
        return -super().scores(*args)  # type: ignore[arg-type]


def test_a_subclass_with_other_scores_inherits_no_best_arm_of_a_set() -> None:
    with pytest.raises(InputError, match="MyUCB takes a table"):
        Agent(MyUCB(dim=2), Fixed(Space(alpha=[1.0]))).decide(Ball(2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ball(0), "dim must be a whole number of at least 1; got 0"),
        (lambda: Ball(2, radius=-1.0), "the radius of a ball must be between 0 and 1e"),
        (lambda: Ball(2, centre=[1.0]), "the centre must have 2 numbers, as the axes; got shape"),
        (lambda: Ellipsoid([1.0, 2.0]), "the axes of an ellipsoid must be rows of numbers; got shape"),
        (lambda: Ellipsoid([["a"]]), "the axes of an ellipsoid must be numbers; got"),
        (lambda: Ellipsoid([[np.nan]]), "the axes of an ellipsoid must be finite and at most"),
        (lambda: Agent(LinUCB(dim=3)).decide(Ball(2)), r"the arm set must have dim=3, the policy's; got Ball\(dim=2"),
        (lambda: Agent(catalogue=np.eye(2)).decide(Ball(2)), "an agent with a catalogue takes its numbers; got Ball"),
        (lambda: Agent(LinUCB(dim=2)).decide(Ball(2), k=2), "the arms must be a table of numbers, one row an arm"),
        (lambda: Agent.for_arms(arms=["a"]).decide(Ball(2)), "an arm set needs an agent for rows"),
        (lambda: LinearArmSet(shortest=0.0), "shortest must be between 1e-12 and 1"),
    ],
)
def test_what_cannot_be_is_refused(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]


def test_an_arm_set_cannot_be_changed() -> None:
    axes = np.eye(2)
    arms = Ellipsoid(axes)
    axes[:] = 9.0
    assert np.array_equal(arms.axes, np.eye(2))
    with pytest.raises(ValueError, match="read-only"):
        arms.axes[0] = 1.0
    for method in (ArmSet.best, ArmSet.draw):
        with pytest.raises(NotImplementedError):
            method(arms, np.zeros((1, 2)))  # type: ignore[arg-type]


def test_the_service_is_not_asked_for_infinitely_many_arms(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--environment", "LinearArmSet", "--key", "k"]) != 0
    assert "LinearArmSet has infinitely many" in capsys.readouterr().err
