"""`toolcrib explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..console import cell, say
from ..exit_codes import Exit
from ..lookup import check_words, is_name, no_such, own_of, wanted
from ..shared_options import TIMEOUT, Config, Timeout
from ..shell_completion import server_names
from ..target import addressed, opened


async def command(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SERVER] NAME",
            help="The tool, whether or not there is such a one.",
            show_default=False,
            autocompletion=server_names,
        ),
    ] = None,
    config: Config = None,
    timeout: Timeout = TIMEOUT,
) -> int:
    """Tell why a tool can or cannot be seen and called: the rule, status or setting that decides.

    Whoever needs approval is asked for it by `toolcrib call`.
    """
    target, rest = addressed(check_words(words, "tool", "tools"), config, ctx.obj.command, is_name=is_name)
    name, _ = wanted(rest, "tool", "tools")
    async with opened(target.owning(name), timeout=timeout, told=False) as session:
        hub = session.hub
        every = [tool for state in hub.list_servers() for tool in state.tools]
        names = [tool.name for tool in own_of(name, every)] or [name] * name.startswith("mcp__")
        for full in names:
            say(f"{cell(full)}: {cell(hub.explain(full))}")
        if not names:
            say(f"{cell(name)}: {cell(no_such('tool', name, every))}")
            for state in session.failed:
                say(f"the tools of {state.name} are not known: it is {cell(state.status)}")
        return Exit.OK
