"""Checks for what you add: sentences that every policy, tuner and environment must make true.

A check takes `make`, a factory of fresh instances, and raises AssertionError with the reason where its sentence is
false. For a policy, `make` is its class (it is called with `dim` and `intercept`); for a tuner, `on_space(its class)`
(called with a Space); for an environment, its class, with whatever arguments keep it small.

>>> from syndicated.policies import LinUCB
>>> for check in POLICY_CHECKS:
...     check(LinUCB)

>>> class Forgetful(LinUCB):
...     def learn(self, x, reward, params):
...         pass
>>> learning_changes_the_state(Forgetful)
Traceback (most recent call last):
AssertionError: learn left the state as it was
"""

import inspect
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.testing import assert_allclose

from syndicated.agent import Agent
from syndicated.environments import Environment, Round
from syndicated.errors import InputError
from syndicated.policies import Policy
from syndicated.space import Space
from syndicated.spec import build, spec_of
from syndicated.streams import ARMS, NOISE, POLICY, TUNER, Stream
from syndicated.tuners import Fixed, Tuner
from syndicated.types import Array, Choice, Learner, Params

MakePolicy = Callable[..., Policy]
MakeTuner = Callable[[Space], Tuner]
MakeEnvironment = Callable[[], Environment]

DIM = 3
SPACE = Space(alpha=[0.1, 1.0], lam=[0.1, 1.0, 10.0])
SIGMAS = 4.5  # how far an average may be from what is stated: a right one is farther once in 100,000 seeds


def _checks(make: object) -> tuple[Callable[[Any], None], ...]:
    """The checks so far that take such a factory: found, not listed, so that none is forgotten."""
    functions = [f for name, f in globals().items() if inspect.isfunction(f) and not name.startswith("_")]
    return tuple(f for f in functions if f.__annotations__ == {"make": make, "return": None})


def _holds(statement: object, reason: str) -> None:
    """An assertion that also python -O makes."""
    if not statement:
        raise AssertionError(reason)


def _state(learner: Learner) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in learner.state().items()}


def _parameters(part: object) -> dict[str, Any]:
    return {f.name: getattr(part, f.name) for f in fields(part) if f.init}  # type: ignore[arg-type]


def _another(value: float, place: int) -> float:
    """Another value of the same type, different for every place."""
    if isinstance(value, bool):
        return not value
    return value + 1 + place if isinstance(value, int) else value * (0.9 - 0.01 * place)


def _parameters_round_trip(part: object) -> None:
    """Every argument lands in its own parameter, and the spec describes the whole part."""
    numbers = {name: value for name, value in _parameters(part).items() if isinstance(value, (int, float))}
    given = {name: _another(value, place) for place, (name, value) in enumerate(numbers.items())}
    changed = replace(part, **given)  # type: ignore[type-var]
    for name, value in given.items():
        _holds(getattr(changed, name) == value, f"{name}={value} became {getattr(changed, name)}")
    again = build({type(part).__name__: type(part)}, json.loads(json.dumps(spec_of(changed))))
    _holds(_parameters(again) == _parameters(changed), f"{changed} came back from its spec as {again}")


def _restores_to_the_bit(learner: Learner, twin: Learner, go_on: Callable[[Any], object]) -> None:
    saved = learner.state()
    content = _state(learner)
    twin.restore(saved)
    _holds(_state(twin) == content, "a restored state is not the saved one")
    _holds(go_on(learner) == go_on(twin), "a restored twin goes on otherwise")
    _holds(_state(twin) == _state(learner), "a restored twin learns otherwise")
    for name, array in saved.items():
        _holds(array.tobytes() == content[name][2], f"after a restore, learning writes into the saved {name!r}")


def _has_no_history(fresh: Learner, new: Learner, old: Learner, go_on: Callable[[Any], object]) -> None:
    before = _state(old)
    _holds(_state(fresh) == _state(new), "fresh() remembers")
    _holds(fresh.params() == old.params(), "fresh() has other parameters")
    go_on(fresh)
    _holds(_state(old) == before, "what fresh() gives shares its state with the old one")


