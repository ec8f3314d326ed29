"""A thread of its own, for what may take a minute beside the batches."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


async def on_own_thread(name: str, run: Callable[..., T], *arguments: Any) -> T:
    """Run something that may take a minute, on a thread that nobody waits for when the process ends."""
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()  # whoever waits may be cancelled; this goes on

    def work() -> None:
        try:
            outcome.set_result(run(*arguments))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await asyncio.wrap_future(outcome)
