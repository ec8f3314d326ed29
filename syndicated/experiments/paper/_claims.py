"""The claims of the paper on the page, each with its evidence."""

from collections import Counter
from collections.abc import Sequence

from syndicated.experiments.paper._html import Markup, badge, el, join, link, table
from syndicated.experiments.paper.claims import FEWEST, Claim, Evidence, Verdict


def claims_section(claims: Sequence[tuple[Claim, list[Evidence]]]) -> Markup:
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
        rows.append([link(f"claim-{claim.number}", claim.number), claim.text, *numbers])
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
