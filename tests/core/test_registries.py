"""Every check over every registered class, and what policies and tuners must do together."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from doctest import DocTestParser
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pytest

import syndicated
from syndicated import checks
from syndicated.agent import Agent
from syndicated.environments import ENVIRONMENTS, Environment, Linear, MovieLens, Round
from syndicated.policies import POLICIES, SGDTS, ArmUCB, LinTS, LinUCB, NeuralTS, NeuralUCB, Policy
from syndicated.policies.base import ArmPolicy
from syndicated.space import Space
from syndicated.streams import ARMS, NOISE, Stream
from syndicated.tuners import TUNERS, Consensus, Tuner, TwoLayer
from syndicated.types import ArmRows, Arms, Array, Choice, Decision, Ints, Params

ROUNDS = 60
MAX_AXES = 4  # of a policy with more hyper-parameters, so that its points are not too many
FOLDERS: dict[str, Mapping[str, Any]] = {
    "policies": POLICIES.built_in,
    "tuners": TUNERS.built_in,
    "environments": ENVIRONMENTS.built_in,
}
REGISTERED: list[type[Any]] = [cls for registry in FOLDERS.values() for cls in registry.values()]

# Networks are trained over and over: tracing that would take as long again, and their own tests cover them.
untraced: dict[type[Policy], Any] = dict.fromkeys((NeuralTS, NeuralUCB), pytest.mark.no_cover)
policies = pytest.mark.parametrize(
    "policy", [pytest.param(p, marks=untraced.get(p, ()), id=name) for name, p in POLICIES.items()]
)
tuners = pytest.mark.parametrize("tuner", TUNERS.values(), ids=lambda c: c.__name__)
# Every policy with a tuner that asks rivals, every tuner with a policy of one round and with one of epochs: a policy
# never knows its tuner, so the product of all would say no more.
PAIRS: list[tuple[type[Policy], type[Tuner]]]
PAIRS = [(policy, Consensus) for policy in POLICIES.values() if policy not in (LinUCB, SGDTS)]
PAIRS += [(policy, tuner) for policy in (LinUCB, SGDTS) for tuner in TUNERS.values()]
pairs = pytest.mark.parametrize(("policy", "tuner"), PAIRS, ids=lambda c: c.__name__)
registered = pytest.mark.parametrize("cls", REGISTERED, ids=lambda c: c.__name__)


def _named(found: tuple[Any, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("check", found, ids=lambda check: check.__name__)


def _worlds() -> list[Any]:
    """Every environment at a small size, with each of its switches turned, each of its models, and other rewards."""
    worlds = []
    for name, world in ENVIRONMENTS.items():
        parameters = inspect.signature(world).parameters
        sizes = {"arms": 50} if world is MovieLens else {"dim": 3, "arms": 4}
        small = {size: value for size, value in sizes.items() if size in parameters}
        flags = [n for n, p in parameters.items() if isinstance(p.default, bool)]
        switches = [n for n in flags if n != "one_hot"]  # which needs as many arms as features
        settings: list[dict[str, Any]] = [{}, *({switch: not getattr(world(**small), switch)} for switch in switches)]
        settings += [{"model": "logistic"}] if "model" in parameters else []
        others: list[dict[str, Any]] = [
            {"change": 5}, {"low": -50.0, "high": 200.0}, {"drift": 5}, {"shape": "square"}, {"shape": "cosine"},
            {"tails": 5}, {"spread": 0.5}, {"lifetime": 5}, {"rate": 0.1},
        ]  # fmt: skip
        settings += [setting for setting in others if setting.keys() <= parameters.keys()]
        for setting in settings:
            worlds.append(pytest.param(partial(world, **small, **setting), id="-".join([name, *setting])))
    return worlds


@_named(checks.POLICY_CHECKS)
@policies
def test_policy(policy: type[Policy], check: Callable[[Any], None]) -> None:
    check(policy)


def test_units_do_not_matter_to_any_policy_here() -> None:
    """The checks hold all that say so to it."""
    assert [name for name, policy in POLICIES.built_in.items() if not policy.scale_free] == []


def _models_of_arms() -> list[Any]:
    """Every policy that keeps models of arms, with each link and each structure of the models."""
    found: list[tuple[str, Any]] = [(n, policy) for n, policy in POLICIES.items() if issubclass(policy, ArmPolicy)]
    settings = list(product(("auto", "logistic", "linear"), ("per-arm", "hybrid", "shared")))
    return [
        pytest.param(partial(policy, link=link, models=models), id=f"{name}-{link}-{models}")
        for name, policy in found
        for link, models in settings
    ]


@pytest.mark.no_cover
@_named(checks.POLICY_CHECKS + checks.ARM_POLICY_CHECKS)
@pytest.mark.parametrize("policy", _models_of_arms())
def test_policy_with_models_of_arms(policy: Callable[..., ArmPolicy], check: Callable[[Any], None]) -> None:
    check(policy)


@tuners
@_named(checks.TUNER_CHECKS)
def test_tuner(tuner: type[Tuner], check: Callable[[Any], None]) -> None:
    check(checks.on_space(tuner))


@pytest.mark.parametrize("world", _worlds())
@_named(checks.ENVIRONMENT_CHECKS)
def test_environment(world: Callable[[], Environment], check: Callable[[Any], None]) -> None:
    check(world)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_algorithm_file_is_registered(folder: str) -> None:
    files = (Path(syndicated.__file__).parent / folder).glob("[!_]*.py")
    expected = {f"syndicated.{folder}.{file.stem}" for file in files if file.stem != "base"}
    assert expected == {cls.__module__ for cls in FOLDERS[folder].values()}


@registered
def test_every_class_has_a_summary_and_an_example(cls: type[Any]) -> None:
    doc = cls.__dict__["__doc__"]
    summary = doc.split("\n")[0]
    assert summary.endswith(".")
    assert not summary.startswith(f"{cls.__name__}(")  # what dataclasses write where nobody did
    assert DocTestParser().get_examples(doc)


@policies
def test_constructors_of_policies_are_keyword_only(policy: type[Policy]) -> None:
    kinds = {p.kind for p in inspect.signature(policy).parameters.values()}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}


# Each check must be able to fail.


class _PlaceCounts(LinUCB):
    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        return super().scores(arms, points, rng) + 1e-9 * np.arange(len(arms))


class _ScoringLearns(LinUCB):
    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        self.model.count += 1
        return super().scores(arms, points, rng)


class _OneRow(LinUCB):
    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        return super().scores(arms, points[:1], rng)


class _ManyDraws(LinTS):
    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        return np.concatenate([LinTS.scores(self, arms, [point], rng) for point in points])


class _NeverChanges(LinUCB):
    def theory_ignores_round(self, given: Params) -> bool:
        return True


class _WrongStart(LinUCB):
    def prepare(self, points: Sequence[Params], catalogue: Array | None = None) -> None:
        super().prepare(points, catalogue)
        self.model.stack[:] = np.eye(self.size)


class _OneWrongNumber(LinUCB):
    def prepare(self, points: Sequence[Params], catalogue: Array | None = None) -> None:
        super().prepare(points, catalogue)
        self.model.catalogue = np.roll(self.model.catalogue, 1, axis=1)


class _KeepsItsFirstCatalogue(LinUCB):
    def update_catalogue(self, catalogue: Array, changed: Ints) -> None:
        super().update_catalogue(catalogue, changed)
        self.model.squared[:, 3] = 1.0


class _LearnsNothing(LinUCB):
    def learn(self, x: Array, reward: float, params: Params) -> None:
        pass


class _LosesItsFits(LinUCB):
    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        super().restore(arrays)
        self.model.thetas[:] = 0.0


class _OldPolicy(LinUCB):
    def fresh(self) -> Self:
        return self


class _Crowd(LinUCB):
    learned: ClassVar[list[float]] = []

    def learn(self, x: Array, reward: float, params: Params) -> None:
        self.learned.append(reward)
        super().learn(x, reward + len(self.learned), params)


class _SwapsArguments(LinUCB):
    def __post_init__(self) -> None:
        self.S, self.L = self.L, self.S
        super().__post_init__()


class _ForgetsLam(LinUCB):
    def theory(self, t: int, given: Params) -> dict[str, float]:
        return super().theory(t, {})


class _TakesAnything(LinUCB):
    def check(self, params: Params) -> None:
        pass


class _NoIntercept(LinUCB):
    def prepare(self, points: Sequence[Params], catalogue: Array | None = None) -> None:
        self.intercept = False
        super().prepare(points, catalogue)


class _PredictsOptimism(LinUCB):
    def predict(self, arms: Arms, params: Params) -> Array:
        scores: Array = self.scores(arms, [params], Stream(0, 0))[0]
        return scores


class _LikesLosses(LinUCB):
    def learn(self, x: Array, reward: float, params: Params) -> None:
        super().learn(x, -reward, params)


class _InUnitsOfFeatures(LinUCB):
    _scaled: ClassVar[bool] = False


class _InUnitsOfRewards(LinUCB):
    def theory(self, t: int, given: Params) -> dict[str, float]:
        return {**super().theory(t, given), "alpha": 0.1}


class _PlacesOfArmsCount(ArmUCB):
    def scores(self, arms: Arms | ArmRows, points: Sequence[Params], rng: Stream) -> Array:
        return super().scores(arms, points, rng) + np.arange(len(arms))


class _PlaysTheFirst(LinUCB):
    def best(self, arms: Any, points: Sequence[Params], t: int, rng: Stream) -> list[int]:
        return [0 for _ in points]


class _DrawsOnceForAllTables(LinTS):
    def scores_many(self, tables: Sequence[Any], points: Sequence[Params], rng: Stream) -> Array:
        return np.concatenate([self.scores(arms, points, rng.later(0)).ravel() for arms in tables])


class _LearnsTheLastTwice(LinUCB):
    def learn_many(self, X: Array, rewards: Array, params: Sequence[Params]) -> None:
        super().learn_many(X, rewards, params)
        self.learn(X[-1], float(rewards[-1]), params[-1])


class _PlaysTheFirstOfArms(ArmUCB):
    def best(self, arms: Any, points: Sequence[Params], t: int, rng: Stream) -> list[int]:
        return [0 for _ in points]


class _LikesLossesOfArms(ArmUCB):
    def learn_arm(self, number: int, x: Array, reward: float, params: Params) -> None:
        super().learn_arm(number, x, 1 - reward, params)


class _KnowsNoNewArms(ArmUCB):
    def scores(self, arms: Arms | ArmRows, points: Sequence[Params], rng: Stream) -> Array:
        scores = super().scores(arms, points, rng)
        if isinstance(arms, ArmRows):
            scores[:, arms.numbers < 0] = np.nan
        return scores


class _ScoringArmsLearns(ArmUCB):
    def scores(self, arms: Arms | ArmRows, points: Sequence[Params], rng: Stream) -> Array:
        self.linear.refresh_at += 1
        return super().scores(arms, points, rng)


class _LosesItsArms(ArmUCB):
    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        super().restore(arrays)
        self.logistic.own[:] = 0.0


class _NeverRetires(ArmUCB):
    def retire_arm(self, number: int) -> None:
        pass


class _NarrowRows(ArmUCB):
    def learn_arm(self, number: int, x: Array, reward: float, params: Params) -> None:
        super().learn_arm(number, x[: self.dim], reward, params)


class _OffGrid(TwoLayer):
    def choose(self, rng: Stream) -> Choice:
        return replace(super().choose(rng), params={"alpha": 99.0})


class _ChoosesOnceForAllPeriods(TwoLayer):
    def choose_many(self, rng: Stream, periods: int) -> list[Choice]:
        return [self.choose(rng)] * periods


class _Uncalibrated(TwoLayer):
    def choose(self, rng: Stream) -> Choice:
        return replace(super().choose(rng), probability=(1 / 3,))


class _LikesTheWorst(TwoLayer):
    def learn(self, choice: Choice, reward: float, share: float = 1.0) -> None:
        super().learn(choice, 1 - reward, share)


class _Forgets(TwoLayer):
    def learn(self, choice: Choice, reward: float, share: float = 1.0) -> None:
        super().learn(choice, reward, share)
        self.logw *= 0.99


class _CountsAllWhole(TwoLayer):
    def learn_many(self, choices: Sequence[Choice], rewards: Array, shares: Array) -> None:
        super().learn_many(choices, rewards, np.ones(len(choices)))


class _CountsWhole(TwoLayer):
    def learn(self, choice: Choice, reward: float, share: float = 1.0) -> None:
        super().learn(choice, reward)


class _IgnoresTheRange(TwoLayer):
    def rescale(self, reward: float) -> float:
        return reward


class _DisownsItsChoices(TwoLayer):
    draws: ClassVar[bool] = False


class _LosesItsWeights(TwoLayer):
    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        pass


class _OldTuner(TwoLayer):
    def fresh(self) -> Self:
        return self


class _OneForAll(TwoLayer):
    shared: ClassVar[list[float]] = []

    def learn(self, choice: Choice, reward: float, share: float = 1.0) -> None:
        self.shared.append(reward)
        super().learn(choice, reward + len(self.shared), share)


class _OtherHorizon(TwoLayer):
    def __post_init__(self) -> None:
        self.horizon += 1
        super().__post_init__()


class _NoArms(Linear):
    def features(self, seed: int, t: int, bound: float) -> Array:
        return super().features(seed, t, bound)[:2]


class _Moody(Linear):
    count: ClassVar[list[int]] = []

    def theta(self, seed: int, k: int = 0) -> Array:
        self.count.append(seed)
        return super().theta(len(self.count), k)


class _OneWorld(Linear):
    def rounds(self, seed: int, horizon: int) -> Iterator[Round]:
        return super().rounds(0, horizon)


class _LooksAhead(Linear):
    def rounds(self, seed: int, horizon: int) -> Iterator[Round]:
        return super().rounds(seed + horizon, horizon)


class _SharesItsArrays(Linear):
    @cache  # noqa: B019
    def features(self, seed: int, t: int, bound: float) -> Array:
        return super().features(seed, t, bound)


class _Generous(Linear):
    def rounds(self, seed: int, horizon: int) -> Iterator[Round]:
        return (replace(each, rewards=each.rewards + 0.05) for each in super().rounds(seed, horizon))


class _Quiet(Linear):
    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", 0.1)


BROKEN: dict[str, type[Any]] = {
    "order_of_arms_does_not_matter": _PlaceCounts,
    "best_arms_are_those_with_the_largest_scores": _PlaysTheFirst,
    "scores_of_many_tables_are_those_of_each": _DrawsOnceForAllTables,
    "rewards_learned_together_are_learned_as_one_by_one": _LearnsTheLastTwice,
    "scores_are_pure": _ScoringLearns,
    "scores_have_one_row_a_point_for_any_number_of_arms": _OneRow,
    "one_draw_serves_all_points": _ManyDraws,
    "points_need_no_preparation": _WrongStart,
    "arms_of_a_catalogue_score_like_their_features": _OneWrongNumber,
    "arms_that_are_added_or_changed_score_like_their_features": _KeepsItsFirstCatalogue,
    "learning_changes_the_state": _LearnsNothing,
    "policies_restore_to_the_bit": _LosesItsFits,
    "fresh_policies_have_no_history": _OldPolicy,
    "twin_policies_agree": _Crowd,
    "parameters_of_policies_round_trip": _SwapsArguments,
    "theory_gives_every_hyper_parameter_and_keeps_what_is_given": _ForgetsLam,
    "theory_that_ignores_the_round_is_the_same_in_every_round": _NeverChanges,
    "unknown_hyper_parameters_are_refused": _TakesAnything,
    "intercept_is_a_constant_feature": _NoIntercept,
    "units_of_features_do_not_matter_where_nothing_is_set": _InUnitsOfFeatures,
    "unit_and_level_of_rewards_do_not_matter_where_nothing_is_set": _InUnitsOfRewards,
    "predict_ignores_exploration": _PredictsOptimism,
    "it_learns_an_easy_world": _LikesLosses,
    "arms_are_known_by_their_numbers": _PlacesOfArmsCount,
    "best_arms_with_models_are_those_with_the_largest_scores": _PlaysTheFirstOfArms,
    "an_arm_with_better_rewards_is_believed_better": _LikesLossesOfArms,
    "arms_without_a_model_are_scored": _KnowsNoNewArms,
    "scoring_arms_is_pure": _ScoringArmsLearns,
    "models_of_arms_restore_to_the_bit": _LosesItsArms,
    "a_retired_arm_is_as_if_never_played": _NeverRetires,
    "rows_may_grow_and_late_ones_be_short": _NarrowRows,
    "choices_come_from_its_points": _OffGrid,
    "stated_probabilities_match_frequencies": _Uncalibrated,
    "choices_of_many_periods_are_those_of_each": _ChoosesOnceForAllPeriods,
    "choices_credited_together_are_credited_as_one_by_one": _CountsAllWhole,
    "learning_moves_probability_to_the_best": _LikesTheWorst,
    "choices_are_among_those_it_could_draw": _DisownsItsChoices,
    "late_rewards_count_the_same": _Forgets,
    "shares_of_a_reward_add_up": _CountsWhole,
    "rewards_in_another_declared_range_are_the_same": _IgnoresTheRange,
    "tuners_restore_to_the_bit": _LosesItsWeights,
    "fresh_tuners_have_no_history": _OldTuner,
    "twin_tuners_agree": _OneForAll,
    "parameters_of_tuners_round_trip": _OtherHorizon,
    "rounds_have_the_stated_shape": _NoArms,
    "same_seed_same_world": _Moody,
    "another_seed_another_world": _OneWorld,
    "rounds_do_not_depend_on_the_horizon": _LooksAhead,
    "players_cannot_change_the_rounds": _SharesItsArrays,
    "rewards_have_the_stated_means": _Generous,
    "parameters_of_environments_round_trip": _Quiet,
}


@_named(checks.POLICY_CHECKS + checks.ARM_POLICY_CHECKS + checks.TUNER_CHECKS + checks.ENVIRONMENT_CHECKS)
def test_a_broken_part_fails_its_check(check: Callable[[Any], None]) -> None:
    with pytest.raises(AssertionError):
        check(BROKEN[check.__name__])


@pytest.mark.parametrize("name", ["scores", "theory"])
def test_a_policy_with_scores_or_theory_of_its_own_does_not_inherit_a_compiled_best(name: str) -> None:
    other: Any = type("Other", (ArmUCB,), {name: getattr(ArmUCB, name)})
    assert (other.best, ArmUCB.best is Policy.best) == (Policy.best, False)


# Policies with tuners.


def _candidates(name: str, low: float, high: float) -> list[float]:
    """Two candidates: 0 and 1 for a switch, the two least for what is counted."""
    return [low, low + 1] if low >= 1 else [0.0 if name == "intercept" else 0.3, min(1.0, high)]


def _agent(policy: type[Policy], tuner: type[Tuner], warmup: int = 0) -> Agent:
    """A small agent; short epochs, so that a policy that has them sees several."""
    short: dict[str, Any] = {"tau": 5} if "tau" in inspect.signature(policy).parameters else {}
    names = list(policy.hyper)[:MAX_AXES]
    chosen = checks.on_space(tuner)(Space(**{name: _candidates(name, *policy.hyper[name]) for name in names}))
    if warmup and "warmup" in chosen.params():
        chosen = replace(chosen, warmup=warmup)  # type: ignore[call-arg]
    return Agent(policy(dim=3, **short), chosen, seed=1)


def _arms(t: int, K: int = 7) -> Array:
    return 2 * Stream(1, ARMS, t).uniforms(K * 3).reshape(K, 3) - 1


def _reward(t: int) -> float:
    return float(Stream(1, NOISE, t).uniforms(1)[0])


def _facts(d: Decision) -> tuple[Any, ...]:
    drawn = d.choice and (dict(d.choice.params), d.choice.index, repr(d.choice.probability), d.choice.slot)
    return d.id, d.arm, d.x.tobytes(), repr(d.propensity), dict(d.params), drawn


def _play(agent: Agent, start: int, rounds: int, late: int = 4) -> list[tuple[Any, ...]]:
    """Rounds whose rewards come `late` rounds after their decisions; the last rewards do not come."""
    decisions = []
    for t in range(start, start + rounds):
        decisions.append(agent.decide(_arms(t)))
        if t >= start + late:
            agent.learn(decisions[-1 - late], _reward(t))
    return [_facts(d) for d in decisions]


@pairs
def test_resume_equals_uninterrupted_to_the_bit(policy: type[Policy], tuner: type[Tuner]) -> None:
    agent, resumed = _agent(policy, tuner), _agent(policy, tuner)
    _play(agent, 0, ROUNDS // 2 + 1)
    resumed.restore(agent.state())
    assert _play(agent, 100, ROUNDS // 2) == _play(resumed, 100, ROUNDS // 2)
    assert agent.state() == resumed.state()


@pytest.mark.no_cover
@pairs
def test_order_of_arms_does_not_matter(policy: type[Policy], tuner: type[Tuner]) -> None:
    agent, other = _agent(policy, tuner), _agent(policy, tuner)
    for t in range(ROUNDS):
        one = agent.decide(_arms(t))
        two = other.decide(_arms(t) if one.choice is None else _arms(t)[::-1])
        assert one.x.tobytes() == two.x.tobytes()
        agent.learn(one, _reward(t))
        other.learn(two, _reward(t))


@pytest.mark.no_cover
@pairs
def test_rewards_may_come_in_any_order(policy: type[Policy], tuner: type[Tuner]) -> None:
    agent = _agent(policy, tuner)
    decisions = [agent.decide(_arms(t)) for t in range(ROUNDS)]
    assert agent.open == ROUNDS
    for place in np.argsort([_reward(t) for t in range(ROUNDS)]):
        agent.learn(decisions[place], _reward(place))
    assert agent.open == 0
    _play(agent, 100, ROUNDS)
    arrays = (array for part in (agent.tuner, *agent.player.policies) for array in part.state().values())
    assert all(np.isfinite(array.astype(float)).all() for array in arrays)


@pytest.mark.no_cover
@pairs
def test_the_number_of_arms_may_change(policy: type[Policy], tuner: type[Tuner]) -> None:
    agent = _agent(policy, tuner)
    for t, K in enumerate([1, 7, 2, 100, 1, 3] * (ROUNDS // 6)):
        decision = agent.decide(_arms(t, K))
        assert decision.x.tobytes() == _arms(t, K)[decision.arm].tobytes()
        agent.learn(decision, _reward(t))


@pytest.mark.no_cover
@pairs
def test_warm_up_plays_uniformly_and_does_not_teach_the_tuner(policy: type[Policy], tuner: type[Tuner]) -> None:
    agent = _agent(policy, tuner, warmup=400)
    expected = 400 if "warmup" in agent.tuner.params() else agent.policy.warmup
    before, counts = agent.tuner.state(), np.zeros(4)
    for t in range(expected):
        decision = agent.decide(_arms(t, 4))
        assert (decision.choice, decision.propensity) == (None, 1 / 4)
        agent.learn(decision, _reward(t))
        counts[decision.arm] += 1
    assert agent.decide(_arms(999)).choice is not None
    assert all((before[name] == array).all() for name, array in agent.tuner.state().items())
    assert (np.abs(counts - expected / 4) <= 4.5 * np.sqrt(expected * 3 / 16)).all()
