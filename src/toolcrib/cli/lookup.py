"""Which tool or prompt a person means: its qualified name, its alias, or its own name where only one server has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from .._util.suggest import did_you_mean
from ..catalog.routing import nearest
from ..types import Prompt, Tool
from .exit_codes import CliError, Exit
from .target import HubSession, is_file, is_url

T = TypeVar("T", Tool, Prompt)


def is_name(word: str) -> bool:
    """Whether a word can be the name of a tool or prompt: neither an argument nor standard input, nor a server."""
    return word.startswith("mcp__") or ("=" not in word and word != "-" and not is_url(word) and not is_file(word))


def wanted(
    words: list[str], what: str, listed_by: str, *, is_name: Callable[[str], bool] = is_name
) -> tuple[str, list[str]]:
    """The name, which comes first, and the arguments behind it."""
    if not words or not is_name(words[0]):
        raise CliError(f"which {what}?", hint=f"`toolcrib {listed_by}` lists them")
    return words[0], words[1:]


def check_words(words: list[str] | None, what: str, listed_by: str) -> list[str]:
    """Return the words of a command line, of which there must be some: without a name no settings are needed."""
    if not words:
        raise CliError(f"which {what}?", hint=f"`toolcrib {listed_by}` lists them")
    return words


async def chosen_tool(session: HubSession, name: str) -> Tool:
    """The tool of this name. Who means a hidden one learns from the call why it cannot be called."""
    visible = await session.hub.list_tools(deferred=True)
    every = [tool for state in session.hub.list_servers() for tool in state.tools]
    for tools in (visible, every):
        known = {session.hub.alias(tool.name): tool for tool in tools} | {tool.name: tool for tool in tools}
        if name in known:
            return known[name]
        found = own_of(name, tools)
        if found:
            return _the_one("tool", name, found)
    raise CliError(no_such("tool", name, visible), hint=_hint("tools", session), code=Exit.NOT_FOUND)


async def chosen_prompt(session: HubSession, name: str) -> Prompt:
    """The prompt of this name."""
    prompts = await session.hub.list_prompts()
    known = {prompt.name: prompt for prompt in prompts}
    if name in known:
        return known[name]
    found = own_of(name, prompts)
    if found:
        return _the_one("prompt", name, found)
    raise CliError(no_such("prompt", name, prompts), hint=_hint("prompts", session), code=Exit.NOT_FOUND)


def own_of(name: str, items: Iterable[T]) -> list[T]:
    """Those that their own server calls so."""
    return [item for item in items if item.raw.get("name") == name]


def _the_one(what: str, name: str, found: list[T]) -> T:
    if len(found) > 1:
        hint = f"say which: {' or '.join(item.name for item in found)}"
        raise CliError(f"{len(found)} servers have a {what} {name!r}", hint=hint)
    return found[0]


def no_such(what: str, name: str, items: Iterable[T]) -> str:
    """That there is none, and what may have been meant."""
    full = {item.name: str(item.raw.get("name", "")) for item in items}
    own = nearest(name, full.values())
    near = nearest(name, full) or tuple(each for each, short in full.items() if short in own)
    return f"there is no {what} {name!r}{did_you_mean(near)}"


def _hint(command: str, session: HubSession) -> str:
    silent = ", ".join(state.name for state in session.failed)
    return f"`toolcrib {command}` lists them" + (f"; {silent} could not be asked" if silent else "")
