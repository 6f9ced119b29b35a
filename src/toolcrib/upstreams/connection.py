"""A connection to the upstream of a bridge, which also passes its requests, log messages and progress to the client.

A request of the upstream does not always say which client request it belongs to. Over HTTP, and in the modern era, it
arrives in the task of that request; over a stream it may belong to any running request. All of those come from the same
client, but a modern client answers as part of one request: so its requests take turns.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

from ..client.client import Client
from ..client.subscriptions import Changes
from ..config import HttpServer, ServerConfig, as_singleton
from ..errors import RemoteError
from ..protocol.jsonrpc import INTERNAL_ERROR
from ..protocol.metadata import LOG_LEVELS, PROGRESS_TOKEN
from ..protocol.versions import MAY_ASK_FOR_INPUT, MODERN_VERSIONS
from ..server.changes import LISTS, UPDATED, accepted
from ..server.handler import Deliver, Peer, RequestContext
from ..server.serving.sessions import IDLE_TTL
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
        self._live: dict[RequestContext, set[asyncio.Task[None]]] = {}
        self._is_live = asyncio.Event()
        self._turn = asyncio.Lock()
        self._used = asyncio.get_running_loop().time()
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
    def server_info(self) -> ServerInfo | None:
        """The server's information from the last connection; None before the first one."""
        self._info = self.client.server_info or self._info
        return self._info

    @property
    def _modern(self) -> bool:
        info = self.server_info
        return info is not None and info.protocol_version in MODERN_VERSIONS

    @property
    def abandoned(self) -> bool:
        """Whether its session has been silent for so long that it must have ended."""
        silent = asyncio.get_running_loop().time() - self._used > IDLE_TTL
        return self.owner is not None and silent and not self._live and not self.followed

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
            sending = self._live[context] = set()
            self._is_live.set()
            mark = _CURRENT.set(context)
            try:
                yield
                await asyncio.gather(*sending, return_exceptions=True)  # they cannot be sent after the answer
            finally:
                _CURRENT.reset(mark)
                del self._live[context]
                if not self._live:
                    self._is_live.clear()
                self._used = asyncio.get_running_loop().time()

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
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                while (context := self._newest()) is None:
                    await self._is_live.wait()
        except TimeoutError:
            raise RemoteError(INTERNAL_ERROR, f"{method}: no client is connected that could answer") from None
        return await self._ask_client(context, method, params)

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
            task = asyncio.create_task(context.back_channel.notify("notifications/message", params))
            self._live[context].add(task)

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
