"""The health of sources: their status now, and the history of their transitions, starts and exits."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..client.client import Client
from ..errors import AuthError, RateLimited, RemoteError, StartError, ToolcribError
from ..events import ConnectionCompleted, ConnectionFailed, Disconnected
from ..protocol.sanitize import one_line
from ..types import ConnectionState, ConnectionStatus
from .store.rows import EventRow, make_id

HISTORY_ENTRIES: Final = 200
"""Entries of a source's history that are kept."""
MAX_REASON: Final = 500
"""Characters of an error in the status and in the history."""
MAX_STDERR: Final = 2_000
"""Characters of the end of a process's stderr in the history."""

IDLE_REASON: Final = "idle; a call connects it"

STATUS: Final = "status"
START: Final = "start"
EXIT: Final = "exit"
STOP: Final = "stop"
FAILURE: Final = "failure"
INVENTORY: Final = "inventory"
PACKAGE: Final = "package"


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """Something that happened to a source.

    `kind` is `status` (a transition), `start` (a connection was made), `exit` (it was lost; with the exit code and the
    end of stderr of a process), `stop` (it was closed on request), `failure` (it could not be made), `inventory` (tools
    were added, removed or changed), or `package` (the source runs another package or version).
    """

    at: float
    kind: str
    data: Mapping[str, Any]


class SourceHealth:
    """The status and the history of one source.

    `record` receives each new entry, to store it, and `withdraw` takes those of a source back that are not stored yet.
    Entries of a source that is not stored itself are held back.
    """

    def __init__(
        self,
        source_id: str,
        status: ConnectionStatus,
        history: Iterable[HistoryEntry] = (),
        *,
        record: Callable[[EventRow], None],
        withdraw: Callable[[str], list[EventRow]],
        is_stored: bool = True,
    ) -> None:
        self._source_id = source_id
        self._status = status
        self._record = record
        self._withdraw = withdraw
        self._held: list[EventRow] | None = None if is_stored else []
        """Entries that were not recorded because the source is not stored; None if it is."""
        self._disabled = status.state is ConnectionState.DISABLED
        self._live: set[Client] = set()
        self.history: deque[HistoryEntry] = deque(history, HISTORY_ENTRIES)
        """The last entries, oldest first."""

    @property
    def status(self) -> ConnectionStatus:
        """The status: that of its best connection, or what the last attempt led to."""
        if self._status.state is ConnectionState.CONNECTED and self._live:
            states = {client.status.state for client in self._live}
            if ConnectionState.CONNECTED not in states and ConnectionState.DEGRADED in states:
                return next(c.status for c in self._live if c.status.state is ConnectionState.DEGRADED)
        return self._status

    def watch(self, client: Client, principal: str | None, *, transient: bool, keeps_connections: bool) -> None:
        """Follow a connection; `principal` is its owner, None if it is shared.

        Of transient connections, only failures enter the history. A source that keeps no connections counts as
        connected after a transient one ended well; others are connected only while they have a connection.
        """
        owner = {} if principal is None else {"principal": principal}

        def on_connected(event: ConnectionCompleted) -> None:
            self._live.add(client)
            if not transient:
                data = {"seconds": round(event.duration, 3), "protocol_version": event.protocol_version}
                self.add(START, {**data, **owner})
            self.become(ConnectionState.CONNECTED)

        def on_failed(event: ConnectionFailed) -> None:
            error = event.error
            self.add(FAILURE, {**_describe(error), **owner})
            state = ConnectionState.NEEDS_AUTH if isinstance(error, AuthError) else ConnectionState.FAILED
            if not self._live:
                self.become(state, one_line(str(error), MAX_REASON))

        def on_disconnected(event: Disconnected) -> None:
            self._live.discard(client)
            if event.error is not None:
                self.add(EXIT, {**_describe(event.error), **owner})
            elif not transient:
                self.add(STOP, {"reason": event.reason, **owner})
            # The end of an old connection says nothing about a source that failed since, or was disabled.
            if not self._live and self._status.state in (ConnectionState.CONNECTED, ConnectionState.DEGRADED):
                reason = one_line(event.reason, MAX_REASON) if event.error is not None else IDLE_REASON
                stays = transient and not keeps_connections
                self.become(ConnectionState.CONNECTED if stays else ConnectionState.DISCONNECTED, reason)

        client.on(ConnectionCompleted, on_connected)
        client.on(ConnectionFailed, on_failed)
        client.on(Disconnected, on_disconnected)

    def note_check(self, error: ToolcribError | None) -> None:
        """Note the outcome of a health check: None if the server answered. An error answer is a sign of life too."""
        state = self._status.state
        if error is None or isinstance(error, RemoteError | RateLimited):
            if state in (ConnectionState.DEGRADED, ConnectionState.NEEDS_AUTH) and self._live:
                self.become(ConnectionState.CONNECTED)
        elif state is ConnectionState.CONNECTED:
            state = ConnectionState.NEEDS_AUTH if isinstance(error, AuthError) else ConnectionState.DEGRADED
            self.become(state, one_line(str(error), MAX_REASON))

    def disable(self) -> None:
        """Note that the source was disabled: its status stays so until `enable` is called."""
        self.become(ConnectionState.DISABLED, "disabled by an operator")
        self._disabled = True

    def enable(self) -> None:
        """Note that the source was enabled again."""
        self._disabled = False
        self.become(ConnectionState.DISCONNECTED, IDLE_REASON)

    def become(self, state: ConnectionState, reason: str = "") -> None:
        """Change the status, and enter the transition into the history."""
        before = self._status
        if self._disabled:
            return
        if before.state is state and (before.reason == reason or state is ConnectionState.CONNECTED):
            return
        self._status = ConnectionStatus(state, reason, time.time())
        if before.state is not state:
            self.add(STATUS, {"from": before.state.value, "to": state.value, "reason": reason})

    def add(self, kind: str, data: Mapping[str, Any]) -> None:
        """Enter something into the history."""
        at = time.time()
        self.history.append(HistoryEntry(at, kind, data))
        row = EventRow(id=make_id(), at=at, source_id=self._source_id, kind=kind, data=data)
        if self._held is None:
            self._record(row)
        else:
            self._held.append(row)

    def start_recording(self) -> None:
        """Record the entries that were held back, and all later ones: the source was stored."""
        held, self._held = self._held or [], None
        for row in held:
            self._record(row)

    def stop_recording(self) -> None:
        """Hold back new entries, and those that are not stored yet: the source is about to be removed."""
        if self._held is None:
            self._held = self._withdraw(self._source_id)


