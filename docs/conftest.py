"""A running service for the page that talks to one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.live_service import PATIENT, service

from syndicated_client._flows import BaseFlows


@pytest.fixture(autouse=True)
def running(
    request: pytest.FixtureRequest,
    doctest_namespace: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    if request.path.name != "client.md":
        yield
        return
    for option, value in PATIENT.items():  # the page shows the defaults, which are too short for a busy machine
        monkeypatch.setitem(BaseFlows.__init__.__kwdefaults__, option, value)
    with service(tmp_path / "journal.db") as server:
        doctest_namespace.update(url=server.url, key=server.key)
        yield
