"""What every policy must make true; `make` is called with `dim` and `intercept`."""

import math
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import lru_cache

import numpy as np
from numpy.testing import assert_allclose

from syndicated.agent import Agent
from syndicated.checks._common import (
    DIM,
    checks_of,
    has_no_history,
    holds,
    parameters_round_trip,
    restores_to_the_bit,
    state_of,
    twins_agree,
)
from syndicated.errors import InputError
from syndicated.policies import Policy
from syndicated.policies.base import ArmPolicy
from syndicated.space import Space
from syndicated.streams import ARMS, NOISE, POLICY, Stream
from syndicated.tuners import Fixed
from syndicated.types import Arms, Array, Params

MakePolicy = Callable[..., Policy]
ONES = np.ones(DIM)
NOISE_LEVEL = 0.25  # of rewards that are real numbers


def _arms(t: int, K: int) -> Array:
    return 2 * Stream(1, ARMS, t).uniforms(K * DIM).reshape(K, DIM) - 1


def _points(policy: Policy) -> list[Params]:
    """Theory's point and two around it, except where theory has the largest value that there is."""
    theory = policy.theory(9, {})
    free = {name: value for name, value in theory.items() if 2 * value <= policy.hyper[name][1]}
    return [theory | {name: scale * value for name, value in free.items()} for scale in (1.0, 0.5, 2.0)]


def _scores(policy: Policy, arms: Arms, points: Sequence[Params] | None = None) -> Array:
    return policy.scores(arms, points or _points(policy), Stream(1, POLICY, 0))


def _new(make: MakePolicy) -> Policy:
    policy = make(dim=DIM, intercept=True)
    policy.prepare(_points(policy))
    return policy


def _teach(policy: Policy, start: int = 0, more: int = 3, constant: bool = False) -> bytes:
    """Observations to the end of the warm-up and of some whole periods, and `more`; the scores that they lead to."""
    for t in range(start, start + policy.warmup + policy.period * math.ceil(20 / policy.period) + more):
        x = np.append(_arms(t, 1)[0], 1.0) if constant else _arms(t, 1)[0]
        policy.learn(x, Stream(1, NOISE, t).uniforms(1)[0], policy.theory(t, {}))
    return _scores(policy, np.eye(policy.dim)).tobytes()


def _taught(make: MakePolicy) -> Iterator[Policy]:
    """New, at the end of a period, and within one."""
    for policy in _kept(make):
        yield deepcopy(policy)


@lru_cache(maxsize=4)  # for the checks of one factory, which come one after the other
def _kept(make: MakePolicy) -> list[Policy]:
    policies = [_new(make) for _ in range(3)]
    for policy, more in zip(policies[1:], (0, 3), strict=True):
        _teach(policy, more=more)
    return policies


def _exploration(policy: Policy, value: float) -> dict[str, float]:
    """This value for every exploration rate."""
    return dict.fromkeys(policy.exploring, value)


def order_of_arms_does_not_matter(make: MakePolicy) -> None:
    order = np.argsort(Stream(1, ARMS, 8).uniforms(23))
    for policy in _taught(make):
        scores, permuted = _scores(policy, _arms(7, 23)), _scores(policy, _arms(7, 23)[order])
        holds((permuted == scores[:, order]).all(), "the score of an arm depends on its place")


def best_arms_are_those_with_the_largest_scores(make: MakePolicy) -> None:
    """For points in natural units too, which a policy may have a compiled call for."""
    for policy in _taught(make):
        points, X = policy.space.points, _arms(7, 23)
        for given in (tuple(_points(policy)), points):
            if given is points:
                policy.prepare(points)
                _teach(policy)
            filled, rng = [policy.theory(9, point) for point in given], Stream(1, POLICY, 0)
            largest = policy.scores(X, filled, Stream(1, POLICY, 0)).argmax(axis=1).tolist()
            played = policy.best(X, given, 9, rng)
            holds(played == largest, f"the best arms are {played}; those with the largest scores are {largest}")


