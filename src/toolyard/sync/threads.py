"""The loop thread, the way into it, and the way out of it for functions that may block."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from typing import Any, Final, TypeVar

from ..errors import UsageError

log = logging.getLogger("toolyard.sync")

R = TypeVar("R")


class Portal:
    """The loop thread and the way into it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def call(self, make: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run a coroutine on the loop and wait for its outcome; an interrupted wait cancels it."""
        if threading.current_thread() is self._thread:
            raise UsageError("a callback on the portal's own thread cannot wait for it; use the async twin there")
        future = asyncio.run_coroutine_threadsafe(make(), self._running())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def do(self, work: Callable[[], R]) -> R:
        """Something quick on the loop's thread, for what only that one changes; from that thread it is done at once."""
        if threading.current_thread() is self._thread:
            return work()

        async def there() -> R:
            return work()

        return self.call(there)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._run, args=[self._loop], name="toolyard-portal", daemon=True
                )
                self._thread.start()
            return self._loop

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while True:
            # A listener or filter that calls sys.exit() ends the call that it belongs to, not everybody's loop.
            try:
                return loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as exc:
                log.warning("a function on the portal's thread raised %s", type(exc).__name__, exc_info=True)


portal: Final = Portal()
# A forked child has the object but not the thread.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=portal.__init__)  # type: ignore[misc]


_ASKED: Final = ("sampling_handler", "elicitation_handler", "roots", "approve")
"""Options that are functions which may take their time."""


def threaded(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, with plain functions among them that may take their time turned into ones for the loop."""
    return {key: in_thread(value) if key in _ASKED and callable(value) else value for key, value in options.items()}


def in_thread(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Sync handlers may block and may use the client, so they must not run on the loop; async ones belong there."""
    if inspect.iscoroutinefunction(handler):
        return handler

    @wraps(handler)
    async def run(*args: Any) -> Any:
        outcome = await thread(lambda: handler(*args))
        return await outcome if inspect.isawaitable(outcome) else outcome

    return run


def thread(work: Callable[[], Any]) -> asyncio.Future[Any]:
    """A daemon thread for one piece of work: a pool is joined at exit, and a handler may wait for a person."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def finish(result: Any, error: BaseException | None) -> None:
        if not future.done():
            future.set_result(result) if error is None else future.set_exception(error)

    def run() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = context.run(work)
        except (StopIteration, SystemExit, KeyboardInterrupt) as exc:
            # No future takes the first, and the others would end the loop that the future belongs to.
            error = RuntimeError(f"the function raised {type(exc).__name__}")
            error.__cause__ = exc
        except BaseException as exc:  # noqa: BLE001  # whatever it is, it belongs to who waits
            error = exc
        loop.call_soon_threadsafe(finish, result, error)

    threading.Thread(target=run, name="toolyard-handler", daemon=True).start()
    return future
