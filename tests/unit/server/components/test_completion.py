"""Completions: from functions and types, never more than the protocol allows."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from toolcrib.errors import ConfigError, RemoteError
from toolcrib.server.components.completion import MAX_VALUES, Completions, completion
from toolcrib.server.components.prompts import PromptFunction, prompt
from toolcrib.server.components.resources import TemplateFunction, resource
from toolcrib.server.context import Context
from toolcrib.types import Completion, Wire


class Tone(enum.Enum):
    KIND = "kind"
    KEEN = "keen"
    TERSE = "terse"


@prompt
def explain(
    topic: str,
    tone: Tone = Tone.KIND,
    language: Literal["English", "esperanto"] | None = None,
    size: Literal[1, 10] = 1,
) -> str:
    return topic


@prompt
def plain(topic: str) -> str:
    return topic


@resource("log://{level}/{name}")
def logs(level: Literal["info", "warning"], name: str) -> str:
    return name


assert isinstance(logs, TemplateFunction)
PROMPTS: dict[str, PromptFunction] = {"explain": explain, "plain": plain}
TEMPLATES = {"log://{level}/{name}": logs}
EXPLAIN = {"type": "ref/prompt", "name": "explain"}
LOGS = {"type": "ref/resource", "uri": "log://{level}/{name}"}


def asking(ref: Any, name: Any, value: Any = "", **given: str) -> Wire:
    params: Wire = {"ref": ref, "argument": {"name": name, "value": value}}
    return params | ({"context": {"arguments": given}} if given else {})


async def complete(completions: Completions, params: Wire, **options: Any) -> Wire:
    result = await completions.complete(params, PROMPTS, TEMPLATES, **options)
    assert result.keys() == {"completion"}
    found: Wire = result["completion"]
    return found


def adding(function: Any, argument: str = "topic") -> Completions:
    completions = Completions()
    completions.add("explain", argument, function)
    return completions


# ---- by type -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ref, name, value, values",
    [
        (EXPLAIN, "tone", "", ["kind", "keen", "terse"]),
        (EXPLAIN, "tone", "k", ["kind", "keen"]),
        (EXPLAIN, "tone", "KE", ["keen"]),
        (EXPLAIN, "tone", "x", []),
        (EXPLAIN, "language", "e", ["English", "esperanto"]),
        (EXPLAIN, "size", "1", ["1", "10"]),
        (EXPLAIN, "topic", "", []),
        (LOGS, "level", "w", ["warning"]),
        (LOGS, "name", "", []),
    ],
)
async def test_a_parameter_that_lists_its_values_completes_by_prefix(
    ref: Wire, name: str, value: str, values: list[str]
) -> None:
    found = await complete(Completions(), asking(ref, name, value))
    assert found == {"values": values, "total": len(values), "hasMore": False}


async def test_what_is_suggested_is_accepted() -> None:
    for argument in ("tone", "language", "size"):
        for value in (await complete(Completions(), asking(EXPLAIN, argument)))["values"]:
            await explain.get({"topic": "x", argument: value}, None)


@pytest.mark.parametrize(
    "params, words",
    [
        (asking({"type": "ref/prompt", "name": "explan"}, "tone"), "Unknown prompt: explan"),
        (asking({"type": "ref/resource", "uri": "log://x/y"}, "level"), "Unknown resource template: log://x/y"),
        (asking({"type": "ref/prompt", "name": "log://{level}/{name}"}, "level"), "Unknown prompt"),
        (asking(EXPLAIN, "ton"), "did you mean 'tone'"),
        (asking(EXPLAIN, "zzz"), "Unknown argument of prompt explain: zzz"),
        ({}, "expected ref"),
        (asking(None, "tone"), "expected ref"),
        (asking("explain", "tone"), "expected ref"),
        (asking({"type": "ref/prompt"}, "tone"), "expected ref"),
        (asking({"type": "ref/prompt", "name": 5}, "tone"), "expected ref"),
        (asking({"type": "ref/prompt", "uri": "explain"}, "tone"), "expected ref"),
        (asking({"type": "ref/tool", "name": "explain"}, "tone"), "expected ref"),
        (asking(EXPLAIN, 5), "expected ref"),
        (asking(EXPLAIN, "tone", None), "expected ref"),
        ({"ref": EXPLAIN}, "expected ref"),
        ({"ref": EXPLAIN, "argument": []}, "expected ref"),
    ],
)
async def test_what_is_not_there_or_malformed_is_the_callers_error(params: Wire, words: str) -> None:
    with pytest.raises(RemoteError, match=words) as caught:
        await complete(Completions(), params)
    assert caught.value.code == -32602


# ---- by function ---------------------------------------------------------------------------------------------


async def test_a_function_gets_what_was_typed_and_the_arguments_that_are_known() -> None:
    got: list[Any] = []

    async def topics(typed: str, known: dict[str, str]) -> list[str]:
        got.append((typed, known))
        return ["unlike what was typed"]

    found = await complete(adding(topics), asking(EXPLAIN, "topic", "mc", tone="kind"))
    assert found == {"values": ["unlike what was typed"], "total": 1, "hasMore": False}
    await complete(adding(topics), asking(EXPLAIN, "topic"))
    assert got == [("mc", {"tone": "kind"}), ("", {})]


@pytest.mark.parametrize("context", [None, 5, [], {}, {"arguments": None}, {"arguments": []}])
async def test_a_context_without_arguments_is_empty(context: Any) -> None:
    got: list[Any] = []
    await complete(adding(lambda typed, known: got.append(known)), {**asking(EXPLAIN, "topic"), "context": context})
    assert got == [{}]


async def test_a_function_comes_before_the_type_and_needs_no_prompt() -> None:
    completions = adding(lambda typed: ["own"], "tone")
    assert (await complete(completions, asking(EXPLAIN, "tone")))["values"] == ["own"]
    completions.add("elsewhere://{x}", "x", lambda typed: [typed + "!"])
    found = await complete(completions, asking({"type": "ref/resource", "uri": "elsewhere://{x}"}, "x", "a"))
    assert found["values"] == ["a!"]


async def test_a_function_that_takes_nothing_gives_all_and_what_was_typed_narrows_it_down() -> None:
    completions = adding(lambda: ["alpha", "beta", "Alps"])
    assert (await complete(completions, asking(EXPLAIN, "topic", "al")))["values"] == ["alpha", "Alps"]


def _generated() -> Iterator[str]:
    yield from ("a", "b")


@pytest.mark.parametrize(
    "value, expected",
    [
        (None, {"values": [], "total": 0, "hasMore": False}),
        ([], {"values": [], "total": 0, "hasMore": False}),
        (("a", "b"), {"values": ["a", "b"], "total": 2, "hasMore": False}),
        ({"a": 1}.keys(), {"values": ["a"], "total": 1, "hasMore": False}),
        (_generated(), {"values": ["a", "b"], "total": 2, "hasMore": False}),
        ([1, Tone.KIND], {"values": ["1", "kind"], "total": 2, "hasMore": False}),
        (Completion(("a",)), {"values": ["a"], "total": 1, "hasMore": False}),
        (Completion(("a",), 50, True), {"values": ["a"], "total": 50, "hasMore": True}),
        (Completion(("a",), has_more=True), {"values": ["a"], "hasMore": True}),
    ],
)
async def test_what_a_function_may_return(value: Any, expected: Wire) -> None:
    assert await complete(adding(lambda typed: value), asking(EXPLAIN, "topic")) == expected


@pytest.mark.parametrize("wrapped", [list, lambda values: Completion(tuple(values))])
async def test_at_most_a_hundred_are_sent_and_the_rest_is_counted(wrapped: Any) -> None:
    many = [str(number) for number in range(MAX_VALUES + 50)]
    found = await complete(adding(lambda typed: wrapped(many)), asking(EXPLAIN, "topic"))
    assert found == {"values": many[:100], "total": 150, "hasMore": True}
    found = await complete(adding(lambda typed: wrapped(many[:100])), asking(EXPLAIN, "topic"))
    assert found == {"values": many[:100], "total": 100, "hasMore": False}


@pytest.mark.parametrize("value", ["abc", b"abc", 5, {"a": "b"}])
async def test_an_invalid_list_of_suggestions_is_an_internal_error(value: Any) -> None:
    with pytest.raises(RemoteError, match="expected strings or a Completion") as caught:
        await complete(adding(lambda typed: value), asking(EXPLAIN, "topic"))
    assert caught.value.code == -32603


async def test_an_exception_is_an_internal_error_that_can_be_masked(caplog: pytest.LogCaptureFixture) -> None:
    def topics(typed: str) -> list[str]:
        raise OSError("disk on fire")

    with pytest.raises(RemoteError) as caught:
        await complete(adding(topics), asking(EXPLAIN, "topic"))
    assert (caught.value.code, caught.value.message) == (-32603, "disk on fire")
    with pytest.raises(RemoteError) as caught:
        await complete(adding(topics), asking(EXPLAIN, "topic"), mask_errors=True)
    assert caught.value.message == "completion of topic for explain failed"
    assert len([record for record in caplog.records if record.exc_info]) == 2


# ---- keeping them --------------------------------------------------------------------------------------------


def test_a_server_completes_if_there_is_a_function_or_a_type_that_lists_values() -> None:
    assert not Completions().offers()
    assert not Completions().offers([plain])
    assert Completions().offers([plain, explain])
    assert Completions().offers([plain], [logs])
    assert adding(lambda typed: []).offers([plain])
    assert (explain.completes, plain.completes, logs.completes) == (True, False, True)


def test_a_context_is_announced_where_a_function_takes_one() -> None:
    def topics(typed: str, ctx: Context) -> list[str]:
        return []

    completions = adding(topics)
    assert completions.takes_context(asking(EXPLAIN, "topic"))
    assert not completions.takes_context(asking(EXPLAIN, "tone"))
    with pytest.raises(RemoteError):
        completions.takes_context({})


async def test_a_second_function_for_the_same_argument_replaces_the_first_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    completions = adding(lambda: ["first"])
    assert caplog.records == []
    completions.add("explain", "topic", lambda: ["second"])
    assert len(completions) == 1
    assert (await complete(completions, asking(EXPLAIN, "topic")))["values"] == ["second"]
    assert "'topic'" in caplog.text and "'explain'" in caplog.text


async def test_a_completion_made_alone_can_be_called_and_added() -> None:
    @completion("explain", "topic")
    def topics(typed: str) -> list[str]:
        return [typed]

    assert topics("x") == ["x"]
    assert (topics.ref, topics.argument, topics.takes_context) == ("explain", "topic", False)
    assert await topics.complete("y", {}, None) == {"values": ["y"], "total": 1, "hasMore": False}
    completions = Completions()
    assert completions.add("plain", "topic", topics) is topics
    assert (await complete(completions, asking({"type": "ref/prompt", "name": "plain"}, "topic", "z")))["values"] == [
        "z"
    ]


def test_a_parameter_that_is_never_given_is_refused() -> None:
    with pytest.raises(ConfigError, match="'third'"):
        completion("explain", "topic")(lambda typed, known, third: [])
