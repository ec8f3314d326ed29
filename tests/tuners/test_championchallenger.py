"""ChampionChallenger: its confidence sequence against plain sums, and how often it is wrong."""

import math
from dataclasses import replace

import numpy as np
import pytest

from syndicated import ChampionChallenger, Space
from syndicated.streams import NOISE, TUNER, Stream
from syndicated.tuners.championchallenger import radius
from syndicated.types import Choice

SPACE = Space(boldness=[1.0, 2.0, 4.0])


def history(
    rounds: int, means: tuple[float, ...], seed: int = 1
) -> tuple[ChampionChallenger, list[tuple[Choice, float]]]:
    """Rounds in which every second time the first two would play the same arm."""
    tuner, found = ChampionChallenger(SPACE), []
    for t in range(rounds):
        choice = tuner.choose(Stream(seed, TUNER, t))
        i = choice.index[0]
        agreeing = ((0, 1) if i < 2 else (2,)) if t % 2 else (i,)
        choice = replace(choice, agreeing=agreeing)
        reward = float(Stream(seed, NOISE, t).uniforms(1)[0] < means[min(agreeing)])
        found.append((choice, reward))
        tuner.learn(choice, reward)
    return tuner, found


def test_the_lead_is_that_of_plain_sums() -> None:
    tuner, found = history(400, (0.5, 0.5, 0.6))
    k, alpha, t = tuner.champion, 0.05 / 2, len(found)
    rho2 = (-2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))) / 1000
    for j in range(3):
        differences = []
        for choice, reward in found:
            q = sum(choice.candidate_probabilities[i] for i in choice.agreeing)
            differences.append(((j in choice.agreeing) - (k in choice.agreeing)) * (reward - 0.5) / q)
        m, v = np.mean(differences), np.var(differences)
        width = math.sqrt(2 * (t * v * rho2 + 1) / (t * t * rho2) * math.log(math.sqrt(t * v * rho2 + 1) / alpha))
        assert tuner.lead()[j] == pytest.approx(0.0 if j == k else m - width, rel=1e-9)


@pytest.mark.parametrize("alpha", [0.001, 0.025, 0.5, 1.0])
def test_the_sequence_is_nearly_tightest_where_variances_add_up_to_1000(alpha: float) -> None:
    def width(rho2: float) -> float:
        spread = 1000 * rho2 + 1
        return math.sqrt(2 * spread / (1000**2 * rho2) * math.log(math.sqrt(spread) / alpha))

    least = min(width(0.001 * 1.01**k) for k in range(-500, 500))
    found = float(radius(1000.0, np.ones(1), alpha)[0])
    assert least * (1 - 1e-9) <= found <= (1.001 if alpha < 0.1 else 1.2) * least


def test_the_share_of_trials_falls_with_the_third_root() -> None:
    tuner, _ = history(63, (0.5, 0.5, 0.5))
    p = tuner.probabilities()[0]
    assert p[tuner.champion] == pytest.approx(1 - 0.25 * 2 / 3)
    assert p.sum() == pytest.approx(1.0)


@pytest.mark.no_cover
def test_a_better_challenger_becomes_champion_and_equal_ones_seldom_do() -> None:
    better = [history(1500, (0.2, 0.2, 0.9), seed)[0].champion for seed in range(5)]
    assert better == [2] * 5
    equal = [history(600, (0.5, 0.5, 0.5), seed)[0].champion for seed in range(20)]
    assert sum(champion != 0 for champion in equal) <= 4  # more than 4 of 20 at 5 %: once in 400


def test_a_choice_without_probability_is_not_taken_back() -> None:
    tuner = ChampionChallenger(SPACE)
    choice = tuner.choose(Stream(1, TUNER))
    assert tuner.could_draw(choice)
    assert not tuner.could_draw(replace(choice, candidate_probabilities=(0.0, 0.0, 0.0)))
