"""Find the tool or prompt that a command line names: by qualified name, alias, or own name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from .._util.suggest import did_you_mean
from ..catalog.routing import nearest
from ..hub.hub import Hub
from ..types import Prompt, Tool
from .exit_codes import CliError, Exit
from .lazy_command import LAUNCHERS
from .target import HubSession, Target, is_file, is_url, split_server, typed_hint

T = TypeVar("T", Tool, Prompt)


def is_name(word: str) -> bool:
    """Return whether a word can name a tool or prompt: not an argument, `-` or a server."""
    return word.startswith("mcp__") or ("=" not in word and word != "-" and not is_url(word) and not is_file(word))


def split_words(
    kind: str,
    words: Sequence[str],
    config: Path | None,
    command: Sequence[str],
    *,
    is_name: Callable[[str], bool] = is_name,
) -> tuple[Target, str, list[str]]:
    """Split `[SERVER] NAME ARGUMENTS...`: return the servers, the name of a `kind` of thing, and the arguments."""
    if words:  # without a name no settings are needed
        target, rest = split_server(words, config, command, is_name=is_name)
        if rest and is_name(rest[0]):
            stray = next((word for word in rest[1:] if not command and Path(word).name in LAUNCHERS), None)
            if stray is not None:
                raise CliError(f"{stray}: not an argument of a {kind}", hint=typed_hint([stray]))
            return target, rest[0], rest[1:]
    raise CliError(f"no {kind} given", hint=f"`toolcrib {kind}s` lists them")


async def count_hidden(hub: Hub) -> dict[str, int]:
    """Return how many tools of each server are hidden by rules; servers without hidden tools are left out."""
    visible = {tool.name for tool in await hub.list_tools(deferred=True)}
    hidden = {state.name: sum(tool.name not in visible for tool in state.tools) for state in hub.list_servers()}
    return {name: count for name, count in hidden.items() if count}


async def find_tool(session: HubSession, name: str) -> Tool:
    """Return the tool of this name; also a hidden one, as the call then explains why it is not allowed."""
    visible = await session.hub.list_tools(deferred=True)
    every = [tool for state in session.hub.list_servers() for tool in state.tools]
    for tools in (visible, every):
        found = _find("tool", name, tools, {session.hub.alias(tool.name): tool for tool in tools})
        if found is not None:
            return found
    raise _not_found("tool", name, visible, session)


async def find_prompt(session: HubSession, name: str) -> Prompt:
    """Return the prompt of this name."""
    prompts = await session.hub.list_prompts()
    found = _find("prompt", name, prompts, {})
    if found is None:
        raise _not_found("prompt", name, prompts, session)
    return found


def _find(kind: str, name: str, items: Sequence[T], by_alias: dict[str, T]) -> T | None:
    """Return the item of this qualified name, alias or own name; raise `CliError` if several have it."""
    known = by_alias | {item.name: item for item in items}
    found = [known[name]] if name in known else with_own_name(name, items)
    if len(found) > 1:
        hint = f"use one of the qualified names: {' or '.join(item.name for item in found)}"
        raise CliError(f"{len(found)} servers have a {kind} {name!r}", hint=hint)
    return found[0] if found else None


def with_own_name(name: str, items: Iterable[T]) -> list[T]:
    """Return the items that have this name at their own server."""
    return [item for item in items if item.raw.get("name") == name]


def describe_missing(kind: str, name: str, items: Iterable[T]) -> str:
    """Return a message for a missing item, with the most similar names."""
    full = {item.name: str(item.raw.get("name", "")) for item in items}
    own = nearest(name, full.values())
    near = nearest(name, full) or tuple(each for each, short in full.items() if short in own)
    return f"there is no {kind} {name!r}{did_you_mean(near)}"


def _not_found(kind: str, name: str, items: Iterable[T], session: HubSession) -> CliError:
    failed = ", ".join(state.name for state in session.failed)
    hint = f"`toolcrib {kind}s` lists them" + (f"; {failed} could not be started" if failed else "")
    return CliError(describe_missing(kind, name, items), hint=hint, code=Exit.NOT_FOUND)
