"""MovieLens 100K as a world: movies are arms, their factors are features, and a group of users is theta*.

The ratings are factorised once (CCD++, rank 20, penalty 0.05). theta* is the mean of 100 random users' factors. Each
round offers 1,000 of the 1,682 movies, drawn without replacement.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from syndicated import _special
from syndicated._compiled import compiled
from syndicated._files import write
from syndicated._statefile import pack, unpack
from syndicated._validation import check_count, check_number
from syndicated.datasets import movielens as data
from syndicated.datasets._factorise import factorise
from syndicated.environments.base import Environment, Round
from syndicated.errors import DataError, InputError, StateError
from syndicated.streams import ARMS, NOISE, THETA, Stream
from syndicated.types import Array, Ints

FACTORS_VERSION = 1  # raise it when a change of the code changes the factors


@dataclass(frozen=True, kw_only=True)
class MovieLens(Environment):
    """Movies as arms; `model` is "linear" (Gaussian rewards, scaled to [0, 1]) or "logistic" (Bernoulli rewards).

    Linear means are x'theta* with its least and largest value over all movies brought to 0 and 1. The authors' scripts
    take them over the movies that a run meets, which after some tens of rounds are all.

    >>> MovieLens().dim, MovieLens().arms
    (20, 1000)
    """

    dim: int = 20
    arms: int = 1_000
    model: Literal["linear", "logistic"] = "linear"
    noise: float = 1.0
    users: int = 100

    def __post_init__(self) -> None:
        for name, most in (("dim", data.USERS), ("arms", data.MOVIES), ("users", data.USERS)):
            if check_count(name, getattr(self, name)) > most:
                raise InputError(f"{name} must be at most {most}; got {getattr(self, name)}")
        check_number("noise", self.noise, low=0.0)
        if self.model not in ("linear", "logistic"):
            raise InputError(f"model must be 'linear' or 'logistic'; got {self.model!r}")

    def catalogue(self) -> Array:
        return factors(self.dim)[1]

    def rounds(self, seed: int, horizon: int) -> Iterator[Round]:
        users, movies = factors(self.dim)
        group = draw(len(users), Stream(seed, THETA).uniforms(self.users))
        means = self.means(movies @ users[group].mean(axis=0))
        for t in range(horizon):
            offered = draw(len(movies), Stream(seed, ARMS, t).uniforms(self.arms))
            yield Round(offered, means[offered], self.rewards(means[offered], Stream(seed, NOISE, t)))

    def means(self, values: Array) -> Array:
        """Mean rewards from x'theta*."""
        if self.model == "logistic":
            return np.asarray(_special.expit(values))
        scaled: Array = (values - values.min()) / (values.max() - values.min())
        return scaled

    def rewards(self, means: Array, rng: Stream) -> Array:
        """One draw of noise for all arms of a round."""
        if self.model == "logistic":
            return np.where(rng.uniforms(1)[0] < means, 1.0, 0.0)
        noisy: Array = means + self.noise * rng.normals(1)[0]
        return noisy


def factors(rank: int) -> tuple[Array, Array]:
    """The factors of users and movies, from the cache or computed into it."""
    file = data.cache() / f"movielens-100k-ccd-{FACTORS_VERSION}-{rank}.factors"
    if not file.exists():
        W, H = factorise(data.ratings(), data.USERS, data.MOVIES, rank=rank)
        write(file, pack({}, {"users": W, "movies": H}))
    try:
        _, arrays = unpack(file.read_bytes())
    except StateError:
        raise DataError(f"{file} must hold the factors whole; it is damaged, remove it to compute them again") from None
    return arrays["users"].astype(np.float64), arrays["movies"].astype(np.float64)


@compiled("i8[::1](i8, f8[::1])")
def draw(n: int, uniforms: Array) -> Ints:
    """As many different numbers below n as there are uniforms (a shuffle, stopped when they are drawn)."""
    numbers = np.arange(n)
    for i in range(len(uniforms)):
        j = i + int(uniforms[i] * (n - i))
        numbers[i], numbers[j] = numbers[j], numbers[i]
    return numbers[: len(uniforms)].copy()
