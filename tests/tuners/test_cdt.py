"""CDT: Zooming-TS against plain loops."""

import math
from typing import Any

import numpy as np
import pytest

from syndicated import CDT, InputError, Space
from syndicated.streams import NOISE, TUNER, Stream
from syndicated.types import Choice

LINE = Space(alpha=np.geomspace(0.01, 10, 21))
T = 4000


def _reward(choice: Choice, t: int) -> float:
    peak = 1 - abs(choice.index[0] - 15) / 20
    return float(0.2 + 0.6 * peak + 0.05 * Stream(1, NOISE, t).normals(1)[0])


class Plain:
    """The algorithm on 21 places of [0, 1]."""

    def __init__(self, tau0: float) -> None:
        self.n, self.sums, self.dropped, self.tau0 = [0] * 21, [0.0] * 21, [False] * 21, tau0

    def r(self, v: int) -> float:
        return self.tau0 * math.sqrt(13 * math.log(T) / (2 * self.n[v]))

    def active(self) -> list[int]:
        return [v for v in range(21) if self.n[v] and not self.dropped[v]]

    def uncovered(self) -> list[int]:
        free = [u for u in range(21) if not self.dropped[u]]
        return [u for u in free if all(abs(u - v) / 20 > self.r(v) + 1e-12 for v in self.active())]

    def sample(self, z: list[float]) -> int:
        def index(v: int) -> float:
            s = math.sqrt(52 * math.pi * self.tau0**2 * math.log(T) / self.n[v])
            return self.sums[v] / self.n[v] + s * max(1 / math.sqrt(2 * math.pi), z[v])

        return max(self.active(), key=index)

    def learn(self, i: int, reward: float) -> None:
        self.n[i] += 1
        self.sums[i] += reward
        worse = []
        for u in self.active():
            for v in self.active():
                if self.sums[v] / self.n[v] - self.sums[u] / self.n[u] > self.r(v) + 2 * self.r(u):
                    worse.append(u)
        for u in set(worse):
            for w in range(21):
                self.dropped[w] |= w == u or (not self.n[w] and abs(w - u) / 20 <= self.r(u) + 1e-12)


def test_it_plays_what_plain_loops_play_and_zooms_in() -> None:
    tuner, plain = CDT(LINE, horizon=T, tau0=0.05), Plain(0.05)
    for t in range(1500):
        choice = tuner.choose(Stream(1, TUNER, t))
        fresh = plain.uncovered()
        assert tuner.uncovered().tolist() == fresh
        if fresh:
            assert choice.index[0] in fresh
        else:
            assert choice.index[0] == plain.sample(Stream(1, TUNER, t).normals(21).tolist())
        tuner.learn(choice, _reward(choice, t))
        plain.learn(choice.index[0], _reward(choice, t))
    assert tuner.dropped.tolist() == plain.dropped
    assert any(plain.dropped)
    assert abs(tuner.n.argmax() - 15) <= 2


def test_stated_probabilities_are_the_frequencies_of_draws() -> None:
    tuner, n = CDT(Space(alpha=[1, 2, 3]), tau0=0.1), 4000
    tuner.n[:], tuner.sums[:] = [40, 30, 50], [20.0, 16.0, 26.0]
    counts = np.bincount([tuner.choose(Stream(2, TUNER, t)).index[0] for t in range(n)], minlength=3) / n
    p = tuner.probabilities()[0]
    assert (abs(counts - p) < 4.5 * np.sqrt(p * (1 - p) / n) + 0.005).all()


def test_it_begins_again_after_an_epoch() -> None:
    tuner = CDT(LINE, horizon=T, epoch=50)
    for t in range(49):
        tuner.learn(tuner.choose(Stream(1, TUNER, t)), 0.5)
    assert tuner.n.sum() == 49
    tuner.learn(tuner.choose(Stream(1, TUNER, 49)), 0.5)
    assert tuner.n.sum() == 0
    assert len(tuner.uncovered()) == 21


def test_as_released_it_draws_nothing_and_drops_nothing() -> None:
    tuner = CDT(Space(alpha=[1, 2]), released=True, tau0=0.01)
    for t in range(400):
        choice = tuner.choose(Stream(1, TUNER, t))
        if not len(tuner.uncovered()):
            index = tuner.sums / tuner.n + math.sqrt(13) * 0.01 / np.sqrt(tuner.n)
            assert choice.index[0] == index.argmax()
            assert tuner.probabilities()[0].tolist() == (np.arange(2) == index.argmax()).tolist()
        tuner.learn(choice, float(choice.index[0]))
    assert not tuner.dropped.any()
    assert tuner.n[1] > 390


@pytest.mark.parametrize("wrong", [{"tau0": 0.0}, {"epoch": 0}, {"released": "yes"}])
def test_arguments_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(wrong))} must be"):
        CDT(LINE, **wrong)
