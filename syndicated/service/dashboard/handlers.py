"""The dashboard's pages: each reads the state, makes numbers of it (the `_view` modules), and fills a template."""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from syndicated._formatting import number
from syndicated.service.core.batch import Batch
from syndicated.service.core.problems import Problem
from syndicated.service.core.records import Key, Record
from syndicated.service.dashboard import charts, formatting
from syndicated.service.dashboard.bandit_view import BanditView, bandit_view
from syndicated.service.dashboard.decision_view import decision_view
from syndicated.service.dashboard.list_view import BanditRow, list_view
from syndicated.service.http import app
from syndicated.service.http.auth import COOKIE, SESSION_SECONDS, Gate
from syndicated.service.http.limits import FailureLimit
from syndicated.service.http.problem_documents import TITLES, UNNAMED_TITLE, ProblemWithHeaders
from syndicated.store import Store

LATEST_DECISIONS = 20  # in the table of a bandit
MAX_FORM_BYTES = 4096
MAX_LOGIN_FAILURES = 10  # of an address in a minute
HEADERS = {
    "cache-control": "no-store",
    # Not the API's no-referrer: with that, browsers send the forms of these pages with `Origin: null`.
    "referrer-policy": "same-origin",
}
CACHE_FOR_EVER = "public, max-age=31536000, immutable"
FOLDER = Path(__file__).parent
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
ACTIVITY = ("decide", "reward", "late", "activate", "close")  # events that count as activity of a bandit

Latency = Callable[[], tuple[float, float] | None]
Handler = Callable[[Request], Awaitable[Response]]

log = logging.getLogger("syndicated")


