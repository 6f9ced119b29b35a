"""The client of the `mcp` SDK 1.x, which speaks the legacy era."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import mcp.types as t
from mcp.client.session import ClientSession
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError
from pydantic import AnyUrl

from tests.peers.clients.guest import ROOTS, Book, Door, Progress, Refused, Wire
from tests.peers.clients.tour import run


def wire(model: Any) -> Wire:
    dumped: Wire = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return dumped


class Guest:
    def __init__(self, door: Door, book: Book, session: ClientSession, opened: t.InitializeResult) -> None:
        self.door, self.book, self.session = door, book, session
        self.hello = {
            "version": opened.protocolVersion,
            "server": wire(opened.serverInfo),
            "instructions": opened.instructions,
            "capabilities": wire(opened.capabilities),
        }

    async def _ask(self, doing: Any) -> Wire:
        try:
            return wire(await doing)
        except McpError as exc:
            raise Refused(exc.error.code, exc.error.message, exc.error.data) from exc

    async def page(self, kind: str, cursor: str | None) -> Wire:
        ask = {
            "tools": self.session.list_tools,
            "resources": self.session.list_resources,
            "templates": self.session.list_resource_templates,
            "prompts": self.session.list_prompts,
        }[kind]
        return await self._ask(ask(params=t.PaginatedRequestParams(cursor=cursor)))

    async def call(self, name: str, arguments: Wire | None = None, on_progress: Progress | None = None) -> Wire:
        return await self._ask(self.session.call_tool(name, arguments, progress_callback=on_progress))

    async def call_at_level(self, level: t.LoggingLevel, name: str, arguments: Wire) -> Wire:
        await self._ask(self.session.set_logging_level(level))
        return await self.call(name, arguments)

    async def read(self, uri: str) -> Wire:
        return await self._ask(self.session.read_resource(AnyUrl(uri)))

    async def prompt(self, name: str, arguments: dict[str, str]) -> Wire:
        return await self._ask(self.session.get_prompt(name, arguments))

    async def complete(self, ref: Wire, argument: dict[str, str], context: dict[str, str] | None) -> Wire:
        return await self._ask(self.session.complete(t.PromptReference.model_validate(ref), argument, context))

    async def ping(self) -> Wire:
        return await self._ask(self.session.send_ping())

    async def give_up(self, name: str, arguments: Wire, began: asyncio.Event) -> None:
        async def on_progress(*_: Any) -> None:
            began.set()

        request_id = self.session._request_id  # of the next request; the SDK has no door to a call's id
        call = asyncio.ensure_future(self.call(name, arguments, on_progress))
        await began.wait()
        params = t.CancelledNotificationParams(requestId=request_id, reason="changed my mind")
        await self.session.send_notification(t.ClientNotification(t.CancelledNotification(params=params)))
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    @asynccontextmanager
    async def news(self, *uris: str) -> AsyncIterator[None]:
        for uri in uris:
            await self.session.subscribe_resource(AnyUrl(uri))
        yield
        for uri in uris:
            await self.session.unsubscribe_resource(AnyUrl(uri))


def handlers_of(book: Book) -> dict[str, Any]:
    async def sample(context: Any, params: t.CreateMessageRequestParams) -> t.CreateMessageResult:
        content = t.TextContent(type="text", text=book.say(wire(params)))
        return t.CreateMessageResult(role="assistant", content=content, model="m-1", stopReason="endTurn")

    async def elicit(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        action, content = book.answer(wire(params))
        return t.ElicitResult(action=action, content=content)

    async def roots(context: Any) -> t.ListRootsResult:
        return t.ListRootsResult(roots=[t.Root(uri=uri) for uri in ROOTS])

    return {"sampling_callback": sample, "elicitation_callback": elicit, "list_roots_callback": roots}


@asynccontextmanager
async def streams(door: Door, book: Book, goodbye: bool) -> AsyncIterator[tuple[Any, Any]]:
    async def note(request: httpx.Request) -> None:
        book.note_request(request.method, request.headers)

    if door.transport == "stdio":
        command, arguments = door.command
        async with stdio_client(StdioServerParameters(command=command, args=arguments)) as pair:
            yield pair
    elif door.transport == "sse":
        async with sse_client(door.url) as pair:
            yield pair
    else:
        async with (
            httpx.AsyncClient(event_hooks={"request": [note]}, timeout=30) as http,
            streamable_http_client(door.url, http_client=http, terminate_on_close=goodbye) as (read, write, _),
        ):
            yield read, write


@asynccontextmanager
async def open_guest(door: Door, *, handlers: bool = True, goodbye: bool = True) -> AsyncIterator[Guest]:
    book = Book()

    async def on_log(params: t.LoggingMessageNotificationParams) -> None:
        book.logged.append(wire(params))

    async def on_message(message: Any) -> None:
        if isinstance(message, t.ServerNotification):
            book.tell(message.root.method, wire(message.root.params) if message.root.params else {})

    given = handlers_of(book) if handlers else {}
    info = t.Implementation(name="guest", version="1.2.3")
    async with (
        streams(door, book, goodbye) as (read, write),
        ClientSession(
            read, write, logging_callback=on_log, message_handler=on_message, client_info=info, **given
        ) as session,
    ):
        yield Guest(door, book, session, await session.initialize())


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    run(open_guest)
