"""A connection to the upstream of a bridge, which also passes its requests, log messages and progress to the client.

A request of the upstream does not always say which client request it belongs to. Over HTTP, and in the modern era, it
arrives in the task of that request; over a stream it may belong to any running request. All of those come from the same
client, but a modern client answers as part of one request: so its requests take turns, and the answer to one is held
back until the requests of the upstream that were sent with it are answered. A request of the upstream that arrives
while no request is running is sent with the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

from .._util.futures import retrieve
from ..client.client import Client
from ..client.subscriptions import Changes
from ..config import HttpServer, ServerConfig, as_singleton
from ..errors import RemoteError
from ..protocol.jsonrpc import INTERNAL_ERROR
from ..protocol.metadata import LOG_LEVELS, PROGRESS_TOKEN
from ..protocol.versions import MAY_ASK_FOR_INPUT, MODERN_VERSIONS
from ..server.changes import LISTS, UPDATED, accepted
from ..server.handler import Deliver, Peer, RequestContext
from ..types import UNSET, Change, ElicitRequest, LogMessage, SamplingRequest, ServerInfo, Wire
from .features import Features

CONNECT_TIMEOUT: Final = 30.0
"""Seconds that a request of the upstream waits for a client request to which it can belong."""
_CURRENT: ContextVar[RequestContext] = ContextVar("exchange")


Ask = Callable[[RequestContext, str, Wire], Awaitable[Wire]]
"""Sends a request of the server (method, params) to the client of a running request, and returns the answer."""


class Upstream:
    """One connection, for clients with the same features.

    `owner` is the session that it belongs to, if it is not shared. `ask` forwards the upstream's requests to a client.
    """

    def __init__(
        self, config: ServerConfig, features: Features, owner: Peer | None, ask: Ask, options: Mapping[str, Any]
    ) -> None:
        self.features = features
        self.owner = owner
        self.held_up: asyncio.Task[None] | None = None
        """The closing of another connection, which must end before this one is made."""
        self.followed: dict[Following, None] = {}
        self._ask_client = ask
        self._over_http = isinstance(config, HttpServer)
        self._live: dict[RequestContext, set[asyncio.Future[None]]] = {}
        """The running requests, each with what must end before it is answered."""
        self._unassigned: dict[asyncio.Future[None], asyncio.Future[RequestContext]] = {}
        """The requests of the upstream that wait for a running request, by the future that is done at their end."""
        self._turn = asyncio.Lock()
        self._info: ServerInfo | None = None
        handlers: dict[str, Any] = {}
        if features.elicitation:
            handlers |= {"elicitation_handler": self._elicit, "elicitation_modes": features.elicitation}
        if features.sampling:
            handlers["sampling_handler"] = self._sample
        if features.roots:
            handlers["roots"] = self._roots
        if config.execution_timeout is UNSET:
            handlers["execution_timeout"] = None  # the clients in front limit their own calls
        self.client = Client(as_singleton(config), log_handler=self._log, log_level="debug", **{**handlers, **options})

    @property
    def connected(self) -> bool:
        """Whether it is connected now."""
        return self.client.connected

    @property
    def server_info(self) -> ServerInfo | None:
        """The server's information from the last connection; None before the first one."""
        self._info = self.client.server_info or self._info
        return self._info

    @property
    def _modern(self) -> bool:
        info = self.server_info
        return info is not None and info.protocol_version in MODERN_VERSIONS

    async def wait_until_free(self) -> None:
        """Wait for the end of the connection that this one replaces, if any."""
        if self.held_up is not None:
            await asyncio.shield(self.held_up)

    async def mirrors(self) -> bool:
        """Connect, and return whether calls repeat arguments in headers."""
        await self.client.connect()
        return self._over_http and self._modern

    # ---- requests --------------------------------------------------------------------------------------------

    async def request(
        self, method: str, params: Wire, context: RequestContext, headers: Mapping[str, str] | None = None
    ) -> Wire:
        """Forward a request, and pass its progress and log messages back."""
        if context.peer.modern and method not in MAY_ASK_FOR_INPUT:  # it has no progress, log messages or requests
            return await self.client.request(method, params)
        async with self._running(context):
            on_progress = self._progress_of(context) if PROGRESS_TOKEN in context.meta else None
            return await self.client.request(method, params, on_progress=on_progress, headers=headers)

    @contextlib.asynccontextmanager
    async def _running(self, context: RequestContext) -> AsyncIterator[None]:
        await self.client.connect()
        in_turn = context.peer.modern and any(self.features) and not self._modern and not self._over_http
        async with self._turn if in_turn else contextlib.nullcontext():
            self._live[context] = set()
            self._assign_waiting(context)
            mark = _CURRENT.set(context)
            try:
                try:
                    yield
                except Exception:
                    await self._finish(context)
                    raise
                await self._finish(context)
            finally:
                _CURRENT.reset(mark)
                del self._live[context]

    async def _finish(self, context: RequestContext) -> None:
        """Wait for what cannot be sent to the client after the answer."""
        while pending := self._live[context]:
            await asyncio.wait(pending)

    def _hold_back(self, context: RequestContext, until: asyncio.Future[None]) -> None:
        """Answer a running request only after `until`."""
        pending = self._live[context]
        pending.add(until)
        until.add_done_callback(pending.discard)
        until.add_done_callback(retrieve)

    def _progress_of(self, context: RequestContext) -> Any:
        async def notify(progress: float, total: float | None, message: str | None) -> None:
            token = context.meta.get(PROGRESS_TOKEN)  # a suspended request is sent again with another token
            fields = {PROGRESS_TOKEN: token, "progress": progress, "total": total, "message": message}
            if token is not None:
                params = {key: value for key, value in fields.items() if value is not None}
                await context.back_channel.notify("notifications/progress", params)

        return notify

    def _newest(self) -> RequestContext | None:
        mine = _CURRENT.get(None)
        return mine if mine in self._live else next(reversed(self._live), None)

    # ---- requests of the upstream ----------------------------------------------------------------------------

    async def _ask(self, method: str, params: Wire) -> Wire:
        """Find the running request that a request of the upstream belongs to, and forward it to that client."""
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            context = self._newest()
            if context is None:
                context = await self._wait_for_request(method, answered)
            else:
                self._assign(context, answered)
            return await self._ask_client(context, method, params)
        finally:
            answered.set_result(None)

    async def _wait_for_request(self, method: str, answered: asyncio.Future[None]) -> RequestContext:
        assigned: asyncio.Future[RequestContext] = asyncio.get_running_loop().create_future()
        self._unassigned[answered] = assigned
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                return await assigned
        except TimeoutError:
            raise RemoteError(INTERNAL_ERROR, f"{method}: no client is connected that could answer") from None
        finally:
            self._unassigned.pop(answered, None)

    def _assign_waiting(self, context: RequestContext) -> None:
        for answered, assigned in self._unassigned.items():
            if not assigned.done():
                self._assign(context, answered)
                assigned.set_result(context)
        self._unassigned.clear()

    def _assign(self, context: RequestContext, answered: asyncio.Future[None]) -> None:
        """Send a request of the upstream with this request. Only a legacy client can be asked later, too."""
        if context.peer.modern:
            self._hold_back(context, answered)

    async def _elicit(self, asked: ElicitRequest) -> Wire:
        return await self._ask("elicitation/create", asked.raw)

    async def _sample(self, asked: SamplingRequest) -> Wire:
        return await self._ask("sampling/createMessage", asked.raw)

    async def _roots(self) -> list[Wire]:
        roots = (await self._ask("roots/list", {})).get("roots")
        return roots if isinstance(roots, list) else []

    # ---- notifications of the upstream -----------------------------------------------------------------------

    def _log(self, message: LogMessage) -> None:
        fields = {"level": message.level, "logger": message.logger, "data": message.data}
        params = {key: value for key, value in fields.items() if key == "data" or value is not None}
        context = self._newest()
        if context is None:
            for following in self.followed:
                following.log(message.level, params)
        elif _wants(context.peer, message.level):
            sent = asyncio.create_task(context.back_channel.notify("notifications/message", params))
            self._hold_back(context, sent)

    async def follow(self, wanted: Wire, peer: Peer, deliver: Deliver) -> Following:
        """Subscribe to the upstream's changes, and pass them to `deliver`."""
        await self.client.connect()
        following = Following(self, peer, deliver)
        try:
            await following.open(accepted(wanted))
        except BaseException:
            await following.close()
            raise
        return following


