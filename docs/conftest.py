"""A running service for the page that talks to one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.live_service import service


@pytest.fixture(autouse=True)
def running(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any], tmp_path: Path) -> Iterator[None]:
    if request.path.name != "client.md":
        yield
        return
    with service(tmp_path / "journal.db") as server:
        doctest_namespace.update(url=server.url, key=server.key)
        yield
