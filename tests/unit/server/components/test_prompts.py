"""Functions as prompts: strings in, messages out."""

from __future__ import annotations

import enum
import logging
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import BaseModel, Field

from toolcrib.errors import ConfigError, RemoteError, ResourceNotFound, UsageError
from toolcrib.server.components.prompts import PromptFunction, prompt
from toolcrib.types import (
    AudioContent,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    Prompt,
    PromptMessage,
    ResourceContents,
    ResourceLink,
    TextContent,
    Wire,
)


class Tone(enum.Enum):
    KIND = "kind"
    TERSE = "terse"


class Person(BaseModel):
    name: str
    age: int = 0


class Place(TypedDict):
    city: str


def giving(value: Any) -> PromptFunction:
    def explain() -> Any:
        return value

    return prompt(explain)


def said(text: str, role: str = "user") -> Wire:
    return {"role": role, "content": {"type": "text", "text": text}}


# ---- the entry of the list -----------------------------------------------------------------------------------


def test_the_entry_comes_from_the_function() -> None:
    @prompt
    def explain(topic: str, depth: int = 1, tone: Literal["kind", "terse"] = "kind") -> str:
        """Explain something.

        Args:
            topic: What to explain.
            depth: How far to go.
        """
        return topic

    assert explain.wire == {
        "name": "explain",
        "description": "Explain something.",
        "arguments": [
            {"name": "topic", "description": "What to explain.", "required": True},
            {"name": "depth", "description": "How far to go.", "required": False},
            {"name": "tone", "required": False},
        ],
    }
    assert explain.name == "explain"
    assert not explain.takes_context
    # What a client reads of it.
    listed = Prompt.from_wire(explain.wire)
    assert [(argument.name, argument.required) for argument in listed.arguments] == [
        *(("topic", True), ("depth", False), ("tone", False)),
    ]


def test_the_entry_has_what_was_given_and_nothing_else() -> None:
    @prompt(
        name="greet someone",
        title="Greeting",
        description="Own words",
        icons=[{"src": "https://example.com/i.png"}],
        meta={"com.example/x": 1},
    )
    def greet() -> str:
        """Not these."""
        return "hi"

    assert greet.wire == {
        "name": "greet someone",
        "title": "Greeting",
        "description": "Own words",
        "icons": [{"src": "https://example.com/i.png"}],
        "_meta": {"com.example/x": 1},
    }
    assert prompt(
        lambda: "",
    ).wire.keys() == {"name"}


def test_an_argument_that_is_not_text_is_described_as_json() -> None:
    @prompt
    def send(to: Person, ways: list[str], where: Annotated[Place | None, Field(description="A place.")] = None) -> str:
        return ""

    assert [argument.get("description") for argument in send.wire["arguments"]] == [
        "(JSON)",
        "(JSON)",
        "A place. (JSON)",
    ]


def test_the_function_can_still_be_called() -> None:
    @prompt(name="other")
    def greet(name: str) -> str:
        return f"hi {name}"

    assert greet("you") == "hi you"
    assert greet.__name__ == "greet"


@pytest.mark.parametrize("name", ["", " "])
def test_a_prompt_without_a_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="name"):
        prompt(name=name)(lambda: "")


def test_what_cannot_come_by_name_is_refused() -> None:
    with pytest.raises(UsageError, match="words"):

        @prompt
        def join(*words: str) -> str:
            return ""


# ---- messages ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "block",
    [
        TextContent("x"),
        ImageContent(b"x"),
        AudioContent(b"x"),
        ResourceLink("a://b", "b"),
        EmbeddedResource(ResourceContents("a://b", text="x")),
    ],
)
async def test_a_block_is_a_message_of_the_user(block: Any) -> None:
    assert await giving(block).get({}, None) == {"messages": [{"role": "user", "content": block.to_wire()}]}
    assert await giving(block.to_wire()).get({}, None) == await giving(block).get({}, None)


@pytest.mark.parametrize(
    "value, messages",
    [
        ("hi", [said("hi")]),
        ("", [said("")]),
        (PromptMessage("assistant", TextContent("hi")), [said("hi", "assistant")]),
        ({"role": "assistant", "content": "hi"}, [said("hi", "assistant")]),
        ({"role": "assistant", "content": TextContent("hi")}, [said("hi", "assistant")]),
        ({"role": "user", "content": {"type": "text", "text": "hi"}}, [said("hi")]),
        (
            ["a", TextContent("b"), {"role": "assistant", "content": "c"}],
            [said("a"), said("b"), said("c", "assistant")],
        ),
        (("a", "b"), [said("a"), said("b")]),
        ([], []),
        ({"messages": ["a"]}, [said("a")]),
        ({"messages": "a"}, [said("a")]),
        (
            ResourceContents("a://b", text="x"),
            [{"role": "user", "content": {"type": "resource", "resource": {"uri": "a://b", "text": "x"}}}],
        ),
    ],
)
async def test_what_a_function_returns_becomes_messages(value: Any, messages: list[Wire]) -> None:
    assert await giving(value).get({}, None) == {"messages": messages}


