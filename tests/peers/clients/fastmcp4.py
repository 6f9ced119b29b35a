"""The client of FastMCP 4, on the `mcp` SDK 2.x, which speaks both eras."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as t
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from mcp.client.subscriptions import listen

from tests.peers.clients.guest import ROOTS, Book, Door, Progress, Wire
from tests.peers.clients.sdk2 import LOG_LEVEL, MODES, refusals, wire
from tests.peers.clients.tour import run


class Guest:
    def __init__(self, door: Door, book: Book, client: Client[Any]) -> None:
        self.door, self.book, self.client = door, book, client
        self.hello = {
            "version": client.protocol_version,
            "server": wire(client.server_info),
            "instructions": client.instructions,
            "capabilities": wire(client.server_capabilities),
        }

    async def page(self, kind: str, cursor: str | None) -> Wire:
        ask = {
            "tools": self.client.list_tools_mcp,
            "resources": self.client.list_resources_mcp,
            "templates": self.client.list_resource_templates_mcp,
            "prompts": self.client.list_prompts_mcp,
        }[kind]
        with refusals():
            return wire(await ask(cursor=cursor))

    async def call(
        self, name: str, arguments: Wire | None = None, on_progress: Progress | None = None, meta: Any = None
    ) -> Wire:
        with refusals():
            return wire(await self.client.call_tool_mcp(name, arguments or {}, on_progress, meta=meta))

    async def call_at_level(self, level: t.LoggingLevel, name: str, arguments: Wire) -> Wire:
        if self.door.is_modern:
            return await self.call(name, arguments, meta={LOG_LEVEL: level})
        with refusals():
            await self.client.set_logging_level(level)
        return await self.call(name, arguments)

    async def read(self, uri: str) -> Wire:
        with refusals():
            return wire(await self.client.read_resource_mcp(uri))

    async def prompt(self, name: str, arguments: dict[str, str]) -> Wire:
        with refusals():
            return wire(await self.client.get_prompt_mcp(name, arguments))

    async def complete(self, ref: Wire, argument: dict[str, str], context: dict[str, str] | None) -> Wire:
        with refusals():
            return wire(await self.client.complete_mcp(t.PromptReference.model_validate(ref), argument, context))

    async def ping(self) -> Wire:
        with refusals():
            assert await self.client.ping()
        return {}

    async def give_up(self, name: str, arguments: Wire, began: asyncio.Event) -> None:
        async def on_progress(*_: Any) -> None:
            began.set()

        call = asyncio.ensure_future(self.call(name, arguments, on_progress))
        await began.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    @asynccontextmanager
    async def news(self, *uris: str) -> AsyncIterator[None]:
        """Subscribe through the SDK's session, because FastMCP has no method for it."""
        session = self.client.session
        if self.door.is_modern:
            async with listen(session, tools_list_changed=True, resource_subscriptions=uris):
                yield
            return
        for uri in uris:
            await session.subscribe_resource(uri)
        yield
        for uri in uris:
            await session.unsubscribe_resource(uri)


def handlers_of(book: Book) -> dict[str, Any]:
    async def sample(messages: Any, params: t.CreateMessageRequestParams, context: Any) -> t.CreateMessageResult:
        content = t.TextContent(type="text", text=book.say(wire(params)))
        return t.CreateMessageResult(role="assistant", content=content, model="m-1", stop_reason="endTurn")

    async def elicit(message: str, kind: Any, params: t.ElicitRequestParams, context: Any) -> ElicitResult[Any]:
        action, content = book.answer(wire(params))
        return ElicitResult(action=action, content=content)

    return {"sampling_handler": sample, "elicitation_handler": elicit, "roots": ROOTS}


def transport_to(door: Door, book: Book) -> Any:
    async def note(request: httpx2.Request) -> None:
        book.note_request(request.method, request.headers)

    def client(**options: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(**{"timeout": 30, **options}, event_hooks={"request": [note]})

    if door.transport == "stdio":
        command, arguments = door.command
        return StdioTransport(command, arguments, keep_alive=False)
    if door.transport == "sse":
        return SSETransport(door.url)
    return StreamableHttpTransport(door.url, httpx_client_factory=client)


@asynccontextmanager
async def open_guest(door: Door, *, handlers: bool = True, goodbye: bool = True) -> AsyncIterator[Guest]:
    book = Book()

    async def on_log(params: t.LoggingMessageNotificationParams) -> None:
        book.logged.append(wire(params))

    async def on_message(message: Any) -> None:
        if not isinstance(message, Exception):
            book.tell(message.method, wire(message.params) if message.params else {})

    given = handlers_of(book) if handlers else {}
    info = t.Implementation(name="guest", version="1.2.3")
    async with Client(
        transport_to(door, book),
        mode=MODES[door.era],
        log_handler=on_log,
        message_handler=on_message,
        client_info=info,
        **given,
    ) as client:
        yield Guest(door, book, client)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")  # what the newest revision deprecates is what the older one is tried with
    run(open_guest)
