"""A tool server behind a port, as a program of its own: `web_child.py TRANSPORT LOG`. The log is as a bad server's."""

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
    """Give the nonce back."""
    os.write(log, f"call {nonce}\n".encode())
    return nonce


server.run(transport, port=0)
