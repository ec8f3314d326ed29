"""What can go wrong with a call.

ClientError
├── Unavailable    the service did not answer, or could not now, as often and as long as was agreed
└── Refused        it answered with a problem: `status`, `kind` and `detail`
    ├── Denied     401 and 403: no valid key, or not for this
    ├── Missing    404: there is no such bandit, decision, arm, model or key
    ├── Conflict   409: it was said otherwise before, or is retired
    ├── Invalid    any other 4xx: the request is not what it must be
    └── Broken     the service failed, or something else answers at its address
"""

from syndicated.errors import SyndicatedError


class ClientError(SyndicatedError):
    """The root of the clients' errors."""


class Unavailable(ClientError):
    """The service stays away; `wait` is how many seconds to leave it alone."""

    def __init__(self, reason: str, wait: float) -> None:
        super().__init__(f"the service is not available: {reason}")
        self.wait = wait


class Refused(ClientError):
    """The service's answer is a problem."""

    def __init__(self, status: int, kind: str, detail: str) -> None:
        super().__init__(f"{detail} ({status} {kind})")
        self.status, self.kind, self.detail = status, kind, detail


class Denied(Refused):
    """No valid key, or not for this."""


class Missing(Refused):
    """There is no such thing."""


class Conflict(Refused):
    """It was said otherwise before."""


class Invalid(Refused):
    """The request is not what it must be."""


class Broken(Refused):
    """The service failed, or something else answers at its address."""


BY_STATUS = {401: Denied, 403: Denied, 404: Missing, 409: Conflict}
