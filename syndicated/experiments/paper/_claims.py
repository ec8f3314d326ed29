"""The claims that the paper makes about its results, as data, and what our runs say about each."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from syndicated._formatting import signed_number
from syndicated.experiments._results import MIN_REPEATS, Result, direction, interval, not_apart, summary
from syndicated.types import Array

Sections = Mapping[str, Sequence[Result]]


class Verdict(StrEnum):
    """Whether the evidence supports an order of methods that the paper states."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    UNSETTLED = "not settled"


VERDICTS = {1: Verdict.SUPPORTED, -1: Verdict.CONTRADICTED, 0: Verdict.UNSETTLED}
VERDICT_MARKS = {Verdict.SUPPORTED: "✓", Verdict.CONTRADICTED: "✗", Verdict.UNSETTLED: "?"}


@dataclass(frozen=True)
class Evidence:
    """One comparison in one panel: what is compared, what was found, and the verdict."""

    panel: str
    comparison: str
    finding: str
    verdict: Verdict


@dataclass(frozen=True)
class Claim:
    """What the paper says, in our words; where it says so; and how results of a section are weighed as evidence."""

    number: str
    source: str
    text: str
    section: str
    weigh: Callable[[Sequence[Result]], list[Evidence]]


def judge(differences: Array) -> Verdict:
    """The verdict on a claim that these paired differences are positive."""
    return VERDICTS[direction(*interval(differences), len(differences))]


def orders(*pairs: tuple[str, str]) -> Callable[[Sequence[Result]], list[Evidence]]:
    """Evidence that in each pair the first tuner has less regret than the second, panel by panel."""

    def weigh(results: Sequence[Result]) -> list[Evidence]:
        return [
            _compare(result, less, more)
            for result in results
            for less, more in pairs
            if less in result.curves and more in result.curves
        ]

    return weigh


def _compare(result: Result, less: str, more: str) -> Evidence:
    differences = result.final(more) - result.final(less)
    found = f"{signed(differences)}, {ratio(result.final(more).mean(), result.final(less).mean())}"
    return Evidence(result.experiment.title, f"{less} below {more}", found, judge(differences))


def theory_is_not_best(results: Sequence[Result]) -> list[Evidence]:
    """Evidence that the best alpha of the grid has less regret than theory's. The best of many looks better than it
    is, so each repeat is compared with the alpha that is best in the other repeats."""
    return [_held_out(result) for result in results if result.experiment.repeats > 1]


def _held_out(result: Result) -> Evidence:
    above = above_the_held_out_best(result)
    return Evidence(result.experiment.title, "best α of the other repeats below theory", signed(above), judge(above))


def above_the_held_out_best(result: Result) -> Array:
    """Theory's regret minus that of the alpha which is best in the other repeats, for every repeat."""
    grid = np.array([result.final(label) for label in alphas_of(result)])
    others = grid.sum(axis=1, keepdims=True) - grid
    return np.asarray(result.final("Theory") - grid[others.argmin(axis=0), np.arange(grid.shape[1])])


def best_alpha_differs(results: Sequence[Result]) -> list[Evidence]:
    """Evidence that fixed and changing features have different best alphas: the alphas that the evidence does not set
    apart from the best are compared. The claim is supported if the two sets have no alpha in common, and contradicted
    if they are equal."""
    fixed = {_policy(result): result for result in results if result.experiment.environment.get("fixed")}
    changing = {_policy(result): result for result in results if not result.experiment.environment.get("fixed")}
    return [_best_alphas(name, fixed[name], changing[name]) for name in fixed if name in changing]


def _best_alphas(policy: str, fixed: Result, changing: Result) -> Evidence:
    sets = {"fixed": candidates_for_best(fixed), "changing": candidates_for_best(changing)}
    common = set(sets["fixed"]) & set(sets["changing"])
    verdict = Verdict.UNSETTLED
    if not common:
        verdict = Verdict.SUPPORTED
    elif fixed.experiment.repeats >= MIN_REPEATS and set(sets["fixed"]) == set(sets["changing"]):
        verdict = Verdict.CONTRADICTED
    found = "; ".join(
        f"{name}: α = {sets[name][0]:g}, not set apart from {close_text(result)}"
        for name, result in {"fixed": fixed, "changing": changing}.items()
    )
    return Evidence(policy, "best α, fixed against changing features", found, verdict)


