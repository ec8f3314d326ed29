"""The whole paper as one page: every panel, every printed number, and what became of every claim.

The page needs nothing but itself: figures are SVG inside it, there are no scripts, and it asks for nothing from
elsewhere. All text goes through `el`, which escapes it.
"""

import html
import platform
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import numba
import numpy as np

from syndicated.data import NOTICE
from syndicated.experiments import plots
from syndicated.experiments.claims import (
    FEWEST,
    Claim,
    Evidence,
    Sections,
    Verdict,
    alphas_of,
    candidates_for_best,
    listed,
    number,
    weighed,
)
from syndicated.experiments.markup import Markup, badge, class_of, el, join, picture, table
from syndicated.experiments.results import Check, Result, Row, check_published, summary
from syndicated.files import write
from syndicated.spec import Spec

PAPER_HORIZON = 10_000
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
HEADINGS = {
    "table1": "Table 1: theory's exploration against the best of a grid",
    "figure2": "Figure 2: tuning LinUCB, LinTS and UCB-GLM",
    "figure3": "Figure 3: tuning SGD-TS",
}


def write_report(
    file: Path, sections: Sections, settings: Mapping[str, str] | None = None, wall: Mapping[str, float] | None = None
) -> None:
    """Write the page. `settings` are lines for its last section (as the command and the number of processes), `wall`
    the seconds that each experiment took, by name."""
    write(file, report(sections, settings or {}, wall or {}))


def report(sections: Sections, settings: Mapping[str, str], wall: Mapping[str, float]) -> str:
    """The page as text."""
    claims = weighed(sections)
    title = "Syndicated Bandits: the paper's experiments, run again"
    parts = [_head(title, sections, claims), _contents(sections), _overview(sections), _claims(claims)]
    parts += [_section(name, sections[name]) for name in HEADINGS if sections.get(name)]
    parts += [_reading(), _settings(sections, settings, wall)]
    css = files("syndicated.experiments").joinpath("page.css").read_text()
    head = (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
    )
    body = "\n".join(parts)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}{el("title", title)}\n<style>\n{css}</style></head>\n'
        f"<body>\n{body}\n</body></html>\n"
    )


def _head(title: str, sections: Sections, claims: Sequence[tuple[Claim, list[Evidence]]]) -> Markup:
    about = (
        "A reproduction of the experiments of Ding et al., Syndicated bandits: a framework for auto tuning "
        "hyper-parameters in contextual bandit algorithms (NeurIPS 2022). It is for readers of the paper: every "
        "printed number, every panel and every claim is here, with what became of it."
    )
    return el(
        "header",
        el("h1", title),
        el("p", about),
        _warning(sections),
        el("p", verdict_in_numbers(sections, claims), class_="lead", id="verdict"),
        _bars(claims),
    )


def _warning(sections: Sections) -> Markup:
    """That this is not the paper's size, if so."""
    short = sorted({r.experiment.horizon for results in sections.values() for r in results if not _full(r)})
    if not short:
        return join()
    said = (
        f"Not the paper's size: panels here have {', '.join(f'{each:,}' for each in short)} rounds, the paper's "
        f"{PAPER_HORIZON:,}. Its printed numbers cannot be compared with them, and its claims are about longer runs."
    )
    return el("p", said, class_="warning")


def verdict_in_numbers(sections: Sections, claims: Sequence[tuple[Claim, list[Evidence]]]) -> str:
    """One paragraph, nothing in it that was not counted."""
    counts = Counter(each.verdict for _, evidence in claims for each in evidence)
    said = (
        f"The paper's claims make {counts.total()} comparisons here. The evidence supports "
        f"{counts[Verdict.SUPPORTED]} of them, contradicts {counts[Verdict.CONTRADICTED]}, and does not settle "
        f"{counts[Verdict.UNSETTLED]}."
    )
    checks = [check for result in sections.get("table1", []) for check in check_published(result) if _full(result)]
    if checks:
        mean = sum(_inside(check, check.mean_interval) for check in checks)
        five = sum(_inside(check, check.five_interval) for check in checks)
        said += (
            f" Of the {len(checks)} means that Table 1 prints, {mean} lie in the 95% interval of our mean and {five} "
            "in the range where 95% of our means of 5 repeats fall."
        )
    panels = _panels(sections)
    if panels:
        firsts = Counter(summary(result)[0].tuner for result in panels)
        won = ", ".join(f"{tuner} in {count}" for tuner, count in firsts.most_common())
        clear = sum(not _close(summary(result), result.experiment.repeats) for result in panels)
        said += (
            f" Over the {len(panels)} panels of the figures the least mean regret is that of {won}; in {clear} of them "
            "the evidence sets it apart from all the others."
        )
    return said


