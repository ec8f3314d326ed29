"""What a bandit keeps of its earlier epochs, and of the models that it was given: bounded, for its page."""

from msgspec import Struct

from syndicated._series import evenly_spaced
from syndicated.service.bandits.history import FIXED_COLUMNS, History

MAX_PAST_EPOCHS = 10  # the last ones
MAX_PAST_ROWS = 60  # of the history of each
MAX_LOADS = 50  # of this epoch, the last ones


class PastEpoch(Struct, frozen=True):
    """An epoch that has ended: its number, its policy and tuner, and rows of its history without probabilities."""

    epoch: int
    policy: str
    tuner: str
    rows: list[list[float]]

    @property
    def began(self) -> float:
        return self.rows[0][0]

    @property
    def totals(self) -> list[float]:
        """The last row: time, decisions, rewards, their sum, sum of squares, explored."""
        return self.rows[-1]


class Load(Struct, frozen=True):
    """A model that the bandit was given, by a roll-back or an import: the event, its time, and the decisions so far."""

    seq: int
    at: float
    decisions: int


def past_epoch(history: History, epoch: int, policy: str, tuner: str) -> PastEpoch:
    """What is kept of an epoch that ends."""
    first, last = history.ends()
    rows = [first, *(row for row in history.rows()[:, :FIXED_COLUMNS].tolist() if row[1] < history.count), last]
    kept = evenly_spaced(0, len(rows) - 1, most=MAX_PAST_ROWS).tolist()
    return PastEpoch(epoch, policy, tuner, [rows[k] for k in kept])
