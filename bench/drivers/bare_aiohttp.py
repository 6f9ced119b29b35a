"""Bare aiohttp: one POST per call, the answer is read at once; no time-outs, limits, states or types."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientSession
from bare_descriptors import INFO, META
from measure import Session, Site, drive
from orjson import dumps, loads


@asynccontextmanager
async def open_session(site: Site) -> AsyncIterator[Session]:
    # Sends the same bytes as the other clients: in the modern era, metadata in each body and some of it in headers.
    modern = site.mode == "auto"
    meta = {"_meta": META} if modern else {}
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    last_id = 0

    async with ClientSession() as http:

        async def request(method: str, params: dict[str, Any], **named: str) -> dict[str, Any]:
            nonlocal last_id
            last_id += 1
            body = dumps({"jsonrpc": "2.0", "id": last_id, "method": method, "params": params})
            request_headers = {**headers, "Mcp-Method": method, **named} if modern else headers
            async with http.post(site.url, data=body, headers=request_headers) as response:
                answer = await response.read()
                if "Mcp-Session-Id" in response.headers:
                    headers["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
            if response.content_type == "text/event-stream":
                answer = answer[answer.index(b"data: ") + 6 :]
            result: dict[str, Any] = loads(answer)["result"]
            return result

        headers["MCP-Protocol-Version"] = "2026-07-28" if modern else "2025-11-25"
        if modern:
            await request("server/discover", meta)
        else:
            await request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO})
            ready = dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
            async with http.post(site.url, data=ready, headers=headers):
                pass

        async def call(text: str) -> str:
            result = await request("tools/call", {"name": "echo", "arguments": {"text": text}, **meta}, **named)
            answer: str = result["content"][0]["text"]
            return answer

        named = {"Mcp-Name": "echo"} if modern else {}
        yield Session(lambda: request("tools/list", meta), call)


if __name__ == "__main__":
    drive(open_session)
