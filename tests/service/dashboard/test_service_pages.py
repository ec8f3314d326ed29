"""The dashboard: every state has a page, nothing is told without a key, and a browser has nothing to complain about."""

import asyncio
import fcntl
import json
import os
import re
import select
import shutil
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import numpy as np
import pytest
import uvicorn
from starlette.applications import Starlette
from support.html_reader import Reader

from syndicated.environments import Linear
from syndicated.features.encoders import Arm
from syndicated.service.core.bandit import Bandit
from syndicated.service.core.messages import Create, DecideReply, DecideRequest, KeyRequest, RewardRequest, Scope, Spec
from syndicated.service.core.service import Service
from syndicated.service.dashboard import charts
from syndicated.service.dashboard import formatting as words
from syndicated.service.dashboard import handlers as pages
from syndicated.service.dashboard.bandit_view import tallies, uplift
from syndicated.service.dashboard.curves import curves, joint, progress, table
from syndicated.service.dashboard.decision_view import draws, explained
from syndicated.service.dashboard.settings import settings
from syndicated.service.http.app import App
from syndicated.store import SQLite
from syndicated.types import Array

HOSTILE = "<script>alert('x')</script><b style=\"color:red\" onclick='x'>&amp;"
VECTOR = {"kind": "vector", "dim": 3}
AXES = {"alpha": [0.0, 0.1, 1.0], "lam": [0.1, 1.0]}


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


class Site:
    """An service, its pages, and somebody who looks at them with a key."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.service = Service(SQLite(folder / "journal.db"), clock=self.clock)
        self.app = Starlette(routes=pages.routes(self.service, lambda: (0.0081, 0.0263)))
        self.client = self.visitor()
        self.secret, self.stopped = "", False

    def visitor(self, scheme: str = "http") -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=f"{scheme}://test")

    async def __aenter__(self) -> Self:
        self.service.start()
        self.secret = await self.key("the keeper", "admin")
        self.client.cookies.set("syndicated_key", self.secret)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.aclose()
        if not self.stopped:
            await self.stop()

    async def stop(self) -> None:
        self.stopped = True
        await self.service.stop()

    async def key(self, name: str, *scopes: Scope) -> str:
        key = await self.service.admin.create_key("test", KeyRequest(name=name, scopes=list(scopes)))
        assert key.secret is not None
        return key.secret

    async def create(self, name: str, **spec: Any) -> None:
        await self.service.admin.create("test", Create(name=name, spec=Spec(**({"features": VECTOR} | spec))))

    async def decide(self, name: str, **more: Any) -> DecideReply:
        arms = [Arm(id_, x=x) for id_, x in (("a", [1.0, 0, 0]), ("b", [0, 1.0, 0]), ("c", [0, 0, 1.0]))]
        return await self.service.decisions.decide(name, DecideRequest(**({"arms": arms} | more)))

    async def reward(self, name: str, decision: DecideReply, reward: float) -> None:
        await self.service.decisions.reward(name, RewardRequest(decision_id=decision.decision_id, reward=reward))

    async def play(self, name: str, rounds: int, **more: Any) -> list[DecideReply]:
        """Decisions in a world, all at once, and then the rewards of two thirds of them."""
        world = list(Linear(dim=3, arms=5).rounds(seed=1, horizon=rounds))
        asked = [
            DecideRequest(arms=[Arm(f"arm-{k}", x=x) for k, x in enumerate(r.arms.tolist())], **more) for r in world
        ]
        made: list[DecideReply] = []
        for start in range(0, rounds, 500):
            made += await asyncio.gather(
                *[self.service.decisions.decide(name, each) for each in asked[start : start + 500]]
            )
            self.clock.now += 60
            due = [(d, r) for d, r in zip(made, world, strict=False)][start : start + 500]
            paid = [(d, min(1.0, max(0.0, float(r.rewards[int(d.arm[4:])])))) for d, r in due]
            await asyncio.gather(*[self.reward(name, d, value) for k, (d, value) in enumerate(paid) if k % 3])
        return made

    async def get(self, path: str, status: int = 200) -> "Page":
        answer = await self.client.get(path)
        assert answer.status_code == status, answer.text[:500]
        return Page(answer)


class Page(Reader):
    """An answer whose tags must match, and that must keep to the content-security policy by itself."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__(answer.text)
        self.check(answer)

    def check(self, answer: httpx.Response) -> None:
        assert answer.headers["content-security-policy"] == pages.POLICY
        assert answer.headers["cache-control"] == "no-store"
        assert self.open == []
        assert "style" not in self.tags
        assert not [name for _, name, _ in self.attributes if name == "style" or name.startswith("on")]
        assert self.tags["script"] == len([1 for tag, name, _ in self.attributes if (tag, name) == ("script", "src")])
        assert not re.search(r"javascript:|https?://(?!test|www\.w3\.org)", self.source)
        assert self.tags["caption"] == self.tags["table"]
        ids = Counter(self.values("id"))
        assert not ids or max(ids.values()) == 1
        assert "nan" not in re.findall(r"\w+", self.text)
        assert not re.search(r"[\", ]nan[\", ]", self.source)


