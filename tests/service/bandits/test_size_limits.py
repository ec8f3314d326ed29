"""Requests and bandits that would delay others are refused; what is large and allowed is read off the loop."""

import asyncio
import threading
import tracemalloc
from typing import Any

import pytest
from support.core_service import Harness, PlayCore, refused

from syndicated.agent import Agent
from syndicated.errors import InputError
from syndicated.features import Encoder, PreparedArm
from syndicated.features._open import Open
from syndicated.service.bandits import bandit, size_limits
from syndicated.service.bandits.bandit import build_parts
from syndicated.service.bandits.messages import Arm, Spec
from syndicated.service.bandits.model_load import EpochStart
from syndicated.service.bandits.state import State
from syndicated.service.core import admin, new_epoch
from syndicated.service.core.log_lines import parse
from syndicated.service.core.new_epoch import NewEpoch

IDS: dict[str, Any] = {"features": {"kind": "open"}}
ALPHAS = [0.01 * k for k in range(1, 101)]
SPECS: list[tuple[dict[str, Any], str]] = [
    ({"features": {"kind": "vector", "dim": 3000}}, "at most 256 columns with LinUCB in a service"),
    ({"features": {"kind": "open", "dim": 3000}, "policy": {"name": "ArmUCB"}}, "at most 256 columns with ArmUCB"),
    ({"policy": {"name": "GPTS", "cap": 301}}, "cap of a policy must be at most 300 in a service; got 301"),
    ({"policy": {"name": "GradientLaplaceTS", "steps": 201}}, "steps of a policy must be at most 200"),
    ({"policy": {"name": "NeuralUCB"}, "space": {"width": [8.0, 33.0]}}, "width of a policy must be at most 32"),
    ({"policy": {"name": "NeuralTS"}, "space": {"depth": [4.0]}}, "depth of a policy must be at most 3"),
    ({"policy": {"name": "SWLinUCB"}, "space": {"window": [20_001.0]}}, "window of a policy must be at most 20000"),
    ({"policy": {"name": "SWLinUCB", "horizon": 10**9}}, "window of a policy must be at most 20000 .* its own is 1e"),
    ({"policy": {"name": "SWLinUCB", "horizon": 10**9}, "space": {"window": [100.0]}}, "window .* its own is 1e"),
    ({"space": {"alpha": ALPHAS[:50], "lam": ALPHAS[:9]}}, "at most 400 combinations with Consensus; got 450"),
    (
        {"space": {"alpha": ALPHAS[:11], "lam": ALPHAS[:10]}, "tuner": {"name": "OP"}},
        "at most 100 combinations with OP",
    ),
    (
        {"space": {"alpha": ALPHAS, "lam": [0.1, 1.0]}, "tuner": {"name": "Corral"}, "rewards": (0.0, 1.0)},
        "at most 100 combinations with Corral; got 200",
    ),
    (
        {"features": {"kind": "vector", "dim": 200}, "space": {"alpha": [0.1, 1.0], "lam": ALPHAS[:14]}},
        "times the square of the columns must be at most 524288 .* got 14 models with 200 columns",
    ),
    (
        {
            "features": {"kind": "vector", "dim": 200},
            "tuner": {"name": "Corral"},
            "space": {"alpha": ALPHAS[:14]},
            "rewards": [0, 1],
        },
        "got 14 models with 200 columns",
    ),
    (
        {
            "features": {"kind": "hashed", "dim": 2**20},
            "policy": {"name": "DiagonalUCB"},
            "tuner": {"name": "Corral"},
            "space": {"boldness": ALPHAS[:5]},
            "rewards": [0, 1],
        },
        "times the columns must be at most 4194304 .* got 5 models with 1048576 columns",
    ),
    ({"policy": {"name": "GPTS"}, "space": {"lam": ALPHAS[:50]}}, "at most 400000000 products for a decision"),
]
REQUESTS: list[tuple[dict[str, Any], str]] = [
    ({"arms": [str(k) for k in range(10_001)]}, "arms must be at most 10000 in a request; got 10001"),
    ({"context": {str(k): 1 for k in range(100_001)}}, "at most 100000 fields; got 100001"),
    ({"context": {"words": ["w"] * 100_001}}, "at most 100000 fields; got 100002"),
    ({"arms": [Arm("a" * 257)]}, r"the id of arms\[0\] must have 1 to 256 characters and no NUL; got 'aaa.* with 257"),
    ({"arms": [Arm("a\x00")]}, "no NUL"),
    ({"arms": [Arm(str(k), x=[0.0] * 1001) for k in range(1000)]}, "at most 1000000 numbers; got 1001000"),
]


