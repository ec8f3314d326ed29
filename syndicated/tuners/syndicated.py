"""Syndicated: one EXP3 for each hyper-parameter, all fed with the same reward (Algorithm 2 of the paper).

    for every axis l:  draw i(l) from p(l);   play with all the drawn values, see reward y
    for every axis l:  log w_i(l) += (beta_l/n_l) y / p_i(l)

The cost of tuning adds up over axes instead of multiplying: Σ_l 2 sqrt((e - 1) n_l T log n_l). What the paper's proof
shows is this bound for each axis given the others, not against the best joint point: see docs/paper.md. One shared
model; a choice costs O(Σ n_l); needs T, unless another layer takes EXP3's place.

Ding et al., *Syndicated bandits: a framework for auto tuning hyper-parameters in contextual bandit algorithms*,
NeurIPS 2022.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from syndicated._validation import shorten
from syndicated.errors import InputError
from syndicated.streams import Stream
from syndicated.tuners._layers import LAYERS
from syndicated.tuners.base import Adaptive
from syndicated.types import Array, Choice, Params


@dataclass(eq=False)
class Syndicated(Adaptive):
    """One EXP3 an axis.

    `horizon` counts choices: rounds, or epochs for a policy whose choices last an epoch. Without an end in sight,
    give the horizon that you plan with; nothing breaks after it. The model is shared; a choice costs O(Σ n_l).

    `layer` puts another bandit in EXP3's place: "EXP3-IX", "EXP3.S" for a best candidate that changes, or
    "EXP3-anytime" and "Tsallis-INF", which need no horizon.

    >>> from syndicated.space import Space
    >>> tuner = Syndicated(Space(alpha=[0.1, 1.0], lam=[0.1, 1.0, 10.0]), horizon=1000)
    >>> choice = tuner.choose(Stream(0, 0))
    >>> len(choice.params), [round(p, 3) for p in choice.probability]
    (2, [0.5, 0.333])
    """

    layer: str = "EXP3"
    logw: Array = field(init=False, repr=False)  # what the layers keep, axis after axis: log weights for EXP3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layer not in LAYERS:
            raise InputError(f"layer must be one of {', '.join(LAYERS)}; got {shorten(self.layer)}")
        self._layers = []
        end = 0
        for axis in self.axes():
            layer = LAYERS[self.layer](len(axis), self.horizon)
            start, end = end, end + layer.size
            self._layers.append((axis, layer, slice(start, end)))
        self.logw = np.zeros(end)

    def axes(self) -> list[Sequence[Params]]:
        return [[{name: value} for value in values] for name, values in self.space.axes.items()]

    def probabilities(self) -> list[Array]:
        return [layer.probabilities(self.logw[own]) for _, layer, own in self._layers]

    def choose(self, rng: Stream) -> Choice:
        params: dict[str, float] = {}
        index: list[int] = []
        probability: list[float] = []
        uniforms = rng.uniforms(len(self._layers)).tolist()
        for (axis, layer, own), u in zip(self._layers, uniforms, strict=True):
            i, p = layer.draw(self.logw[own], u)
            params |= axis[i]
            index.append(i)
            probability.append(p)
        return Choice(params, tuple(index), tuple(probability))

    def choose_many(self, rng: Stream, periods: int) -> list[Choice]:
        uniforms = np.ascontiguousarray(rng.uniforms_of_rounds(periods, len(self._layers)).T)
        drawn = [layer.draw_many(self.logw[own], u) for (_, layer, own), u in zip(self._layers, uniforms, strict=True)]
        choices: dict[tuple[tuple[int, float], ...], Choice] = {}
        for pairs in dict.fromkeys(zip(*drawn, strict=True)):
            index, probability = zip(*pairs, strict=True)
            choices[pairs] = Choice(self._point(index), index, probability)
        return [choices[pairs] for pairs in zip(*drawn, strict=True)]

    def learn(self, choice: Choice, reward: float, share: float = 1.0) -> None:
        y = self.rescale(reward)
        for (_, layer, own), i, p in zip(self._layers, choice.index, choice.probability, strict=True):
            layer.credit(self.logw[own], i, p, y, share)

    def learn_many(self, choices: Sequence[Choice], rewards: Array, shares: Array) -> None:
        y = np.array([self.rescale(reward) for reward in rewards.tolist()])
        shape = len(choices), len(self._layers)
        indices = np.array([choice.index for choice in choices], dtype=np.int64).reshape(shape).T.copy()
        p = np.array([choice.probability for choice in choices], dtype=np.float64).reshape(shape).T.copy()
        for (_, layer, own), i, drawn in zip(self._layers, indices, p, strict=True):
            layer.credit_many(self.logw[own], i, drawn, y, shares)
