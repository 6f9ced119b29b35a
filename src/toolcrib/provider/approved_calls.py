"""Checks that a connection lists a tool as it was approved, before a call is sent over it.

A call is sent by name, and the server may have changed what the name stands for since the source was listed: an
unpinned package, for example, can be another version in each new process.
"""

from __future__ import annotations

from collections.abc import Callable

from ..client.client import Client
from ..errors import AccessDenied, CallTimeout, ConnectionLost, OutcomeUnknown, ToolcribError, ToolNotFound
from ..types import Tool
from .compatibility import ChangeKind, classify
from .inventory import InventoryTool, hash_definition
from .snapshot import Source
from .source_config import ReviewPolicy


async def check_approved(
    client: Client,
    source: Source,
    tool: InventoryTool,
    timeout: float | None,
    on_change: Callable[[str], None],
) -> None:
    """Raise `AccessDenied` if the connection lists a definition that the review policy of the source withholds.

    The list is fetched once for each connection, after each announced change, and every five minutes. A source that
    follows changes is not checked. `on_change` is called with the id of a source that lists something new.
    """
    if source.config.review is ReviewPolicy.FOLLOW:
        return
    listed = next((each for each in await _list_tools(client, timeout) if each.name == tool.name), None)
    if listed is None:
        on_change(source.id)
        raise ToolNotFound("the source no longer lists this tool; nothing was sent", server=source.name, tool=tool.name)
    if hash_definition(listed.raw) in (tool.hash, tool.pending_hash):
        return
    on_change(source.id)
    if classify(tool.definition, listed.raw) is ChangeKind.BREAKING:
        message = f"the tool changed since it was approved; nothing was sent. Look at provider.review({source.name!r})"
        raise AccessDenied(message, server=source.name, tool=tool.name, rule="review: withheld")


async def _list_tools(client: Client, timeout: float | None) -> list[Tool]:
    try:
        return await client.list_tools(use_cache=True, timeout=timeout)
    except OutcomeUnknown as exc:
        kind = CallTimeout if isinstance(exc, CallTimeout) else ConnectionLost
        raise kind("the tools could not be listed before the call, which was not sent") from exc
    except ToolcribError as exc:
        exc.sent = False
        raise
