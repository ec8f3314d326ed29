"""The report: it holds every panel, table and claim, says no more than the evidence, and needs nothing but itself."""

import re
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.html_reader import Reader

from syndicated._series import evenly_spaced
from syndicated.experiments import Experiment, Result, evidence_text, summary
from syndicated.experiments import _plots as plots
from syndicated.experiments.paper import _claims as claims
from syndicated.experiments.paper import _experiments as paper
from syndicated.experiments.paper import _report as page
from syndicated.experiments.paper._claims import CLAIMS, Evidence, Verdict
from syndicated.spec import build
from syndicated.tuners import TUNERS
from syndicated.types import Array

ROUNDS = np.array([1.0, 50.0, 100.0])
HOSTILE = "<script>alert('x')</script> & \"quoted\""


def made(experiment: Experiment, finals: dict[str, list[float]]) -> Result:
    """A result with these final regrets; a quarter of each is warm-up, an eighth is saved by tuning."""
    tuners = {label: np.array(finals[label])[:, None] * ROUNDS / 100 for label in experiment.tuners}
    repeats = len(next(iter(finals.values())))
    return Result(
        experiment=replace(experiment, repeats=repeats),
        rounds=ROUNDS,
        curves=tuners,
        warmup={label: curves / 4 for label, curves in tuners.items()},
        tuning={label: -curves / 8 for label, curves in tuners.items()},
        traces={label: uniform(experiment, label) for label in experiment.tuners},
        seconds=75.0,
    )


def uniform(experiment: Experiment, label: str) -> list[Array]:
    axes = build(TUNERS, experiment.tuners[label]).axes()
    return [np.full((len(ROUNDS), len(axis)), 1 / len(axis)) for axis in axes]


def spread(experiment: Experiment) -> dict[str, list[float]]:
    """Regrets of 10, 20, ... in the order of the tuners, alike in 6 repeats but for a small step."""
    return {label: [10.0 * (i + 1) + r for r in range(6)] for i, label in enumerate(experiment.tuners)}


# Some panels of each kind stand for all, since drawing takes most of the time.
PANELS = {"table1": paper.TABLE1[:2], "figure2": paper.FIGURE2[::3], "figure3": paper.FIGURE3[-1:]}


def sections() -> dict[str, list[Result]]:
    return {name: [made(e, spread(e)) for e in experiments] for name, experiments in PANELS.items()}


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
    areas = sum(len(plots.areas(made(e, spread(e)), tuner)) for e in figures for tuner in e.tuners)
    assert reader.tags["svg"] == len(PANELS["table1"]) + 2 * len(figures) + areas


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


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ([11.0, 12.0, 13.0, 12.0, 11.0], Verdict.SUPPORTED),
        ([9.0, 8.0, 7.0, 8.0, 9.0], Verdict.CONTRADICTED),
        ([11.0, 9.0, 12.0, 8.0, 10.0], Verdict.UNSETTLED),
        ([12.0, 12.0, 12.0, 12.0], Verdict.UNSETTLED),  # too few repeats
    ],
)
def test_verdicts_follow_the_paired_interval(more: list[float], verdict: Verdict) -> None:
    experiment = paper.FIGURE2[0]
    finals = {label: [10.0] * len(more) for label in experiment.tuners} | {"TL-Combined": more}
    evidence = CLAIMS[2].weigh([made(experiment, finals)])
    assert [(each.comparison, each.verdict) for each in evidence] == [("Syndicated below TL-Combined", verdict)]


def test_differences_are_paired_world_by_world() -> None:
    experiment = paper.FIGURE2[0]
    worlds = [10.0, 1000.0, 100.0, 500.0, 20.0]
    finals = dict.fromkeys(experiment.tuners, worlds) | {"TL-Combined": [each + 1 for each in worlds]}
    assert CLAIMS[2].weigh([made(experiment, finals)])[0].verdict is Verdict.SUPPORTED


def test_every_comparison_of_the_paper_is_made() -> None:
    found = {claim.number: len(evidence) for claim, evidence in claims.weighed(sections())}
    two, three = len(PANELS["figure2"]), len(PANELS["figure3"])
    expected = {"1a": 2 * two, "1b": two, "2a": two, "2b": two, "3": two, "4": three, "5": 6 * three, "6": 2 * three}
    assert found == expected | {"7": 2, "8": 1}


def test_claims_without_panels_are_not_tested() -> None:
    text = page.report({"table1": sections()["table1"][:1]}, {})
    assert text.count("Not tested: ") == 9


def grid(best: float, theory: float, noise: float = 0.0) -> dict[str, list[float]]:
    """Regret grows with the distance from the best alpha; with noise the whole grid is much alike."""
    finals = {f"alpha={a}": [10 + (noise or abs(a - best)) + noise * ((r + i) % 3) for r in range(6)]
              for i, a in enumerate(paper.GRID)}  # fmt: skip
    return finals | {"Theory": [theory] * 6}


@pytest.mark.parametrize(("theory", "verdict"), [(30.0, Verdict.SUPPORTED), (5.0, Verdict.CONTRADICTED)])
def test_theory_is_compared_with_the_best_of_the_grid(theory: float, verdict: Verdict) -> None:
    evidence = claims.theory_is_not_best([made(paper.TABLE1[0], grid(best=4, theory=theory))])
    assert [each.verdict for each in evidence] == [verdict]