def _full(result: Result) -> bool:
    return result.experiment.horizon == PAPER_HORIZON


def _inside(check: Check, ends: tuple[float, float]) -> bool:
    return ends[0] <= check.published[0] <= ends[1]


def _panels(sections: Sections) -> list[Result]:
    return [result for name in ("figure2", "figure3") for result in sections.get(name, [])]


def _bars(claims: Sequence[tuple[Claim, list[Evidence]]]) -> Markup:
    counts = Counter(each.verdict for _, evidence in claims for each in evidence)
    spans = [el("span", class_=class_of(v), style=f"flex: {counts[v]}") for v in Verdict if counts[v]]
    key = [join(badge(v, f"{counts[v]} {v}"), " ") for v in Verdict]
    return join(el("div", *spans, class_="bars", aria_hidden="true"), el("p", *key))


def _contents(sections: Sections) -> Markup:
    entries = [_link("overview", "Final regret, all panels"), _link("claims", "The paper's claims")]
    for name, heading in HEADINGS.items():
        if sections.get(name):
            inner = [el("li", _link(_id(name, result), result.experiment.title)) for result in sections[name]]
            entries.append(join(_link(name, heading), el("ul", *inner)))
    entries += [_link("reading", "How to read this page"), _link("settings", "Settings, versions and time")]
    return el("nav", el("ol", *(el("li", entry) for entry in entries)), aria_label="Contents")


def _link(place: str, text: str) -> Markup:
    return el("a", text, href=f"#{place}")


def _id(section: str, result: Result) -> str:
    return f"{section}-{re.sub(r'[^A-Za-z0-9-]+', '-', result.experiment.name)}"


def _overview(sections: Sections) -> Markup:
    parts = [el("h2", "Final regret, all panels", id="overview")]
    for name in ("figure2", "figure3"):
        results = sections.get(name, [])
        if results:
            tuners = list(dict.fromkeys(tuner for result in results for tuner in result.curves))
            rows = [[tuner, *(_final(result, tuner) for result in results)] for tuner in tuners]
            headings = ["tuner", *(result.experiment.title for result in results)]
            caption = f"{HEADINGS[name].split(':')[0]}: mean regret at the horizon ± standard error; ◂ the least mean"
            parts.append(table(caption, headings, rows))
    return el("section", *parts) if len(parts) > 1 else join()


def _final(result: Result, tuner: str) -> str:
    rows = {row.tuner: row for row in summary(result)}
    if tuner not in rows:
        return "–"
    kind = "number best" if tuner == next(iter(rows)) else "number"
    return el("td", f"{rows[tuner].mean:,.1f} ± {rows[tuner].error:.1f}", class_=kind)


def _claims(claims: Sequence[tuple[Claim, list[Evidence]]]) -> Markup:
    intro = (
        "Each claim is an order of methods by regret. What is found in a panel is the regret of the second method "
        "minus that of the first, world by world: its mean, the 95% bootstrap interval of this mean, and the ratio of "
        "their mean regrets. The claim is supported where the interval lies wholly above 0, contradicted where it lies "
        "wholly below, and not settled otherwise. A "
        f"comparison of fewer than {FEWEST} repeats settles nothing. Where nothing differs and values are normal, "
        "about 5% of the intervals from 10 repeats exclude 0, and 7% of those from 5. They are not corrected for their "
        "number, so of many verdicts some are chance. An order is tested, not its "
        "size: “far less” is for the reader to judge by the ratio."
    )
    return el(
        "section",
        el("h2", "The paper's claims", id="claims"),
        el("p", intro),
        _tally(claims),
        *(_claim(*each) for each in claims),
    )


