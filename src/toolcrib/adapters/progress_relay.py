"""Progress of a call, delivered where its caller is."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from typing import Final

from ..events import Delivery
from ..transports.channel import ProgressHandler

PROGRESS_SECONDS: Final = 2.0
"""Seconds that an answer waits for an async progress handler that has not finished."""


class ProgressRelay:
    """Calls a progress handler with the context variables of the caller, in order, and one at a time."""

    def __init__(self, handler: ProgressHandler, context: contextvars.Context | None = None) -> None:
        self._deliver = Delivery(handler, "progress handler")
        self._context = contextvars.copy_context() if context is None else context

    def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Call the handler on the running loop."""
        self._context.run(self._deliver, progress, total, message)

    def make_remote(self, loop: asyncio.AbstractEventLoop) -> ProgressHandler:
        """Return a handler for other threads, which calls the handler on `loop`."""

        def report(progress: float, total: float | None, message: str | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop of the caller has ended
                loop.call_soon_threadsafe(self._deliver, progress, total, message, context=self._context)

        return report

    async def drain(self) -> None:
        """Wait until an async handler has finished, for a limited time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROGRESS_SECONDS):
                await self._deliver.drained()
