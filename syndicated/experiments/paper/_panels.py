"""The panels on the page: Table 1 beside the printed numbers, and every panel of the figures."""

import re
from collections.abc import Sequence

import numpy as np

from syndicated._formatting import signed_number
from syndicated.experiments import plots
from syndicated.experiments.paper._html import Markup, el, join, picture, table
from syndicated.experiments.paper.claims import FEWEST, alphas_of, candidates_for_best, listed
from syndicated.experiments.results import Check, Result, Row, check_published, summary

HEADINGS = {
    "table1": "Table 1: theory's exploration against the best of a grid",
    "figure2": "Figure 2: tuning LinUCB, LinTS and UCB-GLM",
    "figure3": "Figure 3: tuning SGD-TS",
}


def anchor(section: str, result: Result) -> str:
    """The place of a panel, for links to it."""
    return f"{section}-{re.sub(r'[^A-Za-z0-9-]+', '-', result.experiment.name)}"


def panels_section(name: str, results: Sequence[Result]) -> Markup:
    body = _table1(name, results) if name == "table1" else join(*(_panel(name, result) for result in results))
    return el("section", el("h2", HEADINGS[name], id=name), body, class_="major")


def _table1(name: str, results: Sequence[Result]) -> Markup:
    headings = ["panel", "row", "paper: mean (std)", "ours: mean (std)", "95% interval of our mean"]
    headings += ["95% of our means of 5 repeats"]
    rows = [_check(result, check) for result in results for check in check_published(result)]
    best = [_best_row(result) for result in results]
    panels = [
        el(
            "div",
            picture(plots.inline(plots.draw_published(result), anchor(name, result)), ""),
            id=anchor(name, result),
        )
        for result in results
    ]
    return join(
        el(
            "p",
            "The paper's numbers are means of 5 repeats and vary a good deal: a published mean may lie outside the "
            "interval of our mean and still be what 5 repeats often give. The last column allows for that.",
        ),
        table("The paper's numbers beside ours", headings, rows, texts=2),
        table(
            "The best of the grid in our runs",
            ["panel", "best α", "mean ± standard error", "not set apart from", "theory: mean ± standard error"],
            best,
        ),
        el("div", *panels, class_="pair"),
        el(
            "p",
            "Regret at the horizon over fixed α, with 95% bands over repeats; the level line is theory's α(t).",
            class_="soft",
        ),
    )


def _check(result: Result, check: Check) -> list[str]:
    return [
        result.experiment.title,
        check.tuner.replace("alpha=", "α\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"),
        "{:,.1f} ({:,.1f})".format(*check.published),
        f"{check.mean:,.1f} ({check.std:,.1f})",
        *(_placed(check, ends) for ends in (check.mean_interval, check.five_interval)),
    ]


def _placed(check: Check, ends: tuple[float, float]) -> Markup:
    kind, word = ("supported", "✓ inside") if is_inside(check, ends) else ("not-settled", "✗ outside")
    return el("td", f"{ends[0]:,.0f} to {ends[1]:,.0f} ", el("span", word, class_=f"badge {kind}"), class_="number")


def is_inside(check: Check, ends: tuple[float, float]) -> bool:
    """Whether the published mean lies between these ends."""
    return ends[0] <= check.published[0] <= ends[1]


def _best_row(result: Result) -> list[str]:
    rows = {row.tuner: row for row in summary(result)}
    best, *close = candidates_for_best(result)
    label = min(alphas_of(result), key=lambda each: rows[each].mean)
    means = [f"{rows[each].mean:,.1f} ± {rows[each].error:.1f}" for each in (label, "Theory")]
    return [result.experiment.title, f"{best:g}", means[0], listed(close), means[1]]


