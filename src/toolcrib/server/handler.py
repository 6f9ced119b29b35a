"""The interface between an endpoint and a request handler: `answer(method, params, context)`.

An endpoint (a stream, HTTP, a direct call) handles bytes, eras and sessions; a `RequestHandler` (a tool server, a
proxy) handles tools, resources and prompts. A `RequestContext` describes one request to the handler: its client, and a
channel back to that client. Endpoints hide the differences between the eras: for the request handler, a request to the
client is one `await` in both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from copy import copy
from typing import Any, Final, Protocol

from ..errors import RemoteError
from ..protocol.jsonrpc import INTERNAL_ERROR, RequestId
from ..protocol.param_headers import Declaration
from ..types import Wire

NOTHING: Final[Mapping[str, Any]] = {}


class Peer:
    """The client of a request: of a whole session in the legacy era, of a single request in the modern era."""

    __slots__ = ("_level", "capabilities", "info", "modern", "principal", "session", "version")

    def __init__(
        self,
        version: str,
        *,
        modern: bool,
        info: Mapping[str, Any] = NOTHING,
        capabilities: Mapping[str, Any] = NOTHING,
        principal: Any = None,
        log_level: str | None = None,
        session: str | None = None,
    ) -> None:
        self.version = version
        self.modern = modern
        self.info = info
        self.capabilities = capabilities
        self.principal = principal
        self._level = [log_level]  # shared by the peers of a session
        self.session = session
        """The id of the session; None if there is none."""

    @property
    def log_level(self) -> str | None:
        """The minimum level of log messages: of the session in the legacy era (`logging/setLevel`), of the request in
        the modern era. None: no log messages.
        """
        return self._level[0]

    @log_level.setter
    def log_level(self, level: str | None) -> None:
        self._level[0] = level

    def with_principal(self, principal: Any) -> Peer:
        """Return this client with an equal principal of a later request, whose credentials may permit more or less."""
        if principal is self.principal:
            return self
        peer = copy(self)
        peer.principal = principal
        return peer


def principal_key(principal: Any) -> Hashable:
    """Return a hashable key for a principal, by which its calls and subscriptions are counted."""
    try:
        hash(principal)
    except TypeError:
        return repr(principal)
    return principal  # type: ignore[no-any-return]


class BackChannel(Protocol):
    """The channel back to the client of a request, for as long as the request is being answered."""

    async def notify(self, method: str, params: Wire) -> None:
        """Send a notification that belongs to this request."""
        ...

    async def ask(self, method: str, params: Wire, key: str | None) -> Wire:
        """Send a request to the client, and return its result.

        `key` names the request in the modern era; None: a name is generated. Raises `RemoteError` if the client answers
        with an error, or does not answer. In the modern era, requests made at the same time are sent together.
        """
        ...

    async def pause(self) -> None:
        """End the HTTP response but not the request (legacy era only); the client reconnects for the rest."""
        ...


class _NoBackChannel:
    """The channel of requests that cannot contact the client: notifications are dropped, requests are errors."""

    async def notify(self, method: str, params: Wire) -> None:
        """Drop the notification."""

    async def ask(self, method: str, params: Wire, key: str | None) -> Wire:  # noqa: ARG002  # the protocol's signature
        """Raise -32603."""
        raise RemoteError(INTERNAL_ERROR, f"{method}: no request can be sent to the client during this request")

    async def pause(self) -> None:
        """Do nothing."""


NO_BACK_CHANNEL: Final[BackChannel] = _NoBackChannel()


class RequestContext:
    """One request while it is being answered."""

    __slots__ = ("back_channel", "headers", "id", "meta", "peer")

    def __init__(
        self,
        peer: Peer,
        back_channel: BackChannel,
        id: RequestId | None = None,
        meta: Mapping[str, Any] = NOTHING,
        headers: Mapping[str, str] = NOTHING,
    ) -> None:
        self.peer = peer
        self.back_channel = back_channel
        self.id = id
        self.meta = meta
        """The `_meta` of the request."""
        self.headers = headers
        """The headers of the HTTP request, names in lower case; empty on other transports."""


Deliver = Callable[[str, Wire], None]
"""Takes the method and params of a notification; must neither raise nor block."""


class Watch(Protocol):
    """A watcher of changes."""

    accepted: Wire
    """The changes that are watched, in the form of `notifications` in `subscriptions/listen`."""

    async def close(self) -> None:
        """Stop watching."""
        ...


class RequestHandler(Protocol):
    """Answers requests. Endpoints work with any implementation."""

    def describe(self, peer: Peer) -> Wire:
        """Return `serverInfo`, `capabilities` and perhaps `instructions`, for `initialize` and `server/discover`."""
        ...

    def may_ask(self, method: str, params: Wire) -> bool:
        """Return whether answering this request may use `RequestContext.back_channel`; if not, it costs less."""
        ...

    def mirrored(self, tool: str) -> tuple[Declaration, ...]:
        """Return the arguments of a tool that modern clients repeat in HTTP headers."""
        ...

    async def answer(self, method: str, params: Wire, context: RequestContext) -> Wire:
        """Return the result of a request; raises `RemoteError` for an error answer.

        The endpoint itself answers `initialize`, `server/discover`, `ping`, `logging/setLevel`,
        `subscriptions/listen` and `resources/[un]subscribe`, by means of `describe` and `watch`. It also frames the
        result for the client's era. The result may hold `ttlMs` and `cacheScope`, which only modern clients receive.
        """
        ...

    async def watch(self, wanted: Wire, peer: Peer, deliver: Deliver) -> Watch:
        """Watch for changes; `wanted` has the form of `notifications` in `subscriptions/listen`."""
        ...
