"""The standing comparison of tuners, in every kind of world, and of all policies and all tuners in small ones."""

from syndicated.experiments.scoreboard._choose import choose
from syndicated.experiments.scoreboard._figure import draw_board, draw_trade_off
from syndicated.experiments.scoreboard._markdown import write_page
from syndicated.experiments.scoreboard._ratios import gather, task_seconds, trade_off, write_regrets
from syndicated.experiments.scoreboard._tables import print_board
from syndicated.experiments.scoreboard._worlds import BOARD

__all__ = [
    "BOARD",
    "choose",
    "draw_board",
    "draw_trade_off",
    "gather",
    "print_board",
    "task_seconds",
    "trade_off",
    "write_page",
    "write_regrets",
]
