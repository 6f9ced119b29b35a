"""Runs in a peer's environment: the clients of Strands' documentation over the SDK's transports; prints observations.

python strands_client.py HTTP_URL SSE_URL STDIO_SCRIPT
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import mcp.client.streamable_http as http
from mcp import StdioServerParameters, stdio_client
from mcp.client.sse import sse_client

from toolcrib.sync import Client as MCPClient

# Under its older name in 1.x, as the document writes it.
streamablehttp_client = getattr(http, "streamablehttp_client", None) or http.streamable_http_client


def main(http_url: str, sse_url: str, script: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    streamable_http_mcp_client = MCPClient(lambda: streamablehttp_client(http_url))
    with streamable_http_mcp_client:
        seen["http tools"] = [tool.name for tool in streamable_http_mcp_client.list_tools()]
        seen["http call"] = streamable_http_mcp_client.call_tool(name="add", arguments={"a": 10, "b": 20}).text

    sse_mcp_client = MCPClient(lambda: sse_client(sse_url))
    with sse_mcp_client:
        seen["sse tools"] = [tool.name for tool in sse_mcp_client.list_tools()]
        seen["sse call"] = sse_mcp_client.call_tool(name="add", arguments={"a": 10, "b": 20}).text

    sse_mcp_client = MCPClient(lambda: sse_client(sse_url))
    stdio_mcp_client = MCPClient(lambda: stdio_client(StdioServerParameters(command=sys.executable, args=[script])))
    with sse_mcp_client, stdio_mcp_client:
        tools = sse_mcp_client.list_tools() + stdio_mcp_client.list_tools()
        seen["all tools"] = [tool.name for tool in tools]
        seen["threads"] = sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("toolcrib"))
    return seen


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
