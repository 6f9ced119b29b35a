"""The client of the `mcp` SDK 2.x, which speaks both eras."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import httpx2
import mcp_types as t
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.peers.clients.guest import ROOTS, Book, Door, Progress, Refused, Wire
from tests.peers.clients.tour import run

LOG_LEVEL = "io.modelcontextprotocol/logLevel"
MODES = {"legacy": "legacy", "modern": "auto"}


def wire(model: Any) -> Wire:
    dumped: Wire = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return dumped


@contextmanager
def refusals() -> Iterator[None]:
    """Convert the SDK's error to `Refused`."""
    try:
        yield
    except MCPError as exc:
        raise Refused(exc.code, exc.message, exc.data) from exc


class Guest:
    def __init__(self, door: Door, book: Book, client: Client) -> None:
        self.door, self.book, self.client = door, book, client
        self.hello = {
            "version": client.protocol_version,
            "server": wire(client.server_info),
            "instructions": client.instructions,
            "capabilities": wire(client.server_capabilities),
        }

    async def page(self, kind: str, cursor: str | None) -> Wire:
        ask = {
            "tools": self.client.list_tools,
            "resources": self.client.list_resources,
            "templates": self.client.list_resource_templates,
            "prompts": self.client.list_prompts,
        }[kind]
        with refusals():
            return wire(await ask(cursor=cursor))

    async def call(
        self, name: str, arguments: Wire | None = None, on_progress: Progress | None = None, meta: Any = None
    ) -> Wire:
        with refusals():
            return wire(await self.client.call_tool(name, arguments, progress_callback=on_progress, meta=meta))

    async def call_at_level(self, level: t.LoggingLevel, name: str, arguments: Wire) -> Wire:
        if self.door.is_modern:
            return await self.call(name, arguments, meta={LOG_LEVEL: level})
        with refusals():
            await self.client.set_logging_level(level)
        return await self.call(name, arguments)

    async def read(self, uri: str) -> Wire:
        with refusals():
            return wire(await self.client.read_resource(uri))

    async def prompt(self, name: str, arguments: dict[str, str]) -> Wire:
        with refusals():
            return wire(await self.client.get_prompt(name, arguments))

    async def complete(self, ref: Wire, argument: dict[str, str], context: dict[str, str] | None) -> Wire:
        prompt = t.PromptReference.model_validate(ref)
        with refusals():
            return wire(await self.client.complete(prompt, argument, context_arguments=context))

    async def ping(self) -> Wire:
        with refusals():
            return wire(await self.client.send_ping())

    async def give_up(self, name: str, arguments: Wire, began: asyncio.Event) -> None:
        async def on_progress(*_: Any) -> None:
            began.set()

        call = asyncio.ensure_future(self.call(name, arguments, on_progress))
        await began.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    @asynccontextmanager
    async def news(self, *uris: str) -> AsyncIterator[None]:
        if self.door.is_modern:
            async with self.client.listen(tools_list_changed=True, resource_subscriptions=uris):
                yield
            return
        for uri in uris:
            await self.client.subscribe_resource(uri)
        yield
        for uri in uris:
            await self.client.unsubscribe_resource(uri)


def handlers_of(book: Book) -> dict[str, Any]:
    async def sample(context: Any, params: t.CreateMessageRequestParams) -> t.CreateMessageResult:
        content = t.TextContent(type="text", text=book.say(wire(params)))
        return t.CreateMessageResult(role="assistant", content=content, model="m-1", stop_reason="endTurn")

    async def elicit(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        action, content = book.answer(wire(params))
        return t.ElicitResult(action=action, content=content)

    async def roots(context: Any) -> t.ListRootsResult:
        return t.ListRootsResult(roots=[t.Root(uri=uri) for uri in ROOTS])

    return {"sampling_callback": sample, "elicitation_callback": elicit, "list_roots_callback": roots}


@asynccontextmanager
async def transport_to(door: Door, book: Book, goodbye: bool) -> AsyncIterator[Any]:
    async def note(request: httpx2.Request) -> None:
        book.note_request(request.method, request.headers)

    async with AsyncExitStack() as stack:
        if door.transport == "stdio":
            command, arguments = door.command
            yield stdio_client(StdioServerParameters(command=command, args=arguments))
        elif door.transport == "sse":
            yield sse_client(door.url)
        else:
            client = httpx2.AsyncClient(event_hooks={"request": [note]}, timeout=30)
            http = await stack.enter_async_context(client)
            yield streamable_http_client(door.url, http_client=http, terminate_on_close=goodbye)


@asynccontextmanager
async def open_guest(door: Door, *, handlers: bool = True, goodbye: bool = True) -> AsyncIterator[Guest]:
    book = Book()

    async def on_log(params: t.LoggingMessageNotificationParams) -> None:
        book.logged.append(wire(params))

    async def on_message(message: Any) -> None:
        if not isinstance(message, Exception):
            book.tell(message.method, wire(message.params) if message.params else {})

    async with (
        transport_to(door, book, goodbye) as transport,
        Client(
            transport,
            mode=MODES[door.era],
            logging_callback=on_log,
            message_handler=on_message,
            client_info=t.Implementation(name="guest", version="1.2.3"),
            **(handlers_of(book) if handlers else {}),
        ) as client,
    ):
        yield Guest(door, book, client)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")  # what the newest revision deprecates is what the older one is tried with
    run(open_guest)
