"""Requests of a server to the client during a call: only declared capabilities, answered the same in both eras."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.interaction.kit import Clock, Place, eventually, soon
from tests.interaction.marks import MODERN, OLDER, per_protocol


async def answer_to(c: tc.Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the answer to the server's request: `{"result": ...}` or `{"error": ...}`."""
    said = json.loads((await c.call_tool(tool, arguments)).text)
    return {key: value for key, value in said.items() if key in ("result", "error")}


@per_protocol
@pytest.mark.parametrize(
    "options, declared",
    [
        ({}, {}),
        ({"sampling_handler": lambda request: "x"}, {"sampling": {}}),
        ({"elicitation_handler": lambda request: None}, {"elicitation": {"form": {}}}),
        (
            {"elicitation_handler": lambda request: None, "elicitation_modes": ("form", "url")},
            {"elicitation": {"form": {}, "url": {}}},
        ),
        ({"roots": []}, {"roots": {}}),
    ],
    ids=["nothing", "sampling", "elicitation", "both-modes", "roots"],
)
async def test_only_what_is_given_is_declared(
    harness: Place, options: dict[str, Any], declared: dict[str, Any]
) -> None:
    async with harness.client(**options) as c:
        assert json.loads((await c.call_tool("declared")).text) == declared


# ---- sampling


@pytest.mark.transport
async def test_sampling_is_answered_by_a_text(harness: Place) -> None:
    asked: list[tc.SamplingRequest] = []

    def handler(request: tc.SamplingRequest) -> str:
        asked.append(request)
        return "4"

    async with harness.client(sampling_handler=handler) as c:
        answer = (await answer_to(c, "sample"))["result"]
    assert (answer["role"], answer["content"]) == ("assistant", {"type": "text", "text": "4"})
    assert isinstance(answer["model"], str)
    (request,) = asked
    assert (request.text, request.system_prompt, request.max_tokens) == ("2 + 2?", "Be brief.", 7)
    assert request["maxTokens"] == 7


@per_protocol
async def test_sampling_is_answered_by_a_whole_result_of_an_async_handler(harness: Place) -> None:
    whole = {"role": "assistant", "content": {"type": "text", "text": "four"}, "model": "m1", "stopReason": "endTurn"}

    async def handler(request: tc.SamplingRequest) -> dict[str, Any]:
        await asyncio.sleep(0)
        return whole

    async with harness.client(sampling_handler=handler) as c:
        assert await answer_to(c, "sample") == {"result": whole}


# ---- elicitation


@per_protocol
@pytest.mark.parametrize(
    "said, sent",
    [
        (tc.ElicitResult("accept", {"ok": True}), {"action": "accept", "content": {"ok": True}}),
        (tc.ElicitResult("decline"), {"action": "decline"}),
        ({"ok": False}, {"action": "accept", "content": {"ok": False}}),
        ({"action": "decline"}, {"action": "decline"}),
        (None, {"action": "cancel"}),
    ],
    ids=["accept", "decline", "dict", "wire", "none"],
)
async def test_the_persons_answer_reaches_the_server(harness: Place, said: Any, sent: dict[str, Any]) -> None:
    asked: list[tc.ElicitRequest] = []

    async def handler(request: tc.ElicitRequest) -> Any:
        asked.append(request)
        return said

    async with harness.client(elicitation_handler=handler) as c:
        assert await answer_to(c, "elicit") == {"result": sent}
    (request,) = asked
    assert (request.message, request.mode, request.url) == ("Go on?", "form", None)
    assert request.schema["properties"] == {"ok": {"type": "boolean"}}


@per_protocol
async def test_a_url_is_shown_whole_where_that_mode_is_offered(harness: Place) -> None:
    asked: list[tc.ElicitRequest] = []

    def handler(request: tc.ElicitRequest) -> tc.ElicitResult:
        asked.append(request)
        return tc.ElicitResult("accept")

    async with harness.client(elicitation_handler=handler, elicitation_modes=("form", "url")) as c:
        assert await answer_to(c, "elicit", mode="url") == {"result": {"action": "accept"}}
    assert (asked[0].mode, asked[0].url) == ("url", "https://example.com/sign?who=1")


@pytest.mark.transport
async def test_a_mode_that_was_not_offered_never_reaches_the_person(harness: Place) -> None:
    asked: list[tc.ElicitRequest] = []
    async with harness.client(elicitation_handler=asked.append) as c:
        answer = await answer_to(c, "elicit", mode="url")
    assert asked == []
    if harness.modern:
        assert answer["result"]["action"] in ("decline", "cancel")
    else:
        assert answer["error"]["code"] == -32602


@pytest.mark.transport
async def test_prompts_and_resources_may_ask_too(harness: Place) -> None:
    async with harness.client(elicitation_handler=lambda request: {"name": "Ann"}) as c:
        assert (await c.get_prompt("asking")).description == "Ann"
        assert (await c.read_resource("memo://asking")).text == "Ann"


@pytest.mark.transport
@OLDER
async def test_a_question_that_the_server_takes_back_gets_no_answer(harness: Place) -> None:
    async def handler(request: tc.ElicitRequest) -> dict[str, bool]:
        if request.message == "?":
            await asyncio.Event().wait()
        return {"ok": True}

    async with harness.client(elicitation_handler=handler) as c:
        assert (await c.call_tool("take_back")).text == "never mind"
        assert (await answer_to(c, "elicit"))["result"]["action"] == "accept"
    answers = [message["id"] for message in harness.journal.entries("got") if "method" not in message]
    assert answers == ["question-1"], "only the second question was answered"


