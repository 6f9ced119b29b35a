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
    """Base class of all events; `server` is the name of the server in the client or hub."""

    server: str


@dataclass(frozen=True, slots=True)
class ConnectionStarted(Event):
    """Emitted when an attempt to connect begins."""

    is_reconnect: bool = False


@dataclass(frozen=True, slots=True)
class ConnectionCompleted(Event):
    """Emitted when the server answered the handshake and is ready for calls."""

    is_reconnect: bool = False
    duration: float = 0.0
    protocol_version: str = ""


@dataclass(frozen=True, slots=True)
class ConnectionFailed(Event):
    """Emitted when an attempt to connect fails; `error` is the cause."""

    is_reconnect: bool = False
    duration: float = 0.0
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class SignInStarted(Event):
    """Emitted when a person is asked to sign in at the authorisation server `issuer`; calls wait for the person."""

    issuer: str


@dataclass(frozen=True, slots=True)
class Disconnected(Event):
    """Emitted when the connection ends; `reason` says why, for example `closed by the client`.

    `error` is the cause if the connection was lost: if the server's process ended, a `StartError` with its exit code.
    """

    reason: str = ""
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Reconnected(Event):
    """Emitted when a lost connection is restored; `generation` is the number of the new connection."""

    generation: int = 0


@dataclass(frozen=True, slots=True)
class ToolExecutionStarted(Event):
    """Emitted when a tool call is requested, before it is sent."""

    tool: str
    arguments: Any = None


@dataclass(frozen=True, slots=True)
class ToolExecutionCompleted(Event):
    """Emitted when the tool has answered a call; `is_error` is True if the tool reported an error."""

    tool: str
    duration: float
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ToolExecutionFailed(Event):
    """Emitted when a call ends without a result: with a typed error, or because the caller was cancelled."""

    tool: str
    duration: float
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class ToolsChanged(Event):
    """Emitted when the server's list of tools changes."""


@dataclass(frozen=True, slots=True)
class ResourcesChanged(Event):
    """Emitted by a hub when a server's list of resources or resource templates changes."""


@dataclass(frozen=True, slots=True)
class PromptsChanged(Event):
    """Emitted by a hub when a server's list of prompts changes."""


@dataclass(frozen=True, slots=True)
class InventoryChanged(Event):
    """Emitted by a provider when tools of a source were added, removed, changed or decided about, or the source was
    renamed, enabled, disabled or removed; `server` is the name of the source.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("tools",)
    """The lists that changed: `tools`, `prompts`, `resources`. The names above are those of tools."""
    source_id: str = ""
    """The id of the source, which stays if the source is renamed."""


@dataclass(frozen=True, slots=True)
class GroupChanged(Event):
    """Emitted by a provider when a group was created, changed or removed; `server` is empty."""

    group: str = ""


E = TypeVar("E", bound=Event)

BACKLOG = 10_000
"""Calls that wait for a slow async callback; beyond this number the oldest are dropped."""


class Delivery:
    """Calls a sync or async callback in order, one call at a time; exceptions are logged and ignored.

    A sync callback is called immediately. An async one runs in a separate task, which ends when no calls are left.
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
        """Wait until all calls of the callback have finished."""
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
    """The listeners of one client or hub, each with the type of event that it takes."""

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
