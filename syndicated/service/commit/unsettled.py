"""What a process has written to a shared journal and cannot fold yet, because its place is not settled."""

from collections.abc import Iterable, Mapping

from syndicated.service.bandits.bandit import Turn
from syndicated.service.bandits.records import Record
from syndicated.service.bandits.runs import Folded
from syndicated.service.bandits.state import State
from syndicated.store import Event


class Unsettled:
    """Durable events of this process that wait to be folded, and where the next decisions stand after them."""

    def __init__(self, salt: int) -> None:
        self.salt = salt
        self.events: dict[int, Folded] = {}  # by number, with the decision of each
        self.turns: dict[int, Turn] = {}  # by bandit

    def add(self, pairs: Iterable[Folded], turns: Mapping[int, Turn]) -> None:
        """Keep what a batch has committed, and where its bandits' next decisions stand."""
        self.events.update((pair[0].seq, pair) for pair in pairs)
        self.turns = dict(turns)

    def drop(self, state: State) -> int:
        """Forget what the state now has; how many events."""
        before = len(self.events)
        self.events = {seq: kept for seq, kept in self.events.items() if seq > state.seq}
        self.turns.clear()
        for event, record in self.events.values():
            self._count(state, event, record)
        return before - len(self.events)

    def _count(self, state: State, event: Event, record: Record | None) -> None:
        """A decision that has yet to be folded counts: no draw is made twice."""
        bandit = state.bandits.get(event.bandit)
        if event.kind == "decide" and record is not None and bandit and record.decided.epoch == bandit.epoch:
            turn = self.turns.get(bandit.id) or bandit.turn(self.salt)
            self.turns[bandit.id] = turn.after(record)
