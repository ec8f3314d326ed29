"""The counts of an epoch: what is recent, and what stays of epochs that have ended."""

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from syndicated._decided_by import COUNTED, By
from syndicated.service.bandits import history as module
from syndicated.service.bandits.arm_numbers import arm_numbers, most_played
from syndicated.service.bandits.bandit import Bandit
from syndicated.service.bandits.history import HEAD_FIELDS, History, mean_and_error
from syndicated.service.bandits.messages import Spec
from syndicated.service.bandits.past import MAX_LOADS, MAX_PAST_EPOCHS, MAX_PAST_ROWS
from syndicated.service.bandits.records import Decided, Record
from syndicated.service.bandits.runs import DecisionColumns, DecisionRun
from syndicated.store import Event


def decided(arm: str) -> Decided:
    return Decided(epoch=1, version=1, by="agent", arm=arm, place=0, count=2, x=b"", propensity=0.5)


def columns(made: Sequence[tuple[float, Decided]]) -> DecisionColumns:
    records = [Record(Event(n, 1, "decide", at), each) for n, (at, each) in enumerate(made)]
    return DecisionRun.of(records, epoch=1).columns


def play(history: History, arms: str, rewards: list[float]) -> None:
    for k, (arm, reward) in enumerate(zip(arms, rewards, strict=True)):
        history.add_decisions(columns([(float(history.count + k), decided(arm))]), lambda: [np.ones(1)])
        history.add_reward("agent", arm, reward)


def test_the_trend_of_an_arm_is_what_it_earned_recently_minus_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 16)
    monkeypatch.setattr(module, "RECENT_ROWS", 4)
    rng = np.random.default_rng(0)
    arms, rewards = rng.choice(["a", "b"], 200).tolist(), rng.integers(0, 2, 200).astype(float).tolist()
    history = History([1])
    since = []
    for arm, reward in zip(arms, rewards, strict=True):
        play(history, arm, [reward])
        since.append(history.recent_starts[1])
    assert all(1 / 8 <= 1 - start / count <= 1 / 2 for count, start in enumerate(since, 1) if count >= 16)
    start = since[-1] - 1  # a reward comes after its decision: that of the block's last decision falls into the next
    old, new = (
        [r for a, r in zip(part, own, strict=True) if a == "b"]
        for part, own in ((arms[:start], rewards[:start]), (arms[start:], rewards[start:]))
    )
    (b,) = arm_numbers(history, ["b"])
    ends = [mean_and_error(len(each), sum(each), sum(r * r for r in each)) for each in (new, old)]
    assert b.change == pytest.approx(ends[0][0] - ends[1][0])
    assert b.change_error == pytest.approx(math.hypot(ends[0][1], ends[1][1]))
    recent = arms[since[-1] :]
    assert b.recent_share == pytest.approx(recent.count("b") / len(recent))
    assert b.share == pytest.approx(arms.count("b") / 200)
    assert most_played(history) == sorted("ab", key=lambda arm: -arms.count(arm))


@pytest.mark.parametrize("tallies", [5, 100])
def test_decisions_that_are_counted_together_are_counted_as_one_by_one(
    tallies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 16)
    monkeypatch.setattr(module, "RECENT_ROWS", 4)
    monkeypatch.setattr(module, "MAX_ARM_TALLIES", tallies)
    rng = np.random.default_rng(0)
    arms = [f"a{rng.integers(n // 10 + 1)}" for n in range(600)]  # there are always new ones
    by: list[By] = rng.choice(COUNTED, 600).tolist()
    likely = rng.choice([True, False], (600, 2)).tolist()
    made = [
        (float(n // 3), replace(decided(arm), by=who, explored=explored, agrees=agrees))
        for n, (arm, who, (explored, agrees)) in enumerate(zip(arms, by, likely, strict=True))
    ]
    alone, together = History([1]), History([1])
    for begin, end in pairwise([0, *sorted(rng.choice(600, 30, replace=False).tolist()), 600]):
        for each in made[begin:end]:
            alone.add_decisions(columns([each]), lambda: [np.array([alone.learned])])
        together.add_decisions(columns(made[begin:end]), lambda: [np.array([together.learned])])
        for history in (alone, together):
            history.add_reward(by[begin], arms[begin], 0.1 * begin)
    assert json.dumps(together.head()) == json.dumps(alone.head())  # with the order of arms
    assert together.rows().tolist() == alone.rows().tolist()
    assert together.count == 600


def test_a_state_of_before_recent_decisions_were_counted_opens() -> None:
    history, later = History([1]), History([1])
    play(history, "aab", [1.0, 0.0, 1.0])
    old = {name: value for name, value in history.head().items() if name in ("stride", *HEAD_FIELDS[:8])}
    later.restore(old, history.rows())
    assert (later.began, later.latest) == (history.began, history.latest)
    assert arm_numbers(later, ["a"])[0].recent_share is None
    play(later, "ac", [1.0, 1.0])
    a, c = arm_numbers(later, "ac")
    assert (a.decisions, a.recent_share, a.first, a.last) == (3, 0.5, None, 3.0)
    assert (c.first, c.last) == (5.0, 5.0)


def event(seq: int) -> Event:
    return Event(seq, 0, "configure", float(seq), None, None, None, None, b"")


def bandit_of(**spec: Any) -> Bandit:
    return Bandit(1, "b", Spec(features={"kind": "vector", "dim": 2}, **spec), 1)


def test_ended_epochs_and_loaded_models_are_kept_and_bounded() -> None:
    bandit = bandit_of()
    bandit.configure(bandit_of(seed=1).spec, event(2))
    assert bandit.past == []  # an epoch without decisions says nothing
    for seed in range(2, MAX_PAST_EPOCHS + 4):
        for _ in range(MAX_PAST_ROWS + 9):
            made = columns([(float(seed), decided("a"))])
            bandit.history.add_decisions(made, bandit.agent.player.tuner.probabilities)
        bandit.history.add_reward("agent", "a", 0.5)
        bandit.configure(bandit_of(seed=seed).spec, event(seed + 1))
    assert [past.epoch for past in bandit.past] == list(range(2, MAX_PAST_EPOCHS + 4))[-MAX_PAST_EPOCHS:]
    last = bandit.past[-1]
    assert len(last.rows) == MAX_PAST_ROWS
    assert last.totals == [last.began, MAX_PAST_ROWS + 9, 1, 0.5, 0.25, 0]
    model = bandit.agent.state()
    for seq in range(50, 50 + MAX_LOADS + 5):
        bandit.load(model, event(seq))
    assert (len(bandit.loads), bandit.loads[-1].seq, bandit.loads[-1].decisions) == (MAX_LOADS, 54 + MAX_LOADS, 0)
    twin = Bandit.from_snapshot(bandit.snapshot())
    assert (twin.past, twin.loads) == (bandit.past, bandit.loads)
    bandit.configure(bandit_of(seed=99).spec, event(200))
    assert bandit.loads == []


def test_a_head_is_of_its_moment_and_copies_no_counts() -> None:
    history = History([1])
    play(history, "aab", [1.0, 0.0, 1.0])
    head, before = history.head(), {name: dict(getattr(history, name)) for name in ("tallies", "arms", "played")}
    assert head["arms"]["a"] is history.arms["a"]  # ten thousand arms are one copy of a dictionary
    assert head["recent"][0]["a"] is history.recent[0]["a"]
    play(history, "abc", [0.5, 0.5, 0.5])
    assert {name: head[name] for name in before} == before
    assert history.arms["a"] == [3, 3, 1.5, 1.25] != head["arms"]["a"]
