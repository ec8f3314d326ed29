"""Bandits with a context and named arms: what a bandit is that was created with nothing but a name.

`play_core` compares the live state with a full replay at the end of every test.
"""

from typing import Any

import numpy as np
import pytest
from support.core_service import Harness, PlayCore, exported, refused

from syndicated import Agent
from syndicated.service.bandits.bandit import Bandit
from syndicated.service.bandits.messages import Arm, Create
from syndicated.service.bandits.records import Decided
from syndicated.service.core.log_lines import LogLine, to_line

SMALL: dict[str, Any] = {"features": {"kind": "open", "dim": 4}}
SCHEMA: dict[str, Any] = {
    "features": {"kind": "fields", "context": {"age": "number", "country": ["fr", "de"]}, "arm": {"price": "number"}}
}


async def ask(harness: Harness, context: Any, *arms: str | Arm, **more: Any) -> tuple[str, str]:
    """The arm and the id of a decision."""
    reply = await harness.decide(context=context, arms=list(arms) or None, **more)
    return reply.arm, reply.decision_id


def the_bandit(harness: Harness, name: str = "b") -> Bandit:
    return harness.service.state.bandit(name)


async def decided(harness: Harness, id_: str) -> Decided:
    return (await harness.service.decisions.decision("b", id_)).decided


async def lines(harness: Harness, name: str = "b") -> list[LogLine]:
    events = await exported(harness.service, name, 0, 1000)
    return [to_line(event, the_bandit(harness, name)) for event in events]


