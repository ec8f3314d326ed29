"""Logs in other forms: tables, data frames, Parquet files, lines that are whole rounds, and the Open Bandit Dataset."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from syndicated import Agent, InputError
from syndicated._frames import columns_of, frame_of
from syndicated._progress import progress_bar
from syndicated.cli import main
from syndicated.datasets import open_bandit as data
from syndicated.errors import DataError, MissingExtraError
from syndicated.evaluate import Log, evaluate, log_from_frame, read_log
from syndicated.policies import ArmUCB

TABLE: dict[str, list[Any]] = {
    "item": ["tea", "milk", "tea", "rum"],
    "click": [1, 0, 0, None],
    "p": [0.5, 0.25, 0.5, 0.25],
    "place": [3, 1, 3, 1],
    "age": [31.0, 27.0, 5.0, 1.0],
    "town": ["Kyoto", "Rome", "Oslo", "Rome"],
    "note": ["", "", "", ""],
}
NAMES: dict[str, Any] = {"arm": "item", "reward": "click", "propensity": "p", "position": "place"}
ALL: dict[str, Any] = {**NAMES, "context": ["age", "town"]}


def _rows(log: Log) -> list[Any]:
    return [(each.X.tolist(), each.place, each.propensity, each.reward, each.ids, each.position) for each in log.rounds]


def test_a_table_is_a_log() -> None:
    log = log_from_frame(TABLE, **ALL)
    first = log.rounds[0]
    assert (first.ids, first.place, first.position, first.reward) == (("milk", "rum", "tea"), 2, 1, 1.0)
    assert first.X.tolist() == [[31.0, 0.0, 0.0]] * 3  # Kyoto is the first of the towns
    assert log.rounds[1].X.tolist() == [[27.0, 0.0, 1.0]] * 3
    assert first.context == {"age": 31.0, "town": "Kyoto"}
    assert log.left_out == "1 without a reward, 0 without X, 0 not randomised, the columns note"
    wide = log_from_frame({**TABLE, **{f"column {k}": [0] * 4 for k in range(9)}}, **ALL)
    assert wide.left_out.endswith(", the columns note, column 0, column 1, column 2, column 3 and 5 more")
    assert (log.named, log.contexts_only, len(log.at_position(0).rounds)) == (True, True, 1)
    assert repr(log) == "<Log: 3 rounds, 3 arms, 3 features, mean reward 0.3333>"


def test_arms_of_a_table_may_have_features_or_the_table_no_context() -> None:
    features = {"tea": [1.0, 2.0], "milk": [3.0, 4.0], "rum": [5.0, 6.0]}
    log = log_from_frame(TABLE, **NAMES, arms=features)
    assert (log.rounds[0].ids, log.rounds[0].X.tolist()) == (("tea", "milk", "rum"), list(features.values()))
    assert not log.contexts_only
    assert log_from_frame(TABLE, **NAMES).rounds[0].X.tolist() == [[1.0]] * 3


MISSING_VALUES: dict[str, list[Any]] = {
    "arm": ["tea", "milk", "tea", "milk"],
    "reward": [1, 0, 0, 1],
    "propensity": [0.5] * 4,
    "age": [30, None, float("nan"), 40],
    "town": ["Kyoto", None, "Lyon", "Kyoto"],
}


def test_what_is_missing_in_a_context_is_missing_to_agents_and_the_mean_to_models(tmp_path: Path) -> None:
    log = log_from_frame(MISSING_VALUES, context=["age", "town"])
    assert [each.context["age"] for each in log.rounds if each.context] == [30, None, None, 40]
    assert [each.X[0].tolist() for each in log.rounds] == [[30, 1, 0], [35, 0, 0], [35, 0, 1], [40, 1, 0]]
    file = tmp_path / "log.csv"
    lines = ["tea,1,0.5,30,Kyoto", "milk,0,0.5,,", "tea,0,0.5,,Lyon", "milk,1,0.5,40,Kyoto"]
    file.write_text("\n".join([",".join(MISSING_VALUES), *lines]))
    assert _rows(read_log(file, context=["age", "town"])) == _rows(log)
    nothing = log_from_frame({**MISSING_VALUES, "age": [None] * 4}, context=["age"])
    assert nothing.rounds[0].X.tolist() == [[0.0]] * 2
    found = evaluate(log, Agent.for_arms(["age", "town"]))
    assert repr(found).startswith("<Evaluation: DR 0.")
    assert "; 4 rounds, " in repr(found)
    assert repr(found).endswith(f"{found.warnings[-1]}>")


def test_a_log_is_no_data_frame() -> None:
    with pytest.raises(InputError, match=r"^log must be a Log, as of read_log\(path\) or log_from_frame\(frame\); got"):
        evaluate(MISSING_VALUES, Agent())  # type: ignore[arg-type]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_of_any_library_are_logs_and_back(library: str) -> None:
    module = pytest.importorskip(library)
    log = log_from_frame(module.DataFrame(TABLE), **ALL)
    assert _rows(log) == _rows(log_from_frame(TABLE, **ALL))
    frame = log.to_frame(library)
    assert isinstance(frame, module.DataFrame)
    again = log_from_frame(frame, position="position", arms=["milk", "rum", "tea"])
    assert [row[1:] for row in _rows(again)] == [row[1:] for row in _rows(log)]


def test_files_are_read_by_their_names(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    text = ["" if value is None else str(value) for row in zip(*TABLE.values(), strict=True) for value in row]
    width = len(TABLE)
    lines = [",".join(TABLE), *(",".join(text[k : k + width]) for k in range(0, len(text), width)), ""]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    parquet.write_table(arrow.table(TABLE), tmp_path / "log.parquet")
    expected = _rows(log_from_frame(TABLE, **ALL))
    assert _rows(read_log(tmp_path / "log.csv", **ALL)) == expected
    assert _rows(read_log(tmp_path / "log.parquet", **ALL)) == expected
    assert _rows(log_from_frame(arrow.table(TABLE), **ALL)) == expected


def test_a_parquet_file_of_the_service_is_read_as_its_lines_are(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    decided = {"seq": 1, "kind": "decide", "bandit": "news", "place": 1, "propensity": 0.5, "ref": None, "learn": None}
    rows = [
        {**decided, "X": "[[1.0], [2.0]]", "arms": '["a", "b"]'},
        {"seq": 2, "kind": "reward", "bandit": "news", "ref": 1, "learn": 1.0},
    ]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "log.parquet")
    assert _rows(read_log(tmp_path / "log.parquet")) == [([[1.0], [2.0]], 1, 0.5, 1.0, ("a", "b"), None)]


def test_lines_without_a_kind_are_whole_rounds(tmp_path: Path) -> None:
    whole = [{"X": [[1.0], [2.0]], "place": k % 2, "propensity": 0.5, "reward": k, "position": 1} for k in range(3)]
    file = tmp_path / "log.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in [*whole, {**whole[0], "reward": None}]))
    log = read_log(file)
    assert [(each.place, each.reward, each.position) for each in log.rounds] == [(0, 0.0, 1), (1, 1.0, 1), (0, 2.0, 1)]
    assert log.unrewarded == 1


def test_a_line_without_a_kind_is_not_ignored(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text('{"action": 1, "prob": 0.5}\n')
    must = 'a line must have a "kind", or be a round with X, place, propensity and reward'
    with pytest.raises(InputError, match=f"^line 1 of log.jsonl: {must}; there is no X, place, propensity, reward in "):
        read_log(file)


def test_bad_tables_are_refused(tmp_path: Path) -> None:
    def refused(message: str, call: Any) -> None:
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value).startswith(message)

    def file(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    must = "a table must have the columns arm, reward, propensity, or others that are named, as in reward='click'"
    refused(f"{must}; it has ['item',", lambda: log_from_frame(TABLE))
    refused("a table must be a data frame or a mapping", lambda: log_from_frame(3))
    refused("the columns of a table must have the same length", lambda: log_from_frame({"a": [1], "b": []}))
    refused("row 1: item must be one of the arms; got 'milk'", lambda: log_from_frame(TABLE, **ALL, arms=["tea"]))
    refused(
        "row 1: arm must be the arm", lambda: log_from_frame({**MISSING_VALUES, "arm": ["tea", None, "tea", "tea"]})
    )
    refused("row 0: propensity must be between", lambda: log_from_frame({**TABLE, "p": [2.0] * 4}, **ALL))
    refused("log.csv must have a line with the names", lambda: read_log(file("log.csv", "")))
    refused("row 2 of log.csv must have 2 cells; got 1", lambda: read_log(file("log.csv", "a,b\n1\n")))
    refused("a table has no bandits to choose from", lambda: read_log(file("log.csv", "a,b\n1,2\n"), "news"))
    refused("log.jsonl is no table whose columns", lambda: read_log(file("log.jsonl", "{}"), arm="item"))
    refused("library must be one of pandas, polars; got 'dask'", lambda: frame_of({"a": [1]}, "dask"))
    pytest.importorskip("pyarrow")
    refused("log.parquet must be a Parquet file; ", lambda: read_log(file("log.parquet", "no")))


def test_without_a_library_of_data_frames_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syndicated._frames.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"^a data frame needs pandas or polars: pip install 'syndicated"):
        frame_of({"a": [1]})


def test_the_command_takes_tables_and_saved_agents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    places, ages = rng.integers(2, size=200), rng.normal(size=200)
    rows = [f"{'ab'[a]},{int(a == (x > 0))},0.5,{x:.3f}" for a, x in zip(places, ages, strict=True)]
    (tmp_path / "log.csv").write_text("\n".join(["item,reward,propensity,age", *rows]))
    command = ["evaluate", str(tmp_path / "log.csv"), "--columns", "arm=item", "--context", "age"]
    assert main([*command, "--histories", "1", "--rewards", "0", "1"]) == 0
    assert "ArmUCB: reward a round, from a log of 200 rounds" in capsys.readouterr().out
    agent = Agent.for_arms(["age"])
    agent.learn(agent.decide({"age": 1.0}, arms=["a", "b"]), 1.0)
    agent.save(tmp_path / "shop.agent")
    assert main([*command, "--agent", str(tmp_path / "shop.agent")]) == 0
    shown = capsys.readouterr().out
    assert "shop.agent: reward a round" in shown
    assert "The target learned nothing: it is the same in all rounds of the log." in shown
    for options, message in (
        (["--mode", "frozen"], "--mode is for --agent; other targets are fresh"),
        (["--agent", str(tmp_path / "shop.agent"), "--tuner", "Theory"], "a saved agent has its policy and tuner"),
        (["--columns", "item=arm"], "--columns takes NAME=COLUMN with NAME one of arm, reward, propensity, position"),
    ):
        assert main([*command, *options]) == 2
        assert message in capsys.readouterr().err


def test_an_interruption_says_what_was_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("syndicated.cli.evaluate.read_log", interrupt)
    assert main(["evaluate", "log.jsonl"]) == 130
    assert capsys.readouterr().err == "syndicated: interrupted; nothing was written\n"


def test_progress_is_shown_if_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []

    class Bars:
        def __init__(self, transient: bool) -> None:
            assert transient

        def __enter__(self) -> "Bars":
            return self

        def __exit__(self, *_: Any) -> None:
            steps.append(-self.total)

        def add_task(self, title: str, total: int) -> int:
            self.total = total
            return 7

        def advance(self, bar: int, count: int) -> None:
            assert bar == 7
            steps.append(count)

    monkeypatch.setattr("syndicated._progress.progress_bars", Bars)
    log = log_from_frame(TABLE, **ALL)
    agent = Agent(ArmUCB(dim=3))
    assert evaluate(log, agent, progress=True, histories=2) == evaluate(log, agent, histories=2)
    assert (sum(steps), len(steps)) == (0, 10)  # three rounds, predicted and walked through twice


def test_bars_are_those_of_rich() -> None:
    with progress_bar("rounds", 3, shown=True) as advance:
        advance(3)


# The Open Bandit Dataset.


@pytest.fixture(scope="session")
def obd() -> Path:
    """The folder of the samples, fetched through the package index where the cache has none yet."""
    try:
        return data.open_bandit().parent
    except DataError as error:
        pytest.skip(f"the Open Bandit Dataset is not to be had: {error}")


SHOWN = {"arm": "item_id", "position": "position"}
COLUMNS: dict[str, Any] = {**SHOWN, "reward": "click", "propensity": "propensity_score"}


def _shown(campaign: str, draws: int) -> np.ndarray[Any, Any]:
    """How often Thompson sampling with the shop's priors shows an item at a place, (items, places), by obp's seed."""
    alpha, beta = (np.array(part) for part in data.bernoulli_ts_priors(campaign))
    rng, shown = np.random.RandomState(12345), np.zeros((len(alpha), 3))
    for _ in range(draws // 10_000):
        best = rng.beta(alpha, beta, size=(10_000, len(alpha))).argsort(axis=1)[:, ::-1]
        for place in range(3):
            shown[:, place] += np.bincount(best[:, place], minlength=len(alpha))
    return shown / draws


@pytest.mark.no_cover
def test_obp_s_published_value_of_thompson_sampling_is_found_again(obd: Path) -> None:
    log, shown = read_log(data.open_bandit("random", "all"), **COLUMNS, arms=range(80)), _shown("all", 100_000)
    found = evaluate(log, lambda round_: shown[:, round_.position])
    assert found.ips.value / found.logged.value == pytest.approx(1.198126, abs=5e-7)
    assert found.gain.low < 0 < found.gain.high
    assert 0.0 < found.ips.low < found.logged.value < found.ips.high


def test_the_log_of_thompson_sampling_has_propensities_of_almost_0(obd: Path) -> None:
    log = read_log(data.open_bandit("bts", "women"), **COLUMNS, arms=range(46))
    assert min(each.propensity for each in log.rounds) == 1e-6
    shown = _shown("women", 20_000)
    found = evaluate(log, lambda round_: shown[:, round_.position])
    assert found.ips.low < found.logged.value < found.ips.high
    assert found.dr.high < 0.1


def test_other_samples_are_refused(obd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="the behaviour must be random or bts"):
        data.open_bandit("uniform")
    with pytest.raises(InputError, match="the campaign must be all, men or women; got 'cats'"):
        data.bernoulli_ts_priors("cats")
    monkeypatch.setattr(data, "cache", lambda: tmp_path)
    monkeypatch.setattr(data, "wheel_members", lambda package, names: dict.fromkeys(names, b"other"))
    with pytest.raises(DataError, match=r"all.csv must be that of obp==0.4.1; got another from obp==0.4.1"):
        data.open_bandit()


def test_the_samples_are_fetched_by_a_command(obd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "get", "open-bandit"]) == 0
    assert capsys.readouterr().out.startswith(f"{obd}\n\nThe Open Bandit Dataset belongs to ZOZO")
    assert main(["data", "get", "open-bandit", "--from", "here"]) == 2
    assert "--from is for movielens-100k" in capsys.readouterr().err


def test_columns_are_plain_values() -> None:
    assert columns_of({"a": np.arange(2)}) == {"a": [0, 1]}
