"""What notebooks show: tables in HTML, data frames, and the figure of an agent's decisions."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from syndicated import Agent, InputError, LinUCB, Space, Theory
from syndicated.evaluate import evaluate, log_from_frame
from syndicated.experiments import Experiment, Result, collect, decision_series, draw_decisions, run_experiments
from syndicated.experiments.scoreboard import gather


def test_agents_spaces_and_tuners_are_tables() -> None:
    agent = Agent(LinUCB(dim=2), seed=7)
    agent.decide(np.eye(2))
    shown = agent._repr_html_()
    assert "<td>LinUCB(dim=2)</td>" in shown
    assert "<td>open decisions</td><td>1</td>" in shown
    assert shown.count("boldness = ") == len(agent.tuner.points)
    assert "<td>theory</td><td>1.000</td>" in Theory()._repr_html_()
    assert "<td>alpha</td><td>0.1, 1</td>" in Space(alpha=[0.1, 1])._repr_html_()
    named = Agent.for_arms(arms=["tea", "<milk>"])
    assert "<td>arms</td><td>tea, &lt;milk&gt;</td>" in named._repr_html_()


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Any]:
    tuners = {"Theory": {"name": "Theory"}, "Consensus": {"name": "Consensus"}}
    world, policy = {"name": "Linear", "dim": 2, "arms": 3}, {"name": "LinUCB", "dim": 2}
    experiment = Experiment("small", "Small", world, policy, tuners, horizon=30, repeats=2)
    (run,) = run_experiments([experiment], tmp_path_factory.mktemp("tasks"))
    return collect(run.experiment, run.curves), run


def test_results_are_tables_and_data_frames(result: tuple[Result, Any]) -> None:
    pandas = pytest.importorskip("pandas")
    found, run = result
    frame = found.to_frame("pandas")
    assert isinstance(frame, pandas.DataFrame)
    last = frame[frame["round"] == 30].groupby("tuner")["regret"].mean()
    assert last["Theory"] == pytest.approx(found.final("Theory").mean())
    assert len(frame) == 2 * 2 * len(found.rounds)
    shown = found._repr_html_()
    assert "<td>Theory</td>" in shown
    assert "settle nothing" in shown
    world = gather("group", run).to_frame("pandas")
    assert sorted(world["regret"]) == pytest.approx(sorted([*found.final("Theory"), *found.final("Consensus")]))


def test_evaluations_are_tables_and_data_frames() -> None:
    pytest.importorskip("pandas")
    table = {"arm": ["a", "b"] * 20, "reward": [1, 0] * 20, "propensity": [0.5] * 40}
    found = evaluate(log_from_frame(table), lambda _: [0.5, 0.5])
    frame = found.to_frame()
    assert frame["estimate"].tolist() == ["log", "IPS", "SNIPS", "DR", "gain", "weight"]
    assert frame["value"].tolist()[1] == found.ips.value
    assert "<td>IPS</td><td>0.5</td>" in found._repr_html_()
    assert "fewer than 100" in found._repr_html_()


def _played(rounds: int, arms: int) -> tuple[Agent, list[Any], list[float]]:
    agent, rng, decisions, rewards = Agent(LinUCB(dim=arms)), np.random.default_rng(1), [], []
    for _ in range(rounds):
        decisions.append(agent.decide(np.eye(arms)))
        rewards.append(float(rng.random() < 0.5))
        agent.learn(decisions[-1], rewards[-1])
    return agent, decisions, rewards


def test_decisions_are_cut_into_windows(tmp_path: Path) -> None:
    _, decisions, rewards = _played(100, 9)
    series = decision_series(decisions, rewards)
    assert (len(series.rounds), series.rounds[-1], series.rounds[0]) == (40, 100, 3)
    assert series.rewards[0] == pytest.approx(np.mean(rewards[:3]))
    assert (list(series.shares)[-1], len(series.shares)) == ("others", 7)
    assert sum(series.shares.values()).tolist() == pytest.approx([1.0] * 40)  # type: ignore[union-attr]
    assert series.params["alpha"][0] == pytest.approx(np.mean([each.params["alpha"] for each in decisions[:3]]))
    figure = draw_decisions(decisions, rewards)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "share of decisions",
        "mean reward",
        "hyper-parameters in use",
    ]


def test_decisions_need_their_rewards() -> None:
    _, decisions, rewards = _played(3, 2)
    with pytest.raises(InputError, match="each with its reward; got 3 and 2 rewards"):
        decision_series(decisions, rewards[:2])
