"""Decisions of one batch are proposed together where they can be, and are those that each would have been alone."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.core_service import ASK, Harness, PlayCore, play, refused

from syndicated.policies import LinUCB
from syndicated.service.bandits import bandit as bandit_module
from syndicated.service.bandits.bandit import Bandit, Turn
from syndicated.service.bandits.messages import Arm, DecideReply, DecideRequest, Spec
from syndicated.service.bandits.problems import Problem
from syndicated.store import Event
from syndicated.types import Choice

GRID: dict[str, Any] = {
    "tuner": {"name": "Syndicated", "horizon": 1000},
    "space": {"alpha": [0.0, 0.1, 1.0], "lam": [0.1, 1.0]},
}
SPECS: dict[str, dict[str, Any]] = {
    "nothing set": {},
    "a grid": GRID,
    "a floor": {**GRID, "floor": 0.3},
    "held out": {**GRID, "holdout": 0.4},
    "off": {**GRID, "mode": "off", "fallback": "uniform"},
    "an apprentice": {**GRID, "mode": "apprentice"},
    "all in the log": {**GRID, "log": "all"},
    "no new arms": {**GRID, "new_arms": False},
    "copies": {**GRID, "tuner": {"name": "Corral", "horizon": 1000}},
    "named": {"features": {"kind": "open", "dim": 4}, "policy": {"name": "LinUCB"}},
}


def _request(n: int, rng: np.random.Generator, *, named: bool) -> DecideRequest:
    """A request of any size; some of them are repeated, and some cannot be answered."""
    ids = [f"arm {k}" for k in range(int(rng.integers(1, 6)))]
    rows = rng.normal(size=(len(ids), 3)).tolist()
    arms = [Arm(id_, features={"price": x[0]}) if named else Arm(id_, x=x) for id_, x in zip(ids, rows, strict=True)]
    if n % 11 == 5:
        arms[0] = Arm("arm 0", x=[1.0], features={"price": 1.0})
    key = f"event {n % 20 // 2}" if n % 5 == 1 else None
    return DecideRequest(arms=list(arms), event_id=key, played=ids[-1] if n % 7 else "?", k=2 if n % 9 == 0 else None)


async def _answers(harness: Harness, requests: list[DecideRequest], *, together: bool) -> list[Any]:
    """The replies without their ids, or the problems."""
    decide = harness.service.decisions.decide
    if together:
        found = await asyncio.gather(*[decide("b", request) for request in requests], return_exceptions=True)
    else:
        found = [(await asyncio.gather(decide("b", request), return_exceptions=True))[0] for request in requests]
    return [
        (answer.arm, answer.propensity, answer.params, answer.repeated, answer.ranking)
        if isinstance(answer, DecideReply)
        else (type(answer), str(answer))
        for answer in found
    ]


async def _rounds(harness: Harness, spec: dict[str, Any], *, together: bool) -> tuple[list[Any], list[Event]]:
    await harness.create(**spec)
    arms = [Arm(f"arm {k}", x=None if "features" in spec else [0.0, 0.0, float(k)]) for k in range(4)]
    await harness.service.admin.put_arms("", "b", arms)
    rng, answers = np.random.default_rng(0), []
    for part in range(4):
        requests = [_request(60 * part + n, rng, named="features" in spec) for n in range(60)]
        answers.append(await _answers(harness, requests, together=together))
        last = harness.service.state.seq
        for seq in range(last - 30, last + 1):
            record = harness.service.state.record(seq)
            if record is not None and record.decided.by != "caller":
                await harness.reward(harness.service.decisions.ids.of(seq), float(seq % 3))
    events = [event for event, _ in harness.service.group_commit.store.after(0) if event.kind == "decide"]
    return answers, events


@pytest.mark.parametrize("name", SPECS)
def test_they_are_what_each_would_have_been_alone(name: str, tmp_path: Path) -> None:
    found: list[tuple[list[Any], list[Event]]] = []
    for together in (True, False):

        async def test(harness: Harness, together: bool = together) -> None:
            found.append(await _rounds(harness, SPECS[name], together=together))

        play(tmp_path / f"{together}.db", test)
    (answers, events), (alone, apart) = found
    assert answers == alone
    assert [event.body for event in events] == [event.body for event in apart]
    assert len(events) > 100
    assert any(isinstance(answer[0], type) and issubclass(answer[0], Problem) for answer in answers[0])


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tables were scored in each call."""
    found: list[int] = []
    scores_many = LinUCB.scores_many

    def counted(policy: LinUCB, tables: Any, *rest: Any) -> Any:
        found.append(len(tables))
        return scores_many(policy, tables, *rest)

    monkeypatch.setattr(LinUCB, "scores_many", counted)
    return found