# Policies: make(dim=..., intercept=...)


def _arms(t: int, K: int) -> Array:
    return 2 * Stream(1, ARMS, t).uniforms(K * DIM).reshape(K, DIM) - 1


def _points(policy: Policy) -> list[Params]:
    """Theory's point and two around it."""
    return [{name: scale * value for name, value in policy.theory(9, {}).items()} for scale in (1.0, 0.5, 2.0)]


def _scores(policy: Policy, X: Array, points: Sequence[Params] | None = None) -> Array:
    return policy.scores(X, points or _points(policy), Stream(1, POLICY, 0))


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
    yield _new(make)
    for more in (0, 3):
        policy = _new(make)
        _teach(policy, more=more)
        yield policy


def _exploration(policy: Policy, value: float) -> dict[str, float]:
    """A value for the exploration rates: the hyper-parameters whose names begin with alpha."""
    return {name: value for name in policy.hyper if name.startswith("alpha")}


def order_of_arms_does_not_matter(make: MakePolicy) -> None:
    order = np.argsort(Stream(1, ARMS, 8).uniforms(23))
    for policy in _taught(make):
        scores, permuted = _scores(policy, _arms(7, 23)), _scores(policy, _arms(7, 23)[order])
        _holds((permuted == scores[:, order]).all(), "the score of an arm depends on its place")


def scores_are_pure(make: MakePolicy) -> None:
    for policy in _taught(make):
        X, before = _arms(7, 5), _state(policy)
        scores, means = _scores(policy, X), policy.predict(X, _points(policy)[0])
        _holds(_state(policy) == before, "scores or predict changed the state")
        _holds((_arms(7, 5) == X).all(), "scores or predict wrote into the features")
        _holds((_scores(policy, X) == scores).all(), "the same arms, points and stream gave other scores")
        _holds((policy.predict(X, _points(policy)[0]) == means).all(), "the same arms gave other predictions")


def scores_have_one_row_a_point_for_any_number_of_arms(make: MakePolicy) -> None:
    for policy in _taught(make):
        for K in (1, 2, 1000):
            scores, means = _scores(policy, _arms(7, K)), policy.predict(_arms(7, K), _points(policy)[0])
            _holds(scores.shape == (3, K), f"scores of 3 points and {K} arms have shape {scores.shape}")
            _holds(means.shape == (K,), f"predictions of {K} arms have shape {means.shape}")
            _holds(np.isfinite(scores).all(), f"the scores of {K} arms are not all finite")
            low, high = policy.rewards
            _holds(((low <= means) & (means <= high)).all(), f"predictions leave the range of rewards {low}, {high}")


def one_draw_serves_all_points(make: MakePolicy) -> None:
    for policy in _taught(make):
        X, points = _arms(7, 6), _points(policy)
        alone = np.concatenate([_scores(policy, X, [point]) for point in points])
        _holds((_scores(policy, X, points) == alone).all(), "the scores of a point depend on the points beside it")


def points_need_no_preparation(make: MakePolicy) -> None:
    prepared, policy, X = _new(make), make(dim=DIM, intercept=True), _arms(7, 6)
    _teach(prepared)
    _teach(policy)
    reason = "what is kept for prepared points is not what the data say"
    assert_allclose(_scores(prepared, X), _scores(policy, X), rtol=1e-5, atol=1e-6, err_msg=reason)


def learning_changes_the_state(make: MakePolicy) -> None:
    for policy in _taught(make):
        before, x = _state(policy), _arms(7, 1)[0]
        policy.learn(x, 1.0, _points(policy)[0])
        learned = _state(policy)
        _holds(learned != before, "learn left the state as it was")
        _holds((_arms(7, 1)[0] == x).all(), "learn wrote into the features")
        x[:] = 9.0
        _holds(_state(policy) == learned, "learn kept the caller's features, not a copy")


