"""What administrators change by the pages: the kill switch and the roll-back, after a confirmation."""

from pathlib import Path

import httpx
from support.dashboard_site import Page, Site, tell, visit

from syndicated.service.bandits.records import decode
from syndicated.service.http.auth import Sessions

OFF = "/bandits/b/mode/off"


def mode_of(site: Site) -> str:
    return site.service.state.bandit("b").spec.mode


async def send(site: Site, path: str, token: str, **headers: str) -> httpx.Response:
    return await site.client.post(path, data={"token": token}, headers=headers)


async def token_of(site: Site, path: str) -> str:
    page = await site.get(path)
    return next(value for value in page.values("value") if len(value) == 32)


def test_the_kill_switch_asks_first_and_is_in_the_audit_log(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("b", fallback="arm", fallback_arm="tea")
        assert OFF in (await visit(site, "b")).values("href")
        page = await site.get(OFF)
        assert "From now on the fallback decides: the arm tea" in page.plain
        assert mode_of(site) == "live"
        answer = await send(site, OFF, await token_of(site, OFF))
        assert (answer.status_code, answer.headers["location"]) == (303, "/bandits/b")
        assert mode_of(site) == "off"
        event = (await site.service.admin.audit(1))[0]
        keeper = next(key for key in site.service.state.keys.values() if key.name == "the keeper")
        assert (event.kind, decode(event.body)["actor"]) == ("configure", keeper.id)
        on = "/bandits/b/mode/live"
        assert on in (await visit(site, "b")).values("href")
        await send(site, on, await token_of(site, on))
        assert mode_of(site) == "live"
        for fallback, said in (("uniform", ": a random arm."), ("first", "the first arm of each request")):
            await site.service.admin.update("", "b", {"fallback": fallback, "fallback_arm": None})
            assert said in (await site.get(OFF)).plain
        await site.get("/bandits/b/mode/apprentice", 404)
        await site.get("/bandits/unknown/mode/off", 404)

    tell(tmp_path, story)


def test_a_form_without_its_sessions_token_or_from_another_site_changes_nothing(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("b")
        token = await token_of(site, OFF)
        assert (await send(site, OFF, "")).status_code == 403
        assert (await send(site, OFF, "é" * 32)).status_code == 403
        assert (await send(site, OFF, token, **{"sec-fetch-site": "cross-site"})).status_code == 403
        assert (await send(site, OFF, token, origin="http://elsewhere")).status_code == 403
        site.clock.now += 1  # another session of the same key
        site.client.cookies.set("syndicated_session", site.session(site.secret))
        answer = await send(site, OFF, token)
        assert "not of your session" in Page(answer).plain
        async with site.visitor() as stranger:
            answer = await stranger.post(OFF, data={"token": token}, headers={"authorization": f"Bearer {site.secret}"})
            assert answer.headers["location"].startswith("/login")
        assert mode_of(site) == "live"

    tell(tmp_path, story)


def test_a_key_that_may_only_read_sees_no_buttons_and_changes_nothing(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("b")
        await site.service.admin.save_model("b")
        session = site.session(await site.key("reader", "read"))
        site.client.cookies.set("syndicated_session", session)
        page = await visit(site, "b")
        assert not [link for link in page.values("href") if "/mode/" in link or link.endswith("/restore")]
        assert "needs the scope admin" in (await site.get(OFF, 403)).plain
        answer = await send(site, OFF, Sessions(site.service).form_token(session))
        assert answer.status_code == 403
        assert mode_of(site) == "live"

    tell(tmp_path, story)


def test_a_roll_back_goes_on_from_a_kept_model(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("b")
        await site.play("b", 20)
        kept = await site.service.admin.save_model("b")
        model = await site.service.admin.model("b")
        await site.play("b", 20)
        path = f"/bandits/b/models/{kept.version}/restore"
        assert "what it has learned since then is lost" in (await site.get(path)).plain
        assert await site.service.admin.model("b") != model
        token = await token_of(site, path)
        assert (await send(site, path, token)).status_code == 303
        assert await site.service.admin.model("b") == model
        event = (await site.service.admin.audit(1))[0]
        assert (event.kind, decode(event.body)["version"]) == ("load", kept.version)
        assert (await send(site, "/bandits/b/models/7777/restore", token)).status_code == 404
        await site.service.admin.update("", "b", {"seed": 3, "policy": {"name": "LinTS"}})
        answer = await send(site, path, token)
        assert answer.status_code == 422

    tell(tmp_path, story)
