"""Rows that are remembered: found again wherever they are, and tried once in the end."""

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syndicated import Agent, Fixed, LinTS, LinUCB, Space
from syndicated._models import known_rows
from syndicated._models.known_rows import (
    FEATURES,
    MAX_ROWS,
    SLOTS,
    draw_effects,
    fill_slots,
    find,
    find_unseen,
    find_untried,
    fingerprint,
    own_slot,
    recall,
)
from syndicated._models.scaled_kernels import POSSIBLE, RSS, TOTAL
from syndicated._models.scaled_ridge import MIN_JUDGED_RSS, OWN_VARIANCES, ScaledRidge
from syndicated.policies._ridge_policy import TRIAL_ROUNDS, WIDE_TRIALS, RidgePolicy
from syndicated.streams import POLICY, Stream
from syndicated.types import Array

both = pytest.mark.parametrize("make", [LinUCB, LinTS])


def _nothing(dim: int) -> tuple[Array, Array]:
    return np.zeros((FEATURES + dim, MAX_ROWS)), np.zeros(SLOTS)


@pytest.mark.parametrize("kinds", [200, 300, 5000])
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_the_rows_played_last_are_found_and_no_others(kinds: int, unit: float) -> None:
    rng = np.random.default_rng(kinds)
    table, (known, slots), places = unit * rng.normal(size=(kinds, 3)), _nothing(3), OrderedDict[int, int]()
    played = dict[int, int]()
    for count, row in enumerate(rng.integers(kinds, size=3000).tolist(), start=1):
        place, last = recall(known, slots, table[row], count)
        new = row not in places
        assert last == (0 if new else played[row])
        if new and len(places) == MAX_ROWS:
            assert place == places.popitem(last=False)[1]
        assert new or place == places[row]
        places[row], played[row] = place, count
        places.move_to_end(row)
    assert [find(known, slots, table, row) for row in range(kinds)] == [places.get(row, -1) for row in range(kinds)]
    again = np.full(SLOTS, 7.0)
    fill_slots(known, again)
    assert [find(known, again, table, row) for row in range(kinds)] == [places.get(row, -1) for row in range(kinds)]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60))
def test_rows_whose_slots_are_the_same_are_found_behind_each_other(rows: list[int]) -> None:
    """Six rows whose own slots are the last two, so that they run into one another, and over the end."""
    many = np.arange(1.0, 10_000.0)[:, None]
    last = [own_slot(fingerprint(many, a)) >= SLOTS - 2 for a in range(len(many))]
    (known, slots), table = _nothing(1), many[last][:6]
    seen = set[int]()
    for count, row in enumerate(rows, start=1):
        assert (recall(known, slots, table[row], count)[1] == 0) == (row not in seen)
        seen.add(row)
    for row in seen:  # leave one after the other
        at = known_rows.slot_of(known, slots, table, row, fingerprint(table, row))
        known_rows.free_slot(known, slots, at)
        seen = seen - {row}
        assert all((find(known, slots, table, other) >= 0) == (other in seen) for other in range(6))


@pytest.mark.parametrize("mark", [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1.7e308])
def test_every_number_has_a_slot(mark: float) -> None:
    assert 0 <= own_slot(mark) < SLOTS


def test_a_row_is_tried_when_it_was_played() -> None:
    (known, slots), table, out = _nothing(2), np.eye(2), np.zeros(2, dtype=np.bool_)
    find_untried(out, table, known, slots)
    assert out.tolist() == [True, True]
    place, _ = recall(known, slots, table[1], 1)
    find_untried(out, table, known, slots)
    assert out.tolist() == [True, True]  # it is remembered, from before the model has started again
    known[known_rows.PLAYS, place] = 1.0
    find_untried(out, table, known, slots)
    assert out.tolist() == [True, False]


def test_the_row_that_went_unplayed_for_longest_is_found() -> None:
    (known, slots), table = _nothing(1), np.array([[1.0], [2.0], [3.0], [4.0]])
    for count, row in enumerate([2, 0, 1, 2, 0], start=1):
        place, _ = recall(known, slots, table[row], count)
        known[known_rows.PLAYS, place] += 1.0
    assert find_unseen(table, known, slots, 9.0) == 1
    assert find_unseen(table[[0, 2, 3]], known, slots, 9.0) == 1  # the third row was played before the first
    assert find_unseen(table, known, slots, 4.0) == 1
    assert find_unseen(table, known, slots, 3.0) == -1
    known[known_rows.PLAYS] = 0.0  # the model has started again
    assert find_unseen(table, known, slots, 9.0) == -1


