"""Who may do what: the key that a request carries, its scopes, and its rate limit."""

import hmac
from functools import lru_cache
from hashlib import blake2b

from starlette.requests import HTTPConnection
from starlette.types import Scope

from syndicated.service.bandits.messages import KeyRequest
from syndicated.service.bandits.messages import Scope as KeyScope
from syndicated.service.bandits.problems import Problem
from syndicated.service.bandits.records import Key
from syndicated.service.bandits.state import hash_key
from syndicated.service.commit.limits import Limits
from syndicated.service.core.service import Service
from syndicated.service.core.services import Services
from syndicated.service.http.headers import headers_of
from syndicated.service.http.limits import RateLimit

COOKIE = "syndicated_session"
SESSION_SECONDS = 12 * 3600.0
MAX_KEPT_HEADER = 256  # bytes of an Authorization header whose hash is kept in memory
MAX_TIME_DIGITS = 12  # of the end of a session, in seconds


class Sessions:
    """Tokens of the dashboard's log-ins: the id of a key, when the session ends, and a MAC of both.

    The browser keeps such a token and never the key. It ends by itself, and with the key. Nothing is stored, so every
    replica and every restart knows it.
    """

    def __init__(self, service: Service) -> None:
        self._service, self._secret = service, service.group_commit.store.secret

    def begin(self, key: Key) -> str:
        """A token for a key, from now on."""
        return self._token(key.id, int(self._service.clock() + SESSION_SECONDS))

    def key(self, token: str) -> Key | None:
        """The key of a session that has not ended."""
        id_, _, rest = token.partition(".")
        end = rest.partition(".")[0]
        if not end.isdecimal() or len(end) > MAX_TIME_DIGITS or self._service.clock() >= int(end):
            return None
        if not hmac.compare_digest(token.encode(), self._token(id_, int(end)).encode()):
            return None
        key = self._service.state.keys.get(id_)
        return None if key is None or key.revoked else key

    def form_token(self, session: str) -> str:
        """What a form of a page must carry: another site cannot know it, and it ends with the session."""
        return blake2b(f"form {session}".encode(), key=self._secret, digest_size=16).hexdigest()

    def _token(self, id_: str, end: int) -> str:
        mac = blake2b(f"session {id_} {end}".encode(), key=self._secret, digest_size=16).hexdigest()
        return f"{id_}.{end}.{mac}"


class Gate:
    """Admits requests to services within their limits. Keys are those of the first."""

    def __init__(self, services: Services, limits: Limits) -> None:
        self.services, self.limits = services, limits
        self._rate_limit = RateLimit(limits.requests_per_second)
        self.sessions = Sessions(services.home)

    def admit(self, scope: Scope, needed: KeyScope) -> Key:
        """The key of a request, which must have the needed scope and be within its rate limit."""
        key = self._check(self._key_of(scope), needed)
        self._rate_limit.take(key.id)
        return key

    def form_token(self, scope: Scope) -> str:
        """The token of forms on the page that a request asks for."""
        return self.sessions.form_token(_session(scope))

    def admit_form(self, scope: Scope) -> Key:
        """The key of a form's request: that of its session. What the form carries must be checked before it counts."""
        key = self._check(self.sessions.key(_session(scope)), "read")
        self._rate_limit.take(key.id)
        return key

    def check_form(self, scope: Scope, token: str, needed: KeyScope) -> None:
        """Refuse a form that was not made for the session of its request, or whose key lacks a scope."""
        self._check(self.sessions.key(_session(scope)), needed)
        if not hmac.compare_digest(token.encode(), self.form_token(scope).encode()):
            raise Problem(403, "forbidden", "this form is not of your session; load the page again")

    def check(self, secret: str, needed: KeyScope) -> Key:
        """The key of a secret, which must have the needed scope. A key with the scope admin may do everything."""
        return self._check(self.services.home.state.by_hash.get(hash_key(secret)), needed)

    def _key_of(self, scope: Scope) -> Key | None:
        """The key that a request carries: in its Authorization header, or in the session of the dashboard's cookie.

        The cookie only counts for requests that read: another site could make a browser send it with a request that
        changes something.
        """
        value = headers_of(scope).get(b"authorization", b"")
        if value[:7].lower() == b"bearer ":
            hash_of = _kept_key_hash if len(value) <= MAX_KEPT_HEADER else _key_hash
            return self.services.home.state.by_hash.get(hash_of(value))
        if scope["method"] not in ("GET", "HEAD"):
            return None
        return self.sessions.key(_session(scope))

    def _check(self, key: Key | None, needed: KeyScope) -> Key:
        if key is None:
            raise Problem(401, "no-key", "a request must carry a valid key: Authorization: Bearer syn_...")
        if needed not in key.scopes and "admin" not in key.scopes:
            raise Problem(403, "forbidden", f"this needs the scope {needed}; this key has {', '.join(key.scopes)}")
        return key


def _key_hash(header: bytes) -> str:
    """The hash of the key in an Authorization header."""
    return hash_key(str(header[7:], "latin-1").strip())


_kept_key_hash = lru_cache(maxsize=1024)(_key_hash)  # most callers send the same header with every request


def _session(scope: Scope) -> str:
    """The token of the session that a request's cookie has; empty if it has none."""
    return HTTPConnection(scope).cookies.get(COOKIE, "")


async def ensure_admin_key(service: Service, name: str, secret: str | None) -> str | None:
    """Make sure that someone can log in, and return the secret of a key that was made for that.

    With a `secret`, it becomes an admin key of that name, and any other key of that name is revoked. Without one, a key
    is made if there are none at all.
    """
    if secret is not None:
        await service.admin.replace_key(KeyRequest(name=name, scopes=["admin"]), secret)
        return None
    if service.state.keys:
        return None
    return (await service.admin.create_key("", KeyRequest(name="first admin key", scopes=["admin"]))).secret
