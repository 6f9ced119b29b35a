"""`toolcrib tools`."""

from __future__ import annotations

import json
from typing import Any, Unpack

from ...catalog.tokens import estimate_tokens
from ...types import Tool
from ..console import Column, Styled, indented, is_terminal, say, say_title, show_json, show_table
from ..key_values import parameters
from ..lazy_command import Invocation
from ..lookup import count_hidden
from ..target import ServerParameters, open_chosen


async def command(
    invocation: Invocation,
    search: str,
    limit: int,
    schema: bool,
    long: bool,
    as_json: bool,
    **chosen: Unpack[ServerParameters],
) -> int:
    """List the tools, or search them."""
    async with open_chosen(invocation, offer_sign_in=True, **chosen) as session:
        if search:
            tools = await session.hub.search_tools(search, limit=limit)
        else:
            tools = await session.hub.list_tools(deferred=True)
        if as_json:
            show_json([_as_json(tool) for tool in tools])
        elif schema and is_terminal():
            for tool in tools:
                _show_whole(tool)
        else:
            show_table(
                (Column("tool", "bold"), Column("tokens", optional=1), Column("what it does", text=True)),
                [_row(tool, schema) for tool in tools],
                brief=not long,
            )
        if is_terminal() and not as_json:
            hidden = 0 if search else sum((await count_hidden(session.hub)).values())
            say(_sum(tools, search) + (f"; {hidden} hidden by rules" if hidden else ""))
        return session.code


def _sum(tools: list[Tool], search: str) -> str:
    if not tools:
        return f"no tool matches {search!r}" if search else "no tools"
    return f"{len(tools)} tool{'s' * (len(tools) > 1)}, about {sum(map(estimate_tokens, tools)):,} tokens"


def _row(tool: Tool, schema: bool) -> list[Any]:
    return [tool.name, estimate_tokens(tool), _about(tool), *([json.dumps(tool.input_schema)] if schema else [])]


def _about(tool: Tool) -> str:
    return tool.description or tool.title or ""


def _as_json(tool: Tool) -> dict[str, Any]:
    """Return a tool as its server lists it, but with its qualified name, its server and its tokens."""
    ours = {"name": tool.name, "server": tool.server, "original_name": tool.original_name}
    return {**ours, **{key: value for key, value in tool.raw.items() if key != "name"}, "tokens": estimate_tokens(tool)}


def _show_whole(tool: Tool) -> None:
    say_title(f"{tool.name}  {estimate_tokens(tool)} tokens")
    if about := _about(tool):
        say(indented(about))
    rows = [
        (name, kind, Styled("required", "yellow") if needed else "", about)
        for name, kind, needed, about in parameters(tool.input_schema)
    ]
    if rows:
        columns = (Column("argument", "bold"), Column("type", "cyan", text=True), "", Column("what it is", text=True))
        show_table(columns, rows)
    else:
        say()
