"""ArmTS: Thompson sampling with models of arms, linear or logistic, one for each arm, shared, or both.

    draw f_a ~ N(m_a, c² s_a²),   m_a and s_a the mean and the standard deviation of arm a's reward, or of its logit;
    play argmax_a f_a

Arms with models of their own, hybrid ones too, are drawn apart; arms that share one model, from one draw of its
parameters. Needs and costs what ArmUCB does. There is no bound.

Chapelle and Li, *An empirical evaluation of Thompson sampling*, NeurIPS 2011. Their model has a variance for each
coordinate; these have covariances.
"""

from collections.abc import Sequence

from syndicated.policies._arm_policy import ArmModelPolicy, draws_of_arms
from syndicated.streams import Stream
from syndicated.types import ArmRows, Arms, Array, Params


class ArmTS(ArmModelPolicy):
    """Thompson sampling: an arm is worth a draw from what is believed of it, `boldness` times as wide.

    >>> import numpy as np
    >>> policy = ArmTS(dim=1, link="linear")
    >>> for reward in (10.0, 11.0, 12.0):
    ...     policy.learn_arm(0, np.ones(1), reward, {})
    >>> policy.predict(ArmRows(np.ones((2, 1)), np.array([0, -1])), {}).round(2).tolist()
    [11.0, 11.0]
    """

    def scores(self, arms: Arms | ArmRows, points: Sequence[Params], rng: Stream) -> Array:
        rows = self._rows(arms)
        means, sds = self.model.beliefs(rows)
        apart = isinstance(arms, ArmRows) and self.models != "shared"
        draws = draws_of_arms(rows.numbers, rng) if apart else self.model.draw(rows, rng.normals(self.model.size))
        return means + self._boldness(points)[:, None] * (sds * draws)
