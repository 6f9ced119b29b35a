"""`toolcrib prompts`."""

from __future__ import annotations

import typer  # noqa: TC002  # typer reads the annotations

from ...types import Prompt
from ..console import Column, is_terminal, say, show_json, show_table
from ..shared_options import TIMEOUT, Config, Json, Long, Servers, Timeout
from ..target import choose, opened


async def command(
    ctx: typer.Context,
    servers: Servers = None,
    config: Config = None,
    long: Long = False,
    as_json: Json = False,
    timeout: Timeout = TIMEOUT,
) -> int:
    """List the prompts and what they take; arguments in brackets may be left out.

    Piped, each is one line: name, arguments, description, separated by tabs.
    """
    async with opened(choose(servers or [], config, ctx.obj.command), timeout=timeout) as session:
        prompts = await session.hub.list_prompts()
        if as_json:
            show_json([{**prompt.raw, "name": prompt.name, "server": prompt.server} for prompt in prompts])
        else:
            rows = [(prompt.name, taken(prompt), prompt.description or prompt.title or "") for prompt in prompts]
            columns = (Column("prompt", "bold"), Column("takes", text=True), Column("what it is for", text=True))
            show_table(columns, rows, brief=not long)
            if not rows and is_terminal():
                say("no prompts")
        return session.code


def taken(prompt: Prompt) -> str:
    """Its arguments, as one would type them."""
    return " ".join(f"{each.name}=" if each.required else f"[{each.name}=]" for each in prompt.arguments)