def scores_of_many_tables_are_those_of_each(make: MakePolicy) -> None:
    for policy in _taught(make):
        tables, points = [_arms(t, K) for t, K in enumerate((3, 1, 23, 2))], _points(policy)
        apart = [policy.scores(X, points, Stream(1, POLICY, 5 + n)).ravel() for n, X in enumerate(tables)]
        together = policy.scores_many(tables, points, Stream(1, POLICY, 5))
        holds((together == np.concatenate(apart)).all(), "scored with others, arms have other scores")


def rewards_learned_together_are_learned_as_one_by_one(make: MakePolicy) -> None:
    for policy in _taught(make):
        twin, X = deepcopy(policy), _arms(9, 40)
        rewards, params = Stream(1, NOISE, 9).uniforms(40), [policy.theory(t, {}) for t in range(40)]
        policy.learn_many(X, rewards, params)
        for x, reward, used in zip(X, rewards.tolist(), params, strict=True):
            twin.learn(x, reward, used)
        holds(state_of(policy) == state_of(twin), "learned with others, rewards count otherwise")


def scores_are_pure(make: MakePolicy) -> None:
    for policy in _taught(make):
        X, before = _arms(7, 5), state_of(policy)
        scores, means = _scores(policy, X), policy.predict(X, _points(policy)[0])
        holds(state_of(policy) == before, "scores or predict changed the state")
        holds((_arms(7, 5) == X).all(), "scores or predict wrote into the features")
        holds((_scores(policy, X) == scores).all(), "the same arms, points and stream gave other scores")
        holds((policy.predict(X, _points(policy)[0]) == means).all(), "the same arms gave other predictions")


def scores_have_one_row_a_point_for_any_number_of_arms(make: MakePolicy) -> None:
    for policy in _taught(make):
        for K in (1, 2, 1000):
            scores, means = _scores(policy, _arms(7, K)), policy.predict(_arms(7, K), _points(policy)[0])
            holds(scores.shape == (3, K), f"scores of 3 points and {K} arms have shape {scores.shape}")
            holds(means.shape == (K,), f"predictions of {K} arms have shape {means.shape}")
            holds(np.isfinite(scores).all(), f"the scores of {K} arms are not all finite")
            low, high = policy.rewards
            holds(((low <= means) & (means <= high)).all(), f"predictions leave the range of rewards {low}, {high}")


def one_draw_serves_all_points(make: MakePolicy) -> None:
    for policy in _taught(make):
        X, points = _arms(7, 6), _points(policy)
        alone = np.concatenate([_scores(policy, X, [point]) for point in points])
        holds((_scores(policy, X, points) == alone).all(), "the scores of a point depend on the points beside it")


def points_need_no_preparation(make: MakePolicy) -> None:
    prepared, policy, X = _new(make), make(dim=DIM, intercept=True), _arms(7, 6)
    _teach(prepared)
    _teach(policy)
    reason = "what is kept for prepared points is not what the data say"
    assert_allclose(_scores(prepared, X), _scores(policy, X), rtol=1e-5, atol=1e-6, err_msg=reason)


def arms_of_a_catalogue_score_like_their_features(make: MakePolicy) -> None:
    catalogue, numbers = _arms(8, 40), np.array([3, 39, 0, 17, 3])
    by_number, by_features = _new(make), _new(make)
    by_number.prepare(_points(by_number), catalogue)
    reason = "an arm given by its number is not the arm with its features"
    for start in (0, 50, 1000):
        point = _points(by_features)[0]
        scores, means = _scores(by_features, catalogue[numbers]), by_features.predict(catalogue[numbers], point)
        assert_allclose(_scores(by_number, numbers), scores, rtol=1e-9, atol=1e-9, err_msg=reason)
        assert_allclose(by_number.predict(numbers, point), means, rtol=1e-9, atol=1e-9, err_msg=reason)
        for policy in (by_number, by_features):
            _teach(policy, start)


