"""Google's Gemini API: what its tools and results look like."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from tests.unit.adapters.showcase import PDF, PNG, STRICT, Showcase, response
from toolcrib.adapters import gemini
from toolcrib.types import Tool


def inline(mime_type: str, data: bytes) -> dict[str, Any]:
    return {"inlineData": {"mimeType": mime_type, "data": b64encode(data).decode()}}


RESPONSES: dict[str, tuple[Any, list[Any]]] = {
    "text": ({"output": "hello"}, []),
    "empty": ({"output": "The tool returned no content."}, []),
    "image": ({"output": "a dot"}, [inline("image/png", PNG)]),
    "drawing": ({"output": "[image: image/svg+xml, 6 bytes]"}, []),
    "audio": ({"output": ""}, [inline("audio/wav", b"RIFFabcd")]),
    "pdf": ({"output": ""}, [inline("application/pdf", PDF)]),
    "zip": ({"output": "[file:///t.zip: application/zip, 4 bytes]"}, []),
    "data": ({"output": {"sum": 3}}, []),
    "data_only": ({"output": {"sum": 3}}, []),
    "list": ({"output": ["a", "b"]}, []),
    "text_and_data": ({"output": {"text": "3 rows", "data": {"rows": [1, 2, 3]}}}, []),
    "fail": ({"error": "the disk is full"}, []),
    "fail_with_image": ({"error": ""}, [inline("image/png", PNG)]),
}


@pytest.mark.parametrize("name", RESPONSES)
async def test_content(name: str) -> None:
    expected, parts = RESPONSES[name]
    [content] = await gemini.results(Showcase(), response("gemini", (name, {})))
    [part] = content["parts"]
    given = {"name": name, "id": "c1", "response": expected, **({"parts": parts} if parts else {})}
    assert (content["role"], part) == ("user", {"functionResponse": given})


async def test_a_call_without_an_id_is_answered_without_one() -> None:
    [content] = await gemini.results(Showcase(), {"parts": [{"function_call": {"name": "text", "args": None}}]})
    assert content["parts"] == [{"functionResponse": {"name": "text", "response": {"output": "hello"}}}]


def test_calls_of_the_live_api() -> None:
    call = {"id": "1", "name": "text", "args": {}}
    assert [each.name for each in gemini.calls({"toolCall": {"functionCalls": [call]}})] == ["text"]
    assert [each.name for each in gemini.calls({"functionCalls": [call]})] == ["text"]


def test_the_two_dialects() -> None:
    [plain] = gemini.tools([Tool("a", description="A", input_schema=STRICT)])
    assert plain == {"functionDeclarations": [{"name": "a", "description": "A", "parametersJsonSchema": STRICT}]}
    [subset] = gemini.tools([Tool("a", description="A", input_schema=STRICT)], dialect="openapi")
    assert subset["functionDeclarations"][0]["parameters"]["type"] == "OBJECT"
    assert [loss.keyword for loss in gemini.tools([Tool("a")], strict=True).losses] == ["strict"]
