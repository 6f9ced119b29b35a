"""A tool server on a port as a separate program: `web_child.py TRANSPORT LOG`; the log is that of a bad server."""

from __future__ import annotations

import os
import sys
from typing import Any

import toolcrib as tc

transport: Any = sys.argv[1]
log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
server = tc.ToolServer("web", version="1.0.0")


@server.tool
async def echo(nonce: str) -> str:
    """Return the nonce."""
    os.write(log, f"call {nonce}\n".encode())
    return nonce


server.run(transport, port=0)
