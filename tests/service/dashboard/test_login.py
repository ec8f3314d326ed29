"""The login: who may see the pages, and where the key is kept."""

from pathlib import Path

import pytest
from support.dashboard_site import HOSTILE, Page, Site, tell

from syndicated.service.http import limits
from syndicated.service.http.auth import SESSION_SECONDS, Sessions
from syndicated.service.http.problem_documents import ProblemWithHeaders

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
        old = Sessions(site.service).begin(site.service.state.keys[keys["old"]])
        for cookie in (None, "", "syn_wrong", site.secret, revoked, no_reader, old, site.session(no_reader)):
            async with site.visitor() as visitor:
                if cookie is not None:
                    visitor.cookies.set("syndicated_session", cookie)
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


def test_a_proxy_on_this_machine_is_believed_that_the_visitor_uses_tls(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        async with site.visitor("http") as visitor:
            told = {"x-forwarded-proto": "https", "origin": "https://test"}
            answer = await visitor.post("/login", data={"key": site.secret, "next": "/"}, headers=told)
            assert answer.status_code == 303, answer.text
            assert "secure" in answer.headers["set-cookie"].lower()

    tell(tmp_path, story)


def test_expectation_29_a_session_is_no_key_and_ends(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        async with site.visitor() as visitor:
            await visitor.post("/login", data={"key": site.secret})
            token = visitor.cookies["syndicated_session"]
            assert site.secret not in token
            assert (await visitor.get("/v1/bandits", headers={"authorization": f"Bearer {token}"})).status_code == 401
            id_, end, mac = token.split(".")
            later = f"{id_}.{int(end) + 1}.{mac}"
            site.clock.now += SESSION_SECONDS - 1
            assert (await visitor.get("/")).status_code == 200
            site.clock.now += 1
            assert (await visitor.get("/")).status_code == 303
        for forged in (later, f"{id_}.{'9' * 20}.{mac}", f"{id_}.x.{mac}", id_):
            async with site.visitor() as visitor:
                visitor.cookies.set("syndicated_session", forged)
                assert (await visitor.get("/")).status_code == 303

    tell(tmp_path, story)


def test_expectation_29_failed_log_ins_are_limited_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story(site: Site) -> None:
        async with site.visitor() as visitor:
            others = [{"x-forwarded-for": f"192.0.2.{k}"} for k in range(11)]  # anybody can say so
            answers = [await visitor.post("/login", data={"key": "syn_no"}, headers=other) for other in others]
            assert [answer.status_code for answer in answers] == [401] * 10 + [429]
            refused = await visitor.post("/login", data={"key": site.secret})
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
            site.clock.now += 60
            assert (await visitor.post("/login", data={"key": site.secret})).status_code == 303

    tell(tmp_path, story)
    assert [record.getMessage() for record in caplog.records].count("a log-in failed") == 10
    assert "syn_no" not in caplog.text


def test_the_addresses_whose_failures_are_kept_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_ADDRESSES", 2)
    failures = limits.FailureLimit(1)
    for address in ("a", "b", "c"):
        failures.add(address)
    failures.check("a")
    for address in ("b", "c"):
        with pytest.raises(ProblemWithHeaders):
            failures.check(address)


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
