"""The errors of the clients.

ClientError
├── InputError (also a ValueError)   an argument is not what it must be; nothing was sent
├── Unavailable    no answer within the retries and the patience of the client
└── Refused        the service answered with a problem: `status`, `kind` and `detail`
    ├── Denied     401, 403: no valid key, or the key lacks the scope
    ├── Missing    404: no such bandit, decision, arm, model or key
    ├── Conflict   409: contradicts an earlier request, or the bandit is retired
    ├── Invalid    any other 4xx: the request is not valid
    └── Broken     the service failed, or another program answers at its address
"""


class ClientError(Exception):
    """The base of the clients' errors."""


class InputError(ClientError, ValueError):
    """An argument is not what it must be. Nothing was sent."""


class Unavailable(ClientError):
    """The service is unavailable. `wait` is how many seconds to wait before the next try."""

    def __init__(self, reason: str, wait: float) -> None:
        super().__init__(f"the service is not available: {reason}")
        self.wait = wait


class Refused(ClientError):
    """The service answered with a problem."""

    def __init__(self, status: int, kind: str, detail: str) -> None:
        super().__init__(f"{detail} ({status} {kind})")
        self.status, self.kind, self.detail = status, kind, detail


class Denied(Refused):
    """No valid key, or the key lacks the scope."""


class Missing(Refused):
    """Not found."""


class Conflict(Refused):
    """Contradicts an earlier request, or the bandit is retired."""


class Invalid(Refused):
    """The request is not valid."""


class Broken(Refused):
    """The service failed, or another program answers at its address."""


BY_STATUS = {401: Denied, 403: Denied, 404: Missing, 409: Conflict}
