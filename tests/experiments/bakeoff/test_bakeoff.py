"""The bake-off: its statistics against plain formulas, its players on a small set, and the command."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from math import sqrt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, rankdata

from syndicated import cli
from syndicated.cli import bakeoff as command
from syndicated.datasets import classification, movielens
from syndicated.datasets.classification import ClassificationSet
from syndicated.errors import InputError, TaskError
from syndicated.experiments import bakeoff
from syndicated.experiments.bakeoff import _bars, _peers, _players, _tasks, peer_worker
from syndicated.experiments.bakeoff._board import Board, Score, gather, significant, upper_tail
from syndicated.experiments.bakeoff._page import page
from syndicated.experiments.bakeoff._peers import Peers, end_worker, install_peers, play_peer
from syndicated.experiments.bakeoff._players import DEFAULT, PLAYERS, SUPERVISED, Stage, feasible
from syndicated.experiments.bakeoff._supervised import _loss
from syndicated.experiments.bakeoff._tasks import WARM_UP, BakeOff, Pass, PassTask, run_pass, standardised
from syndicated.policies import POLICIES
from syndicated.types import Array

RNG = np.random.default_rng(5)
X = RNG.normal(size=(120, 3))
LABELS = (X[:, 0] > 0).astype(np.int64) + 2 * (X[:, 1] > 1)
TEXT = "".join(f"{a:.4f},{b:.4f},{c:.4f},class{label}\n" for (a, b, c), label in zip(X, LABELS, strict=True)).encode()
SMALL = ClassificationSet("small", "small==1", "small.csv", hashlib.sha256(TEXT).hexdigest(), held_out=True)
OTHER = ClassificationSet("other", "small==1", "small.csv", hashlib.sha256(TEXT).hexdigest(), held_out=False)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClassificationSet:
    """A data set that is in the cache already."""
    (tmp_path / "classification").mkdir()
    (tmp_path / "classification" / "small.csv").write_bytes(TEXT)
    monkeypatch.setattr(movielens, "cache", lambda: tmp_path)
    monkeypatch.setattr(command, "cache", lambda: tmp_path)
    monkeypatch.setattr(classification, "CLASSIFICATION_SETS", (SMALL,))
    _tasks._rows.cache_clear()
    return SMALL


def score(reward: float, rounds: int = 1000, microseconds: float = 10.0) -> Score:
    return Score(rounds, 3, reward, 0.01, microseconds)


def board(**rewards: Sequence[float]) -> Board:
    """The rewards of players on two sets."""
    scores = {one.name: {who: score(own[i]) for who, own in rewards.items()} for i, one in enumerate([SMALL, OTHER])}
    return Board([SMALL, OTHER], scores)


# The statistics.


@pytest.mark.parametrize("n", [30, 300, 3000])
def test_a_difference_is_significant_by_the_z_test_of_bietti_agarwal_and_langford(n: int) -> None:
    for p, q in RNG.random((200, 2)):
        z = (p - q) / sqrt(p * (1 - p) / n + q * (1 - q) / n)
        expected = 1 if 1 - norm.cdf(z) < 0.05 else -1 if 1 - norm.cdf(-z) < 0.05 else 0
        assert significant(p, q, n) == expected


def test_equal_rewards_are_never_apart_and_sure_ones_always() -> None:
    assert significant(0.0, 0.0, 10) == significant(1.0, 1.0, 10) == 0
    assert significant(1.0, 0.0, 10) == 1


def test_the_upper_tail_is_that_of_the_normal_distribution() -> None:
    assert [upper_tail(z) for z in (-1.0, 0.0, 1.96)] == pytest.approx(norm.sf([-1.0, 0.0, 1.96]))


def test_ranks_are_those_of_the_rewards_and_equal_ones_share() -> None:
    rewards = {"a": [0.5, 0.2], "b": [0.5, 0.9], "c": [0.1, 0.4], "d": [0.7, 0.4]}
    found = board(**rewards)
    for i, one in enumerate(["small", "other"]):
        expected = rankdata([-own[i] for own in rewards.values()])
        assert [found.rank(one, who) for who in rewards] == expected.tolist()
    assert found.mean_rank("b") == (2.5 + 1) / 2


def test_who_did_not_play_everywhere_is_ranked_among_those_who_did() -> None:
    found = board(a=[0.5, 0.2], b=[0.4, 0.9])
    found.scores["other"]["some"] = score(0.5)
    assert found.everywhere == ["a", "b"]
    assert found.mean_rank("some") == 2
    assert found.mean_rank("a") == 1.5
    assert found.sets_of("some") == ["other"]


def test_the_supervised_fit_has_no_rank_and_is_what_regret_is_measured_from() -> None:
    found = board(**{SUPERVISED: [0.9, 0.8], "a": [0.5, 0.2]})
    assert found.everywhere == ["a"]
    assert found.mean_rank("a") == 1
    assert found.regret("a") == pytest.approx(0.5)
    assert found.reward("a") == pytest.approx(0.35)


def test_wins_and_losses_are_counted_over_the_sets() -> None:
    found = board(a=[0.5, 0.2], b=[0.4, 0.21])
    assert found.wins_and_losses("a", "b") == (1, 0)
    assert found.wins_and_losses("b", "a") == (0, 1)


def test_the_repeats_of_a_set_are_averaged() -> None:
    tasks = [PassTask("small", "a", 10, seed) for seed in (1, 2)]
    passes = [Pass(rounds=10, arms=3, reward=own, seconds=seconds) for own, seconds in ((4, 1e-4), (6, 3e-4))]
    found = gather([SMALL], tasks, passes).scores["small"]["a"]
    assert found.reward == pytest.approx(0.5)
    assert found.error == pytest.approx(0.1)
    assert found.microseconds == pytest.approx(20.0)
    assert np.isnan(gather([SMALL], tasks[:1], passes[:1]).scores["small"]["a"].error)


def test_the_bars_are_read_from_the_board() -> None:
    found = board(**{DEFAULT: [0.9, 0.9], "uniform": [0.3, 0.3], "VW bag": [0.8, 0.95]})
    rank, losses, time = _bars.bars(found)
    assert (rank.holds, losses.holds, time.holds) == (True, True, True)
    assert losses.measured == "1 to VW bag; behind none"
    worse = board(**{DEFAULT: [0.5, 0.9], "VW bag": [0.8, 0.95]})
    rank, losses, _ = _bars.bars(worse)
    assert (rank.holds, losses.holds) == (False, False)
    assert _bars.bars(board(uniform=[0.3, 0.3])) == []
    plain = board(**{DEFAULT: [0.5, 0.5], "greedy ridge": [0.8, 0.95], "ArmTS": [0.8, 0.8]})
    _, losses = _bars.bars(plain)
    assert (losses.measured, losses.holds) == ("2 to greedy ridge; behind greedy ridge", False)
    _, losses = _bars.bars(board(**{DEFAULT: [0.5, 0.5], "epsilon-greedy ridge": [0.5, 0.4]}))
    assert (losses.measured, losses.holds) == ("0 to any; behind none", True)
    assert "it did not play" in [bar.measured for bar in _bars.bars(board(**{DEFAULT: [1, 1], "river": [0, 0]}))]


# The players.


def test_numbers_are_standardised_and_columns_of_0_and_1_are_not() -> None:
    x = standardised(np.array([[1.0, 0.0, 5.0], [2.0, 1.0, 5.0], [3.0, 1.0, 5.0]]))
    assert x[:, 0].tolist() == pytest.approx([-sqrt(1.5), 0.0, sqrt(1.5)])
    assert x[:, 1:].tolist() == [[0, 0], [1, 0], [1, 0]]


def test_the_gradient_of_the_supervised_fit_is_that_of_its_loss() -> None:
    table = np.hstack([np.ones((9, 1)), RNG.normal(size=(9, 2))])
    hot = np.eye(3)[RNG.integers(3, size=9)]
    flat, step = RNG.normal(size=9), 1e-6
    slopes = [(_loss(flat + e, table, hot)[0] - _loss(flat - e, table, hot)[0]) / (2 * step) for e in step * np.eye(9)]
    assert _loss(flat, table, hot)[1] == pytest.approx(np.array(slopes), abs=1e-6)


def test_the_ridge_is_the_ridge_of_each_arm() -> None:
    player = _players.Ridge(Stage(3, 2, 1, LABELS), epsilon=0.0)
    for row, label in zip(X, LABELS, strict=True):
        player.learn(row, 1, float(label == 1))
    table = np.hstack([np.ones((len(X), 1)), X])
    expected = np.linalg.solve(table.T @ table + np.eye(4), table.T @ (LABELS == 1))
    assert player._thetas[1] == pytest.approx(expected)
    assert player._thetas[0].tolist() == [0, 0, 0, 0]


def test_dense_rows_have_one_and_the_context_in_the_arms_own_part() -> None:
    player = _players.DenseRows(Stage(2, 3, 1, LABELS), policy="LinUCB")
    player.decide(np.array([5.0, 6.0]))
    player.decide(np.array([7.0, 8.0]))
    assert player._table.tolist() == np.kron(np.eye(3), [1.0, 7.0, 8.0]).tolist()


def test_dense_rows_have_a_limit_and_the_others_have_none() -> None:
    assert feasible("LinUCB, dense rows", columns=99, arms=3)
    assert not feasible("LinUCB, dense rows", columns=100, arms=3)
    assert feasible("GLMUCB, dense rows", columns=49, arms=2)
    assert not feasible("GLMUCB, dense rows", columns=50, arms=2)
    assert feasible("GPTS, dense rows", columns=9, arms=3)
    assert not feasible("GPTS, dense rows", columns=10, arms=3)
    assert feasible("uniform", columns=10**6, arms=3)
    assert feasible("VW bag", columns=10**6, arms=3)


def test_every_policy_of_this_package_plays() -> None:
    named = {"ArmUCB": DEFAULT, "ArmTS": "ArmTS"}
    for policy in POLICIES.built_in:
        labels = [named.get(policy, f"{policy}, {kind} rows") for kind in ("dense", "sparse")]
        assert not PLAYERS.keys().isdisjoint(labels), policy


@pytest.mark.parametrize(
    "label",
    [DEFAULT, "LinUCB, dense rows", "DiagonalUCB, sparse rows", "greedy ridge", "epsilon-greedy ridge", SUPERVISED],
)
def test_a_player_earns_more_than_a_uniform_one_and_the_same_again(small: ClassificationSet, label: str) -> None:
    one, again = (run_pass(PassTask("small", label, 100, seed=1)) for _ in range(2))
    uniform = run_pass(PassTask("small", "uniform", 100, seed=1))
    assert one["reward"] == again["reward"] > 1.2 * uniform["reward"]
    assert (one["rounds"], one["arms"]) == (100, 4)


def test_compiled_code_is_loaded_before_the_time_is_taken(
    small: ClassificationSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[int] = []

    class Counting(_players.Uniform):
        def __init__(self, stage: Stage) -> None:
            super().__init__(stage)
            rounds.append(0)

        def learn(self, x: Array, arm: int, reward: float) -> None:
            rounds[-1] += 1

    monkeypatch.setitem(PLAYERS, "counting", _players.BakeOffPlayer(Counting, ""))
    assert run_pass(PassTask("small", "counting", 100, 1))["rounds"] == 100
    assert rounds == [WARM_UP, 100]


def test_every_policy_that_is_listed_can_be_made() -> None:
    for label, player in PLAYERS.items():
        assert player.make(Stage(2, 3, 1, LABELS)).decide(np.array([0.5, -0.5])) in range(3), label


def test_a_failure_names_the_task(small: ClassificationSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLAYERS, "broken", _players.BakeOffPlayer(lambda stage: 1 / 0, ""))  # type: ignore[arg-type, return-value]
    with pytest.raises(TaskError, match="broken on small, seed 1 failed: ZeroDivisionError"):
        run_pass(PassTask("small", "broken", 100, 1))


def test_the_key_changes_with_what_the_rewards_depend_on_and_not_with_where(small: ClassificationSet) -> None:
    base = PassTask("small", "VW bag", 100, 1, "vowpalwabbit 9", "/a/python")
    others = [
        PassTask("small", "VW cover", 100, 1, "vowpalwabbit 9"),
        PassTask("small", "VW bag", 99, 1, "vowpalwabbit 9"),
        PassTask("small", "VW bag", 100, 2, "vowpalwabbit 9"),
        PassTask("small", "VW bag", 100, 1, "vowpalwabbit 10"),
    ]
    assert len({base.key, *(other.key for other in others)}) == 5
    assert PassTask("small", "VW bag", 100, 1, "vowpalwabbit 9", "/b/python").key == base.key


def test_players_that_are_not_known_and_sizes_that_are_none_are_refused(small: ClassificationSet) -> None:
    with pytest.raises(InputError, match=r"a player must be one of Agent\(\), .*; got 'VW bag'"):
        BakeOff([small], ["VW bag"], Peers())
    with pytest.raises(InputError, match="rows must be"):
        BakeOff([small], [], Peers(), max_rows=0)


# Other libraries.


class Always:
    """A library's player in the worker: plays arm 1."""

    def __init__(self, what: str, arms: int, seed: int) -> None:
        self.learned: list[tuple[int, float]] = []

    def decide(self, x: Any) -> int:
        return 1

    def learn(self, x: Any, arm: int, reward: float) -> None:
        self.learned.append((arm, reward))


