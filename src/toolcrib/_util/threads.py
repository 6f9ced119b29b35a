"""Distinguishes async from blocking functions, and runs blocking ones in a thread."""

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
    """Return whether it is an async function, or an object with an async `__call__`."""
    return callable(function) and (
        inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004  # the method itself, to check whether it is async
    )


async def call_function(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of the program and return its result. Blocking ones run in a thread, async ones are awaited."""
    result = function(*args) if is_async(function) else await in_daemon_thread(lambda: function(*args))
    return await result if inspect.isawaitable(result) else result


def in_daemon_thread(work: Callable[[], R]) -> asyncio.Future[R]:
    """Run `work` in a separate thread, with the caller's context variables, and return a future of its result.

    The thread is a daemon, because `work` may wait for user input: a thread pool would be joined at exit. Cancelling
    the future ends the wait immediately; `work` cannot be stopped, and its later result is ignored.
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
