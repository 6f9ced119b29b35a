"""A call is checked against the newest list of its connection."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.provider.kit import make_source_row, make_tools
from toolcrib import Client, ToolServer
from toolcrib.errors import AccessDenied, ToolNotFound
from toolcrib.provider.approved_calls import ApprovedCalls
from toolcrib.provider.snapshot import make_source


def offer(server: ToolServer, *names: str, **required: Any) -> None:
    async def answer(arguments: dict[str, Any]) -> None: ...

    for name in names:
        server.add_tool(answer, name=name, input_schema={"type": "object", **required})


async def test_a_call_is_checked_against_the_newest_list_of_its_connection() -> None:
    changed: list[str] = []
    approved, source = ApprovedCalls(changed.append), make_source(make_source_row("s"))
    server = ToolServer("s", version="1")
    offer(server, "send", "read")
    async with Client(server) as client:
        send, read = make_tools(*(dict(tool.raw) for tool in await client.list_tools()))
        for tool in (send, read, send):
            await approved.check(client, source, tool, 5.0)
        offer(server, "send", required=["password"])
        await client.list_tools(use_cache=False)
        await approved.check(client, source, read, 5.0)
        assert changed == []
        with pytest.raises(AccessDenied, match="changed since it was approved"):
            await approved.check(client, source, send, 5.0)
        server.remove_tool("read")
        await client.list_tools(use_cache=False)
        with pytest.raises(ToolNotFound, match="no longer lists"):
            await approved.check(client, source, read, 5.0)
        assert changed == [source.id] * 2
