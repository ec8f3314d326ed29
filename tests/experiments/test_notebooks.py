"""What notebooks show: tables in HTML, data frames, and figures."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from syndicated import Agent, Decision, InputError, LinUCB, Space, Syndicated, Theory
from syndicated._decision_history import MAX_WINDOWS
from syndicated.evaluate import evaluate, log_from_frame
from syndicated.experiments import Experiment, Result, collect, draw_regret, run_experiments
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
    head, *rows = re.findall(r"<tr>.*?</tr>", shown)
    assert {head.count("<th>")} == {row.count("<td>") for row in rows}
    mean = f"Theory {found.final('Theory').mean():.4g}"
    assert repr(found).startswith(f"<Result of small, 30 rounds, 2 repeats; mean regret: {mean}, Consensus ")
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


def _play(agent: Agent, rounds: int, arms: int) -> tuple[list[Decision], list[float]]:
    rng, decisions, rewards = np.random.default_rng(1), [], []
    for _ in range(rounds):
        decisions.append(agent.decide(np.eye(arms)))
        rewards.append(float(rng.random() < 0.5))
        agent.learn(decisions[-1], rewards[-1])
    return decisions, rewards


def _titles(agent: Agent) -> Sequence[str]:
    return [axes.get_title(loc="left") for axes in agent.plot().axes]


@pytest.mark.parametrize("rounds", [MAX_WINDOWS, 3 * MAX_WINDOWS + 1])
def test_what_was_learned_is_cut_into_windows(rounds: int) -> None:
    agent = Agent(LinUCB(dim=9))
    decisions, rewards = _play(agent, rounds, 9)
    series, length = agent._history.series(agent.tuner), 1 if rounds == MAX_WINDOWS else 4
    starts = range(0, rounds, length)
    assert series.rounds.tolist() == [start + length for start in starts]
    assert series.rewards.tolist() == pytest.approx([np.mean(rewards[k : k + length]) for k in starts])
    errors = [np.std(rewards[k : k + length]) / np.sqrt(len(rewards[k : k + length])) for k in starts]
    assert series.errors.tolist() == pytest.approx(errors)
    assert series.params["alpha"].tolist() == [decisions[k].params["alpha"] for k in starts]
    assert (list(series.shares)[-1], len(series.shares)) == ("others", 7)
    assert sum(series.shares.values()).tolist() == pytest.approx([1.0] * len(starts))  # type: ignore[union-attr]
    most = next(iter(series.shares))
    played = [np.mean([str(d.arm) == most for d in decisions[k : k + length]]) for k in starts]
    assert series.shares[most].tolist() == pytest.approx(played)


def test_an_agent_plots_arms_rewards_and_exploration() -> None:
    agent = Agent(LinUCB(dim=2))
    with pytest.raises(InputError, match="there must be rewards to plot"):
        agent.plot()
    _play(agent, 20, 2)
    assert _titles(agent) == ["share of decisions", "mean reward", "exploration in use"]
    drawn = agent.plot().axes[-1].lines
    assert [line.get_label() for line in drawn] == ["alpha"]
    series = agent._history.series(agent.tuner)
    assert np.asarray(drawn[0].get_ydata()).tolist() == series.params["alpha"].tolist()
    agent.restore(agent.state())
    with pytest.raises(InputError, match="since the agent was made or restored; got none"):
        agent.plot()


def test_an_agent_plots_the_probabilities_of_what_its_tuner_chooses_from() -> None:
    agent = Agent(LinUCB(dim=2), Syndicated(Space(alpha=[0.1, 1.0], lam=[0.1, 1.0, 10.0]), horizon=50))
    decisions = agent.decide_many([np.eye(2)] * 30)
    agent.learn_many(decisions, np.ones(30))
    assert _titles(agent)[2:] == ["probability of alpha", "probability of lam", "exploration in use"]
    alpha, lam = agent._history.series(agent.tuner).candidates
    assert (alpha.p.shape, lam.p.shape) == ((30, 2), (30, 3))
    assert lam.p.sum(axis=1).tolist() == pytest.approx([1.0] * 30)


def test_of_a_policy_without_a_number_for_exploration_all_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinUCB, "exploring", ())
    agent = Agent(LinUCB(dim=2))
    _play(agent, 20, 2)
    assert _titles(agent)[-1] == "hyper-parameters in use"
    assert len(agent.plot().axes[-1].lines) == 4


def test_of_very_many_arms_the_first_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syndicated._decision_history.MAX_ARMS", 2)
    agent = Agent()
    for arm in ("a", "b", "c", "a"):
        agent.learn(agent.decide(arms=[arm]), 1.0)
    shares = {name: share.tolist() for name, share in agent._history.series(agent.tuner).shares.items()}
    assert shares == {"a": [1, 0, 0, 1], "b": [0, 1, 0, 0], "others": [0, 0, 1, 0]}


def test_figures_show_themselves(result: tuple[Result, Any]) -> None:
    agent = Agent(LinUCB(dim=2))
    _play(agent, 5, 2)
    for figure in (agent.plot(), draw_regret([result[0]])):
        assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
