"""The link to a server of HTTP+SSE, the first revision's way: one stream in, a POST for each message out."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from ...config import HttpServer, SseServer, mask_urls, secrets_of_web
from ...errors import ConnectionLost, ProtocolError, ToolcribError
from ...protocol import jsonrpc
from ...protocol.framing import Oversized
from ...protocol.jsonrpc import Message
from ...protocol.limits import MAX_MESSAGE, MAX_POSTS
from ...protocol.sanitize import one_line
from ...protocol.sse import SseEvent, SseParser
from ..backlog import DELIVERY_SECONDS, Backlog, encode_to_keep, is_optional
from ..jsonrpc_stream import Receiver, Ticket
from ..pending import COURTESY, Slots
from .client import EVENTS, Body, HttpClient
from .network import same_origin, target_of

if TYPE_CHECKING:
    from aiohttp import ClientResponse

log = logging.getLogger("toolcrib.transports")

FLUSH: Final = 0.5
"""Seconds that messages under way have when the link is closed."""


class _Post(Body):
    """A message on its way out."""

    __slots__ = ("is_request", "task")

    def __init__(self, message: Message) -> None:
        self.is_request = "id" in message and "method" in message
        super().__init__(jsonrpc.encode(message) if self.is_request else encode_to_keep(message))
        self.task: asyncio.Task[None] | None = None


class SseLink:
    """Reads the stream in a task of its own; what is sent goes out side by side, but never past a notification."""

    def __init__(self, server: SseServer | HttpServer, auth: Any = None) -> None:
        self._server = server
        self._at = server.url
        self.secrets = secrets_of_web(server.url, server.headers, server.proxy)
        """Hides the credentials that are sent to the server."""
        self._auth = auth
        self._receiver: Receiver
        self._client: HttpClient | None = None
        self._endpoint: asyncio.Future[str]
        self._reader: asyncio.Task[None] | None = None
        self._posts: set[asyncio.Task[None]] = set()
        self._barrier: asyncio.Task[None] | None = None
        self._backlog = Backlog()
        self._turns = Slots(MAX_POSTS)

    async def open(self, receiver: Receiver) -> None:
        """Open the stream and wait until the server has said where messages go."""
        self._receiver = receiver
        self._client = HttpClient(self._server, self._auth, receiver.hold, self.secrets)
        self._endpoint = asyncio.get_running_loop().create_future()
        response = await self._client.send("GET", {"Accept": EVENTS})
        if response.status >= 400:
            raise await self._client.refused(response)
        if response.status != 200 or response.content_type != EVENTS:
            kind = one_line(response.content_type, mask=self.secrets)
            response.close()
            raise ProtocolError(
                f"the stream was answered with HTTP {response.status} and {kind}, not with an event stream",
                status=response.status,
                content_type=kind,
                sent=False,
            )
        if not same_origin(self._at, str(response.url)):
            self._at = str(response.url)  # a redirect has led from http to https
        self._reader = asyncio.create_task(self._read(self._client, response))
        await self._endpoint

    # ---- in --------------------------------------------------------------------------------------------------

    async def _read(self, client: HttpClient, response: ClientResponse) -> None:
        stream = SseParser()
        error: ToolcribError
        try:
            async for chunk in client.chunks(response):
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
            sample = one_line(event.head, mask=self.secrets, cut=True)
            error = ProtocolError(f"an event above the limit of {MAX_MESSAGE:,} bytes", sample=sample)
            self._receiver.on_malformed(error, event.head)
        elif event.event == "endpoint":
            if not self._endpoint.done():
                self._endpoint.set_result(self._checked(event.data))
        elif event.event == "message" and event.data:
            try:
                message = jsonrpc.decode(event.data, self.secrets, repair=True)
            except ProtocolError as exc:
                self._receiver.on_malformed(exc, event.data[:1024].encode())
            else:
                self._receiver.on_message(message)

    def _checked(self, said: str) -> str:
        """Where messages go: never to another place than the stream's own, whatever the server says."""
        target = target_of(self._at, said)
        if not same_origin(self._at, target):
            raise ProtocolError(
                f"the server wants its messages at {one_line(mask_urls(target), mask=self.secrets)}, "
                "which is not where it is itself",
                sent=False,
            )
        return target

    # ---- out -------------------------------------------------------------------------------------------------

    def send(self, message: Message) -> Ticket:
        """Post a message."""
        post = _Post(message)
        if self._client is not None and (post.is_request or self._count(post, message)):
            send = self._post if post.is_request else self._post_in_turn
            task = post.task = asyncio.create_task(send(self._client, post, message, self._barrier))
            self._posts.add(task)
            task.add_done_callback(self._posts.discard)
            if not post.is_request:
                size = len(post.data)
                task.add_done_callback(lambda _: self._backlog.remove(size))
            if "id" not in message:
                self._barrier = task
        return post

    def _count(self, post: _Post, message: Message) -> bool:
        """Count a message that is not a request; False if it must not be sent."""
        if self._backlog.admits(len(post.data)):
            self._backlog.add(len(post.data))
            return True
        if not is_optional(message):
            self._receiver.on_lost(self._backlog.error())
        return False

    async def _post_in_turn(
        self, client: HttpClient, post: _Post, message: Message, before: asyncio.Task[None] | None
    ) -> None:
        """Post a reply or a notification: a few at a time, so that a server cannot use up our sockets."""
        try:
            async with asyncio.timeout(DELIVERY_SECONDS):
                if (turn := self._turns.take()) is not None:
                    await self._turns.wait(turn)
                try:
                    await self._post(client, post, message, before)
                finally:
                    self._turns.give()
        except TimeoutError:
            log.debug("a message was not delivered to the server within %s s", DELIVERY_SECONDS)

    async def _post(self, client: HttpClient, post: _Post, message: Message, before: asyncio.Task[None] | None) -> None:
        if before is not None and not before.done():
            await asyncio.wait([before], timeout=COURTESY)  # `initialized` must not be overtaken
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

    def withdraw(self, ticket: Ticket) -> bool:
        """Take a message back."""
        assert isinstance(ticket, _Post)
        unsent = not ticket.sent
        ticket.withdrawn = unsent
        if ticket.task is not None:
            ticket.task.cancel()  # also where only the word of thanks is still awaited: nobody waits for it any more
        return unsent

    async def close(self, *, force: bool) -> None:
        """Let what is under way arrive, then close the stream."""
        client, self._client = self._client, None
        if client is None:
            return
        try:
            if self._posts and not force:
                await asyncio.wait(self._posts, timeout=FLUSH)
        finally:
            for task in (*self._posts, self._reader):
                if task is not None:
                    task.cancel()
            await client.close()
