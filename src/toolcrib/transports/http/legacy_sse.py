"""The link to an HTTP+SSE server, the transport of the first revision: one stream in, a POST per message out."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from ..._util.tasks import TaskSet
from ...config import HttpServer, SecretMask, SseServer, mask_urls, secrets_of_web
from ...errors import ConnectionLost, ProtocolError, ToolcribError
from ...protocol import jsonrpc
from ...protocol.framing import Oversized
from ...protocol.jsonrpc import Message
from ...protocol.limits import MAX_MESSAGE, MAX_POSTS
from ...protocol.sanitize import one_line
from ...protocol.sse import SseEvent, SseParser
from ..backlog import DELIVERY_SECONDS, Backlog, encode_to_keep
from ..jsonrpc_stream import Receiver, Ticket
from ..pending import COURTESY_TIMEOUT, Slots
from .client import EVENTS, Body, HttpClient
from .network import UNRESTRICTED, Egress, same_origin, target_of

if TYPE_CHECKING:
    from aiohttp import ClientResponse

log = logging.getLogger("toolcrib.transports")

FLUSH_SECONDS: Final = 0.5
"""Seconds for finishing posts when the link is closed."""


class _Post(Body):
    """A message that is being posted."""

    __slots__ = ("is_request", "task")

    def __init__(self, message: Message) -> None:
        self.is_request = "id" in message and "method" in message
        super().__init__(jsonrpc.encode(message) if self.is_request else encode_to_keep(message))
        self.task: asyncio.Task[None] | None = None


class SseLink:
    """A `Link` to an HTTP+SSE server, which is connected by `open`."""

    def __init__(
        self,
        server: SseServer | HttpServer,
        auth: Any = None,
        *,
        secrets: SecretMask | None = None,
        egress: Egress = UNRESTRICTED,
    ) -> None:
        self._server = server
        self._egress = egress
        self.secrets = secrets or secrets_of_web(server.url, server.headers, server.proxy)
        """Masks the credentials that are sent to the server."""
        self._auth = auth
        self._connection: _SseConnection | None = None

    async def open(self, receiver: Receiver) -> None:
        """Open the stream and wait until the server has sent the URL for messages."""
        client = HttpClient(self._server, self._auth, receiver.hold, self.secrets, self._egress)
        self._connection = _SseConnection(client, receiver, self.secrets)
        await self._connection.open()

    def send(self, message: Message) -> Ticket:
        """Post a message."""
        if self._connection is None:
            raise RuntimeError("the link is not open")
        return self._connection.send(message)

    def withdraw(self, ticket: Ticket) -> bool:
        """Withdraw a message; returns False if all of it was written."""
        assert isinstance(ticket, _Post)
        unsent = not ticket.sent
        ticket.withdrawn = unsent
        if ticket.task is not None:
            ticket.task.cancel()  # also if it only waits for the response, which has no effect
        return unsent

    async def close(self, *, force: bool) -> None:
        """Wait a moment for running posts, then close the stream."""
        if self._connection is not None:
            await self._connection.close(force=force)


class _SseConnection:
    """The stream of a server, read in a task, and the messages that are being posted.

    Messages are posted concurrently, but none overtakes a notification.
    """

    def __init__(self, client: HttpClient, receiver: Receiver, secrets: SecretMask) -> None:
        self._client = client
        self._receiver = receiver
        self._secrets = secrets
        self._at = client.url
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reader: asyncio.Task[None] | None = None
        self._posts = TaskSet()
        self._barrier: asyncio.Task[None] | None = None
        self._backlog = Backlog(receiver.on_lost)
        self._turns = Slots(MAX_POSTS)
        self._closed = False

    async def open(self) -> None:
        """Open the stream and wait until the server has sent the URL for messages."""
        response = await self._client.send("GET", {"Accept": EVENTS})
        if response.status >= 400:
            raise await self._client.refused(response)
        if response.status != 200 or response.content_type != EVENTS:
            kind = one_line(response.content_type, mask=self._secrets)
            response.close()
            raise ProtocolError(
                f"expected an event stream, got {kind} (HTTP {response.status})",
                status=response.status,
                content_type=kind,
                sent=False,
            )
        if not same_origin(self._at, str(response.url)):
            self._at = str(response.url)  # redirected from http to https
        self._reader = asyncio.create_task(self._read(response))
        await self._endpoint

    # ---- in --------------------------------------------------------------------------------------------------

    async def _read(self, response: ClientResponse) -> None:
        stream = SseParser()
        error: ToolcribError
        try:
            async for chunk in self._client.chunks(response):
                for event in stream.feed(chunk):
                    self._take(event)
            error = ConnectionLost("the server ended its event stream")
        except ToolcribError as exc:
            error = exc
        finally:
            response.close()
        if not self._endpoint.done():
            self._endpoint.set_exception(error)
        else:
            self._receiver.on_lost(error)

    def _take(self, event: SseEvent | Oversized) -> None:
        if isinstance(event, Oversized):
            sample = one_line(event.head, mask=self._secrets, cut=True)
            error = ProtocolError(f"an event above the limit of {MAX_MESSAGE:,} bytes", sample=sample)
            self._receiver.on_malformed(error, event.head)
        elif event.event == "endpoint":
            if not self._endpoint.done():
                self._endpoint.set_result(self._checked(event.data))
        elif event.event == "message" and event.data:
            try:
                message = jsonrpc.decode(event.data, self._secrets, repair=True)
            except ProtocolError as exc:
                self._receiver.on_malformed(exc, event.data[:1024].encode())
            else:
                self._receiver.on_message(message)

    def _checked(self, location: str) -> str:
        """Return the URL for messages; raises `ProtocolError` if it has another origin than the stream."""
        target = target_of(self._at, location)
        if not same_origin(self._at, target):
            raise ProtocolError(
                "endpoint: expected a URL with the origin of the stream, got "
                f"{one_line(mask_urls(target), mask=self._secrets)}",
                sent=False,
            )
        return target

    # ---- out -------------------------------------------------------------------------------------------------

    def send(self, message: Message) -> Ticket:
        """Post a message."""
        post = _Post(message)
        if not self._closed and (post.is_request or self._backlog.add(message, len(post.data))):
            send = self._post if post.is_request else self._post_in_turn
            task = post.task = self._posts.create(send(post, message, self._barrier))
            if not post.is_request:
                size = len(post.data)
                task.add_done_callback(lambda _: self._backlog.remove(size))
            if "id" not in message:
                self._barrier = task
        return post

    async def _post_in_turn(self, post: _Post, message: Message, before: asyncio.Task[None] | None) -> None:
        """Post a reply or a notification: a few at a time, so that a server cannot use up the client's sockets."""
        try:
            async with asyncio.timeout(DELIVERY_SECONDS), self._turns:
                await self._post(post, message, before)
        except TimeoutError:
            log.debug("a message was not delivered to the server within %s s", DELIVERY_SECONDS)

    async def _post(self, post: _Post, message: Message, before: asyncio.Task[None] | None) -> None:
        client = self._client
        if before is not None and not before.done():
            await asyncio.wait([before], timeout=COURTESY_TIMEOUT)  # `initialized` must not be overtaken
        try:
            response = await client.send("POST", {}, post, url=self._endpoint.result())
            try:
                if response.status >= 400:
                    raise await client.refused(response)
                await client.read(response)
            finally:
                response.release()
        except ToolcribError as exc:
            if "method" in message and "id" in message:
                self._receiver.on_refused(message["id"], exc)
            else:
                log.warning("a message was not delivered to the server: %s", exc)

    async def close(self, *, force: bool) -> None:
        """Wait a moment for running posts, then close the stream."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._posts and not force:
                await asyncio.wait(self._posts, timeout=FLUSH_SECONDS)
        finally:
            self._posts.cancel()
            if self._reader is not None:
                self._reader.cancel()
            await self._client.close()
