"""The headers of a request by name, and the media types that the API reads and writes."""

from starlette.types import Scope

JSON = "application/json"
BINARY = "application/x-syndicated"  # JSON and a table of numbers: see features/binary.py
BYTES = "application/octet-stream"
JSON_LINES = "application/x-ndjson"
PARQUET = "application/vnd.apache.parquet"
PROBLEM = "application/problem+json"

_SCOPE_KEY = "syndicated.headers"


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """The headers of a request by name. If a name occurs more than once, the last one counts.

    The dictionary is kept in the scope: several parts of the service read headers, and it is built once.
    """
    headers: dict[bytes, bytes] | None = scope.get(_SCOPE_KEY)
    if headers is None:
        headers = scope[_SCOPE_KEY] = dict(scope["headers"])
    return headers
