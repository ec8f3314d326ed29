"""Contexts and named arms over HTTP: the quick start of docs/service.md."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.api_service import Api

from syndicated import Agent, ArmUCB
from syndicated.evaluate import evaluate, read_log


def test_the_quick_start(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        made = await api.call("POST", "/v1/bandits", {"name": "news"})
        assert (made.status_code, made.json()["spec"]["features"]) == (201, {"kind": "open"})
        asked: dict[str, Any] = {"context": {"hour": 9, "country": "fr"}, "event_id": "visit-1"}
        decision = await api.decide("news", arms=["sports", "politics"], **asked)
        assert decision["arm"] in ("sports", "politics")
        assert (await api.reward(decision, 1.0, "news")).json()["outcome"] == "learned"
        arms = [{"id": "sports"}, {"id": "tech", "features": {"price": 2.5}}]
        assert (await api.call("PUT", "/v1/bandits/news/arms", {"arms": arms})).json() == {"arms": 2}
        reply = await api.call("POST", "/v1/bandits/news/decide", {"context": {"hour": 9, "country": "de"}})
        assert reply.json()["arm"] in ("sports", "tech")
        assert (await api.call("GET", "/v1/bandits/news")).json()["known_arms"] == 1
        gone = await api.call("DELETE", f"/v1/bandits/news/arms/{decision['arm']}")
        assert (gone.status_code, (await api.call("GET", "/v1/bandits/news")).json()["known_arms"]) == (204, 0)
        assert (await api.lines("news"))[-1]["kind"] == "forget"

    play(test)


def test_what_is_wrong_is_said_with_its_path(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        features = {"kind": "fields", "context": {"age": "number"}, "arm": {"price": "number"}}
        await api.create(features=features, policy={})
        wrong = {
            "context.age must be a number; got 'old'": {"context": {"age": "old"}, "arms": ["a"]},
            "context.name must be one of the fields age": {"context": {"name": "ann"}, "arms": ["a"]},
            "arms[0].features.price must be a number; got 'low'": {"arms": [{"id": "a", "features": {"price": "low"}}]},
            "arms[0].x must be an object of fields; got [1.0]": {"arms": [{"id": "a", "x": [1]}]},
        }
        for detail, asked in wrong.items():
            reply = await api.call("POST", "/v1/bandits/b/decide", asked)
            assert (reply.status_code, reply.json()["detail"]) == (422, detail)
        assert (await api.decide(context={"age": None}, arms=["a"]))["arm"] == "a"

    play(test)


def test_a_log_of_all_arms_has_their_ids_and_whole_tables(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create(features={"kind": "open", "dim": 2}, policy={}, log="all")
        await api.call("PUT", "/v1/bandits/b/arms", {"arms": [{"id": "tea"}]})
        decision = await api.decide(context=[0.5, 1.0], arms=["milk", "tea"])
        line = (await api.lines())[0]
        assert (line["arms"], line["X"], line["context"]) == (["milk", "tea"], [[0.5, 1.0]] * 2, [0.5, 1.0])
        found = await api.call("GET", f"/v1/bandits/b/decisions/{decision['decision_id']}")
        latest = await api.call("GET", "/v1/bandits/b/decisions")
        assert found.json()["decision"] == latest.json()[0]["decision"] == json.loads(json.dumps(line))

    play(test)


def test_the_log_of_named_arms_can_be_evaluated(play: Callable[..., None], tmp_path: Path) -> None:
    async def test(api: Api) -> None:
        await api.create(features={"kind": "open", "dim": 2}, policy={}, log="all", floor=0.8)
        for t in range(200):
            decision = await api.decide(context=[float(t % 2)], arms=["odd", "even"])
            await api.reward(decision, float(decision["arm"] == ("odd" if t % 2 else "even")))
        file = tmp_path / "log.jsonl"
        file.write_bytes((await api.call("GET", "/v1/bandits/b/log")).content)
        found = evaluate(read_log(file), Agent(ArmUCB(dim=2)))
        assert found.logged.value < 0.7 < found.dr.low

    play(test)
