"""What an operator may limit. Nothing is imported here: `syndicated.service` exports it and stays light."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a service: the bytes of a body, the requests per second of a key, and the requests that wait.

    With 0 `requests_per_second` a key may send any number of requests.
    """

    body_bytes: int = 16 * 2**20
    requests_per_second: float = 0.0
    waiting_requests: int = 1024
