"""Tell async from blocking functions, and run a blocking one beside the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Callable
from typing import Any, TypeVar

R = TypeVar("R")


def is_async(function: Any) -> bool:
    """Whether it is an async function, or an object with an async `__call__`."""
    return callable(function) and (
        inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004  # that of its type
    )


def in_daemon_thread(work: Callable[[], R]) -> asyncio.Future[R]:
    """Run `work` in a thread of its own, with the caller's context variables, and return a future of its outcome.

    The thread is a daemon, because `work` may wait for a person: a thread pool would be joined when the program ends.
    A cancelled future ends the wait at once; `work` cannot be stopped, and what it returns later is ignored.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[R] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result = context.run(work)
        except (StopIteration, SystemExit, KeyboardInterrupt) as exc:
            # A future does not accept the first, and the others would end the event loop.
            error = RuntimeError(f"the function raised {type(exc).__name__}")
            error.__cause__ = exc
            settle(lambda: future.set_exception(error))
        except BaseException as exc:  # noqa: BLE001  # raised again where the future is awaited
            failure = exc
            settle(lambda: future.set_exception(failure))
        else:
            settle(lambda: future.set_result(result))

    def settle(outcome: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, so no task awaits the future
            loop.call_soon_threadsafe(lambda: None if future.done() else outcome())

    threading.Thread(target=run, name="toolcrib-handler", daemon=True).start()
    return future
