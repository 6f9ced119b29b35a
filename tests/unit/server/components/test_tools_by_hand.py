"""Tools with an explicit schema and a function that takes one dict."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.unit.server.functions_kit import Said, request, text_of
from toolcrib.errors import ConfigError, UsageError
from toolcrib.server.components.tools import tool
from toolcrib.server.context import Context
from toolcrib.types import ToolResult

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string", "pattern": "^x+$"}},
    "required": ["a"],
    "additionalProperties": False,
}


async def test_a_handler_gets_all_arguments_as_one_dict() -> None:
    async def handler(args: dict[str, Any]) -> ToolResult:
        args["seen"] = True
        return ToolResult.from_text(f"Result: {args['a']}")

    by_hand = tool(handler, name="add2", description="Add", input_schema=SCHEMA)
    assert by_hand.wire == {"name": "add2", "description": "Add", "inputSchema": SCHEMA}
    assert by_hand.signature is None and not by_hand.takes_context
    arguments = {"a": 1}
    assert await by_hand.call(arguments) == {"content": [{"type": "text", "text": "Result: 1"}]}
    assert arguments == {"a": 1}


async def test_a_handler_may_take_a_context_and_be_any_callable() -> None:
    class State:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        async def __call__(self, args: dict[str, Any], ctx: Context) -> int:
            self.seen.append(args)
            await ctx.progress(1)
            return len(self.seen)

    state, said = State(), Said()
    by_hand = tool(state, name="count", input_schema={"properties": {}})
    assert by_hand.takes_context and by_hand.input_schema == {"type": "object", "properties": {}}
    assert (await by_hand.call({"k": 1}, request(said)))["structuredContent"] == {"result": 1}
    assert state.seen == [{"k": 1}] and len(said.notified) == 1
    assert (
        text_of(await tool(lambda args: args["k"], name="get", input_schema={"type": "object"}).call({"k": "v"})) == "v"
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"a": "1"}, 'a: "1" is not of type "integer"'),
        ({}, '"a" is a required property'),
        ({"a": 1, "b": "y"}, 'b: "y" does not match "^x+$"'),
        ({"a": 1, "z": 1}, "Additional properties are not allowed ('z' was unexpected)"),
        ([1], '[1] is not of type "object"'),
    ],
)
async def test_a_handlers_arguments_are_checked_by_its_schema(arguments: Any, message: str) -> None:
    called: list[Any] = []

    def handler(args: Any) -> None:
        called.append(args)

    by_hand = tool(handler, name="add2", input_schema=SCHEMA)
    result = await by_hand.call(arguments)
    assert result == {"content": [{"type": "text", "text": f"Invalid arguments for add2: {message}"}], "isError": True}
    assert called == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"type": ["object", "null"]},
        {"type": "object", "properties": {"a": {"type": "wrong"}}},
        {"type": "object", "properties": {"a": {"$ref": "https://example.com/schema.json"}}},
        {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        {"type": "object", "properties": {"a": {"pattern": "(?=a)a+"}}},
        ["no schema"],
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_at_once(schema: Any) -> None:
    with pytest.raises(ConfigError, match="input_schema") as caught:
        tool(lambda args: args, name="t", input_schema=schema)
    assert caught.value.key == "input_schema"


def test_a_schema_fetches_nothing(tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text('{"type": "string"}')
    schema = {"type": "object", "properties": {"a": {"$ref": outside.as_uri()}}}
    with pytest.raises(ConfigError, match="input_schema: invalid JSON schema: Resource 'file:"):
        tool(lambda args: args, name="t", input_schema=schema)


def test_a_handler_of_other_parameters_is_refused() -> None:
    def two(a: int, b: int) -> None: ...

    def none() -> None: ...

    def kwargs(**rest: Any) -> None: ...

    for handler, takes in ((two, "a, b"), (none, "nothing"), (kwargs, "nothing")):
        with pytest.raises(UsageError, match=f"must take one dict of all arguments.*, but it takes {takes}"):
            tool(handler, input_schema={"type": "object"})


async def test_patterns_of_a_schema_take_linear_time() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    by_hand = tool(lambda args: "ran", name="t", input_schema=schema)
    async with asyncio.timeout(10):
        result = await by_hand.call({"a": "a" * 50_000 + "!"})
    assert result["isError"] is True and len(text_of(result)) < 500
