"""Syndicated: one EXP3 for each hyper-parameter, all fed with the same reward (Algorithm 2 of the paper).

    for every axis l:  draw i(l) from p(l);   play with all the drawn values, see reward y
    for every axis l:  log w_i(l) += (beta_l/n_l) y / p_i(l)

The cost of tuning adds up over axes instead of multiplying: Σ_l 2 sqrt((e - 1) n_l T log n_l). What the paper's
proof shows is this bound for each axis given the others, not against the best joint point: see docs/paper.md.

Ding et al., *Syndicated bandits: a framework for auto tuning hyper-parameters in contextual bandit algorithms*,
NeurIPS 2022.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from syndicated.streams import Stream
from syndicated.tuners._exp3 import credit, draw, probabilities, rate
from syndicated.tuners.base import Adaptive
from syndicated.types import Array, Choice, Params


@dataclass(eq=False)
class Syndicated(Adaptive):
    """One EXP3 an axis.

    `horizon` counts choices: rounds, or epochs for a policy whose choices last an epoch. Without an end in sight,
    give the horizon that you plan with; nothing breaks after it.

    >>> from syndicated.space import Space
    >>> tuner = Syndicated(Space(alpha=[0.1, 1.0], lam=[0.1, 1.0, 10.0]), horizon=1000)
    >>> choice = tuner.choose(Stream(0, 0))
    >>> len(choice.params), [round(p, 3) for p in choice.probability]
    (2, [0.5, 0.333])
    """

    logw: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        axes = self.axes()
        ends = np.cumsum([len(axis) for axis in axes]).tolist()
        self._exp3s = [
            (axis, end - len(axis), end, rate(len(axis), self.horizon)) for axis, end in zip(axes, ends, strict=True)
        ]
        self.logw = np.zeros(sum(len(axis) for axis in axes))

    def axes(self) -> list[Sequence[Params]]:
        return [[{name: value} for value in values] for name, values in self.space.axes.items()]

    def probabilities(self) -> list[Array]:
        return [probabilities(self.logw[start:end], beta) for _, start, end, beta in self._exp3s]

    def choose(self, rng: Stream) -> Choice:
        params: dict[str, float] = {}
        index: list[int] = []
        probability: list[float] = []
        uniforms = rng.uniforms(len(self._exp3s)).tolist()
        for (axis, start, end, beta), u in zip(self._exp3s, uniforms, strict=True):
            i, p = draw(self.logw, start, end, beta, u)
            params |= axis[i]
            index.append(i)
            probability.append(p)
        return Choice(params, tuple(index), tuple(probability))

    def learn(self, choice: Choice, reward: float, share: float = 1.0) -> None:
        y = share * self.rescale(reward)
        drawn = zip(self._exp3s, choice.index, choice.probability, strict=True)
        for (axis, start, end, beta), i, p in drawn:
            credit(self.logw, start, end, i, beta / len(axis) * y / p)
