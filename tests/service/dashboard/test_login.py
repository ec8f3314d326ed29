"""The login: who may see the pages, and where the key is kept."""

from pathlib import Path

import pytest
from support.dashboard_site import HOSTILE, Page, Site, tell

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
