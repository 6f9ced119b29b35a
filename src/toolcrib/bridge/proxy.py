"""A proxy for one upstream server: forwards requests to it, and its own requests back to the clients.

The endpoint in front handles the era of the clients, the `Client` behind that of the upstream; between the two there
are only `(method, params, context)`. Ids and progress tokens are never forwarded: each side has its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Final

from .._util.tasks import TaskSet
from ..config import ServerConfig
from ..errors import RemoteError, ToolcribError
from ..policy.filters import allows
from ..protocol.jsonrpc import INVALID_PARAMS
from ..protocol.param_headers import Declaration, InvalidDeclaration, declarations, parameter_headers
from ..protocol.sanitize import one_line
from ..protocol.versions import HEADER_MISMATCH, MAY_ASK_FOR_INPUT
from ..server.handler import Deliver, Peer, RequestContext
from ..server.serving.sessions import IDLE_TTL
from ..types import FilterContext, ServerInfo, Tool, Wire
from ..upstreams.connection import Following, Upstream
from ..upstreams.features import Features
from ..upstreams.places import PoolLimits
from ..upstreams.pool import SHARED, ConnectionPool, Lease, PoolKey
from .translate import (
    translate_capabilities,
    translate_client_request,
    translate_client_result,
    translate_description,
    translate_error,
    translate_failure,
    translate_params,
    translate_result,
)

log = logging.getLogger("toolcrib.bridge")

MAX_LOGGED: Final = 2_000
"""Characters of an upstream's error that are logged."""


SOURCE: Final = "upstream"
"""The name of the one upstream in the pool."""
UNLIMITED: Final = PoolLimits(total=None, per_source=None, per_principal=None)
"""The endpoint limits the number of sessions, and so that of connections."""


