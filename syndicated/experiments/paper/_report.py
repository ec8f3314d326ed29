"""The whole paper on one page: every panel, every printed number, and the verdict on every claim.

What the page says is computed here; how it is laid out is in `report.html`, a template that escapes all text. The page
is one file: its figures are SVG inside it, it has no scripts, and it loads nothing.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from syndicated._extras import extra
from syndicated._figures import shades
from syndicated._files import write
from syndicated._formatting import signed_number
from syndicated._security_headers import REPORT_POLICY
from syndicated.datasets.movielens import NOTICE
from syndicated.experiments import _plots as plots
from syndicated.experiments._formatting import spec_text, time_text, versions
from syndicated.experiments._results import (
    MIN_REPEATS,
    RESAMPLES,
    Check,
    Result,
    SummaryRow,
    check_published,
    evidence_text,
    not_apart,
    summary,
)
from syndicated.experiments.paper._claims import (
    VERDICT_MARKS,
    Claim,
    Evidence,
    Sections,
    Verdict,
    alphas_of,
    candidates_for_best,
    close_text,
    outcome,
    weighed,
)

PAPER_HORIZON = 10_000
HEADINGS = {
    "table1": "Table 1: theory's exploration against the best of a grid",
    "figure2": "Figure 2: tuning LinUCB, LinTS and UCB-GLM",
    "figure3": "Figure 3: tuning SGD-TS",
}
FIGURES = ("figure2", "figure3")


def write_report(file: Path, sections: Sections, settings: Mapping[str, str] | None = None) -> None:
    """Write the page. `settings` are lines for its last section, such as the command and the number of processes."""
    write(file, report(sections, settings or {}))


def report(sections: Sections, settings: Mapping[str, str]) -> str:
    """The page as text."""
    with extra("experiments", "the report"):
        from jinja2 import Environment, StrictUndefined

    panels = {name: [_panel(name, result) for result in sections.get(name, [])] for name in HEADINGS}
    every = [panel for own in panels.values() for panel in own]
    claims = weighed(sections)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_file("report.html")).render(
        content_security_policy=REPORT_POLICY,
        css=_file("report.css"),
        verdicts=list(Verdict),
        marks=VERDICT_MARKS,
        min_repeats=MIN_REPEATS,
        resamples=RESAMPLES,
        headings={name: HEADINGS[name] for name, own in panels.items() if own},
        panels=panels,
        figures={name: _tuners(panels[name]) for name in FIGURES if panels[name]},
        other_horizons=sorted({panel.result.experiment.horizon for panel in every if not panel.full_size}),
        paper_horizon=PAPER_HORIZON,
        verdict=verdict_in_numbers(panels, claims),
        counts=Counter(each.verdict for _, evidence in claims for each in evidence),
        claims=claims,
        outcome=outcome,
        settings=versions() | dict(settings),
        cpu_time=time_text(sum(panel.result.seconds for panel in every)),
        tuner_rows=[row for name, own in panels.items() for row in _tuner_rows(name, own)],
        notice=NOTICE if any(_plays_movielens(panel.result) for panel in every) else "",
        area_keys=area_keys,
        spec_text=spec_text,
        time_text=time_text,
    )


def _file(name: str) -> str:
    return files("syndicated.experiments.paper").joinpath(name).read_text()


@dataclass(frozen=True, eq=False)
class Panel:
    """A panel of the page: a result, with the rows and checks that several places of the page show."""

    anchor: str
    result: Result
    rows: Sequence[SummaryRow]
    checks: Sequence[Check]

    @property
    def title(self) -> str:
        return self.result.experiment.title

    @property
    def full_size(self) -> bool:
        """Whether it has as many rounds as the paper's."""
        return self.result.experiment.horizon == PAPER_HORIZON

    @property
    def size(self) -> str:
        e = self.result.experiment
        return f"{e.horizon:,} rounds, {e.repeats} repeat{'s' if e.repeats > 1 else ''}"

    @property
    def seeds(self) -> str:
        e = self.result.experiment
        return f"{e.seed} to {e.seed + e.repeats - 1}" if e.repeats > 1 else str(e.seed)

    @property
    def evidence(self) -> str:
        return evidence_text(self.rows, self.result.experiment.repeats)

    @property
    def is_settled(self) -> bool:
        """Whether the evidence sets the best tuner apart from all the others."""
        return not not_apart(self.rows, self.result.experiment.repeats)

    def mean(self, tuner: str) -> str:
        """The tuner's mean and standard error; a dash if it did not play here."""
        found = [row for row in self.rows if row.tuner == tuner]
        return f"{found[0].mean:,.1f} ± {found[0].error:.1f}" if found else "–"

    @property
    def best_of_grid(self) -> list[str]:
        """Of Table 1: the best alpha, its mean, the alphas that may be as good, and theory's mean."""
        best = candidates_for_best(self.result)[0]
        label = next(row.tuner for row in self.rows if row.tuner in alphas_of(self.result))
        return [self.title, f"{best:g}", self.mean(label), close_text(self.result), self.mean("Theory")]

    @property
    def finals(self) -> list[list[str]]:
        """The cells of the table of final regrets, one row for each tuner."""
        split = {each.tuner: each for each in plots.splits(self.result)}
        cells = []
        for row in self.rows:
            error = f"{row.error:.1f}" if np.isfinite(row.error) else "–"
            ends = f"{signed_number(row.low)} to {signed_number(row.high)}"
            above = ["best", ""] if row is self.rows[0] else [signed_number(row.difference), ends]
            own = split[row.tuner]
            parts = [f"{part:,.1f}".replace("-", "−") for part in (own.warmup, own.tuning, own.learning)]
            cells.append([row.tuner, f"{row.mean:,.1f}", error, *above, *parts])
        return cells

    @property
    def published_figure(self) -> str:
        return plots.inline(plots.draw_published(self.result), self.anchor)

    @property
    def regret_figure(self) -> str:
        return plots.inline(plots.draw_regret([self.result]), f"{self.anchor}-regret")

    @property
    def split_figure(self) -> str:
        return plots.inline(plots.draw_split(self.result), f"{self.anchor}-split")

    @property
    def areas(self) -> dict[str, list[plots.Area]]:
        """What each tuner draws from, over rounds; nothing for one that has no choice."""
        return {tuner: plots.areas(self.result, tuner) for tuner in self.result.curves}

    def area_figure(self, area: plots.Area, place: int) -> str:
        return plots.inline(plots.draw_area(area), f"{self.anchor}-{place}-{area.hyper}")


