"""Python clients of a decision service, blocking and asynchronous.

Calls are retried safely, a default arm is played while the service is unavailable, and rewards are queued until they
have arrived.
"""

from syndicated_client._calls import Answer
from syndicated_client._drivers import AsyncClient, Client
from syndicated_client._errors import (
    Broken,
    ClientError,
    Conflict,
    Denied,
    InputError,
    Invalid,
    Missing,
    Refused,
    Unavailable,
)
from syndicated_client._tables import join_body

__all__ = [
    "Answer",
    "AsyncClient",
    "Broken",
    "Client",
    "ClientError",
    "Conflict",
    "Denied",
    "InputError",
    "Invalid",
    "Missing",
    "Refused",
    "Unavailable",
    "join_body",
]
