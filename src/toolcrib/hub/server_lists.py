"""What a server lists, kind by kind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from ..client.client import Client
from ..errors import ToolcribError

_FETCH: Final[dict[str, dict[str, Callable[..., Awaitable[list[Any]]]]]] = {
    "tools": {"tools": Client.list_tools},
    "resources": {"resources": Client.list_resources, "resource_templates": Client.list_resource_templates},
    "prompts": {"prompts": Client.list_prompts},
}
KINDS: Final = frozenset(_FETCH)
"""The kinds of which a server tells changes."""


async def fetch(client: Client, kind: str) -> tuple[dict[str, list[Any]], dict[str, ToolcribError]]:
    """The lists of a kind, and why others did not come. Without its tools a server is no use: that is raised."""
    lists = _FETCH[kind]
    outcomes = await asyncio.gather(*(ask(client, use_cache=False) for ask in lists.values()), return_exceptions=True)
    come: dict[str, list[Any]] = {}
    missing: dict[str, ToolcribError] = {}
    for name, outcome in zip(lists, outcomes, strict=True):
        if not isinstance(outcome, BaseException):
            come[name] = outcome
        elif kind == "tools" or not isinstance(outcome, ToolcribError):
            raise outcome
        else:
            missing[name] = outcome
    return come, missing


def kinds_of(lists: Iterable[str]) -> set[str]:
    """The kinds to which these lists belong."""
    return {kind for kind, names in _FETCH.items() if not names.keys().isdisjoint(lists)}


def lists_of(kind: str) -> Iterable[str]:
    """The lists that belong to a kind."""
    return _FETCH[kind]
