"""Keys, their scopes, and what each of them opens."""

import re
from collections.abc import Callable
from pathlib import Path

from support.api_service import SCRIPT, Api

from syndicated.cli import serve
from syndicated.service.bandits.state import hash_key
from syndicated.service.http import auth
from syndicated.service.http.auth import Sessions, ensure_admin_key
from syndicated.service.http.endpoints import Endpoint
from syndicated.service.http.routes import TABLE


def test_expectation_17_keys_are_shown_once_hashed_scoped_and_revoked(
    play: Callable[..., None], tmp_path: Path
) -> None:
    async def test(api: Api) -> None:
        made = (await api.call("POST", "/v1/keys", {"name": SCRIPT, "scopes": ["read"]})).json()
        assert made["name"] == SCRIPT
        listed = (await api.call("GET", "/v1/keys")).text
        stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert made["id"] in listed
        assert made["secret"] not in listed
        assert made["secret"].encode() not in stored
        assert (await api.call("GET", "/v1/bandits", key=made["secret"])).status_code == 200
        assert (await api.call("DELETE", f"/v1/keys/{made['id']}")).json()["revoked"]
        assert (await api.call("GET", "/v1/bandits", key=made["secret"])).status_code == 401
        assert (await api.call("DELETE", "/v1/keys/nobody")).status_code == 404
        assert (await api.call("POST", "/v1/keys", {"name": "x", "scopes": ["root"]})).status_code == 422

    play(test)


def _filled(endpoint: Endpoint) -> str:
    return re.sub(r"{(\w+)(?::(\w+))?}", lambda place: "1" if place[2] == "int" else "b", endpoint.path)


def test_expectation_17_the_matrix_of_scopes_and_routes(play: Callable[..., None]) -> None:
    """No key, a revoked one, and a wrong scope never get in; the right scope and admin do, whatever comes of it."""

    async def test(api: Api) -> None:
        await api.create()
        del api.client.headers["authorization"]
        keys = {scope: await api.key(scope) for scope in ("decide", "reward", "read", "admin")}
        revoked = await api.key("admin")
        await api.service.admin.revoke_key("", api.service.state.by_hash[hash_key(revoked)].id)
        for endpoint in TABLE:
            body = {"content": b"nonsense"} if endpoint.method in ("POST", "PUT", "PATCH") else {}
            for name, key in {"none": None, "revoked": revoked, "wrong": "syn_" + "x" * 43, **keys}.items():
                status = (await api.call(endpoint.method, _filled(endpoint), key=key, **body)).status_code
                case = f"{endpoint.method} {endpoint.path} with {name}: {status}"
                if endpoint.scope is None:
                    assert status == 200, case
                elif name in ("none", "revoked", "wrong"):
                    assert status == 401, case
                elif name not in (endpoint.scope, "admin"):
                    assert status == 403, case
                else:
                    assert status in (200, 201, 204, 404, 422), case

    play(test)


def test_the_cookie_of_the_pages_can_only_read(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        key = await api.key("admin")
        del api.client.headers["authorization"]
        session = Sessions(api.service).begin(api.service.state.by_hash[hash_key(key)])
        headers = {"cookie": f"syndicated_session={session}"}
        assert (await api.call("GET", "/v1/bandits", headers=headers)).status_code == 200
        assert (await api.call("POST", "/v1/bandits/b/decide", {}, headers=headers)).status_code == 401
        assert (await api.call("DELETE", "/v1/bandits/b", headers=headers)).status_code == 401

    play(test)


def test_another_admin_key_of_the_environment_takes_the_place_of_the_one_before(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        mine = await api.key("admin")
        for value in ("first", "second", "second", "first"):
            assert await ensure_admin_key(api.service, serve.ADMIN_KEY, value) is None
            for known in ("first", "second"):
                reply = await api.call("GET", "/v1/keys", key=known)
                assert reply.status_code == (200 if known == value else 401)
        assert (await api.call("GET", "/v1/keys", key=mine)).is_success
        keys = (await api.call("GET", "/v1/keys", key="first")).json()
        assert [key.get("revoked", False) for key in keys if key["name"] == serve.ADMIN_KEY] == [True, True, False]

    play(test)


def test_a_key_may_be_long_and_only_hashes_of_short_headers_are_kept(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        long = "k" * 1000
        assert await ensure_admin_key(api.service, serve.ADMIN_KEY, long) is None
        kept = auth._kept_key_hash.cache_info().currsize
        for key, status in ((long, 200), (long + "x", 401)):
            assert (await api.call("GET", "/v1/bandits", key=key)).status_code == status
        assert auth._kept_key_hash.cache_info().currsize == kept

    play(test)