def policies_restore_to_the_bit(make: MakePolicy) -> None:
    for policy in _taught(make):
        _restores_to_the_bit(policy, _new(make), lambda each: _teach(each, start=1000))


def fresh_policies_have_no_history(make: MakePolicy) -> None:
    for policy in _taught(make):
        _has_no_history(policy.fresh(), make(dim=DIM, intercept=True), policy, _teach)


def twin_policies_agree(make: MakePolicy) -> None:
    one, between, other = _new(make), _new(make), _new(make)
    scores = _teach(one)
    _teach(between, start=500)
    _holds(_teach(other) == scores, "two policies with the same history score otherwise")
    _holds(_state(one) == _state(other), "two policies with the same history differ")


def parameters_of_policies_round_trip(make: MakePolicy) -> None:
    _parameters_round_trip(make(dim=DIM, intercept=False))


def theory_gives_every_hyper_parameter_and_keeps_what_is_given(make: MakePolicy) -> None:
    policy = make(dim=DIM, intercept=True)
    for t in (0, 1, 1_000_000):
        for names in [(), *((name,) for name in policy.hyper)]:
            given = dict.fromkeys(names, 0.123)
            theory = policy.theory(t, given)
            _holds(theory.keys() == policy.hyper.keys(), f"theory gives {list(theory)}, not {list(policy.hyper)}")
            _holds(theory | given == theory, f"theory was given {given} and made {theory} of it")
            _holds(all(map(math.isfinite, theory.values())), f"theory({t}) is {theory}")
            policy.check(theory)


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
    _teach(policy)
    _teach(wide, constant=True)
    with_ones, point, reason = np.hstack([X, np.ones((6, 1))]), _points(policy)[0], "an intercept is a last feature 1"
    assert_allclose(_scores(policy, X, [point]), _scores(wide, with_ones, [point]), rtol=1e-9, err_msg=reason)
    assert_allclose(policy.predict(X, point), wide.predict(with_ones, point), rtol=1e-9, err_msg=reason)


def predict_ignores_exploration(make: MakePolicy) -> None:
    for policy in _taught(make):
        low, high = ({**_points(policy)[0], **_exploration(policy, rate)} for rate in (0.0, 5.0))
        same = policy.predict(_arms(7, 6), low) == policy.predict(_arms(7, 6), high)
        _holds(same.all(), "predictions depend on the exploration rates")


def it_learns_an_easy_world(make: MakePolicy) -> None:
    for intercept in (True, False):
        gain = _gain(make(dim=DIM, intercept=intercept), seed=1)
        _holds(gain > 0.2, f"after 200 rounds, its arms pay only {gain:.2f} more than random ones; 0.4 is usual")


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


POLICY_CHECKS = _checks(MakePolicy)


# Tuners: make(space)


def on_space(tuner: type[Tuner]) -> MakeTuner:
    """make(space) for a tuner's class, also for one that takes no space (Theory) or a single point (Fixed)."""

    def make(space: Space) -> Tuner:
        if "space" not in inspect.signature(tuner).parameters:
            return tuner()
        if issubclass(tuner, Fixed):
            return tuner(Space(**{name: values[:1] for name, values in space.axes.items()}))
        return tuner(space)  # type: ignore[call-arg]

    return make


def _choices(tuner: Tuner, n: int, start: int = 0) -> list[Choice]:
    return [tuner.choose(Stream(1, TUNER, t)) for t in range(start, start + n)]


def _reward(choice: Choice) -> float:
    """The share of the hyper-parameters that have the last of their candidates: the last point is the best."""
    return float(np.mean([choice.params.get(name) == values[-1] for name, values in SPACE.axes.items()]))


