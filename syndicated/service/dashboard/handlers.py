"""The dashboard's pages: each reads the state, makes numbers of it (the `_view` modules), and fills a template."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from syndicated.errors import InputError
from syndicated.service.bandits.problems import Problem
from syndicated.service.bandits.records import Key, Record
from syndicated.service.commit.batch import Batch
from syndicated.service.core.service import Service
from syndicated.service.dashboard.arms_view import ArmsView, arms_view
from syndicated.service.dashboard.axis import By
from syndicated.service.dashboard.bandit_view import BanditView, bandit_view
from syndicated.service.dashboard.decision_search import search
from syndicated.service.dashboard.decision_view import decision_view
from syndicated.service.dashboard.forms import local_path, read_form, same_site
from syndicated.service.dashboard.list_view import BanditRow, bandit_row
from syndicated.service.dashboard.rendering import error_page, redirect, render, render_login, static_file
from syndicated.service.http import app
from syndicated.service.http.auth import COOKIE, SESSION_SECONDS, Gate
from syndicated.service.http.limits import FailureLimit
from syndicated.service.http.problem_documents import ProblemWithHeaders
from syndicated.store import Store

LATEST_DECISIONS = 20  # in the table of a bandit
LIST_BANDITS = 100  # of the list that are read at once
MAX_LOGIN_FAILURES = 10  # of an address in a minute
MODES = {"off": "Switch off", "live": "Switch on"}  # that the pages can set
ACTIVITY = ("decide", "reward", "late", "activate", "close")  # events that count as activity of a bandit

Latency = Callable[[], tuple[float, float] | None]
Handler = Callable[[Request], Awaitable[Response]]

log = logging.getLogger("syndicated")


class Dashboard:
    """The pages of a service. `latency` gives the median and the 99th percentile of the latest decisions, in seconds.

    What a page shows is read between two batches, on the journal's thread; HTML is made of it on another one.
    """

    def __init__(self, gate: Gate, latency: Latency) -> None:
        self._gate, self._services, self._latency = gate, gate.services, latency
        self._failures = FailureLimit(MAX_LOGIN_FAILURES, gate.services.home.clock)

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/", self._guarded(self._list), methods=["GET"]),
            Route("/login", self._login_form, methods=["GET"]),
            Route("/login", self._log_in, methods=["POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
            Route("/bandits/{name}", self._guarded(self._bandit), methods=["GET"]),
            Route("/bandits/{name}/live", self._guarded(self._live), methods=["GET"]),
            Route("/bandits/{name}/arms", self._guarded(self._arms), methods=["GET"]),
            Route("/bandits/{name}/decisions", self._guarded(self._decisions), methods=["GET"]),
            Route("/bandits/{name}/decisions/{id}", self._guarded(self._decision), methods=["GET"]),
            Route("/bandits/{name}/mode/{mode}", self._guarded(self._set_mode), methods=["GET", "POST"]),
            Route(
                "/bandits/{name}/models/{version:int}/restore", self._guarded(self._roll_back), methods=["GET", "POST"]
            ),
            Route("/static/{file}", static_file, methods=["GET"]),
        ]

    async def path_not_found(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer browsers with a page where the API would answer with a problem document."""
        if any(name == b"accept" and b"text/html" in value for name, value in scope["headers"]):
            await error_page(404, "there is nothing at this path")(scope, receive, send)
        else:
            await app.path_not_found(scope, receive, send)

    def _guarded(self, handler: Handler) -> Handler:
        """The handler for callers with a key that may read. Others are sent to the login."""

        async def guarded(request: Request) -> Response:
            try:
                request.state.key = None
                request.state.key = self._admit(request)
                return await handler(request)
            except Problem as problem:
                if request.state.key is None and problem.status in (401, 403):
                    return redirect(f"/login?next={quote(request.url.path, safe='')}")
                page = error_page(problem.status, problem.detail, request.state.key)
                page.headers.update(problem.headers if isinstance(problem, ProblemWithHeaders) else {})
                return page
            except InputError as error:
                return error_page(422, str(error), request.state.key)
            except Exception:
                log.exception("a page failed")
                return error_page(500, "the service's log has the details", request.state.key)

        return guarded

    def _admit(self, request: Request) -> Key:
        if request.method == "POST":
            return self._gate.admit_form(request.scope)
        return self._gate.admit(request.scope, "read")

    async def _list(self, request: Request) -> Response:
        found = await asyncio.gather(*map(_rows, self._services))
        rows = sorted((row for rows in found for row in rows), key=lambda row: row.name)
        used, retired = [row for row in rows if not row.retired], [row for row in rows if row.retired]
        return await self._page(request, "list.html", bandits=used, retired=retired, base=_base_url(request))

    async def _bandit(self, request: Request) -> Response:
        return await self._bandit_page(request, "bandit.html")

    async def _live(self, request: Request) -> Response:
        """The part of a bandit's page that changes: live.js asks for it every two seconds."""
        return await self._bandit_page(request, "live.html")

    async def _bandit_page(self, request: Request, template: str) -> Response:
        name = request.path_params["name"]
        service = self._services.of(name)
        by: By = "time" if request.query_params.get("by") == "time" else "decisions"

        def read(batch: Batch) -> BanditView:
            bandit, store = batch.state.bandit(name), batch.store
            latest = {service.decisions.ids.of(record.event.seq): record for record in _latest(store, bandit.id)}
            return bandit_view(bandit, latest, _last_activity(store, bandit.id), store.snapshot_sizes(bandit.id), by)

        view = await service.read(read)
        counts = {kind: service.counts[kind] for kind in ("repeated", "conflict")}
        known = {"name": name, "page": view, "by": by, "counts": counts, "latency": self._latency()}
        return await self._page(request, template, base=_base_url(request), **known)

    async def _decision(self, request: Request) -> Response:
        name, id_ = request.path_params["name"], request.path_params["id"]
        service = self._services.of(name)
        record = await service.decisions.decision(name, id_)
        view = await asyncio.to_thread(decision_view, service.state.bandit(name), record)
        return await self._page(request, "decision.html", name=name, id=id_, found=view)

    async def _arms(self, request: Request) -> Response:
        name, text = request.path_params["name"], request.query_params.get("q", "").strip()
        page = _whole_number(request, "page") or 1

        def read(batch: Batch) -> ArmsView:
            return arms_view(batch.state.bandit(name).history, text, page)

        view = await self._services.of(name).read(read)
        return await self._page(request, "arms.html", name=name, text=text, view=view)

    async def _decisions(self, request: Request) -> Response:
        name, text = request.path_params["name"], request.query_params.get("q", "").replace("\0", "").strip()
        service = self._services.of(name)
        found = await search(service, name, text, _whole_number(request, "before"))
        mode = service.state.bandit(name).spec.mode
        return await self._page(request, "decisions.html", name=name, text=text, found=found, mode=mode)

    # what administrators change

    async def _set_mode(self, request: Request) -> Response:
        """The kill switch: off, and on again."""
        name, mode = request.path_params["name"], request.path_params["mode"]
        if mode not in MODES:
            raise Problem(404, "unknown-path", "there is nothing at this path")
        change = partial(self._services.of(name).admin.update, request.state.key.id, name, {"mode": mode})
        return await self._confirmed(request, change, title=MODES[mode], mode=mode, version=None)

    async def _roll_back(self, request: Request) -> Response:
        name, version = request.path_params["name"], request.path_params["version"]
        change = partial(self._services.of(name).admin.load_model, request.state.key.id, name, version)
        return await self._confirmed(request, change, title="Roll back", mode=None, version=version)

    async def _confirmed(self, request: Request, change: Callable[[], Awaitable[Any]], **known: Any) -> Response:
        """Make a change if the form of its page was sent, or else show that page; the journal says whose key it was."""
        name, gate = request.path_params["name"], self._gate
        bandit = self._services.of(name).state.bandit(name)
        token = gate.form_token(request.scope)
        if request.method == "POST":
            if not same_site(request):
                raise Problem(403, "forbidden", "a form must come from this site")
            gate.check_form(request.scope, (await read_form(request)).get("token", ""), "admin")
            await change()
            return redirect(f"/bandits/{name}")
        gate.check_form(request.scope, token, "admin")
        return await self._page(request, "confirm.html", name=name, spec=bandit.spec, token=token, **known)

    async def _page(self, request: Request, template: str, **more: Any) -> Response:
        known = {"key": request.state.key, "now": self._services.home.clock(), **more}
        return await asyncio.to_thread(render, 200, template, known)

    # login and logout

    async def _login_form(self, request: Request) -> Response:
        return render_login(200, "", local_path(request.query_params.get("next")))

    async def _log_in(self, request: Request) -> Response:
        """Begin a session for the key of the form, in a cookie that scripts and other sites cannot use."""
        if not same_site(request):
            return error_page(403, "a form must come from this site")
        form = await read_form(request)
        token, then = form.get("key", "").strip(), local_path(form.get("next"))
        address, _ = request.scope["peer"] or ("", 0)
        try:
            self._failures.check(address)
            key = self._gate.check(token, "read")
        except ProblemWithHeaders as problem:
            page = render_login(problem.status, f"Not now: {problem.detail}.", then)
            page.headers.update(problem.headers)
            return page
        except Problem as problem:
            self._failures.add(address)
            log.warning("a log-in failed", extra={"fields": {"address": address, "status": problem.status}})
            fault = "This is not a valid key." if problem.status == 401 else f"Not with this key: {problem.detail}."
            return render_login(problem.status, fault, then)
        response = redirect(then)
        secure = request.url.scheme == "https"
        session, seconds = self._gate.sessions.begin(key), int(SESSION_SECONDS)
        response.set_cookie(COOKIE, session, max_age=seconds, httponly=True, samesite="strict", secure=secure, path="/")
        return response

    async def _log_out(self, request: Request) -> Response:
        if not same_site(request):
            return error_page(403, "a form must come from this site")
        response = redirect("/login")
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response


