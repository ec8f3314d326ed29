"""The whole paper as one page: every panel, every printed number, and what became of every claim.

The page needs nothing but itself: figures are SVG inside it, there are no scripts, and it asks for nothing from
elsewhere. All text goes through `el`, which escapes it.
"""

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from syndicated._files import write
from syndicated.experiments.paper._claims import claims_section
from syndicated.experiments.paper._html import Markup, badge, class_of, el, join, link, table
from syndicated.experiments.paper._panels import HEADINGS, anchor, is_inside, not_apart, panels_section
from syndicated.experiments.paper._settings import settings_section
from syndicated.experiments.paper.claims import Claim, Evidence, Sections, Verdict, weighed
from syndicated.experiments.results import Result, check_published, summary

PAPER_HORIZON = 10_000
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def write_report(file: Path, sections: Sections, settings: Mapping[str, str] | None = None) -> None:
    """Write the page. `settings` are lines for its last section, as the command and the number of processes."""
    write(file, report(sections, settings or {}))


def report(sections: Sections, settings: Mapping[str, str]) -> str:
    """The page as text."""
    claims = weighed(sections)
    title = "Syndicated Bandits: the paper's experiments, run again"
    parts = [_head(title, sections, claims), _contents(sections), _overview(sections), claims_section(claims)]
    parts += [panels_section(name, sections[name]) for name in HEADINGS if sections.get(name)]
    parts += [_reading(), settings_section(sections, settings)]
    css = files("syndicated.experiments.paper").joinpath("report.css").read_text()
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
        mean = sum(is_inside(check, check.mean_interval) for check in checks)
        five = sum(is_inside(check, check.five_interval) for check in checks)
        said += (
            f" Of the {len(checks)} means that Table 1 prints, {mean} lie in the 95% interval of our mean and {five} "
            "in the range where 95% of our means of 5 repeats fall."
        )
    panels = _panels(sections)
    if panels:
        firsts = Counter(summary(result)[0].tuner for result in panels)
        won = ", ".join(f"{tuner} in {count}" for tuner, count in firsts.most_common())
        clear = sum(not not_apart(summary(result), result.experiment.repeats) for result in panels)
        said += (
            f" Over the {len(panels)} panels of the figures the least mean regret is that of {won}; in {clear} of them "
            "the evidence sets it apart from all the others."
        )
    return said


def _full(result: Result) -> bool:
    return result.experiment.horizon == PAPER_HORIZON


def _panels(sections: Sections) -> list[Result]:
    return [result for name in ("figure2", "figure3") for result in sections.get(name, [])]


def _bars(claims: Sequence[tuple[Claim, list[Evidence]]]) -> Markup:
    counts = Counter(each.verdict for _, evidence in claims for each in evidence)
    spans = [el("span", class_=class_of(v), style=f"flex: {counts[v]}") for v in Verdict if counts[v]]
    key = [join(badge(v, f"{counts[v]} {v}"), " ") for v in Verdict]
    return join(el("div", *spans, class_="bars", aria_hidden="true"), el("p", *key))


def _contents(sections: Sections) -> Markup:
    entries = [link("overview", "Final regret, all panels"), link("claims", "The paper's claims")]
    for name, heading in HEADINGS.items():
        if sections.get(name):
            inner = [el("li", link(anchor(name, result), result.experiment.title)) for result in sections[name]]
            entries.append(join(link(name, heading), el("ul", *inner)))
    entries += [link("reading", "How to read this page"), link("settings", "Settings, versions and time")]
    return el("nav", el("ol", *(el("li", entry) for entry in entries)), aria_label="Contents")


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
