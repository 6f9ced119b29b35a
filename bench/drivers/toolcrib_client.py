"""Toolcrib's client, used as the README shows: with all defaults, time-outs included."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from measure import Child, Session, Site, drive

from toolcrib import Client, HttpServer, StdioServer


@asynccontextmanager
async def open_session(to: Child | Site) -> AsyncIterator[Session]:
    server = HttpServer(to.url) if isinstance(to, Site) else StdioServer(to.command, to.args)
    async with Client(server, mode=to.mode) as client:

        async def call(text: str) -> str:
            return (await client.call_tool("echo", {"text": text})).text

        yield Session(client.list_tools, call)


if __name__ == "__main__":
    drive(open_session)
