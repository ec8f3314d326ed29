"""A network with one output, its gradients, and its training, as NeuralUCB has them.

    f(x) = sqrt(m) W_L relu(W_(L-1) ... relu(W_1 u)),   u = (x, x)/sqrt(2)

W_1 to W_(L-1) start as two equal blocks with entries N(0, 4/m), and W_L as (w, -w) with entries N(0, 2/m), so that f is
0 at first. m is even: `width` is that of a block. Training minimises

    ½ Σ (f(x) - y)² + (m lam/2) |W - W_start|²

by `steps` steps of gradient descent from the start. `eta` is in units of one over the largest curvature that the start
shows, Σ |grad f|² + m lam; a step that would raise the loss is halved instead, and so are all after it.
"""

import math
from copy import copy
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from syndicated.streams import WEIGHTS, Stream
from syndicated.types import Array

RETRAIN_GROWTH = 1.3  # of the count of observations, until the network is trained again
CALL_WORK = 8_000  # gradients that could be computed in the time that a call takes which computes none


class Settings(NamedTuple):
    """What a network is trained with."""

    lam: float
    eta: float
    steps: int
    width: int
    depth: int

    @property
    def units(self) -> int:
        """m."""
        return 2 * self.width

    def shapes(self, size: int) -> list[tuple[int, int]]:
        """The shape of every layer."""
        ends = [2 * size, *[self.units] * (self.depth - 1), 1]
        return [(after, before) for before, after in pairwise(ends)]

    def work(self, size: int, rows: int) -> int:
        """What it takes to evaluate so many rows of this size, in gradients by a weight."""
        return CALL_WORK + rows * sum(after * before for after, before in self.shapes(size))

    def start(self, size: int) -> Array:
        """The first weights, one layer after the other; the same for everyone."""
        parts, m = [], self.units
        for layer, (after, before) in enumerate(self.shapes(size)):
            last = layer == self.depth - 1
            half = Stream(0, WEIGHTS, layer).normals((1 if last else after // 2) * (before // 2))
            block = half.reshape(-1, before // 2)
            zero = np.zeros_like(block)
            W = np.hstack([block, -block]) if last else np.block([[block, zero], [zero, block]])
            parts.append((math.sqrt((2 if last else 4) / m) * W).ravel())
        return np.concatenate(parts)


class Network:
    """A network that follows the data: it is trained at times that grow by `RETRAIN_GROWTH`.

    `Z` is the diagonal of lam I + Σ g g'/m, with g the gradient at each observation before it was learned. Rewards are
    counted from their mean, the level, and if they are `scaled`, in their standard deviation, both as of the training.
    """

    def __init__(self, settings: Settings, size: int, scaled: bool = False) -> None:
        self.settings, self.size, self.scaled, self.unit = settings, size, scaled, 1.0
        self.first = settings.start(size)
        self.weights, self.Z, self.level = self.first, np.full(len(self.first), settings.lam), 0.0
        self.count, self.due = 0, 1

    def follow(self, X: Array, y: Array, work: float = math.inf) -> None:
        """Learn what the data have more than what was learned; what would be too much work is left for later.

        Work is counted in gradients by a weight.
        """
        while self.count < len(y) and (work := work - self._next_work()) >= 0:
            _, g = self.evaluate(X[self.count : self.count + 1])
            self.Z = self.Z + g[0] ** 2 / self.settings.units
            self.count += 1
            if self.count == self.due:
                self.train(X[: self.count], y[: self.count])
                self.due = max(self.count + 1, math.ceil(RETRAIN_GROWTH * self.count))

    def _next_work(self) -> int:
        """What the next observation takes, with the training that is due at it."""
        seen, work = self.count + 1, self.settings.work
        training = (self.settings.steps + 1) * work(self.size, seen) if seen == self.due else 0
        return work(self.size, 1) + training

    def copy(self) -> "Network":
        """The same network, to be trained apart from this one: no array is ever changed in place."""
        return copy(self)

    def evaluate(self, X: Array) -> tuple[Array, Array]:
        """f of every row in the unit of rewards, and its gradient."""
        return evaluate(self._layers(self.weights), X)

    def means(self, X: Array) -> Array:
        """What the rewards of rows are above the level."""
        return self.unit * outputs(self._layers(self.weights), X)[0]

    def squares(self, g: Array) -> Array:
        """g'Z⁻¹g/m of every row."""
        return np.asarray((g**2 / self.Z).sum(axis=1) / self.settings.units)

    def train(self, X: Array, y: Array) -> None:
        """Gradients take memory by each weight at each row: of all arrays of that size there is one at a time."""
        self.level, penalty = float(y.mean()), self.settings.units * self.settings.lam
        self.unit = (float(y.std()) or 1.0) if self.scaled else 1.0
        weights, target = self.first, (y - self.level) / self.unit
        f, g = evaluate(self._layers(weights), X)
        slope = (f - target) @ g
        step = self.settings.eta / (float(np.square(g, out=g).sum()) + penalty)
        del g
        loss = 0.5 * float(((f - target) ** 2).sum())
        for _ in range(self.settings.steps):
            moved = weights - step * (slope + penalty * (weights - self.first))
            layers = self._layers(moved)
            f, inputs = outputs(layers, X)
            lower = 0.5 * float(((f - target) ** 2).sum() + penalty * ((moved - self.first) ** 2).sum())
            if lower <= loss:
                weights, slope, loss = moved, (f - target) @ gradients(layers, inputs), lower
            else:
                step /= 2
        self.weights = weights

    def _layers(self, weights: Array) -> list[Array]:
        layers, begun = [], 0
        for after, before in self.settings.shapes(self.size):
            layers.append(weights[begun : begun + after * before].reshape(after, before))
            begun += after * before
        return layers


def evaluate(layers: list[Array], X: Array) -> tuple[Array, Array]:
    """f of every row, and its gradient by all weights, layer after layer."""
    f, inputs = outputs(layers, X)
    return f, gradients(layers, inputs)


def outputs(layers: list[Array], X: Array) -> tuple[Array, list[Array]]:
    """f of every row, and what comes into each layer."""
    inputs = [np.hstack([X, X]) / math.sqrt(2)]
    for W in layers[:-1]:
        inputs.append(np.maximum(inputs[-1] @ W.T, 0.0))
    return _root(layers) * (inputs[-1] @ layers[-1][0]), inputs


def gradients(layers: list[Array], inputs: list[Array]) -> Array:
    """The gradient of f by all weights."""
    rows, end = len(inputs[0]), sum(W.size for W in layers)
    back, found = np.full((rows, 1), _root(layers)), np.empty((rows, end))
    for W, before in zip(reversed(layers), reversed(inputs), strict=True):
        own = found[:, end - W.size : end].reshape(rows, *W.shape)  # a view
        np.multiply(back[:, :, None], before[:, None, :], out=own)
        back, end = (back @ W) * (before > 0), end - W.size
    return found


def _root(layers: list[Array]) -> float:
    return math.sqrt(layers[0].shape[0]) if len(layers) > 1 else 1.0
