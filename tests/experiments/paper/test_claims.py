"""The paper's claims: what they compare, and the verdicts."""

import numpy as np
import pytest
from support.experiments import PANELS, grid, made, sections

from syndicated.experiments.paper import CLAIMS
from syndicated.experiments.paper import _claims as claims
from syndicated.experiments.paper import _experiments as paper
from syndicated.experiments.paper._claims import Evidence, Verdict


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ([11.0, 12.0, 13.0, 12.0, 11.0], Verdict.SUPPORTED),
        ([9.0, 8.0, 7.0, 8.0, 9.0], Verdict.CONTRADICTED),
        ([11.0, 9.0, 12.0, 8.0, 10.0], Verdict.UNSETTLED),
        ([12.0, 12.0, 12.0, 12.0], Verdict.UNSETTLED),  # too few repeats
        ([10.0] * 5, Verdict.UNSETTLED),  # equal in every repeat
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


@pytest.mark.parametrize(("theory", "verdict"), [(30.0, Verdict.SUPPORTED), (5.0, Verdict.CONTRADICTED)])
def test_theory_is_compared_with_the_best_of_the_grid(theory: float, verdict: Verdict) -> None:
    evidence = claims.theory_is_not_best([made(paper.TABLE1[0], grid(best=4, theory=theory))])
    assert [each.verdict for each in evidence] == [verdict]


def test_the_best_of_a_noisy_grid_is_not_taken_for_better_than_theory() -> None:
    rng, above, least = np.random.default_rng(0), [], []
    for _ in range(100):
        finals = {f"alpha={a}": rng.normal(10, 1, size=6).tolist() for a in paper.ALPHA_GRID} | {"Theory": [10.0] * 6}
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