def test_the_best_of_a_noisy_grid_is_not_taken_for_better_than_theory() -> None:
    rng, above, least = np.random.default_rng(0), [], []
    for _ in range(100):
        finals = {f"alpha={a}": rng.normal(10, 1, size=6).tolist() for a in paper.GRID} | {"Theory": [10.0] * 6}
        result = made(paper.TABLE1[0], finals)
        above.append(claims.above_the_held_out_best(result).mean())
        least.append(min(result.final(label).mean() for label in finals))
    assert np.mean(least) < 9.5  # what is picked by its own regret looks better than it is
    assert abs(np.mean(above)) < 0.15  # three standard errors of a mean of 100 whose spread is 0.5


@pytest.mark.parametrize(
    ("fixed", "changing", "verdict"),
    [
        (grid(4, 20), grid(1, 20), Verdict.SUPPORTED),
        (grid(4, 20), grid(4, 20), Verdict.CONTRADICTED),
        (grid(4, 20), grid(1, 20, noise=3.0), Verdict.UNSETTLED),
    ],
)
def test_best_alphas_differ_if_none_may_be_best_in_both(
    fixed: dict[str, list[float]], changing: dict[str, list[float]], verdict: Verdict
) -> None:
    evidence = claims.best_alpha_differs([made(paper.TABLE1[0], fixed), made(paper.TABLE1[1], changing)])
    assert [(each.panel, each.verdict) for each in evidence] == [("LinUCB", verdict)]


def test_the_outcome_of_a_claim_counts_its_verdicts() -> None:
    kinds = {v: Evidence("panel", "A below B", "", v) for v in Verdict}
    assert claims.outcome([kinds[Verdict.SUPPORTED]] * 3) == "Supported in all 3 comparisons."
    assert claims.outcome([kinds[Verdict.CONTRADICTED]]) == "Contradicted in the one comparison."
    mixed = [kinds[Verdict.SUPPORTED], kinds[Verdict.UNSETTLED], kinds[Verdict.UNSETTLED]]
    assert claims.outcome(mixed) == "Of 3 comparisons: 1 supported, 2 not settled."


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


def test_a_panel_names_only_whom_the_evidence_sets_apart() -> None:
    experiment = replace(paper.FIGURE2[0], tuners={name: {"name": "Theory"} for name in "ABC"})
    finals = {"A": [10.0, 11, 9, 10, 10], "B": [10.5, 9, 11, 12, 10], "C": [20.0, 21, 22, 20, 21]}
    said = evidence_text(summary(made(experiment, finals)), repeats=5)
    assert said == "A has the least mean regret. The evidence sets it apart from C, but not from B."
    few = evidence_text(summary(made(experiment, finals)), repeats=4)
    assert few == "A has the least mean regret. Fewer than 5 repeats settle nothing."


def test_a_product_is_shown_by_its_marginals() -> None:
    experiment = replace(
        paper.FIGURE2[0], tuners={"TL": {"name": "TwoLayer", "space": {"alpha": [0.1, 1], "lam": [2, 3, 4]}}}
    )
    result = made(experiment, {"TL": [1.0]})
    trace = np.tile([0.05, 0.10, 0.15, 0.20, 0.24, 0.26], (len(ROUNDS), 1))
    alpha, lam = plots.areas(replace(result, traces={"TL": [trace]}), "TL")
    assert (alpha.hyper, alpha.values, lam.hyper, lam.values) == ("alpha", [0.1, 1.0], "lam", [2.0, 3.0, 4.0])
    assert np.allclose(alpha.p, [0.30, 0.70])
    assert np.allclose(lam.p, [0.25, 0.34, 0.41])


def test_separate_axes_are_shown_as_they_are_and_no_choice_is_not_shown() -> None:
    experiment = paper.FIGURE2[0]
    result = made(experiment, spread(experiment))
    traces = [np.tile([0.1, 0.2, 0.3, 0.15, 0.25], (3, 1)), np.tile([0.5, 0.3, 0.2], (3, 1))]
    shown = plots.areas(replace(result, traces={"Syndicated": traces}), "Syndicated")
    assert [area.p.tolist() for area in shown] == [trace.tolist() for trace in traces]
    assert plots.areas(result, "Theory") == []


def test_thinning_keeps_both_ends() -> None:
    assert evenly_spaced(0, 199, 60)[[0, -1]].tolist() == [0, 199]
    assert len(evenly_spaced(0, 199, 60)) == 60
    assert evenly_spaced(0, 2, 60).tolist() == [0, 1, 2]


def test_the_parts_of_the_regret_sum_to_it() -> None:
    experiment = paper.FIGURE3[0]
    for split in plots.splits(made(experiment, spread(experiment))):
        assert split.warmup + split.tuning + split.learning == pytest.approx(split.regret)
        assert (split.warmup, split.tuning) == (split.regret / 4, -split.regret / 8)


def test_a_method_looks_the_same_in_every_figure() -> None:
    drawn = [plots.draw_regret([made(e, spread(e))]) for e in (paper.FIGURE2[0], paper.FIGURE3[0])]
    colours = [{line.get_label(): line.get_color() for line in figure.axes[0].lines} for figure in drawn]
    assert colours[0].keys() - {"Theory"} == colours[1].keys()
    assert all(colours[0][label] == colour for label, colour in colours[1].items())


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
    seen = subprocess.run(told, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in seen.stderr
    assert Reader(seen.stdout).tags["svg"] == Reader(whole.read_text()).tags["svg"]
