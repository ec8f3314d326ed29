"""The dashboard: pages made on the server from what `view` tells, safe under a strict content-security policy."""

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
from starlette.routing import Route

from syndicated.service.core.batch import Batch
from syndicated.service.core.problems import Problem
from syndicated.service.core.records import Key, Record
from syndicated.service.core.service import Service
from syndicated.service.dashboard import charts
from syndicated.service.dashboard import formatting as words
from syndicated.service.dashboard.bandit_view import Page, page
from syndicated.service.dashboard.decision_view import explained
from syndicated.service.dashboard.list_view import Line, listing
from syndicated.service.http.auth import COOKIE, check, token_of
from syndicated.service.http.endpoints import Rate, Refusal
from syndicated.store import Store

LATEST = 20  # decisions in the table of a bandit
LONGEST = 4096  # bytes of a form
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}
HERE = Path(__file__).parent
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
EVENTS = ("decide", "reward", "late", "activate", "close")
TITLES = {404: "Not found", 403: "Not allowed", 429: "Too many requests", 503: "Away for the moment"}

Latency = Callable[[], tuple[float, float] | None]
Show = Callable[[Request], Awaitable[Response]]

log = logging.getLogger("syndicated")


def routes(service: Service, latency: Latency | None = None, rate: Rate | None = None) -> list[Route]:
    """The pages of a service. `latency` gives the seconds that half and 99% of the latest decisions took at most."""
    pages = Pages(service, latency, rate or Rate(0.0))
    return [
        Route("/", pages.guard(pages.list), methods=["GET"]),
        Route("/login", pages.ask, methods=["GET"]),
        Route("/login", pages.login, methods=["POST"]),
        Route("/logout", pages.logout, methods=["POST"]),
        Route("/bandits/{name}", pages.guard(pages.bandit), methods=["GET"]),
        Route("/bandits/{name}/live", pages.guard(pages.live), methods=["GET"]),
        Route("/bandits/{name}/decisions/{id}", pages.guard(pages.decision), methods=["GET"]),
        Route("/static/{file}", static, methods=["GET"]),
    ]


class Pages:
    """The handlers: each asks the service for numbers, and makes a page of them outside of its thread."""

    def __init__(self, service: Service, latency: Latency | None, rate: Rate) -> None:
        self.service, self.latency, self.rate = service, latency, rate

    def guard(self, show: Show) -> Show:
        """A page for those who have a key that may read; others are sent to the login."""

        async def guarded(request: Request) -> Response:
            try:
                request.state.key = check(self.service, token_of(request), "read")
            except Problem:
                return _to(f"/login?next={quote(request.url.path, safe='')}")
            try:
                self.rate.take(request.state.key.id)
                return await show(request)
            except Problem as problem:
                answer = error_page(problem.status, problem.detail, request.state.key)
                answer.headers.update(problem.headers if isinstance(problem, Refusal) else {})
                return answer
            except Exception:
                log.exception("a page failed")
                return error_page(500, "the service's log says what happened", request.state.key)

        return guarded

    async def list(self, request: Request) -> Response:
        used, retired = await self.service.read(_listing)
        return await self._page(request, "list.html", bandits=used, retired=retired, base=_base(request))

    async def bandit(self, request: Request) -> Response:
        return await self._bandit(request, "bandit.html")

    async def live(self, request: Request) -> Response:
        return await self._bandit(request, "live.html")

    async def _bandit(self, request: Request, template: str) -> Response:
        name = request.path_params["name"]

        def look(batch: Batch) -> Page:
            bandit = batch.state.bandit(name)
            latest = {
                self.service.decisions.ids.of(record.event.seq): record for record in _latest(batch.store, bandit.id)
            }
            return page(bandit, latest, _last(batch.store, bandit.id))

        shown = await self.service.read(look)
        counts = {kind: self.service.counts[kind] for kind in ("repeated", "conflict")}
        latency = self.latency() if self.latency else None
        known = {"name": name, "page": shown, "counts": counts, "latency": latency, "base": _base(request)}
        return await self._page(request, template, **known)

    async def decision(self, request: Request) -> Response:
        name, id_ = request.path_params["name"], request.path_params["id"]
        record = await self.service.decisions.decision(name, id_)
        found = explained(self.service.state.bandit(name), record)
        return await self._page(request, "decision.html", name=name, id=id_, found=found)

    async def _page(self, request: Request, template: str, **more: Any) -> Response:
        known = {"key": request.state.key, "now": self.service.clock(), **more}
        return await asyncio.to_thread(_render, 200, template, known)

    # in and out

    async def ask(self, request: Request) -> Response:
        return _render(200, "login.html", {"key": None, "fault": "", "next": _local(request.query_params.get("next"))})

    async def login(self, request: Request) -> Response:
        """Take a key from the form and keep it in a cookie that scripts and other sites cannot use."""
        if not _same_site(request):
            return error_page(403, "a form must come from this site")
        form = await _form(request)
        token, then = form.get("key", "").strip(), _local(form.get("next"))
        try:
            check(self.service, token, "read")
        except Problem as problem:
            fault = "This is no valid key." if problem.status == 401 else f"Not with this key: {problem.detail}."
            return _render(problem.status, "login.html", {"key": None, "fault": fault, "next": then})
        response = _to(then)
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure, path="/")
        return response

    async def logout(self, request: Request) -> Response:
        if not _same_site(request):
            return error_page(403, "a form must come from this site")
        response = _to("/login")
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response