def test_a_pass_counts_every_round_and_teaches_its_reward() -> None:
    peer = Always("", 2, 1)
    outcome = peer_worker.play(peer, np.zeros((3, 1)), np.array([1, 0, 1]))
    assert outcome["rewards"] == [1, 0, 1]
    assert peer.learned == [(1, 1.0), (1, 0.0), (1, 1.0)]
    assert outcome["seconds"] > 0


def fake_wabbit(monkeypatch: pytest.MonkeyPatch, probabilities: Sequence[float]) -> list[list[str]]:
    """A `vowpalwabbit` whose predictions are these; the examples that it learned from."""
    learned: list[list[str]] = []

    class Workspace:
        def __init__(self, options: str) -> None:
            assert "--cb_explore_adf" in options

        def predict(self, example: list[str]) -> Sequence[float]:
            return probabilities

        def learn(self, example: list[str]) -> None:
            learned.append(example)

    monkeypatch.setitem(sys.modules, "vowpalwabbit", SimpleNamespace(Workspace=Workspace))
    return learned


def test_vowpal_wabbit_is_given_the_context_the_cost_and_the_probability_of_what_was_played(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learned = fake_wabbit(monkeypatch, [0.0, 0.0, 1.0])
    wabbit = peer_worker.VowpalWabbit("--bag 5", 3, 1)
    x = np.array([0.25, 0.0, -2.0])
    assert wabbit.decide(x) == 2
    wabbit.learn(x, 2, 1.0)
    assert learned == [["shared |x 0:0.25 2:-2", "|a 0", "|a 1", "0:0.0:1.0 |a 2"]]


def test_vowpal_wabbits_arms_are_drawn_with_their_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_wabbit(monkeypatch, [0.2, 0.7, 0.1])
    wabbit = peer_worker.VowpalWabbit("", 3, 1)
    played = np.bincount([wabbit.decide(np.ones(1)) for _ in range(3000)], minlength=3) / 3000
    assert played == pytest.approx([0.2, 0.7, 0.1], abs=0.03)


def test_coba_learns_the_action_with_the_probability_that_it_was_played_with(monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[tuple[Any, ...]] = []

    class LinUCBLearner:
        def __init__(self, seed: int) -> None:
            assert seed == 7

        def predict(self, context: list[float], actions: list[Any]) -> tuple[Any, float]:
            return actions[2], 0.5

        def learn(self, *given: Any) -> None:
            learned.append(given)

    monkeypatch.setitem(sys.modules, "coba.learners", SimpleNamespace(LinUCBLearner=LinUCBLearner))
    coba, x = peer_worker.Coba("LinUCBLearner", 3, 7), np.array([0.25, -2.0])
    assert coba.decide(x) == 2
    coba.learn(x, 2, 1.0)
    assert learned == [([0.25, -2.0], (0.0, 0.0, 1.0), 1.0, 0.5)]


def test_bayesianbandits_has_a_model_for_each_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[tuple[Any, ...]] = []

    class ContextualAgent:
        def __init__(self, arms: list[int], policy: str, random_seed: int) -> None:
            assert (arms, policy, random_seed) == ([0, 1, 2], "optimism", 7)

        def pull(self, X: Any) -> list[int]:
            return [len(X[0])]

        def update(self, X: Any, y: Any) -> None:
            learned.append((X.tolist(), y.tolist()))

    library = SimpleNamespace(
        Arm=lambda arm, learner: arm,
        NormalRegressor=lambda alpha, beta: None,
        ContextualAgent=ContextualAgent,
        UpperConfidenceBound=lambda: "optimism",
    )
    monkeypatch.setitem(sys.modules, "bayesianbandits", library)
    peer, x = peer_worker.BayesianBandits("UpperConfidenceBound", 3, 7), np.array([0.25, -2.0])
    assert peer.decide(x) == 2
    peer.learn(x, 2, 1.0)
    assert learned == [([[0.25, -2.0]], [1.0])]


WORKER = """
import json, sys
sys.path.insert(0, {folder!r})
import peer_worker
class Ones:
    def __init__(self, what, arms, seed): self.arm = seed % arms
    def decide(self, x):
        print("noise")
        return self.arm
    def learn(self, x, arm, reward): pass
peer_worker.PLAYERS = {{"VW bag": ("vowpalwabbit", Ones, "")}}
peer_worker.versions = lambda: {{"vowpalwabbit": "9.11"}}
peer_worker.main(sys.argv[1:])
"""


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A worker script with a player of its own in place of the libraries."""
    script = tmp_path / "worker.py"
    script.write_text(WORKER.format(folder=str(Path(peer_worker.__file__).parent)))
    fake = SimpleNamespace(__file__=str(script), PLAYERS={"VW bag": ("vowpalwabbit", None, "")})
    monkeypatch.setattr(_peers, "peer_worker", fake)
    return script


def test_a_player_of_another_library_plays_in_its_own_process(worker: Path) -> None:
    labels = np.array([1, 0, 1])
    try:
        first, second = (play_peer(sys.executable, "VW bag", seed, np.zeros((3, 2)), labels, 2) for seed in (1, 2))
        assert (first["rewards"], second["rewards"]) == ([1, 0, 1], [0, 1, 0])
        assert first["memory"] is None or first["memory"] > 1e6
        with pytest.raises(TaskError, match="KeyError: 'magic'"):
            play_peer(sys.executable, "magic", 1, np.zeros((3, 2)), labels, 2)
    finally:
        end_worker(_peers._worker(sys.executable))


def test_a_worker_that_died_is_said_and_replaced(worker: Path) -> None:
    dead = _peers._worker(sys.executable)
    dead.kill()
    dead.wait()
    with pytest.raises(TaskError, match="was killed"):
        play_peer(sys.executable, "VW bag", 1, np.zeros((3, 2)), np.array([1, 0, 1]), 2)
    again = _peers._worker(sys.executable)
    assert again is not dead
    end_worker(again)


def installer(monkeypatch: pytest.MonkeyPatch, failing: set[str], versions: dict[str, str]) -> list[str]:
    """Neither an environment nor pip: the packages that were asked for. Commands that end in `failing` fail."""
    asked: list[str] = []

    def run(command: list[str]) -> subprocess.CompletedProcess[str]:
        if "venv" in command:
            Path(command[-1]).mkdir(parents=True)
        if "install" in command:
            asked.append(command[-1])
        bad = command[-1] in failing
        out = json.dumps(versions) if command[-1] == "versions" else ""
        return subprocess.CompletedProcess(command, int(bad), out, "ERROR: no wheel" if bad else "")

    monkeypatch.setattr(_peers, "_run", run)
    return asked


def test_a_library_that_is_not_there_is_reported_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"vowpalwabbit": "9.11", "river": "0.26"}
    asked = installer(monkeypatch, {_peers.REQUIREMENTS["mabwiser"], "import river"}, here)
    said: list[str] = []
    for _ in range(2):
        peers = install_peers(tmp_path / "peers", said.append)
    assert asked == list(_peers.REQUIREMENTS.values())
    assert len(said) == 1
    assert peers.missing == {
        "mabwiser": "no wheel",
        "river": "it cannot be imported",
        "contextualbandits": "it is not installed",
    }
    assert {text.split()[0] for text in peers.players.values()} == {"vowpalwabbit"}
    assert peers.players["VW bag"] == "vowpalwabbit 9.11"


def test_libraries_for_small_problems_are_asked_for_by_who_has_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = installer(monkeypatch, set(), {"coba": "8.1", "river": "0.26"})
    peers = install_peers(tmp_path / "peers", small=True)
    assert asked == [*_peers.REQUIREMENTS.values(), *_peers.SMALL_REQUIREMENTS.values()]
    assert peers.players["coba LinUCB"] == "coba 8.1"
    assert peers.missing["bayesianbandits"] == "it is not installed"
    assert "coba LinUCB" not in install_peers(tmp_path / "peers").players


def test_versions_are_read_without_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_worker, "PEERS", ("numpy", "no-such-library"))
    monkeypatch.setattr(peer_worker, "import_module", None)
    assert peer_worker.versions() == {"numpy": np.__version__}


# The command and the page.


def one_process(work: Callable[[PassTask], Pass], jobs: int) -> Callable[..., Generator[tuple[PassTask, Pass]]]:
    def executor(tasks: Sequence[PassTask]) -> Generator[tuple[PassTask, Pass]]:
        yield from ((task, work(task)) for task in tasks)

    return executor


TWO = ["--player", "uniform", "--player", "greedy ridge", "--rows", "50", "--repeats", "2"]


def test_the_command_plays_writes_its_files_and_goes_on(
    small: ClassificationSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "processes_for", one_process)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    out = tmp_path / "out"
    assert cli.main(["bakeoff", "--no-peers", *TWO, "--out", str(out)]) == 0
    lines = (out / "bakeoff.csv").read_text().splitlines()
    assert lines[0] == "data,player,version,seed,rounds,reward,microseconds"
    assert [line.split(",")[:5] for line in lines[1:]] == [
        ["small", player, "", seed, "50"] for seed in "12" for player in ("uniform", "greedy ridge")
    ]
    text = (out / "bakeoff.md").read_text()
    warning = next(line for line in text.splitlines() if line.startswith("**Not the whole bake-off**"))
    assert warning.startswith(
        "**Not the whole bake-off**: at most 50 rows of a set in place of 2,000; repeats: 2 in place of 3; "
        "without the sets digits, "
    )
    assert "; without the players Agent(), " in warning
    assert "greedy ridge," not in warning.replace("epsilon-greedy ridge,", "")
    assert "1 sets, 1 of them held out; at most 50 rows of each; 2 repeats." in text
    assert "greedy ridge" in capsys.readouterr().out
    monkeypatch.setattr(bakeoff, "run_pass", lambda task: pytest.fail("it was run again"))
    assert cli.main(["bakeoff", "--no-peers", *TWO, "--out", str(out)]) == 0


def test_the_command_says_which_library_is_left_out(
    small: ClassificationSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "processes_for", one_process)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    peers = Peers("python", {}, {"river": "no wheel"})
    monkeypatch.setattr(bakeoff, "install_peers", lambda folder, say: peers)
    assert cli.main(["bakeoff", *TWO, "--out", str(tmp_path / "out")]) == 0
    assert "left out: river, no wheel" in capsys.readouterr().err
    assert "- **river is not here**: no wheel" in (tmp_path / "out" / "bakeoff.md").read_text()


def test_nothing_is_missing_from_the_whole_bakeoff() -> None:
    everybody = {label: score(0.5) for label in (*PLAYERS, *peer_worker.PLAYERS)}
    whole = Board(
        classification.CLASSIFICATION_SETS, {one.name: everybody for one in classification.CLASSIFICATION_SETS}
    )
    assert "Not the whole" not in page(whole, BakeOff(whole.sets, [], Peers()), {})
    assert "in place of" in page(whole, BakeOff(whole.sets, [], Peers(), repeats=1), {})


def test_the_page_has_every_player_set_and_comparison() -> None:
    found = board(**{DEFAULT: [0.9, 0.8], "uniform": [0.3, 0.3], "VW bag": [0.6, 0.95], SUPERVISED: [0.95, 0.97]})
    found.scores["other"]["ArmTS"] = score(0.9)
    peers = Peers("python", {"VW bag": "vowpalwabbit 9.11"})
    text = page(found, BakeOff(found.sets, [], peers), {"Time on the wall": "3 s"})
    assert "| Agent() | 1.50 | 1.00 | 0.850 | 0.11 | – | – | 10 | 2 |" in text
    assert "| VW bag | 1.50 | 2.00 | 0.775 | 0.185 | 1 | 1 | 10 | 2 |" in text
    assert "| ArmTS | 2.00 | – | 0.900 | 0.07 | 0 | 1 | 10 | 1 |" in text
    assert "| supervised logistic | – | – | 0.960 | 0 | – | – | 10 | 2 |" in text
    assert "| small | yes | 1,000 | 3 | 0.950 | 0.900 | 0.600 | VW bag |" in text
    assert "| 4. uniform | 0–2 | 0–2 | 0–1 |  |" in text
    assert "| vowpalwabbit | 9.11 |" in text
    assert "| Time on the wall | 3 s |" in text


def test_the_pages_limits_are_those_of_the_code() -> None:
    text = page(board(uniform=[0.3, 0.3]), BakeOff([SMALL, OTHER], [], Peers()), {})
    assert "at most 300 (LinUCB, LinTS, " in text
    assert "; 100 (DLinUCB, SWLinUCB, GLMUCB, GLMTSL, GLOC); 30 (NeuralUCB, NeuralTS, IGPUCB, GPTS)." in text
    assert "The bars" not in text
    assert "Everybody" not in text
