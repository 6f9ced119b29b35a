"""The lists of one server of a hub: fetched, and kept current."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from .._util.futures import outcome, settle
from .._util.tasks import TaskSet
from ..client.client import Client
from ..errors import AuthError, ConnectError, ToolcribError, UsageError
from ..protocol.sanitize import one_line
from .server_status import MAX_REASON, TOOLS, describe_error

log = logging.getLogger("toolcrib.hub")

REFRESH_PAUSE: Final = 0.1
"""Seconds between two fetches of lists that change all the time."""
MIN_RETRY_SECONDS: Final = 0.05
"""Seconds, at least, before a list that could not be fetched is fetched again."""

_FETCH: Final[dict[str, dict[str, Callable[..., Awaitable[list[Any]]]]]] = {
    TOOLS: {"tools": Client.list_tools},
    "resources": {"resources": Client.list_resources, "resource_templates": Client.list_resource_templates},
    "prompts": {"prompts": Client.list_prompts},
}
KINDS: Final = frozenset(_FETCH)
"""The kinds of lists whose changes a server announces."""

Lists = dict[str, list[Any]]


class ListSync:
    """Fetches the lists of one server: all at first, and again those that may have changed.

    `publish(kind, lists)` receives the lists of one kind together. Without its tools a server is of no use; any other
    list may be missing. What could not be fetched is fetched again after `retry_delay` seconds.
    """

    def __init__(self, server: str, publish: Callable[[str, Lists], None], retry_delay: float) -> None:
        self.errors: dict[str, ToolcribError] = {}
        """Why a list could not be fetched, by its name. It stays until the list is fetched."""
        self._server = server
        self._publish = publish
        self._retry_delay = max(retry_delay, MIN_RETRY_SECONDS)
        self._retry: asyncio.TimerHandle | None = None
        self._stale: set[str] = set(KINDS)
        self._wake = asyncio.Event()
        self._tools: asyncio.Future[None] | None = None
        self._refreshes: list[asyncio.Future[None]] = []
        self._fetched_at = 0.0
        self._tasks = TaskSet()
        self._is_listening = False

    # ---- reasons to fetch ------------------------------------------------------------------------------------

    def mark_stale(self, kinds: Iterable[str]) -> None:
        """Fetch the lists of these kinds again: they may have changed."""
        self._stale.update(kinds)
        self._wake.set()

    def mark_connected(self, transient: bool) -> None:
        """Fetch what is not known on the new connection.

        That is everything, unless the change listener is active: it reports after a reconnect that everything may have
        changed. A transient server is only connected to fetch what is stale.
        """
        self.mark_stale(() if self._is_listening or transient else KINDS)

    def forget_reasons(self) -> None:
        """Wait for a new reason to fetch."""
        self._wake.clear()

    def request_tools(self) -> asyncio.Future[None]:
        """Return a future that all callers share: done when the tools are published, or could not be fetched."""
        self._tools = self._tools or outcome()
        self._wake.set()
        return self._tools

    def request_all(self) -> asyncio.Future[None]:
        """Return a future: done when all lists that were requested after this call are published."""
        self._refreshes.append(outcome())
        self.mark_stale(KINDS)
        return self._refreshes[-1]

    @property
    def _is_awaited(self) -> bool:
        return self._tools is not None or bool(self._refreshes)

    async def wait_until_stale(self) -> None:
        """Wait for a reason to fetch. Lists that change all the time are not fetched all the time."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not self._is_awaited:
                await asyncio.sleep(max(0.0, self._fetched_at + REFRESH_PAUSE - asyncio.get_running_loop().time()))
            if self._stale or self._is_awaited:
                return

    def listen_for_changes(self, client: Client) -> None:
        """Mark as stale what the server announces as changed, from now on."""
        if not self._tasks:
            self._tasks.create(self._receive_changes(client))

    async def _receive_changes(self, client: Client) -> None:
        try:
            async with client.listen() as changes:
                self._is_listening = True
                async for change in changes:
                    if change.kind in KINDS:
                        self.mark_stale([change.kind])
        except (ToolcribError, UsageError) as exc:
            log.debug("%s: it announces no changes: %s", self._server, one_line(str(exc), MAX_REASON))
        finally:
            self._is_listening = False

    # ---- fetching --------------------------------------------------------------------------------------------

    async def fetch_stale(self, client: Client) -> ToolcribError | None:
        """Fetch the lists that may have changed, in parallel. Return why the tools could not be fetched, or None."""
        self._wake.clear()
        kinds, self._stale = self._stale, set()
        answered = len(self._refreshes)
        outcomes = await asyncio.gather(*(self._fetch_kind(client, kind) for kind in kinds), return_exceptions=True)
        self._fetched_at = asyncio.get_running_loop().time()
        fault = next(filter(None, outcomes), None)
        error = None if fault is None else as_toolcrib_error(fault, self._server)
        if error is None:
            finished, self._refreshes = self._refreshes[:answered], self._refreshes[answered:]
            settle(finished, self.errors.get(min(self.errors, default="")))
        else:
            self._stale |= kinds
            self._record_error(TOOLS, error)
            self.end_waiting(error)
        if self.errors:
            self._retry_later()
        return error

    async def _fetch_kind(self, client: Client, kind: str) -> None:
        lists = _FETCH[kind]
        outcomes = await asyncio.gather(
            *(each(client, use_cache=False) for each in lists.values()), return_exceptions=True
        )
        fetched: Lists = {}
        for name, result in zip(lists, outcomes, strict=True):
            if not isinstance(result, BaseException):
                fetched[name] = result
                self.errors.pop(name, None)
            elif kind == TOOLS or not isinstance(result, ToolcribError):
                raise result
            else:
                self._record_error(name, result)
        self._publish(kind, fetched)
        if kind == TOOLS:
            settle([self._tools], None)
            self._tools = None

    def _record_error(self, name: str, error: ToolcribError) -> None:
        error.server = error.server or self._server
        log_error(self._server, describe_error(name, error), error, self.errors.get(name))
        self.errors[name] = error

    def _retry_later(self) -> None:
        """Fetch again what is missing, after a while; not if the server rejects the credentials."""
        if self._retry is None and not isinstance(self.errors.get(TOOLS), AuthError):
            self._retry = asyncio.get_running_loop().call_later(self._retry_delay, self._retry_missing)

    def _retry_missing(self) -> None:
        self._retry = None
        self.mark_stale(kind for kind, lists in _FETCH.items() if not lists.keys().isdisjoint(self.errors))

    # ---- the end of waiting ----------------------------------------------------------------------------------

    def end_waiting(self, error: ToolcribError) -> None:
        """Raise `error` in all callers that wait for a list."""
        settle((*self._refreshes, self._tools), error)
        self._tools, self._refreshes = None, []

    def stop(self, error: ToolcribError) -> None:
        """Stop listening for changes, and raise `error` in all callers that wait for a list."""
        if self._retry is not None:
            self._retry.cancel()
        self._tasks.cancel()
        self.end_waiting(error)

    async def wait_until_stopped(self) -> None:
        """Wait until nothing of it runs, after `stop`."""
        await self._tasks.wait()


def as_toolcrib_error(exc: BaseException, server: str) -> ToolcribError:
    """Return the error, or a `ConnectError` for an exception that no server should cause."""
    if isinstance(exc, ToolcribError):
        return exc
    log.debug("%s: %r", server, exc, exc_info=exc)
    error = ConnectError(f"{type(exc).__name__}: {one_line(str(exc), MAX_REASON)}", server=server)
    error.__cause__ = exc
    return error


def log_error(server: str, text: str, error: ToolcribError, previous: ToolcribError | None) -> None:
    """Log an error. A server that is tried every half minute for a week logs the same one once."""
    repeated = previous is not None and previous.message == error.message
    log.log(logging.DEBUG if repeated else logging.WARNING, "%s: %s", server, text)