def error_page(status: int, detail: str, key: Key | None = None) -> Response:
    """A problem, for people."""
    title = TITLES.get(status, "This did not work")
    return _render(status, "error.html", {"key": key, "status": status, "title": title, "detail": detail})


async def static(request: Request) -> Response:
    """A file of the pages; its address changes with its content, so it may be kept for ever."""
    name = request.path_params["file"]
    if name not in FILES:
        return error_page(404, "there is no such file")
    kept = request.query_params.get("v") == VERSIONS[name]
    headers = HEADERS | {"cache-control": "public, max-age=31536000, immutable" if kept else "no-cache"}
    return Response(FILES[name], media_type=KINDS[Path(name).suffix], headers=headers)


# what a page asks of the service


def _listing(batch: Batch) -> tuple[list[Line], list[Line]]:
    last = {id_: _last(batch.store, id_) for id_ in batch.state.bandits}
    return listing(batch.state, {id_: at for id_, at in last.items() if at is not None})


def _last(store: Store, bandit: int) -> float | None:
    """When something happened to a bandit."""
    newest = store.recent(bandit, EVENTS, 1)
    return newest[0].at if newest else None


def _latest(store: Store, bandit: int) -> list[Record]:
    """The latest decisions, with what became of them; those of an erased subject are left out."""
    events = [event for event in store.recent(bandit, ["decide"], LATEST) if event.body]
    about = store.about([event.seq for event in events])
    return [Record(event, None, about.get(event.seq, ())) for event in events]


# forms


def _same_site(request: Request) -> bool:
    """Whether a form was sent from these pages, or by what is no browser: browsers say where a form comes from."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site in ("same-origin", "none")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


async def _form(request: Request) -> dict[str, str]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST:
            return {}
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=10)
    return {name: values[0] for name, values in fields.items()}


def _local(path: str | None) -> str:
    """Where to go after the login: a page of this site, whatever the address says."""
    if path and (path == "/" or path.startswith("/bandits/")) and "\\" not in path and path.isprintable():
        return path
    return "/"


def _to(path: str) -> RedirectResponse:
    return RedirectResponse(quote(path, safe="/?=%&"), 303, headers=HEADERS)


def _base(request: Request) -> str:
    return f"{request.url.scheme}://{request.headers.get('host', 'localhost')}"


# templates


def _render(status: int, template: str, known: dict[str, Any]) -> Response:
    text = ENVIRONMENT.get_template(template).render(known)
    return HTMLResponse(text, status, headers=HEADERS)


def _when(at: float) -> Markup:
    """A moment, in the time zone that logs are in."""
    moment = time.gmtime(at)
    day, clock = time.strftime("%Y-%m-%d", moment), time.strftime("%H:%M:%S", moment)
    shown = Markup('<time datetime="{0}T{1}Z"><span class="day">{0} </span>{1}<span class="day"> UTC</span></time>')
    return shown.format(day, clock)


def _ago(at: float, now: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if now - at >= length:
            return f"{math.floor((now - at) / length)} {unit} ago"
    return "now"


FILES = {file.name: file.read_bytes() for file in sorted((HERE / "static").iterdir()) if file.suffix in KINDS}
VERSIONS = {name: sha256(content).hexdigest()[:12] for name, content in FILES.items()}
ENVIRONMENT = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    lstrip_blocks=True,
)
ENVIRONMENT.filters |= {
    "number": words.number,
    "percent": words.percent,
    "plus_minus": words.plus_minus,
    "duration": words.duration,
    "named": words.name_of,
    "when": _when,
    "ago": _ago,
}
ENVIRONMENT.globals |= {
    "charts": charts,
    "who": words.WHO,
    "static": lambda name: f"/static/{name}?v={VERSIONS[name]}",
}