def test_a_bandit_needs_nothing_but_a_name(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        made = await harness.service.admin.create("", Create(name="b"))
        assert (made.spec.features, made.spec.policy) == ({"kind": "open"}, {"name": "ArmUCB"})
        for t in range(60):
            context = {"hour": t % 24, "country": "fr" if t % 2 else "de"}
            arm, id_ = await ask(harness, context, "sports", "politics", Arm("tech", features={"price": 2.5}))
            assert await harness.reward(id_, float(arm == ("politics" if t % 2 else "sports"))) == "learned"
        played = [(await ask(harness, {"hour": 9, "country": c}, "sports", "politics"))[0] for c in ("fr", "de")]
        assert played == ["politics", "sports"]
        for wrong, detail in (({"a": [1]}, "context.a"), ([1.0] * 65, "at most 64"), ([None], r"context\[0\]")):
            with refused(422, "invalid", detail):
                await ask(harness, wrong, "sports")

    play_core(test)


@pytest.mark.parametrize("features", [{"kind": "open", "dim": 3}, {"kind": "fields", "context": 3}])
@pytest.mark.parametrize("policy", [{"name": "ArmUCB"}, {"name": "ArmTS", "models": "hybrid", "link": "linear"}])
def test_expectation_10_named_arms_are_played_as_the_library_plays_them(
    play_core: PlayCore, features: Any, policy: Any
) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(features=features, policy=policy, seed=5)
        agent = Agent.for_arms(encoder=features, policy=policy, seed=5)
        rng = np.random.default_rng(0)
        for t in range(40):
            context, arms = rng.normal(size=3).tolist(), rng.permutation(list("abcd"))[:3].tolist()
            mine = agent.decide(context, arms)
            arm, id_ = await ask(harness, context, *arms)
            assert arm == mine.arm
            reward = float(rng.integers(2))
            agent.learn(mine, reward)
            await harness.reward(id_, reward)
            if t % 15 == 14:
                await harness.restart()
        assert the_bandit(harness).known_arms == set(agent.arms)

    play_core(test)


def test_expectation_13_arms_come_as_they_are_named_and_their_models_go_when_they_are_removed(
    play_core: PlayCore,
) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(**SMALL)
        admin, taken = harness.service.admin, {}
        for name in ("a", "b", "c"):
            taken[name] = [(await ask(harness, [1.0], name))[1] for _ in range(2)]
            await harness.reward(taken[name][0], 1.0)
        assert (await admin.bandit("b")).known_arms == 3
        before = (await admin.bandit("b")).version
        await admin.drop_arm("", "b", "b")
        assert ((await admin.bandit("b")).known_arms, the_bandit(harness).version > before) == (2, True)
        await harness.restart()
        admin = harness.service.admin
        assert the_bandit(harness).known_arms == {"a", "c"}
        with refused(404, "unknown-arm"):
            await admin.drop_arm("", "b", "b")
        assert await harness.reward(taken["b"][1], 1.0) == "learned"
        assert the_bandit(harness).known_arms == {"a", "b", "c"}
        await admin.put_arms("", "b", [Arm("d")])
        await admin.drop_arm("", "b", "d")
        assert (await admin.bandit("b")).arms == 0

    play_core(test)


def test_new_arms_are_refused_where_they_are_not_wanted(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(**SMALL, new_arms=False)
        await harness.create("rows", new_arms=False)
        await harness.service.admin.put_arms("", "b", [Arm("tea"), Arm("milk", features={"price": 2.0})])
        assert (await ask(harness, None))[0] in ("tea", "milk")
        assert (await ask(harness, None, "tea"))[0] == "tea"
        with refused(422, "invalid", r"arms\[1\] must be a registered arm, since new_arms is false; got 'coffee'"):
            await ask(harness, None, "tea", "coffee")
        with refused(422, "invalid", r"arms\[0\] must be a registered arm"):
            await harness.decide("rows")
        epoch = the_bandit(harness).epoch
        await harness.service.admin.update("", "b", {"new_arms": True})
        assert (await ask(harness, None, "coffee"))[0] == "coffee"
        assert the_bandit(harness).epoch == epoch

    play_core(test)


@pytest.mark.parametrize("more", [{}, {"mode": "apprentice"}, {"mode": "off"}, {"floor": 1.0}, {"holdout": 1.0}])
def test_missing_numbers_are_filled_in_whoever_decides(play_core: PlayCore, more: dict[str, Any]) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(**SCHEMA, log="all")
        for age in (20.0, 40.0):
            _, id_ = await ask(harness, {"age": age, "country": "de"}, Arm("tea", features={"price": 2.0}), "milk")
            await harness.reward(id_, 1.0)
        await harness.service.admin.update("", "b", more)
        _, id_ = await ask(harness, {"country": "fr"}, "tea", "milk", played="milk")
        x = np.frombuffer((await decided(harness, id_)).x).tolist()
        assert (x[:3], (await lines(harness))[-1].X) == ([30.0, 1.0, 0.0], [x, x])
        with refused(422, "invalid", "context.country must be one of fr, de"):
            await ask(harness, {"age": 3, "country": "it"}, "tea")

    play_core(test)


@pytest.mark.parametrize("context", ["learned", ["age"], {"country": "category"}])
def test_features_that_would_grow_are_refused(play_core: PlayCore, context: Any) -> None:
    async def test(harness: Harness) -> None:
        with refused(422, "invalid", "features must say the kind of every field"):
            await harness.create(features={"kind": "fields", "context": context})

    play_core(test)


def test_the_policy_follows_from_the_features_unless_it_is_said(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        kinds: dict[str, dict[str, Any]] = {
            "open": {},
            "fields": {},
            "vector": {"dim": 2},
            "hashed": {"dim": 8},
            "ids": {"arms": ["a"]},
        }
        for kind, more in kinds.items():
            await harness.create(kind, features={"kind": kind, **more})
        found = {kind: the_bandit(harness, kind).spec.policy["name"] for kind in kinds}
        assert found == {"open": "ArmUCB", "fields": "ArmUCB", "vector": "LinUCB", "hashed": "LinUCB", "ids": "LinUCB"}
        await harness.create(features={"kind": "vector", "dim": 2}, policy={"name": "ArmUCB"})
        _, id_ = await ask(harness, None, Arm("a", x=[1.0, 0.0]), Arm("b", x=[0.0, 1.0]))
        await harness.reward(id_, 1.0)
        assert len(the_bandit(harness).known_arms) == 1
        with refused(422, "invalid", "an arm without features must be registered"):
            await ask(harness, None, "a")

    play_core(test)


def test_all_arms_are_logged_in_a_few_bytes_each(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(log="all", **SMALL)
        await harness.service.admin.put_arms("", "b", [Arm(f"article-{k}") for k in range(200)])
        await harness.service.admin.drop_arm("", "b", "article-7")
        sizes = []
        for arms in (["article-0"], [f"article-{k}" for k in range(101)]):
            _, id_ = await ask(harness, [0.5, 2.0], *arms)
            record = await harness.service.decisions.decision("b", id_)
            sizes.append(len(record.event.body) - sum(len(top.arm) + 30 for top in record.decided.top))
            assert (await lines(harness))[-1].arms == arms
            assert [[0.5, 2.0, 0.0, 0.0]] * len(arms) == (await lines(harness))[-1].X
        assert (sizes[1] - sizes[0]) / 100 < 2
        await harness.restart()
        assert (await lines(harness))[-1].arms == [f"article-{k}" for k in range(101)]

    play_core(test)


def test_expectation_09_a_log_with_named_arms_is_imported_to_the_same_model(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        for name in ("b", "twin"):
            await harness.create(name, log="all", **SCHEMA)
        await harness.service.admin.put_arms("", "b", [Arm("tea", features={"price": 1.0}), Arm("milk")])
        rng = np.random.default_rng(3)
        for t in range(30):
            country = ["fr", "de"][t % 2]
            _, id_ = await ask(
                harness, {"age": float(rng.integers(9)), "country": country}, "tea", "milk", f"new{t % 5}"
            )
            await harness.reward(id_, float(rng.integers(2)))
            if t == 20:
                await harness.service.admin.drop_arm("", "b", "tea")
        exported = await lines(harness)
        assert "forget" in [line.kind for line in exported]
        imported = await harness.service.admin.import_log("", "twin", list(exported))
        assert (imported.imported, imported.left_out) == (len(exported), 0)
        assert (
            the_bandit(harness).agent.player.books[0].as_dict()
            == the_bandit(harness, "twin").agent.player.books[0].as_dict()
        )
        states = [the_bandit(harness, name).agent.policy.state() for name in ("b", "twin")]
        assert all(np.array_equal(states[0][key], states[1][key]) for key in states[0])
        assert [line.X for line in await lines(harness, "twin")] == [line.X for line in exported]

    play_core(test)
