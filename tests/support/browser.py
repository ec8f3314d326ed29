"""Chromium, driven over its DevTools pipe."""

import fcntl
import json
import os
import select
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.live_service import LONG_SECONDS


class Browser:
    """Chromium without a window, asked over its DevTools pipe."""

    def __init__(self, program: str, profile: Path) -> None:
        theirs, self._to = _pipe()
        self._from, back = _pipe()
        options = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
        options += " --disable-component-update --disable-quic --remote-debugging-pipe"
        arguments = [program, *options.split(), f"--user-data-dir={profile}", "about:blank"]
        actions: list[Any] = [(os.POSIX_SPAWN_OPEN, n, os.devnull, os.O_RDWR, 0) for n in range(3)]
        actions += [(os.POSIX_SPAWN_DUP2, theirs, 3), (os.POSIX_SPAWN_DUP2, back, 4)]
        self._process = os.posix_spawn(program, arguments, dict(os.environ), file_actions=actions)
        os.close(theirs)
        os.close(back)
        self._sent, self._buffer, self._session = 0, b"", ""
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Log", "Runtime"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session = ""
        self.ask("Browser.close")
        os.waitpid(self._process, 0)
        os.close(self._to)
        os.close(self._from)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": params}
        os.write(
            self._to, json.dumps(message | ({"sessionId": self._session} if self._session else {})).encode() + b"\0"
        )
        while True:
            answer = self._read()
            if answer.get("id") == self._sent:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], LONG_SECONDS)
            assert ready, "the browser is silent"
            self._buffer += os.read(self._from, 2**16)
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def loaded(self) -> None:
        """Wait until a page has loaded."""
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._read())
        self.events = [event for event in self.events if event.get("method") != "Page.loadEventFired"]

    def open(self, url: str) -> None:
        self.ask("Page.navigate", url=url)
        self.loaded()

    def js(self, expression: str) -> Any:
        answer = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until something holds in the page, looking when the page changes."""
        observed = "{childList: true, subtree: true, attributes: true, characterData: true}"
        self.js(
            f"new Promise((done) => {{ const look = () => {{ if ({condition}) done(true); }}; look();"
            f"new MutationObserver(look).observe(document.body, {observed}); }})"
        )

    def complaints(self) -> list[dict[str, Any]]:
        wanted = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        return [event for event in self.events if event.get("method") in wanted]


def _pipe() -> tuple[int, int]:
    """A pipe whose ends have high numbers, out of the way of those that the browser wants to have."""
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 100) for end in ends]
    for end in ends:
        os.close(end)
    return high[0], high[1]
