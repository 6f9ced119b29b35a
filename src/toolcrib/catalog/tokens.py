"""Estimates how much of a model's context a tool takes.

A model gets a tool's name, description and input schema as JSON. The estimate needs no tokenizer: it counts one token
for every 3.5 bytes of the compact JSON in UTF-8. English text and schemas have about four bytes per token, so the
estimate is rather too high than too low; Chinese and Japanese, with three bytes per character, give nearly one token
per character.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..errors import UsageError
from ..protocol import jsonrpc
from ..types import Tool

BYTES_PER_TOKEN: Final = 3.5


def estimate_tokens(tool: Tool) -> int:
    """Return an estimate of the tokens that a tool takes in a model's context; at least 1."""
    shown = {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
    try:
        size = len(jsonrpc.encode(shown))
    except UsageError:
        # Only a tool created in Python can contain values that JSON cannot represent; lists must not fail for it.
        size = len(str(shown).encode("utf-8", "replace"))
    return max(1, round(size / BYTES_PER_TOKEN))


def tokens_by_server(tools: Iterable[Tool]) -> dict[str, int]:
    """Return the estimated tokens of these tools by server; tools without a server are under the empty name."""
    totals: dict[str, int] = {}
    for tool in tools:
        server = tool.server or ""
        totals[server] = totals.get(server, 0) + estimate_tokens(tool)
    return totals
