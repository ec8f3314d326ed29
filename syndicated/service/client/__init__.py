"""The Python client of a service, blocking and asynchronous: calls that are repeated safely, a default arm when the
service is away, and rewards that wait until they have arrived.
"""

from syndicated.service.client.calls import Answer
from syndicated.service.client.drivers import AsyncClient, Client
from syndicated.service.client.errors import (
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
