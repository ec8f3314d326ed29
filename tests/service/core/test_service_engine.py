"""The service without its HTTP: what it promises about decisions and rewards."""

import asyncio
import gc
import math
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from psycopg.pq import TransactionStatus

from syndicated._argmax import leaders
from syndicated.service.core.arms import RegisteredArms
from syndicated.service.core.bandit import build_parts
from syndicated.service.core.batch import Batch
from syndicated.service.core.group_commit import GroupCommit
from syndicated.service.core.messages import (
    Arm,
    Create,
    DecideReply,
    DecideRequest,
    KeyRequest,
    RewardRequest,
    Spec,
)
from syndicated.service.core.problems import Problem
from syndicated.service.core.service import Service
from syndicated.service.core.state import State, hash_key
from syndicated.service.http.endpoints import Call
from syndicated.service.http.handlers import decide
from syndicated.service.http.metrics import Metrics
from syndicated.store import SQLite, StoreError, open_store
from syndicated.store import copy as copy_journal
from syndicated.store.postgres import Postgres
from syndicated.types import Array

VECTOR = {"kind": "vector", "dim": 3}
ARMS = [Arm(name, x=x) for name, x in (("a", [1.0, 0.0, 0.0]), ("b", [0.0, 1.0, 0.0]), ("c", [0.0, 0.0, 1.0]))]
ASK = DecideRequest(arms=list(ARMS))


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Harness:
    """A service on a file, a clock that is set, and short ways to ask."""

    def __init__(self, file: Path, clock: Clock) -> None:
        self.file, self.clock = file, clock
        self.service = Service(SQLite(file), clock=clock)
        self.service.start()

    async def create(self, name: str = "b", **spec: Any) -> None:
        await self.service.admin.create("", Create(name=name, spec=Spec(**{"features": VECTOR, **spec})))

    async def decide(self, name: str = "b", **request: Any) -> DecideReply:
        return await self.service.decisions.decide(name, DecideRequest(**{"arms": list(ARMS), **request}))

    async def reward(self, id_: str, value: float, name: str = "b", event_id: str | None = None) -> str:
        asked = RewardRequest(decision_id=id_, reward=value, event_id=event_id)
        return (await self.service.decisions.reward(name, asked)).outcome

    async def wait_for_rewards(self, count: int) -> None:
        """Make so many decisions of a new bandit, whose windows are open."""
        await self.create(window=10.0, default_reward=0.5)
        for _ in range(count):
            await self.decide()

    async def pass_time(self, seconds: float) -> None:
        """Set the clock and wait until all that it asks for is done."""
        self.clock.now += seconds
        for _ in range(2):
            await self.service.read(lambda batch: None)
        while self.service.windows.has_backlog:
            await self.service.read(lambda batch: None)

    async def restart(self) -> None:
        await self.service.stop()
        self.service = Service(SQLite(self.file), clock=self.clock)
        self.service.start()

    def contents(self) -> list[bytes]:
        return contents(self.service.state)

    def replayed(self) -> list[bytes]:
        store = SQLite(self.file, read_only=True)
        try:
            return contents(State.load(store, whole=True))
        finally:
            store.close()

    def ready(self) -> bool:
        return self.service.group_commit.ready

    @property
    def learned(self) -> int:
        return self.service.state.bandit("b").history.learned


def contents(state: State) -> list[bytes]:
    return [snapshot.state for snapshot in state.snapshots(every=True)]


Test = Callable[[Harness], Coroutine[Any, Any, None]]


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Test], None]:
    """Run a test against a service; at the end the live state must be that of a full replay, to the bit."""

    async def run(test: Test) -> None:
        harness = Harness(tmp_path / "journal.db", Clock())
        try:
            await test(harness)
            assert harness.contents() == harness.replayed()
        finally:
            await harness.service.stop()

    return lambda test: asyncio.run(asyncio.wait_for(run(test), 60))


@contextmanager
def refused(status: int, kind: str, detail: str = ".") -> Iterator[None]:
    with pytest.raises(Problem, match=detail) as caught:
        yield
    assert (caught.value.status, caught.value.kind) == (status, kind), caught.value.detail


