"""Keys: who may do what."""

from starlette.requests import HTTPConnection

from syndicated.service.core.messages import Scope
from syndicated.service.core.problems import Problem
from syndicated.service.core.records import Key
from syndicated.service.core.service import Service
from syndicated.service.core.state import hash_key

COOKIE = "syndicated_key"


def check(service: Service, token: str | None, scope: Scope) -> Key:
    """The key of a request that may do this; admin may do everything."""
    key = service.state.by_hash.get(hash_key(token)) if token else None
    if key is None:
        raise Problem(401, "no-key", "a request must carry a valid key: Authorization: Bearer syn_...")
    if scope not in key.scopes and "admin" not in key.scopes:
        raise Problem(403, "forbidden", f"this needs the scope {scope}; this key has {', '.join(key.scopes)}")
    return key


def token_of(connection: HTTPConnection) -> str | None:
    """The key that a request carries: in its header, or in the cookie of the pages."""
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else connection.cookies.get(COOKIE)
