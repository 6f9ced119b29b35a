"""Our client, as the README shows it: every default in place, deadlines included."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from measure import Child, Session, drive

from toolyard import Client, StdioServer


@asynccontextmanager
async def open_session(child: Child) -> AsyncIterator[Session]:
    async with Client(StdioServer(child.command, child.args), mode=child.mode) as client:

        async def call(text: str) -> str:
            return (await client.call_tool("echo", {"text": text})).text

        yield Session(client.list_tools, call)


if __name__ == "__main__":
    drive(open_session)
