"""docs/algorithms.md: every policy and every tuner, as the first lines of its file describe it. To write it again:

.venv/bin/python tests/docs/test_algorithms.py
"""

import inspect
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from syndicated.policies import POLICIES
from syndicated.tuners import TUNERS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "algorithms.md"
POLICY_FAMILIES = {
    "Linear rewards": ["LinUCB", "LinTS", "EpsilonGreedy", "SquareCB", "RegCB"],
    "Linear rewards in worlds that change": ["DLinUCB", "SWLinUCB"],
    "Logistic rewards and other links": [
        *("UCBGLM", "GLMUCB", "GLMTSL", "GLOC", "LaplaceTS", "GradientLaplaceTS", "SGDTS"),
    ],
    "A model for each arm": ["ArmUCB", "ArmTS"],
    "Very many columns": ["DiagonalUCB", "DiagonalTS"],
    "Rewards of any shape": ["IGPUCB", "GPTS", "NeuralUCB", "NeuralTS"],
}
TUNER_FAMILIES = {
    "Nothing to tune": ["Theory", "Fixed", "Uniform"],
    "One shared model": ["Consensus", "Syndicated", "TwoLayer", "OP", "CDT", "ChampionChallenger", "BanditOverBandit"],
    "A model for each candidate": ["Corral", "StochasticCorral", "RegretBalancing", "D3RB", "ED2RB"],
}
INTRODUCTION = """# Every policy and every tuner

Made of the first lines of each file, which say the formula, what it needs, what it costs, its bound where there is one,
and where it is from. Which one to take: [agent.md](agent.md#which-model) and [tuners.md](tuners.md). What each was
compared with, and what was found: [against-the-papers.md](against-the-papers.md).
"""


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _index(title: str, families: Mapping[str, list[str]], doc: Mapping[str, str]) -> str:
    rows = [
        f"| {family if n == 0 else ''} | {_link(name)} | {_short(doc[name])} |"
        for family, names in families.items()
        for n, name in enumerate(names)
    ]
    return "\n".join([f"\n## {title}\n", "| | | |", "|---|---|---|", *rows]) + "\n"


def _short(doc: str) -> str:
    """What follows the name in the first line."""
    first = " ".join(doc.partition("\n\n")[0].split()).partition(". ")[0].rstrip(".")
    return first.partition(": ")[2] or first


def _section(name: str, doc: str, package: str, hyper: list[str]) -> str:
    file = f"[{name.lower()}.py](../syndicated/{package}/{name.lower()}.py)"
    known = "" if not hyper else " · hyper-parameters " + ", ".join(f"`{each}`" for each in hyper)
    return f"\n### {name}\n\n{file}{known}\n\n{_fenced(doc)}\n"


def _fenced(doc: str) -> str:
    """Formulas, which are indented, as blocks of text."""
    parts = [
        "```text\n" + inspect.cleandoc("\n" + part) + "\n```" if part.startswith("    ") else part
        for part in re.split(r"\n\n", doc.strip())
    ]
    return "\n\n".join(parts)


def page() -> str:
    docs = {name: inspect.getdoc(sys.modules[cls.__module__]) or "" for name, cls in {**POLICIES, **TUNERS}.items()}
    text = INTRODUCTION + _index("Policies", POLICY_FAMILIES, docs) + _index("Tuners", TUNER_FAMILIES, docs)
    text += "\n## Policies in full\n"
    for name in (name for names in POLICY_FAMILIES.values() for name in names):
        policy = POLICIES[name]
        text += _section(name, docs[name], "policies", [*policy.hyper, *policy.natural])
    text += "\n## Tuners in full\n"
    for name in (name for names in TUNER_FAMILIES.values() for name in names):
        text += _section(name, docs[name], "tuners", [])
    return text


def test_every_policy_and_every_tuner_has_its_family() -> None:
    assert sorted(name for names in POLICY_FAMILIES.values() for name in names) == sorted(POLICIES)
    assert sorted(name for names in TUNER_FAMILIES.values() for name in names) == sorted(TUNERS)


@pytest.mark.parametrize(
    "name", [*POLICIES, *(name for name in TUNERS if name not in TUNER_FAMILIES["Nothing to tune"])]
)
@pytest.mark.parametrize(
    "said", [r"[Nn]eeds?|needed", r"costs?\b|O\(", r"bound|[Rr]egret|guarantee"], ids=["need", "cost", "bound"]
)
def test_every_policy_and_every_tuner_says_what_it_needs_what_it_costs_and_its_bound(name: str, said: str) -> None:
    text = inspect.getdoc(sys.modules[{**POLICIES, **TUNERS}[name].__module__]) or ""
    assert re.search(said, text)


def test_every_policy_and_every_tuner_is_in_the_readme() -> None:
    table = (ROOT / "README.md").read_text().partition("## Policies and tuners")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"`(\w+)`", table)) == sorted([*POLICIES, *TUNERS])


def test_the_page_is_what_the_files_say() -> None:
    assert page() == PAGE.read_text(), "a docstring has changed: see the first lines of this file"


if __name__ == "__main__":
    PAGE.write_text(page())
