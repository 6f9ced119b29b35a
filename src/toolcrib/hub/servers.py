"""The servers of a hub: adds, removes and starts them, in parallel, and forwards their events.

Longer than 400 lines: one class owns the set of servers, and most of its methods are about their start.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from time import monotonic
from typing import Any, Final, TypeVar

from .. import tool_names
from .._util.locks import running_loop
from .._util.suggest import did_you_mean
from ..catalog.routing import Catalog, Route, nearest
from ..client.client import Client, Timeout
from ..errors import ConfigError, ConnectionLost, ServerNotFound, UsageError
from ..events import Event, Listeners, PromptsChanged, ResourcesChanged, ToolsChanged
from ..types import UNSET, ConnectionState
from .managed_server import ManagedServer, time_left
from .server_options import OnError, ServerSpec, StartTimeout
from .server_state import ServerState
from .start_queue import DEFAULT_LIMIT, FirstStart, StartQueue

log = logging.getLogger("toolcrib.hub")

E = TypeVar("E", bound=Event)

START_TIMEOUT: Final = 10.0
START_GRACE: Final = 5.0
MAX_NAMES_LOGGED: Final = 10

_CHANGE_EVENTS: Final[dict[str, type[Event]]] = {
    "tools": ToolsChanged,
    "resources": ResourcesChanged,
    "resource_templates": ResourcesChanged,
    "prompts": PromptsChanged,
}
_MISSING: Final = {
    ConnectionState.CONNECTING: "starting",
    ConnectionState.DEGRADED: "degraded",
    ConnectionState.NEEDS_AUTH: "needs_auth",
    ConnectionState.FAILED: "failed",
}
_MISSING_ORDER: Final = ("starting", "reconnecting", "degraded", "needs_auth", "failed")


class ServerSet:
    """Servers by name, and the catalog that they fill."""

    def __init__(
        self,
        judge: Callable[[Route[ManagedServer]], None],
        start_timeout: StartTimeout,
        max_parallel_starts: int | None = DEFAULT_LIMIT,
    ) -> None:
        self.by_name: dict[str, ManagedServer] = {}
        self.catalog: Catalog[ManagedServer] = Catalog(judge)
        self.listeners = Listeners()
        self.begun = False
        self.closed = False
        self._start_timeout = start_timeout
        self._starts = StartQueue(max_parallel_starts)
        self._unsettled: set[ManagedServer] = set()
        self._on_begin: list[Callable[[], object]] = []
        self._on_close: list[Callable[[], Awaitable[None]]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._removals: dict[str, asyncio.Task[None]] = {}
        self._closing: asyncio.Task[None] | None = None

    # ---- adding and removing -----------------------------------------------------------------------------------

    def add(self, spec: ServerSpec) -> ManagedServer:
        """Add a server without starting it. It connects only after a removed server of the same name has ended."""
        if spec.name in self.by_name:
            raise _make_taken_error(spec.name)
        managed = self.by_name[spec.name] = ManagedServer(
            spec, self._publish, self._forward_event, self._removals.get(spec.name), self._starts
        )
        managed.set_forwarding(bool(self.listeners.entries))
        self.catalog.add(spec.name, managed)
        self._unsettled.add(managed)
        return managed

    def remove(self, managed: ManagedServer) -> asyncio.Future[None]:
        """Remove a server at once; only its own unanswered calls fail.

        Returns a future of its end, which does not depend on being awaited.
        """
        if self.by_name.get(managed.name) is managed:
            del self.by_name[managed.name]
            self._unsettled.discard(managed)
            for event in dict.fromkeys(_CHANGE_EVENTS[kind] for kind in self.catalog.drop(managed.name)):
                self.listeners.emit(event(managed.name))
        task = asyncio.create_task(_close(managed, self._removals.get(managed.name)))
        self._removals[managed.name] = task
        task.add_done_callback(lambda done: self._forget_removal(managed.name, done))
        return task

    def _forget_removal(self, name: str, done: asyncio.Task[None]) -> None:
        if self._removals.get(name) is done:
            del self._removals[name]

    def find(self, name: str) -> ManagedServer:
        """Return the server of this name, or of this display name."""
        if not isinstance(name, str):
            raise UsageError(f"server: expected a name, got {type(name).__name__}")
        managed = self.by_name.get(name)
        if managed is None:
            managed = next((each for each in self.by_name.values() if each.spec.display_name == name), None)
        if managed is None:
            near = nearest(name, self.by_name)
            hint = did_you_mean(near) or f"; its servers: {', '.join(self.by_name) or 'none'}"
            raise ServerNotFound(f"this hub has no server of this name{hint}", server=name, nearest=near)
        return managed

    @contextlib.asynccontextmanager
    async def lease(self, name: str, timeout: Timeout = UNSET) -> AsyncIterator[tuple[Client, Timeout]]:
        """Yield a client of the server of this name for one request, and what is left of the request's time-out."""
        self.begin()
        managed = self.find(name)
        clients = managed.clients
        if clients is None:
            raise managed.make_unusable_error()
        seconds, began = managed.resolve_timeout(timeout), monotonic()
        try:
            await managed.wait_for_turn(seconds)
            async with clients.lease(time_left(seconds, began)) as client:
                yield client, time_left(seconds, began)
        except UsageError as exc:
            if not managed.closed:
                raise
            raise ConnectionLost("the server was removed", server=managed.name) from exc

    def find_owner(self, qualified: str) -> ManagedServer | None:
        """Return the server whose tool or prompt this qualified name would be, whether or not it lists one."""
        server = self.catalog.server_of(qualified)
        return None if server is None else self.by_name.get(server)

    # ---- starting --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise if the hub is closed, or belongs to another event loop."""
        if self.closed:
            raise UsageError("the hub is closed; make a new one")
        loop = running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise UsageError("the hub belongs to another event loop; make a new one here, or use toolcrib.sync")

    @property
    def running(self) -> bool:
        """Whether the hub has begun and is not closed."""
        return self.begun and not self.closed

    def on_begin(self, hook: Callable[[], object]) -> None:
        """Call `hook` when the hub begins."""
        self._on_begin.append(hook)

    def on_close(self, hook: Callable[[], Awaitable[None]]) -> None:
        """Call `hook` when the hub is closed, before its servers are."""
        self._on_close.append(hook)

    def begin(self) -> None:
        """Start all servers that are not lazy, in parallel."""
        self.check()
        if not self.begun:
            self.begun = True
            for hook in self._on_begin:
                hook()
            for managed in self.by_name.values():
                if managed.spec.start == "eager":
                    managed.start()

    async def start(self, on_error: OnError) -> None:
        """Start the servers that are not lazy, and wait for the outcomes."""
        self.begin()
        eager = [managed for managed in self.by_name.values() if managed.first_start is not None]
        if on_error == "raise":
            await self._start_all_or_close(eager)
        else:
            await self.wait_for_starts(eager)
        if self.closed:
            raise ConnectionLost("the hub was closed while it was starting")

    async def _start_all_or_close(self, managed_servers: list[ManagedServer]) -> None:
        outcomes = [managed.start().outcome for managed in managed_servers if not managed.spec.disabled]
        if outcomes:
            await asyncio.wait(outcomes, return_when=asyncio.FIRST_EXCEPTION)
        self._unsettled.difference_update(managed_servers)
        for outcome in outcomes:
            error = outcome.exception() if outcome.done() else None
            if error is not None and not self.closed:
                await self.close()
                raise copy.copy(error) from error.__cause__

    async def prepare_list(self, of: ManagedServer | None = None) -> None:
        """Start the servers that a list needs, all or one, and give those that are starting their time."""
        self.begin()
        concerned = [managed for managed in self._unsettled if of is None or managed is of]
        for managed in concerned:
            managed.start()
            if managed is of:
                managed.prioritize()
        await self.wait_for_starts(concerned)
        if self.closed:
            raise ConnectionLost("the hub was closed")

    def needs_no_wait(self) -> bool:
        """Return whether a list of all servers would wait for none of them, so that the catalog is the answer."""
        self.check()
        return self.begun and all(
            managed.first_start is not None and managed.first_start.outcome.done() for managed in self._unsettled
        )

    async def wait_for_starts(self, managed_servers: Iterable[ManagedServer]) -> None:
        """Wait for the outcomes of first starts. A server that takes too long goes on starting, and no later call of
        this method waits for it.
        """
        starts = {
            managed: managed.first_start
            for managed in managed_servers
            if managed in self._unsettled and managed.first_start is not None
        }
        late = {start.outcome for start in starts.values() if not start.outcome.done()}
        while late:
            left = self._remaining_start_time(starts)
            if left is not None and left <= 0:
                break
            _, late = await asyncio.wait(late, timeout=left)
        self._warn_of_missing({each: start for each, start in starts.items() if each in self._unsettled})
        self._unsettled.difference_update(starts)

    async def wait_until_ready(self, timeout: float | None) -> None:
        """Wait until the first start of every server that was started has ended, or `timeout` seconds have passed."""
        self.begin()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                # Servers may be added while this waits.
                while late := [start for each in self.by_name.values() if (start := each.pending_start) is not None]:
                    await asyncio.wait([start.outcome for start in late])
        if self.closed:
            raise ConnectionLost("the hub was closed while it was starting")
        self._unsettled.difference_update([each for each in self._unsettled if each.pending_start is None])

    def _warn_of_missing(self, starts: Mapping[ManagedServer, FirstStart]) -> None:
        """Log one line that names the servers whose tools are missing because they are still starting or failed."""
        starting, waiting, failed = [], [], []
        for managed, start in starts.items():
            if start.outcome.done():
                if start.outcome.exception() is not None and not managed.spec.disabled:
                    failed.append(managed.name)
            elif managed.waits_for_turn:
                waiting.append(managed.name)
            else:
                starting.append(managed.name)
        if self._start_timeout == 0:  # the caller does not want to wait
            starting, waiting = [], []
        groups = {
            "still starting": starting,
            f"waiting for a turn to start (max_parallel_starts={self._starts.limit})": waiting,
            "failed": failed,
        }
        missing = "; ".join(f"{what}: {_join_names(names)}" for what, names in groups.items() if names)
        if missing and not self.closed:
            log.warning(
                "the hub goes on without some servers (%s); "
                "hub.ready() waits for those that are starting, hub.list_servers() shows the reasons",
                missing,
            )

    def _remaining_start_time(self, starts: Mapping[ManagedServer, FirstStart]) -> float | None:
        """Return how many seconds more to wait for these starts; None for no limit."""
        if self._start_timeout is None:
            return None
        now = asyncio.get_running_loop().time()
        elapsed = now - max(start.requested_at for start in starts.values())
        if self._start_timeout != "auto":
            return self._start_timeout - elapsed
        # Until the first server has started, there is nothing to compare with: all of the time so far counts.
        slowest = max((start.seconds for start in starts.values() if start.seconds is not None), default=elapsed)
        # A server that waits for its turn has not used any of its time.
        starting = now - max(
            now if managed.waits_for_turn else start.turn_began_at or start.requested_at
            for managed, start in starts.items()
        )
        return min(max(START_GRACE, 3 * slowest) - starting, START_TIMEOUT - elapsed)

    # ---- lists and events ------------------------------------------------------------------------------------

    def _publish(self, managed: ManagedServer, kind: str, lists: dict[str, list[Any]]) -> None:
        if self.by_name.get(managed.name) is not managed:
            return
        changed = [self.catalog.put(managed.name, name, items) for name, items in lists.items()]
        if any(changed):
            self.listeners.emit(_CHANGE_EVENTS[kind](managed.name))

    def judge_all(self) -> None:
        """Apply rules that have changed to all tools."""
        for managed in dict.fromkeys(self.catalog.judge_all()):
            self.listeners.emit(ToolsChanged(managed.name))

    def _forward_event(self, event: Event) -> None:
        # The hub emits this one itself, when it has the new list.
        if not isinstance(event, ToolsChanged):
            self.listeners.emit(event)

    def on(self, event: type[E], listener: Callable[[E], Awaitable[None] | None]) -> Callable[[], None]:
        """Call the listener with every such event of any server. Returns a function that removes the listener."""
        remove = self.listeners.on(event, listener)
        self._set_forwarding()

        def stop() -> None:
            remove()
            self._set_forwarding()

        return stop

    def _set_forwarding(self) -> None:
        for managed in self.by_name.values():
            managed.set_forwarding(bool(self.listeners.entries))

    def state_of(self, managed: ManagedServer) -> ServerState:
        """Return the state of a server at this moment."""
        catalog, name = self.catalog, managed.name
        return ServerState(
            name,
            managed.spec.server,
            managed.status,
            managed.server_info,
            catalog.tools_of(name),
            tuple(catalog.resources(name)),
            tuple(catalog.resource_templates(name)),
            tuple(catalog.prompts_of(name)),
            managed.last_error,
            managed.spec.display_name,
            None if managed.first_start is None else managed.first_start.seconds,
        )

    def count_missing(self) -> dict[str, int]:
        """Return how many servers do not work as they should, by state; only counts that are not zero."""
        counts = Counter(
            "reconnecting" if managed.listed and state is ConnectionState.CONNECTING else _MISSING[state]
            for managed in self.by_name.values()
            if (state := managed.status.state) in _MISSING
        )
        return {name: counts[name] for name in _MISSING_ORDER if counts[name]}

    # ---- the end ---------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close all servers. All callers wait for the same task, which goes on if they are cancelled."""
        loop = running_loop()
        if self._loop is not None and self._loop is not loop:
            raise UsageError("the hub belongs to another event loop; close it there")
        if self._closing is None:
            self.closed = True
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        for hook in self._on_close:
            await hook()
        managed_servers = list(self.by_name.values())
        await asyncio.gather(*(managed.close() for managed in managed_servers))
        if self._removals:
            await asyncio.wait(self._removals.values())