# what a page reads, within a batch


async def _rows(service: Service) -> list[BanditRow]:
    """The bandits of a journal, some at a time: others are served in between."""
    ids = await service.read(lambda batch: [bandit.id for bandit in batch.state.names.values()])
    parts = [ids[start : start + LIST_BANDITS] for start in range(0, len(ids), LIST_BANDITS)]
    return [row for part in parts for row in await service.read(partial(_read_rows, ids=part))]


def _read_rows(batch: Batch, ids: Sequence[int]) -> list[BanditRow]:
    return [bandit_row(batch.state.bandits[id_], _last_activity(batch.store, id_)) for id_ in ids]


def _last_activity(store: Store, bandit: int) -> float | None:
    newest = store.recent(bandit, ACTIVITY, 1)
    return newest[0].at if newest else None


def _latest(store: Store, bandit: int) -> list[Record]:
    """The latest decisions with the events about them. Those of erased subjects are left out."""
    events = [event for event in store.recent(bandit, ["decide"], LATEST_DECISIONS) if event.body]
    about = store.about([event.seq for event in events])
    return [Record(event, None, tuple(about.get(event.seq, ()))) for event in events]


def _base_url(request: Request) -> str:
    return f"{request.url.scheme}://{request.headers.get('host', 'localhost')}"


def _whole_number(request: Request, name: str) -> int | None:
    """A whole number of the address's query; None if it is not given."""
    given = request.query_params.get(name)
    if given is not None and not (given.isdecimal() and len(given) < 19):
        raise Problem(422, "invalid", f"{name} must be a whole number; got {given[:40]!r}")
    return None if given is None else int(given)
