"""The demo server over streamable HTTP (modern era), built on aiohttp. It prints its URL, then serves.

Options: `--port 8000` (default: any free port), `--token SECRET` (requires `Authorization: Bearer SECRET`).
"""

from __future__ import annotations

import argparse
import asyncio
import json

from aiohttp import web
from demo_server import JSON, Server

STATUSES = {-32601: 404, -32602: 200}
EVENT_STREAM = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}


class Exchange(Server):
    """One request and its messages: a modern server keeps no state between requests."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: asyncio.Queue[JSON] = asyncio.Queue()

    def send(self, message: JSON) -> None:
        self.messages.put_nowait({"jsonrpc": "2.0", **message})


async def answer(request: web.Request) -> web.StreamResponse:
    token = request.app[TOKEN]
    if token and request.headers.get("Authorization") != f"Bearer {token}":
        return web.Response(status=401, headers={"WWW-Authenticate": 'Bearer realm="demo"'})
    exchange = Exchange()
    exchange.receive(await request.read())
    message = await exchange.messages.get()
    if "method" not in message:  # the response is the first message
        status = STATUSES.get(message["error"]["code"], 400) if "error" in message else 200
        return web.json_response(message, status=status)
    stream = web.StreamResponse(headers=EVENT_STREAM)
    await stream.prepare(request)
    while True:
        await stream.write(b"data: " + json.dumps(message).encode() + b"\n\n")
        if "method" not in message:
            return stream
        message = await exchange.messages.get()


TOKEN = web.AppKey("token", str)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", default="")
    options = parser.parse_args()
    app = web.Application()
    app[TOKEN] = options.token
    app.router.add_post("/mcp", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", options.port).start()
    _, port = runner.addresses[0]
    print(f"http://127.0.0.1:{port}/mcp", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