def candidates_for_best(result: Result) -> list[float]:
    """The alpha of least mean regret, then in order those that the evidence does not set apart from it."""
    rows = summary(result, among=alphas_of(result))
    return [_alpha(rows[0].tuner), *sorted(map(_alpha, not_apart(rows, result.experiment.repeats)))]


def alphas_of(result: Result) -> list[str]:
    return [label for label in result.curves if label.startswith("alpha=")]


def _alpha(label: str) -> float:
    return float(label.removeprefix("alpha="))


def close_text(result: Result) -> str:
    """The alphas that the evidence does not set apart from the best one."""
    close = candidates_for_best(result)[1:]
    if len(close) == len(alphas_of(result)) - 1:
        return "any other"
    return ", ".join(f"{alpha:g}" for alpha in close) or "none"


def _policy(result: Result) -> str:
    return str(result.experiment.policy["name"])


CLAIMS = [
    Claim(
        "1a",
        "Figure 2, first observation",
        "When one hyper-parameter is tuned, TL has less regret than the earlier methods OP and Corral.",
        "figure2",
        orders(("TL", "OP"), ("TL", "Corral")),
    ),
    Claim(
        "1b",
        "Figure 2, first observation",
        "The theoretical exploration parameter does worse than a tuned one (TL).",
        "figure2",
        orders(("TL", "Theory")),
    ),
    Claim(
        "2a",
        "Figure 2, second observation",
        "When two hyper-parameters are tuned, Syndicated usually has less regret than TL-Combined.",
        "figure2",
        orders(("Syndicated", "TL-Combined")),
    ),
    Claim(
        "2b",
        "Figure 2, second observation",
        "When two hyper-parameters are tuned, Syndicated has far less regret than Corral-Combined.",
        "figure2",
        orders(("Syndicated", "Corral-Combined")),
    ),
    Claim(
        "3",
        "Figure 2, third observation",
        "Tuning two hyper-parameters (Syndicated) is usually better than tuning one (TL).",
        "figure2",
        orders(("Syndicated", "TL")),
    ),
    Claim(
        "4",
        "Figure 3, first observation",
        "On SGD-TS, with three hyper-parameters, Syndicated has less regret than TL-Combined.",
        "figure3",
        orders(("Syndicated", "TL-Combined")),
    ),
    Claim(
        "5",
        "Figure 3, second observation",
        "On SGD-TS, tuning all three (Syndicated, TL-Combined) is far better than tuning the step size only.",
        "figure3",
        orders(*((all_, one) for all_ in ("Syndicated", "TL-Combined") for one in ("OP", "Corral", "TL"))),
    ),
    Claim(
        "6",
        "Figure 3, third observation",
        "On SGD-TS, when only the step size is tuned, TL has less regret than OP and Corral.",
        "figure3",
        orders(("TL", "OP"), ("TL", "Corral")),
    ),
    Claim(
        "7",
        "Table 1",
        "The theoretical exploration parameter is not the best: some fixed value of the grid has less regret.",
        "table1",
        theory_is_not_best,
    ),
    Claim(
        "8",
        "Table 1",
        "The best fixed exploration parameter is not the same for fixed and for changing features.",
        "table1",
        best_alpha_differs,
    ),
]


def outcome(evidence: Sequence[Evidence]) -> str:
    """The verdicts on a claim, in a sentence."""
    counts, n = Counter(each.verdict for each in evidence), len(evidence)
    if not n:
        return "Not tested: this run has no panel for it."
    for verdict, words in (
        (Verdict.SUPPORTED, "Supported in"),
        (Verdict.CONTRADICTED, "Contradicted in"),
        (Verdict.UNSETTLED, "Left open by"),
    ):
        if counts[verdict] == n:
            return f"{words} {'the one comparison' if n == 1 else f'all {n} comparisons'}."
    return "Of {} comparisons: {}.".format(n, ", ".join(f"{counts[v]} {v}" for v in Verdict if counts[v]))


def weighed(sections: Sections) -> list[tuple[Claim, list[Evidence]]]:
    """Every claim with its evidence."""
    return [(claim, claim.weigh(sections.get(claim.section, []))) for claim in CLAIMS]


def signed(differences: Array) -> str:
    low, high = interval(differences)
    return f"{signed_number(differences.mean())} ({signed_number(low)} to {signed_number(high)})"


def ratio(more: float, less: float) -> str:
    return f"× {more / less:.2f}" if less > 0 else "no ratio"
