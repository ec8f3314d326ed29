"""What an operator may limit. Nothing is imported here: `syndicated.service` exports it and stays light."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a service: the bytes of a body, the requests per second of a key, and the requests that wait.

    Those that wait are limited by their number and by the bytes that they hold together: bodies that have come, and the
    tables of arms that were made of them or of registered arms. One alone may hold more.
    With 0 `requests_per_second` a key may send any number of requests. The headers of a request, and its body, must
    have come after so many seconds; a caller who reads next to nothing of a reply for `body_seconds` is cut off.
    """

    body_bytes: int = 16 * 2**20
    requests_per_second: float = 0.0
    waiting_requests: int = 1024
    waiting_bytes: int = 256 * 2**20
    header_seconds: float = 10.0
    body_seconds: float = 60.0