def test_they_are_scored_in_one_call(play_core: PlayCore, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(harness: Harness) -> None:
        for bandit in "bc":
            await harness.create(bandit, **GRID)
        monkeypatch.setattr(LinUCB, "scores", None)
        await asyncio.gather(*[harness.decide("bc"[n % 2]) for n in range(40)])
        assert sizes == [20, 20]

    play_core(test)


@pytest.mark.parametrize(("most", "expected"), [(7, [7] * 5 + [5]), (1, []), (0, [])])
def test_so_many_at_once_that_others_do_not_wait(
    most: int, expected: list[int], play_core: PlayCore, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arms times what it costs to score one; fewer than two are proposed alone."""

    async def test(harness: Harness) -> None:
        await harness.create(**GRID)
        await asyncio.gather(*[harness.decide() for _ in range(40)])
        assert sizes == expected

    monkeypatch.setattr(bandit_module, "MAX_TOGETHER", most * 3 * (2 * 9 + 6))
    play_core(test)


def test_what_was_made_for_others_is_not_used_for_arms_that_are_read_again(play_core: PlayCore) -> None:
    """Arms that are registered change while the requests wait: those who named them are read again."""

    async def test(harness: Harness) -> None:
        await harness.create(**GRID)
        service, ask = harness.service, DecideRequest(arms=["a", "b"])
        await service.admin.put_arms("", "b", [Arm("a", x=[1.0, 0.0, 0.0]), Arm("b", x=[0.0, 1.0, 0.0])])
        changed = service.admin.put_arms("", "b", [Arm("b", x=[0.0, 0.0, 9.0])])
        replies = await asyncio.gather(*[service.decisions.decide("b", ask) for _ in range(30)])
        await changed
        records = [service.state.record(service.decisions.ids.seq(reply.decision_id)) for reply in replies]
        rows = {record.decided.x for record in records if record is not None and record.decided.arm == "b"}
        assert rows == {np.array([0.0, 0.0, 9.0]).tobytes()}

    play_core(test)


def test_replicas_draw_apart_from_each_other_also_together() -> None:
    bandit = Bandit(1, "b", Spec(features={"kind": "vector", "dim": 3}, **GRID), 1)
    tables = [bandit.registered.table(ASK, None)] * 30
    first, other = (Turn(0, 0, Choice({}), salt) for salt in (5, 6))
    for turn in (first, other, first):
        together = bandit.propose_many(tables, turn)
        alone = [bandit.agent.player.propose(tables[0].X, n, turn.choice, explain=True) for n in range(30)]
        assert [repr(seen.decision.choice) for seen in together] == [repr(seen.decision.choice) for seen in alone]
        assert bandit.agent.player.salt == turn.salt
    drawn = [[seen.decision.choice for seen in bandit.propose_many(tables, turn)] for turn in (first, other)]
    assert drawn[0] != drawn[1]


def test_one_that_was_read_for_other_features_is_refused_alone(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(**GRID)
        service = harness.service
        late = service.decisions.read("b", ASK)
        await service.admin.update("", "b", {"features": {"kind": "vector", "dim": 4}})
        wide = DecideRequest(arms=[Arm("a", x=[1.0, 0.0, 0.0, 0.0]), Arm("b", x=[0.0, 1.0, 0.0, 0.0])])
        asked = [service.decisions.decide("b", wide) for _ in range(3)]
        refused_one = service.decisions.decide_on("b", *late)
        asked += [service.decisions.decide("b", wide) for _ in range(3)]
        assert {reply.arm for reply in await asyncio.gather(*asked)} <= {"a", "b"}
        with refused(409, "conflict", "other features"):
            await refused_one

    play_core(test)