async def test_the_answer_has_the_prompts_description_or_the_functions_own() -> None:
    described = prompt(description="Listed")(lambda: "x")
    assert await described.get({}, None) == {"description": "Listed", "messages": [said("x")]}
    own = prompt(description="Listed")(lambda: {"description": "Own", "messages": ["x"]})
    assert await own.get({}, None) == {"description": "Own", "messages": [said("x")]}
    # The client's own value, so that a prompt of another server can be handed on.
    raw = {"description": "Theirs", "messages": [said("x"), said("y", "assistant")]}
    handed_on = GetPromptResult.from_wire("theirs", {}, raw)
    assert await prompt(description="Listed")(lambda: handed_on).get({}, None) == raw


@pytest.mark.parametrize(
    "value, words",
    [
        (None, "NoneType"),
        (5, "int"),
        ({"a": 1}, "dict"),
        (["fine", 5], "int"),
        ({"role": "system", "content": "x"}, "'system'"),
        ({"role": ["user"], "content": "x"}, "role"),
        ({"role": "user", "content": 5}, "int"),
        ({"messages": None}, "NoneType"),
    ],
)
async def test_an_invalid_message_is_an_internal_error_that_says_what_was_expected(value: Any, words: str) -> None:
    with pytest.raises(RemoteError, match=words) as caught:
        await giving(value).get({}, None)
    assert caught.value.code == -32603
    assert "expected" in caught.value.message
    with pytest.raises(RemoteError) as caught:
        await giving(value).get({}, None, mask_errors=True)
    assert caught.value.message == "prompt explain failed"


# ---- arguments -----------------------------------------------------------------------------------------------


async def test_strings_become_what_the_parameters_are_annotated_with() -> None:
    got: list[Any] = []

    @prompt
    async def fill(
        text: str,
        number: int,
        flag: bool,
        tone: Tone,
        level: Literal[1, 2],
        person: Person,
        places: list[Place],
        ratio: float | None = None,
        free: str | int = "",
    ) -> str:
        got.extend((text, number, flag, tone, level, person, places, ratio, free))
        return ""

    await fill.get(
        {
            "text": "5",
            "number": "5",
            "flag": "false",
            "tone": "kind",
            "level": "2",
            "person": '{"name": "Ann", "age": "4"}',
            "places": '[{"city": "Bern"}]',
            "ratio": "0.5",
            "free": "[1]",
        },
        None,
    )
    assert got == ["5", 5, False, Tone.KIND, 2, Person(name="Ann", age=4), [{"city": "Bern"}], 0.5, "[1]"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({}, "topic"),
        ({"topic": "x", "depth": "deep"}, "depth"),
        ({"topic": "x", "dept": "1"}, "dept"),
        ({"topic": "x", "tone": "rude"}, "tone"),
        ({"topic": "x", "parts": "no json"}, "parts"),
        ({"topic": "x", "parts": "[" * 1000}, "parts"),
        ({"topic": 5}, "topic"),
        ([], "expected an object"),
    ],
)
async def test_arguments_that_are_missing_unknown_or_wrong_are_the_callers_error(arguments: Any, words: str) -> None:
    ran = []

    @prompt
    def explain(topic: str, depth: int = 1, tone: Tone = Tone.KIND, parts: list[int] | None = None) -> str:
        ran.append(topic)
        return topic

    with pytest.raises(RemoteError, match=words) as caught:
        await explain.get(arguments, None, mask_errors=True)
    assert caught.value.code == -32602
    assert "explain" in caught.value.message
    assert ran == []


# ---- errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError("disk on fire"), ResourceNotFound("disk on fire")])
async def test_what_a_function_raises_is_an_internal_error_and_the_log_has_the_traceback(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    @prompt
    def explain() -> str:
        raise error

    with pytest.raises(RemoteError) as caught:
        await explain.get({}, None)
    assert (caught.value.code, caught.value.message) == (-32603, "disk on fire")
    with pytest.raises(RemoteError) as caught:
        await explain.get({}, None, mask_errors=True)
    assert (caught.value.code, caught.value.message) == (-32603, "prompt explain failed")
    records = [record for record in caplog.records if record.name == "toolcrib.server.tools"]
    assert [(r.levelno, r.exc_info is not None and r.exc_info[1]) for r in records] == [(logging.ERROR, error)] * 2


async def test_an_error_for_the_caller_passes() -> None:
    async def explain() -> str:
        raise RemoteError(-32021, "needs sampling", {"requiredCapabilities": {"sampling": {}}})

    with pytest.raises(RemoteError) as caught:
        await prompt(explain).get({}, None, mask_errors=True)
    assert (caught.value.code, caught.value.data) == (-32021, {"requiredCapabilities": {"sampling": {}}})