def arms_that_are_added_or_changed_score_like_their_features(make: MakePolicy) -> None:
    catalogue, changed = _arms(8, 40), np.array([40, 3, 41])
    by_number, by_features = _new(make), _new(make)
    by_number.prepare(_points(by_number), catalogue)
    later = np.vstack([catalogue, _arms(9, 2)])
    later[3] = _arms(10, 1)[0]
    numbers = np.array([3, 41, 0, 40])
    reason = "an arm that was added, or given other features, is not the arm with its features"
    for start, now in ((0, catalogue), (50, later), (1000, later)):
        for policy in (by_number, by_features):
            _teach(policy, start)
        if start == 50:
            by_number.update_catalogue(now, changed)
        known = numbers[numbers < len(now)]
        assert_allclose(
            _scores(by_number, known), _scores(by_features, now[known]), rtol=1e-9, atol=1e-9, err_msg=reason
        )


def learning_changes_the_state(make: MakePolicy) -> None:
    for policy in _taught(make):
        before, x = state_of(policy), _arms(7, 1)[0]
        policy.learn(x, 1.0, _points(policy)[0])
        learned = state_of(policy)
        holds(learned != before, "learn left the state as it was")
        holds((_arms(7, 1)[0] == x).all(), "learn wrote into the features")
        x[:] = 9.0
        holds(state_of(policy) == learned, "learn kept the caller's features, not a copy")


def policies_restore_to_the_bit(make: MakePolicy) -> None:
    for policy in _taught(make):
        restores_to_the_bit(policy, _new(make), lambda each: _teach(each, start=1000))


def fresh_policies_have_no_history(make: MakePolicy) -> None:
    for policy in _taught(make):
        has_no_history(policy.fresh(), make(dim=DIM, intercept=True), policy, _teach)


def twin_policies_agree(make: MakePolicy) -> None:
    twins_agree(lambda: _new(make), _teach)


def parameters_of_policies_round_trip(make: MakePolicy) -> None:
    parameters_round_trip(make(dim=DIM, intercept=False))


def theory_gives_every_hyper_parameter_and_keeps_what_is_given(make: MakePolicy) -> None:
    policy = make(dim=DIM, intercept=True)
    for t in (0, 1, 1_000_000):
        for names in [(), *((name,) for name in policy.hyper)]:
            given = {name: min(2.0, policy.hyper[name][1]) for name in names}
            theory = policy.theory(t, given)
            holds(theory.keys() == policy.hyper.keys(), f"theory gives {list(theory)}, not {list(policy.hyper)}")
            holds(theory | given == theory, f"theory was given {given} and made {theory} of it")
            holds(all(map(math.isfinite, theory.values())), f"theory({t}) is {theory}")
            policy.check(theory)


def theory_that_ignores_the_round_is_the_same_in_every_round(make: MakePolicy) -> None:
    for policy in _taught(make):
        given = {name: min(2.0, high) for name, (_, high) in policy.hyper.items()}
        for point in ({}, given, *({name: value} for name, value in given.items()), *policy.space.points):
            early, late = policy.theory(0, point), policy.theory(1_000_000, point)
            holds(not policy.theory_ignores_round(point) or early == late, f"{point} is {early}, and later {late}")


def unknown_hyper_parameters_are_refused(make: MakePolicy) -> None:
    policy = make(dim=DIM, intercept=True)
    for wrong in [{"no such name": 1.0}] + [{name: low - 1.0} for name, (low, _) in policy.hyper.items()]:
        try:
            policy.check(wrong)
        except InputError:
            continue
        raise AssertionError(f"check accepts {wrong}")


