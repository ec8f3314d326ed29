"""What the service promises (docs/service-contract.md), without HTTP: decisions, rewards, models, arms and keys."""

import asyncio
import math
from contextlib import closing
from functools import reduce
from pathlib import Path

import msgspec
import numpy as np
import pytest
from support.core_service import ARMS, VECTOR, Clock, Harness, PlayCore, exported, refused, run

from syndicated.service.bandits.bandit import build_parts
from syndicated.service.bandits.messages import Arm, KeyRequest, Spec
from syndicated.service.bandits.state import hash_key
from syndicated.service.core.service import Service
from syndicated.store import SQLite
from syndicated.store import copy as copy_journal


def test_expectation_01_a_decision_says_what_was_decided_and_how(play_core: PlayCore) -> None:
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

    play_core(test)


def test_expectation_02_a_retry_returns_the_same_decision_also_after_a_restart(play_core: PlayCore) -> None:
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

    play_core(test)


def test_expectation_03_a_reward_is_idempotent(play_core: PlayCore) -> None:
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

    play_core(test)


def test_expectation_07_deferred_decisions_are_learned_only_if_activated(play_core: PlayCore) -> None:
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

    play_core(test)


TUNERS = ("Consensus", "Syndicated", "Corral", "TwoLayer", "OP", "Theory")


@pytest.mark.parametrize("floor", [0.0, 0.3])
@pytest.mark.parametrize(
    ("policy", "tuner"), [*(("LinUCB", tuner) for tuner in TUNERS), ("LinTS", "Consensus"), ("UCBGLM", "Consensus")]
)
def test_expectation_08_propensities_are_those_of_the_arms(
    play_core: PlayCore, policy: str, tuner: str, floor: float
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

    play_core(test)


def test_expectation_10_a_service_decides_and_learns_as_the_library_does(play_core: PlayCore) -> None:
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

    play_core(test)


def test_expectation_11_models_are_listed_exported_imported_and_rolled_back(play_core: PlayCore) -> None:
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

    play_core(test)


def test_expectation_12_bandits_are_isolated(play_core: PlayCore) -> None:
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

    play_core(test)


def test_expectation_13_arms_come_and_go(play_core: PlayCore) -> None:
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

    play_core(test)


def test_expectation_14_the_kill_switch_falls_back_and_is_logged(play_core: PlayCore) -> None:
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

    play_core(test)


def test_expectation_15_an_apprentice_learns_from_what_the_caller_played(play_core: PlayCore) -> None:
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

    play_core(test)


def test_expectation_16_a_hold_out_share_stays_with_its_subjects(play_core: PlayCore) -> None:
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

    play_core(test)


def test_expectation_17_keys_are_hashed_shown_once_and_revocable(play_core: PlayCore) -> None:
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

    play_core(test)


def test_expectation_24_what_was_erased_leaves_the_files_once_nobody_reads_them(tmp_path: Path) -> None:
    async def test() -> None:
        harness = Harness(tmp_path / "journal.db", Clock())

        def has_traces() -> bool:
            return any(b"a person" in part.read_bytes() for part in harness.file.parent.glob("*.db*"))

        await harness.create()
        await harness.decide(subject="a person")
        with closing(SQLite(harness.file, read_only=True)) as reader, reader.view():
            assert reader.last()
            assert await harness.service.admin.erase("", "a person") == 1
            await harness.pass_time(2.0)
            assert has_traces()
        await harness.pass_time(2.0)
        assert not has_traces()
        await harness.service.stop()

    run(test())


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
            e.body + (e.subject or "").encode() for e in await exported(harness.service, "b", 0, 99)
        )
        await harness.service.stop()

    run(test())


def test_pruning_leaves_in_memory_what_the_journal_still_has(tmp_path: Path) -> None:
    async def test() -> None:
        harness = Harness(tmp_path / "journal.db", Clock())
        await harness.create(retention=1000.0)
        await harness.create("other")
        old, other = await harness.decide(), await harness.decide("other")
        await harness.service.admin.save_model("b")
        await harness.pass_time(4000.0)
        ids, state = harness.service.decisions.ids, harness.service.state
        assert [state.record(ids.seq(each.decision_id)) is None for each in (old, other)] == [True, False]
        with refused(404, "unknown-decision"):
            await harness.reward(old.decision_id, 1.0)
        await harness.service.stop()

    run(test())


def test_a_decision_is_kept_until_a_snapshot_has_its_reward(tmp_path: Path) -> None:
    async def test() -> None:
        harness = Harness(tmp_path / "journal.db", Clock())
        await harness.create(retention=1000.0)
        early, late = await harness.decide(), await harness.decide()
        await harness.reward(early.decision_id, 1.0)
        await harness.service.admin.save_model("b")
        await harness.reward(late.decision_id, 0.5)
        await harness.pass_time(4000.0)
        with refused(404, "unknown-decision"):
            await harness.service.decisions.decision("b", early.decision_id)
        copy = SQLite(tmp_path / "killed.db")  # without the snapshot that a stop takes
        copy_journal(SQLite(harness.file, read_only=True), copy)
        killed = Service(copy)
        killed.start()
        assert await killed.admin.model("b") == await harness.service.admin.model("b")
        await killed.stop()
        await harness.service.admin.save_model("b")
        await harness.pass_time(4000.0)
        with refused(404, "unknown-decision"):
            await harness.service.decisions.decision("b", late.decision_id)
        await harness.service.stop()

    run(test())


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

    run(test())
