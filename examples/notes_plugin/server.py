"""A plugin for the tools provider: notes in memory, which end with the process. plugin.json says how it is started.

It uses only the standard library, so it runs with any Python; `toolcrib.ToolServer` would need ten lines.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

notes: list[str] = []


def list_notes() -> str:
    return ", ".join(notes) or "no notes"


def write_note(text: str) -> str:
    notes.append(text)
    return f"note {len(notes)}"


def whoami() -> str:
    return f"the account with the token ...{os.environ['NOTES_TOKEN'][-4:]}"


TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTHING = {"type": "object", "properties": {}}
TOOLS: dict[str, tuple[Callable[..., str], str, dict[str, Any]]] = {
    "list_notes": (list_notes, "List all notes.", NOTHING),
    "write_note": (write_note, "Write a note.", TEXT),
    "whoami": (whoami, "Say whose notes these are.", NOTHING),
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a request, or None for a method that this server does not have."""
    if method == "initialize":
        info = {"name": "notes", "version": "1.0.0"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [{"name": n, "description": text, "inputSchema": s} for n, (_, text, s) in TOOLS.items()]}
    if method == "tools/call":
        function = TOOLS[params["name"]][0]
        return {"content": [{"type": "text", "text": function(**params.get("arguments", {}))}]}
    return {} if method == "ping" else None


for line in sys.stdin:
    request = json.loads(line)
    if "method" in request and "id" in request:
        result = answer(request["method"], request.get("params") or {})
        error = {"code": -32601, "message": "method not found"}
        reply = {"error": error} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **reply}), flush=True)