def _panel(section: str, result: Result) -> Markup:
    rows, name = summary(result), anchor(section, result)
    e = result.experiment
    size = f"{e.horizon:,} rounds, {e.repeats} repeat{'s' if e.repeats > 1 else ''}"
    curves = picture(plots.inline(plots.draw_regret([result]), f"{name}-regret"), "Mean and 95% band over repeats.")
    parts = "Mean of the repeats. Warm-up + tuning + learning = regret; tuning below 0 saved regret."
    split = picture(plots.inline(plots.draw_split(result), f"{name}-split"), parts)
    return el(
        "article",
        el("h3", e.title, id=name),
        el("p", standing(rows, e.repeats)),
        el("div", curves, split, class_="pair"),
        _finals(result, rows, size),
        _traces(result, name),
        class_="panel",
    )


def standing(rows: Sequence[Row], repeats: int) -> str:
    """Which tuner has the least regret, and from which others the evidence sets it apart."""
    best, others = rows[0], rows[1:]
    close = not_apart(rows, repeats)
    apart = [row.tuner for row in others if row.tuner not in close]
    said = f"{best.tuner} has the least mean regret."
    if apart:
        said += f" The evidence sets it apart from {', '.join(apart)}"
        said += f", but not from {', '.join(close)}." if close else ": from all the others."
    elif close:
        said += f" The evidence does not set it apart from any other: {', '.join(close)}."
    return said


def not_apart(rows: Sequence[Row], repeats: int) -> list[str]:
    """The tuners that the evidence does not set apart from the best."""
    return [row.tuner for row in rows[1:] if row.low <= 0 or repeats < FEWEST]


def _finals(result: Result, rows: Sequence[Row], size: str) -> Markup:
    split = {each.tuner: each for each in plots.splits(result)}
    headings = ["tuner", "mean", "std. error", "above the best", "95% interval", "warm-up", "tuning", "learning"]
    cells = []
    for row in rows:
        parts = split[row.tuner]
        ends = f"{signed_number(row.low)} to {signed_number(row.high)}"
        above = ["best", ""] if row is rows[0] else [signed_number(row.difference), ends]
        shares = [f"{part:,.1f}".replace("-", "−") for part in (parts.warmup, parts.tuning, parts.learning)]
        cells.append([row.tuner, f"{row.mean:,.1f}", _error(row), *above, *shares])
    return table(f"Regret after {size}: its mean, its paired difference to the best, its parts", headings, cells)


def _error(row: Row) -> str:
    return f"{row.error:.1f}" if np.isfinite(row.error) else "–"


def _traces(result: Result, name: str) -> Markup:
    drawn = {tuner: plots.areas(result, tuner) for tuner in result.curves}
    hypers = {area.hyper: area.values for areas in drawn.values() for area in areas}
    if not hypers:
        return join()
    columns = [_column(tuner, areas, f"{name}-{place}") for place, (tuner, areas) in enumerate(drawn.items()) if areas]
    still = [tuner for tuner, areas in drawn.items() if not areas]
    caption = (
        "Probability of every candidate over rounds, averaged over repeats; for a product, of each hyper-parameter."
    )
    caption += f" {', '.join(still)}: nothing to choose." if still else ""
    return el(
        "figure",
        el("h4", "What the tuners draw"),
        el(
            "div",
            el("ul", *(_key(*each) for each in hypers.items()), class_="keys"),
            el("div", *columns, class_="traces"),
            class_="picture",
        ),
        el("figcaption", caption),
    )


def _column(tuner: str, areas: Sequence[plots.Area], name: str) -> Markup:
    drawn = (plots.inline(plots.draw_area(area), f"{name}-{area.hyper}") for area in areas)
    return el("section", el("h5", tuner), *map(Markup, drawn))


def _key(hyper: str, values: Sequence[float]) -> Markup:
    colours = plots.shades(len(values))
    swatches = [
        join(el("i", style=f"background: {colour}"), f"{value:g}")
        for value, colour in zip(values, colours, strict=True)
    ]
    return el("li", el("b", plots.GREEK.get(hyper, hyper)), *swatches)
