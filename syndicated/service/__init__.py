"""Bandits behind HTTP: `core` is the service, `http` and `dashboard` are its ways in.

>>> from syndicated.service import create_app
>>> from syndicated.store import open_store
>>> app = create_app(open_store("journal.db"))  # doctest: +SKIP
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syndicated.service.http.app import App
    from syndicated.service.http.endpoints import Limits
    from syndicated.store import Store

__all__ = ["create_app"]


def create_app(store: "Store", limits: "Limits | None" = None) -> "App":
    """The ASGI application on a journal. It starts with its lifespan, and closes the journal at the end."""
    from syndicated.service.core.service import Service
    from syndicated.service.http.app import App

    return App(Service(store), limits)
