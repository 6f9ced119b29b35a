"""The servers of a hub: who they are, their start side by side, their coming and going, and what is told of it."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
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
from ..types import UNSET
from .managed_server import ManagedServer, time_left
from .server_options import OnError, ServerSpec, StartTimeout
from .server_state import ServerState
from .start_queue import DEFAULT_LIMIT, StartQueue

log = logging.getLogger("toolcrib.hub")

E = TypeVar("E", bound=Event)

START_TIMEOUT: Final = 10.0
START_GRACE: Final = 5.0

_TOLD_AS: Final[dict[str, type[Event]]] = {
    "tools": ToolsChanged,
    "resources": ResourcesChanged,
    "resource_templates": ResourcesChanged,
    "prompts": PromptsChanged,
}


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
        self._young: set[ManagedServer] = set()
        self._on_begin: list[Callable[[], object]] = []
        self._on_close: list[Callable[[], Awaitable[None]]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._closing: asyncio.Task[None] | None = None

    # ---- coming and going ------------------------------------------------------------------------------------

    def add(self, spec: ServerSpec) -> ManagedServer:
        """A new server, not started yet; it starts no sooner than one whose name it takes has ended."""
        if spec.name in self.by_name:
            raise _taken(spec.name)
        managed = self.by_name[spec.name] = ManagedServer(
            spec, self._publish, self._pass_on, self._leaving.get(spec.name), self._starts
        )
        managed.forward(bool(self.listeners.entries))
        self.catalog.add(spec.name, managed)
        self._young.add(managed)
        return managed

    def remove(self, managed: ManagedServer) -> asyncio.Future[None]:
        """A server goes. From this moment on nobody finds it; its calls under way fail, and nobody else's.

        The future is its end, which comes also if nobody waits for it.
        """
        if self.by_name.get(managed.name) is managed:
            del self.by_name[managed.name]
            self._young.discard(managed)
            for told_as in dict.fromkeys(_TOLD_AS[kind] for kind in self.catalog.drop(managed.name)):
                self.listeners.emit(told_as(managed.name))
        task = asyncio.create_task(_ended(managed, self._leaving.get(managed.name)))
        self._leaving[managed.name] = task
        task.add_done_callback(lambda done: self._left(managed.name, done))
        return task

    def _left(self, name: str, done: asyncio.Task[None]) -> None:
        if self._leaving.get(name) is done:
            del self._leaving[name]

    def find(self, name: str) -> ManagedServer:
        """The server of this name, or of this display name."""
        if not isinstance(name, str):
            raise UsageError(f"a server is named by a text, not by {type(name).__name__}")
        managed = self.by_name.get(name)
        if managed is None:
            managed = next((each for each in self.by_name.values() if each.spec.display_name == name), None)
        if managed is None:
            near = nearest(name, self.by_name)
            hint = did_you_mean(near) or f"; its servers: {', '.join(self.by_name) or 'none'}"
            raise ServerNotFound(f"there is no such server in this hub{hint}", server=name, nearest=near)
        return managed

    @contextlib.asynccontextmanager
    async def lease(self, name: str, timeout: Timeout = UNSET) -> AsyncIterator[tuple[Client, Timeout]]:
        """Yield a client of the server of this name for one request, and what is left of the request's time-out."""
        self.begin()
        managed = self.find(name)
        pool = managed.pool
        if pool is None:
            raise managed.unusable()
        seconds, began = managed.timeout_of(timeout), monotonic()
        try:
            await managed.wait_for_turn(seconds)
            async with pool.lease(time_left(seconds, began)) as client:
                yield client, time_left(seconds, began)
        except UsageError as exc:
            if not managed.closed:
                raise
            raise ConnectionLost("the server was removed", server=managed.name) from exc

    def owner_of(self, qualified: str) -> ManagedServer | None:
        """Return the server whose tool or prompt this qualified name would be, whether or not it lists one."""
        server = self.catalog.server_of(qualified)
        return None if server is None else self.by_name.get(server)

    # ---- starting --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """A closed hub is of no use, nor is one on another loop."""
        if self.closed:
            raise UsageError("the hub is closed; make a new one")
        loop = running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise UsageError("the hub belongs to another event loop; make a new one here, or use toolcrib.sync")

    @property
    def running(self) -> bool:
        """Begun and not closed."""
        return self.begun and not self.closed

    def on_begin(self, hook: Callable[[], object]) -> None:
        """Done when the hub begins."""
        self._on_begin.append(hook)

    def on_close(self, hook: Callable[[], Awaitable[None]]) -> None:
        """Done when it is closed, before its servers go."""
        self._on_close.append(hook)

    def begin(self) -> None:
        """Start all servers that are not lazy, side by side."""
        self.check()
        if not self.begun:
            self.begun = True
            for hook in self._on_begin:
                hook()
            for managed in self.by_name.values():
                if managed.spec.start == "eager":
                    managed.begin()

    async def start(self, on_error: OnError) -> None:
        """Start, and wait for the outcomes."""
        self.begin()
        eager = [managed for managed in self.by_name.values() if managed.first is not None]
        if on_error == "raise":
            await self._all_or_none(eager)
        else:
            await self.settled(eager)
        if self.closed:
            raise ConnectionLost("the hub was closed while it was starting")

    async def _all_or_none(self, managed_servers: list[ManagedServer]) -> None:
        first = [managed.begin() for managed in managed_servers if not managed.spec.disabled]
        if first:
            await asyncio.wait(first, return_when=asyncio.FIRST_EXCEPTION)
        self._young.difference_update(managed_servers)
        for outcome in first:
            error = outcome.exception() if outcome.done() else None
            if error is not None and not self.closed:
                await self.close()
                raise copy.copy(error) from error.__cause__

    async def listing(self, of: ManagedServer | None = None) -> None:
        """Before a list, of all or of one: who has never been started is, and who is still starting has its time."""
        self.begin()
        concerned = [managed for managed in self._young if of is None or managed is of]
        for managed in concerned:
            managed.begin()
            if managed is of:
                managed.prioritize()
        await self.settled(concerned)
        if self.closed:
            raise ConnectionLost("the hub was closed")

    async def settled(self, managed_servers: Iterable[ManagedServer]) -> None:
        """Wait for first outcomes. Who takes too long goes on starting and is waited for no more."""
        waiting = {
            managed: managed.first
            for managed in managed_servers
            if managed in self._young and managed.first is not None
        }
        late = {first for first in waiting.values() if not first.done()}
        while late:
            left = self._patience(waiting)
            if left is not None and left <= 0:
                break
            _, late = await asyncio.wait(late, timeout=left)
        if self._start_timeout:  # who does not want to wait knows
            self._warn_of([managed for managed in waiting if managed.first in late and managed in self._young])
        self._young.difference_update(waiting)

    def _warn_of(self, late: list[ManagedServer]) -> None:
        delayed = [managed.name for managed in late if managed.waits_for_turn]
        for managed in late:
            if managed.name not in delayed:
                log.warning("%s: not started yet; the hub goes on without it until it is", managed.name)
        if delayed:
            what = f"{len(delayed)} server{'s wait' if len(delayed) > 1 else ' waits'}"
            shown = ", ".join(delayed[:5]) + (", ..." if len(delayed) > 5 else "")
            log.warning("%s for a turn to start (max_parallel_starts=%s): %s", what, self._starts.limit, shown)

    def _patience(self, managed_servers: Iterable[ManagedServer]) -> float | None:
        """Seconds more that they have for their start; None: as long as they want."""
        if self._start_timeout is None:
            return None
        now = asyncio.get_running_loop().time()
        elapsed = now - max(managed.began for managed in managed_servers)
        if self._start_timeout != "auto":
            return self._start_timeout - elapsed
        # While nobody is well, it is not known what a long time is: looked at again and again.
        slowest = max((managed.took for managed in managed_servers if managed.took is not None), default=elapsed)
        # A server that has not had its turn yet has all of its time before it.
        starting = now - max(
            now if managed.waits_for_turn else managed.turn_began or managed.began for managed in managed_servers
        )
        return min(max(START_GRACE, 3 * slowest) - starting, START_TIMEOUT - elapsed)

    # ---- lists and events ------------------------------------------------------------------------------------

    def _publish(self, managed: ManagedServer, kind: str, lists: dict[str, list[Any]]) -> None:
        if self.by_name.get(managed.name) is not managed:
            return
        changed = [self.catalog.put(managed.name, name, items) for name, items in lists.items()]
        if any(changed):
            self.listeners.emit(_TOLD_AS[kind](managed.name))

    def judge_all(self) -> None:
        """The rules have changed, and with them what may be seen and called."""
        for managed in dict.fromkeys(self.catalog.judge_all()):
            self.listeners.emit(ToolsChanged(managed.name))

    def _pass_on(self, event: Event) -> None:
        # That a list changed is told by the hub itself, when it has the new one.
        if not isinstance(event, ToolsChanged):
            self.listeners.emit(event)

    def on(self, event: type[E], listener: Callable[[E], Awaitable[None] | None]) -> Callable[[], None]:
        """Call the listener with every such event of any server."""
        stop = self.listeners.on(event, listener)
        self._forward()

        def end() -> None:
            stop()
            self._forward()

        return end

    def _forward(self) -> None:
        for managed in self.by_name.values():
            managed.forward(bool(self.listeners.entries))

    def state_of(self, managed: ManagedServer) -> ServerState:
        """How a server stands."""
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
            managed.took,
        )

    # ---- the end ---------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """End all. Whoever calls it waits for the one closing, which goes on if they are cancelled."""
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
        if self._leaving:
            await asyncio.wait(self._leaving.values())


async def _ended(managed: ManagedServer, former: asyncio.Future[None] | None) -> None:
    """The end of a server, and of one of its name that had not ended before."""
    await managed.close()
    if former is not None:
        await asyncio.wait([former])


def named(servers: Mapping[Any, Any]) -> list[tuple[str, str, Any]]:
    """Name, display name and server of each."""
    for name in servers:
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"{name!r} cannot be a server's name", key="servers", expected="names of servers")
    return [(name, display, servers[display]) for display, name in tool_names.unique(servers).items()]


def new_name(display: str, managed_servers: Mapping[str, ManagedServer]) -> str:
    """The name for one server more; a name, or display name, that is there already is refused."""
    if display in managed_servers or any(managed.spec.display_name == display for managed in managed_servers.values()):
        raise _taken(display)
    ((name, _, _),) = named({display: None})
    return tool_names.slug(name, managed_servers)


def _taken(name: str) -> ConfigError:
    message = f"there is a server {name!r} in this hub already; remove it first, or choose another name"
    return ConfigError(message, key="name", expected="a name that is not taken", server=name)
