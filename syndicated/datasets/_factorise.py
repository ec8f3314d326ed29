"""CCD++: a matrix of ratings as the product of user and item features.

    minimise  Σ_(u,i rated) (r_ui - w_u'h_i)² + lam (Σ_u n_u |w_u|² + Σ_i n_i |h_i|²)

n_u and n_i count the ratings of a user and an item. One coordinate t of all features at a time is fitted to the
residual that the others leave, alternately for items and users:  h_it = Σ_u r_ui w_ut / (lam n_i + Σ_u w_ut²).

Yu, Hsieh, Si and Dhillon, *Scalable coordinate descent approaches to parallel matrix factorization for recommender
systems*, ICDM 2012. The defaults are those of its program LIBPMF: 5 sweeps, 5 inner rounds, user features started at
random, item features at 0.
"""

import numpy as np

from syndicated._compiled import compiled
from syndicated.streams import FACTORS, Stream
from syndicated.types import Array, Ints


def factorise(
    ratings: Ints,
    users: int,
    items: int,
    *,
    rank: int = 20,
    lam: float = 0.05,
    sweeps: int = 5,
    inner: int = 5,
    seed: int = 0,
) -> tuple[Array, Array]:
    """User features (users, rank) and item features (items, rank) from rows (user, item, rating)."""
    user, item = (np.ascontiguousarray(column) for column in ratings[:, :2].T)
    residual = ratings[:, 2].astype(np.float64)
    W = Stream(seed, FACTORS).uniforms(users * rank).reshape(rank, users)
    H = np.zeros((rank, items))
    by_user, by_item = _grouped(user, users), _grouped(item, items)
    for _ in range(sweeps):
        for w, h in zip(W, H, strict=True):
            _add(residual, user, item, w, h, 1.0)
            for _ in range(inner):
                _fit(h, residual, *by_item, user, w, lam)
                _fit(w, residual, *by_user, item, h, lam)
            _add(residual, user, item, w, h, -1.0)
    return np.ascontiguousarray(W.T), np.ascontiguousarray(H.T)


def _grouped(owner: Ints, owners: int) -> tuple[Ints, Ints]:
    """The ratings in the order of their owners, and where each owner's begin."""
    order = np.argsort(owner, kind="stable")
    return order, np.searchsorted(owner[order], np.arange(owners + 1))


@compiled("void(f8[::1], i8[::1], i8[::1], f8[::1], f8[::1], f8)")
def _add(residual: Array, user: Ints, item: Ints, w: Array, h: Array, sign: float) -> None:
    for n in range(len(residual)):
        residual[n] += sign * w[user[n]] * h[item[n]]


@compiled("void(f8[::1], f8[::1], i8[::1], i8[::1], i8[::1], f8[::1], f8)")
def _fit(mine: Array, residual: Array, order: Ints, starts: Ints, partner: Ints, theirs: Array, lam: float) -> None:
    """One coordinate of every owner's features, given that of their partners."""
    for owner in range(len(mine)):
        above, below = 0.0, lam * (starts[owner + 1] - starts[owner])
        for place in range(starts[owner], starts[owner + 1]):
            n = order[place]
            other = theirs[partner[n]]
            above += residual[n] * other
            below += other * other
        mine[owner] = above / below if below > 0.0 else 0.0
