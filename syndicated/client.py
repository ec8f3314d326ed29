"""The Python clients of a service: those of the distribution `syndicated-client`, which can be installed on its own."""

from syndicated._extras import extra

with extra("client", "the client"):
    from syndicated_client import (
        Answer,
        AsyncClient,
        Broken,
        Client,
        ClientError,
        Conflict,
        Denied,
        InputError,
        Invalid,
        Missing,
        Refused,
        Unavailable,
        join_body,
    )

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
