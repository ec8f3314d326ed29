"""What an agent did over time: which arms it played, what they paid, and how boldly it explored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from syndicated.errors import InputError
from syndicated.experiments._plots import empty_figure, styled
from syndicated.types import Array, Decision

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_LINES = 6  # of arms; the others are drawn together
WINDOWS = 40  # into which the decisions are cut


@dataclass(frozen=True, eq=False)
class DecisionSeries:
    """Means over consecutive windows of decisions: their last rounds, arms' shares, rewards, and hyper-parameters."""

    rounds: Array
    shares: dict[str, Array]
    rewards: Array
    errors: Array
    params: dict[str, Array]


def decision_series(decisions: Sequence[Decision], rewards: Sequence[float]) -> DecisionSeries:
    """The series of decisions in the order in which they were made, each with its reward."""
    if len(decisions) != len(rewards) or not decisions:
        must = "decisions must be at least one, each with its reward"
        raise InputError(f"{must}; got {len(decisions)} and {len(rewards)} rewards")
    windows = np.array_split(np.arange(len(decisions)), min(WINDOWS, len(decisions)))
    arms = np.array([str(decision.arm) for decision in decisions])
    names, counts = np.unique(arms, return_counts=True)
    shown = names[np.argsort(-counts, kind="stable")][:MAX_LINES].tolist()
    paid = np.array(rewards, dtype=np.float64)
    shares = {name: _means(arms == name, windows) for name in shown}
    if len(names) > MAX_LINES:
        shares["others"] = 1.0 - sum(shares.values(), np.zeros(len(windows)))
    keys = [key for key in decisions[0].params if all(key in decision.params for decision in decisions)]
    return DecisionSeries(
        rounds=np.array([decisions[own[-1]].round + 1 for own in windows], dtype=np.float64),
        shares=shares,
        rewards=_means(paid, windows),
        errors=np.array([paid[own].std() / np.sqrt(len(own)) for own in windows]),
        params={key: _means(np.array([decision.params[key] for decision in decisions]), windows) for key in keys},
    )


def _means(values: npt.NDArray[Any], windows: Sequence[npt.NDArray[Any]]) -> Array:
    return np.array([values[own].mean() for own in windows])


def draw_decisions(decisions: Sequence[Decision], rewards: Sequence[float]) -> "Figure":
    """A figure with the arms' shares, the mean reward with its 95 % band, and the hyper-parameters in use, over rounds.

    An agent keeps no history of what it did: keep its decisions and their rewards, and give them here.
    """
    series = decision_series(decisions, rewards)
    with styled():
        figure = empty_figure(7, 6)
        top, middle, bottom = figure.subplots(3, 1, sharex=True)
        for name, shares in series.shares.items():
            top.plot(series.rounds, shares, label=name)
        band = 1.96 * series.errors
        middle.fill_between(series.rounds, series.rewards - band, series.rewards + band, alpha=0.25, linewidth=0)
        middle.plot(series.rounds, series.rewards)
        changing = {name: values for name, values in series.params.items() if np.ptp(values) > 0.0}
        for name, values in (changing or series.params).items():
            bottom.plot(series.rounds, values, label=name)
        for axes, title in ((top, "share of decisions"), (middle, "mean reward"), (bottom, "hyper-parameters in use")):
            axes.set_title(title, loc="left")
        top.legend(ncols=4, frameon=False)
        if series.params:
            bottom.legend(ncols=4, frameon=False)
        bottom.set_xlabel("round")
    return figure
