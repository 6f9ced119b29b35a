"""Events as frozen values, and their listeners. Exceptions in listeners are logged and ignored."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ._util.cancellation import is_current_task_cancelled

log = logging.getLogger("toolcrib.events")


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events; `server` is the client's name for the server."""

    server: str


@dataclass(frozen=True, slots=True)
class ConnectionStarted(Event):
    """An attempt to connect began."""

    is_reconnect: bool = False


@dataclass(frozen=True, slots=True)
class ConnectionCompleted(Event):
    """The server answered and can be used."""

    is_reconnect: bool = False
    duration: float = 0.0
    protocol_version: str = ""


@dataclass(frozen=True, slots=True)
class ConnectionFailed(Event):
    """An attempt to connect failed."""

    is_reconnect: bool = False
    duration: float = 0.0
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Disconnected(Event):
    """The connection ended: by us, or for the reason given."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reconnected(Event):
    """A connection that was lost is there again; `generation` counts them."""

    generation: int = 0


@dataclass(frozen=True, slots=True)
class ToolExecutionStarted(Event):
    """A call was asked for."""

    tool: str
    arguments: Any = None


@dataclass(frozen=True, slots=True)
class ToolExecutionCompleted(Event):
    """A call was answered by the tool; `is_error` if the tool itself reported a failure."""

    tool: str
    duration: float
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ToolExecutionFailed(Event):
    """A call ended without an answer of the tool: a typed error, or the caller was cancelled."""

    tool: str
    duration: float
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class ToolsChanged(Event):
    """The server's list of tools changed."""


@dataclass(frozen=True, slots=True)
class ResourcesChanged(Event):
    """The server's list of resources, or of their templates, changed; a hub tells it."""


@dataclass(frozen=True, slots=True)
class PromptsChanged(Event):
    """The server's list of prompts changed; a hub tells it."""


E = TypeVar("E", bound=Event)

BACKLOG = 10_000
"""What is kept for an async callback that is slower than things come; beyond it the oldest go."""


class Delivery:
    """Hands things to a callback, sync or async, in order and one at a time; what it raises is logged and ends there.

    A sync callback is called on the spot. An async one works in a task of its own, which lives while there is work.
    """

    __slots__ = ("_backlog", "_callback", "_what", "_worker")

    def __init__(self, callback: Callable[..., Awaitable[None] | None], what: str) -> None:
        self._callback = callback
        self._what = what
        self._backlog: deque[tuple[Any, ...]] = deque(maxlen=BACKLOG)
        self._worker: asyncio.Task[None] | None = None

    def __call__(self, *args: Any) -> None:
        if self._worker is not None and not self._worker.done():
            self._backlog.append(args)
        elif (rest := self._call(args)) is not None:
            self._worker = asyncio.ensure_future(self._work(rest))

    async def drained(self) -> None:
        """Wait until the callback has had everything."""
        while self._worker is not None:
            await asyncio.wait([self._worker])

    def _call(self, args: tuple[Any, ...]) -> Awaitable[None] | None:
        try:
            outcome = self._callback(*args)
        except (Exception, asyncio.CancelledError):
            log.exception("a %s raised", self._what)
            return None
        return outcome if inspect.isawaitable(outcome) else None

    async def _work(self, rest: Awaitable[None] | None) -> None:
        try:
            while True:
                if rest is not None:
                    try:
                        await rest
                    except Exception:
                        log.exception("a %s raised", self._what)
                    except asyncio.CancelledError:
                        if is_current_task_cancelled():
                            raise
                        log.exception("a %s was cancelled", self._what)
                if not self._backlog:
                    return
                rest = self._call(self._backlog.popleft())
        finally:
            self._worker = None


class Listeners:
    """The listeners of one client or hub, by the type of event that they take."""

    def __init__(self) -> None:
        self.entries: list[tuple[type[Event], Delivery]] = []
        self.observe_calls = False
        """Whether a listener takes events of tool calls. If not, the path of a call creates no events."""

    def on(self, kind: type[E], listener: Callable[[E], Awaitable[None] | None]) -> Callable[[], None]:
        """Call `listener` with every event of this type or a subtype. Returns a function that removes the listener."""
        entry = (kind, Delivery(listener, f"listener for {kind.__name__}"))
        self.entries.append(entry)
        self.observe_calls = self.observe_calls or _takes_calls(kind)

        def stop() -> None:
            if entry in self.entries:
                self.entries.remove(entry)
                self.observe_calls = any(_takes_calls(each) for each, _ in self.entries)

        return stop

    def emit(self, event: Event) -> None:
        """Call every listener that takes events of this type."""
        for kind, deliver in tuple(self.entries):
            if isinstance(event, kind):
                deliver(event)


_CALLS: Final = (ToolExecutionStarted, ToolExecutionCompleted, ToolExecutionFailed)


def _takes_calls(kind: type[Event]) -> bool:
    return issubclass(kind, _CALLS) or any(issubclass(each, kind) for each in _CALLS)
