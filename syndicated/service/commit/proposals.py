"""Proposals for the decisions of a batch, made together: so they cost less than one by one.

Nothing is learned within a batch, so a proposal depends on the arms and the round alone. Each is made for the round at
which its decision will have its turn if all before it are made too. If one of them is not, since it is refused or
repeated, the others are at other rounds and are proposed one by one.
"""

from collections import deque
from collections.abc import Iterable

from syndicated._player import Proposal
from syndicated.service.bandits.arms import ArmTable
from syndicated.service.bandits.bandit import Bandit, Turn


class Proposals:
    """What players propose for the decisions of a batch."""

    def __init__(self, asked: Iterable[tuple[str, ArmTable]]) -> None:
        """`asked` are the decisions in their order: the names of their bandits, and their arms."""
        self._coming: dict[str, deque[ArmTable]] = {}
        for name, arms in asked:
            self._coming.setdefault(name, deque()).append(arms)
        self._made: dict[tuple[int, int], tuple[ArmTable, Proposal]] = {}  # by bandit and round
        self._upto: dict[int, int] = {}  # the round of each bandit up to which this was tried

    def take(self, bandit: Bandit, arms: ArmTable, turn: Turn) -> Proposal | None:
        """The proposal for these arms at this turn; None if it is to be made alone."""
        if turn.round >= self._upto.get(bandit.id, 0):
            self._propose(bandit, arms, turn)
        found = self._made.get((bandit.id, turn.round))
        return found[1] if found is not None and found[0] is arms else None

    def _propose(self, bandit: Bandit, arms: ArmTable, turn: Turn) -> None:
        """Propose for these arms and for those that come next, as many as can be at once."""
        coming = self._coming.get(bandit.name, deque())
        while coming and coming[0] is not arms:
            coming.popleft()
        proposals = bandit.propose_many(coming, turn)
        self._upto[bandit.id] = turn.round + (len(proposals) or len(coming))
        for n, pair in enumerate(zip(coming, proposals, strict=False)):
            self._made[bandit.id, turn.round + n] = pair
