"""`toolcrib explain`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..console import cell, say
from ..exit_codes import Exit
from ..lazy_command import Invocation
from ..lookup import describe_missing, split_words, with_own_name
from ..target import open_servers


async def command(invocation: Invocation, words: Sequence[str], config: Path | None, timeout: float | None) -> int:
    """Explain why a tool can or cannot be called."""
    target, name, _ = split_words("tool", words, config, invocation.command)
    async with open_servers(target.owner_of(name), timeout=timeout, report_failures=False) as session:
        hub = session.hub
        every = [tool for state in hub.list_servers() for tool in state.tools]
        names = [tool.name for tool in with_own_name(name, every)] or [name] * name.startswith("mcp__")
        for full in names:
            say(f"{cell(full)}: {cell(hub.explain(full))}")
        if not names:
            say(f"{cell(name)}: {cell(describe_missing('tool', name, every))}")
            for state in session.failed:
                say(f"{state.name} has not listed its tools yet; its status is {cell(state.status)}")
        return Exit.OK
