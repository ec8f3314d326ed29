"""Python clients of the service, blocking and asynchronous.

Calls are retried safely, a default arm is played while the service is unavailable, and rewards are queued until they
have arrived.
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