def _wants(peer: Peer, level: str) -> bool:
    if peer.log_level is None or level not in LOG_LEVELS:
        return False
    return LOG_LEVELS.index(level) >= LOG_LEVELS.index(peer.log_level)


class Following:
    """A subscription to the upstream's changes; it survives reconnects."""

    def __init__(self, upstream: Upstream, peer: Peer, deliver: Deliver) -> None:
        self.accepted: Wire = {}
        self._upstream = upstream
        self._peer = peer
        self._deliver = deliver
        self._stack = contextlib.AsyncExitStack()

    async def open(self, wanted: Wire) -> None:
        """Subscribe to the wanted changes; `accepted` has those that the upstream offers and does not reject."""
        client, info = self._upstream.client, self._upstream.server_info
        declared = info.capabilities if info is not None else {}
        kinds = [flag.removesuffix("ListChanged") for flag in LISTS if flag in wanted]
        offered = [kind for kind in kinds if (declared.get(kind) or {}).get("listChanged") is True]
        if offered:
            await self._start(client.listen(**{kind: kind in offered for kind in ("tools", "prompts", "resources")}))
        self.accepted = {f"{kind}ListChanged": True for kind in offered}
        if "resourceSubscriptions" in wanted:
            uris = self.accepted["resourceSubscriptions"] = []
            for uri in wanted["resourceSubscriptions"]:
                with contextlib.suppress(RemoteError):
                    await self._start(client.listen(uri, tools=False, prompts=False, resources=False))
                    uris.append(uri)
        self._upstream.followed[self] = None

    async def _start(self, changes: Changes) -> None:
        await self._stack.enter_async_context(changes)
        pump = asyncio.create_task(self._forward(changes))
        self._stack.callback(pump.cancel)

    async def _forward(self, changes: Changes) -> None:
        async for change in changes:
            self._notify(change)

    def _notify(self, change: Change) -> None:
        if change.kind == "resource":
            self._deliver(UPDATED, {"uri": change.uri})
        else:
            self._deliver(LISTS[f"{change.kind}ListChanged"], {})

    def log(self, level: str, params: Wire) -> None:
        """Pass on a log message that belongs to no request; only legacy sessions can receive one."""
        if not self._peer.modern and "resourceSubscriptions" not in self.accepted and _wants(self._peer, level):
            self._deliver("notifications/message", params)

    async def close(self) -> None:
        """Unsubscribe."""
        self._upstream.followed.pop(self, None)
        await self._stack.aclose()
