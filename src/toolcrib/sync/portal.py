"""The thread with the event loop, and calls into it from other threads."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from .._util.tasks import has_uncancellable_tasks, wait_for_uncancellable_tasks
from ..errors import UsageError

log = logging.getLogger("toolcrib.sync")

R = TypeVar("R")

EXIT_SECONDS: Final = 10.0
"""Maximum seconds by which unfinished work delays the exit of the program."""


class Portal:
    """A thread with an event loop, started with the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def call(self, make: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run a coroutine on the loop and wait for its outcome; an interrupted wait cancels it."""
        if threading.current_thread() is self._thread:
            raise UsageError(
                "a callback on the portal's thread cannot wait for the portal; use the async client or hub there"
            )
        future = asyncio.run_coroutine_threadsafe(make(), self._running())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def do(self, work: Callable[[], R]) -> R:
        """Run a quick function on the loop's thread; at once if this is that thread."""
        if threading.current_thread() is self._thread:
            return work()

        async def there() -> R:
            return work()

        return self.call(there)

    def home(self) -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
        """Return the loop, running, and its thread."""
        loop = self._running()
        assert self._thread is not None
        return loop, self._thread

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._run, args=[self._loop], name="toolcrib-portal", daemon=True
                )
                self._thread.start()
            return self._loop

    def finish(self) -> None:
        """Wait for work that must not be lost, such as a renewal of tokens, if a client was left open at exit."""
        loop = self._loop
        if loop is None or not has_uncancellable_tasks(loop):
            return
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(wait_for_uncancellable_tasks(), loop).result(EXIT_SECONDS)

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while True:
            # A listener or filter that calls sys.exit() ends only its own call, not the shared loop.
            try:
                return loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as exc:
                log.warning("a function on the portal's thread raised %s", type(exc).__name__, exc_info=True)


portal: Final = Portal()
atexit.register(portal.finish)
# A forked child inherits the object but not the thread.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=portal.__init__)  # type: ignore[misc]
