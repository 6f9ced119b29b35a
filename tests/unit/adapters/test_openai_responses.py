"""OpenAI's Responses API: what its tools and results look like."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

import toolcrib as tc
from tests.unit.adapters.showcase import PDF, PNG, STRICT, Showcase, response
from toolcrib.adapters import openai_responses
from toolcrib.types import Tool

IMAGE = {
    "type": "input_image",
    "image_url": f"data:image/png;base64,{b64encode(PNG).decode()}",
    "detail": "auto",
}
OUTPUT: dict[str, Any] = {
    "text": "hello",
    "image": [{"type": "input_text", "text": "a dot"}, IMAGE],
    "audio": "[audio: audio/wav, 8 bytes]",
    "pdf": [
        {
            "type": "input_file",
            "filename": "My_report 1.pdf",
            "file_data": f"data:application/pdf;base64,{b64encode(PDF).decode()}",
        }
    ],
    "zip": "[file:///t.zip: application/zip, 4 bytes]",
    "data_only": '{"sum": 3}',
    "text_and_data": '3 rows\n{"rows": [1, 2, 3]}',
    "fail": "Error: the disk is full",
    "fail_with_image": [{"type": "input_text", "text": "Error:"}, IMAGE],
}


@pytest.mark.parametrize("name", OUTPUT)
async def test_content(name: str) -> None:
    found = await openai_responses.results(Showcase(), response("responses", (name, {})))
    assert found == [{"type": "function_call_output", "call_id": "c1", "output": OUTPUT[name]}]


def test_strict_is_always_said() -> None:
    tools = [Tool("a", input_schema=STRICT)]
    assert [tool["strict"] for tool in openai_responses.tools(tools)] == [False]
    [tool] = openai_responses.tools(tools, strict=True)
    assert tool["strict"] and set(tool["parameters"]["required"]) == {"text", "limit"}


async def test_deferred_tools() -> None:
    server = tc.ToolServer("db")
    for name in ("find", "vacuum"):
        server.add_tool(lambda: "done", name=name, description=f"{name} the table")
    async with tc.Hub({"db": server}) as hub:
        hub.toolsets.register(tc.Toolset("db").defer_all().keep_loaded("find"))
        found = openai_responses.tools(hub, deferred=True)
        assert [(tool.get("name", tool["type"]), tool.get("defer_loading")) for tool in found] == [
            ("mcp__db__find", None),
            ("tool_search", None),
            ("mcp__db__vacuum", True),
        ]
        [find, search] = openai_responses.tools(hub, deferred=True, search="own")
        assert (search["type"], search["execution"]) == ("tool_search", "client")
        assert "query" in search["parameters"]["properties"] and find["name"] == "mcp__db__find"
        ours = {"type": "tool_search_call", "id": "s", "call_id": "c1", "execution": "client", "status": "completed"}
        theirs = {**ours, "execution": "server", "arguments": {}}
        items = [{**ours, "arguments": {"query": "vacuum"}}, theirs, {**ours, "call_id": "c2", "arguments": {}}]
        [some, none] = await openai_responses.results(hub, items)
        assert (some["type"], some["call_id"], some["execution"]) == ("tool_search_output", "c1", "client")
        assert [(tool["name"], tool["defer_loading"]) for tool in some["tools"]] == [("mcp__db__vacuum", True)]
        assert none["tools"] == []
