"""OpenAI's Chat Completions API: what its tools and results look like."""

from __future__ import annotations

from base64 import b64encode

import pytest

from tests.unit.adapters.showcase import PNG, STRICT, Showcase, response
from toolcrib.adapters import openai_chat
from toolcrib.types import Tool

CONTENT = {
    "text": "hello",
    "empty": "The tool returned no content.",
    "drawing": "[image: image/svg+xml, 6 bytes]",
    "audio": "[audio: audio/wav, 8 bytes]",
    "link": "a.txt <file:///a.txt>",
    "note": "file:///n.md:\n# Note",
    "pdf": "[file:///out/My_report%201.pdf: application/pdf, 15 bytes]",
    "csv": "file:///t.csv:\na,b\n1,2\n",
    "data": '{"sum": 3}',
    "text_and_data": '3 rows\n{"rows": [1, 2, 3]}',
    "list": "a\nb",
    "fail": "Error: the disk is full",
}


@pytest.mark.parametrize("name", CONTENT)
async def test_content(name: str) -> None:
    found = await openai_chat.results(Showcase(), response("chat", (name, {})))
    assert found == [{"role": "tool", "tool_call_id": "c1", "content": CONTENT[name]}]


async def test_images_follow_in_one_user_message() -> None:
    found = await openai_chat.results(Showcase(), response("chat", ("image", {}), ("text", {}), ("wrong_type", {})))
    assert [message["role"] for message in found] == ["tool", "tool", "tool", "user"]
    assert found[0]["content"].startswith("a dot\n[image: image/png, 70 bytes] (image 1 ")
    url = f"data:image/png;base64,{b64encode(PNG).decode()}"
    image = {"type": "image_url", "image_url": {"url": url}}
    assert found[3]["content"] == [
        {"type": "text", "text": "image 1, from the result of c1:"},
        image,
        {"type": "text", "text": "image 2, from the result of c3:"},
        image,
    ]


def test_strict_is_always_said() -> None:
    opened = {"type": "object", "properties": {"m": {"type": "object", "additionalProperties": True}}}
    tools = [Tool("a", input_schema=STRICT), Tool("b", input_schema=opened)]
    assert [tool["function"]["strict"] for tool in openai_chat.tools(tools)] == [False, False]
    found = openai_chat.tools(tools, strict=True)
    assert [tool["function"]["strict"] for tool in found] == [True, False]
    assert [loss.tool for loss in found.losses] == ["b"]


def test_only_function_calls_of_the_first_choice_are_read() -> None:
    custom = {"id": "c9", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    whole = response("chat", ("text", {}))
    whole["choices"][0]["message"]["tool_calls"].append(custom)
    whole["choices"].append(response("chat", ("fail", {}))["choices"][0])
    assert [call.name for call in openai_chat.calls(whole)] == ["text"]
