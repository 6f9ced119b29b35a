"""`toolcrib prompt`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...types import Prompt, Wire
from ..console import cell, say, show_json
from ..exit_codes import CliError, Exit
from ..key_values import merged, unknown
from ..lazy_command import Invocation
from ..lookup import find_prompt, split_words
from ..render import show_block
from ..target import open_servers
from .prompts import taken


async def command(
    invocation: Invocation, words: Sequence[str], config: Path | None, as_json: bool, timeout: float | None
) -> int:
    """Fill in a prompt."""
    target, name, rest = split_words("prompt", words, config, invocation.command)
    target = target.owner_of(name)
    # Failures of servers that do not have the prompt do not matter.
    async with open_servers(target, timeout=timeout, report_failures=len(target.names) == 1) as session:
        prompt = await find_prompt(session, name)
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
    """Return the arguments of a prompt, which are all strings; raise `CliError` if they do not fit."""
    schema: Wire = {"type": "object", "properties": {each.name: {"type": "string"} for each in prompt.arguments}}
    arguments, problems = merged(words, schema, {})
    problems += [f"missing {each.name}" for each in prompt.arguments if each.required and each.name not in arguments]
    problems += unknown(arguments, schema)
    if problems:
        raise CliError(f"{prompt.name}: {'; '.join(problems)}", hint=f"it takes {taken(prompt) or 'no arguments'}")
    return arguments