# Trials


def _locked(make: type[RidgePolicy], boldness: float = 0.1) -> tuple[RidgePolicy, Array]:
    """A policy that is sure of the first two of five rows, and of a line that says that the others are worse."""
    table = np.array([[2.0], [1.5], [0.5], [0.0], [-1.0]])
    policy = make(dim=1)
    policy.prepare([{"boldness": boldness}])
    for n in range(60):
        policy.learn(table[n % 2], float(table[n % 2, 0]) + 0.1 * (-1) ** (n // 2), {})
    return policy, table


@both
def test_in_a_trial_round_the_best_row_or_the_widest_that_was_never_played_is(make: type[RidgePolicy]) -> None:
    policy, table = _locked(make)
    plain, trial, wide = 100, 152, 128
    assert plain not in TRIAL_ROUNDS
    assert {trial, wide} <= TRIAL_ROUNDS
    assert [trial in WIDE_TRIALS, wide in WIDE_TRIALS] == [False, True]
    point = ({"boldness": 0.1},)
    for arms in (table, table[::-1].copy()):
        assert arms[policy.best(arms, point, plain, Stream(1, POLICY, plain))[0], 0] == 2.0
        assert arms[policy.best(arms, point, trial, Stream(1, POLICY, trial))[0], 0] == 0.5
        assert arms[policy.best(arms, point, wide, Stream(1, POLICY, wide))[0], 0] == -1.0
    assert policy.best(table[:2], point, trial, Stream(1, POLICY, trial)) == [0]  # there is nothing to try
    only_new = table[2:] + 0.1  # what was never played is best anyway
    for t in (trial, wide):
        assert policy.best(only_new, point, t, Stream(1, POLICY, t)) == [0]


@both
def test_a_point_that_does_not_explore_tries_nothing(make: type[RidgePolicy]) -> None:
    policy, table = _locked(make)
    points = [{"boldness": 0.0}, {"boldness": 0.1}]
    assert policy.best(table, points, 152, Stream(1, POLICY, 152)) == [0, 2]


def test_four_trials_while_rounds_double() -> None:
    assert sorted(TRIAL_ROUNDS)[:12] == [1, 2, 3, 4, 5, 6, 8, 9, 11, 13, 16, 19]
    for start in (16, 64, 1024):
        assert sum(start <= t < 2 * start for t in TRIAL_ROUNDS) == 4


@both
def test_the_widest_row_is_tried_if_it_may_be_the_best_one(make: type[RidgePolicy]) -> None:
    """Whether mean + sqrt(2 log N (z'V⁻¹z + possible effect)) noise is above the best mean, in plain loops."""
    policy, table = _locked(make)
    model, point = policy.model, policy.theory(0, {"boldness": 1.0})
    assert isinstance(model, ScaledRidge)
    V = model.stack[0] @ model.stack[0].T if make is LinTS else np.linalg.inv(model.stack[0])
    means, tried = policy.predict(table, point), []
    for possible, noise in ((0.0, 0.01), (100.0, 0.01), (100.0, 0.1), (1.0, 0.3), (100.0, 0.3)):
        model.sums[[POSSIBLE, RSS]] = possible, 60 * noise**2
        widest, found = 0.0, [False] * 5
        for a, x in enumerate(table):
            z = np.append((x - model.centre) * model.unit, 1.0)
            width = float(z @ np.linalg.solve(V, z))
            reach = np.sqrt(2.0 * np.log(61.0) * (width + possible)) * noise
            if a > 1 and means[a] + reach > means[0] and width > widest:
                widest, found = width, [a == b for b in range(5)]
        assert model.widest(table, model.untried(table)).tolist() == found
        tried.append(found)
    assert len({tuple(each) for each in tried}) > 1


def test_effects_that_are_possible_have_even_odds_before_anything_is_known() -> None:
    policy, rng = LinUCB(dim=1, without=["relevance"]), np.random.default_rng(5)
    policy.prepare([{"boldness": 1.0}])
    model = policy.model
    assert isinstance(model, ScaledRidge)
    variances = np.append(0.0, OWN_VARIANCES)
    assert np.isclose(model.sums[POSSIBLE], 0.5 * OWN_VARIANCES.mean())
    for n in range(12):
        policy.learn(np.array([n % 6.0]), n % 6 + 0.1 * rng.normal(), {})
    model._refresh()
    plays = np.full(6, 2.0)
    odds = np.exp(model._marginals(plays, variances, MIN_JUDGED_RSS * float(model.sums[TOTAL])))
    odds[0] *= len(OWN_VARIANCES)
    assert np.isclose(model.sums[POSSIBLE], odds @ variances / odds.sum())
    assert 0.5 * OWN_VARIANCES.mean() > model.sums[POSSIBLE] > model.own_variance


def test_rows_are_not_tried_where_the_last_two_paid_what_was_predicted_without_noise() -> None:
    policy, table = _locked(LinUCB)
    model = policy.model
    assert isinstance(model, ScaledRidge)
    assert model.untried(table).tolist() == [False, False, True, True, True]
    noisy = model.sums[RSS]
    for row in (2, 3):
        model.sums[RSS] = 0.0
        assert model.untried(table).any()
        predicted = policy.predict(table[[row]], policy.theory(0, {"boldness": 1.0}))
        policy.learn(table[row], float(predicted[0]) + 0.001, {})
    assert not model.untried(table).any()
    model.sums[RSS] = noisy  # where there is noise, two may do so by chance
    assert model.untried(table).tolist() == [False] * 4 + [True]


def test_a_very_large_table_has_no_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, table = _locked(LinUCB)
    monkeypatch.setattr("syndicated._models.scaled_ridge.MAX_OWN_ARMS", 4)
    assert isinstance(policy.model, ScaledRidge)
    assert not policy.model.untried(table).any()
    assert policy.model.untried(table[1:]).any()


@both
def test_a_wrong_model_does_not_keep_the_best_row_from_being_played(make: type[RidgePolicy]) -> None:
    """Of rows that pay what a line says one pays more, at which the line is low and its width is small."""
    table = np.linspace(0.0, 1.0, 12)[:, None]
    pays = table[:, 0] + 2.0 * (np.arange(12) == 3)
    for seed in range(5):
        agent, noise = Agent(make(dim=1), seed=seed), np.random.default_rng(seed)
        for _ in range(300):
            decision = agent.decide(table)
            agent.learn(decision, float(pays[decision.arm] + 0.1 * noise.normal()))
        assert decision.arm == 3


@both
def test_trials_are_the_same_by_rows_and_by_numbers_explained_and_replayed(make: type[RidgePolicy]) -> None:
    rng = np.random.default_rng(3)
    table = rng.normal(size=(30, 3))
    rewards = (table @ [1.0, -1.0, 0.5]) ** 2
    tuner = Fixed(Space(boldness=[0.2]))
    agents = [Agent(make(dim=3), tuner, seed=5, catalogue=c) for c in (None, table)]
    played = []
    for t in range(140):
        decision, by_number = agents[0].decide(table), agents[1].decide(range(30))
        assert decision.arm == by_number.arm
        player = agents[0].player
        assert player.propose(table, t, agents[0].choice, explain=True).decision.arm == decision.arm
        played.append(decision.arm)
        for agent, made in zip(agents, (decision, by_number), strict=True):
            agent.learn(made, float(rewards[decision.arm]) + 0.1 * np.sin(t))
    earned = rewards[played] + 0.1 * np.sin(np.arange(140))
    again = Agent(make(dim=3), tuner, seed=5)
    assert again.replay(np.repeat(table[None], 140, axis=0), played, earned).tolist() == played
    several = Agent(make(dim=3), tuner, seed=5)
    for t in range(20):
        several.learn(several.decide(table), float(earned[t]))
    many = [decision.arm for decision in several.decide_many(np.repeat(table[None], 50, axis=0))]
    assert many == [several.player.decide(table, 20 + n, several.choice).arm for n in range(50)]


def test_scores_with_drawn_effects_are_means_between_both_and_a_draw_of_what_is_not_known() -> None:
    rng = np.random.default_rng(4)
    scores, (shares, left), (means, z), alphas = (
        rng.normal(size=(2, 5)),
        rng.random((2, 5)),
        rng.normal(size=(2, 5)),
        [0.5, 2],
    )
    expected = [
        [(1 - shares[a]) * scores[n, a] + shares[a] * means[a] + alphas[n] * left[a] ** 0.5 * z[a] for a in range(5)]
        for n in range(2)
    ]
    draw_effects(scores, shares, means, left, np.array(alphas), z)
    np.testing.assert_allclose(scores, expected)
