"""The stdio server that every client calls: as fast as plain Python allows, so that the client dominates the result.

It supports both protocol eras, answers everything that one read returned with one write, and exits when its standard
input ends. `--cpu N` pins it to one processor.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

try:
    from orjson import dumps, loads
except ImportError:  # also runs on an interpreter without orjson
    loads = json.loads

    def dumps(value: Any) -> bytes:  # type: ignore[misc]
        return json.dumps(value, separators=(",", ":")).encode()


INFO = {"name": "bench-echo", "version": "1"}
CAPABILITIES: dict[str, Any] = {"tools": {}}
STALE = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
ECHO = {
    "name": "echo",
    "description": "Returns the text.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def discover(params: dict[str, Any]) -> dict[str, Any]:
    return {
        "supportedVersions": ["2026-07-28"],
        "capabilities": CAPABILITIES,
        "_meta": {"io.modelcontextprotocol/serverInfo": INFO},
        **STALE,
    }


def initialize(params: dict[str, Any]) -> dict[str, Any]:
    return {"protocolVersion": params["protocolVersion"], "capabilities": CAPABILITIES, "serverInfo": INFO}


def list_tools(params: dict[str, Any]) -> dict[str, Any]:
    return {"tools": [ECHO], **STALE}


def call_tool(params: dict[str, Any]) -> dict[str, Any]:
    block = {"type": "text", "text": params["arguments"]["text"]}
    return {"content": [block], "isError": False, "resultType": "complete"}


METHODS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "tools/call": call_tool,
    "tools/list": list_tools,
    "server/discover": discover,
    "initialize": initialize,
    "ping": lambda params: {},
}


def answer(line: bytes) -> bytes:
    message = loads(line)
    if "id" not in message:
        return b""
    method = METHODS.get(message["method"])
    if method is None:
        error = {"code": -32601, "message": "Method not found"}
        return dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}) + b"\n"
    result = method(message.get("params") or {})
    return dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + b"\n"


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] == "--cpu":
        os.sched_setaffinity(0, {int(sys.argv[2])})
    rest = b""
    while chunk := os.read(0, 1 << 20):
        *lines, rest = (rest + chunk).split(b"\n")
        out = b"".join([answer(line) for line in lines if line])
        while out:
            out = out[os.write(1, out) :]


if __name__ == "__main__":
    sys.exit(main())
