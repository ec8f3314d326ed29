"""What the default must reach among all players."""

from dataclasses import dataclass

import numpy as np

from syndicated.experiments.bakeoff._board import Board
from syndicated.experiments.bakeoff._players import DEFAULT, PLAYERS, REFERENCES

MAX_LOSSES = 1  # significant ones, to any single peer: a player of another library or a plain reference


@dataclass(frozen=True)
class FoundBar:
    text: str
    measured: str
    holds: bool


def bars(board: Board) -> list[FoundBar]:
    """The bars as far as those who play can show them."""
    if DEFAULT not in board.players:
        return []
    others = [label for label in board.players if label not in PLAYERS]
    peers = [*others, *(label for label in REFERENCES if label in board.players)]
    losses, time = [_losses(board, peers)] if peers else [], [_time(board, others)] if others else []
    return [_best_rank(board), *losses, *time]


def _best_rank(board: Board) -> FoundBar:
    mine = board.mean_rank(DEFAULT)
    others = {label: board.mean_rank(label) for label in board.everywhere if label != DEFAULT}
    best = min(others, key=lambda label: others[label], default=None)
    said = f"{mine:.2f}" + (f"; next {best}, {others[best]:.2f}" if best else "")
    return FoundBar("the best mean rank", said, best is None or mine <= others[best])


def _losses(board: Board, peers: list[str]) -> FoundBar:
    counts = {label: board.wins_and_losses(DEFAULT, label) for label in peers}
    worst = max(peers, key=lambda label: counts[label][1])
    behind = [label for label, (wins, losses) in counts.items() if losses > wins]
    text = (
        f"at most {MAX_LOSSES} significant loss to any player of another library or plain reference, "
        "to none more losses than wins"
    )
    most = [label for label in peers if counts[label][1] == counts[worst][1] > 0]
    said = f"{counts[worst][1]} to {', '.join(most) or 'any'}; behind {', '.join(behind) or 'none'}"
    return FoundBar(text, said, counts[worst][1] <= MAX_LOSSES and not behind)


def _time(board: Board, others: list[str]) -> FoundBar:
    """Set by set against the fastest player of Vowpal Wabbit there."""
    wabbits = [label for label in others if label.startswith("VW ")]
    ratios = [
        own[DEFAULT].microseconds / min(own[label].microseconds for label in wabbits if label in own)
        for own in board.scores.values()
        if DEFAULT in own and any(label in own for label in wabbits)
    ]
    text = "at most the time of the fastest player of Vowpal Wabbit on every set"
    if not ratios:
        return FoundBar(text, "it did not play", False)
    return FoundBar(text, f"median ratio {np.median(ratios):.2f}, largest {max(ratios):.2f}", max(ratios) <= 1.0)
