"""Checks that a connection lists a tool as it was approved, before a call is sent over it.

A call is sent by name, and the server may have changed what the name stands for since the source was listed: an
unpinned package, for example, can be another version in each new process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

from ..client.client import Client
from ..client.tool_calls import listing_before_call
from ..errors import AccessDenied, ToolNotFound
from ..types import Tool
from .compatibility import ChangeKind, classify
from .inventory import InventoryTool, hash_definition
from .snapshot import Source


class _ListedTools:
    """The tools of one list of a connection, and the hashes of those that were called."""

    __slots__ = ("_hashes", "_tools", "first", "size")

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.first = tools[0]
        self.size = len(tools)
        self._tools = {tool.name: tool for tool in reversed(tools)}  # of equal names, the first one counts
        self._hashes: dict[str, str] = {}

    def find(self, name: str) -> tuple[Tool, str] | None:
        """Return a tool and the hash of its definition."""
        tool = self._tools.get(name)
        if tool is None:
            return None
        if name not in self._hashes:
            self._hashes[name] = hash_definition(tool.raw)
        return tool, self._hashes[name]


class ApprovedCalls:
    """Checks calls. `on_change` is called with the id of a source that lists something new."""

    def __init__(self, on_change: Callable[[str], None]) -> None:
        self._on_change = on_change
        self._listed: WeakKeyDictionary[Client, _ListedTools] = WeakKeyDictionary()

    async def check(self, client: Client, source: Source, tool: InventoryTool, timeout: float | None) -> None:
        """Raise `AccessDenied` if the connection lists a definition that the review policy of the source withholds.

        The list is fetched once for each connection, after each announced change, and every five minutes. A source
        that follows changes need not be checked.
        """
        found = self._find(client, await _list_tools(client, timeout), tool.name)
        if found is None:
            self._on_change(source.id)
            message = "the source no longer lists this tool; nothing was sent"
            raise ToolNotFound(message, server=source.name, tool=tool.name)
        listed, digest = found
        if digest in (tool.hash, tool.pending_hash):
            return
        self._on_change(source.id)
        if classify(tool.definition, listed.raw) is ChangeKind.BREAKING:
            message = (
                f"the tool changed since it was approved; nothing was sent. Look at provider.review({source.name!r})"
            )
            raise AccessDenied(message, server=source.name, tool=tool.name, rule="review: withheld")

    def _find(self, client: Client, tools: Sequence[Tool], name: str) -> tuple[Tool, str] | None:
        if not tools:
            return None
        known = self._listed.get(client)
        # A list that is fetched again has new objects, also if nothing changed.
        if known is None or known.first is not tools[0] or known.size != len(tools):
            known = self._listed[client] = _ListedTools(tools)
        return known.find(name)


async def _list_tools(client: Client, timeout: float | None) -> list[Tool]:
    with listing_before_call():
        return await client.list_tools(use_cache=True, timeout=timeout)
