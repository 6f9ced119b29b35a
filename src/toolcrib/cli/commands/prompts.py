"""`toolcrib prompts`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...types import Prompt
from ..console import Column, is_terminal, say, show_json, show_table
from ..lazy_command import Invocation
from ..target import choose, opened


async def command(
    invocation: Invocation,
    servers: Sequence[str],
    config: Path | None,
    long: bool,
    as_json: bool,
    timeout: float | None,
) -> int:
    """List the prompts."""
    async with opened(choose(servers, config, invocation.command), timeout=timeout) as session:
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
