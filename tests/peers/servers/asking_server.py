"""An SDK 1.x server of the legacy era whose only tool requests input: python asking_server.py JOURNAL

Every step of every execution is a line of the journal, so that a test can count them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

journal = Path(sys.argv[1])
server = FastMCP("asking")


class Person(BaseModel):
    name: str


def note(step: str) -> None:
    with journal.open("a") as file:
        file.write(f"{step}\n")


@server.tool()
async def greet(nonce: str, ctx: Context[Any, Any, Any]) -> str:
    """Ask twice, then greet."""
    note(f"began {nonce}")
    try:
        first = await ctx.elicit("first name?", Person)
        last = await ctx.elicit("last name?", Person)
    except anyio.get_cancelled_exc_class():
        note(f"cancelled {nonce}")
        raise
    note(f"ended {nonce}")
    names = [said.data.name if said.action == "accept" else said.action for said in (first, last)]
    return f"hello {' '.join(names)}"


server.run("stdio")
