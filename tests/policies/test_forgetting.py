"""LinUCB that forgets: D-LinUCB and SW-LinUCB against plain loops, and as LinUCB where they forget nothing."""

import math

import numpy as np
import pytest

from syndicated import DLinUCB, InputError, LinUCB, SWLinUCB
from syndicated._models.forgetting import REFRESH_ROUNDS
from syndicated.policies import Policy
from syndicated.streams import POLICY, Stream
from syndicated.types import Array

UNUSED = Stream(0, POLICY)


def data(n: int) -> tuple[Array, Array]:
    random = np.random.default_rng(1)
    return random.uniform(-1, 1, (n, 3)), random.uniform(0, 1, n)


def taught(policy: Policy, n: int) -> None:
    for x, reward in zip(*data(n), strict=True):
        policy.learn(x, float(reward), {})


def plain(weights: Array, lam: float, alpha: float, arms: Array) -> list[float]:
    """The scores with these weights of the observations, by loops over them."""
    X, y = data(len(weights))
    V, W, b = lam * np.eye(3), lam * np.eye(3), np.zeros(3)
    for w, x, r in zip(weights, X, y, strict=True):
        V, W, b = V + w * np.outer(x, x), W + w * w * np.outer(x, x), b + w * r * x
    inverse = np.linalg.inv(V)
    return [float(x @ inverse @ b + alpha * math.sqrt(x @ inverse @ W @ inverse @ x)) for x in arms]


@pytest.mark.parametrize("gamma", [0.9, 0.99, 1.0])
def test_d_linucb_discounts_by_age_and_its_widths_twice(gamma: float) -> None:
    policy, arms = DLinUCB(dim=3, intercept=False), data(5)[0]
    policy.prepare([{"gamma": gamma}])
    taught(policy, 60)
    weights = np.array([gamma ** (59 - s) for s in range(60)])
    for lam in (0.1, 2.0):
        scores = policy.scores(arms, [{"alpha": 0.7, "lam": lam, "gamma": gamma}], UNUSED)[0]
        np.testing.assert_allclose(scores, plain(weights, lam, 0.7, arms), rtol=1e-9)


@pytest.mark.parametrize("n", [3, 60, REFRESH_ROUNDS + 5])
@pytest.mark.parametrize("window", [1, 20, 50])
def test_sw_linucb_knows_the_last_ones_only(window: int, n: int) -> None:
    policy, arms = SWLinUCB(dim=3, intercept=False, horizon=10, variation=1.0), data(5)[0]
    policy.prepare([{"window": window}, {"window": 50}])
    taught(policy, n)
    weights = np.array([float(s >= n - window) for s in range(n)])
    scores = policy.scores(arms, [{"alpha": 0.7, "lam": 0.5, "window": window}], UNUSED)[0]
    np.testing.assert_allclose(scores, plain(weights, 0.5, 0.7, arms), rtol=1e-7)


def test_without_forgetting_both_are_linucb() -> None:
    linucb, arms = LinUCB(dim=3), data(5)[0]
    taught(linucb, 60)
    expected = linucb.scores(arms, [{"alpha": 0.7, "lam": 0.5}], UNUSED)
    for policy, point in ((DLinUCB(dim=3), {"gamma": 1.0}), (SWLinUCB(dim=3), {"window": 1000.0})):
        policy.prepare([point])
        taught(policy, 60)
        np.testing.assert_allclose(policy.scores(arms, [{"alpha": 0.7, "lam": 0.5, **point}], UNUSED), expected)


def test_their_theoretical_values() -> None:
    discount = DLinUCB(dim=4, intercept=False, horizon=1000, variation=5.0, sigma=0.3, delta=0.2, S=2.0, L=1.5)
    gamma = 1 - (5 / 4000) ** (2 / 3)
    inner = 1 + 1.5**2 * (1 - gamma**200) / (4 * 0.5 * (1 - gamma**2))
    alpha = math.sqrt(0.5) * 2 + 0.3 * math.sqrt(2 * math.log(5) + 4 * math.log(inner))
    assert discount.theory(100, {"lam": 0.5}) == pytest.approx({"gamma": gamma, "lam": 0.5, "alpha": alpha})
    window = SWLinUCB(dim=4, intercept=False, horizon=1000, variation=5.0, sigma=0.3, delta=0.2, S=2.0, L=1.5)
    w = math.ceil(800 ** (2 / 3))
    alpha = 0.3 * math.sqrt(4 * math.log((1 + w * 1.5**2 / 0.5) / 0.2)) + 2 * math.sqrt(0.5)
    assert window.theory(100, {"lam": 0.5}) == pytest.approx({"window": w, "lam": 0.5, "alpha": alpha})


@pytest.mark.parametrize("make", [DLinUCB, SWLinUCB])
def test_boldness_counts_the_noise_that_one_step_errors_show(make: type[DLinUCB]) -> None:
    policy = make(dim=3, intercept=False)
    assert policy.theory(0, {"boldness": 2.0})["alpha"] == 2.0
    rate = policy.rate() if make is DLinUCB else 1 - 1 / policy.rate()
    errors = count = 0.0
    X, y = data(40)
    for n in range(40):
        kept = np.array([policy.rate() ** (n - 1 - s) if make is DLinUCB else 1.0 for s in range(n)])
        V = np.eye(3) + (X[:n].T * kept) @ X[:n]
        error = y[n] - X[n] @ np.linalg.solve(V, (X[:n].T * kept) @ y[:n])
        errors = rate * errors + error**2 / (1 + X[n] @ np.linalg.solve(V, X[n]))
        count = rate * count + 1
    taught(policy, 40)
    assert policy.theory(0, {"boldness": 2.0})["alpha"] == pytest.approx(2 * math.sqrt(errors / count))


def test_what_was_not_prepared_is_refused() -> None:
    discount, window = DLinUCB(dim=3), SWLinUCB(dim=3, horizon=10)
    with pytest.raises(InputError, match="a gamma must be kept from the first round on"):
        discount.predict(data(2)[0], {"gamma": 0.5, "lam": 1.0})
    taught(window, 60)
    with pytest.raises(InputError, match="a window must be at most 12, the longest that was prepared; got 50"):
        window.predict(data(2)[0], {"window": 50, "lam": 1.0})
    with pytest.raises(InputError, match=r"window must be a whole number; got 2\.5"):
        window.check({"window": 2.5})
