"""What the rewards say of the parameters of arms, apart from any prior: it can be seen under another scale or prior."""

from typing import NamedTuple

import numpy as np

from syndicated.types import Array, Ints


def seen_by_common(prior: Array, covariances: Array, own: Array) -> Array:
    """The precision and, in the last column, the shift that each arm's rewards put on what all arms share."""
    precisions = np.diag(1 / prior) - covariances / np.multiply.outer(prior, prior)
    return np.concatenate([precisions, (own / prior)[..., None]], axis=-1)


class Information(NamedTuple):
    """The precisions and shifts of the arms' rewards, and what retired arms leave on the shared parameters."""

    arms: Ints
    precisions: Array
    shifts: Array
    retired: Array

    def seen_from(self, center: Array, weight: Array, new_center: Array, new_weight: Array) -> "Information":
        """The same in another scale of features: z becomes Q'z."""
        Q = np.diag(np.append(1.0, np.divide(new_weight, weight, where=weight > 0, out=np.zeros_like(weight))))
        Q[0, 1:] = -new_weight * (new_center - center)
        retired = self.retired
        if retired.size:
            retired = np.column_stack([Q.T @ retired[:, :-1] @ Q, Q.T @ retired[:, -1]])
        return Information(self.arms, Q.T @ self.precisions @ Q, self.shifts @ Q, retired)

    def solve(self, prior: Array) -> tuple[Array, Array]:
        """The covariances and the means of the arms' own parameters, given the shared ones."""
        covariances = np.asarray(np.linalg.inv(self.precisions + np.diag(1 / prior)), dtype=np.float64)
        return covariances, np.einsum("kij,kj->ki", covariances, self.shifts)

    def solve_common(self, prior: Array, common_prior: Array, covariances: Array, own: Array) -> tuple[Array, Array]:
        """The covariance and the mean of the shared parameters, of what `solve` gives under the same prior."""
        return _solved(self._seen(prior, covariances, own), common_prior)

    def log_evidence(self, prior: Array, common_prior: Array, level: float, noise: float) -> float:
        """How likely the rewards are under these priors, but for what is the same under any."""
        centred = self._replace(
            shifts=(self.shifts - level * self.precisions[:, :, 0]) / noise,
            retired=np.column_stack([self.retired[:, :-1], (self.retired[:, -1] - level * self.retired[:, 0]) / noise]),
        )
        covariances, own = centred.solve(prior)
        seen = centred._seen(prior, covariances, own)
        covariance, common = _solved(seen, common_prior)
        fits = np.sum(own * centred.shifts) + common @ seen[:, -1]
        volumes = np.linalg.slogdet(covariances / prior)[1].sum() + np.linalg.slogdet(covariance / common_prior)[1]
        return 0.5 * float(fits + volumes)

    def _seen(self, prior: Array, covariances: Array, own: Array) -> Array:
        return np.asarray(seen_by_common(prior, covariances, own).sum(axis=0) + self.retired)


def _solved(seen: Array, prior: Array) -> tuple[Array, Array]:
    """The covariance and the mean of what was seen, a precision and a shift."""
    covariance: Array = np.asarray(np.linalg.inv(seen[:, :-1] + np.diag(1 / prior)), dtype=np.float64)
    return covariance, covariance @ seen[:, -1]
