"""The layers of TwoLayer and Syndicated: each against plain loops, and the shared checks with each."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from syndicated import Agent, InputError, LinUCB, Space, Syndicated, TwoLayer
from syndicated._statefile import pack, unpack
from syndicated.checks import TUNER_CHECKS
from syndicated.streams import TUNER, Stream
from syndicated.tuners._layers import LAYERS, tsallis
from syndicated.types import Array

SPACE = Space(alpha=[0.1, 1.0, 2.0, 4.0])
N, T = 4, 300
WHERE_ORDER_MATTERS = {"late_rewards_count_the_same", "shares_of_a_reward_add_up"}
OTHERS = [name for name in LAYERS if name != "EXP3"]


class _Exp3S:
    """Figure 5 of Auer et al. 2002 with alpha = 1/T and the gamma of corollary 8.2."""

    def __init__(self) -> None:
        self.w = [1.0] * N
        self.gamma = min(1.0, math.sqrt(N * math.log(N * T) / T))

    def p(self) -> list[float]:
        return [(1 - self.gamma) * w / sum(self.w) + self.gamma / N for w in self.w]

    def learn(self, i: int, y: float) -> None:
        p, total = self.p(), sum(self.w)
        for j in range(N):
            estimate = y / p[j] if j == i else 0.0
            self.w[j] = self.w[j] * math.exp(self.gamma * estimate / N) + math.e / T / N * total


class _Losses:
    """Sums of losses over p + gamma, and p from them at every round t."""

    def __init__(self, gamma: float, p: Callable[[list[float], int], list[float]]) -> None:
        self.L, self.t, self.gamma, self._p = [0.0] * N, 1, gamma, p

    def p(self) -> list[float]:
        return self._p(self.L, self.t)

    def learn(self, i: int, y: float) -> None:
        self.L[i] += (1 - y) / (self.p()[i] + self.gamma)
        self.t += 1


def _weights(L: list[float], eta: float) -> list[float]:
    w = [math.exp(-eta * loss) for loss in L]
    return [each / sum(w) for each in w]


def _tsallis(L: list[float], t: int) -> list[float]:
    """x by bisection."""
    eta = 2 / math.sqrt(t)
    low, high = min(L) - 4 * math.sqrt(N) / eta, min(L)
    for _ in range(200):
        x = (low + high) / 2
        if sum(4 / (eta * (loss - x)) ** 2 for loss in L if loss > x) > 1:
            high = x
        else:
            low = x
    return [4 / (eta * (loss - low)) ** 2 for loss in L]


ETA_IX = math.sqrt(2 * math.log(N) / (N * T))
PLAIN: dict[str, Callable[[], _Exp3S | _Losses]] = {
    "EXP3.S": _Exp3S,
    "EXP3-IX": lambda: _Losses(ETA_IX / 2, lambda L, t: _weights(L, ETA_IX)),
    "EXP3-anytime": lambda: _Losses(0.0, lambda L, t: _weights(L, math.sqrt(math.log(N) / (N * t)))),
    "Tsallis-INF": lambda: _Losses(0.0, _tsallis),
}


@pytest.mark.parametrize("layer", OTHERS)
def test_a_layer_is_its_plain_loop(layer: str) -> None:
    tuner, plain = TwoLayer(SPACE, horizon=T, layer=layer), PLAIN[layer]()
    for t in range(T):
        choice = tuner.choose(Stream(1, TUNER, t))
        np.testing.assert_allclose(tuner.probabilities()[0], plain.p(), rtol=1e-9)
        assert choice.probability[0] == pytest.approx(plain.p()[choice.index[0]], rel=1e-9)
        y = 0.9 - 0.2 * choice.index[0]
        tuner.learn(choice, y)
        plain.learn(choice.index[0], y)
    assert tuner.probabilities()[0].argmax() == 0


@pytest.mark.no_cover
@pytest.mark.parametrize("layer", OTHERS)
@pytest.mark.parametrize("check", TUNER_CHECKS, ids=lambda check: check.__name__)
def test_the_checks_of_tuners_hold_with_every_layer(layer: str, check: Callable[[object], None]) -> None:
    if layer != "EXP3.S" or check.__name__ not in WHERE_ORDER_MATTERS:  # as its docstring says
        check(partial(Syndicated, layer=layer))


@pytest.mark.parametrize("losses", [[0.0] * 3, [0.0, 1e9, 1e9], [5.0, 5.0 + 1e-9, 900.0], [-3.0], [0.0, 0.1] * 50])
def test_the_newton_steps_of_tsallis_inf_end_where_probabilities_sum_to_1(losses: list[float]) -> None:
    eta = 0.3
    p = tsallis(np.array(losses), eta)
    assert p.sum() == pytest.approx(1.0, rel=1e-14)
    x = np.array(losses) - 2 / (eta * np.sqrt(p))  # the same x for all, as far as the numbers go
    assert np.ptp(x) <= 1e-7 * (1 + np.abs(losses).max())


def test_exp3s_comes_back_to_a_candidate_that_was_bad() -> None:
    def late(layer: str) -> float:
        tuner = TwoLayer(Space(alpha=[0, 1]), horizon=2000, layer=layer)
        for t in range(2000):
            choice = tuner.choose(Stream(3, TUNER, t))
            tuner.learn(choice, float(choice.index[0] == (t > 1200)))
        return float(tuner.probabilities()[0][1])

    assert late("EXP3.S") > 0.9
    assert late("EXP3.S") > late("EXP3") + 0.2


def test_a_layer_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match=r"layer must be one of EXP3, .*; got 'EXP4'"):
        Syndicated(SPACE, layer="EXP4")


def _played(agent: Agent) -> Array:
    for t in range(20):
        decision = agent.decide(Stream(1, 1, t).uniforms(10).reshape(5, 2))
        agent.learn(decision, 0.3)
    return agent.tuner.probabilities()[0]


def test_a_state_of_before_there_were_layers_opens() -> None:
    agent, twin = (Agent(LinUCB(dim=2), TwoLayer(SPACE), seed=1) for _ in range(2))
    p = _played(agent)
    head, arrays = unpack(agent.state())
    del head["spec"]["tuner"]["layer"]
    twin.restore(pack(head, arrays))
    assert twin.tuner.probabilities()[0].tolist() == p.tolist()
    assert twin.state() == agent.state()
