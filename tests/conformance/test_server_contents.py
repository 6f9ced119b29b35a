"""The answers of the server under test, tool by tool, the same in both eras, read by Toolcrib's client.

The official suite looks at the form of answers. A server that answered nonsense, or whose tools all failed, would pass.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from base64 import b64encode
from typing import Any

import pytest

import toolcrib as tc
from tests.conformance.scenarios import LEGACY, MODERN
from tests.conformance.served import Served

PNG_START, WAV_START = b"\x89PNG\r\n\x1a\n", b"RIFF"
WITHIN = 20.0

Mode = str
BOTH = pytest.mark.parametrize("mode", ["legacy", MODERN])


class Guest:
    """A client that can be asked for everything, and notes what it was asked."""

    def __init__(self, url: str, mode: Mode, **options: Any) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.client = tc.Client(
            tc.HttpServer(url),
            mode=mode,
            **{
                "sampling_handler": self._complete,
                "elicitation_handler": self._fill_in,
                "roots": ["file:///crib"],
                "execution_timeout": WITHIN,
                **options,
            },
        )

    def _complete(self, request: tc.SamplingRequest) -> str:
        self.asked.append((request.text, request.max_tokens))
        return "a model's answer"

    def _fill_in(self, request: tc.ElicitRequest) -> dict[str, Any]:
        self.asked.append((request.message, sorted(request.schema["properties"])))
        values = {"string": "Ann", "boolean": True, "integer": 7, "number": 1.5}
        return {
            name: field.get("default", values.get(field["type"], []))
            for name, field in request.schema["properties"].items()
        }


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


# ---- tools ---------------------------------------------------------------------------------------------------------

SAID: dict[str, tuple[dict[str, Any], str]] = {
    "test_simple_text": ({}, "This is a simple text response for testing."),
    "test_tool_with_logging": ({}, "Tool with logging executed successfully"),
    "test_logging_tool": ({}, "Logged at every level"),
    "test_tool_with_progress": ({}, "progress told to nobody"),
    "test_reconnection": ({}, "Reconnection test completed"),
    "test_x_mcp_header": ({"region": "Grüße aus Köln "}, "region=Grüße aus Köln "),
    "json_schema_2020_12_tool": (
        {"name": "Ann", "contactMethod": "phone", "phone": "123"},
        "Ann is reached by 123",
    ),
    "test_trigger_tool_change": ({}, "the tools have changed"),
    "test_trigger_prompt_change": ({}, "the prompts have changed"),
    "test_touch_watched_resource": ({}, "the watched resource has changed"),
    "test_sampling": ({"prompt": "2 + 2?"}, "LLM response: a model's answer"),
    "test_elicitation": (
        {"message": "Who are you?"},
        'User response: action=accept, content={"username": "Ann", "email": "Ann"}',
    ),
    "test_missing_capability": ({}, "a model's answer"),
    "test_streaming_elicitation": ({}, 'Hello, action=accept, content={"name": "Ann"}'),
    "test_input_required_result_elicitation": ({}, "Hello, Ann!"),
    "test_input_required_result_sampling": ({}, "a model's answer"),
    "test_input_required_result_list_roots": ({}, "Roots: file:///crib (unnamed)"),
    "test_input_required_result_request_state": ({}, 'state-ok: action=accept, content={"ok": true}'),
    "test_input_required_result_tampered_state": ({}, 'confirmed: action=accept, content={"ok": true}'),
    "test_input_required_result_multiple_inputs": ({}, "a model's answer Ann, at home in ['file:///crib']"),
    "test_input_required_result_multi_round": ({}, "Ann likes Ann"),
    "test_input_required_result_capabilities": ({}, "2 answers"),
    "test_elicitation_sep1034_defaults": (
        {},
        (
            "Elicitation completed: action=accept, "
            'content={"name": "John Doe", "age": 30, "score": 95.5, "status": "active", "verified": true}, '
            "read as Profile(name='John Doe', age=30, score=95.5, status='active', verified=True)"
        ),
    ),
    "test_elicitation_sep1330_enums": (
        {},
        (
            'Elicitation completed: action=accept, content={"untitledSingle": "Ann", "titledSingle": "Ann", '
            '"legacyEnum": "Ann", "untitledMulti": [], "titledMulti": []}'
        ),
    ),
}
SHOWN = {
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_error_handling",
}


@BOTH
@pytest.mark.parametrize("tool", SAID)
async def test_a_tool_says_what_it_should_and_nothing_else(served: Served, mode: Mode, tool: str) -> None:
    arguments, expected = SAID[tool]
    async with Guest(served.url, mode).client as c:
        result = await c.call_tool(tool, arguments)

    assert [block.to_wire() for block in result.content] == [text(expected)]
    assert not result.is_error
    assert "isError" not in result.raw
    assert result.data is None


@BOTH
async def test_every_tool_is_listed_with_a_description_and_is_looked_at_here(served: Served, mode: Mode) -> None:
    async with Guest(served.url, mode).client as c:
        tools = await c.list_tools()

    assert {tool.name for tool in tools} == {*SAID, *SHOWN}
    assert tools[0].name == "test_simple_text"
    assert all(tool.description for tool in tools)
    assert all(None not in tool.raw.values() for tool in tools)


@BOTH
async def test_pictures_sounds_and_resources_come_whole(served: Served, mode: Mode) -> None:
    async with Guest(served.url, mode).client as c:
        (image,) = (await c.call_tool("test_image_content")).content
        (audio,) = (await c.call_tool("test_audio_content")).content
        (embedded,) = (await c.call_tool("test_embedded_resource")).content
        mixed = (await c.call_tool("test_multiple_content_types")).content

    assert isinstance(image, tc.ImageContent) and image.data.startswith(PNG_START) and image.mime_type == "image/png"
    assert isinstance(audio, tc.AudioContent) and audio.data.startswith(WAV_START) and audio.mime_type == "audio/wav"
    assert isinstance(embedded, tc.EmbeddedResource)
    assert embedded.resource.to_wire() == {
        "uri": "test://embedded-resource",
        "mimeType": "text/plain",
        "text": "This is an embedded resource content.",
    }
    assert [block.to_wire() for block in mixed[:2]] == [text("Multiple content types test:"), image.to_wire()]
    assert isinstance(mixed[2], tc.EmbeddedResource)
    assert json.loads(mixed[2].resource.text or "") == {"test": "data", "value": 123}


@BOTH
async def test_a_tool_that_fails_says_why(served: Served, mode: Mode) -> None:
    async with Guest(served.url, mode).client as c:
        result = await c.call_tool("test_error_handling")

    assert result.is_error
    assert result.text == "This tool intentionally returns an error for testing"


@BOTH
@pytest.mark.parametrize(
    "arguments, named",
    [
        ({"contactMethod": "phone", "email": "a@b"}, "phone"),
        ({"email": "a@b", "unknown": 1}, "unknown"),
        ({"email": 5}, "email"),
    ],
)
async def test_arguments_that_break_a_given_schema_are_reported_to_the_model(
    served: Served, mode: Mode, arguments: dict[str, Any], named: str
) -> None:
    async with Guest(served.url, mode, clean_arguments="never").client as c:
        result = await c.call_tool("json_schema_2020_12_tool", arguments)

    assert result.is_error
    assert named in result.text


# ---- meanwhile -----------------------------------------------------------------------------------------------------


@BOTH
async def test_progress_comes_in_order_and_before_the_result(served: Served, mode: Mode) -> None:
    heard: list[tuple[Any, ...]] = []
    async with Guest(served.url, mode).client as c:
        result = await c.call_tool("test_tool_with_progress", on_progress=lambda *news: heard.append(news))
        assert heard == [(done, 100, f"Completed step {done} of 100") for done in (0, 50, 100)]

    assert not result.is_error
    assert result.text.startswith("progress told to ")
    assert result.text != "progress told to nobody"


@BOTH
async def test_logs_come_from_the_asked_level_on(served: Served, mode: Mode) -> None:
    lines: list[tc.LogMessage] = []
    async with Guest(served.url, mode, log_handler=lines.append, log_level="error").client as c:
        if mode == "legacy":
            await c.request("logging/setLevel", {"level": "error"})
        await c.call_tool("test_logging_tool")

    important = ("error", "critical", "alert", "emergency")
    assert lines == [tc.LogMessage(level, f"a line of level {level}", "conformance") for level in important]


async def test_a_session_without_a_level_receives_logs_from_info_on(served: Served) -> None:
    async with Guest(served.url, "legacy").client as c:
        await c.call_tool("test_simple_text")
        before = c.counters.received
        await c.call_tool("test_logging_tool")
        assert c.counters.received == before + 7 + 1  # all but debug, and the answer


def test_a_modern_request_that_names_no_level_gets_an_answer_and_nothing_else(served: Served) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    body = {
        "jsonrpc": "2.0",
        "id": "one",
        "method": "tools/call",
        "params": {"name": "test_logging_tool", "arguments": {}, "_meta": meta},
    }
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "test_logging_tool",
    }
    request = urllib.request.Request(served.url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=WITHIN) as answer:
        assert answer.headers["Content-Type"] == "application/json"
        said = json.load(answer)

    assert said["id"] == "one"
    assert said["result"]["content"] == [text("Logged at every level")]


# ---- questions -----------------------------------------------------------------------------------------------------


@BOTH
async def test_questions_come_as_the_tool_asked_them_each_once(served: Served, mode: Mode) -> None:
    guest = Guest(served.url, mode)
    async with guest.client as c:
        await c.call_tool("test_input_required_result_multiple_inputs")
        assert sorted(guest.asked) == [("Generate a greeting", 50), ("What is your name?", ["name"])]
        guest.asked.clear()
        await c.call_tool("test_input_required_result_multi_round")
        steps = [("Step 1: What is your name?", ["name"]), ("Step 2: What is your favorite color?", ["color"])]
        assert guest.asked == steps


@BOTH
async def test_a_client_without_a_capability_learns_which_one_it_lacks(served: Served, mode: Mode) -> None:
    deaf = Guest(served.url, mode, sampling_handler=None, elicitation_handler=None, roots=None)
    async with deaf.client as c:
        if mode == MODERN:
            with pytest.raises(tc.RemoteError) as raised:
                await c.call_tool("test_missing_capability")
            assert raised.value.code == -32021
            assert raised.value.data == {"requiredCapabilities": {"sampling": {}}}
        else:
            result = await c.call_tool("test_missing_capability")
            assert result.is_error
            assert "sampling" in result.text
        assert (await c.call_tool("test_input_required_result_capabilities")).text == "0 answers"


# ---- resources, prompts, completions, changes ----------------------------------------------------------------------


@BOTH
async def test_resources_are_what_they_are(served: Served, mode: Mode) -> None:
    async with Guest(served.url, mode).client as c:
        words = await c.read_resource("test://static-text")
        picture = await c.read_resource("test://static-binary")
        templated = await c.read_resource("test://template/a%20b/data")
        (template,) = await c.list_resource_templates()
        with pytest.raises(tc.ResourceNotFound):
            await c.read_resource("test://nowhere")

    assert words.text == "This is the content of the static text resource."
    assert picture.data.startswith(PNG_START)
    assert picture.contents[0].mime_type == "image/png"
    assert json.loads(templated.text) == {"id": "a b", "templateTest": True, "data": "Data for ID: a b"}
    assert templated.contents[0].uri == "test://template/a%20b/data"
    assert (template.uri_template, template.mime_type) == ("test://template/{id}/data", "application/json")


@BOTH
async def test_prompts_are_what_they_are(served: Served, mode: Mode) -> None:
    async with Guest(served.url, mode).client as c:
        simple = await c.get_prompt("test_simple_prompt")
        filled = await c.get_prompt("test_prompt_with_arguments", {"arg1": "x", "arg2": "y"})
        shown = await c.get_prompt("test_prompt_with_image")
        asked = await c.get_prompt("test_input_required_result_prompt")
        (described,) = (p for p in await c.list_prompts() if p.name == "test_prompt_with_arguments")
        with pytest.raises(tc.RemoteError) as raised:
            await c.get_prompt("test_prompt_with_arguments", {"arg1": "x"})

    assert simple.text == "This is a simple prompt for testing."
    assert filled.text == "Prompt with arguments: arg1='x', arg2='y'"
    assert asked.text == "Use this context: Ann"
    assert [message.role for message in shown.messages] == ["user", "user"]
    image = shown.messages[0].content
    assert isinstance(image, tc.ImageContent)
    assert image.to_wire()["data"] == b64encode(image.data).decode()
    assert image.data.startswith(PNG_START)
    assert shown.text == "Please analyze the image above."
    assert [(a.name, a.description, a.required) for a in described.arguments] == [
        ("arg1", "The first gap.", True),
        ("arg2", "The second gap.", True),
    ]
    assert raised.value.code == -32602
    assert "arg2" in raised.value.message


@BOTH
async def test_completions_are_those_that_begin_so(served: Served, mode: Mode) -> None:
    async with Guest(served.url, mode).client as c:
        found = await c.complete("test_prompt_with_arguments", "arg1", "par")
        nothing = await c.complete("test_prompt_with_arguments", "arg2", "par")

    assert (found.values, found.total, found.has_more) == (("paris", "park", "party"), 3, False)
    assert nothing.values == ()


@BOTH
@pytest.mark.parametrize(
    "trigger, change",
    [
        ("test_trigger_tool_change", tc.Change("tools")),
        ("test_trigger_prompt_change", tc.Change("prompts")),
        ("test_touch_watched_resource", tc.Change("resource", "test://watched-resource")),
    ],
)
async def test_a_change_is_sent_to_listeners(served: Served, mode: Mode, trigger: str, change: tc.Change) -> None:
    async with Guest(served.url, mode).client as c, c.listen("test://watched-resource") as changes:
        await c.call_tool(trigger)
        assert await asyncio.wait_for(anext(changes), WITHIN) == change


@BOTH
async def test_the_server_identifies_itself(served: Served, mode: Mode) -> None:
    async with Guest(served.url, mode).client as c:
        info = c.server_info

    assert info is not None
    assert (info.name, info.version) == ("toolcrib-conformance", "1.0.0")
    assert info.protocol_version == (MODERN if mode == MODERN else LEGACY)
    assert info.instructions == "Everything here is for the conformance suite."