@pytest.mark.parametrize(("spec", "message"), SPECS)
def test_expectation_27_large_bandits_are_refused(play_core: PlayCore, spec: dict[str, Any], message: str) -> None:
    async def test(core: Harness) -> None:
        with refused(422, "invalid", message):
            await core.create(**spec)
        await core.create()
        with refused(422, "invalid", message):
            await core.service.admin.update("", "b", spec)

    play_core(test)


@pytest.mark.parametrize(("request_", "message"), REQUESTS)
def test_expectation_27_large_requests_are_refused(play_core: PlayCore, request_: dict[str, Any], message: str) -> None:
    async def test(core: Harness) -> None:
        await core.create(**IDS)
        with pytest.raises(ValueError, match=message):
            await core.decide(**{"arms": ["a"], **request_})

    play_core(test)


def test_expectation_27_arms_are_registered_in_pieces(play_core: PlayCore, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(core: Harness) -> None:
        await core.create(**IDS)
        put = core.service.admin.put_arms
        with refused(422, "invalid", "at most 2000 arms can be registered by a request; got 2001"):
            await put("", "b", [Arm(str(k)) for k in range(2001)])
        with refused(422, "invalid", "at most 10000 features can be registered by a request; got 10001"):
            await put("", "b", [Arm("a", features={str(k): 1.0 for k in range(10_001)})])
        monkeypatch.setattr(size_limits, "MAX_ARMS", 3)
        assert await put("", "b", [Arm("a"), Arm("b")]) == 2
        with refused(422, "invalid", "at most 3 registered arms; it would have 4"):
            await put("", "b", [Arm("b"), Arm("c"), Arm("d")])

    play_core(test)


def test_expectation_27_models_of_arms_are_limited_in_bytes(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(size_limits, "ARM_MODELS_BYTES", 2 * 64 * 64 * size_limits.BYTES_PER_ENTRY)

    async def test(core: Harness) -> None:
        await core.create(**IDS)
        for arm in ("a", "b"):
            await core.reward((await core.decide(arms=[arm])).decision_id, 1.0)
        assert (await core.decide(arms=["a", "b"])).arm in ("a", "b")
        with refused(
            422, "invalid", "at most 2 arms may have a model with 64 columns: remove some; got the new arm 'c'"
        ):
            await core.decide(arms=["a", "c"])
        await core.service.admin.drop_arm("", "b", "a")
        assert (await core.decide(arms=["c"])).arm == "c"

    play_core(test)


def test_a_bandit_of_before_the_limits_keeps_what_it_has(play_core: PlayCore, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(core: Harness) -> None:
        monkeypatch.setattr(size_limits, "MAX_ARGUMENTS", {"cap": 30})
        await core.create(policy={"name": "GPTS", "cap": 30})
        monkeypatch.setattr(size_limits, "MAX_ARGUMENTS", {"cap": 20})
        await core.restart()
        await core.decide()
        assert (await core.service.admin.update("", "b", {"floor": 0.1})).spec.policy["cap"] == 30
        with refused(422, "invalid", "cap of a policy must be at most 20"):
            await core.service.admin.update("", "b", {"seed": 1})

    play_core(test)


@pytest.mark.parametrize(
    ("spec", "models"),
    [
        ({"space": {"alpha": ALPHAS}}, 1),  # points that differ in exploration share a model
        ({"space": {"alpha_multiple": ALPHAS}}, 1),
        ({"space": {"alpha": ALPHAS[:3], "lam": ALPHAS[:5]}}, 5),
        ({"space": {"alpha": ALPHAS[:3]}, "tuner": {"name": "Corral"}, "rewards": (0.0, 1.0)}, 3),
        ({"space": {"alpha": ALPHAS[:3]}, "tuner": {"name": "StochasticCorral"}, "rewards": (0.0, 1.0)}, 6),
    ],
)
def test_models_are_counted_by_priors_and_copies(play_core: PlayCore, spec: dict[str, Any], models: int) -> None:
    async def test(core: Harness) -> None:
        await core.create(**spec)
        assert size_limits.count_models(core.service.state.bandit("b").agent) == models

    play_core(test)


def test_expectation_27_arms_are_limited_by_the_models_that_score_them(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(size_limits, "MAX_CELLS", 6 * 5)

    async def test(core: Harness) -> None:
        await core.create(space={"alpha": ALPHAS[:3], "lam": ALPHAS[:5]})
        await core.decide(arms=[Arm(str(k), x=[0.0, 1.0, 2.0]) for k in range(2)])
        with refused(422, "invalid", "the bandit's models must be at most 30.* got 9 numbers and 5 models"):
            await core.decide(arms=[Arm(str(k), x=[0.0, 1.0, 2.0]) for k in range(3)])

    play_core(test)


def test_expectation_27_the_table_that_arms_become_is_limited(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(size_limits, "MAX_SCORED_CELLS", 12)
    monkeypatch.setattr(size_limits, "MAX_LOGGED_CELLS", 9)
    arms = [Arm(str(k), x=[0.0, 1.0, 2.0]) for k in range(5)]

    async def test(core: Harness) -> None:
        await core.create(policy={"name": "LinUCB"}, tuner={"name": "Fixed"}, space={"alpha": [0.1]}, log="all")
        await core.decide(arms=arms[:3])
        with refused(422, "invalid", "the log has all arms, .* a table of at most 9 numbers.* got 12"):
            await core.decide(arms=arms[:4])
        await core.service.admin.update("", "b", {"log": "chosen"})
        await core.decide(arms=arms[:4])
        with refused(422, "invalid", "must become a table of at most 12 numbers.* got 15"):
            await core.decide(arms=arms)

    play_core(test)


@pytest.mark.parametrize(
    "spec",
    [
        {"features": {"kind": "hashed", "dim": 101, "ids": True}},
        {"features": {"kind": "open", "dim": 101}, "policy": {"name": "ArmUCB"}},
    ],
)
def test_one_model_scores_as_many_arms_as_a_request_may_have(play_core: PlayCore, spec: dict[str, Any]) -> None:
    """10,000 of them: with 128 columns that takes 10 ms, with 256 it takes 35."""

    async def test(core: Harness) -> None:
        await core.create(**spec)
        assert (await core.decide(arms=[str(k) for k in range(10_000)])).arm

    play_core(test)


@pytest.mark.parametrize(("policy", "most"), [("GPTS", 240), ("IGPUCB", 500)])
def test_expectation_27_arms_of_gaussian_processes_are_limited(play_core: PlayCore, policy: str, most: int) -> None:
    async def test(core: Harness) -> None:
        await core.create(policy={"name": policy})
        agent = core.service.state.bandit("b").agent
        size_limits.check_work(agent, most)
        with pytest.raises(InputError, match=f"with {policy} .* fewer arms, candidates or a smaller cap; got"):
            size_limits.check_work(agent, most + 10)
        with refused(422, "invalid", f"with {policy} a service takes at most 400000000 products"):
            await core.decide(arms=[Arm(str(k), x=[float(k), 1.0, 0.0]) for k in range(1000)])

    play_core(test)


def test_expectation_27_models_of_arms_are_limited_in_bytes_in_all_copies_of_a_policy(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(size_limits, "ARM_MODELS_BYTES", 4 * 64 * 64 * size_limits.BYTES_PER_ENTRY)

    async def test(core: Harness) -> None:
        await core.create(**IDS, tuner={"name": "Corral"}, space={"boldness": [0.5, 1.0]}, rewards=(0.0, 1.0))
        assert size_limits.max_known_arms(64, 2) == 2
        for k in range(30):
            await core.reward((await core.decide(arms=["a", "b"])).decision_id, float(k % 2))
        with refused(422, "invalid", "at most 2 arms may have a model"):
            await core.decide(arms=["a", "c"])

    play_core(test)


def test_expectation_27_what_an_epoch_begins_with_is_made_once_and_on_another_thread(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies of a policy may take some milliseconds each, and thousands of registered arms a tenth of a second."""
    built, read = list[str](), list[str]()

    def counted(spec: Spec, id_: str | None = None) -> tuple[Encoder, Agent]:
        built.append(threading.current_thread().name)
        return build_parts(spec, id_)

    def prepare(encoder: Encoder, arm: Arm, path: str = "arm") -> PreparedArm:
        read.append(threading.current_thread().name)
        return Encoder.prepare(encoder, arm, path)

    for module in (admin, bandit, new_epoch):
        monkeypatch.setattr(module, "build_parts", counted)

    async def test(core: Harness) -> None:
        await core.create(**IDS)
        assert len(built) == 1
        await core.service.admin.put_arms("", "b", [Arm("a"), Arm("c")])
        monkeypatch.setattr(Open, "prepare", prepare)
        changed = await core.service.admin.update("", "b", {"features": {"kind": "open", "dim": 32}})
        assert (len(built), len(read)) == (2, 2)
        assert all(name.startswith("asyncio") for name in built + read)
        made = core.service.state.bandit("b")
        assert (made.epoch, made.agent.id) == (changed.epoch, f"{made.id}.{changed.epoch}")
        replayed = State.load(core.service.group_commit.store, whole=True).bandit("b")
        assert replayed.snapshot() == made.snapshot()

    play_core(test)


def test_an_epoch_is_made_again_if_the_bandit_is_changed_meanwhile(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = list[Spec]()

    async def test(core: Harness) -> None:
        await core.create(**IDS)
        loop, start = asyncio.get_running_loop(), NewEpoch.start

        async def put_arm(id_: str) -> None:
            await core.service.admin.put_arms("", "b", [Arm(id_)])

        def meddled(epoch: NewEpoch) -> EpochStart:
            starts.append(epoch.spec)
            if threading.current_thread().name.startswith("asyncio"):  # others have their turn
                asyncio.run_coroutine_threadsafe(put_arm(str(len(starts))), loop).result()
            return start(epoch)

        monkeypatch.setattr(NewEpoch, "start", meddled)
        await core.service.admin.update("", "b", {"features": {"kind": "open", "dim": 32}})
        assert len(starts) == admin.MAX_EPOCH_ATTEMPTS + 1
        made = core.service.state.bandit("b")
        assert (list(made.arms), made.encoder.dim) == (["1", "2", "3"], 32)

    play_core(test)


def test_registered_arms_are_not_read_again_where_features_stay(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand of them would take a tenth of a second."""

    async def test(core: Harness) -> None:
        await core.create(**IDS)
        await core.service.admin.put_arms("", "b", [Arm("a", features={"price": 1.0}), Arm("b")])
        before = core.service.state.bandit("b").registered
        monkeypatch.setattr(type(before.encoder), "prepare", None)
        for change in ({"floor": 0.1}, {"seed": 1}):
            await core.service.admin.update("", "b", change)
            assert core.service.state.bandit("b").registered is before
        monkeypatch.undo()
        await core.service.admin.update("", "b", {"features": {"kind": "open", "dim": 32}})
        after = core.service.state.bandit("b").registered
        assert (after.arms, after.numbers, after.encoder.dim) == (before.arms, before.numbers, 32)

    play_core(test)


def test_the_lines_of_a_log_are_cut_one_by_one() -> None:
    data = b"{}\n" * 100_000
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="line 1 must be an event of a log"):
            parse(data)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(data)  # all lines take 4 MB
    finally:
        tracemalloc.stop()
