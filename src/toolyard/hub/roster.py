"""The servers of a hub: who they are, their start side by side, their coming and going, and what is told of it."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from time import monotonic
from typing import Any, Final, TypeVar

from .. import names
from .._util.suggest import did_you_mean
from ..client.client import Client, Timeout
from ..client.turns import running_loop
from ..errors import ConfigError, ConnectionLost, ServerNotFound, UsageError
from ..events import Event, Listeners, PromptsChanged, ResourcesChanged, ToolsChanged
from ..types import UNSET
from .catalog import Catalog, Route, nearest
from .member import Member, time_left
from .plan import OnError, Plan, StartTimeout
from .start_queue import DEFAULT_LIMIT, StartQueue
from .state import ServerState

log = logging.getLogger("toolyard.hub")

E = TypeVar("E", bound=Event)

START_TIMEOUT: Final = 10.0
START_GRACE: Final = 5.0

_TOLD_AS: Final[dict[str, type[Event]]] = {
    "tools": ToolsChanged,
    "resources": ResourcesChanged,
    "resource_templates": ResourcesChanged,
    "prompts": PromptsChanged,
}


class Roster:
    """Members by name, and the catalog that they fill."""

    def __init__(
        self,
        judge: Callable[[Route[Member]], None],
        start_timeout: StartTimeout,
        max_parallel_starts: int | None = DEFAULT_LIMIT,
    ) -> None:
        self.members: dict[str, Member] = {}
        self.catalog: Catalog[Member] = Catalog(judge)
        self.listeners = Listeners()
        self.begun = False
        self.closed = False
        self._start_timeout = start_timeout
        self._starts = StartQueue(max_parallel_starts)
        self._young: set[Member] = set()
        self._on_begin: list[Callable[[], object]] = []
        self._on_close: list[Callable[[], Awaitable[None]]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._closing: asyncio.Task[None] | None = None

    # ---- coming and going ------------------------------------------------------------------------------------

    def enrol(self, plan: Plan) -> Member:
        """A new member, not started yet; it starts no sooner than one whose name it takes has ended."""
        if plan.name in self.members:
            raise _taken(plan.name)
        member = self.members[plan.name] = Member(
            plan, self._publish, self._pass_on, self._leaving.get(plan.name), self._starts
        )
        member.forward(bool(self.listeners.entries))
        self.catalog.add(plan.name, member)
        self._young.add(member)
        return member

    def dismiss(self, member: Member) -> asyncio.Future[None]:
        """A member goes. From this moment on nobody finds it; its calls under way fail, and nobody else's.

        The future is its end, which comes also if nobody waits for it.
        """
        if self.members.get(member.name) is member:
            del self.members[member.name]
            self._young.discard(member)
            for told_as in dict.fromkeys(_TOLD_AS[kind] for kind in self.catalog.drop(member.name)):
                self.listeners.emit(told_as(member.name))
        task = asyncio.create_task(_ended(member, self._leaving.get(member.name)))
        self._leaving[member.name] = task
        task.add_done_callback(lambda done: self._left(member.name, done))
        return task

    def _left(self, name: str, done: asyncio.Task[None]) -> None:
        if self._leaving.get(name) is done:
            del self._leaving[name]

    def find(self, name: str) -> Member:
        """The member of this name, or of this display name."""
        if not isinstance(name, str):
            raise UsageError(f"a server is named by a text, not by {type(name).__name__}")
        member = self.members.get(name)
        if member is None:
            member = next((each for each in self.members.values() if each.plan.display_name == name), None)
        if member is None:
            near = nearest(name, self.members)
            hint = did_you_mean(near) or f"; its servers: {', '.join(self.members) or 'none'}"
            raise ServerNotFound(f"there is no such server in this hub{hint}", server=name, nearest=near)
        return member

    @contextlib.asynccontextmanager
    async def lease(self, name: str, timeout: Timeout = UNSET) -> AsyncIterator[tuple[Client, Timeout]]:
        """Yield a client of the server of this name for one request, and what is left of the request's time-out."""
        self.begin()
        member = self.find(name)
        pool = member.pool
        if pool is None:
            raise member.unusable()
        seconds, began = member.timeout_of(timeout), monotonic()
        try:
            await member.wait_for_turn(seconds)
            async with pool.lease(time_left(seconds, began)) as client:
                yield client, time_left(seconds, began)
        except UsageError as exc:
            if not member.closed:
                raise
            raise ConnectionLost("the server was removed", server=member.name) from exc

    def owner_of(self, qualified: str) -> Member | None:
        """Return the member whose tool or prompt this qualified name would be, whether or not it lists one."""
        server = self.catalog.server_of(qualified)
        return None if server is None else self.members.get(server)

    # ---- starting --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """A closed hub is of no use, nor is one on another loop."""
        if self.closed:
            raise UsageError("the hub is closed; make a new one")
        loop = running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise UsageError("the hub belongs to another event loop; make a new one here, or use toolyard.sync")

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
            for member in self.members.values():
                if member.plan.start == "eager":
                    member.begin()

    async def start(self, on_error: OnError) -> None:
        """Start, and wait for the outcomes."""
        self.begin()
        eager = [member for member in self.members.values() if member.first is not None]
        if on_error == "raise":
            await self._all_or_none(eager)
        else:
            await self.settled(eager)
        if self.closed:
            raise ConnectionLost("the hub was closed while it was starting")

    async def _all_or_none(self, members: list[Member]) -> None:
        first = [member.begin() for member in members if not member.plan.disabled]
        if first:
            await asyncio.wait(first, return_when=asyncio.FIRST_EXCEPTION)
        self._young.difference_update(members)
        for outcome in first:
            error = outcome.exception() if outcome.done() else None
            if error is not None and not self.closed:
                await self.close()
                raise copy.copy(error) from error.__cause__

    async def listing(self, of: Member | None = None) -> None:
        """Before a list, of all or of one: who has never been started is, and who is still starting has its time."""
        self.begin()
        concerned = [member for member in self._young if of is None or member is of]
        for member in concerned:
            member.begin()
            if member is of:
                member.prioritize()
        await self.settled(concerned)
        if self.closed:
            raise ConnectionLost("the hub was closed")

    async def settled(self, members: Iterable[Member]) -> None:
        """Wait for first outcomes. Who takes too long goes on starting and is waited for no more."""
        waiting = {member: member.first for member in members if member in self._young and member.first is not None}
        late = {first for first in waiting.values() if not first.done()}
        while late:
            left = self._patience(waiting)
            if left is not None and left <= 0:
                break
            _, late = await asyncio.wait(late, timeout=left)
        if self._start_timeout:  # who does not want to wait knows
            self._warn_of([member for member in waiting if member.first in late and member in self._young])
        self._young.difference_update(waiting)

    def _warn_of(self, late: list[Member]) -> None:
        delayed = [member.name for member in late if member.waits_for_turn]
        for member in late:
            if member.name not in delayed:
                log.warning("%s: not started yet; the hub goes on without it until it is", member.name)
        if delayed:
            what = f"{len(delayed)} server{'s wait' if len(delayed) > 1 else ' waits'}"
            shown = ", ".join(delayed[:5]) + (", ..." if len(delayed) > 5 else "")
            log.warning("%s for a turn to start (max_parallel_starts=%s): %s", what, self._starts.limit, shown)

    def _patience(self, members: Iterable[Member]) -> float | None:
        """Seconds more that they have for their start; None: as long as they want."""
        if self._start_timeout is None:
            return None
        now = asyncio.get_running_loop().time()
        elapsed = now - max(member.began for member in members)
        if self._start_timeout != "auto":
            return self._start_timeout - elapsed
        # While nobody is well, it is not known what a long time is: looked at again and again.
        slowest = max((member.took for member in members if member.took is not None), default=elapsed)
        # A server that has not had its turn yet has all of its time before it.
        starting = now - max(now if member.waits_for_turn else member.turn_began or member.began for member in members)
        return min(max(START_GRACE, 3 * slowest) - starting, START_TIMEOUT - elapsed)

    # ---- lists and events ------------------------------------------------------------------------------------

    def _publish(self, member: Member, kind: str, lists: dict[str, list[Any]]) -> None:
        if self.members.get(member.name) is not member:
            return
        changed = [self.catalog.put(member.name, name, items) for name, items in lists.items()]
        if any(changed):
            self.listeners.emit(_TOLD_AS[kind](member.name))

    def judge_all(self) -> None:
        """The rules have changed, and with them what may be seen and called."""
        for member in dict.fromkeys(self.catalog.judge_all()):
            self.listeners.emit(ToolsChanged(member.name))

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
        for member in self.members.values():
            member.forward(bool(self.listeners.entries))

    def state_of(self, member: Member) -> ServerState:
        """How a member stands."""
        catalog, name = self.catalog, member.name
        return ServerState(
            name,
            member.plan.server,
            member.status,
            member.server_info,
            catalog.tools_of(name),
            tuple(catalog.resources(name)),
            tuple(catalog.resource_templates(name)),
            tuple(catalog.prompts_of(name)),
            member.last_error,
            member.plan.display_name,
            member.took,
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
        members = list(self.members.values())
        await asyncio.gather(*(member.close() for member in members))
        if self._leaving:
            await asyncio.wait(self._leaving.values())


async def _ended(member: Member, former: asyncio.Future[None] | None) -> None:
    """The end of a member, and of one of its name that had not ended before."""
    await member.close()
    if former is not None:
        await asyncio.wait([former])


def named(servers: Mapping[Any, Any]) -> list[tuple[str, str, Any]]:
    """Name, display name and server of each."""
    for name in servers:
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"{name!r} cannot be a server's name", key="servers", expected="names of servers")
    return [(name, display, servers[display]) for display, name in names.unique(servers).items()]


def new_name(display: str, members: Mapping[str, Member]) -> str:
    """The name for one server more; a name, or display name, that is there already is refused."""
    if display in members or any(member.plan.display_name == display for member in members.values()):
        raise _taken(display)
    ((name, _, _),) = named({display: None})
    return names.slug(name, members)


def _taken(name: str) -> ConfigError:
    message = f"there is a server {name!r} in this hub already; remove it first, or choose another name"
    return ConfigError(message, key="name", expected="a name that is not taken", server=name)