class Dashboard:
    """The pages of a service. `latency` gives the median and the 99th percentile of the latest decisions, in seconds.

    What a page shows is read between two batches, on the journal's thread; HTML is made of it on another one.
    """

    def __init__(self, gate: Gate, latency: Latency) -> None:
        self._gate, self._service, self._latency = gate, gate.service, latency
        self._failures = FailureLimit(MAX_LOGIN_FAILURES, gate.service.clock)

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/", self._guarded(self._list), methods=["GET"]),
            Route("/login", self._login_form, methods=["GET"]),
            Route("/login", self._log_in, methods=["POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
            Route("/bandits/{name}", self._guarded(self._bandit), methods=["GET"]),
            Route("/bandits/{name}/live", self._guarded(self._live), methods=["GET"]),
            Route("/bandits/{name}/decisions/{id}", self._guarded(self._decision), methods=["GET"]),
            Route("/static/{file}", static_file, methods=["GET"]),
        ]

    async def path_not_found(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer browsers with a page where the API would answer with a problem document."""
        if any(name == b"accept" and b"text/html" in value for name, value in scope["headers"]):
            await _error_page(404, "there is nothing at this path")(scope, receive, send)
        else:
            await app.path_not_found(scope, receive, send)

    def _guarded(self, handler: Handler) -> Handler:
        """The handler for callers with a key that may read. Others are sent to the login."""

        async def guarded(request: Request) -> Response:
            try:
                request.state.key = None
                request.state.key = self._gate.admit(request.scope, "read")
                return await handler(request)
            except Problem as problem:
                if request.state.key is None and problem.status in (401, 403):
                    return _redirect(f"/login?next={quote(request.url.path, safe='')}")
                page = _error_page(problem.status, problem.detail, request.state.key)
                page.headers.update(problem.headers if isinstance(problem, ProblemWithHeaders) else {})
                return page
            except Exception:
                log.exception("a page failed")
                return _error_page(500, "the service's log has the details", request.state.key)

        return guarded

    async def _list(self, request: Request) -> Response:
        used, retired = await self._service.read(_read_list)
        return await self._page(request, "list.html", bandits=used, retired=retired, base=_base_url(request))

    async def _bandit(self, request: Request) -> Response:
        return await self._bandit_page(request, "bandit.html")

    async def _live(self, request: Request) -> Response:
        """The part of a bandit's page that changes: live.js asks for it every two seconds."""
        return await self._bandit_page(request, "live.html")

    async def _bandit_page(self, request: Request, template: str) -> Response:
        name, service = request.path_params["name"], self._service

        def read(batch: Batch) -> BanditView:
            bandit = batch.state.bandit(name)
            latest = {service.decisions.ids.of(record.event.seq): record for record in _latest(batch.store, bandit.id)}
            return bandit_view(bandit, latest, _last_activity(batch.store, bandit.id))

        view = await service.read(read)
        counts = {kind: service.counts[kind] for kind in ("repeated", "conflict")}
        known = {"name": name, "page": view, "counts": counts, "latency": self._latency()}
        return await self._page(request, template, base=_base_url(request), **known)

    async def _decision(self, request: Request) -> Response:
        name, id_ = request.path_params["name"], request.path_params["id"]
        record = await self._service.decisions.decision(name, id_)
        view = decision_view(self._service.state.bandit(name), record)
        return await self._page(request, "decision.html", name=name, id=id_, found=view)

    async def _page(self, request: Request, template: str, **more: Any) -> Response:
        known = {"key": request.state.key, "now": self._service.clock(), **more}
        return await asyncio.to_thread(_render, 200, template, known)

    # login and logout

    async def _login_form(self, request: Request) -> Response:
        return _render_login(200, "", _local_path(request.query_params.get("next")))

    async def _log_in(self, request: Request) -> Response:
        """Begin a session for the key of the form, in a cookie that scripts and other sites cannot use."""
        if not _same_site(request):
            return _error_page(403, "a form must come from this site")
        form = await _read_form(request)
        token, then = form.get("key", "").strip(), _local_path(form.get("next"))
        address = request.client.host if request.client else ""
        try:
            self._failures.check(address)
            key = self._gate.check(token, "read")
        except ProblemWithHeaders as problem:
            page = _render_login(problem.status, f"Not now: {problem.detail}.", then)
            page.headers.update(problem.headers)
            return page
        except Problem as problem:
            self._failures.add(address)
            log.warning("a log-in failed", extra={"fields": {"address": address, "status": problem.status}})
            fault = "This is not a valid key." if problem.status == 401 else f"Not with this key: {problem.detail}."
            return _render_login(problem.status, fault, then)
        response = _redirect(then)
        secure = request.url.scheme == "https"
        session, seconds = self._gate.sessions.begin(key), int(SESSION_SECONDS)
        response.set_cookie(COOKIE, session, max_age=seconds, httponly=True, samesite="strict", secure=secure, path="/")
        return response

    async def _log_out(self, request: Request) -> Response:
        if not _same_site(request):
            return _error_page(403, "a form must come from this site")
        response = _redirect("/login")
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response


async def static_file(request: Request) -> Response:
    """A file of the pages. Its address has a hash of its content, so browsers may keep it for ever."""
    name = request.path_params["file"]
    if name not in FILES:
        return _error_page(404, "there is no such file")
    current = request.query_params.get("v") == VERSIONS[name]
    headers = HEADERS | {"cache-control": CACHE_FOR_EVER if current else "no-cache"}
    return Response(FILES[name], media_type=MEDIA_TYPES[Path(name).suffix], headers=headers)


# what a page reads, within a batch


def _read_list(batch: Batch) -> tuple[list[BanditRow], list[BanditRow]]:
    last = {id_: _last_activity(batch.store, id_) for id_ in batch.state.bandits}
    return list_view(batch.state, {id_: at for id_, at in last.items() if at is not None})


def _last_activity(store: Store, bandit: int) -> float | None:
    newest = store.recent(bandit, ACTIVITY, 1)
    return newest[0].at if newest else None


def _latest(store: Store, bandit: int) -> list[Record]:
    """The latest decisions with the events about them. Those of erased subjects are left out."""
    events = [event for event in store.recent(bandit, ["decide"], LATEST_DECISIONS) if event.body]
    about = store.about([event.seq for event in events])
    return [Record(event, None, about.get(event.seq, ())) for event in events]


# forms


def _same_site(request: Request) -> bool:
    """Whether a form comes from these pages. Browsers say where a form comes from; other programs need not."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site in ("same-origin", "none")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


async def _read_form(request: Request) -> dict[str, str]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            return {}
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=10)
    return {name: values[0] for name, values in fields.items()}


def _local_path(path: str | None) -> str:
    """The page to show after the login: always one of this site, whatever the address says."""
    if path and (path == "/" or path.startswith("/bandits/")) and "\\" not in path and path.isprintable():
        return path
    return "/"


def _redirect(path: str) -> RedirectResponse:
    return RedirectResponse(quote(path, safe="/?=%&"), 303, headers=HEADERS)


def _base_url(request: Request) -> str:
    return f"{request.url.scheme}://{request.headers.get('host', 'localhost')}"


# templates


def _render(status: int, template: str, known: dict[str, Any]) -> Response:
    text = ENVIRONMENT.get_template(template).render(known)
    return HTMLResponse(text, status, headers=HEADERS)


def _render_login(status: int, fault: str, then: str) -> Response:
    return _render(status, "login.html", {"key": None, "fault": fault, "next": then})


def _error_page(status: int, detail: str, key: Key | None = None) -> Response:
    """A problem as a page."""
    title = TITLES.get(status, UNNAMED_TITLE)
    return _render(status, "error.html", {"key": key, "status": status, "title": title, "detail": detail})


def _when(at: float) -> Markup:
    """A time in UTC, as in the service's logs."""
    moment = time.gmtime(at)
    day, clock = time.strftime("%Y-%m-%d", moment), time.strftime("%H:%M:%S", moment)
    shown = Markup('<time datetime="{0}T{1}Z"><span class="day">{0} </span>{1}<span class="day"> UTC</span></time>')
    return shown.format(day, clock)


def _ago(at: float, now: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if now - at >= length:
            return f"{math.floor((now - at) / length)} {unit} ago"
    return "now"


FILES = {file.name: file.read_bytes() for file in sorted((FOLDER / "static").iterdir()) if file.suffix in MEDIA_TYPES}
VERSIONS = {name: sha256(content).hexdigest()[:12] for name, content in FILES.items()}
ENVIRONMENT = Environment(
    loader=FileSystemLoader(FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    lstrip_blocks=True,
)
ENVIRONMENT.filters |= {
    "number": number,
    "percent": formatting.percent,
    "plus_minus": formatting.plus_minus,
    "duration": formatting.duration,
    "params_text": formatting.params_text,
    "when": _when,
    "ago": _ago,
}
ENVIRONMENT.globals |= {
    "charts": charts,
    "static": lambda name: f"/static/{name}?v={VERSIONS[name]}",
}