def _tally(claims: Sequence[tuple[Claim, list[Evidence]]]) -> Markup:
    rows = []
    for claim, evidence in claims:
        counts = Counter(each.verdict for each in evidence)
        numbers = [badge(v, str(counts[v])) if counts[v] else "–" for v in Verdict]
        rows.append([_link(f"claim-{claim.number}", claim.number), claim.text, *numbers])
    return table("Comparisons by verdict", ["claim", "what the paper says", *Verdict], rows, texts=2, kind="tally")


def _claim(claim: Claim, evidence: Sequence[Evidence]) -> Markup:
    rows = [[each.panel, each.comparison, each.finding, badge(each.verdict)] for each in evidence]
    headings = ["panel", "comparison", "found", "verdict"]
    found = table("", headings, rows, texts=4) if rows else join()
    return el(
        "article",
        el("p", f"Claim {claim.number} · {claim.source}", class_="source"),
        el("h3", claim.text),
        el("p", outcome(evidence)),
        found,
        class_="claim",
        id=f"claim-{claim.number}",
    )


def outcome(evidence: Sequence[Evidence]) -> str:
    """What became of a claim, in a sentence."""
    counts, n = Counter(each.verdict for each in evidence), len(evidence)
    if not n:
        return "Not tested: this run has no panel that bears on it."
    for verdict, words in (
        (Verdict.SUPPORTED, "Supported in"),
        (Verdict.CONTRADICTED, "Contradicted in"),
        (Verdict.UNSETTLED, "Left open by"),
    ):
        if counts[verdict] == n:
            return f"{words} {'the one comparison' if n == 1 else f'all {n} comparisons'}."
    return "Of {} comparisons: {}.".format(n, ", ".join(f"{counts[v]} {v}" for v in Verdict if counts[v]))


def _section(name: str, results: Sequence[Result]) -> Markup:
    body = _table1(name, results) if name == "table1" else join(*(_panel(name, result) for result in results))
    return el("section", el("h2", HEADINGS[name], id=name), body, class_="major")


