"""The interface between the protocol and a transport."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, runtime_checkable

from ..errors import RemoteError
from ..protocol.jsonrpc import METHOD_NOT_FOUND
from ..protocol.metadata import PROGRESS_TOKEN, with_meta
from ..protocol.sanitize import Mask
from ..types import Wire

ProgressHandler = Callable[[float, float | None, str | None], Awaitable[None] | None]
"""Called with progress, total and message."""


@dataclass(slots=True)
class CallTrace:
    """What happened to one request: how many attempts failed, and when the first one had a connection."""

    failures: int = 0
    connected_at: float | None = None
    """The monotonic time at which the request was first passed to a connection."""


class RequestOptions(NamedTuple):
    """Options of one request. Times are those of the event loop's monotonic clock."""

    deadline: float | None = None
    idle_timeout: float | None = None
    """Maximum number of seconds without an answer; each progress notification restarts it."""
    on_progress: ProgressHandler | None = None
    on_id: Callable[[int], None] | None = None
    """Called with the request's id before it is sent."""
    headers: Mapping[str, str] | None = None
    """HTTP headers to add to the request; other transports ignore them."""
    trace: CallTrace | None = None
    """Receives what happened to the request."""

    def with_progress_token(self, params: Wire | None, id: int) -> Wire | None:
        """Return `params` with `id` as the progress token, if this request needs progress notifications."""
        if self.on_progress is None and self.idle_timeout is None:
            return params
        return with_meta(params, {PROGRESS_TOKEN: id})


PLAIN = RequestOptions()


@dataclass(slots=True)
class Counters:
    """Counts of the messages of a server, over all its connections."""

    received: int = 0
    """Valid messages."""
    malformed: int = 0
    """Malformed messages."""
    last_malformed: str = ""
    """The beginning of the last malformed message."""
    unmatched: int = 0
    """Answers without a pending request: late, repeated, or with an unknown id."""
    dropped: int = 0
    """Requests that the protocol's era or the client's limits do not allow."""


class Inbound(Protocol):
    """Receives the requests and notifications of the peer, in order."""

    @property
    def takes_requests(self) -> bool:
        """Whether the peer may send requests; if not, they are counted and dropped."""
        ...

    async def on_request(self, method: str, params: Wire) -> Wire:
        """Answer a request of the peer; an exception becomes an error answer."""
        ...

    def on_notification(self, method: str, params: Wire) -> None:
        """Handle a notification. Must not raise and must not block."""
        ...

    def held(self) -> AbstractContextManager[None]:
        """Return a context that pauses the callers' deadlines while a person is asked."""
        ...

    def on_closed(self, error: Exception) -> None:
        """Handle the end of the channel for the reason `error`. Called at most once, never after `close`."""
        ...


class _Unopened:
    """The `Inbound` of a channel before it is opened: nothing can arrive yet."""

    takes_requests = False

    async def on_request(self, method: str, params: Wire) -> Wire:  # noqa: ARG002
        """Reject a request."""
        raise RemoteError(METHOD_NOT_FOUND, f"{method}: the channel is not open")

    def on_notification(self, method: str, params: Wire) -> None:
        """Ignore a notification."""

    def held(self) -> AbstractContextManager[None]:
        """Return a context manager that does nothing."""
        return nullcontext()

    def on_closed(self, error: Exception) -> None:
        """Ignore the end."""


UNOPENED: Final[Inbound] = _Unopened()


class Channel(Protocol):
    """A connection to one server, bound to one event loop. It ends by `close`, or by itself (`Inbound.on_closed`)."""

    @property
    def over_http(self) -> bool:
        """Whether each request is a separate HTTP exchange, which has headers and can fail alone."""
        ...

    async def open(self, inbound: Inbound) -> None:
        """Make the connection; raises `ConnectError`. A channel is opened once."""
        ...

    async def request(self, method: str, params: Wire | None, *, options: RequestOptions = PLAIN) -> Wire:
        """Send a request and return its result; raises `RemoteError`, `ProtocolError` or `TransportError`.

        `sent` of a `TransportError` is exact. The caller must not use `params` afterwards.
        """
        ...

    async def notify(self, method: str, params: Wire | None = None) -> None:
        """Send a notification; does nothing if the channel has ended."""
        ...

    def hold(self) -> AbstractContextManager[None]:
        """Return a context that pauses deadlines while a person is asked."""
        ...

    async def close(self, *, force: bool = False) -> None:
        """Close the connection and everything that belongs to it; `force` gives the peer less time. Never raises."""
        ...


def mask_of(channel: Channel) -> Mask | None:
    """Return the mask that hides the channel's secrets; None for a channel that has no secrets."""
    mask: Mask | None = getattr(channel, "secrets", None)
    return mask


@runtime_checkable
class ProcessChannel(Protocol):
    """Additional members of a channel to a local process."""

    def stderr_tail(self) -> str:
        """Return the end of the process's stderr, without secrets; also after the channel was closed."""
        ...

    @property
    def may_download(self) -> bool:
        """Whether its command may have to download the server first, as `npx` does."""
        ...


@runtime_checkable
class ChannelSource(Protocol):
    """An object that makes channels to itself; a `Client` accepts one in place of a config."""

    def make_channel(self) -> Channel:
        """Return a new channel that is not open yet. Called on the event loop on which it will be used."""
        ...