class Proxy:
    """Answers for one upstream. `alone` means that there is only one client in front, as over stdio.

    Otherwise each legacy session has its own connection (and so its own process), as it would have without the bridge;
    modern requests, which have no sessions, share one.
    """

    def __init__(self, config: ServerConfig, *, alone: bool, **options: Any) -> None:
        self.name = ""
        self.version = ""
        self._config = config
        self._alone = alone
        self._options = options
        self._info = ServerInfo()
        self._spare: Upstream | None = None
        self._pool: ConnectionPool[Upstream] = ConnectionPool(UNLIMITED, idle_seconds=None)
        self._closing = TaskSet()
        self._mirrored: dict[str, tuple[Declaration, ...]] = {}

    @property
    def router(self) -> Proxy:
        """The handler of requests: the proxy itself."""
        return self

    async def start(self) -> None:
        """Connect to the upstream to learn its capabilities. The first client with matching features reuses it."""
        self._spare = self._make_upstream(Features(), None)
        await self._spare.client.connect()
        self._note(self._spare)
        self.name, self.version = self._info.name, self._info.version

    async def close(self) -> None:
        """Close all connections to the upstream."""
        spare, self._spare = self._spare, None
        if spare is not None:
            self._close(spare)
        await asyncio.gather(self._pool.close(), *self._closing)

    def _lease(self, peer: Peer) -> Lease[Upstream]:
        """Lease the connection for a client: modern clients with the same features share one, a session has its own.

        A session without a stream may end silently: its connection is closed when it was not used for long.
        """
        owner = None if peer.modern or self._alone else peer
        features = translate_capabilities(peer.capabilities)
        key = PoolKey(SOURCE, 0, _scope_of(owner), features)
        opener = _Opener(self, features, owner)
        return self._pool.lease(key, opener, idle_seconds=None if owner is None else IDLE_TTL)

    def open_upstream(self, features: Features, owner: Peer | None) -> Upstream:
        """Return the connection that was made at the start if its features match, else a new one."""
        spare, self._spare = self._spare, None
        if spare is not None and spare.features == features:
            spare.owner = owner
            return spare
        found = self._make_upstream(features, owner)
        if spare is not None:  # it must end first: the server may hold an exclusive resource
            found.held_up = self._close(spare)
        return found

    def _make_upstream(self, features: Features, owner: Peer | None) -> Upstream:
        return Upstream(self._config, features, owner, self._ask, self._options)

    async def _ask(self, context: RequestContext, method: str, params: Wire) -> Wire:
        """Return the client's answer to a request of the upstream."""
        asked = translate_client_request(method, params, modern=context.peer.modern)
        return translate_client_result(method, await context.back_channel.ask(method, asked, None))

    def _close(self, upstream: Upstream) -> asyncio.Task[None]:
        """Close a connection in the background: requests of other sessions do not wait for it."""
        return self._closing.create(upstream.client.close())

    def _note(self, upstream: Upstream) -> None:
        self._info = upstream.server_info or self._info

    # ---- the interface of the endpoint -----------------------------------------------------------------------

    def describe(self, peer: Peer) -> Wire:  # noqa: ARG002  # the same for all clients
        """Return the upstream's description, reduced to the forwarded capabilities."""
        return translate_description(self._info)

    def may_ask(self, method: str, params: Wire) -> bool:  # noqa: ARG002  # not known in advance
        """Return whether the method allows requests for input."""
        return method in MAY_ASK_FOR_INPUT

    def mirrored(self, tool: str) -> tuple[Declaration, ...]:
        """Return the header declarations of a tool; empty if it was not listed yet."""
        return self._mirrored.get(tool, ())

    async def answer(self, method: str, params: Wire, context: RequestContext) -> Wire:
        """Forward a request to the upstream and return its answer."""
        if method == "tools/call":
            self._check(params.get("name"))
        try:
            async with self._lease(context.peer) as upstream:
                await upstream.wait_until_free()
                result = await self._request(upstream, method, translate_params(params), context)
        except RemoteError as exc:
            raise translate_error(exc, method, modern=context.peer.modern) from exc
        except ToolcribError as exc:
            raise self._log_failure(exc) from exc
        self._note(upstream)
        if method == "tools/list" and isinstance(result.get("tools"), list):
            tools = [tool for tool in result["tools"] if isinstance(tool, dict)]
            self._learn(tools)
            result = {**result, "tools": [tool for tool in tools if self._allows(Tool.from_wire(tool))]}
        return translate_result(method, result, modern=context.peer.modern)

    def _allows(self, tool: Tool) -> bool:
        return allows(self._config.tool_filter, tool, FilterContext(server_name=self._info.name))

    def _check(self, name: Any) -> None:
        """Raise `RemoteError` if the filter hides the tool."""
        if not self._allows(Tool(str(name), raw={"name": name})):
            raise RemoteError(INVALID_PARAMS, f"Unknown tool: {one_line(str(name))}")

    async def watch(self, wanted: Wire, peer: Peer, deliver: Deliver) -> _ChangeWatch:
        """Deliver the upstream's changes until the returned watch is closed.

        A watch of resources keeps the connection open, and so does one of a session: it ends with the session.
        """
        async with contextlib.AsyncExitStack() as stack:
            try:
                upstream = await stack.enter_async_context(self._lease(peer))
                await upstream.wait_until_free()
                following = await upstream.follow(wanted, peer, deliver)
            except RemoteError:
                raise
            except ToolcribError as exc:
                raise self._log_failure(exc) from exc
            keeps_open = upstream.owner is not None or "resourceSubscriptions" in following.accepted
            lease = stack.pop_all() if keeps_open else contextlib.AsyncExitStack()
            return _ChangeWatch(self, upstream, following, lease)

    async def leave(self, upstream: Upstream) -> None:
        """Close the connection of a session if nothing follows its changes any longer."""
        if upstream.owner is not None and not upstream.followed:
            await self._pool.close_scope(SOURCE, _scope_of(upstream.owner))

    def _log_failure(self, exc: ToolcribError) -> RemoteError:
        """Log a request that got no answer, and return the error for the client."""
        log.warning("%s", one_line(str(exc), MAX_LOGGED))
        return translate_failure(exc, detailed=self._alone)

    # ---- arguments in headers --------------------------------------------------------------------------------

    async def _request(self, upstream: Upstream, method: str, params: Wire, context: RequestContext) -> Wire:
        """Send a request. A modern tool over HTTP requires the arguments that its schema declares in headers."""
        name = str(params.get("name"))
        if method != "tools/call" or not await upstream.mirrors():
            return await upstream.request(method, params, context)
        if name not in self._mirrored:
            await self._list(upstream)
        try:
            return await upstream.request(method, params, context, self._headers(name, params))
        except RemoteError as exc:
            if exc.code != HEADER_MISMATCH:
                raise
            await self._list(upstream)  # the tool has changed
            return await upstream.request(method, params, context, self._headers(name, params))

    def _headers(self, name: str, params: Wire) -> dict[str, str]:
        arguments = params.get("arguments")
        return parameter_headers(self._mirrored.get(name, ()), arguments if isinstance(arguments, dict) else {})

    async def _list(self, upstream: Upstream) -> None:
        self._learn([tool.raw for tool in await upstream.client.list_tools(use_cache=False)])

    def _learn(self, tools: list[Wire]) -> None:
        for tool in tools:
            schema = tool.get("inputSchema")
            try:
                self._mirrored[str(tool.get("name"))] = declarations(schema) if isinstance(schema, dict) else ()
            except InvalidDeclaration:
                continue  # modern HTTP does not list such a tool


def _scope_of(owner: Peer | None) -> str:
    """Return the scope of the connection of a session, which keeps a reference to its owner, or of the shared one."""
    return SHARED if owner is None else f"session {id(owner)}"


class _Opener:
    """Opens and closes the connection of a client."""

    __slots__ = ("_features", "_owner", "_proxy")

    def __init__(self, proxy: Proxy, features: Features, owner: Peer | None) -> None:
        self._proxy = proxy
        self._features = features
        self._owner = owner

    def open(self) -> Upstream:
        return self._proxy.open_upstream(self._features, self._owner)

    async def close(self, upstream: Upstream) -> None:
        await upstream.client.close()


class _ChangeWatch:
    """A subscription of one client to the upstream's changes; `lease` ends with it."""

    def __init__(
        self, proxy: Proxy, upstream: Upstream, following: Following, lease: contextlib.AsyncExitStack
    ) -> None:
        self.accepted = following.accepted
        self._proxy = proxy
        self._upstream = upstream
        self._following = following
        self._lease = lease

    async def close(self) -> None:
        """End the subscription."""
        async with self._lease:
            await self._following.close()
        await self._proxy.leave(self._upstream)
