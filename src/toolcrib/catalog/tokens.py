"""How much of a model's context a tool takes, estimated.

What a model is given of a tool is its name, its description and its input schema, as JSON. Tokenizers differ and none
is needed here: one token for every 3.5 bytes of the compact JSON in UTF-8. English and schemas run at about four bytes
a token, so this is rather too much than too little; Chinese or Japanese, with three bytes a character, come out at
nearly one token a character.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..errors import UsageError
from ..protocol import jsonrpc
from ..types import Tool

BYTES_PER_TOKEN: Final = 3.5


def estimate_tokens(tool: Tool) -> int:
    """About how many tokens the tool costs in a model's list of tools; never less than one."""
    shown = {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
    try:
        size = len(jsonrpc.encode(shown))
    except UsageError:
        # Only a tool made by hand can hold what JSON cannot say; no list may break on it.
        size = len(str(shown).encode("utf-8", "replace"))
    return max(1, round(size / BYTES_PER_TOKEN))


def tokens_by_server(tools: Iterable[Tool]) -> dict[str, int]:
    """The same for each server, over all of its tools given; what has no server is under the empty name."""
    totals: dict[str, int] = {}
    for tool in tools:
        server = tool.server or ""
        totals[server] = totals.get(server, 0) + estimate_tokens(tool)
    return totals
