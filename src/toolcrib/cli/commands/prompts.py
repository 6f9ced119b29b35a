"""`toolcrib prompts`."""

from __future__ import annotations

from typing import Unpack

from ...types import Prompt
from ..console import Column, is_terminal, say, show_json, show_table
from ..lazy_command import Invocation
from ..target import ServerParameters, open_chosen


async def command(invocation: Invocation, long: bool, as_json: bool, **chosen: Unpack[ServerParameters]) -> int:
    """List the prompts."""
    async with open_chosen(invocation, **chosen) as session:
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
    """Return the arguments of a prompt, as they are typed."""
    return " ".join(f"{each.name}=" if each.required else f"[{each.name}=]" for each in prompt.arguments)