def test_expectation_01_a_decision_says_what_was_decided_and_how(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        reply = await harness.decide()
        assert reply.arm in {"a", "b", "c"}
        assert 0 < reply.propensity <= 1
        assert reply.by == "agent"
        assert {"alpha", "lam"} <= reply.params.keys()
        record = await harness.service.decisions.decision("b", reply.decision_id)
        assert not record.decided.explored  # all arms are alike to a model that has seen nothing
        before = reply.version
        await harness.reward(reply.decision_id, 1.0)
        assert (await harness.decide()).version > before

    play(test)


def test_expectation_02_a_retry_returns_the_same_decision_also_after_a_restart(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        first = await harness.decide(event_id="e")
        both = await asyncio.gather(harness.decide(event_id="f"), harness.decide(event_id="f"))
        assert both[0].decision_id == both[1].decision_id
        with refused(409, "conflict", "event_id 'e' was used for something else"):
            await harness.reward(both[0].decision_id, 1.0, event_id="e")
        await harness.reward(both[0].decision_id, 1.0, event_id="r")
        with refused(409, "conflict", "event_id 'r' was used for something else"):
            await harness.decide(event_id="r")
        await harness.restart()
        again = await harness.decide(event_id="e")
        assert again == msgspec.structs.replace(first, repeated=True)
        assert harness.service.state.bandit("b").history.count == 2
        await harness.create("other")
        assert (await harness.decide("other", event_id="e")).decision_id != first.decision_id

    play(test)


def test_expectation_03_a_reward_is_idempotent(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        await harness.create("other")
        id_ = (await harness.decide()).decision_id
        outcomes = await asyncio.gather(*[harness.reward(id_, 0.5) for _ in range(5)])
        assert sorted(outcomes) == ["learned"] + ["repeated"] * 4
        with refused(409, "conflict"):
            await harness.reward(id_, 0.6)
        await harness.restart()
        assert await harness.reward(id_, 0.5) == "repeated"
        for wrong in ("", "1", "zz-1", id_[:-1], id_ + "0", "-1-" + id_, f"{1:x}-{id_.partition('-')[2]}", "é"):
            with refused(404, "unknown-decision"):
                await harness.reward(wrong, 0.5)
        with refused(404, "unknown-decision"):
            await harness.reward(id_, 0.5, name="other")
        with refused(404, "unknown-bandit"):
            await harness.reward(id_, 0.5, name="nobody")
        for value in (math.nan, math.inf, 1e300):
            with refused(422, "invalid"):
                await harness.reward((await harness.decide()).decision_id, value)
        assert harness.learned == 1

    play(test)


def test_rewards_outside_of_the_range_are_refused(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(rewards=(-1.0, 2.0))
        await harness.create("glm", policy={"name": "UCBGLM"}, rewards=(-1.0, 2.0))
        for name, wrong in (("b", -1.5), ("b", 2.5), ("glm", -0.5), ("glm", 1.5)):
            with refused(422, "invalid"):
                await harness.reward((await harness.decide(name)).decision_id, wrong, name)

    play(test)


def test_expectation_04_late_rewards_are_logged_and_counted_and_not_learned(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(window=60.0)
        ids = [(await harness.decide()).decision_id for _ in range(2)]
        await harness.pass_time(60.0)
        assert await harness.reward(ids[0], 1.0) == "learned"
        await harness.pass_time(0.5)
        before = harness.service.state.bandit("b").agent.state()
        assert await harness.reward(ids[1], 1.0) == "late"
        assert await harness.reward(ids[1], 1.0) == "repeated"
        assert harness.service.state.bandit("b").agent.state() == before
        assert harness.service.state.bandit("b").lates == 1

    play(test)


def test_expectation_05_a_default_reward_when_the_window_closes_is_an_event(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(window=60.0, default_reward=-1.0)
        ids = [(await harness.decide()).decision_id for _ in range(3)]
        assert await harness.reward(ids[1], 1.0) == "learned"
        await harness.pass_time(59.0)
        assert harness.learned == 1
        await harness.pass_time(2.0)
        history = harness.service.state.bandit("b").history
        assert (history.learned, history.total) == (3, -1.0)
        await harness.restart()
        await harness.pass_time(100.0)
        assert harness.learned == 3
        assert await harness.reward(ids[0], 1.0) == "late"

    play(test)


@pytest.mark.parametrize("restart", [False, True])
def test_a_default_reward_is_for_decisions_made_since_it_was_set(play: Callable[[Test], None], restart: bool) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(window=60.0)
        await harness.decide()
        await harness.pass_time(100.0)
        await harness.decide()
        for changes in ({"default_reward": -1.0}, {"default_reward": 5.0}, {"default_reward": None}):
            await harness.service.admin.update("", "b", changes)
            await harness.decide()
        if restart:
            await harness.restart()
        await harness.pass_time(100.0)
        history = harness.service.state.bandit("b").history
        assert (history.learned, history.total) == (2, 4.0)

    play(test)


@pytest.mark.parametrize(("aggregate", "total"), [("last", 5.0), ("sum", 8.0)])
def test_expectation_06_several_rewards_of_a_decision(
    play: Callable[[Test], None], aggregate: str, total: float
) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(window=60.0, aggregate=aggregate)
        id_ = (await harness.decide()).decision_id
        other = (await harness.decide()).decision_id
        assert await harness.reward(id_, 1.0) == "collected"
        assert await harness.reward(id_, 2.0, event_id="x") == "collected"
        assert await harness.reward(id_, 2.0, event_id="x") == "repeated"
        with refused(409, "conflict"):
            await harness.reward(id_, 3.0, event_id="x")
        with refused(409, "conflict"):
            await harness.reward(other, 2.0, event_id="x")
        assert await harness.reward(id_, 5.0) == "collected"
        assert harness.learned == 0
        await harness.restart()
        await harness.pass_time(61.0)
        history = harness.service.state.bandit("b").history
        assert (history.learned, history.total) == (1, total)
        assert await harness.reward(id_, 1.0) == "late"

    play(test)


def test_expectation_07_deferred_decisions_are_learned_only_if_activated(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(deferred=True, window=60.0)
        first, second, third = [(await harness.decide()).decision_id for _ in range(3)]
        now = (await harness.decide(deferred=False)).decision_id
        assert await harness.reward(first, 1.0) == "held"
        assert await harness.reward(third, 1.0) == "held"
        assert await harness.reward(now, 1.0) == "learned"
        assert (await harness.service.decisions.activate("b", first)).outcome == "learned"
        assert (await harness.service.decisions.activate("b", first)).outcome == "repeated"
        assert (await harness.service.decisions.activate("b", second)).outcome == "activated"
        assert await harness.reward(second, 1.0) == "learned"
        assert (await harness.service.decisions.activate("b", now)).outcome == "repeated"
        await harness.pass_time(61.0)
        with refused(409, "late"):
            await harness.service.decisions.activate("b", third)
        assert harness.learned == 3

    play(test)


@pytest.mark.parametrize("policy", ["LinUCB", "LinTS", "UCBGLM"])
@pytest.mark.parametrize("floor", [0.0, 0.3])
@pytest.mark.parametrize("tuner", ["Consensus", "Syndicated", "Corral", "TwoLayer", "OP", "Theory"])
def test_expectation_08_propensities_are_those_of_the_arms(
    play: Callable[[Test], None], policy: str, tuner: str, floor: float
) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(policy={"name": policy}, tuner={"name": tuner}, floor=floor, log="all")
        rng = np.random.default_rng(1)
        for _ in range(40):
            arms = [Arm(str(k), x=x) for k, x in enumerate(rng.normal(size=(4, 3)).tolist())]
            agent = harness.service.state.bandit("b").agent
            played = agent.player.arms_of_points(np.array([arm.x for arm in arms]), agent.round)
            odds = reduce(np.multiply.outer, agent.tuner.probabilities()).ravel()
            chances = np.bincount(played, odds, len(arms))
            reply = await harness.decide(arms=arms)
            assert reply.propensity == pytest.approx((1 - floor) * chances[int(reply.arm)] + floor / 4)
            await harness.reward(reply.decision_id, float(rng.integers(2)))
        assert ("floor" in harness.service.state.bandit("b").history.tallies) == (floor > 0)

    play(test)


def test_expectation_10_a_service_decides_and_learns_as_the_library_does(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(seed=7)
        _, agent = build_parts(Spec(features=VECTOR, seed=7))
        rng = np.random.default_rng(3)
        for _ in range(60):
            X = rng.normal(size=(5, 3))
            reply = await harness.decide(arms=[Arm(str(k), x=x) for k, x in enumerate(X.tolist())])
            decision = agent.decide(X)
            assert reply.arm == str(decision.arm)
            assert reply.propensity == pytest.approx(decision.propensity)
            reward = float(X[decision.arm, 0] + rng.normal())
            agent.learn(decision, reward)
            await harness.reward(reply.decision_id, reward)
        agent.player.id = harness.service.state.bandit("b").agent.id
        assert harness.service.state.bandit("b").agent.state() == agent.state()

    play(test)


def test_expectation_11_models_are_listed_exported_imported_and_rolled_back(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        service = harness.service
        await harness.create()
        await harness.create("twin")
        await harness.create("glm", policy={"name": "UCBGLM"})
        for value in (0.0, 1.0):
            await harness.reward((await harness.decide()).decision_id, value)
        kept = await service.admin.save_model("b")
        assert next(iter(await service.admin.models("b"))).version == kept.version
        model = await service.admin.model("b")
        for _ in range(3):
            await harness.reward((await harness.decide()).decision_id, 1.0)
        later = await service.admin.model("b")
        assert later != model == await service.admin.model("b", kept.version)
        version = service.state.bandit("b").version
        assert (await service.admin.load_model("", "b", kept.version)).version > version
        assert await service.admin.model("b") == model
        await service.admin.load_model("", "twin", later)
        assert await service.admin.model("twin") == later
        with refused(404, "unknown-model"):
            await service.admin.model("b", 12345)
        for name, wrong in (("b", b"nonsense"), ("glm", later)):
            with refused(422, "invalid"):
                await service.admin.load_model("", name, wrong)
        await harness.restart()
        assert await harness.service.admin.model("b") == model

    play(test)


def test_expectation_12_bandits_are_isolated(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        await harness.create("other", seed=5)
        with refused(409, "exists"):
            await harness.create()
        before = harness.service.state.bandit("other").snapshot()
        for _ in range(20):
            await harness.reward((await harness.decide()).decision_id, 1.0)
        assert harness.service.state.bandit("other").snapshot() == before
        await harness.service.admin.retire("", "other")
        with refused(409, "retired"):
            await harness.decide("other")
        assert (await harness.decide()).by == "agent"

    play(test)


def test_expectation_13_arms_come_and_go(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        with refused(422, "invalid"):
            await harness.decide(arms=None)
        assert await harness.service.admin.put_arms("", "b", ARMS) == 3
        replies = [await harness.decide(arms=None) for _ in range(4)]
        assert {(await harness.decide(arms=["b"])).arm for _ in range(3)} == {"b"}
        await harness.service.admin.drop_arm("", "b", replies[0].arm)
        with refused(404, "unknown-arm"):
            await harness.service.admin.drop_arm("", "b", replies[0].arm)
        assert await harness.reward(replies[0].decision_id, 1.0) == "learned"
        assert (await harness.decide(arms=None)).arm != replies[0].arm
        for arms in ([replies[0].arm], ["a", "a"], [Arm("z", x=[1.0])], []):
            with refused(422, "invalid"):
                await harness.decide(arms=arms)
        await harness.restart()
        assert len(harness.service.state.bandit("b").arms) == 2

    play(test)


def test_expectation_14_the_kill_switch_falls_back_and_is_logged(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        for changes, arms in (
            ({"fallback": "first"}, {"a"}),
            ({"fallback": "arm", "fallback_arm": "c"}, {"c"}),
            ({"fallback": "uniform", "fallback_arm": None}, {"a", "b", "c"}),
        ):
            await harness.service.admin.update("", "b", {"mode": "off", **changes})
            replies = [await harness.decide() for _ in range(20)]
            assert {reply.arm for reply in replies} == arms
            assert {reply.by for reply in replies} == {"fallback"}
            assert replies[0].propensity == pytest.approx(1 / len(arms))
        before = harness.service.state.bandit("b").agent.state()
        assert await harness.reward(replies[0].decision_id, 1.0) == "counted"
        assert harness.service.state.bandit("b").agent.state() == before
        epoch = harness.service.state.bandit("b").epoch
        await harness.service.admin.update("", "b", {"mode": "live"})
        assert (await harness.decide()).by == "agent"
        assert harness.service.state.bandit("b").epoch == epoch

    play(test)


def test_expectation_15_an_apprentice_learns_from_what_the_caller_played(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(mode="apprentice")
        with refused(422, "invalid"):
            await harness.decide()
        with refused(422, "invalid"):
            await harness.decide(played="nobody")
        rng = np.random.default_rng(0)
        for _ in range(200):
            played = "abc"[int(rng.integers(3))]
            reply = await harness.decide(played=played)
            assert (reply.arm, reply.by) == (played, "caller")
            await harness.reward(reply.decision_id, float(played == "b"))
        predicted = harness.service.state.bandit("b").agent.policy.predict(np.eye(3), reply.params)
        assert int(np.argmax(predicted)) == 1
        tuner = harness.service.state.bandit("b").agent.tuner
        assert all(np.ptp(p) == 0 for p in tuner.probabilities())
        await harness.service.admin.update("", "b", {"mode": "live"})
        assert [(await harness.decide()).arm for _ in range(10)].count("b") >= 8

    play(test)


def test_expectation_16_a_hold_out_share_stays_with_its_subjects(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(holdout=0.25, fallback="uniform")
        seen = [(await harness.decide(subject=f"s{i}")).by for i in range(400)]
        assert 60 < seen.count("holdout") < 140
        assert [(await harness.decide(subject=f"s{i}")).by for i in range(50)] == seen[:50]
        assert 60 < [(await harness.decide()).by for _ in range(400)].count("holdout") < 140
        round_ = harness.service.state.bandit("b").agent.round
        held = next(f"s{i}" for i in range(400) if seen[i] == "holdout")
        assert await harness.reward((await harness.decide(subject=held)).decision_id, 1.0) == "counted"
        assert harness.service.state.bandit("b").agent.round == round_
        assert harness.service.state.bandit("b").history.tallies["holdout"][1:] == [1, 1.0, 1.0]

    play(test)


def test_expectation_17_keys_are_hashed_shown_once_and_revocable(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        key = await harness.service.admin.create_key("", KeyRequest(name="k", scopes=["decide"]))
        assert key.secret is not None
        assert harness.service.state.by_hash[hash_key(key.secret)].scopes == ["decide"]
        await harness.restart()
        assert harness.service.state.by_hash[hash_key(key.secret)].id == key.id
        assert key.secret.encode() not in harness.file.read_bytes()
        await harness.service.admin.revoke_key("", key.id)
        assert not harness.service.state.by_hash
        with refused(404, "unknown-key"):
            await harness.service.admin.revoke_key("", "nobody")
        await harness.restart()
        assert not harness.service.state.by_hash
        assert harness.service.state.keys[key.id].revoked

    play(test)


def test_expectation_18_a_full_queue_is_refused_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        service = Service(SQLite(tmp_path / "journal.db"), limit=3)
        waiting = [service.read(lambda batch: batch.state.seq) for _ in range(3)]
        with refused(503, "overload"):
            await asyncio.wait_for(service.read(lambda batch: batch.state.seq), 30)
        service.start()
        assert await asyncio.gather(*waiting) == [0, 0, 0]
        assert await service.read(lambda batch: batch.state.seq) == 0
        await service.stop()
        with refused(503, "stopped"):
            await service.read(lambda batch: batch.state.seq)

    asyncio.run(test())


def test_expectation_22_what_is_queued_is_finished_before_the_end(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        waiting = [harness.service.decisions.decide("b", ASK) for _ in range(50)]
        await harness.restart()
        replies = await asyncio.gather(*waiting)
        assert len({reply.decision_id for reply in replies}) == 50
        assert harness.service.state.bandit("b").history.count == 50

    play(test)


def test_a_bandit_may_change_while_a_request_waits(play: Callable[[Test], None]) -> None:
    """Arms are read when a request comes, and it is decided in its turn."""

    async def test(harness: Harness) -> None:
        service, wide = harness.service, {"kind": "vector", "dim": 4}
        await harness.create()
        await service.admin.put_arms("", "b", [Arm("r", x=[1.0, 0.0, 0.0])])
        changed = service.admin.put_arms("", "b", [Arm("r", x=[0.0, 1.0, 0.0])])
        registered, own = service.decisions.decide("b", DecideRequest()), service.decisions.decide("b", ASK)
        wider = service.admin.update("", "b", {"features": wide})
        late = service.decisions.decide("b", ASK)
        await changed
        record = await service.decisions.decision("b", (await registered).decision_id)
        assert np.frombuffer(record.decided.x).tolist() == [0.0, 1.0, 0.0]
        assert (await own).arm in {arm.id for arm in ARMS}
        with refused(422, "invalid", "registered arm 'r'.x must be a list of 4 numbers"):
            await wider
        assert (await late).arm in {arm.id for arm in ARMS}
        await service.admin.drop_arm("", "b", "r")
        wider, late = service.admin.update("", "b", {"features": wide}), service.decisions.decide("b", ASK)
        await wider
        with refused(409, "conflict", "the bandit got other features while this request waited"):
            await late
        await service.admin.update("", "b", {"features": VECTOR})
        seeded, same = service.admin.update("", "b", {"seed": 8}), service.decisions.decide("b", ASK)
        await seeded
        assert (await same).epoch == service.state.bandit("b").epoch

    play(test)


def test_a_refused_request_lets_go_of_its_arms(play: Callable[[Test], None]) -> None:
    async def ask(service: Service) -> "weakref.ref[Array]":
        table = np.ones((2, 3))
        call = Call(service, Metrics(service), "", {"name": "b"}, None, DecideRequest(shape=(2, 3)), table)
        with suppress(Problem):
            await decide(call)
        return weakref.ref(table)

    async def test(harness: Harness) -> None:
        await harness.create()
        await harness.service.admin.retire("", "b")
        gc.disable()
        try:
            table = await ask(harness.service)
            await asyncio.sleep(0)  # what woke this task has the answer until it is over
            assert table() is None
        finally:
            gc.enable()

    play(test)


def test_a_write_that_was_made_and_not_told_is_seen_in_the_next_batch(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        write = harness.service.group_commit.store.write

        def lose(events: Any) -> None:
            write(events)
            raise StoreError("the journal cannot be used: no answer")

        harness.service.group_commit.store.write = lose  # type: ignore[method-assign]
        with refused(503, "unavailable"):
            await harness.decide()
        harness.service.group_commit.store.write = write  # type: ignore[method-assign]
        await harness.decide()
        assert harness.service.state.bandit("b").history.count == 2

    play(test)


def test_windows_do_not_close_for_ever_while_the_journal_is_away(
    play: Callable[[Test], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated.service.core.windows.PAGE_DECISIONS", 2)

    async def test(harness: Harness) -> None:
        await harness.wait_for_rewards(6)
        store, batch = harness.service.group_commit.store, harness.service.group_commit.store.batch
        pages, decisions = 0, store.decisions

        def fail() -> Any:
            raise StoreError("the journal cannot be used: away")

        def count(*args: Any) -> Any:
            nonlocal pages
            pages += 1
            if pages == 2:
                store.batch = fail  # type: ignore[method-assign]
            return decisions(*args)

        store.decisions = count  # type: ignore[method-assign,assignment]
        harness.clock.now += 100.0
        while not harness.service.group_commit.store_error:
            with suppress(Problem):
                await harness.service.read(lambda batch: None)
        with refused(503, "unavailable"):
            await harness.decide()
        store.batch, store.decisions = batch, decisions  # type: ignore[method-assign]
        await harness.pass_time(2.0)
        assert harness.learned == 6

    play(test)


def test_requests_are_served_between_the_pages_of_windows_that_close(
    play: Callable[[Test], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated.service.core.windows.PAGE_DECISIONS", 2)

    async def test(harness: Harness) -> None:
        await harness.wait_for_rewards(20)
        harness.clock.now += 100.0
        await harness.service.read(lambda batch: None)
        assert await harness.service.read(lambda batch: batch.state.names["b"].history.learned) < 20
        await harness.pass_time(2.0)
        assert harness.learned == 20

    play(test)


def test_the_state_is_read_at_one_moment(database: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    after, outside = Postgres.after, 0

    def watch(self: Postgres, *args: Any) -> Any:
        nonlocal outside
        outside += self._db.info.transaction_status != TransactionStatus.INTRANS
        return after(self, *args)

    monkeypatch.setattr(Postgres, "after", watch)

    async def test(address: str) -> None:
        first, idle = Service(open_store(address)), Service(open_store(address))
        first.start()
        idle.start()
        await first.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        async with asyncio.timeout(30):
            while "b" not in idle.state.names:
                await asyncio.sleep(0)
        await asyncio.gather(first.stop(), idle.stop())

    asyncio.run(test(database()))
    assert outside == 0


def test_a_replica_decides_behind_what_others_wrote_and_hears_of_it_when_idle(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated.service.core.group_commit.POLL_SECONDS", 600.0)

    async def test(address: str) -> None:
        first, other = Service(open_store(address)), Service(open_store(address))
        with monkeypatch.context() as deaf:
            deaf.setattr(GroupCommit, "_listen", lambda self, loop: None)
            first.start()
        other.start()
        await first.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        async with asyncio.timeout(30):
            while "b" not in other.state.names:
                await asyncio.sleep(0)
        for _ in range(3):
            await other.decisions.decide("b", ASK)
        reply = await first.decisions.decide("b", ASK)
        assert first.decisions.ids.seq(reply.decision_id) == first.state.seq == 5
        assert (await first.decisions.decision("b", reply.decision_id)).decided.round == 3
        await asyncio.gather(first.stop(), other.stop())

    asyncio.run(test(database()))


def test_long_requests_run_alone_and_aside_and_short_ones_let_the_loop_go_on(
    play: Callable[[Test], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated.service.core.group_commit.SLICE_SECONDS", 0.0)

    async def test(harness: Harness) -> None:
        await harness.create()
        service, seen = harness.service, []

        def note(what: str) -> Callable[[Any], None]:
            return lambda _: seen.append((what, threading.current_thread() is threading.main_thread()))

        asked = [service.group_commit.submit(note("short")) for _ in range(3)]
        asked += [service.read(note("alone")), service.group_commit.submit(note("last"))]
        asyncio.get_running_loop().call_later(0, lambda: note("between")(None))
        await asyncio.gather(*asked)
        assert sorted(seen[:4]) == [("between", True), ("short", True), ("short", True), ("short", True)]
        assert seen[3] == ("short", True)
        assert seen[4:] == [("alone", False), ("last", True)]

    play(test)


def test_a_full_queue_is_refused_before_arms_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        service = Service(SQLite(tmp_path / "journal.db"), limit=1)
        service.start()
        await service.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        monkeypatch.setattr(RegisteredArms, "table", None)
        waiting = service.read(lambda batch: None)
        with refused(503, "overload"):
            await service.decisions.decide("b", ASK)
        await waiting
        await service.stop()

    asyncio.run(test())


def test_an_engine_that_fails_within_a_batch_leaves_the_journal_to_others(database: Callable[[], str]) -> None:
    def die(batch: Batch) -> None:
        raise SystemExit

    async def test(address: str) -> None:
        service, other = Service(open_store(address)), Service(open_store(address))
        service.start()
        other.start()
        with refused(503, "stopped"):
            await service.group_commit.submit(die)
        assert not service.group_commit.ready
        with refused(503, "stopped"):
            await service.read(lambda batch: None)
        await other.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        await asyncio.gather(service.stop(), other.stop())

    asyncio.run(asyncio.wait_for(test(database()), 60))


def test_expectation_24_retention_and_erasure(tmp_path: Path) -> None:
    async def test() -> None:
        harness = Harness(tmp_path / "journal.db", Clock())
        service = harness.service
        await harness.create(retention=1000.0)
        old = await harness.decide(subject="ann")
        await harness.reward(old.decision_id, 1.0)
        kept = await harness.decide(subject="bob")
        assert await service.admin.erase("", "bob") == 1
        with refused(404, "unknown-decision"):
            await service.decisions.decision("b", kept.decision_id)
        model = await service.admin.model("b")
        await harness.pass_time(4000.0)
        with refused(404, "unknown-decision"):
            await service.decisions.decision("b", old.decision_id)
        assert await service.admin.model("b") == model
        kinds = [event.kind for event in await service.admin.audit(10)]
        assert kinds == ["prune", "erase", "create"]
        before = harness.contents()
        await harness.restart()
        assert harness.contents() == before
        assert b"bob" not in b"".join(
            e.body + (e.subject or "").encode() for e in await harness.service.admin.export("b", 0, 99)
        )
        await harness.service.stop()

    asyncio.run(test())


def test_a_changed_configuration_starts_an_epoch_and_late_rewards_belong_to_their_own(
    play: Callable[[Test], None],
) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        old = await harness.decide()
        await harness.service.admin.update("", "b", {"space": {"boldness": [1.0, 3.0]}})
        new = await harness.decide()
        assert new.epoch > old.epoch
        before = harness.service.state.bandit("b").agent.state()
        assert await harness.reward(old.decision_id, 1.0) == "counted"
        assert harness.service.state.bandit("b").agent.state() == before
        assert await harness.reward(new.decision_id, 1.0) == "learned"
        for wrong in ({"space": {"nothing": [1.0]}}, {"tuner": {"name": "Nobody"}}, {"color": 1}, {"floor": 2.0}):
            with refused(422, "invalid"):
                await harness.service.admin.update("", "b", wrong)

    play(test)


@pytest.mark.parametrize(
    "wrong",
    [
        {"features": {"kind": "nothing"}},
        {"policy": {"dim": 3}},
        {"policy": {"name": "LinUCB", "dim": 4}},
        {"policy": {"name": "Nobody"}},
        {"tuner": {"name": "Theory"}, "space": {"alpha": [1.0]}},
        {"space": {"alpha": []}},
        {"rewards": (1.0, 0.0)},
        {"aggregate": "sum"},
        {"default_reward": 0.0},
        {"fallback": "arm"},
        {"fallback_arm": "a"},
    ],
)
def test_a_spec_that_cannot_be_is_refused_and_nothing_changes(
    play: Callable[[Test], None], wrong: dict[str, Any]
) -> None:
    async def test(harness: Harness) -> None:
        with refused(422, "invalid"):
            await harness.create(**wrong)
        assert harness.service.state.seq == 0

    play(test)


def test_alarms_tell_of_an_edge_and_of_a_collapse(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(tuner={"name": "TwoLayer"}, space={"alpha": [0.1, 1.0, 10.0], "lam": [1.0]})
        bandit = harness.service.state.bandit("b")
        assert bandit.alarms() == []
        bandit.history.learned = 1000
        assert bandit.alarms() == []
        weights = [np.array([0.05, 0.9, 0.05]), np.array([0.95, 0.04, 0.01]), np.array([1e-9, 1.0 - 2e-9, 1e-9])]
        found = []
        for p in weights:
            bandit.agent.tuner.probabilities = lambda p=p: [p]  # type: ignore[method-assign,misc]
            found.append(bandit.alarms())
        assert [len(each) for each in found] == [0, 1, 1]
        assert "alpha=0.1" in found[1][0]
        assert "collapsed" in found[2][0]
        del bandit.agent.tuner.probabilities
        bandit.history.learned = 0

    play(test)


def test_a_snapshot_that_was_not_committed_is_taken_again(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        await harness.restart()
        for _ in range(30):
            await harness.reward((await harness.decide()).decision_id, 1.0)
        save = harness.service.group_commit.store.save

        def fail(*args: Any) -> None:
            save(*args)
            raise StoreError("the journal cannot be used: full")

        harness.service.group_commit.store.save = fail  # type: ignore[method-assign,assignment]
        with refused(503, "unavailable"):
            await harness.service.admin.save_model("b")
        assert not harness.ready()
        harness.service.group_commit.store.save = save  # type: ignore[method-assign]
        await harness.create("other")
        await harness.restart()
        assert harness.learned == 30

    play(test)


def test_a_snapshot_whose_commit_failed_is_taken_again(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        await harness.reward((await harness.decide()).decision_id, 1.0)
        batch = harness.service.group_commit.store.batch

        @contextmanager
        def fail() -> Iterator[int]:
            with batch() as last:
                yield last
                raise StoreError("the journal cannot be used: full")

        harness.service.group_commit.store.batch = fail  # type: ignore[method-assign]
        with refused(503, "unavailable"):
            await harness.service.admin.save_model("b")
        harness.service.group_commit.store.batch = batch  # type: ignore[method-assign]
        await harness.create("other")
        await harness.restart()
        assert harness.learned == 1

    play(test)


def test_a_model_can_be_kept_after_a_kill(tmp_path: Path) -> None:
    async def test() -> None:
        harness = Harness(tmp_path / "journal.db", Clock())
        await harness.create()
        await harness.reward((await harness.decide()).decision_id, 1.0)
        copy = SQLite(tmp_path / "killed.db")
        copy_journal(SQLite(harness.file, read_only=True), copy)
        killed = Service(copy)
        killed.start()
        kept = await killed.admin.save_model("b")
        assert await killed.admin.model("b", kept.version) == await killed.admin.model("b")
        assert kept.version == killed.state.seq
        await killed.stop()
        await harness.service.stop()

    asyncio.run(test())


def test_every_window_closes(play: Callable[[Test], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """After a commit that failed, with clocks that differ, and many at once; a restart goes on where it was."""
    monkeypatch.setattr("syndicated.service.core.windows.PAGE_DECISIONS", 4)

    async def test(harness: Harness) -> None:
        await harness.create(window=10.0, default_reward=0.5)
        for step in (2.0, -1.5, 0.0, 3.0, -2.0, 1.0, 0.0, 0.0, 0.0, 0.5):
            harness.clock.now += step
            await harness.decide()
        append = harness.service.group_commit.store.append

        def fail(events: Any) -> None:
            raise StoreError("the journal cannot be used: full")

        harness.service.group_commit.store.append = fail  # type: ignore[method-assign]
        await harness.pass_time(20.0)
        assert harness.learned == 0
        harness.service.group_commit.store.append = append  # type: ignore[method-assign]
        await harness.pass_time(1.5)
        assert harness.learned == 10
        closed = harness.service.state.bandit("b").closed
        await harness.restart()
        assert harness.service.state.bandit("b").closed == closed > 4
        await harness.decide()
        await harness.pass_time(11.5)
        assert harness.learned == 11

    play(test)


def test_what_is_learned_when_a_window_closes_is_within_the_range(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        with refused(422, "invalid", "default_reward must be between 0 and 1; got 7"):
            await harness.create(window=10.0, default_reward=7.0, rewards=(0.0, 1.0))
        with refused(422, "invalid", "default_reward must be between 0 and 1"):
            await harness.create(window=10.0, default_reward=1e308, policy={"name": "UCBGLM"})
        await harness.create(window=10.0, aggregate="sum", rewards=(0.0, 1.0))
        id_ = (await harness.decide()).decision_id
        for _ in range(3):
            await harness.reward(id_, 0.75)
        await harness.pass_time(11.0)
        assert harness.service.state.bandit("b").history.total == 1.0

    play(test)


def test_rewards_that_were_collected_are_learned_also_if_the_spec_changes(play: Callable[[Test], None]) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(window=10.0, aggregate="sum")
        assert await harness.reward((await harness.decide()).decision_id, 2.0) == "collected"
        await harness.service.admin.update("", "b", {"aggregate": "first"})
        await harness.pass_time(11.0)
        assert harness.service.state.bandit("b").history.total == 2.0

    play(test)


def test_a_journal_that_can_be_read_but_not_written_is_away(
    play: Callable[[Test], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        store = harness.service.group_commit.store

        def fail(*args: Any) -> None:
            raise StoreError("the journal cannot be used: full")

        append, touch = store.append, store.touch
        store.append, store.touch = fail, fail  # type: ignore[method-assign,assignment]
        with refused(503, "unavailable"):
            await harness.decide()
        with refused(503, "unavailable"):
            await harness.service.read(lambda batch: None)
        assert not harness.ready()
        store.append = append  # type: ignore[method-assign]
        await harness.decide()  # which was written: nobody has to try
        assert harness.ready()
        store.append = fail  # type: ignore[method-assign,assignment]
        with refused(503, "unavailable"):
            await harness.decide()
        store.append, store.touch = append, touch  # type: ignore[method-assign]
        await harness.service.read(lambda batch: None)
        assert harness.ready()
        harness.service.group_commit._batch_began = harness.clock.now - 60.0
        assert not harness.ready()
        harness.service.group_commit._batch_began = math.inf

    play(test)
    full = "the journal cannot be used: full"
    assert caplog.messages == 2 * [f"the journal is away: {full}", f"the journal is back; it was away: {full}"]


def test_a_last_snapshot_that_cannot_be_taken_is_told_and_nothing_is_lost(
    play: Callable[[Test], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        await harness.reward((await harness.decide()).decision_id, 1.0)

        def fail(*args: Any) -> None:
            raise StoreError("the journal cannot be used: full")

        harness.service.group_commit.store.save = fail  # type: ignore[method-assign,assignment]
        await harness.restart()
        assert harness.learned == 1

    play(test)
    told = "the last snapshot could not be taken, the next start will replay: the journal cannot be used: full"
    assert caplog.messages == [told]


def test_what_one_replica_erases_no_other_keeps(database: Callable[[], str]) -> None:
    async def test() -> None:
        address = database()
        first, late = Service(open_store(address)), Service(open_store(address))
        for service in (first, late):
            service.start()
        await first.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        reply = await first.decisions.decide("b", DecideRequest(arms=list(ARMS), subject="ann"))
        other = await first.decisions.decide("b", DecideRequest(arms=list(ARMS), subject="ann"))
        await first.decisions.reward("b", RewardRequest(decision_id=reply.decision_id, reward=1.0))
        assert (await late.decisions.decision("b", other.decision_id)).event.subject == "ann"
        await late.stop()
        await first.admin.erase("", "ann")
        late = Service(open_store(address))
        late.start()
        for service in (late, first):
            with refused(404, "unknown-decision"):
                await service.decisions.reward("b", RewardRequest(decision_id=other.decision_id, reward=1.0))
        again = await late.decisions.decide("b", DecideRequest(arms=list(ARMS), subject="bob"))
        assert (await first.decisions.decision("b", again.decision_id)).event.subject == "bob"
        await late.admin.erase("", "bob")
        with refused(404, "unknown-decision"):
            await first.decisions.reward("b", RewardRequest(decision_id=again.decision_id, reward=1.0))
        assert contents(first.state) == contents(late.state)
        for service in (first, late):
            await service.stop()

    asyncio.run(asyncio.wait_for(test(), 60))


@pytest.mark.parametrize("seed", range(3))
def test_leaders_are_those_that_sorting_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(300):
        K = int(rng.integers(1, 8))
        scores, bonus = rng.integers(0, 4, K).astype(float), rng.integers(0, 3, K).astype(float)
        greedy, *best = leaders(scores, bonus, 3).tolist()
        assert greedy == int(np.argmax(scores - bonus))
        assert best == np.argsort(-scores, kind="stable")[:3].tolist()


@pytest.mark.parametrize("policy", ["LinUCB", "LinTS", "UCBGLM", "SGDTS"])
def test_a_decision_is_explained_by_what_was_expected(play: Callable[[Test], None], policy: str) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(policy={"name": policy} | ({"tau": 2} if policy == "SGDTS" else {}))
        for _ in range(12):
            reply = await harness.decide()
            await harness.reward(reply.decision_id, float(reply.arm == "b"))
        agent = harness.service.state.bandit("b").agent
        reply = await harness.decide()
        decided = (await harness.service.decisions.decision("b", reply.decision_id)).decided
        predicted = agent.policy.predict(np.eye(3), decided.params)
        assert {top.arm: top.predicted for top in decided.top} == pytest.approx(
            {"abc"[arm]: predicted[arm] for arm in range(3)}
        )
        assert decided.explored == (predicted["abc".index(decided.arm)] < predicted.max())
        assert [top.score for top in decided.top] == sorted([top.score for top in decided.top], reverse=True)

    play(test)


def test_a_history_keeps_its_size(play: Callable[[Test], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syndicated.service.core.history.MAX_ROWS", 10)

    async def test(harness: Harness) -> None:
        await harness.create()
        for _ in range(100):
            await harness.decide()
        rows = harness.service.state.bandit("b").history.rows()
        assert len(rows) <= 11
        assert len(set(np.diff(rows[:, 1]))) == 1

    play(test)


class Flaky(SQLite):
    """A journal that now and then cannot be written."""

    rng = np.random.default_rng(0)
    often = 0.0

    def append(self, events: Any) -> None:
        super().append(events)
        if self.rng.random() < self.often:
            raise StoreError("the journal cannot be used: full")


SPECS: list[dict[str, Any]] = [
    {"policy": {"name": "LinUCB"}, "tuner": {"name": "Syndicated", "horizon": 500}, "space": {"alpha": [0.1, 1.0]}},
    {"policy": {"name": "LinTS"}, "window": 30.0, "default_reward": 0.0, "floor": 0.2},
    {"policy": {"name": "UCBGLM"}, "tuner": {"name": "Corral", "horizon": 500}, "space": {"alpha": [0.1, 1.0]}},
    {"policy": {"name": "SGDTS", "tau": 5}, "window": 30.0, "aggregate": "last", "holdout": 0.1},
    {"policy": {"name": "LinUCB"}, "deferred": True, "mode": "apprentice"},
]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_the_live_state_is_the_replayed_one(tmp_path: Path, seed: int) -> None:
    """Random requests of all kinds in concurrent batches, failing commits, restarts, and a clock that moves."""
    rng = np.random.default_rng(seed)

    async def chance(harness: Harness, ids: list[tuple[str, str]], acknowledged: dict[str, str]) -> None:
        service, name = harness.service, f"b{rng.integers(len(SPECS))}"
        kind = rng.choice(["decide", "decide", "reward", "reward", "activate", "arms", "mode", "save"])
        try:
            if kind == "decide" or not ids:
                x = rng.normal(size=(4, 3)).tolist()
                arms: list[str | Arm] = [Arm(str(k), x=row) for k, row in enumerate(x)]
                event_id = None if rng.random() < 0.5 else f"e{rng.integers(50)}"
                asked = DecideRequest(arms=arms, event_id=event_id, subject=f"s{rng.integers(9)}", played="1")
                reply = await service.decisions.decide(name, asked)
                ids.append((name, reply.decision_id))
                if event_id:
                    assert acknowledged.setdefault(name + event_id, reply.decision_id) == reply.decision_id
            elif kind == "reward":
                name, id_ = ids[rng.integers(len(ids))]
                await service.decisions.reward(name, RewardRequest(decision_id=id_, reward=float(rng.integers(2))))
            elif kind == "activate":
                await service.decisions.activate(*ids[rng.integers(len(ids))])
            elif kind == "arms":
                await service.admin.put_arms("", name, [Arm(f"arm{rng.integers(5)}", x=rng.normal(size=3).tolist())])
            elif kind == "mode":
                await service.admin.update("", name, {"floor": float(rng.random() / 4), "seed": int(rng.integers(3))})
            elif kind == "save":
                await service.admin.save_model(name)
        except Problem as problem:
            if problem.status not in (409, 503):
                raise

    async def test() -> None:
        harness = Harness(tmp_path / "journal.db", Clock())
        for i, spec in enumerate(SPECS):
            await harness.create(f"b{i}", **spec)
        ids: list[tuple[str, str]] = []
        acknowledged: dict[str, str] = {}
        for part in range(12):
            await harness.service.stop()
            flaky = Flaky(tmp_path / "journal.db")
            flaky.rng, flaky.often = np.random.default_rng(seed), 0.2 * (part % 2)
            harness.service = Service(flaky, clock=harness.clock)
            harness.service.start()
            waiting: list[Awaitable[None]] = []
            for _ in range(40):
                waiting = [chance(harness, ids, acknowledged) for _ in range(int(rng.integers(1, 8)))]
                await asyncio.gather(*waiting)
            flaky.often = 0.0
            await harness.pass_time(float(rng.integers(20)))
            assert harness.contents() == harness.replayed()
        for (name, id_), found in zip(
            ids, [await harness.service.decisions.decision(*each) for each in ids], strict=True
        ):
            learned = [event for event in found.about if event.learn is not None]
            assert len(learned) <= 1, (name, id_)
        await harness.service.stop()

    asyncio.run(asyncio.wait_for(test(), 120))
