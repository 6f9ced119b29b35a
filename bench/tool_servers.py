"""The measured servers: one tool, `add`, with each library, written as its documentation shows.

The drivers call them in process, or start this file, which serves one of them over HTTP:

    python tool_servers.py MAKE [--plain] [--cpu N]

It prints its URL on stderr, as Toolcrib does, and exits when its standard input ends. `--plain` selects the mode
without sessions and streams in libraries that have one. Access logs are off, and each library uses the HTTP parser that
is installed in its environment: `httptools` if available.
"""

import argparse
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from orjson import loads

PATH = "/mcp"
# As long as the answer of a Toolcrib server: writing it is part of the measurement.
FIXED = (
    b'{"jsonrpc":"2.0","id":%d,"result":{"resultType":"complete","content":[{"type":"text","text":"5"}],'
    b'"structuredContent":{"result":5},"_meta":{"io.modelcontextprotocol/serverInfo":'
    b'{"name":"bench","version":"1"},"dev.toolcrib/wrapped":true}}}'
)
QUIET: dict[str, Any] = {"log_level": "error", "access_log": False, "server_header": False, "date_header": False}


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def toolcrib() -> Any:
    from toolcrib import Context, ToolServer

    async def add_in_context(a: int, b: int, ctx: Context) -> int:
        return a + b

    def add_in_thread(a: int, b: int) -> int:
        return a + b

    server = ToolServer("bench", version="1")
    for function in (add, add_in_context, add_in_thread):
        server.add_tool(function)
    return server


def sdk() -> Any:
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("bench", version="1", log_level="ERROR")
    server.tool()(add)
    return server


def sdk1(**settings: Any) -> Any:
    from mcp.server.fastmcp import FastMCP

    server = FastMCP("bench", log_level="ERROR", **settings)
    server.tool()(add)
    return server


def fastmcp() -> Any:
    from fastmcp import FastMCP

    server = FastMCP("bench", version="1")
    server.tool(add)
    return server


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """Do the minimum of any ASGI server: read the body, parse its id, send an answer."""
    parts = []
    more = True
    while more:
        event = await receive()
        parts.append(event.get("body", b""))
        more = event.get("more_body", False)
    body = FIXED % loads(b"".join(parts)).get("id", 0)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def serve_toolcrib(plain: bool) -> None:
    toolcrib().run("http", port=0, path=PATH)


def serve_sdk(plain: bool) -> None:
    serve_app(sdk().streamable_http_app(stateless_http=plain, json_response=plain))


def serve_sdk1(plain: bool) -> None:
    serve_app(sdk1(stateless_http=plain, json_response=plain).streamable_http_app())


def serve_fastmcp(plain: bool) -> None:
    serve_app(fastmcp().http_app(path=PATH, stateless_http=plain, json_response=plain))


def serve_bare(plain: bool) -> None:
    serve_app(bare, lifespan="off", ws="none")


def serve_app(app: Any, **options: Any) -> None:
    import uvicorn

    # asyncio disables Nagle's algorithm, which delays answers by 40 ms, only if the protocol is given explicitly.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(2048)
    print(f"serves MCP at http://127.0.0.1:{listening.getsockname()[1]}{PATH}", file=sys.stderr, flush=True)
    uvicorn.Server(uvicorn.Config(app, **QUIET, **options)).run(sockets=[listening])


SERVE: dict[str, Callable[[bool], None]] = {
    "toolcrib": serve_toolcrib,
    "sdk": serve_sdk,
    "sdk1": serve_sdk1,
    "fastmcp": serve_fastmcp,
    "bare": serve_bare,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("make", choices=SERVE)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--cpu", type=int)
    options = parser.parse_args()
    if options.cpu is not None:
        os.sched_setaffinity(0, {options.cpu})
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    SERVE[options.make](options.plain)


if __name__ == "__main__":
    main()
