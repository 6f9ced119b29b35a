"""One server of a hub: it is started, listed, heard of, tried again, let go.

One owner task does all of that. The connection itself is the client's business; the owner begins it, fetches the lists
once it is there and again whenever they may have changed, and tries a server that cannot be reached every `max_delay`.
Callers wait for the outcome of its attempts; who is cancelled hurts nobody.

Longer than 400 lines: the status, the start and the owner task of one server share its state.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from .._util.futures import outcome, settle
from ..client.client import Client, Timeout
from ..client.options import checked_timeout
from ..config import as_singleton
from ..errors import (
    AccessDenied,
    AuthError,
    CallTimeout,
    ConnectError,
    ConnectionLost,
    ToolcribError,
    UsageError,
)
from ..events import Event
from ..protocol.sanitize import one_line
from ..types import UNSET, ConnectionState, ConnectionStatus, ServerInfo
from .pool import Pool
from .server_lists import KINDS, fetch, kinds_of, lists_of
from .server_options import ServerSpec
from .start_queue import StartQueue

log = logging.getLogger("toolcrib.hub")

REFRESH_PAUSE: Final = 0.1
"""Seconds between two looks at lists that change all the time."""
SHORTEST_RETRY: Final = 0.05
MAX_REASON: Final = 2_000
"""Characters of an error that a status or a log line shows."""
WAITING: Final = "waiting for its turn to start"
"""Reason in the status of a server that `max_parallel_starts` delays."""

Publish = Callable[["ManagedServer", str, dict[str, list[Any]]], None]


class ManagedServer:
    """A server of a hub. `publish(server, kind, lists)` is told all lists of a kind that come, together."""

    def __init__(
        self,
        spec: ServerSpec,
        publish: Publish,
        forward: Callable[[Event], None],
        after: asyncio.Future[None] | None = None,
        starts: StartQueue | None = None,
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.listed = False
        """Whether the server's tools are known."""
        self.error: ToolcribError | None = spec.error
        """Why it could not be connected or listed; None since it could."""
        self.closed = False
        self.first: asyncio.Future[None] | None = None
        """The outcome of the first start; None before it began."""
        self.began = 0.0
        """When the first start was requested, in the loop's time."""
        self.turn: asyncio.Future[None] | None = None
        """Done when the first start may begin; None before it was requested."""
        self.turn_began: float | None = None
        """When that was, in the loop's time."""
        self.took: float | None = None
        """Seconds from `turn_began` until the tools were listed for the first time; None before."""
        self._after = after
        self._starts = StartQueue(None) if starts is None else starts
        self._urgent = False
        self._publish = publish
        self._forward = forward
        self._forwarding: list[Callable[[], None]] | None = None
        self.pool: Pool | None = None
        self.direct: Client | None = None
        """Set where a call needs nothing but this client; else it has a lease of one."""
        if spec.error is None and not spec.disabled:
            most = spec.settings.max_in_flight if spec.transient else None
            self.pool = Pool(
                self._make, transient=spec.transient, disconnect_idle_after=spec.disconnect_idle_after, most=most
            )
            self.direct = self.pool.direct
        self._made = time.time()
        self._owner: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None
        self._hears = False
        self._attempt: asyncio.Future[None] | None = None
        self._refreshes: list[asyncio.Future[None]] = []
        self._wake = asyncio.Event()
        self._stale: set[str] = set(KINDS)
        self._missing: dict[str, ToolcribError] = {}
        self._connected_since = 0.0
        self._last_info: ServerInfo | None = None

    def _make(self) -> Client:
        client = Client(as_singleton(self.spec.server), **self.spec.options)
        if self._forwarding is not None:
            client.on(Event, self._forward)
        return client

    # ---- what it is ------------------------------------------------------------------------------------------

    def unusable(self) -> ToolcribError:
        """Why there is no client: the server cannot or must not be tried."""
        if self.spec.error is not None:
            return copy.copy(self.spec.error)
        return AccessDenied("the server is disabled in its settings", server=self.name, rule="disabled")

    @property
    def status(self) -> ConnectionStatus:
        """How it stands: as its connection does, but for what a connection cannot know."""
        if self.pool is None:
            state = ConnectionState.DISABLED if self.spec.disabled else ConnectionState.FAILED
            reason = "disabled in its settings" if self.error is None else _shown(self.error)
            return ConnectionStatus(state, reason, self._made)
        status = self.pool.client.status
        if status.state is ConnectionState.CONNECTED and self.error is not None:
            return ConnectionStatus(
                ConnectionState.DEGRADED, f"its lists could not be had: {_shown(self.error)}", status.since
            )
        if status.state is ConnectionState.CONNECTED and not self.listed:
            return ConnectionStatus(ConnectionState.CONNECTING, "its tools are being listed", status.since)
        if status.state is ConnectionState.CONNECTED and self._missing:
            name = min(self._missing)  # of several always the same one
            return ConnectionStatus(ConnectionState.DEGRADED, _unlisted(name, self._missing[name]), status.since)
        if status.state is ConnectionState.DISCONNECTED and not status.reason:
            if self.first is not None and not self.first.done():
                reason = WAITING if self.waits_for_turn else "being started"
                return ConnectionStatus(ConnectionState.CONNECTING, reason, status.since)
            if self.pool.transient and self.error is not None:
                return ConnectionStatus(ConnectionState.FAILED, _shown(self.error), status.since)
            return ConnectionStatus(ConnectionState.DISCONNECTED, self._why_not_connected(self.pool), status.since)
        if not status.reason.isprintable():
            return ConnectionStatus(status.state, one_line(status.reason, MAX_REASON), status.since)
        return status

    def _why_not_connected(self, pool: Pool) -> str:
        if self.first is None:
            return "not started yet"
        if pool.transient:
            return "transient: connected for each call"
        return "idle" if pool.resting else ""

    @property
    def last_error(self) -> Exception | None:
        """Why it is not well."""
        if self.error is not None or self.pool is None:
            return self.error
        status = self.pool.client.status
        if status.state is ConnectionState.CONNECTED or not status.reason:
            return self._missing.get(min(self._missing, default=""))
        return ConnectionLost(one_line(status.reason, MAX_REASON), server=self.name)

    @property
    def server_info(self) -> ServerInfo | None:
        """Name and version of the server; those of its last connection while there is none."""
        live = self.pool.client.server_info if self.pool is not None else None
        return live or self._last_info

    def forward(self, wanted: bool) -> None:
        """Whether the events of its clients are to be passed on. Clients that nobody listens to are faster."""
        if wanted and self._forwarding is None:
            self._forwarding = [self.pool.client.on(Event, self._forward)] if self.pool is not None else []
        elif not wanted and self._forwarding is not None:
            for stop in self._forwarding:
                stop()
            self._forwarding = None

    # ---- starting --------------------------------------------------------------------------------------------

    def begin(self) -> asyncio.Future[None]:
        """Start it, once; the outcome of the first try."""
        if self.first is None:
            loop = asyncio.get_running_loop()
            self.first, self.began, self._wake = outcome(), loop.time(), asyncio.Event()
            self.turn = outcome()
            if self.pool is None:
                settle([self.turn], None)
                self.first.set_exception(self.unusable())
            else:
                self._owner = asyncio.create_task(self._own(), name=f"toolcrib:hub:{self.name}")
        return self.first

    def timeout_of(self, given: Timeout) -> float | None:
        """Return how many seconds a request may take: as given with it, or as this server's settings say."""
        return self.spec.settings.execution_timeout if given is UNSET else checked_timeout("timeout", given)

    @property
    def waits_for_turn(self) -> bool:
        """Whether `max_parallel_starts` other servers are starting and this one is delayed."""
        return self._starts.is_waiting(self)

    def prioritize(self) -> None:
        """Start before the servers that no caller waits for."""
        self._urgent = True
        self._starts.prioritize(self)

    async def wait_for_turn(self, timeout: float | None) -> None:
        """Wait until the first start may begin; raise `CallTimeout` if `timeout` seconds pass before."""
        self.begin()
        assert self.turn is not None
        if not self.turn.done():
            self.prioritize()
            await asyncio.wait([self.turn], timeout=timeout)
            if not self.turn.done():
                raise self._too_late()

    def _too_late(self) -> CallTimeout:
        doing = "being started"
        if self.waits_for_turn:
            doing = f"{WAITING} (max_parallel_starts={self._starts.limit})"
        return CallTimeout(f"the deadline passed while the server was {doing}; nothing was sent", server=self.name)

    async def known(self, timeout: float | None = None) -> None:
        """Have the server's tools listed. All who wait share one attempt, which is made now, whatever the back-off."""
        if not self.listed:
            self._check()
            self.prioritize()
            self._attempt = self._attempt or outcome()
            await self._attempted(self._attempt, timeout)

    async def refresh(self) -> None:
        """Fetch all lists again, now: those that come are no older than this request."""
        self._check()
        self.prioritize()
        self._stale.update(KINDS)
        self._refreshes.append(outcome())
        await self._attempted(self._refreshes[-1], None)

    def _check(self) -> None:
        if self.pool is None:
            raise self.unusable()
        if self.closed:
            raise self._gone()

    async def _attempted(self, attempt: asyncio.Future[None], timeout: float | None) -> None:
        self.begin()
        self._wake.set()
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(attempt)
        except ToolcribError as exc:
            raise copy.copy(exc) from exc.__cause__
        except TimeoutError:
            raise self._too_late() from None

    def stale(self, kinds: Iterable[str]) -> None:
        """These lists may have changed."""
        self._stale.update(kinds)
        self._wake.set()

    # ---- the owner -------------------------------------------------------------------------------------------

    async def _own(self) -> None:
        assert self.pool is not None
        try:
            if self._after is not None:
                await asyncio.wait([self._after])
            while True:
                self._wake.clear()
                try:
                    await self._load(self.pool)
                except Exception as exc:  # noqa: BLE001  # whatever it is, it is this server's trouble, and nobody else's
                    self._failed(exc if isinstance(exc, ToolcribError) else _foreign(exc, self.name))
                    await self._pause(self.pool)
                else:
                    await self._rest(self.pool)
        finally:
            self._end_waiting(self._gone())

    async def _load(self, pool: Pool) -> None:
        """Connect, and fetch what is stale."""
        kinds, self._stale = self._stale, set()
        refreshes, self._refreshes = self._refreshes, []
        try:
            async with pool.standing() as client:
                await self._connect(client)
                if not pool.transient:
                    self._listen(client)
                self._connected_since = client.status.since
                self._last_info = client.server_info
                await self._fetch(client, kinds)
        except BaseException:
            self._stale |= kinds
            self._refreshes += refreshes
            raise
        self._well()
        settle([self.first], None)
        settle(refreshes, self._missing.get(min(self._missing, default="")))

    async def _connect(self, client: Client) -> None:
        """Connect; a server that starts a process waits for its turn first."""
        if self.spec.starts_process and not client.connected:
            async with self._starts.slot(self, urgent=self._urgent):
                self._begin_turn()
                await client.connect()
        else:
            self._begin_turn()
            await client.connect()

    def _begin_turn(self) -> None:
        self._urgent = False
        if self.turn_began is None:
            self.turn_began = asyncio.get_running_loop().time()
        settle([self.turn], None)

    async def _fetch(self, client: Client, kinds: set[str]) -> None:
        """The lists of these kinds, side by side. Without its tools a server is no use; the others may be missing."""
        faults = await asyncio.gather(*(self._fetch_kind(client, kind) for kind in kinds), return_exceptions=True)
        for fault in filter(None, faults):
            raise fault

    async def _fetch_kind(self, client: Client, kind: str) -> None:
        come, missing = await fetch(client, kind)
        known = {name: self._missing.pop(name, None) for name in lists_of(kind)}
        self._missing |= missing
        for name, error in missing.items():
            self._log(error.message == getattr(known[name], "message", None), _unlisted(name, error))
        if self.closed:
            return
        if kind == "tools":
            self._well()
        self._publish(self, kind, come)
        if kind == "tools":
            settle([self._attempt], None)
            self._attempt = None

    def _well(self) -> None:
        """It answers and its tools are here. Told before they are, so that who hears of them finds it so."""
        if self.error is not None:
            log.info("%s: well again", self.name)
        if self.took is None:
            self.took = asyncio.get_running_loop().time() - (self.turn_began or self.began)
        self.error, self.listed = None, True

    def _failed(self, error: ToolcribError) -> None:
        error.server = error.server or self.name
        known, self.error = self.error, error
        # A server that is tried every half minute for a week tells its one trouble once.
        self._log(known is not None and known.message == error.message, _shown(error))
        self._end_waiting(error)

    def _log(self, again: bool, text: str) -> None:
        log.log(logging.DEBUG if again else logging.WARNING, "%s: %s", self.name, text)

    def _end_waiting(self, error: ToolcribError) -> None:
        """Whoever waits for an attempt learns that it failed."""
        settle((*self._refreshes, self._attempt, self.first), error)
        settle([self.turn], None)  # there is nothing more to wait for
        self._attempt, self._refreshes = None, []

    async def _pause(self, pool: Pool) -> None:
        """Wait for the next try: `max_delay`, or until somebody wants the server, or it is heard of.

        Who has to authorise us is not asked again and again for what nobody waits for.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if isinstance(self.error, AuthError) else self._retry_delay):
                while not self._wanted:
                    self._wake.clear()
                    await self._wake.wait()
                    if pool.client.connected and not self._wanted:
                        await asyncio.sleep(REFRESH_PAUSE)
                        return

    @property
    def _wanted(self) -> bool:
        """Whether somebody waits for the next attempt."""
        return self._attempt is not None or bool(self._refreshes)

    @property
    def _retry_delay(self) -> float:
        return max(self.spec.settings.reconnect.max_delay, SHORTEST_RETRY)

    async def _rest(self, pool: Pool) -> None:
        """Until there is something to do: a list changed, somebody asks, or the client has given up reconnecting."""
        clock = asyncio.get_running_loop().time
        loaded = clock()
        while not self._stale:
            self._wake.clear()
            try:
                async with asyncio.timeout(self._retry_delay):
                    await self._wake.wait()
            except TimeoutError:
                self._stale |= kinds_of(self._missing)
            if not pool.transient and not pool.resting and self._is_lost(pool.client.status):
                self._stale.update(KINDS)
        if not self._wanted:
            await asyncio.sleep(max(0.0, loaded + REFRESH_PAUSE - clock()))

    def _is_lost(self, status: ConnectionStatus) -> bool:
        """Given up by the client; or made again, which a server that tells of no changes does not tell either."""
        if status.state is ConnectionState.CONNECTED:
            return not self._hears and status.since != self._connected_since
        return status.state is ConnectionState.FAILED or _broke(status)

    def _gone(self) -> ConnectionLost:
        return ConnectionLost("the server was removed", server=self.name)

    # ---- hearing of changes ----------------------------------------------------------------------------------

    def _listen(self, client: Client) -> None:
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._hear(client))

    async def _hear(self, client: Client) -> None:
        """Note every change that the server tells. After a reconnect everything may have changed, and is told so."""
        try:
            async with client.listen() as changes:
                self._hears = True
                async for change in changes:
                    self.stale([change.kind] if change.kind in KINDS else [])
        except (ToolcribError, UsageError) as exc:
            log.debug("%s: it tells of no changes: %s", self.name, one_line(str(exc), MAX_REASON))
        finally:
            self._hears = False

    # ---- the end ---------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Let go of the server for good; its calls under way fail, its processes are ended."""
        self.closed = True
        self.direct = None
        tasks = [task for task in (self._owner, self._listener) if task is not None]
        for task in tasks:
            task.cancel()
        self._end_waiting(self._gone())
        if self.pool is not None:
            await self.pool.close()
        if tasks:
            await asyncio.wait(tasks)

    def __repr__(self) -> str:
        return f"<ManagedServer {self.name} {self.status}>"


def time_left(timeout: float | None, began: float) -> float | None:
    """Return what is left of `timeout` seconds since `began`, in monotonic time; never zero, None for no time-out."""
    return None if timeout is None else max(timeout - (time.monotonic() - began), 0.001)


def _foreign(exc: Exception, server: str) -> ToolcribError:
    log.debug("%s: %r", server, exc, exc_info=exc)
    error = ConnectError(f"{type(exc).__name__}: {one_line(str(exc), MAX_REASON)}", server=server)
    error.__cause__ = exc
    return error


def _unlisted(name: str, error: ToolcribError) -> str:
    return f"its {name.replace('_', ' ')} could not be listed: {_shown(error)}"


def _shown(error: ToolcribError) -> str:
    """Return an error's message for a log line or a status; a server may have written part of it."""
    return one_line(error.message, MAX_REASON)


def _broke(status: ConnectionStatus) -> bool:
    """Gone by itself: who was let go by us has no reason in its status."""
    return status.state is ConnectionState.DISCONNECTED and bool(status.reason)
