"""The tools of the server under test that answer by themselves: contents, logs, progress, errors, headers, changes."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from typing import Annotated, Any

from pydantic import Field

import toolcrib as tc

PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==")
WAV = b64decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=")

A_STEP = 0.05  # seconds; the scenarios expect the notifications of a tool one after the other


def embedded(uri: str, mime_type: str, text: str) -> tc.EmbeddedResource:
    return tc.EmbeddedResource(tc.ResourceContents(uri, mime_type, text))


# ---- contents ------------------------------------------------------------------------------------------------------


@tc.tool
async def test_simple_text() -> str:
    """Say one sentence."""
    return "This is a simple text response for testing."


@tc.tool
def test_image_content() -> tc.ImageContent:
    """Show a picture."""
    return tc.ImageContent(PNG, "image/png")


@tc.tool(mime_type="audio/wav")
def test_audio_content() -> bytes:
    """Play a sound."""
    return WAV


@tc.tool
async def test_embedded_resource() -> tc.EmbeddedResource:
    """Hand over a resource."""
    return embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")


@tc.tool
async def test_multiple_content_types() -> list[str | tc.ImageContent | tc.EmbeddedResource]:
    """Say, show and hand over."""
    return [
        "Multiple content types test:",
        tc.ImageContent(PNG, "image/png"),
        embedded("test://mixed-content-resource", "application/json", json.dumps({"test": "data", "value": 123})),
    ]


@tc.tool
def test_error_handling() -> str:
    """Fail."""
    raise RuntimeError("This tool intentionally returns an error for testing")


# ---- meanwhile -----------------------------------------------------------------------------------------------------


@tc.tool
async def test_tool_with_logging(ctx: tc.Context) -> str:
    """Tell of three steps."""
    await ctx.info("Tool execution started")
    await asyncio.sleep(A_STEP)
    await ctx.info("Tool processing data")
    await asyncio.sleep(A_STEP)
    await ctx.info("Tool execution completed")
    return "Tool with logging executed successfully"


@tc.tool
async def test_logging_tool(ctx: tc.Context) -> str:
    """Tell something at every level."""
    for level in ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"):
        await ctx.log(level, f"a line of level {level}", logger="conformance")
    return "Logged at every level"


@tc.tool
async def test_tool_with_progress(ctx: tc.Context) -> str:
    """Come forward in three steps."""
    for done in (0, 50, 100):
        await ctx.progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(A_STEP)
    return f"progress told to {ctx.meta.get('progressToken', 'nobody')}"


@tc.tool
async def test_reconnection(ctx: tc.Context) -> str:
    """End the response before the result is there; the client comes again for it."""
    await ctx.close_stream()
    await asyncio.sleep(2 * A_STEP)
    return "Reconnection test completed"


# ---- schemas and headers -------------------------------------------------------------------------------------------

SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


async def reach(arguments: dict[str, Any]) -> str:
    """With a custom schema, the handler gets the arguments unchanged."""
    way = arguments["phone"] if arguments.get("contactMethod") == "phone" else arguments["email"]
    return f"{arguments.get('name', 'somebody')} is reached by {way}"


@tc.tool
async def test_x_mcp_header(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
) -> str:
    """Take an argument that travels in a header too."""
    return f"region={region}"


# ---- changes -------------------------------------------------------------------------------------------------------


@tc.tool
async def test_passing() -> str:
    """Be there for a moment."""
    return "found"


@tc.tool
async def test_trigger_tool_change(ctx: tc.Context) -> str:
    """Offer another tool and take it back."""
    assert ctx.server is not None
    ctx.server.add_tool(test_passing)
    ctx.server.remove_tool(test_passing.name)
    return "the tools have changed"


@tc.tool
async def test_trigger_prompt_change(ctx: tc.Context) -> str:
    """Say that the prompts have changed."""
    assert ctx.server is not None
    ctx.server.notify_prompts_changed()
    return "the prompts have changed"


@tc.tool
async def test_touch_watched_resource(ctx: tc.Context) -> str:
    """Say that the watched resource has changed."""
    assert ctx.server is not None
    ctx.server.notify_resource_updated("test://watched-resource")
    return "the watched resource has changed"


def offer(server: tc.ToolServer) -> None:
    # One scenario calls whatever comes first, without arguments.
    for tool in (
        test_simple_text,
        test_image_content,
        test_audio_content,
        test_embedded_resource,
        test_multiple_content_types,
        test_error_handling,
        test_tool_with_logging,
        test_logging_tool,
        test_tool_with_progress,
        test_reconnection,
        test_x_mcp_header,
        test_trigger_tool_change,
        test_trigger_prompt_change,
        test_touch_watched_resource,
    ):
        server.add_tool(tool)
    server.add_tool(
        reach,
        name="json_schema_2020_12_tool",
        description="Tool with JSON Schema 2020-12 features",
        input_schema=SCHEMA_2020_12,
    )
