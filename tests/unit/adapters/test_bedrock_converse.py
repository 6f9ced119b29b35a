"""The Converse API of Amazon Bedrock: what its tools and results look like."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.adapters.showcase import PDF, PNG, STRICT, Showcase, response
from toolcrib.adapters import bedrock_converse
from toolcrib.types import Tool


def document(format: str, name: str, data: bytes) -> dict[str, Any]:
    return {"document": {"format": format, "name": name, "source": {"bytes": data}}}


IMAGE = {"image": {"format": "png", "source": {"bytes": PNG}}}
CONTENT: dict[str, list[Any]] = {
    "text": ["hello"],
    "empty": ["The tool returned no content."],
    "image": ["a dot", IMAGE],
    "wrong_type": [IMAGE],
    "audio": ["[audio: audio/wav, 8 bytes]"],
    "pdf": [document("pdf", "My report 1", PDF)],
    "two_pdfs": [document("pdf", "a", PDF), document("pdf", "a 2", PDF)],
    "csv": [document("csv", "t", b"a,b\n1,2\n")],
    "zip": ["[file:///t.zip: application/zip, 4 bytes]"],
    "data": [{"json": {"sum": 3}}],
    "data_only": [{"json": {"sum": 3}}],
    "text_and_data": ["3 rows", {"json": {"rows": [1, 2, 3]}}],
    "list": ["a", "b"],
}


@pytest.mark.parametrize("name", [*CONTENT, "fail"])
async def test_content(name: str) -> None:
    [block] = await bedrock_converse.results(Showcase(), response("bedrock", (name, {})))
    given = CONTENT.get(name, ["the disk is full"])
    content = [{"text": each} if isinstance(each, str) else each for each in given]
    status = "error" if name == "fail" else "success"
    assert block == {"toolResult": {"toolUseId": "c1", "status": status, "content": content}}


def test_a_description_is_never_empty() -> None:
    [tool] = bedrock_converse.tools([Tool("a", input_schema=STRICT)])
    assert tool == {"toolSpec": {"name": "a", "description": "a", "inputSchema": {"json": STRICT}}}
    [strict] = bedrock_converse.tools([Tool("a", input_schema=STRICT)], strict=True)
    assert strict["toolSpec"]["strict"] is True


def test_a_tool_use_of_the_server_is_not_ours() -> None:
    use = {"toolUseId": "s1", "name": "web", "input": {}, "type": "server_tool_use"}
    assert bedrock_converse.calls([{"toolUse": use}]) == []