class HealthTable:
    """The health of all sources, by id. For `record` and `withdraw` see `SourceHealth`."""

    def __init__(
        self, record: Callable[[EventRow], None], withdraw: Callable[[str], list[EventRow]] = lambda _: []
    ) -> None:
        self._record = record
        self._withdraw = withdraw
        self._sources: dict[str, SourceHealth] = {}

    def add(
        self,
        source_id: str,
        status: ConnectionStatus,
        history: Iterable[HistoryEntry] = (),
        *,
        is_stored: bool = True,
    ) -> None:
        """Follow a source, from this status and history on."""
        self._sources[source_id] = SourceHealth(
            source_id, status, history, record=self._record, withdraw=self._withdraw, is_stored=is_stored
        )

    def of(self, source_id: str) -> SourceHealth:
        """Return the health of a source."""
        return self._sources[source_id]

    def remove(self, source_id: str) -> None:
        """Forget a source that was removed."""
        self._sources.pop(source_id, None)


def _describe(error: Exception | None) -> dict[str, Any]:
    data: dict[str, Any] = {"error": type(error).__name__, "reason": one_line(str(error), MAX_REASON)}
    if isinstance(error, StartError):
        data["exit_code"] = error.exit_code
    if stderr := getattr(error, "stderr", ""):
        data["stderr"] = stderr[-MAX_STDERR:]
    return data
