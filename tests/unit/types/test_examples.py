"""The types read the protocol's example messages without loss."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit import spec
from toolcrib.errors import RemoteError, ToolFailed
from toolcrib.protocol import jsonrpc, versions
from toolcrib.protocol.cache_hints import CacheHint, cache_hint
from toolcrib.protocol.metadata import subscription_of
from toolcrib.types import (
    AudioContent,
    Completion,
    ElicitRequest,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    Prompt,
    PromptArgument,
    ReadResourceResult,
    Resource,
    ResourceLink,
    ResourceTemplate,
    SamplingRequest,
    TextContent,
    Tool,
    ToolResult,
    block_from_wire,
)

BLOCKS = {
    "TextContent": TextContent,
    "ImageContent": ImageContent,
    "AudioContent": AudioContent,
    "ResourceLink": ResourceLink,
    "EmbeddedResource": EmbeddedResource,
}


@pytest.mark.parametrize("kind", sorted(path.name for path in spec.EXAMPLES.iterdir()))
def test_every_example_is_valid_in_its_own_schema(kind: str) -> None:
    for message in spec.examples(kind):
        assert spec.faults(spec.MODERN, kind, message) == []


@pytest.mark.parametrize("kind", BLOCKS)
def test_a_block_is_read_as_its_type_and_written_as_it_came(kind: str) -> None:
    for wire in spec.examples(kind):
        block = block_from_wire(wire)
        assert type(block) is BLOCKS[kind]
        assert block.to_wire() == wire


def test_bytes_are_decoded() -> None:
    image = block_from_wire(spec.example("ImageContent/image-png-content-with-annotations"))
    assert isinstance(image, ImageContent)
    assert image.data.startswith(b"\x89PNG")
    assert image.mime_type == "image/png"
    audio = block_from_wire(spec.example("AudioContent/audio-wav-content"))
    assert isinstance(audio, AudioContent)
    assert audio.data[:4] == b"RIFF"


@pytest.mark.parametrize(
    "block",
    [
        TextContent("hello"),
        ImageContent(b"\x89PNG", "image/png"),
        AudioContent(b"RIFF", "audio/wav"),
        ResourceLink("file:///a", "a", "text/plain", "a file"),
        ResourceLink("file:///a"),
    ],
    ids=lambda block: type(block).__name__,
)
@pytest.mark.parametrize("revision", [spec.MODERN, spec.LEGACY])
def test_a_block_made_by_hand_is_valid_in_both_eras(block: Any, revision: str) -> None:
    assert spec.faults(revision, "ContentBlock", block.to_wire()) == []
    assert block_from_wire(block.to_wire()).to_wire() == block.to_wire()


def test_a_list_of_tools_is_read() -> None:
    page = spec.example("ListToolsResult/tools-list-with-cursor-and-ttl")
    tool = Tool.from_wire(page["tools"][0])
    assert (tool.name, tool.title) == ("get_weather", "Weather Information Provider")
    assert tool.description == "Get current weather information for a location"
    assert tool.input_schema["required"] == ["location"]
    assert tool["inputSchema"] is tool.input_schema
    assert tool.get("icons")[0]["sizes"] == ["48x48"]
    assert cache_hint(page) == CacheHint(300.0, "public")


def test_a_tool_with_any_output_schema_is_read() -> None:
    for wire in spec.examples("Tool"):
        tool = Tool.from_wire(wire)
        assert tool.output_schema == wire.get("outputSchema")
        assert not tool.wraps_result


@pytest.mark.parametrize(
    "name, has_data, is_error",
    [
        ("invalid-tool-input-error", False, True),
        ("result-with-array-structured-content", True, False),
        ("result-with-structured-content", True, False),
        ("result-with-unstructured-text", False, False),
    ],
)
def test_a_result_is_read(name: str, has_data: bool, is_error: bool) -> None:
    wire = spec.example(f"CallToolResult/{name}")
    result = ToolResult(wire)
    assert result.text == wire["content"][0]["text"]
    assert (result.has_data, result.is_error) == (has_data, is_error)
    assert result.data == wire.get("structuredContent")
    if is_error:
        with pytest.raises(ToolFailed, match="must be in the future"):
            result.raise_for_error()
    else:
        assert result.raise_for_error() is result


def test_an_answer_is_unpacked() -> None:
    message = spec.example("CallToolResultResponse/call-tool-result-response")
    assert jsonrpc.outcome(jsonrpc.decode(jsonrpc.encode(message))) == message["result"]


def test_resources_templates_and_contents_are_read() -> None:
    resource = Resource.from_wire(
        spec.example("ListResourcesResult/resources-list-with-cursor-and-ttl")["resources"][0]
    )
    assert (resource.uri, resource.name, resource.mime_type) == (
        "file:///project/src/main.rs",
        "main.rs",
        "text/x-rust",
    )
    listed = spec.example("ListResourceTemplatesResult/resource-templates-list-with-cursor-and-ttl")
    template = ResourceTemplate.from_wire(listed["resourceTemplates"][0])
    assert (template.uri_template, template.name) == ("file:///{path}", "Project Files")
    contents = ReadResourceResult.from_wire(spec.example("ReadResourceResult/file-resource-contents"))
    assert contents.text.startswith("fn main()")
    assert contents.data == contents.text.encode()


def test_prompts_are_read() -> None:
    listed = spec.example("ListPromptsResult/prompts-list-with-cursor-and-ttl")
    prompt = Prompt.from_wire(listed["prompts"][0])
    assert prompt.name == "code_review"
    assert prompt.arguments == (PromptArgument("code", "The code to review", True),)
    filled = GetPromptResult.from_wire("code_review", {"code": "x"}, spec.example("GetPromptResult/code-review-prompt"))
    assert (filled.name, filled.arguments, filled.description) == ("code_review", {"code": "x"}, "Code review prompt")
    assert filled.messages[0].role == "user"
    assert "Please review" in filled.text


def test_completions_are_read() -> None:
    some = Completion.from_wire(spec.example("CompleteResult/multiple-completion-values-with-more-available"))
    assert some == Completion(("python", "pytorch", "pyside"), 10, True)
    assert Completion.from_wire(spec.example("CompleteResult/single-completion-value")) == Completion(("flask",), 1)


def test_a_discovered_server_is_read() -> None:
    answer = spec.example("DiscoverResult/server-capabilities-discovery")
    info = versions.server_info("2026-07-28", answer)
    assert (info.name, info.version, info.capabilities) == ("ExampleServer", "1.0.0", {"tools": {}, "resources": {}})
    assert versions.choose(answer["supportedVersions"]) == "2026-07-28"


def test_a_refused_version_is_read() -> None:
    refusal = jsonrpc.outcome(spec.example("UnsupportedProtocolVersionError/unsupported-version"))
    assert isinstance(refusal, RemoteError)
    assert refusal.code == versions.UNSUPPORTED_VERSION
    assert versions.choose(refusal.data["supported"]) == "2026-07-28"


def test_what_a_server_asks_is_read() -> None:
    form = ElicitRequest.from_wire(spec.example("ElicitRequestFormParams/elicit-multiple-fields"))
    assert (form.mode, form.url, form.schema["required"]) == ("form", None, ["name", "email"])
    visit = ElicitRequest.from_wire(spec.example("ElicitRequestURLParams/elicit-sensitive-data"))
    assert (visit.mode, visit.url) == ("url", "https://mcp.example.com/ui/set_api_key")
    sampling = SamplingRequest.from_wire(spec.example("CreateMessageRequestParams/basic-request"))
    assert (sampling.text, sampling.max_tokens) == ("What is the capital of France?", 100)
    assert sampling.system_prompt == "You are a helpful assistant."
    with_tools = SamplingRequest.from_wire(spec.example("CreateMessageRequestParams/follow-up-with-tool-results"))
    assert len(with_tools.messages) == 3
    assert with_tools.text == "What's the weather like in Paris and London?"


def test_an_acknowledgement_names_its_subscription() -> None:
    acknowledged = spec.example("SubscriptionsAcknowledgedNotification/listen-acknowledged")
    assert subscription_of(acknowledged["params"]) == "listen-1"
