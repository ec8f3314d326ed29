"""Real classified data played as bandits: every policy here with nothing set, and other libraries."""

from syndicated.experiments.bakeoff._board import Board, gather, write_rewards
from syndicated.experiments.bakeoff._page import page, write_page
from syndicated.experiments.bakeoff._peers import Peers, install_peers, no_peers
from syndicated.experiments.bakeoff._players import PLAYERS
from syndicated.experiments.bakeoff._tables import print_board
from syndicated.experiments.bakeoff._tasks import BakeOff, PassTask, run_pass

__all__ = [
    "PLAYERS",
    "BakeOff",
    "Board",
    "PassTask",
    "Peers",
    "gather",
    "install_peers",
    "no_peers",
    "page",
    "print_board",
    "run_pass",
    "write_page",
    "write_rewards",
]
