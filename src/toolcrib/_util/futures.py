"""What several callers wait for together: the outcome of one attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from ..errors import ToolcribError


def outcome() -> asyncio.Future[None]:
    """Something to wait for."""
    future = asyncio.get_running_loop().create_future()
    future.add_done_callback(retrieve)
    return future


def settle(waiting: Iterable[asyncio.Future[None] | None], error: ToolcribError | None) -> None:
    """Tell all who wait: it is done, or why it could not be."""
    for future in waiting:
        if future is None or future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


def retrieve(future: asyncio.Future[Any]) -> None:
    """An attempt that failed with nobody waiting is no lost exception: the status tells it."""
    if not future.cancelled():
        future.exception()