def area_keys(areas: Mapping[str, Sequence[plots.Area]]) -> dict[str, list[tuple[float, str]]]:
    """The values of every hyper-parameter with their colours."""
    values = {area.hyper: area.values for own in areas.values() for area in own}
    return {
        plots.GREEK_LETTERS.get(hyper, hyper): list(zip(own, shades(len(own)), strict=True))
        for hyper, own in values.items()
    }


def _panel(section: str, result: Result) -> Panel:
    anchor = f"{section}-{re.sub(r'[^A-Za-z0-9-]+', '-', result.experiment.name)}"
    return Panel(anchor, result, summary(result), check_published(result))


def verdict_in_numbers(
    panels: Mapping[str, Sequence[Panel]], claims: Sequence[tuple[Claim, Sequence[Evidence]]]
) -> str:
    """One paragraph of counts."""
    counts = Counter(each.verdict for _, evidence in claims for each in evidence)
    said = (
        f"The paper's claims make {counts.total()} comparisons here. The evidence supports "
        f"{counts[Verdict.SUPPORTED]} of them, contradicts {counts[Verdict.CONTRADICTED]}, and does not settle "
        f"{counts[Verdict.UNSETTLED]}."
    )
    checks = [check for panel in panels["table1"] if panel.full_size for check in panel.checks]
    if checks:
        mean = sum(check.inside(check.mean_interval) for check in checks)
        five = sum(check.inside(check.five_interval) for check in checks)
        said += (
            f" Of the {len(checks)} means that Table 1 prints, {mean} lie in the 95% interval of our mean and {five} "
            "in the range where 95% of our means of 5 repeats fall."
        )
    drawn = [panel for name in FIGURES for panel in panels[name]]
    if drawn:
        firsts = Counter(panel.rows[0].tuner for panel in drawn)
        won = ", ".join(f"{tuner} in {count}" for tuner, count in firsts.most_common())
        said += (
            f" Over the {len(drawn)} panels of the figures the least mean regret is that of {won}; in "
            f"{sum(panel.is_settled for panel in drawn)} of them the evidence sets it apart from all the others."
        )
    return said


def _tuners(panels: Sequence[Panel]) -> list[str]:
    return list(dict.fromkeys(tuner for panel in panels for tuner in panel.result.curves))


def _tuner_rows(section: str, panels: Sequence[Panel]) -> list[list[str]]:
    """What the labels of a section stand for, each once; the labels of a grid share a line."""
    labels: dict[str, list[str]] = {}
    specs = {label: spec for panel in panels for label, spec in panel.result.experiment.tuners.items()}
    for label, spec in specs.items():
        labels.setdefault("Fixed(α)" if spec["name"] == "Fixed" else spec_text(spec), []).append(label)
    return [[HEADINGS[section].split(":")[0], ", ".join(each), spec] for spec, each in labels.items()]


def _plays_movielens(result: Result) -> bool:
    return bool(result.experiment.environment["name"] == "MovieLens")
