"""The decision service: bandits that other programs call over HTTP.

bandits/    bandits as the log has made them, and how its events change them
commit/     how requests become committed events, in batches
core/       what the service does with both: decisions, rewards, administration; knows nothing of HTTP
http/       the API: keys, limits, routes, problem documents, OpenAPI
dashboard/  the pages for people, which use `http` for keys and problems
(here)      `create_app`, which puts them together
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from syndicated._compiled import load_all
from syndicated._extras import extra
from syndicated.service.commit.limits import Limits
from syndicated.store import Store, form_group

if TYPE_CHECKING:
    from syndicated.service.core.service import Service
    from syndicated.service.http.app import App

__all__ = ["Limits", "create_app"]


def create_app(
    store: "Store | Sequence[Store]",
    limits: Limits | None = None,
    *,
    clock: Callable[[], float] = time.time,
    on_start: "Callable[[Service], Awaitable[None]] | None" = None,
) -> "App":
    """The ASGI application of a journal: the API, its documentation and the dashboard.

    Of several journals, bandits are spread over them by their names; they must be the same at every start.
    `on_start` is awaited with the service that has the keys when it runs, before the first request.
    """
    # Imported here, so that bandits, commit and core can be used without starlette and jinja2.
    with extra("serve", "the service"):
        from syndicated.service.core.service import Service
        from syndicated.service.core.services import Services
        from syndicated.service.dashboard.handlers import Dashboard
        from syndicated.service.http.app import App
        from syndicated.service.http.auth import Gate
        from syndicated.service.http.metrics import Metrics

    load_all()  # no request shall wait until a kernel is compiled
    limits = limits or Limits()
    stores = form_group([store] if isinstance(store, Store) else store)
    services = [Service(each, limits, clock=clock) for each in stores]
    gate = Gate(Services(services), limits)
    metrics = Metrics(gate.services)
    dashboard = Dashboard(gate, metrics.decision_latency)
    return App(gate, metrics, more_routes=dashboard.routes(), not_found=dashboard.path_not_found, on_start=on_start)
