"""Anthropic's Messages API: what its tools and results look like."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

import toolcrib as tc
from tests.unit.adapters.showcase import PDF, PNG, Showcase, response
from toolcrib.adapters import anthropic_messages
from toolcrib.types import Tool

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": b64encode(PNG).decode()}}
DOCUMENT = {
    "type": "document",
    "title": "My_report 1.pdf",
    "source": {"type": "base64", "media_type": "application/pdf", "data": b64encode(PDF).decode()},
}
CONTENT: dict[str, list[Any]] = {
    "text": ["hello"],
    "empty": ["The tool returned no content."],
    "image": ["a dot", IMAGE],
    "wrong_type": [IMAGE],
    "drawing": ["[image: image/svg+xml, 6 bytes]"],
    "audio": ["[audio: audio/wav, 8 bytes]"],
    "link": ["a.txt <file:///a.txt>"],
    "note": ["file:///n.md:\n# Note"],
    "pdf": [DOCUMENT],
    "csv": ["file:///t.csv:\na,b\n1,2\n"],
    "zip": ["[file:///t.zip: application/zip, 4 bytes]"],
    "data": ['{"sum": 3}'],
    "data_only": ['{"sum": 3}'],
    "text_and_data": ["3 rows", '{"rows": [1, 2, 3]}'],
    "list": ["a", "b"],
}


@pytest.mark.parametrize("name", CONTENT)
async def test_content(name: str) -> None:
    [result] = await anthropic_messages.results(Showcase(), response("anthropic", (name, {})))
    expected = [{"type": "text", "text": each} if isinstance(each, str) else each for each in CONTENT[name]]
    assert result == {"type": "tool_result", "tool_use_id": "c1", "content": expected}


async def test_an_error_has_the_flag_and_its_content() -> None:
    calls = response("anthropic", ("fail", {}), ("fail_with_image", {}))
    results = await anthropic_messages.results(Showcase(), calls)
    assert [(result["is_error"], result["content"]) for result in results] == [
        (True, [{"type": "text", "text": "the disk is full"}]),
        (True, [IMAGE]),
    ]


async def test_a_tool_use_of_the_server_is_not_ours() -> None:
    block = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    assert anthropic_messages.calls([block]) == []


def test_strict_tools() -> None:
    closed = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    opened = {"type": "object", "properties": {"m": {"type": "object", "additionalProperties": True}}}
    tools = [Tool(f"t{n}", input_schema=closed) for n in range(21)]
    found = anthropic_messages.tools([Tool("open", input_schema=opened), *tools], strict=True)
    assert "strict" not in found[0] and sum(tool.get("strict", False) for tool in found) == 20
    assert {loss.tool for loss in found.losses} == {"open", "t20"}
    assert all("strict" not in tool for tool in anthropic_messages.tools(tools))


async def test_deferred_tools() -> None:
    server = tc.ToolServer("db")
    for name in ("find", "vacuum"):
        server.add_tool(lambda: "done", name=name, description=f"{name} the table")
    async with tc.Hub({"db": server}) as hub:
        assert "tool_search" not in str(anthropic_messages.tools(hub, deferred=True))
        hub.toolsets.register(tc.Toolset("db").defer_all())
        for search in ("regex", "bm25"):
            found = anthropic_messages.tools(hub, deferred=True, search=search)  # type: ignore[arg-type]
            assert found[0] == {
                "type": f"tool_search_tool_{search}_20251119",
                "name": f"tool_search_tool_{search}",
            }
            assert [(tool["name"], tool["defer_loading"]) for tool in found[1:]] == [
                ("mcp__db__find", True),
                ("mcp__db__vacuum", True),
            ]
        own = anthropic_messages.tools(hub, deferred=True, search="own")
        assert [(tool["name"], tool.get("defer_loading")) for tool in own] == [
            ("search_tools", None),
            ("mcp__db__find", True),
            ("mcp__db__vacuum", True),
        ]
        calls = response("anthropic", ("search_tools", {"query": "vacuum"}), ("search_tools", {"query": "zebra"}))
        [some, none] = await anthropic_messages.results(hub, calls)
        assert some["content"] == [{"type": "tool_reference", "tool_name": "mcp__db__vacuum"}]
        assert none["content"] == [{"type": "text", "text": "No tool matches these words: try others."}]