def tell(folder: Path, story: Callable[[Site], Awaitable[None]]) -> None:
    """Run a story in a fresh service."""

    async def whole() -> None:
        async with Site(folder) as site:
            await story(site)

    asyncio.run(whole())


async def visit(site: Site, name: str) -> Page:
    """Every page of a bandit, the pages of its decisions too; the first of them comes back."""
    page = await site.get(f"/bandits/{name}")
    live = await site.get(f"/bandits/{name}/live")
    assert live.source.strip() in page.source
    assert f"{name} · syndicated" in page.text
    for link in {link for link in page.values("href") if "/decisions/" in link}:
        await site.get(link)
    return page


# who may look


PAGES = [
    "/",
    "/bandits/b",
    "/bandits/b/live",
    "/bandits/unknown",
    "/bandits/b/decisions/{id}",
    "/bandits/b/decisions/1-2",
]


def test_without_a_key_every_page_leads_to_the_login_and_tells_nothing(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("b")
        decision = await site.decide("b")
        revoked, no_reader = await site.key("old", "admin"), await site.key("decider", "decide", "reward")
        keys = {key.name: key.id for key in site.service.state.keys.values()}
        await site.service.admin.revoke_key("test", keys["old"])
        for key in (None, "", "syn_wrong", revoked, no_reader):
            async with site.visitor() as visitor:
                if key is not None:
                    visitor.cookies.set("syndicated_key", key)
                for path in PAGES:
                    answer = await visitor.get(path.format(id=decision.decision_id))
                    assert (answer.status_code, answer.text) == (303, "")
                    assert answer.headers["location"].startswith("/login?next=%2F")

    tell(tmp_path, story)


def test_a_key_in_the_header_opens_the_pages_too(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        async with site.visitor() as visitor:
            answer = await visitor.get("/", headers={"authorization": f"Bearer {site.secret}"})
        assert answer.status_code == 200

    tell(tmp_path, story)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_login_keeps_the_key_where_scripts_and_other_sites_cannot_use_it(tmp_path: Path, scheme: str) -> None:
    async def story(site: Site) -> None:
        async with site.visitor(scheme) as visitor:
            form = Page(await visitor.get("/login?next=%2Fbandits%2Fb"))
            assert "/bandits/b" in form.values("value")
            answer = await visitor.post("/login", data={"key": f" {site.secret}\n", "next": "/bandits/b"})
            assert (answer.status_code, answer.headers["location"]) == (303, "/bandits/b")
            cookie = answer.headers["set-cookie"].lower()
            assert "httponly" in cookie
            assert "samesite=strict" in cookie
            assert ("secure" in cookie) == (scheme == "https")
            assert (await visitor.get("/")).status_code == 200
            answer = await visitor.post("/logout")
            assert (answer.status_code, answer.headers["location"]) == (303, "/login")
            assert (await visitor.get("/")).status_code == 303

    tell(tmp_path, story)


def test_a_key_that_is_wrong_or_may_not_read_is_refused_at_the_login(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        decider = await site.key("decider", "decide")
        async with site.visitor() as visitor:
            for key, status in (("", 401), ("syn_no", 401), (HOSTILE, 401), (decider, 403), ("x" * 10_000, 401)):
                answer = await visitor.post("/login", data={"key": key})
                assert answer.status_code == status
                assert "set-cookie" not in answer.headers
                assert "alert" in Page(answer).values("role")
            assert (await visitor.post("/login", content=b"\xff&key")).status_code == 401

    tell(tmp_path, story)


@pytest.mark.parametrize(
    "path", ["//evil.test", "https://evil.test", "/\\evil.test", "/bandits/\\a", "", "/login", "x\n"]
)
def test_the_login_leads_to_pages_of_this_site_only(tmp_path: Path, path: str) -> None:
    async def story(site: Site) -> None:
        answer = await site.client.post("/login", data={"key": site.secret, "next": path})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")

    tell(tmp_path, story)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 303),
        ({"origin": "http://test"}, 303),
        ({"origin": "https://evil.test"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "same-origin", "origin": "http://test"}, 303),
        ({"sec-fetch-site": "cross-site", "origin": "http://test"}, 403),
        ({"sec-fetch-site": "same-site", "origin": "http://other.test"}, 403),
    ],
)
def test_forms_of_other_sites_are_refused(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    async def story(site: Site) -> None:
        for path in ("/login", "/logout"):
            answer = await site.client.post(path, data={"key": site.secret}, headers=headers)
            assert answer.status_code == status
            assert ("set-cookie" in answer.headers) == (status == 303)

    tell(tmp_path, story)


# every state


def test_the_empty_list_tells_how_to_begin(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        page = await site.get("/")
        assert "curl http://test/v1/bandits" in page.text
        assert "syndicated simulate --url http://test" in page.text
        assert "the keeper" in page.text

    tell(tmp_path, story)


def test_a_fresh_bandit_waits_for_its_first_decision(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("fresh")
        page = await visit(site, "fresh")
        assert "No decision yet" in page.text
        assert page.tags["svg"] == 0
        assert "boldness: 1, 2, 4 (the policy's own)" in page.text
        assert "none yet" in (await site.get("/")).text

    tell(tmp_path, story)


def test_the_warm_up_is_told(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("warm", tuner={"name": "Syndicated", "warmup": 50}, space=AXES)
        await site.play("warm", 20)
        page = await visit(site, "warm")
        assert "warm-up: 30 decisions to go" in page.text
        assert "Warm-up: a random arm" in page.text
        assert "all alike" in page.text

    tell(tmp_path, story)


def test_thousands_of_decisions_are_shown_in_a_small_page(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("news", tuner={"name": "Syndicated"}, space=AXES, holdout=0.2, floor=0.05)
        await site.play("news", 3000)
        page = await visit(site, "news")
        assert "3,000" in page.text
        assert page.tags["svg"] == 4
        assert len(page.source) < 100_000
        for said in ("Hold-out: the fallback", "Floor: a random arm", "than one of the hold-out", "8.1 ms / 26.3 ms"):
            assert said in page.plain
        assert page.tags["tr"] > 20 + 2 * 4
        listed = await site.get("/")
        assert "LinUCB, Syndicated" in listed.text
        assert "/bandits/news" in listed.values("href")

    tell(tmp_path, story)


def test_names_are_those_of_the_registry_and_natural_units_are_explained(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("b", policy={"name": "linucb", "delta": 0.2}, tuner={"name": "consensus"}, floor=0.25)
        await site.play("b", 5)
        page = await visit(site, "b")
        assert "LinUCB tuned by Consensus" in page.plain
        assert "Boldness: how far the model explores, in standard errors of what it expects" in page.plain
        assert "LinUCB, Consensus" in (await site.get("/")).text
        said = dict(settings(site.service.state.bandit("b")))
        assert (said["Policy"], said["Tuner"]) == ("LinUCB (delta = 0.2)", "Consensus")
        assert (said["Hold-out"], said["Floor of random arms"]) == ("none", "25% of the decisions")

    tell(tmp_path, story)


def test_a_first_decision_is_no_exploration_and_says_that_nothing_was_learned(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("b")
        first = await site.decide("b")
        await site.reward("b", first, 1.0)
        second = await site.decide("b")
        pages = [await site.get(f"/bandits/b/decisions/{each.decision_id}") for each in (first, second)]
        assert "No other arm was expected to give more." in pages[0].plain
        assert ["the model had learned nothing yet" in page.plain for page in pages] == [True, False]

    tell(tmp_path, story)


def test_retired_bandits_stand_apart(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        for name in ("old", "older", "new"):
            await site.create(name)
        await site.decide("old")
        await site.service.admin.retire("test", "old")
        await site.service.admin.retire("test", "older")
        page = await site.get("/")
        assert page.tags["table"] == 2
        assert page.source.index("/bandits/new") < page.source.index("Retired") < page.source.index("/bandits/old")
        assert "retired" in (await visit(site, "old")).text
        assert "was retired and decides no more" in (await visit(site, "older")).text
        await site.service.admin.retire("test", "new")
        assert "There is no bandit in use" in (await site.get("/")).plain

    tell(tmp_path, story)


def test_alarms_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bandit, "alarms", lambda self: [f"{HOSTILE} is at the edge"])

    async def story(site: Site) -> None:
        await site.create("b")
        await site.decide("b")
        page = await visit(site, "b")
        assert f"{HOSTILE} is at the edge" in page.text
        assert page.source.index("is at the edge") < page.source.index("Decisions</dt>")
        assert "▲ 1" in (await site.get("/")).text

    tell(tmp_path, story)


def test_an_apprentice_shows_how_often_it_agrees(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("learner", mode="apprentice")
        made = await site.play("learner", 40, played="arm-2")
        agreed = site.service.state.bandit("learner").history.agreed
        page = await visit(site, "learner")
        assert f"Agrees with the caller {words.percent(agreed / 40)}" in page.plain
        assert 0 < agreed < 40
        decision = await site.get(f"/bandits/learner/decisions/{made[-1].decision_id}")
        assert "The caller played arm-2 out of 5 arms. The model would have played" in decision.plain

    tell(tmp_path, story)


def test_sgd_ts_draws_two_axes_apart(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        space = {"eta0": [0.1, 1.0], "alpha1": [0.1, 1.0, 10.0]}
        await site.create("sgd", policy={"name": "SGDTS", "tau": 5}, tuner={"name": "Syndicated"}, space=space)
        made = await site.play("sgd", 60)
        page = await visit(site, "sgd")
        assert "Probability of each eta0" in page.text
        assert "Probability of each alpha1" in page.text
        assert "The tuner draws them together" not in page.text
        decision = await site.get(f"/bandits/sgd/decisions/{made[-1].decision_id}")
        assert "Score without exploration" in decision.text
        drawn = draws((await site.service.decisions.decision("sgd", made[-1].decision_id)).decided)
        assert len(drawn) == 2
        assert all(draw.values in decision.text for draw in drawn)

    tell(tmp_path, story)


def test_a_joint_space_is_shown_by_its_marginals_and_as_a_list(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("joint", space={**AXES, "memory": [0.99, 1.0]})
        made = await site.play("joint", 60)
        page = await visit(site, "joint")
        for name in ("alpha", "lam", "memory"):
            assert f"Probability of each {name}" in page.text
        assert "All 12 candidates" in page.text
        decision = await site.get(f"/bandits/joint/decisions/{made[-1].decision_id}")
        assert "of 12 candidates of the tuner would have played this arm" in decision.plain

    tell(tmp_path, story)


@pytest.mark.parametrize(
    "spec", [{"tuner": {"name": "Syndicated"}, "space": {"alpha": [1]}}, {"tuner": {"name": "Theory"}}]
)
def test_one_candidate_is_nothing_to_choose(tmp_path: Path, spec: dict[str, Any]) -> None:
    async def story(site: Site) -> None:
        await site.create("one", **spec)
        await site.decide("one")
        page = await visit(site, "one")
        assert "the tuner has nothing to choose" in page.plain
        assert "The latest decision was made with" in page.plain
        assert "No reward has come yet." in page.text
        assert page.tags["svg"] == 1

    tell(tmp_path, story)


def test_a_large_joint_space_lists_the_likeliest_only(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        space = {"alpha": [k / 10 for k in range(10)], "lam": [k + 1.0 for k in range(10)]}
        await site.create("large", tuner={"name": "TwoLayer"}, space=space)
        await site.decide("large")
        page = await visit(site, "large")
        assert "The likeliest 50 of 100 candidates" in page.text
        assert page.text.count("alpha = ") < 60

    tell(tmp_path, story)


def test_many_candidates_keep_their_labels_apart(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("wide", tuner={"name": "Syndicated"}, space={"alpha": [k / 10 for k in range(20)]})
        await site.play("wide", 30)
        page = await visit(site, "wide")
        assert "the other 8 are grey" in page.text

    tell(tmp_path, story)


def test_a_bandit_that_is_off_says_so(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("off", mode="off", fallback="arm", fallback_arm="b")
        decision = await site.decide("off")
        assert "off: the fallback decides" in (await visit(site, "off")).text
        page = await site.get(f"/bandits/off/decisions/{decision.decision_id}")
        assert "The fallback chose b out of 3 arms. The bandit was switched off." in page.plain

    tell(tmp_path, story)


def test_a_new_epoch_begins_with_nothing_and_old_decisions_say_so(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("b")
        old = await site.decide("b")
        await site.service.admin.update("test", "b", {"seed": 3})
        assert "No decision yet in this epoch" in (await visit(site, "b")).plain
        page = await site.get(f"/bandits/b/decisions/{old.decision_id}")
        assert "earlier epoch" in page.text

    tell(tmp_path, story)


# one decision


def test_a_decision_is_told_from_its_draw_to_its_reward(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("b", tuner={"name": "Syndicated"}, space=AXES)
        decision = await site.decide("b", event_id="visit 1", subject="somebody")
        site.clock.now += 90
        await site.reward("b", decision, 0.25)
        page = await site.get(f"/bandits/b/decisions/{decision.decision_id}")
        for said in (
            f"The model chose {decision.arm} out of 3 arms.",
            f"Propensity {words.percent(decision.propensity)}",
            words.name_of(decision.params),
            "visit 1",
            "somebody",
            "1.5 min Reward 0.25: learned.",
            "All arms",
            f"{decision.arm} (played)",
        ):
            assert said in page.plain
        why = explained(
            site.service.state.bandit("b"), await site.service.decisions.decision("b", decision.decision_id)
        )
        assert why.same_scale
        for bar in why.bars:
            assert bar.plain + bar.bonus == pytest.approx(bar.score)
            assert bar.predicted == pytest.approx(bar.plain)

    tell(tmp_path, story)


def test_held_activated_closed_and_late_rewards_are_told_in_order(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("held", deferred=True, window=100, default_reward=0.0)
        held, bare = await site.decide("held"), await site.decide("held")
        await site.reward("held", held, 1.0)
        await site.service.decisions.activate("held", held.decision_id)
        await site.service.decisions.activate("held", bare.decision_id)
        site.clock.now += 200
        for _ in range(2):  # the clock is looked at behind a request
            await site.service.read(lambda batch: None)
        await site.reward("held", bare, 1.0)
        told = (await site.get(f"/bandits/held/decisions/{held.decision_id}")).plain
        assert told.index("Reward 1: held until the decision is activated.") < told.index("Activated: its reward 1 was")
        told = (await site.get(f"/bandits/held/decisions/{bare.decision_id}")).plain
        assert told.index("Activated.") < told.index("The reward window closed: 0 was learned.")
        assert "Reward 1: it came after the window had closed; logged, not learned." in told
        assert "Late rewards 1" in (await site.get("/bandits/held")).plain

    tell(tmp_path, story)


def test_what_the_model_does_not_learn_from_is_counted(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("b", holdout=1.0)
        decision = await site.decide("b")
        await site.reward("b", decision, 1.0)
        page = await site.get(f"/bandits/b/decisions/{decision.decision_id}")
        assert "Reward 1: counted, not learned." in page.text
        assert page.tags["svg"] == 0

    tell(tmp_path, story)


# what comes from outside


def test_script_text_in_every_name_is_escaped(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        site.client.cookies.set("syndicated_key", await site.key(HOSTILE, "read"))
        await site.create("b", holdout=0.01, fallback="arm", fallback_arm=HOSTILE)
        arms = [Arm(HOSTILE, x=[1.0, 0, 0]), Arm(HOSTILE + "2", x=[0, 1.0, 0])]
        decision = await site.decide("b", arms=arms, event_id=HOSTILE, subject=HOSTILE)
        bandit = await visit(site, "b")
        assert bandit.text.count(HOSTILE) == 3  # the key, the arm and the fallback
        page = await site.get(f"/bandits/b/decisions/{decision.decision_id}")
        assert page.text.count(HOSTILE) >= 6
        assert page.tags["script"] == page.tags["b"] == 0
        for path in (f"/bandits/{HOSTILE}", f"/bandits/b/decisions/{HOSTILE}", "/bandits/b/decisions/1-2"):
            await site.get(path.replace("</", "<"), 404)
        login = Page(await site.client.get("/login", params={"next": f"/bandits/{HOSTILE}"}))
        assert f"/bandits/{HOSTILE}" in login.values("value")

    tell(tmp_path, story)


def test_a_forged_host_is_escaped(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        answer = await site.client.get("/", headers={"host": "<script>"})
        assert answer.status_code == 200
        assert "<script>" not in answer.text

    tell(tmp_path, story)


# problems


def test_problems_are_pages_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(site: Site) -> None:
        await site.create("b")
        page = await site.get("/bandits/unknown", 404)
        assert "There is no bandit 'unknown'." in page.text
        assert "Not found · syndicated" in page.text
        with monkeypatch.context() as patch:
            patch.setattr(pages, "page", lambda *_: 1 / 0)
            page = await site.get("/bandits/b", 500)
            assert "ZeroDivision" not in page.source
        await site.stop()
        page = await site.get("/", 503)
        assert "Away for the moment" in page.text

    tell(tmp_path, story)


def test_the_service_shows_its_latency_and_has_a_page_for_paths_that_lead_nowhere(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("b", features={"kind": "ids", "arms": ["x", "y"]})
        headers = {"authorization": f"Bearer {site.secret}"}
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(App(site.service)), base_url="http://test"
        ) as client:
            assert "Latency" not in (await client.get("/bandits/b", headers=headers)).text
            asked = await client.post("/v1/bandits/b/decide", json={"arms": ["x", "y"]}, headers=headers)
            assert asked.status_code == 200
            assert "Latency of all bandits, p50 / p99" in Page(await client.get("/bandits/b", headers=headers)).text
            nowhere = await client.get("/nowhere", headers={"accept": "text/html,*/*"})
            assert (nowhere.status_code, Page(nowhere).tags["h1"]) == (404, 1)
            assert (await client.get("/nowhere")).headers["content-type"] == "application/problem+json"

    tell(tmp_path, story)


def test_static_files_are_kept_by_their_content(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("b")
        page = await site.get("/bandits/b")
        links = [v for v in page.values("href") + page.values("src") if v.startswith("/static/")]
        assert len(links) == 3
        async with site.visitor() as visitor:
            for link in links:
                answer = await visitor.get(link)
                assert answer.status_code == 200
                assert "immutable" in answer.headers["cache-control"]
                assert answer.headers["x-content-type-options"] == "nosniff"
                bare = await visitor.get(link.partition("?")[0])
                assert bare.headers["cache-control"] == "no-cache"
            for name in ("nothing.js", "..%2Fpages.py", "../pages.py"):
                assert (await visitor.get(f"/static/{name}")).status_code == 404

    tell(tmp_path, story)


# numbers


def bandit_of(**spec: Any) -> Bandit:
    return Bandit(1, "b", Spec(**({"features": VECTOR} | spec)), 1)


def test_a_hold_out_is_compared_with_all_that_the_bandit_ran() -> None:
    history = bandit_of().history
    assert uplift(history) is None
    history.tallies = {"agent": [9, 4, 3.0, 3.0], "warmup": [9, 4, 1.0, 1.0], "holdout": [10, 5, 1.0, 1.0]}
    found = uplift(history)
    assert found is not None
    assert found.mean == pytest.approx(4 / 8 - 1 / 5)
    assert found.half == pytest.approx(1.96 * np.hypot(np.sqrt(0.25 / 7), np.sqrt(0.16 / 4)))
    assert [each.decisions for each in tallies(history)] == [9, 9, 10]
    assert tallies(history)[0].reward.mean == 0.75


def rows_of(counts: list[int], rewards: list[int], sums: list[float], explored: list[int]) -> Array:
    return np.column_stack([np.zeros(len(counts)), counts, rewards, sums, sums, explored]).astype(float)


def test_stretches_hold_the_differences_between_rows() -> None:
    rows = rows_of([0, 25, 50, 75], [0, 10, 30, 30], [0, 5, 5, 5], [0, 25, 25, 30])
    found = progress(rows)
    assert found.decisions.tolist() == [12.5, 37.5, 62.5]
    assert found.mean[:2].tolist() == [0.5, 0.0]
    assert np.isnan(found.mean[2])
    assert found.explored.tolist() == [1.0, 0.0, 0.2]
    assert found.high[0] - found.mean[0] == pytest.approx(1.96 * np.sqrt(0.25 / 9))


def test_the_first_decisions_are_one_stretch() -> None:
    found = progress(rows_of([0, 1], [0, 0], [0, 0], [0, 1]))
    assert (found.decisions.tolist(), found.explored.tolist()) == ([0.5], [1.0])


def test_marginals_add_up_to_one() -> None:
    bandit = bandit_of(space=AXES)
    shown = curves(bandit, table(bandit))
    assert [(each.name, each.labels) for each in shown] == [("alpha", ["0", "0.1", "1"]), ("lam", ["0.1", "1"])]
    assert all(np.allclose(each.p.sum(axis=1), 1) for each in shown)
    assert len(joint(bandit)) == 6


# charts


def test_labels_are_moved_apart_within_bounds() -> None:
    moved = charts.spread([50.0, 50.0, 50.0, 99.0], 0, 100)
    assert moved == sorted(moved)
    assert min(np.diff(moved)) >= charts.GAP - 1e-9
    many = charts.spread([100.0] * 12, 20, 100)
    assert (min(many), max(many)) == pytest.approx((20, 100))
    assert charts.spread([], 0, 1) == []


def test_a_single_point_is_a_dot_and_no_point_is_nothing() -> None:
    one, none = np.array([5.0]), np.array([])
    assert "<circle" in charts.band("t", 10, one, one, one - 1, one + 1)
    assert "<polyline" not in charts.band("t", 10, none, none, none, none)
    assert "<circle" in charts.shares("t", 10, one, one / 10)


def test_lines_are_thinned_and_keep_their_ends() -> None:
    x = np.arange(1000.0)
    drawn = charts.probabilities("alpha", ["1", "2"], x, np.column_stack([x / 999, 1 - x / 999]))
    points = re.findall(r'points="([^"]+)"', drawn)[0].split()
    assert len(points) == charts.POINTS
    assert points[0].endswith(f",{charts.HEIGHT - charts.BOTTOM}.0")
    assert points[-1].endswith(f",{charts.TOP}.0")


# a real browser


class Browser:
    """Chromium without a window, asked over its DevTools pipe."""

    def __init__(self, program: str, profile: Path) -> None:
        theirs, self._to = _pipe()
        self._from, back = _pipe()
        options = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
        options += " --disable-component-update --disable-quic --remote-debugging-pipe"
        arguments = [program, *options.split(), f"--user-data-dir={profile}", "about:blank"]
        actions: list[Any] = [(os.POSIX_SPAWN_OPEN, n, os.devnull, os.O_RDWR, 0) for n in range(3)]
        actions += [(os.POSIX_SPAWN_DUP2, theirs, 3), (os.POSIX_SPAWN_DUP2, back, 4)]
        self._process = os.posix_spawn(program, arguments, dict(os.environ), file_actions=actions)
        os.close(theirs)
        os.close(back)
        self._sent, self._buffer, self._session = 0, b"", ""
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Log", "Runtime"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session = ""
        self.ask("Browser.close")
        os.waitpid(self._process, 0)
        os.close(self._to)
        os.close(self._from)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": params}
        os.write(
            self._to, json.dumps(message | ({"sessionId": self._session} if self._session else {})).encode() + b"\0"
        )
        while True:
            answer = self._read()
            if answer.get("id") == self._sent:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], 60)
            assert ready, "the browser is silent"
            self._buffer += os.read(self._from, 2**16)
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def loaded(self) -> None:
        """Wait until a page has loaded."""
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._read())
        self.events = [event for event in self.events if event.get("method") != "Page.loadEventFired"]

    def open(self, url: str) -> None:
        self.ask("Page.navigate", url=url)
        self.loaded()

    def js(self, expression: str) -> Any:
        answer = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until something holds in the page, looking when the page changes."""
        observed = "{childList: true, subtree: true, attributes: true, characterData: true}"
        self.js(
            f"new Promise((done) => {{ const look = () => {{ if ({condition}) done(true); }}; look();"
            f"new MutationObserver(look).observe(document.body, {observed}); }})"
        )

    def complaints(self) -> list[dict[str, Any]]:
        wanted = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        return [event for event in self.events if event.get("method") in wanted]


def _pipe() -> tuple[int, int]:
    """A pipe whose ends have high numbers, out of the way of those that the browser wants to have."""
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 100) for end in ends]
    for end in ends:
        os.close(end)
    return high[0], high[1]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if not program:
        pytest.skip("neither chromium nor chromium-browser is on the path")
    with Browser(program, tmp_path / "profile") as running:
        yield running


HIDE_AND_SHOW = """
(() => {
  let count = 0;
  const fetched = window.fetch;
  window.fetch = (...given) => { count += 1; return fetched(...given); };
  return [true, false].map((hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
    return count;
  });
})()
"""


def test_a_browser_logs_in_and_sees_new_decisions_without_reloading(tmp_path: Path, browser: Browser) -> None:
    async def story(site: Site) -> None:
        await site.create("news", tuner={"name": "Syndicated"}, space=AXES)
        made = await site.play("news", 10)
        listening = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(site.app, log_level="error", lifespan="off", ws="none"))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        await asyncio.to_thread(log_in, browser, url, site.secret)
        await site.play("news", 7)
        await asyncio.to_thread(look_on, browser)
        await asyncio.to_thread(browser.open, f"{url}/bandits/news/decisions/{made[0].decision_id}")
        await asyncio.to_thread(browser.open, f"{url}/bandits/news")
        assert browser.complaints() == []
        assert await asyncio.to_thread(browser.js, HIDE_AND_SHOW) == [0, 1]
        server.should_exit = True
        await asyncio.to_thread(browser.until, "document.querySelector('.connection.away') !== null")
        await serving

    tell(tmp_path, story)


def log_in(browser: Browser, url: str, secret: str) -> None:
    browser.open(f"{url}/bandits/news")
    assert browser.js("location.pathname") == "/login"
    browser.js(f"document.getElementById('key').value = {json.dumps(secret)}; document.forms[0].requestSubmit()")
    browser.loaded()
    assert browser.js("location.pathname") == "/bandits/news"
    assert browser.js("document.cookie") == ""
    assert browser.js("document.getElementById('decisions').textContent") == "10"
    assert browser.js("getComputedStyle(document.querySelector('svg .line')).fill") == "none"
    browser.js("document.querySelector('details').open = true; document.querySelector('summary').focus()")
    browser.js("window.here = true")


def look_on(browser: Browser) -> None:
    browser.until("document.getElementById('decisions').textContent === '17'")
    assert browser.js("window.here") is True
    assert browser.js("document.querySelector('details').open") is True
    assert browser.js("document.activeElement.id") == "now-1-summary"
    assert browser.js("document.getElementById('connection').textContent") == "Following"
