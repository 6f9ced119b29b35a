"""The seam between an endpoint and whoever answers: `(method, params, context)`.

An endpoint (a stream, HTTP, a direct call) knows bytes, eras and sessions; a `RequestHandler` (a tool server, later a
gateway) knows what is offered. A `RequestContext` is one request between the two: who asks, and how to talk back
meanwhile. What differs between the eras ends at the endpoint: to the request handler, asking a person is one `await` in
both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, Protocol

from ..errors import RemoteError
from ..protocol.jsonrpc import INTERNAL_ERROR, RequestId
from ..protocol.param_headers import Declaration
from ..types import Wire

NOTHING: Final[Mapping[str, Any]] = {}


class Peer:
    """Who asks: for as long as a session of the legacy era lives, or for one request of the modern era."""

    __slots__ = ("capabilities", "info", "log_level", "modern", "principal", "session", "version")

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
        self.log_level = log_level
        """Legacy era: of the session, by `logging/setLevel`. Modern era: of this request. None: no logs."""
        self.session = session
        """The id of its session, if it has one."""


def principal_key(principal: Any) -> Hashable:
    """Return what to count a principal's sessions, calls and subscriptions by; not every principal is hashable."""
    try:
        hash(principal)
    except TypeError:
        return repr(principal)
    return principal  # type: ignore[no-any-return]


class BackChannel(Protocol):
    """The way back to the one who asked, for as long as the request is being answered."""

    async def notify(self, method: str, params: Wire) -> None:
        """Tell it something that belongs to this request."""
        ...

    async def ask(self, method: str, params: Wire, key: str | None) -> Wire:
        """Its answer to a request of ours.

        `key` names the question on the modern wire; None: a name is made. Raises `RemoteError` where the client refuses
        or never answers. What is asked at the same time goes out together.
        """
        ...

    async def pause(self) -> None:
        """Legacy era over HTTP: end the response, not the request; the client comes again for the rest."""
        ...


class _NoBackChannel:
    """For requests that never talk back: what is said is nothing, what is asked is a fault of ours."""

    async def notify(self, method: str, params: Wire) -> None:
        """Nothing."""

    async def ask(self, method: str, params: Wire, key: str | None) -> Wire:  # noqa: ARG002  # the seam's
        """A fault."""
        raise RemoteError(INTERNAL_ERROR, f"{method}: nothing can be asked while this request is answered")

    async def pause(self) -> None:
        """Nothing."""


NO_BACK_CHANNEL: Final[BackChannel] = _NoBackChannel()


class RequestContext:
    """One request while it is answered."""

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
        """The request's `_meta`."""
        self.headers = headers
        """Of the HTTP request, names in lower case; elsewhere empty."""


Deliver = Callable[[str, Wire], None]
"""Takes a notification's method and params; must neither raise nor block."""


class Watch(Protocol):
    """Somebody who wants to hear of changes."""

    accepted: Wire
    """What of the wanted is really watched, in the form of `subscriptions/listen`'s `notifications`."""

    async def close(self) -> None:
        """Hear no more."""
        ...


class RequestHandler(Protocol):
    """Whoever answers requests; endpoints are generic over it."""

    def describe(self, peer: Peer) -> Wire:
        """`serverInfo`, `capabilities` and perhaps `instructions`: the parts of `initialize` and `server/discover`."""
        ...

    def may_ask(self, method: str, params: Wire) -> bool:
        """Whether answering this request may use `RequestContext.back`; if not, it takes a shorter way."""
        ...

    def mirrored(self, tool: str) -> tuple[Declaration, ...]:
        """The arguments of a tool that modern HTTP repeats in headers."""
        ...

    async def answer(self, method: str, params: Wire, context: RequestContext) -> Wire:
        """The result of a request; raises `RemoteError` for an error answer.

        `initialize`, `server/discover`, `ping`, `logging/setLevel`, `subscriptions/listen` and
        `resources/[un]subscribe` are the endpoint's, made of `describe` and `watch`. The result is bare: the endpoint
        frames it for its era. It may hold `ttlMs` and `cacheScope`, which only the modern era sees.
        """
        ...

    async def watch(self, wanted: Wire, peer: Peer, deliver: Deliver) -> Watch:
        """Hear of changes; `wanted` has the form of `subscriptions/listen`'s `notifications`."""
        ...
