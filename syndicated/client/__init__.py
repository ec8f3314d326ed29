"""Python clients of the service, blocking and asynchronous.

Calls are retried safely, a default arm is played while the service is unavailable, and rewards are queued until they
have arrived.
"""

from syndicated._extras import extra

with extra("client", "the client"):
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
