"""Futures that several callers wait for together: the outcome of one attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from ..errors import ToolcribError


def outcome() -> asyncio.Future[None]:
    """Return a future whose exception counts as retrieved, even if no caller waits for it."""
    future = asyncio.get_running_loop().create_future()
    future.add_done_callback(retrieve)
    return future


def settle(waiting: Iterable[asyncio.Future[None] | None], error: ToolcribError | None) -> None:
    """Resolve the futures that are still pending: with `error`, or with None."""
    for future in waiting:
        if future is None or future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


def retrieve(future: asyncio.Future[Any]) -> None:
    """Mark the exception as retrieved, so that asyncio does not log it: it is reported elsewhere, or not needed."""
    if not future.cancelled():
        future.exception()
