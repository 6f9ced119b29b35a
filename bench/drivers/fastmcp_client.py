"""FastMCP's client, used as its documentation shows. `keep_alive=False` ends the server with the session."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from measure import Child, Session, Site, drive


@asynccontextmanager
async def open_session(to: Child | Site) -> AsyncIterator[Session]:
    server = to.url if isinstance(to, Site) else StdioTransport(to.command, to.args, keep_alive=False)
    async with Client(server, mode=to.mode) as client:

        async def call(text: str) -> str:
            result = await client.call_tool("echo", {"text": text})
            answer: str = result.content[0].text
            return answer

        yield Session(client.list_tools, call)


if __name__ == "__main__":
    drive(open_session)
