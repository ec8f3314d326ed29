"""ArmUCB: optimism about models of arms, linear or logistic, one for each arm, shared, or both.

    play argmax_a m_a + c s_a,   m_a and s_a the mean and the standard deviation of arm a's reward, or of its logit

An arm that had less than its share of the plays is looked at again: its s_a grows by sqrt(1 + b log(t / (K n_a))), as
in MOSS (Audibert and Bubeck, *Minimax policies for adversarial and stochastic bandits*, COLT 2009), with b = 1, and 3
where all rows are alike, so that nothing but this explores. Arms that were never played come in a random order.

Where all rows are alike, the arm that went unplayed for longest is tried four times while the rounds double, from the
256th reward on, if it had none of the last 0.3 of all rewards: it may have become the best one. It is tried on while
its rewards say so (a test of two likelihoods), and starts again if they go on. An arm that pays less than it did starts
again, too, whatever the rows.

Needs nothing. A decision costs O(K D²) with D features, the constant among them, and a reward O(D²), three times that
for a logistic model, however many came before; at times that grow by 1.5, scales and priors are looked at again, O(K
D³). MOSS has a bound for arms without features; this has none.

While decisions wait for their rewards, what is not known does not shrink, and all of them would go to one arm. Then the
bonus of each arm is drawn, as in Thompson sampling, the wider the more of all decisions wait.

Li et al., *A contextual-bandit approach to personalized news article recommendation*, WWW 2010, for disjoint and hybrid
models; the logistic models are ours.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from syndicated._models.scaled_ridge import OUTLIERS, RESTARTS, TRIALS
from syndicated.policies._arm_policy import ArmModelPolicy
from syndicated.policies._ridge_policy import TRIAL_ROUNDS
from syndicated.streams import Stream
from syndicated.types import ArmRows, Arms, Array, Ints, Params

NEGLECT, SPREAD = "neglect", "spread"  # parts that can be left out
OPEN_SPREAD = 1.0  # of a bonus, in units of itself, if nearly all decisions wait for their rewards


class ArmUCB(ArmModelPolicy):
    """Optimism: an arm is worth its mean and `boldness` times what is not known of it.

    Of its `parts`, neglect is what looks again at arms that had less than their share of the plays, and spread the
    draws of bonuses while decisions wait for their rewards.

    >>> import numpy as np
    >>> policy = ArmUCB(dim=1)
    >>> for reward in (1.0, 1.0, 0.0):
    ...     policy.learn_arm(0, np.ones(1), reward, {})
    >>> policy.predict(ArmRows(np.ones((2, 1)), np.array([0, -1])), {}).round(2).tolist()
    [0.57, 0.5]
    """

    parts: ClassVar[tuple[str, ...]] = (NEGLECT, OUTLIERS, RESTARTS, SPREAD, TRIALS)

    def scores(self, arms: Arms | ArmRows, points: Sequence[Params], rng: Stream) -> Array:
        named = isinstance(arms, ArmRows)
        rows, boldness, guarded = self._rows(arms), self._boldness(points), named and self.models != "shared"
        wide = self._wide(rng.round) if guarded else 0.0
        scores = self.model.ucb_scores(rows, boldness, rng, guarded and self._looks_again, wide, breaks_ties=named)
        tried = self._tried(rows, rng) if guarded else -1
        if tried >= 0:
            scores[boldness > 0, tried] = np.nextafter(scores[boldness > 0].max(axis=1), np.inf)
        return scores

    def best(self, arms: Any, points: Sequence[Params], t: int, rng: Stream) -> list[int]:
        guarded = self.models != "shared"
        if not isinstance(arms, ArmRows) or (guarded and self._tried(arms, rng) >= 0):
            return super().best(arms, points, t, rng)
        wide, looks_again = self._wide(rng.round) if guarded else 0.0, guarded and self._looks_again
        return self.model.ucb_best(self._rows(arms), self._boldness(points), rng, looks_again, wide)

    def best_alike(self, X: Array, numbers: Ints, point: Params, t: int, rng: Callable[[int], Stream]) -> list[int]:
        if self.models == "shared" or not self.model.count or self.model.may_try:
            return super().best_alike(X, numbers, point, t, rng)
        return self.model.ucb_best_many(X, numbers, self._boldness((point,)), rng(t), self._looks_again, self._spread)

    def replay_alike(
        self, X: Array, numbers: Ints, places: Ints, rewards: Array, point: Params, rng: Stream, played: Ints
    ) -> int:
        end = self._same_link(rewards)
        if self.models == "shared" or not end:
            return 0
        rest = X[:end], numbers, places[:end], rewards[:end], self._boldness((point,))
        return self.model.replay(*rest, rng, self._looks_again, self._spread, played[:end])

    def _tried(self, rows: ArmRows, rng: Stream) -> int:
        return self.model.tried(rows, rng.round, trial=rng.round in TRIAL_ROUNDS)

    @property
    def _looks_again(self) -> bool:
        return NEGLECT not in self.without

    @property
    def _spread(self) -> float:
        return 0.0 if SPREAD in self.without else OPEN_SPREAD

    def _wide(self, round_: int) -> float:
        """What is drawn of a bonus, in units of itself: the more, the more of all decisions wait for their rewards."""
        count = self.model.count
        return self._spread * (round_ - count) / round_ if round_ > count else 0.0
