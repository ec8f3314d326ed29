"""The last section of the page: what was run, with what, and how long it took."""

from collections.abc import Mapping, Sequence

from syndicated.datasets.movielens import NOTICE
from syndicated.experiments.formatting import spec_text, time_text, versions
from syndicated.experiments.paper._html import Markup, el, table
from syndicated.experiments.paper._panels import HEADINGS
from syndicated.experiments.paper.claims import Sections
from syndicated.experiments.results import Result


def settings_section(sections: Sections, settings: Mapping[str, str]) -> Markup:
    results = [result for name in HEADINGS for result in sections.get(name, [])]
    lines = [[name, value] for name, value in (versions() | dict(settings)).items()]
    total = sum(result.seconds for result in results)
    rows = [_panel_settings(result) for result in results]
    rows.append(["All", "", "", "", time_text(total)])
    parts = [[r.experiment.title, spec_text(r.experiment.environment), spec_text(r.experiment.policy)] for r in results]
    tuners = [row for name in HEADINGS for row in _tuner_rows(name, sections.get(name, []))]
    notice = [el("h3", "Data"), el("p", NOTICE)] if any(_is_movielens(result) for result in results) else []
    return el(
        "section",
        el("h2", "Settings, versions and time", id="settings"),
        table("Versions and command", ["what", "value"], lines, texts=2),
        table("Size and time of each panel", ["panel", "rounds", "repeats", "seeds", "CPU time"], rows),
        table("Worlds and policies", ["panel", "world", "policy"], parts, texts=3),
        table("Tuners", ["where", "label", "tuner"], tuners, texts=3),
        *notice,
    )


def _is_movielens(result: Result) -> bool:
    return bool(result.experiment.environment["name"] == "MovieLens")


def _panel_settings(result: Result) -> list[str]:
    e = result.experiment
    seeds = f"{e.seed} to {e.seed + e.repeats - 1}" if e.repeats > 1 else str(e.seed)
    return [e.title, f"{e.horizon:,}", str(e.repeats), seeds, time_text(result.seconds)]


def _tuner_rows(section: str, results: Sequence[Result]) -> list[list[str]]:
    """What a section's labels stand for, each once; labels of a grid share a line."""
    labels: dict[str, list[str]] = {}
    for label, spec in dict(pair for result in results for pair in result.experiment.tuners.items()).items():
        labels.setdefault("Fixed(α)" if spec["name"] == "Fixed" else spec_text(spec), []).append(label)
    return [[HEADINGS[section].split(":")[0], ", ".join(each), spec] for spec, each in labels.items()]