def intercept_is_a_constant_feature(make: MakePolicy) -> None:
    policy, wide, X = make(dim=DIM, intercept=True), make(dim=DIM + 1, intercept=False), _arms(7, 6)
    if isinstance(policy, ArmPolicy):
        return  # its models are centred: a constant feature tells them nothing
    _teach(policy)
    _teach(wide, constant=True)
    with_ones, point, reason = np.hstack([X, np.ones((6, 1))]), _points(policy)[0], "an intercept is a last feature 1"
    assert_allclose(_scores(policy, X, [point]), _scores(wide, with_ones, [point]), rtol=1e-9, err_msg=reason)
    assert_allclose(policy.predict(X, point), wide.predict(with_ones, point), rtol=1e-9, err_msg=reason)


def units_of_features_do_not_matter_where_nothing_is_set(make: MakePolicy) -> None:
    """From a billionth to a billion, by powers of two: products are exact, so the arms are the same."""
    if make(dim=DIM, intercept=True).scale_free:
        share = _same_arms(make, units=2.0 ** np.array([-30.0, 0.0, 30.0]))
        holds(share == 1.0, f"with features in other units, {share:.0%} of the arms were the same")


def unit_and_level_of_rewards_do_not_matter_where_nothing_is_set(make: MakePolicy) -> None:
    """A level of a billion times the noise leaves seven digits of it: nearly all arms are the same."""
    policy = make(dim=DIM, intercept=True)
    any_reward = policy.scale_free and policy.rewards == Policy.rewards
    for scale, level in ((2.0**-30, 0.0), (1.0, 1e9 * NOISE_LEVEL)) if any_reward else ():
        share = _same_arms(make, scale=scale, level=level)
        holds(share > 0.95, f"with rewards times {scale:g} and {level:g} more, {share:.0%} of the arms were the same")


def _same_arms(make: MakePolicy, units: Array = ONES, scale: float = 1.0, level: float = 0.0) -> float:
    """In what share of rounds an agent with nothing set plays the same arm where features and rewards are these."""
    plain, other = (Agent(make(dim=DIM, intercept=True), seed=1) for _ in range(2))
    clicks, same = plain.policy.rewards == (0.0, 1.0), []
    for t in range(plain.player.warmup + 40):
        X, (u,) = _arms(t, 5), Stream(1, NOISE, t).uniforms(1)
        one, two = plain.decide(X), other.decide(X * units)
        same.append(one.arm == two.arm)
        for agent, decision in ((plain, one), (other, two)):
            mean = 0.5 + 0.2 * X[decision.arm].sum()
            reward = float(u < mean) if clicks else mean + NOISE_LEVEL * (u - 0.5)
            agent.learn(decision, reward if agent is plain else level + scale * reward)
    return float(np.mean(same))


def predict_ignores_exploration(make: MakePolicy) -> None:
    for policy in _taught(make):
        low, high = ({**_points(policy)[0], **_exploration(policy, rate)} for rate in (0.0, 5.0))
        same = policy.predict(_arms(7, 6), low) == policy.predict(_arms(7, 6), high)
        holds(same.all(), "predictions depend on the exploration rates")


def it_learns_an_easy_world(make: MakePolicy) -> None:
    for intercept in (True, False):
        gain = _gain(make(dim=DIM, intercept=intercept), seed=1)
        holds(gain > 0.2, f"after 200 rounds, its arms pay only {gain:.2f} more than random ones; 0.4 is usual")


def _gain(policy: Policy, seed: int) -> float:
    """What the arms of rounds 200 to 300 after the warm-up pay above the average arm, with little exploration."""
    agent = Agent(policy, Fixed(Space(**{name: [v] for name, v in _exploration(policy, 0.1).items()})), seed=seed)
    gains = []
    for t in range(policy.warmup + 300):
        X = _arms(t + 1000 * seed, 10)
        means = 1 / (1 + np.exp(X @ np.array([-3.0, 2.0, -1.0])))
        decision = agent.decide(X)
        agent.learn(decision, float(Stream(seed, NOISE, t).uniforms(1)[0] < means[decision.arm]))
        gains.append(means[decision.arm] - means.mean())
    return float(np.mean(gains[-100:]))


POLICY_CHECKS = checks_of(globals(), MakePolicy)