def _play(tuner: Tuner, rounds: int = 50, start: int = 0) -> list[str]:
    """Choose and learn; what was chosen."""
    choices = []
    for t in range(start, start + rounds):
        choices.append(tuner.choose(Stream(1, TUNER, t)))
        tuner.learn(choices[-1], _reward(choices[-1]))
    return [repr(choice) for choice in choices]


def _played(make: MakeTuner) -> Iterator[Tuner]:
    for rounds in (0, 300):
        tuner = make(SPACE)
        _play(tuner, rounds)
        yield tuner


def _frequency_of_the_best(tuner: Tuner) -> float:
    return float(np.mean([_reward(choice) == 1.0 for choice in _choices(tuner, 300)]))


def choices_come_from_its_points(make: MakeTuner) -> None:
    for tuner in _played(make):
        before = _state(tuner)
        for choice in _choices(tuner, 100):
            _holds(choice.params in tuner.points, f"{choice.params} is not one of its points")
            _holds(0 <= choice.slot < tuner.slots, f"slot {choice.slot} is not one of its {tuner.slots}")
            own = tuner.slots == 1 or tuner.points[choice.slot] == choice.params
            _holds(own, f"slot {choice.slot} is the copy of another point than {choice.params}")
            _holds(len(choice.index) == len(choice.probability), f"{choice} must state a probability for each index")
        _holds(_state(tuner) == before, "choose changed the state")


def stated_probabilities_match_frequencies(make: MakeTuner) -> None:
    for tuner in _played(make):
        drawn = _choices(tuner, 3000, start=10_000)
        stated = {str(c.params): math.prod(c.probability) for c in drawn}
        for point, p in stated.items():
            if math.isnan(p):
                _holds("NaN" in (type(tuner).__doc__ or ""), "probabilities are NaN, and its docstring does not say so")
                continue
            draws = [math.prod(c.probability) for c in drawn if str(c.params) == point]
            _holds(set(draws) == {p}, f"{point} states several probabilities")
            frequency, spread = len(draws) / len(drawn), math.sqrt(max(p * (1 - p), 0.0) / len(drawn))
            _holds(abs(frequency - p) <= SIGMAS * spread, f"{point} states {p:.3f} and comes with {frequency:.3f}")


def learning_moves_probability_to_the_best(make: MakeTuner) -> None:
    tuner = make(SPACE)
    if tuner.state():  # without a state there is nothing to learn
        before = _frequency_of_the_best(tuner)
        _play(tuner, 2000)
        after = _frequency_of_the_best(tuner)
        _holds(after > before + 0.25, f"the best point came with frequency {before:.2f} at first, {after:.2f} later")


def late_rewards_count_the_same(make: MakeTuner) -> None:
    prompt, late = make(SPACE), make(SPACE)
    choices = _choices(prompt, 40)
    for choice in choices:
        prompt.learn(choice, _reward(choice))
    for choice in reversed(choices):
        late.learn(choice, _reward(choice))
    _assert_near(prompt, late, "the order of the rewards matters")


def shares_of_a_reward_add_up(make: MakeTuner) -> None:
    whole, parts = make(SPACE), make(SPACE)
    for choice in _choices(whole, 10):
        whole.learn(choice, 0.75)
        for _ in range(4):
            parts.learn(choice, 0.75, share=0.25)
    _assert_near(whole, parts, "four quarters of a reward are not the whole")


def rewards_in_another_declared_range_are_the_same(make: MakeTuner) -> None:
    tuner = make(SPACE)
    if "rewards" in tuner.params():
        other = replace(tuner, rewards=(-2.0, 6.0))  # type: ignore[call-arg]
        for choice in _choices(tuner, 40):
            tuner.learn(choice, _reward(choice))
            other.learn(choice, 8 * _reward(choice) - 2)
        _assert_near(tuner, other, "the declared range of rewards is not mapped to [0, 1]")


def _assert_near(one: Tuner, other: Tuner, reason: str) -> None:
    mine, theirs = ({name: a.astype(float) for name, a in each.state().items()} for each in (one, other))
    for name, array in mine.items():
        assert_allclose(theirs[name], array, rtol=1e-9, atol=1e-12, err_msg=f"{reason} ({name})")


