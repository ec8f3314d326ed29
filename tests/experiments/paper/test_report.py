"""The report: it holds every panel, table and claim, says no more than the evidence, and needs nothing but itself."""

import re
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from support.experiments import PANELS, grid, made, sections, spread
from support.html_reader import Reader

from syndicated.experiments import Experiment, areas
from syndicated.experiments.paper import CLAIMS
from syndicated.experiments.paper import _claims as claims
from syndicated.experiments.paper import _experiments as paper
from syndicated.experiments.paper import _report as page
from syndicated.experiments.paper._claims import Verdict

HOSTILE = "<script>alert('x')</script> & \"quoted\""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "report.html"
    page.write_report(file, sections(), {"Command": "reproduce all"})
    return file


@pytest.fixture(scope="module")
def reader(whole: Path) -> Reader:
    return Reader(whole.read_text())


def test_tags_are_closed_in_order(reader: Reader) -> None:
    assert reader.open == []
    assert reader.tags["h1"] == 1


def test_every_panel_table_and_claim_is_there(reader: Reader) -> None:
    ids = set(reader.values("id"))
    for name, experiments in PANELS.items():
        assert name in ids
        for experiment in experiments:
            assert f"{name}-{experiment.name}" in ids
            assert experiment.title in reader.text
    for claim in CLAIMS:
        assert f"claim-{claim.number}" in ids
        assert claim.text in reader.text


def test_every_figure_is_there(reader: Reader) -> None:
    figures = [e for name in ("figure2", "figure3") for e in PANELS[name]]
    drawn = sum(len(areas(made(e, spread(e)), tuner)) for e in figures for tuner in e.tuners)
    assert reader.tags["svg"] == len(PANELS["table1"]) + 2 * len(figures) + drawn


def test_ids_are_unique_and_links_and_references_lead_somewhere(whole: Path, reader: Reader) -> None:
    ids = Counter(reader.values("id"))
    assert max(ids.values()) == 1
    links = reader.values("href") + reader.values("xlink:href")
    links += re.findall(r"url\((#[^)]+)\)", whole.read_text())
    assert len(links) > 100
    assert {link.removeprefix("#") for link in links} <= set(ids)


def test_the_page_asks_for_nothing_from_elsewhere(whole: Path, reader: Reader) -> None:
    text = whole.read_text()
    assert not {"script", "link", "iframe", "img", "object", "embed", "base", "form"} & set(reader.tags)
    assert not reader.values("src")
    assert not [name for _, name, _ in reader.attributes if name.startswith("on")]
    assert "http:" not in text
    assert "https:" not in text
    assert "@import" not in text
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in reader.values("content")


def test_the_page_is_small_and_always_the_same(whole: Path, tmp_path: Path) -> None:
    few = {"table1": sections()["table1"][:1]}
    for name in ("one", "two"):
        page.write_report(tmp_path / name, few)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert whole.stat().st_size < 3_000_000


def test_settings_seeds_and_times_are_told(reader: Reader) -> None:
    for said in ("reproduce all", "1 min 15 s", "1 to 6", "numba"):
        assert said in reader.text


def test_every_text_is_escaped() -> None:
    experiment = Experiment(
        name="a 'strange' <name>",
        title=HOSTILE,
        environment={"name": HOSTILE},
        policy={"name": HOSTILE, "dim": HOSTILE},
        tuners={f"{HOSTILE} {n}": {"name": "TwoLayer", "space": {"alpha": [0, n]}} for n in (1, 2)},
    )
    read = Reader(page.report({"figure2": [made(experiment, spread(experiment))]}, {HOSTILE: HOSTILE}))
    assert read.open == []
    assert read.tags["script"] == 0
    assert read.text.count(HOSTILE) > 10


def test_claims_without_panels_are_not_tested() -> None:
    text = page.report({"table1": sections()["table1"][:1]}, {})
    assert text.count("Not tested: ") == 9


def test_the_head_counts_verdicts_printed_numbers_and_winners(reader: Reader) -> None:
    counts = Counter(each.verdict for _, evidence in claims.weighed(sections()) for each in evidence)
    assert f"supports {counts[Verdict.SUPPORTED]} of them, contradicts {counts[Verdict.CONTRADICTED]}," in reader.text
    assert "Of the 4 means that Table 1 prints, 0 lie in" in reader.text
    two, three = len(PANELS["figure2"]), len(PANELS["figure3"])
    assert f"Theory in {two}, OP in {three}; in {two + three} of them" in reader.text


def test_a_published_mean_counts_when_it_lies_in_the_interval() -> None:
    experiment = paper.TABLE1[0]
    finals = grid(4, theory=1.0)
    finals["Theory"] = [experiment.published["Theory"][0] + each for each in (-2, -1, 0, 1, 2)]
    made_up = {"table1": [made(experiment, {label: each[:5] for label, each in finals.items()})]}
    assert "2 means that Table 1 prints, 1 lie in" in Reader(page.report(made_up, {})).text


def test_a_shorter_run_says_so_and_is_not_held_against_the_printed_numbers(reader: Reader) -> None:
    short = {"table1": [made(replace(paper.TABLE1[0], horizon=100), grid(4, 20))]}
    text = " ".join(Reader(page.report(short, {})).text.split())
    assert "Not the paper's size: panels here have 100 rounds" in text
    assert "means that Table 1 prints" not in text
    assert "Not the paper" not in reader.text


def test_the_page_opens_in_a_browser_without_network_and_without_a_word_on_the_console(
    whole: Path, tmp_path: Path
) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if not browser:
        pytest.skip("neither chromium nor chromium-browser is on the path")
    options = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
    options += " --disable-component-update --disable-quic --enable-logging=stderr --v=0 --dump-dom"
    no_network = "--host-resolver-rules=MAP * ~NOTFOUND"
    told = [browser, *options.split(), no_network, f"--user-data-dir={tmp_path}", whole.as_uri()]
    seen = subprocess.run(told, capture_output=True, text=True, timeout=600, check=True)
    assert "CONSOLE" not in seen.stderr
    assert Reader(seen.stdout).tags["svg"] == Reader(whole.read_text()).tags["svg"]
