"""Errors as callers see them: problem documents (RFC 9457), their titles and their kinds."""

from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException

from syndicated.errors import SyndicatedError
from syndicated.service.bandits.problems import Problem
from syndicated.service.http.headers import PROBLEM
from syndicated.store import StoreError

TITLES = {
    400: "Bad request",
    401: "Key required",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict with the current state",
    413: "Body too large",
    422: "Invalid request",
    429: "Too many requests",
    500: "Internal error",
    501: "Not installed",
    503: "Temporarily unavailable",
}
UNNAMED_TITLE = "Request refused"  # of any other status
PROBLEM_KINDS = {
    "commit-unknown": "The journal was lost while it committed. It is not known whether the request was carried out.",
    "conflict": "The event id or the decision's reward was sent before with other content, or the bandit has changed.",
    "disconnected": "The caller closed the connection before the body was complete.",
    "exists": "A bandit with this name exists.",
    "forbidden": "The key does not have the scope that this route needs.",
    "http": "The page does not support this request.",
    "internal": "Internal error. The service's log has the details under this instance.",
    "invalid": "A field is missing, unknown or not valid. The detail says which.",
    "late": "The decision's reward window has closed.",
    "method": "The path does not support this method.",
    "no-key": "The key is missing or not valid.",
    "not-empty": "A log can only be imported into a bandit without decisions.",
    "not-installed": "This needs an optional package that is not installed where the service runs.",
    "not-ready": "The service cannot answer requests now.",
    "overload": "Too many requests are waiting.",
    "rate": "The key has sent too many requests.",
    "retired": "The bandit is retired: it accepts rewards but makes no more decisions.",
    "stopped": "The service is stopping or has failed.",
    "too-large": "The body has too many bytes.",
    "unavailable": "The journal cannot be written. Nothing was changed.",
    "unknown-arm": "The bandit has no registered arm with this id.",
    "unknown-bandit": "There is no bandit with this name.",
    "unknown-decision": "The bandit has no decision with this id.",
    "unknown-key": "There is no key with this id.",
    "unknown-model": "The bandit has no kept model of this version.",
    "unknown-path": "There is nothing at this path.",
}


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True):
    """An error as described by RFC 9457. `instance` has the request's id, which is in the service's log too."""

    type: str
    title: str
    status: int
    detail: str
    instance: str


class ProblemWithHeaders(Problem):
    """A problem whose reply needs headers of its own, such as Retry-After."""

    def __init__(self, status: int, kind: str, detail: str, headers: Mapping[str, str]) -> None:
        super().__init__(status, kind, detail)
        self.headers = dict(headers)


def problem_of(error: Exception) -> Problem:
    """The problem that a caller is told: the details of an invalid request, but nothing of an internal error."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        return ProblemWithHeaders(error.status_code, "http", error.detail, error.headers or {})
    if isinstance(error, StoreError):  # of what is read beside the batches
        return Problem(503, "unavailable", str(error))
    if isinstance(error, SyndicatedError):
        return Problem(422, "invalid", str(error))
    if isinstance(error, msgspec.DecodeError):
        return Problem(422, "invalid", str(error))
    if isinstance(error, UnicodeDecodeError):
        return Problem(422, "invalid", "the text must be UTF-8")
    if isinstance(error, RecursionError):
        return Problem(422, "invalid", "the JSON is nested too deeply")
    return Problem(500, "internal", "the request failed; the service's log has the details under this instance")


def problem_document(problem: Problem, request_id: str) -> tuple[dict[str, str], bytes]:
    """The headers and the body of a problem's reply."""
    headers = {"content-type": PROBLEM}
    if problem.status == 401:
        headers["www-authenticate"] = 'Bearer realm="syndicated"'
    if problem.status == 503:
        headers["retry-after"] = "1"
    if isinstance(problem, ProblemWithHeaders):
        headers |= {name.lower(): value for name, value in problem.headers.items()}
    body = ProblemDocument(
        type=f"/docs#problem-{problem.kind}",
        title=TITLES.get(problem.status, UNNAMED_TITLE),
        status=problem.status,
        detail=problem.detail,
        instance=f"urn:syndicated:request:{request_id}",
    )
    return headers, msgspec.json.encode(body)