def tuners_restore_to_the_bit(make: MakeTuner) -> None:
    for tuner in _played(make):
        _restores_to_the_bit(tuner, make(SPACE), lambda each: _play(each, start=1000))


def fresh_tuners_have_no_history(make: MakeTuner) -> None:
    for tuner in _played(make):
        _has_no_history(tuner.fresh(), make(SPACE), tuner, _play)


def twin_tuners_agree(make: MakeTuner) -> None:
    one, between, other = make(SPACE), make(SPACE), make(SPACE)
    choices = _play(one)
    _play(between, start=500)
    _holds(_play(other) == choices, "two tuners with the same history choose otherwise")
    _holds(_state(one) == _state(other), "two tuners with the same history differ")


def parameters_of_tuners_round_trip(make: MakeTuner) -> None:
    _parameters_round_trip(make(SPACE))


TUNER_CHECKS = _checks(MakeTuner)


# Environments: make()


def _contents(rounds: Iterable[Round]) -> list[bytes]:
    return [seen.X.tobytes() + seen.means.tobytes() + seen.rewards.tobytes() for seen in rounds]


def rounds_have_the_stated_shape(make: MakeEnvironment) -> None:
    world = make()
    rounds = list(world.rounds(1, 5))
    _holds(len(rounds) == 5, f"a horizon of 5 gave {len(rounds)} rounds")
    for seen in rounds:
        _holds(seen.X.shape == (world.arms, world.dim), f"features have shape {seen.X.shape}")
        _holds(seen.means.shape == seen.rewards.shape == (world.arms,), "means and rewards need one entry an arm")
        _holds(all(np.isfinite(a).all() for a in (seen.X, seen.means, seen.rewards)), "not all numbers are finite")


def same_seed_same_world(make: MakeEnvironment) -> None:
    _holds(_contents(make().rounds(1, 20)) == _contents(make().rounds(1, 20)), "the same seed gave another world")


def another_seed_another_world(make: MakeEnvironment) -> None:
    pairs = zip(make().rounds(1, 20), make().rounds(2, 20), strict=True)
    _holds(not any(np.array_equal(one.means, other.means) for one, other in pairs), "two seeds gave the same means")


def rounds_do_not_depend_on_the_horizon(make: MakeEnvironment) -> None:
    short, long = _contents(make().rounds(1, 20)), _contents(make().rounds(1, 40))
    _holds(short == long[:20], "the first rounds depend on the horizon")


def players_cannot_change_the_rounds(make: MakeEnvironment) -> None:
    world = make()
    before = _contents(world.rounds(1, 20))
    for seen, other, content in zip(world.rounds(1, 20), world.rounds(1, 20), before, strict=True):
        _holds(_contents([seen, other]) == [content, content], "two players of one world meet different rounds")
        for array in (seen.X, seen.means, seen.rewards):
            array[:] = 0.0
    _holds(_contents(world.rounds(1, 20)) == before, "what one player writes into a round, the next one meets")


def rewards_have_the_stated_means(make: MakeEnvironment) -> None:
    errors = []
    for seen in (seen for seed in range(1, 6) for seen in make().rounds(seed, 400)):
        error, centred = seen.rewards - seen.means, seen.means - seen.means.mean()
        errors.append([error[0], error.mean(), error @ centred / max(np.linalg.norm(centred), 1e-9)])
    mean, spread = np.mean(errors, axis=0), np.std(errors, axis=0) / math.sqrt(len(errors))
    _holds((np.abs(mean) <= SIGMAS * spread + 1e-12).all(), f"rewards are off their means by {mean}, spread {spread}")


def parameters_of_environments_round_trip(make: MakeEnvironment) -> None:
    _parameters_round_trip(make())


ENVIRONMENT_CHECKS = _checks(MakeEnvironment)
