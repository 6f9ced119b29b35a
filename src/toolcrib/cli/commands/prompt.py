"""`toolcrib prompt`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from ...types import Prompt, Wire
from ..console import cell, say, show_json
from ..exit_codes import CliError, Exit
from ..key_values import merged, unknown
from ..lookup import check_words, chosen_prompt, is_name, wanted
from ..render import show_block
from ..shared_options import TIMEOUT, Config, Json, Timeout
from ..shell_completion import server_names
from ..target import addressed, opened
from .prompts import taken

EXAMPLES: Final = """
toolcrib prompt mcp__demo__greet name=Ada
"""


async def command(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SERVER] NAME [KEY=VALUE]...",
            help="The prompt: its qualified name, or its own where one server has it; KEY=@FILE is what is in a file.",
            show_default=False,
            autocompletion=server_names,
        ),
    ] = None,
    config: Config = None,
    as_json: Json = False,
    timeout: Timeout = TIMEOUT,
) -> int:
    """Fill in a prompt: its messages, each under the role of who says it."""
    target, rest = addressed(check_words(words, "prompt", "prompts"), config, ctx.obj.command, is_name=is_name)
    name, rest = wanted(rest, "prompt", "prompts")
    target = target.owning(name)
    # Of several servers only the one matters that has it.
    async with opened(target, timeout=timeout, told=len(target.names) == 1) as session:
        prompt = await chosen_prompt(session, name)
        arguments = _arguments(prompt, rest)
        result = await session.hub.get_prompt(prompt.name, arguments)
        if as_json:
            show_json(result.raw)
            return Exit.OK
        for message in result.messages:
            say(f"{cell(message.role)}:")
            show_block(message.content, Path(), str(prompt.raw.get("name", "prompt")))
        return Exit.OK


def _arguments(prompt: Prompt, words: list[str]) -> Wire:
    """They are all texts."""
    schema: Wire = {"type": "object", "properties": {each.name: {"type": "string"} for each in prompt.arguments}}
    arguments, problems = merged(words, schema, {})
    problems += [f"missing {each.name}" for each in prompt.arguments if each.required and each.name not in arguments]
    problems += unknown(arguments, schema)
    if problems:
        raise CliError(f"{prompt.name}: {'; '.join(problems)}", hint=f"it takes {taken(prompt) or 'no arguments'}")
    return arguments
