"""The bake-off on a terminal."""

from typing import TYPE_CHECKING

from syndicated.experiments.bakeoff._board import Board
from syndicated.experiments.bakeoff._players import DEFAULT, SUPERVISED

if TYPE_CHECKING:
    from rich.console import Console


def print_board(console: "Console", board: Board) -> None:
    """Print all players, the best mean rank first."""
    from rich.table import Table

    table = Table(title=f"{len(board.sets)} sets played as bandits")
    table.add_column("player")
    for head in ("mean rank", "reward", "regret", f"{DEFAULT} wins", "losses", "µs a round", "sets"):
        table.add_column(head, justify="right")
    for label in sorted(board.players, key=lambda label: (label == SUPERVISED, board.mean_rank(label))):
        wins, losses = board.wins_and_losses(DEFAULT, label)
        rank = "" if label == SUPERVISED else f"{board.mean_rank(label):.2f}"
        sums = [f"{board.reward(label):.3f}", f"{board.regret(label):.3f}", str(wins), str(losses)]
        table.add_row(label, rank, *sums, f"{board.microseconds(label):,.0f}", str(len(board.sets_of(label))))
    console.print(table)
