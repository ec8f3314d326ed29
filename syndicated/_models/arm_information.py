"""What the rewards say of the parameters of arms, apart from any prior: it can be seen under another scale or prior.

What is known of D parameters is a precision and, in the last column, a shift: D rows and D + 1 columns.
"""

from typing import NamedTuple

import numpy as np

from syndicated.types import Array


class Change(NamedTuple):
    """Of the scale of features: a row z becomes `stretch` z + `moved` z[0]."""

    stretch: Array
    moved: Array

    @classmethod
    def of(cls, center: Array, weight: Array, new_center: Array, new_weight: Array) -> "Change":
        stretch = np.divide(new_weight, weight, where=weight > 0, out=np.zeros_like(weight))
        return cls(np.append(1.0, stretch), np.append(0.0, new_weight * (center - new_center)))

    def seen(self, known: Array) -> Array:
        """What is known, in the new scale."""
        precisions = known[..., :-1] * self.stretch + known[..., :1] * self.moved
        half = _with_shifts(precisions, known[..., -1:])
        return half * self.stretch[:, None] + half[..., :1, :] * self.moved[:, None]


def known_of(prior: Array, covariances: Array, own: Array) -> Array:
    """What the rewards of each arm say of its own parameters, given the shared ones."""
    precisions = np.asarray(np.linalg.inv(covariances), dtype=np.float64)
    return _with_shifts(precisions - np.diag(1 / prior), precisions @ own[..., None])


def seen_by_common(prior: Array, covariances: Array, own: Array) -> Array:
    """What the rewards of these arms together say of the parameters that all arms share."""
    precision = len(own) * np.diag(1 / prior) - covariances.sum(axis=0) / np.multiply.outer(prior, prior)
    return _with_shifts(precision, (own.sum(axis=0) / prior)[:, None])


def solve(known: Array, prior: Array) -> tuple[Array, Array]:
    """The covariances and the means of what is known, with a prior."""
    covariances = np.asarray(np.linalg.inv(known[..., :-1] + np.diag(1 / prior)), dtype=np.float64)
    return covariances, (covariances @ known[..., -1:])[..., 0]


def centred(known: Array, level: float, noise: float) -> Array:
    """What is known if rewards count from the level, in units of the noise."""
    return _with_shifts(known[..., :-1], (known[..., -1:] - level * known[..., :1]) / noise)


def log_evidence(known: Array, retired: Array, prior: Array, common_prior: Array) -> float:
    """How likely the rewards of arms are under these priors, but for what is the same under any.

    `retired` is what is known of the shared parameters from arms that are gone. Both are `centred`.
    """
    covariances, own = solve(known, prior)
    seen = seen_by_common(prior, covariances, own) + retired
    covariance, common = solve(seen, common_prior)
    fits = np.sum(own * known[..., -1]) + common @ seen[:, -1]
    volumes = np.linalg.slogdet(covariances / prior)[1].sum() + np.linalg.slogdet(covariance / common_prior)[1]
    return 0.5 * float(fits + volumes)


def _with_shifts(precisions: Array, shifts: Array) -> Array:
    return np.concatenate([precisions, shifts], axis=-1)
