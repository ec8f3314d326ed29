"""Who may do what: the key that a request carries, its scopes, and its rate limit."""

from starlette.requests import HTTPConnection
from starlette.types import Scope

from syndicated.service.core.limits import Limits
from syndicated.service.core.messages import KeyRequest
from syndicated.service.core.messages import Scope as KeyScope
from syndicated.service.core.problems import Problem
from syndicated.service.core.records import Key
from syndicated.service.core.service import Service
from syndicated.service.core.state import hash_key
from syndicated.service.http.headers import headers_of
from syndicated.service.http.limits import RateLimit

COOKIE = "syndicated_key"


class Gate:
    """Admits requests to a service within its limits."""

    def __init__(self, service: Service, limits: Limits) -> None:
        self.service, self.limits = service, limits
        self._rate_limit = RateLimit(limits.requests_per_second)

    def admit(self, scope: Scope, needed: KeyScope) -> Key:
        """The key of a request, which must have the needed scope and be within its rate limit."""
        key = self.check(token_of(scope), needed)
        self._rate_limit.take(key.id)
        return key

    def check(self, token: str | None, needed: KeyScope) -> Key:
        """The key of a token, which must have the needed scope. A key with the scope admin may do everything."""
        key = self.service.state.by_hash.get(hash_key(token)) if token else None
        if key is None:
            raise Problem(401, "no-key", "a request must carry a valid key: Authorization: Bearer syn_...")
        if needed not in key.scopes and "admin" not in key.scopes:
            raise Problem(403, "forbidden", f"this needs the scope {needed}; this key has {', '.join(key.scopes)}")
        return key


def token_of(scope: Scope) -> str | None:
    """The token that a request carries: in its Authorization header, or in the dashboard's cookie.

    The cookie only counts for requests that read: another site could make a browser send it with a request that
    changes something.
    """
    value = headers_of(scope).get(b"authorization", b"")
    if value[:7].lower() == b"bearer ":
        return str(value[7:], "latin-1").strip()
    return HTTPConnection(scope).cookies.get(COOKIE) if scope["method"] in ("GET", "HEAD") else None


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
