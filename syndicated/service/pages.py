"""The dashboard."""

from starlette.routing import BaseRoute

from syndicated.service.engine import Engine


def routes(engine: Engine) -> list[BaseRoute]:
    """The pages' routes."""
    return []