# ---- roots


@per_protocol
async def test_roots_are_sent_as_uris(harness: Place, tmp_path: Path) -> None:
    roots = [tmp_path, "/srv/data", "https://example.com/x", {"uri": "file:///named", "name": "n"}]
    async with harness.client(roots=roots) as c:
        reported = (await answer_to(c, "roots"))["result"]["roots"]
    assert [root["uri"] for root in reported] == [
        tmp_path.as_uri(),
        "file:///srv/data",
        "https://example.com/x",
        "file:///named",
    ]
    assert reported[3] == {"uri": "file:///named", "name": "n"}


@per_protocol
@pytest.mark.parametrize("is_async", [False, True])
async def test_roots_may_be_asked_for_each_time(harness: Place, is_async: bool) -> None:
    current = ["/a"]

    async def later() -> list[str]:
        return current

    async with harness.client(roots=later if is_async else lambda: current) as c:
        first = await answer_to(c, "roots")
        current.append("/b")
        second = await answer_to(c, "roots")
    assert [len(answer["result"]["roots"]) for answer in (first, second)] == [1, 2]


# ---- refusals


@per_protocol
@OLDER
@pytest.mark.parametrize("tool", ["sample", "elicit", "roots"])
async def test_an_older_server_that_asks_for_what_was_not_offered_gets_an_error(harness: Place, tool: str) -> None:
    async with harness.client() as c:
        error = (await answer_to(c, tool))["error"]
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"
    assert error["code"] == -32601
    assert error["message"]


@MODERN
@pytest.mark.parametrize("tool", ["sample", "roots"])
async def test_a_modern_call_that_needs_what_was_not_offered_fails(harness: Place, tool: str) -> None:
    async with harness.client(name="y") as c:
        with pytest.raises(tc.AccessDenied) as caught:
            await c.call_tool(tool)
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"
    assert caught.value.rule in ("sampling/createMessage", "roots/list")
    assert (caught.value.server, caught.value.tool) == ("y", tool)


@MODERN
async def test_a_modern_elicitation_without_a_person_is_not_accepted(harness: Place) -> None:
    async with harness.client() as c:
        assert (await answer_to(c, "elicit"))["result"]["action"] in ("decline", "cancel")


@per_protocol
@OLDER
@pytest.mark.parametrize("tool, option", [("sample", "sampling_handler"), ("elicit", "elicitation_handler")])
async def test_a_handler_that_raises_is_an_error_to_the_server_without_its_text(
    harness: Place, tool: str, option: str
) -> None:
    def broken(request: Any) -> None:
        raise RuntimeError("my secret")

    async with harness.client(**{option: broken}) as c:
        error = (await answer_to(c, tool))["error"]
    assert error["code"] == -32603
    assert "my secret" not in error["message"]


@MODERN
@pytest.mark.parametrize("tool, option", [("sample", "sampling_handler"), ("elicit", "elicitation_handler")])
@pytest.mark.parametrize("said", [RuntimeError("my own fault"), 7], ids=["raises", "wrong type"])
async def test_a_modern_call_whose_handler_fails_fails_without_reporting_a_refusal(
    harness: Place, tool: str, option: str, said: Any
) -> None:
    def broken(request: Any) -> Any:
        if isinstance(said, Exception):
            raise said
        return said

    async with harness.client(**{option: broken}) as c:
        with pytest.raises(tc.ToolcribError) as caught:
            await c.call_tool(tool)
        assert not isinstance(caught.value, tc.AccessDenied | tc.TransportError)
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"
    assert harness.journal.calls == [tool, "echo"]


# ---- time


@pytest.mark.transport
@pytest.mark.parametrize("tool", ["elicit", "sample"])
async def test_no_deadline_passes_while_a_person_or_a_model_answers(harness: Place, clock: Clock, tool: str) -> None:
    async def slow(request: Any) -> Any:
        clock.advance(500)
        await asyncio.sleep(0)
        clock.advance(500)
        await asyncio.sleep(0)
        return "yes" if tool == "sample" else {"ok": True}

    async with harness.client(sampling_handler=slow, elicitation_handler=slow) as c:
        result = await c.call_tool(tool, timeout=20, idle_timeout=20)
        assert "result" in json.loads(result.text)


@pytest.mark.transport
@OLDER
async def test_the_deadline_goes_on_after_the_person_answered(harness: Place, clock: Clock) -> None:
    """Another call sleeps meanwhile: exactly the time of the question is added to its deadline."""

    def answer(request: tc.ElicitRequest) -> dict[str, bool]:
        clock.advance(1000)
        return {"ok": True}

    async with harness.client(elicitation_handler=answer) as c:
        sleeping = asyncio.create_task(c.call_tool("sleeper", timeout=20))
        await eventually(lambda: "sleeper" in harness.journal.calls)
        await c.call_tool("elicit")
        assert not sleeping.done()
        clock.advance(21)
        with pytest.raises(tc.UnansweredTimeout):
            await soon(sleeping)


@pytest.mark.transport
async def test_a_handler_may_use_the_client_itself(harness: Place) -> None:
    async def handler(request: tc.SamplingRequest) -> str:
        return (await c.call_tool("echo", {"text": "inner"})).text

    async with harness.client(sampling_handler=handler) as c:
        answer = (await soon(answer_to(c, "sample")))["result"]
    assert answer["content"]["text"] == "inner"
    assert harness.journal.calls[:2] == ["sample", "echo"]