def _join_names(names: list[str]) -> str:
    more = len(names) - MAX_NAMES_LOGGED
    return ", ".join(names[:MAX_NAMES_LOGGED]) + (f" and {more} more" if more > 0 else "")


async def _close(managed: ManagedServer, former: asyncio.Future[None] | None) -> None:
    """Close a server. Returns when it has ended, and a former server of the same name, too."""
    await managed.close()
    if former is not None:
        await asyncio.wait([former])


def name_servers(servers: Mapping[Any, Any]) -> list[tuple[str, str, Any]]:
    """Return the name, display name and server of each."""
    for name in servers:
        if not isinstance(name, str) or not name.strip():
            expected = "a text that is not empty"
            raise ConfigError(
                f"{name!r} is not a valid server name: expected {expected}", key="servers", expected=expected
            )
    return [(name, display, servers[display]) for display, name in tool_names.unique(servers).items()]


def choose_name(display: str, managed_servers: Mapping[str, ManagedServer]) -> str:
    """Return the name for a server to add; raise `ConfigError` if its name, or display name, is taken."""
    if display in managed_servers or any(managed.spec.display_name == display for managed in managed_servers.values()):
        raise _make_taken_error(display)
    ((name, _, _),) = name_servers({display: None})
    return tool_names.slug(name, managed_servers)


def _make_taken_error(name: str) -> ConfigError:
    message = f"there is a server {name!r} in this hub already; remove it first, or choose another name"
    return ConfigError(message, key="name", expected="a name that is not taken", server=name)
