"""Names that are HTML, errors, unknown paths and static files."""

from pathlib import Path

import pytest
from support.dashboard_site import HOSTILE, Page, Site, tell, visit

from syndicated.service.bandits.messages import Arm
from syndicated.service.dashboard import handlers


def test_script_text_in_every_name_is_escaped(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        site.client.cookies.set("syndicated_session", site.session(await site.key(HOSTILE, "read")))
        await site.create("b", holdout=0.01, fallback="arm", fallback_arm=HOSTILE)
        arms = [Arm(HOSTILE, x=[1.0, 0, 0]), Arm(HOSTILE + "2", x=[0, 1.0, 0])]
        decision = await site.decide("b", arms=arms, event_id=HOSTILE, subject=HOSTILE)
        bandit = await visit(site, "b")
        assert bandit.text.count(HOSTILE) == 4  # the key, the arm in two tables, and the fallback
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


def test_problems_are_pages_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(site: Site) -> None:
        await site.create("b")
        page = await site.get("/bandits/unknown", 404)
        assert "There is no bandit 'unknown'." in page.text
        assert "Not found · syndicated" in page.text
        with monkeypatch.context() as patch:
            patch.setattr(handlers, "bandit_view", lambda *_: 1 / 0)
            page = await site.get("/bandits/b", 500)
            assert "ZeroDivision" not in page.source
        await site.stop()
        page = await site.get("/", 503)
        assert "Temporarily unavailable" in page.text

    tell(tmp_path, story)


def test_the_service_shows_its_latency_and_has_a_page_for_paths_that_lead_nowhere(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("b", features={"kind": "ids", "arms": ["x", "y"]})
        headers = {"authorization": f"Bearer {site.secret}"}
        async with site.visitor() as client:
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
        assert len(links) == 4
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
