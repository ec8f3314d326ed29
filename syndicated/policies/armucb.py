"""ArmUCB: optimism about models of arms, linear or logistic, one for each arm, shared, or both.

    play argmax_a m_a + c s_a,   m_a and s_a the mean and the standard deviation of arm a's reward, or of its logit

An arm that had less than its share of the plays is looked at again: its s_a grows by sqrt(1 + b log(t / (K n_a))), as
in MOSS (Audibert and Bubeck, *Minimax policies for adversarial and stochastic bandits*, COLT 2009), with b = 1, and 4
where all rows are alike, so that nothing but this explores.

Li et al., *A contextual-bandit approach to personalized news article recommendation*, WWW 2010, for disjoint and hybrid
models; the logistic models are ours.
"""

from collections.abc import Sequence

from syndicated.policies._arm_policy import ArmModelPolicy
from syndicated.streams import Stream
from syndicated.types import ArmRows, Arms, Array, Params

TIE_BREAK = 1e-9  # of a standard deviation: arms that were never played come in a random order


class ArmUCB(ArmModelPolicy):
    """Optimism: an arm is worth its mean and `boldness` times what is not known of it.

    >>> import numpy as np
    >>> policy = ArmUCB(dim=1)
    >>> for reward in (1.0, 1.0, 0.0):
    ...     policy.learn_arm(0, np.ones(1), reward, {})
    >>> policy.predict(ArmRows(np.ones((2, 1)), np.array([0, -1])), {}).round(2).tolist()
    [0.6, 0.5]
    """

    def scores(self, arms: Arms | ArmRows, points: Sequence[Params], rng: Stream) -> Array:
        rows, means, sds, boldness = self._beliefs(arms, points)
        if isinstance(arms, ArmRows):
            if rows.numbers.min() < 0:
                means[rows.numbers < 0] += (TIE_BREAK * sds * rng.uniforms(len(means)))[rows.numbers < 0]
            if self.models != "shared":
                self.model.widen_neglected(sds, rows)
        return means + boldness * sds
