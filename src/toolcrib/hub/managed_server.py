"""One server of a hub: fetches its lists, publishes them, and reports its state.

The client keeps the connection: its reconnect policy goes on trying until the server can be reached. One task of each
server fetches the lists: after each connection, when the server announces a change, and when a caller asks. Callers
wait for the outcome of that task; if a caller is cancelled, the task goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import time
from collections.abc import AsyncIterator, Callable, Iterable

from ..client.client import Client, Timeout
from ..client.options import checked_timeout
from ..config import as_singleton
from ..errors import AccessDenied, CallTimeout, ConnectionLost, ToolcribError
from ..events import ConnectionCompleted, ConnectionFailed, Disconnected, Event
from ..types import UNSET, ConnectionState, ConnectionStatus, ServerInfo
from .list_sync import Lists, ListSync, as_toolcrib_error, log_error
from .server_clients import ServerClients
from .server_options import ServerSpec
from .server_status import TOOLS, WAITING, StartPhase, StatusFacts, derive_status, find_last_error, show_error
from .start_queue import FirstStart, StartQueue

Publish = Callable[["ManagedServer", str, Lists], None]


class ManagedServer:
    """A server of a hub. `publish(server, kind, lists)` receives all lists of one kind together."""

    def __init__(
        self,
        spec: ServerSpec,
        publish: Publish,
        forward: Callable[[Event], None],
        predecessor: asyncio.Future[None] | None = None,
        starts: StartQueue | None = None,
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.listed = False
        """Whether the tools were listed at least once."""
        self.closed = False
        self.first_start: FirstStart | None = None
        """None before the start was requested."""
        self.server_info: ServerInfo | None = None
        """Name and version of the server, as of its last connection."""
        self.direct: Client | None = None
        """The client, while it is connected and calls need no lease of it."""
        self._predecessor = predecessor
        self._starts = StartQueue(None) if starts is None else starts
        self._urgent = False
        self._publish = publish
        self._forward = forward
        self._stop_forwarding: Callable[[], None] | None = None
        self._connect_error = spec.error
        self._lists = ListSync(spec.name, self._publish_lists, spec.settings.reconnect.max_delay)
        self._task: asyncio.Task[None] | None = None
        self._created_at = time.time()
        self.clients: ServerClients | None = None
        """None if the server is never tried: its settings are wrong, or disable it."""
        if spec.error is None and not spec.disabled:
            self.clients = self._make_clients()

    def _make_clients(self) -> ServerClients:
        spec = self.spec
        client = Client(as_singleton(spec.server), _start_gate=self._wait_to_connect, _keep_trying=True, **spec.options)
        client.on(ConnectionCompleted, self._on_connected)
        client.on(ConnectionFailed, self._on_connection_failed)
        client.on(Disconnected, self._on_disconnected)
        return ServerClients(
            client,
            make_transient=self._make_transient if spec.transient else None,
            max_transient=spec.settings.max_in_flight,
            disconnect_idle_after=spec.disconnect_idle_after,
        )

    def _make_transient(self) -> Client:
        client = Client(as_singleton(self.spec.server), **self.spec.options)
        if self._stop_forwarding is not None:
            client.on(Event, self._forward)
        return client

    # ---- state -----------------------------------------------------------------------------------------------

    @property
    def status(self) -> ConnectionStatus:
        """The status of its connection, corrected by what only the hub knows."""
        return derive_status(self._facts)

    @property
    def last_error(self) -> Exception | None:
        """Why the server does not work as it should; None if it does."""
        return find_last_error(self._facts, self.name)

    @property
    def _facts(self) -> StatusFacts:
        clients, connect_error, list_errors = self.clients, self._connect_error, self._lists.errors
        if clients is None:
            state = ConnectionState.DISABLED if self.spec.disabled else ConnectionState.FAILED
            reason = "disabled in its settings" if connect_error is None else show_error(connect_error)
            status = ConnectionStatus(state, reason, self._created_at)
            return StatusFacts(status, self._phase, self.listed, connect_error)
        return StatusFacts(
            clients.client.status, self._phase, self.listed, connect_error, list_errors, clients.transient, clients.idle
        )

    @property
    def _phase(self) -> StartPhase:
        if self.first_start is None:
            return StartPhase.NOT_REQUESTED
        if self.waits_for_turn:
            return StartPhase.WAITING
        return StartPhase.ENDED if self.first_start.outcome.done() else StartPhase.RUNNING

    def make_unusable_error(self) -> ToolcribError:
        """Return why the server has no client: its settings are wrong, or disable it."""
        if self.spec.error is not None:
            return copy.copy(self.spec.error)
        return AccessDenied("the server is disabled in its settings", server=self.name, rule="disabled")

    def set_forwarding(self, wanted: bool) -> None:
        """Forward the events of its clients, or stop that. Calls are faster if no listener takes their events."""
        if self.clients is not None and wanted and self._stop_forwarding is None:
            self._stop_forwarding = self.clients.client.on(Event, self._forward)
        elif not wanted and self._stop_forwarding is not None:
            self._stop_forwarding()
            self._stop_forwarding = None

    # ---- the client's events ---------------------------------------------------------------------------------

    def _on_connected(self, _: ConnectionCompleted) -> None:
        assert self.clients is not None
        client = self.clients.client
        self._connect_error = None
        self.server_info = client.server_info
        self.direct = None if self.clients.needs_lease or self.closed else client
        self._lists.mark_connected(self.clients.transient)

    def _on_connection_failed(self, event: ConnectionFailed) -> None:
        if isinstance(event.error, ToolcribError):
            log_error(self.name, show_error(event.error), event.error, self._connect_error)
            self._connect_error = event.error

    def _on_disconnected(self, _: Disconnected) -> None:
        self.direct = None

    @contextlib.asynccontextmanager
    async def _wait_to_connect(self) -> AsyncIterator[None]:
        """Delay an attempt to connect: until the server whose name this one took has ended, and, if the attempt starts
        a process, until the start queue grants a slot.
        """
        if self._predecessor is not None:
            await asyncio.wait([self._predecessor])
            self._predecessor = None
        starts_process = self.spec.starts_process
        async with self._starts.slot(self, urgent=self._urgent) if starts_process else contextlib.nullcontext():
            self._urgent = False
            if self.first_start is not None:
                self.first_start.begin_turn()
            yield

    # ---- callers ---------------------------------------------------------------------------------------------

    def start(self) -> FirstStart:
        """Start the server, once."""
        if self.first_start is None:
            self.first_start = FirstStart()
            if self.clients is None:
                self.first_start.end(self.make_unusable_error())
            else:
                task = self._keep_lists_current(self.clients, self.first_start)
                self._task = asyncio.create_task(task, name=f"toolcrib:hub:{self.name}")
        return self.first_start

    @property
    def pending_start(self) -> FirstStart | None:
        """The first start, until it has ended."""
        start = self.first_start
        return None if start is None or start.outcome.done() else start

    def resolve_timeout(self, given: Timeout) -> float | None:
        """Return how many seconds a request may take: as given with it, or as this server's settings say."""
        return self.spec.settings.execution_timeout if given is UNSET else checked_timeout("timeout", given)

    @property
    def waits_for_turn(self) -> bool:
        """Whether `max_parallel_starts` other servers are starting and this one is delayed."""
        return self._starts.is_waiting(self)

    def prioritize(self) -> None:
        """Connect before the servers that no caller waits for."""
        self._urgent = self.clients is not None and not self.clients.client.connected
        self._starts.prioritize(self)

    async def wait_for_turn(self, timeout: float | None) -> None:
        """Wait until the first start may begin; raise `CallTimeout` if `timeout` seconds pass before."""
        turn = self.start().turn
        self.prioritize()
        if not turn.done():
            await asyncio.wait([turn], timeout=timeout)
            if not turn.done():
                raise self._make_timeout()

    def _make_timeout(self) -> CallTimeout:
        doing = "being started"
        if self.waits_for_turn:
            doing = f"{WAITING} (max_parallel_starts={self._starts.limit})"
        return CallTimeout(f"the deadline passed while the server was {doing}; nothing was sent", server=self.name)

    async def wait_until_listed(self, timeout: float | None = None) -> None:
        """Wait for the tools. If the server is not connected, it is tried now; all callers share the attempt."""
        if not self.listed:
            self._check_usable()
            await self._wait_for_lists(self._lists.request_tools(), timeout)

    async def refresh(self) -> None:
        """Fetch all lists again; those that are published when this returns were requested after the call."""
        self._check_usable()
        await self._wait_for_lists(self._lists.request_all(), None)

    def mark_stale(self, kinds: Iterable[str]) -> None:
        """Fetch the lists of these kinds again: they may have changed."""
        self._lists.mark_stale(kinds)

    def _check_usable(self) -> None:
        if self.clients is None:
            raise self.make_unusable_error()
        if self.closed:
            raise self._make_removed_error()

    def _make_removed_error(self) -> ConnectionLost:
        return ConnectionLost("the server was removed", server=self.name)

    async def _wait_for_lists(self, fetched: asyncio.Future[None], timeout: float | None) -> None:
        self.start()
        self.prioritize()
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(fetched)
        except ToolcribError as exc:
            raise copy.copy(exc) from exc.__cause__
        except TimeoutError:
            raise self._make_timeout() from None

    # ---- lists -----------------------------------------------------------------------------------------------

    async def _keep_lists_current(self, clients: ServerClients, first_start: FirstStart) -> None:
        while True:
            first_start.end(await self._update_lists(clients))
            await self._lists.wait_until_stale()

    async def _update_lists(self, clients: ServerClients) -> ToolcribError | None:
        """Connect, if necessary, and fetch the lists that may have changed. Return why that was not possible."""
        try:
            async with clients.hold_client() as client:
                await client.connect()
                if not clients.transient:
                    self._lists.listen_for_changes(client)
                error = await self._lists.fetch_stale(client)
        except Exception as exc:  # noqa: BLE001  # any error concerns this server only
            error = as_toolcrib_error(exc, self.name)
            self._lists.end_waiting(error)
        if error is not None and not clients.client.connected:
            # The client goes on trying, as its policy says: only its next event, or the next caller, is a reason.
            self._lists.forget_reasons()
        return error

    def _publish_lists(self, kind: str, lists: Lists) -> None:
        if self.closed:
            return
        if kind == TOOLS:
            # Before they are published: the listeners then find the status `connected`.
            self.listed = True
            if self.first_start is not None:
                self.first_start.note_listed()
        self._publish(self, kind, lists)

    # ---- the end ---------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Disconnect for good: unanswered calls fail, and processes are terminated."""
        self.closed = True
        self.direct = None
        error = self._make_removed_error()
        if self._task is not None:
            self._task.cancel()
        if self.first_start is not None:
            self.first_start.end(error)
        self._lists.stop(error)
        if self.clients is not None:
            await self.clients.close()
        await self._lists.wait_until_stopped()
        if self._task is not None:
            await asyncio.wait([self._task])

    def __repr__(self) -> str:
        return f"<ManagedServer {self.name} {self.status}>"


def time_left(timeout: float | None, began: float) -> float | None:
    """Return what is left of `timeout` seconds since `began`, in monotonic time; never zero, None for no time-out."""
    return None if timeout is None else max(timeout - (time.monotonic() - began), 0.001)
