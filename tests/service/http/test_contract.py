"""What callers of the API may rely on. The numbers are those of docs/service-contract.md."""

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from support.api_service import ARMS, SCRIPT, VECTOR, Api, Clock, learn

from syndicated._statefile import pack, unpack
from syndicated.service.bandits.state import State
from syndicated_client import join_body


def test_expectation_01_decide_tells_all_about_the_decision(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create(tuner={"name": "Syndicated", "horizon": 100}, space={"alpha": [0.1, 1], "lam": [1, 2]})
        reply = await api.decide()
        assert reply["arm"] in ("a", "b")
        assert 0 < reply["propensity"] <= 1
        assert reply["params"]["alpha"] in (0.1, 1)
        assert reply["params"]["lam"] in (1, 2)
        assert reply["version"] == reply["epoch"] > 0
        assert reply["decision_id"]

    play(test)


def test_expectation_02_an_event_id_gives_the_same_decision_also_after_a_restart(play: Callable[..., None]) -> None:
    seen: list[dict[str, Any]] = []

    async def test(api: Api) -> None:
        if not seen:
            await api.create()
            seen.append(await api.decide(event_id="e1"))
            assert not seen[0]["repeated"]
        again = await api.decide(event_id="e1")
        assert again == seen[0] | {"repeated": True}

    play(test)
    play(test)


def test_expectation_03_reward_is_idempotent(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create()
        decision = await api.decide()
        assert (await api.reward(decision)).json()["outcome"] == "learned"
        again = await api.reward(decision)
        assert (again.status_code, again.json()["outcome"]) == (200, "repeated")
        assert (await api.reward(decision, 2.0)).status_code == 409
        assert (await api.reward({"decision_id": "3-0123456789abcdef"})).status_code == 404
        assert (await api.reward({"decision_id": 5})).status_code == 422
        assert (await api.call("GET", "/v1/bandits/b")).json()["rewards"] == 1

    play(test)


def test_expectation_04_late_rewards_are_logged_and_not_learned(play: Callable[..., None]) -> None:
    clock = Clock()

    async def test(api: Api) -> None:
        await api.create(window=60)
        decision = await api.decide()
        clock.now += 61
        assert (await api.reward(decision)).json()["outcome"] == "late"
        late = (await api.lines())[-1]
        assert (late["kind"], late["value"], "learn" in late) == ("late", 1.0, False)
        assert 'syndicated_late_total{bandit="b"} 1.0' in (await api.call("GET", "/metrics")).text

    play(test, clock=clock)


def test_expectation_06_several_rewards_of_a_decision(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create(window=60, aggregate="sum")
        decision = await api.decide()
        for event in ("one", "two", "two"):
            reply = await api.reward(decision, event_id=event)
            assert reply.status_code == 200
        assert reply.json()["outcome"] == "repeated"
        assert [line["value"] for line in await api.lines() if line["kind"] == "reward"] == [1.0, 1.0]

    play(test)


def test_expectation_07_deferred_decisions_are_learned_if_activated(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create(deferred=True)
        decision = await api.decide()
        assert (await api.reward(decision)).json()["outcome"] == "held"
        body = {"decision_id": decision["decision_id"]}
        outcomes = [(await api.call("POST", "/v1/bandits/b/activate", body)).json()["outcome"] for _ in range(2)]
        assert outcomes == ["learned", "repeated"]

    play(test)


def test_expectation_08_propensities_are_logged(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create(floor=0.2)
        decision = await api.decide()
        (line,) = await api.lines()
        assert line["propensity"] == decision["propensity"]
        found = (await api.call("GET", f"/v1/bandits/b/decisions/{decision['decision_id']}")).json()
        assert found["decision"] == line

    play(test)


def test_expectation_10_the_state_is_what_the_log_makes_of_it(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await learn(api, "b", 40)
        live = [snapshot.state for snapshot in api.service.state.snapshots()]
        assert live == [s.state for s in State.load(api.service.group_commit.store, whole=True).snapshots()]

    play(test)


def test_expectation_11_models_are_kept_exported_imported_and_rolled_back(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create()
        await api.reward(await api.decide())
        kept = (await api.call("POST", "/v1/bandits/b/models")).json()
        first = (await api.call("GET", "/v1/bandits/b/models/current")).content
        await api.reward(await api.decide())
        assert (await api.call("GET", "/v1/bandits/b/models/current")).content != first
        version = kept["version"]
        assert version in [model["version"] for model in (await api.call("GET", "/v1/bandits/b/models")).json()]
        assert (await api.call("GET", f"/v1/bandits/b/models/{version}")).content == first
        assert (await api.call("POST", f"/v1/bandits/b/models/{version}/restore")).status_code == 200
        assert (await api.call("GET", "/v1/bandits/b/models/current")).content == first
        await api.create("other")
        assert (await api.call("PUT", "/v1/bandits/other/models/current", first)).status_code == 200
        assert (await api.call("GET", "/v1/bandits/other/models/current")).content == first
        assert (await api.call("PUT", "/v1/bandits/other/models/current", first[:-1])).status_code == 422
        for unknown in (999_999, 2**64):
            assert (await api.call("GET", f"/v1/bandits/b/models/{unknown}")).status_code == 404

    play(test)


def test_expectation_12_bandits_are_apart(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create("one")
        await api.create("two")
        decision = await api.decide("one")
        assert (await api.reward(decision, name="two")).status_code == 404
        path = f"/v1/bandits/two/decisions/{decision['decision_id']}"
        assert (await api.call("GET", path)).status_code == 404
        found = (await api.call("GET", "/v1/bandits")).json()
        assert [(b["name"], b["decisions"]) for b in found] == [("one", 1), ("two", 0)]
        assert (await api.call("POST", "/v1/bandits", {"name": "one", "spec": VECTOR})).status_code == 409

    play(test)


def test_expectation_13_arms_come_and_go(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create()
        arms = [{"id": "x/y ü", "x": [1, 0]}, *ARMS]
        assert (await api.call("PUT", "/v1/bandits/b/arms", {"arms": arms})).json() == {"arms": 3}
        decision = (await api.call("POST", "/v1/bandits/b/decide", {"arms": ["x/y ü"]})).json()
        assert (await api.call("DELETE", "/v1/bandits/b/arms/x/y%20%C3%BC")).status_code == 204
        assert [arm["id"] for arm in (await api.call("GET", "/v1/bandits/b/arms")).json()] == ["a", "b"]
        assert (await api.call("DELETE", "/v1/bandits/b/arms/x/y%20%C3%BC")).status_code == 404
        assert (await api.call("POST", "/v1/bandits/b/decide", {"arms": ["x/y ü"]})).status_code == 422
        assert (await api.reward(decision)).json()["outcome"] == "learned"

    play(test)


def test_expectation_14_the_kill_switch(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create()
        changes = {"mode": "off", "fallback": "arm", "fallback_arm": "b"}
        assert (await api.call("PATCH", "/v1/bandits/b", changes)).json()["spec"]["mode"] == "off"
        decision = await api.decide()
        assert (decision["arm"], decision["by"], decision["propensity"]) == ("b", "fallback", 1.0)
        assert (await api.lines())[0]["by"] == "fallback"
        assert (await api.call("PATCH", "/v1/bandits/b", {"mode": "asleep"})).status_code == 422
        assert (await api.call("PATCH", "/v1/bandits/b", {"mod": "off"})).status_code == 422
        assert (await api.call("PATCH", "/v1/bandits/b", [])).status_code == 422

    play(test)


def test_expectation_15_an_apprentice_learns_from_what_was_played(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create(mode="apprentice")
        decision = await api.decide(played="b")
        assert (decision["arm"], decision["by"]) == ("b", "caller")
        assert (await api.reward(decision)).json()["outcome"] == "learned"
        assert (await api.call("POST", "/v1/bandits/b/decide", {"arms": ARMS})).status_code == 422

    play(test)


def test_expectation_16_a_share_is_held_out(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create(holdout=0.5)
        first = [(await api.decide(subject=f"user{k}"))["by"] for k in range(20)]
        again = [(await api.decide(subject=f"user{k}"))["by"] for k in range(20)]
        assert {"holdout"} < set(first)
        assert [by == "holdout" for by in first] == [by == "holdout" for by in again]

    play(test)


def test_expectation_24_a_subject_is_erased_and_admins_are_watched(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create()
        decision = await api.decide(subject="me/you")
        assert (await api.call("DELETE", "/v1/subjects/me/you")).json() == {"erased": 1}
        assert "me/you" not in (await api.call("GET", "/v1/bandits/b/log")).text
        assert (await api.reward(decision)).status_code == 404
        audit = (await api.call("GET", "/v1/audit?limit=2")).json()
        assert [(line["kind"], line["about"].get("name")) for line in audit] == [("erase", None), ("create", "b")]
        keys = (await api.call("GET", "/v1/keys")).json()
        assert {line["actor"] for line in audit} == {keys[0]["id"]}
        assert "hash" not in (await api.call("GET", "/v1/audit")).text
        assert (await api.call("DELETE", "/v1/subjects/%00")).status_code == 422
        for subject, path in (("\n", "%0A"), ("a\r\nb\n", "a%0D%0Ab%0A")):
            await api.decide(subject=subject)
            assert (await api.call("DELETE", f"/v1/subjects/{path}")).json() == {"erased": 1}

    play(test)


def test_a_model_that_is_none_is_refused_and_the_bandit_goes_on(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create()
        await api.reward(await api.decide())
        state = (await api.call("GET", "/v1/bandits/b/models/current")).content
        head, arrays = unpack(state)
        junk = b"junk" * 100
        for bad in (
            junk,
            junk + hashlib.sha256(junk).digest(),
            pack({**head, "round": "x"}, arrays),
            pack(head, {**arrays, "policy0/model.G": np.zeros((1, 1, 1))}),
        ):
            reply = await api.call("PUT", "/v1/bandits/b/models/current", bad)
            assert (reply.status_code, "state must" in reply.json()["detail"]) == (422, True), reply.text
        assert (await api.call("GET", "/v1/bandits/b/models/current")).content == state
        await api.reward(await api.decide())

    play(test)


def test_retired_bandits_take_rewards_and_decide_no_more(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create()
        decision = await api.decide()
        assert (await api.call("DELETE", "/v1/bandits/b")).status_code == 204
        assert (await api.call("POST", "/v1/bandits/b/decide", {"arms": ARMS})).status_code == 409
        assert (await api.reward(decision)).status_code == 200

    play(test)


def test_a_binary_body_decides_as_json_does(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create()
        body = join_body({"arms": ["a", "b"], "event_id": "e"}, np.eye(2))
        headers = {"content-type": "application/x-syndicated"}
        reply = (await api.call("POST", "/v1/bandits/b/decide", body, headers=headers)).json()
        assert reply == (await api.decide(event_id="e")) | {"repeated": False}
        for bad in (body[:-1], body[:3], b"", b"\xff" * 8):
            assert (await api.call("POST", "/v1/bandits/b/decide", bad, headers=headers)).status_code == 422

    play(test)


def test_script_text_in_names_is_data(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        assert (await api.call("POST", "/v1/bandits", {"name": SCRIPT, "spec": VECTOR})).status_code == 422
        await api.create()
        arms = [{"id": SCRIPT, "x": [1, 0]}]
        decision = await api.decide(arms=arms, subject=SCRIPT, event_id=SCRIPT)
        assert decision["arm"] == SCRIPT
        reply = await api.call("GET", "/v1/bandits/b/decisions?limit=1")
        assert reply.headers["content-type"] == "application/json"
        assert reply.headers["x-content-type-options"] == "nosniff"
        (found,) = reply.json()
        assert (found["decision"]["arm"], found["decision"]["subject"], found["decision"]["key"]) == (SCRIPT,) * 3
        missing = await api.call("GET", f"/v1/bandits/{SCRIPT.replace('/', '')}")
        assert missing.status_code == 404

    play(test)


def test_ids_of_decisions_cannot_be_guessed(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create()
        number, _, mac = (await api.decide())["decision_id"].partition("-")
        for guess in (
            number,
            f"{number}-",
            f"{number}-{'0' * len(mac)}",
            f"{int(number, 16) + 1:x}-{mac}",
            f"-{mac}",
            "ü",
        ):
            assert (await api.call("GET", f"/v1/bandits/b/decisions/{guess}")).status_code == 404
            assert (await api.reward({"decision_id": guess})).status_code == 404

    play(test)


def test_a_caller_who_goes_changes_nothing(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create()
        key = api.client.headers["authorization"].encode()
        messages = [{"type": "http.request", "body": b'{"arms":', "more_body": True}, {"type": "http.disconnect"}]
        sent: list[Any] = []

        async def receive() -> Any:
            return messages.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/v1/bandits/b/decide", "query_string": b""}
        await api.app({**scope, "headers": [(b"authorization", key)]}, receive, send)
        assert sent[0]["status"] == 400
        assert await api.lines() == []

    play(test)