def _table1(name: str, results: Sequence[Result]) -> Markup:
    headings = ["panel", "row", "paper: mean (std)", "ours: mean (std)", "95% interval of our mean"]
    headings += ["95% of our means of 5 repeats"]
    rows = [_check(result, check) for result in results for check in check_published(result)]
    best = [_best_row(result) for result in results]
    panels = [
        el("div", picture(plots.inline(plots.draw_published(result), _id(name, result)), ""), id=_id(name, result))
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
    inside = _inside(check, ends)
    kind, word = ("supported", "✓ inside") if inside else ("not-settled", "✗ outside")
    return el("td", f"{ends[0]:,.0f} to {ends[1]:,.0f} ", el("span", word, class_=f"badge {kind}"), class_="number")


def _best_row(result: Result) -> list[str]:
    rows = {row.tuner: row for row in summary(result)}
    best, *close = candidates_for_best(result)
    label = min(alphas_of(result), key=lambda each: rows[each].mean)
    means = [f"{rows[each].mean:,.1f} ± {rows[each].error:.1f}" for each in (label, "Theory")]
    return [result.experiment.title, f"{best:g}", means[0], listed(close), means[1]]


def _panel(section: str, result: Result) -> Markup:
    rows, name = summary(result), _id(section, result)
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
    close = _close(rows, repeats)
    apart = [row.tuner for row in others if row.tuner not in close]
    said = f"{best.tuner} has the least mean regret."
    if apart:
        said += f" The evidence sets it apart from {', '.join(apart)}"
        said += f", but not from {', '.join(close)}." if close else ": from all the others."
    elif close:
        said += f" The evidence does not set it apart from any other: {', '.join(close)}."
    return said


def _close(rows: Sequence[Row], repeats: int) -> list[str]:
    """The tuners that the evidence does not set apart from the best."""
    return [row.tuner for row in rows[1:] if row.low <= 0 or repeats < FEWEST]


def _finals(result: Result, rows: Sequence[Row], size: str) -> Markup:
    split = {each.tuner: each for each in plots.splits(result)}
    headings = ["tuner", "mean", "std. error", "above the best", "95% interval", "warm-up", "tuning", "learning"]
    cells = []
    for row in rows:
        parts = split[row.tuner]
        above = ["best", ""] if row is rows[0] else [number(row.difference), f"{number(row.low)} to {number(row.high)}"]
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


def _reading() -> Markup:
    terms = {
        "Regret": "the mean reward of the best arm minus that of the arm played, summed over rounds.",
        "Paired": "all tuners of a panel meet the same worlds (arms, noise), so they are compared world by world.",
        "95% interval": "bootstrap over repeats (10,000 resamples, percentiles); too narrow with few repeats.",
        "Standard error": "of the mean over repeats; std is the spread of single repeats, as the paper prints it.",
        "Warm-up": "regret of the first, random rounds (the paper's Quantity C); its experiments have none.",
        "Tuning": "what the tuner lost against its best single candidate on the same history (Quantity B); estimated "
        "from every fourth round.",
        "Learning": "what that candidate itself lost (Quantity A).",
    }
    entries = [el("li", el("b", f"{term}: "), text) for term, text in terms.items()]
    return el("section", el("h2", "How to read this page", id="reading"), el("ul", *entries))


def _settings(sections: Sections, settings: Mapping[str, str], wall: Mapping[str, float]) -> Markup:
    results = [result for name in HEADINGS for result in sections.get(name, [])]
    lines = [[name, value] for name, value in (versions() | dict(settings)).items()]
    total = sum(result.seconds for result in results)
    rows = [_panel_settings(result, wall) for result in results]
    rows.append(["All", "", "", "", time_text(sum(wall.values())) if wall else "–", time_text(total)])
    parts = [[r.experiment.title, spec_text(r.experiment.environment), spec_text(r.experiment.policy)] for r in results]
    tuners = [row for name in HEADINGS for row in _tuner_rows(name, sections.get(name, []))]
    notice = [el("h3", "Data"), el("p", NOTICE)] if any(_is_movielens(result) for result in results) else []
    return el(
        "section",
        el("h2", "Settings, versions and time", id="settings"),
        table("Versions and command", ["what", "value"], lines, texts=2),
        table("Size and time of each panel", ["panel", "rounds", "repeats", "seeds", "wall time", "CPU time"], rows),
        table("Worlds and policies", ["panel", "world", "policy"], parts, texts=3),
        table("Tuners", ["where", "label", "tuner"], tuners, texts=3),
        *notice,
    )


def versions() -> dict[str, str]:
    """What the numbers were computed with."""
    return {
        "syndicated": version("syndicated"),
        "Python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


def _is_movielens(result: Result) -> bool:
    return bool(result.experiment.environment["name"] == "MovieLens")


def _panel_settings(result: Result, wall: Mapping[str, float]) -> list[str]:
    e = result.experiment
    seeds = f"{e.seed} to {e.seed + e.repeats - 1}" if e.repeats > 1 else str(e.seed)
    took = time_text(wall[e.name]) if e.name in wall else "–"
    return [e.title, f"{e.horizon:,}", str(e.repeats), seeds, took, time_text(result.seconds)]


def time_text(seconds: float) -> str:
    """Seconds as a person reads them.

    >>> time_text(4.25), time_text(754)
    ('4.2 s', '12 min 34 s')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if seconds >= 60 else f"{seconds:.1f} s"


def _tuner_rows(section: str, results: Sequence[Result]) -> list[list[str]]:
    """What a section's labels stand for, each once; labels of a grid share a line."""
    labels: dict[str, list[str]] = {}
    for label, spec in dict(pair for result in results for pair in result.experiment.tuners.items()).items():
        labels.setdefault("Fixed(α)" if spec["name"] == "Fixed" else spec_text(spec), []).append(label)
    return [[HEADINGS[section].split(":")[0], ", ".join(each), spec] for spec, each in labels.items()]


def spec_text(spec: Spec) -> str:
    """A part and its parameters on one line.

    >>> spec_text({"name": "TwoLayer", "space": {"alpha": [0, 1]}, "horizon": 10})
    'TwoLayer(alpha in {0, 1}, horizon=10)'
    """
    said = []
    for name, value in spec.items():
        if name == "space":
            said += [f"{axis} in {{{', '.join(f'{each:g}' for each in values)}}}" for axis, values in value.items()]
        elif name != "name":
            said.append(f"{name}={f'{value:.4g}' if isinstance(value, float) else value}")
    return f"{spec['name']}({', '.join(said)})"
