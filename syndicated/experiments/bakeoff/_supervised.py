"""A logistic regression of many classes, fitted to all rows: the upper reference."""

import numpy as np

from syndicated.types import Array, Ints

PENALTY = 1.0
MAX_STEPS = 50  # of a fit, which starts from the last one


class SoftmaxFit:
    """P(class k | x) is proportional to exp(theta_k' [1, x]); the penalty is theta' theta / 2, without the intercepts.

    >>> fit = SoftmaxFit(columns=1, classes=2)
    >>> fit.fit(np.array([[-1.0], [-2.0], [1.0], [2.0]]), np.array([0, 0, 1, 1]))
    >>> fit.predict(np.array([3.0])), fit.predict(np.array([-3.0])), fit.rows
    (1, 0, 4)
    """

    def __init__(self, columns: int, classes: int) -> None:
        self.theta = np.zeros((classes, 1 + columns))
        self.rows = 0

    def predict(self, x: Array) -> int:
        return int(np.argmax(self.theta[:, 0] + self.theta[:, 1:] @ x))

    def fit(self, x: Array, labels: Ints) -> None:
        from scipy.optimize import minimize

        table = np.hstack([np.ones((len(x), 1)), x])
        hot = (labels[:, None] == np.arange(len(self.theta))).astype(np.float64)
        how = {"method": "L-BFGS-B", "jac": True, "options": {"maxiter": MAX_STEPS}}
        self.theta = minimize(_loss, self.theta.ravel(), (table, hot), **how).x.reshape(self.theta.shape)
        self.rows = len(x)


def _loss(flat: Array, table: Array, hot: Array) -> tuple[float, Array]:
    """The penalised negative log-likelihood and its gradient."""
    theta = flat.reshape(hot.shape[1], -1)
    logits = table @ theta.T
    logits -= logits.max(axis=1, keepdims=True)
    weights = np.exp(logits)
    totals = weights.sum(axis=1, keepdims=True)
    shrunk = PENALTY * theta
    shrunk[:, 0] = 0.0
    value = np.log(totals).sum() - (logits * hot).sum() + (shrunk * theta).sum() / 2
    gradient = (weights / totals - hot).T @ table + shrunk
    return float(value), gradient.ravel()
