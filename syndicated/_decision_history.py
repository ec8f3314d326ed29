"""What an agent did over time: which arms it played, what they paid, and how it explored. Bounded, and never saved."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from syndicated._figures import empty_figure, shades, styled
from syndicated._series import Marginal, marginals
from syndicated.errors import InputError
from syndicated.tuners import Tuner
from syndicated.types import ArmId, Array, Decision, Params

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_WINDOWS = 50  # of rounds; where there would be more, every two become one
MAX_ARMS = 200  # that are counted, the first ones
MAX_LINES = 6  # of arms; the others are drawn together
OTHERS = "others"


@dataclass(eq=False)
class Window:
    """The rewards of some consecutive rounds, and what the tuner knew when the first of them came, as its state."""

    params: Params
    tuner: Mapping[str, npt.NDArray[np.generic]]
    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    arms: Counter[ArmId] = field(default_factory=Counter)

    def absorb(self, later: "Window") -> None:
        self.count += later.count
        self.total += later.total
        self.squares += later.squares
        self.arms += later.arms


@dataclass(frozen=True, eq=False)
class DecisionSeries:
    """Windows of rounds: their last rounds, arms' shares, mean rewards with standard errors, hyper-parameters in use
    when they began and which of them explore, and the probabilities of the values that the tuner has a choice in."""

    rounds: Array
    shares: dict[str, Array]
    rewards: Array
    errors: Array
    params: dict[str, Array]
    exploring: Sequence[str]
    candidates: list[Marginal]


class DecisionHistory:
    """Rewards by windows of rounds, which become longer as there are more."""

    def __init__(self) -> None:
        self.windows: dict[int, Window] = {}
        self._length = 1
        self._arms: set[ArmId] = set()

    def add(self, decision: Decision, reward: float, tuner: Tuner) -> None:
        while decision.round >= MAX_WINDOWS * self._length:
            self._merge()
        number, arm = decision.round // self._length, decision.arm
        window = self.windows.get(number) or self._window(number, decision, tuner)
        window.count += 1
        window.total += reward
        window.squares += reward * reward
        if arm in self._arms or len(self._arms) < MAX_ARMS:
            self._arms.add(arm)
            window.arms[arm] += 1

    def add_many(self, decisions: Sequence[Decision], rewards: Array, tuner: Tuner) -> None:
        """`add` of each; of decisions in the order of their rounds a window at once, up to rounding."""
        rounds, arms = [decision.round for decision in decisions], [decision.arm for decision in decisions]
        self._arms.update(arms if len(self._arms) + len(set(arms)) <= MAX_ARMS else ())
        if not self._arms.issuperset(arms) or rounds != sorted(rounds):
            for decision, reward in zip(decisions, rewards.tolist(), strict=True):
                self.add(decision, reward, tuner)
            return
        while rounds and rounds[-1] >= MAX_WINDOWS * self._length:
            self._merge()
        start = 0
        while start < len(rounds):
            number = rounds[start] // self._length
            end = bisect_left(rounds, (number + 1) * self._length, start)
            window, some = self._window(number, decisions[start], tuner), rewards[start:end]
            window.count += end - start
            window.total += float(some.sum())
            window.squares += float(some @ some)
            window.arms.update(arms[start:end])
            start = end

    def _window(self, number: int, first: Decision, tuner: Tuner) -> Window:
        """The window of this number, which begins with this decision if there is none yet."""
        window = self.windows.get(number)
        if window is None:
            window = self.windows[number] = Window(first.params, tuner.state())
        return window

    def _merge(self) -> None:
        self._length *= 2
        before, self.windows = self.windows, {}
        for number, window in sorted(before.items()):
            first = self.windows.setdefault(number // 2, window)
            if first is not window:
                first.absorb(window)

    def series(self, tuner: Tuner, exploring: Sequence[str] = ()) -> DecisionSeries:
        if not self.windows:
            raise InputError("there must be rewards to plot, learned since the agent was made or restored; got none")
        numbers, windows = zip(*sorted(self.windows.items()), strict=True)
        counts = np.array([window.count for window in windows], dtype=np.float64)
        means = np.array([window.total for window in windows]) / counts
        spread = np.array([window.squares for window in windows]) / counts - means**2
        return DecisionSeries(
            rounds=(np.array(numbers, dtype=np.float64) + 1) * self._length,
            shares=_shares(windows, counts),
            rewards=means,
            errors=np.sqrt(np.maximum(spread, 0.0) / counts),
            params={
                name: np.array([window.params.get(name, np.nan) for window in windows]) for name in windows[-1].params
            },
            exploring=exploring,
            candidates=_candidates(windows, tuner),
        )


def _shares(windows: Sequence[Window], counts: Array) -> dict[str, Array]:
    """The arms that were played most, and the others together."""
    played = sum((window.arms for window in windows), Counter[ArmId]())
    most = [arm for arm, _ in played.most_common(MAX_LINES)]
    shares = {str(arm): np.array([window.arms[arm] for window in windows]) / counts for arm in most}
    others = 1.0 - sum(shares.values(), np.zeros(len(windows)))
    return shares | ({OTHERS: others} if others.max() > 1e-9 else {})


def _candidates(windows: Sequence[Window], tuner: Tuner) -> list[Marginal]:
    """The probabilities are computed only now: of some tuners they are integrals, which cost more than a round."""
    then, probabilities = tuner.fresh(), list[list[Array]]()
    for window in windows:
        then.restore(window.tuner)
        probabilities.append(then.probabilities())
    by_axis = zip(tuner.axes(), zip(*probabilities, strict=True), strict=True)
    return [each for axis, p in by_axis for each in marginals(axis, np.array(p))]


def draw_series(series: DecisionSeries) -> "Figure":
    """Panels over rounds: arms' shares, the mean reward with its 95 % band, a panel for each choice of the tuner, and
    the exploration in use; of a policy that has no number for it, the hyper-parameters in use."""
    with styled():
        count = 3 + len(series.candidates)
        figure = empty_figure(7, 2 * count)
        top, middle, *rest = figure.subplots(count, 1, sharex=True)
        for name, share in series.shares.items():
            top.plot(series.rounds, share, label=name)
        top.set_title("share of decisions", loc="left")
        band = 1.96 * series.errors
        middle.fill_between(series.rounds, series.rewards - band, series.rewards + band, alpha=0.25, linewidth=0)
        middle.plot(series.rounds, series.rewards)
        middle.set_title("mean reward", loc="left")
        for panel, each in zip(rest[:-1], series.candidates, strict=True):
            labels = [f"{value:g}" for value in each.values]
            panel.stackplot(series.rounds, each.p.T, colors=shades(len(labels)), labels=labels)
            panel.set_title(f"probability of {each.name}", loc="left")
        explored = {name: series.params[name] for name in series.exploring if name in series.params}
        for name, values in (explored or series.params).items():
            rest[-1].plot(series.rounds, values, label=name)
        rest[-1].set_title("exploration in use" if explored else "hyper-parameters in use", loc="left")
        for panel in (top, *rest):
            if panel.get_legend_handles_labels()[0]:
                panel.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, reverse=panel is not top)
        rest[-1].set_xlabel("round")
    return figure
