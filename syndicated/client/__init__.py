"""The Python client of a service, blocking and asynchronous: calls that are repeated safely, a default arm when the
service is away, and rewards that wait until they have arrived.
"""

from importlib.util import find_spec

from syndicated.errors import InputError

if find_spec("httpx") is None or find_spec("msgspec") is None:
    raise InputError("the client needs an extra: pip install 'syndicated[serve]'")

from syndicated.client._calls import Answer
from syndicated.client._drivers import AsyncClient, Client
from syndicated.client.errors import (
    Broken,
    ClientError,
    Conflict,
    Denied,
    Invalid,
    Missing,
    Refused,
    Unavailable,
)

__all__ = [
    "Answer",
    "AsyncClient",
    "Broken",
    "Client",
    "ClientError",
    "Conflict",
    "Denied",
    "Invalid",
    "Missing",
    "Refused",
    "Unavailable",
]
