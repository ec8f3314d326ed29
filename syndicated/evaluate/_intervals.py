"""Intervals of means that count what was not seen: empirical likelihood, with one round more than there were.

The upper end is the largest mean that reweighted rounds can have without becoming too unlikely. To the n rounds the
best that could have happened is added, so that a log without a single success still says how rare successes may be:

    high = max Σ p_i v_i    over p with  -Σ log((n + 1) p_i) <= z²/2,    v_0 = the best possible value
    p_i is proportional to 1/(g - v_i): one number g > max v is left to be found

and the lower end likewise, with the worst. Of n rounds without an event of weight M the upper end of 95 % is 4.4 M/n,
where the exact one is 3.7 M/n; of many events the interval is the normal one.

Owen, *Empirical Likelihood*, Chapman & Hall 2001. Karampatziakis, Langford and Mineiro, *Empirical likelihood for
contextual bandits*, NeurIPS 2020. Chen, Variyath and Abraham, *Adjusted empirical likelihood and its properties*,
Journal of Computational and Graphical Statistics 2008.
"""

import math

import numpy as np

from syndicated import _special
from syndicated.types import Array

LEAST_LOG_GAP = -60.0  # of g from max v, in units of the spread: less likely than any confidence asks for


def quantile(confidence: float) -> float:
    """How many standard errors a normal interval extends to either side."""
    return float(_special.ndtri(0.5 + confidence / 2))


def interval(values: Array, worst: float, best: float, confidence: float) -> tuple[float, float]:
    """The ends of the interval of a mean, if a value may be anything from `worst` to `best`.

    >>> low, high = interval(np.zeros(1000), 0.0, 1.0, 0.95)
    >>> low, round(high, 4)
    (0.0, 0.0044)
    """
    limit = quantile(confidence) ** 2 / 2
    return -_upper_end(np.append(-values, -worst), limit), _upper_end(np.append(values, best), limit)


def _upper_end(values: Array, limit: float) -> float:
    from scipy.optimize import brentq  # as late as the rest of SciPy: see _special

    top, n = values.max(), len(values)
    spread = float(top - values.min())
    if not spread > 0.0:
        return float(top)
    below = (values - top) / spread

    def excess(log_gap: float) -> float:
        gaps = math.exp(log_gap) - below
        return float(np.log(gaps).sum() + n * math.log((1.0 / gaps).mean())) - limit

    log_gap = brentq(excess, LEAST_LOG_GAP, 0.5 * math.log(n) + 4.0, xtol=1e-9)
    p = 1.0 / (math.exp(log_gap) - below)
    return float(top + spread * (p @ below) / p.sum())
