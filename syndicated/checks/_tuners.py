"""What every tuner must make true; `make` is called with a Space."""

import inspect
import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose

from syndicated.checks._common import (
    SIGMAS,
    SPACE,
    checks_of,
    has_no_history,
    holds,
    parameters_round_trip,
    restores_to_the_bit,
    state_of,
    twins_agree,
)
from syndicated.space import Space
from syndicated.streams import TUNER, Stream
from syndicated.tuners import Fixed, Tuner
from syndicated.types import Choice

MakeTuner = Callable[[Space], Tuner]


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
    return [repr(choice) for choice in _choices_while_learning(tuner, rounds, start)]


def _choices_while_learning(tuner: Tuner, rounds: int, start: int) -> list[Choice]:
    choices = []
    for t in range(start, start + rounds):
        choices.append(tuner.choose(Stream(1, TUNER, t)))
        tuner.learn(choices[-1], _reward(choices[-1]))
    return choices


def _played(make: MakeTuner) -> Iterator[Tuner]:
    for rounds in (0, 300):
        tuner = make(SPACE)
        _play(tuner, rounds)
        yield tuner


def _is_best(choice: Choice) -> bool:
    return _reward(choice) == 1.0


def choices_come_from_its_points(make: MakeTuner) -> None:
    for tuner in _played(make):
        before = state_of(tuner)
        for choice in _choices(tuner, 100):
            holds(choice.params in tuner.points, f"{choice.params} is not one of its points")
            holds(0 <= choice.slot < tuner.slots, f"slot {choice.slot} is not one of its {tuner.slots}")
            own = tuner.slots == 1 or tuner.points[choice.slot] == choice.params
            holds(own, f"slot {choice.slot} is the copy of another point than {choice.params}")
            holds(len(choice.index) == len(choice.probability), f"{choice} must state a probability for each index")
        holds(state_of(tuner) == before, "choose changed the state")


def stated_probabilities_match_frequencies(make: MakeTuner) -> None:
    for tuner in _played(make):
        drawn = _choices(tuner, 3000, start=10_000)
        stated = {f"slot {c.slot}: {c.params}": math.prod(c.probability) for c in drawn}
        for point, p in stated.items():
            if math.isnan(p):
                holds("NaN" in (type(tuner).__doc__ or ""), "probabilities are NaN, and its docstring does not say so")
                continue
            draws = [math.prod(c.probability) for c in drawn if f"slot {c.slot}: {c.params}" == point]
            holds(set(draws) == {p}, f"{point} states several probabilities")
            frequency, spread = len(draws) / len(drawn), math.sqrt(max(p * (1 - p), 0.0) / len(drawn))
            holds(abs(frequency - p) <= SIGMAS * spread, f"{point} states {p:.3f} and comes with {frequency:.3f}")


def choices_of_many_periods_are_those_of_each(make: MakeTuner) -> None:
    for tuner in _played(make):
        together = tuner.choose_many(Stream(1, TUNER, 7), 50)
        holds(together == _choices(tuner, 50, start=7), "chosen with others, choices are others")


def choices_credited_together_are_credited_as_one_by_one(make: MakeTuner) -> None:
    for tuner in _played(make):
        choices, twin = _choices(tuner, 40, start=7), deepcopy(tuner)
        rewards = np.array([_reward(choice) for choice in choices]) - 0.25
        shares = np.where(np.arange(40) % 3 == 0, 0.5, 1.0)
        tuner.learn_many(choices, rewards, shares)
        for choice, reward, share in zip(choices, rewards.tolist(), shares.tolist(), strict=True):
            twin.learn(choice, reward, share)
        holds(state_of(tuner) == state_of(twin), "credited with others, choices gain otherwise")
        tuner.learn_many([], np.empty(0), np.empty(0))
        holds(state_of(tuner) == state_of(twin), "no choices at all change what is known")


def learning_moves_probability_to_the_best(make: MakeTuner) -> None:
    tuner = make(SPACE)
    if tuner.state():  # without a state there is nothing to learn
        before = np.mean([_is_best(choice) for choice in _choices(tuner, 300)])
        _play(tuner, 1700)
        later = _choices_while_learning(tuner, 300, start=1700)
        after = np.mean([_is_best(choice) for choice in later])
        holds(after > before + 0.25, f"the best point came with frequency {before:.2f} at first, {after:.2f} later")


def choices_are_among_those_it_could_draw(make: MakeTuner) -> None:
    for tuner in _played(make):
        for choice in _choices(tuner, 10):
            holds(tuner.could_draw(choice), f"it would not take back its own {choice}")
            other = replace(choice, slot=tuner.slots)
            holds(not tuner.could_draw(other), f"it would take back the slot of {other}, which it does not have")


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
        whole.learn(choice, _reward(choice))
        for _ in range(4):
            parts.learn(choice, _reward(choice), share=0.25)
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
    for mine, theirs in zip(one.probabilities(), other.probabilities(), strict=True):
        assert_allclose(theirs, mine, rtol=1e-9, atol=1e-12, err_msg=reason)


def tuners_restore_to_the_bit(make: MakeTuner) -> None:
    for tuner in _played(make):
        restores_to_the_bit(tuner, make(SPACE), lambda each: _play(each, start=1000))


def fresh_tuners_have_no_history(make: MakeTuner) -> None:
    for tuner in _played(make):
        has_no_history(tuner.fresh(), make(SPACE), tuner, _play)


def twin_tuners_agree(make: MakeTuner) -> None:
    twins_agree(lambda: make(SPACE), _play)


def parameters_of_tuners_round_trip(make: MakeTuner) -> None:
    parameters_round_trip(make(SPACE))


TUNER_CHECKS = checks_of(globals(), MakeTuner)
