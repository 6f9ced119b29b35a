"""Which calls are sent again: those that certainly did not run, and those that are safe to repeat."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import toolcrib as tc
from tests.interaction.kit import Clock, Place, eventually, soon
from tests.interaction.marks import only, per_protocol

pytestmark = pytest.mark.usefixtures("lucky")


# ---- surely unsent


@pytest.mark.transport
@pytest.mark.parametrize("attempts", [1, 2])
async def test_a_call_is_sent_again_when_the_server_died_before_it(harness: Place, attempts: int) -> None:
    c = harness.client(server_options=harness.sick(attempts))
    assert (await c.call_tool("die", {"nonce": "n", "times": 0})).text == "alive after 0"
    assert harness.journal.calls == ["die"]


@pytest.mark.transport
@only(eras=["modern"])
async def test_a_transport_that_died_once_does_not_decide_the_era(harness: Place) -> None:
    c = harness.client(server_options={"sick": 1})
    assert (await c.call_tool("echo", {"text": "x"})).text == "x"
    assert c.server_info is not None
    assert c.server_info.protocol_version == harness.version


async def test_a_list_is_asked_for_again_when_the_server_died_before_it(harness: Place) -> None:
    c = harness.client(server_options=harness.sick(2))
    assert await c.list_tools()


async def test_max_attempts_counts_the_attempts(harness: Place) -> None:
    options = harness.sick(5)
    c = harness.client(server_options=options, max_attempts=2)
    with pytest.raises(tc.ConnectError) as caught:
        await c.call_tool("echo", {"text": "x"})
    assert caught.value.sent is False
    assert harness.journal.lives == 2 * options["sick"] // 5


async def test_one_attempt_is_one_attempt(harness: Place) -> None:
    options = harness.sick(1)
    c = harness.client(server_options=options, max_attempts=1)
    with pytest.raises(tc.ConnectError):
        await c.call_tool("echo", {"text": "x"})
    assert harness.journal.lives == options["sick"]


# ---- sent, outcome unknown


@pytest.mark.transport
async def test_a_tool_whose_server_died_is_not_run_again(harness: Place) -> None:
    async with harness.client(name="y") as c:
        with pytest.raises(tc.OutcomeUnknown) as caught:
            await c.call_tool("die", {"nonce": "n"})
        error = caught.value
        assert (error.sent, error.server, error.tool) == (True, "y", "die")
        assert not isinstance(error, TimeoutError)
        assert (await c.call_tool("echo", {"text": "x"})).text == "x", "the next call finds a new server"
    assert harness.journal.calls == ["die", "echo"]
    assert harness.journal.lives == 2


LOOKING = {
    "tools/list": lambda c: c.list_tools(),
    "resources/list": lambda c: c.list_resources(),
    "resources/templates/list": lambda c: c.list_resource_templates(),
    "prompts/list": lambda c: c.list_prompts(),
    "resources/read": lambda c: c.read_resource("memo://text"),
    "prompts/get": lambda c: c.get_prompt("plain"),
    "completion/complete": lambda c: c.complete("greet", "name"),
}


@pytest.mark.parametrize("method", LOOKING)
async def test_what_only_looks_is_asked_again_after_a_crash(harness: Place, method: str) -> None:
    async with harness.client(server_options={"crash": {method: 1}}) as c:
        assert await LOOKING[method](c)
    assert len(harness.journal.got(method)) == 2
    assert harness.journal.lives == 2


async def test_what_only_looks_is_given_up_after_three_attempts(harness: Place) -> None:
    async with harness.client(server_options={"crash": {"prompts/get": 9}}) as c:
        with pytest.raises(tc.OutcomeUnknown):
            await c.get_prompt("plain")
    assert len(harness.journal.got("prompts/get")) == 3


@per_protocol
async def test_a_page_in_the_middle_is_asked_for_again(harness: Place) -> None:
    async with harness.client(server_options={"page": 1, "crash": {"prompts/list": 1}}) as c:
        assert [prompt.name for prompt in await c.list_prompts()] == ["greet", "plain"]


@pytest.mark.transport
async def test_the_raw_door_does_not_send_again_what_it_does_not_know(harness: Place) -> None:
    async with harness.client(server_options={"crash": {"x/y": 1}}) as c:
        with pytest.raises(tc.OutcomeUnknown):
            await c.request("x/y", {"a": 1})
        with pytest.raises(tc.OutcomeUnknown):
            await c.request("tools/call", {"name": "die", "arguments": {"nonce": "n"}})
    assert len(harness.journal.got("x/y")) == len(harness.journal.got("tools/call")) == 1


@pytest.mark.parametrize(
    "options, call",
    [
        ({"retry_safe": True}, {}),
        ({"retry_safe": ["other", "die"]}, {}),
        ({}, {"retry_safe": True}),
    ],
    ids=["all", "named", "this call"],
)
async def test_a_tool_that_the_operator_calls_safe_is_run_again(
    harness: Place, options: dict[str, Any], call: dict[str, Any]
) -> None:
    async with harness.client(**options) as c:
        assert (await c.call_tool("die", {"nonce": "n"}, **call)).text == "alive after 1"
    assert harness.journal.calls == ["die", "die"]


@per_protocol
@pytest.mark.parametrize(
    "options, call",
    [
        ({"retry_safe": ["other"]}, {}),
        ({"retry_safe": True}, {"retry_safe": False}),
        ({"trusted": True}, {}),
    ],
    ids=["another", "not this call", "trusted without a hint"],
)
async def test_a_tool_that_is_not_marked_as_safe_is_not_retried(
    harness: Place, options: dict[str, Any], call: dict[str, Any]
) -> None:
    async with harness.client(**options) as c:
        await c.list_tools()
        with pytest.raises(tc.OutcomeUnknown):
            await c.call_tool("die", {"nonce": "n"}, **call)
    assert harness.journal.calls == ["die"]


@per_protocol
@pytest.mark.parametrize("tool", ["die_reading", "die_idempotently"])
async def test_a_servers_hints_count_only_if_it_is_trusted(harness: Place, tool: str) -> None:
    for options in ({}, {"retry_safe": ["other"]}):
        async with harness.client(**options) as c:
            await c.list_tools()
            with pytest.raises(tc.OutcomeUnknown):
                await c.call_tool(tool, {"nonce": f"n{len(options)}"})
    async with harness.client(trusted=True) as c:
        await c.list_tools()
        assert (await c.call_tool(tool, {"nonce": "m"})).text == "alive after 1"
    assert harness.journal.calls == [tool] * 4


@pytest.mark.transport
async def test_a_safe_tool_is_given_up_after_three_attempts(harness: Place) -> None:
    async with harness.client(retry_safe=True) as c:
        with pytest.raises(tc.OutcomeUnknown):
            await c.call_tool("die", {"nonce": "n", "times": 9})
    assert harness.journal.calls == ["die"] * 3


# ---- never


async def test_a_passed_deadline_is_never_followed_by_a_retry(harness: Place, clock: Clock) -> None:
    async with harness.client(retry_safe=True) as c:
        call = asyncio.create_task(c.call_tool("sleeper", timeout=20))
        await eventually(lambda: "sleeper" in harness.journal.calls)
        clock.advance(21)
        with pytest.raises(tc.UnansweredTimeout):
            await soon(call)
        await c.ping()
    assert harness.journal.calls == ["sleeper"]


@per_protocol
async def test_a_tools_error_and_a_servers_refusal_are_never_followed_by_a_retry(harness: Place) -> None:
    async with harness.client(retry_safe=True) as c:
        assert (await c.call_tool("fail")).is_error
        with pytest.raises(tc.RemoteError):
            await c.call_tool("refuse")
        with pytest.raises(tc.ResourceNotFound):
            await c.read_resource("memo://none")
    assert harness.journal.calls == ["fail", "refuse"]
    assert len(harness.journal.got("resources/read")) == 1


@per_protocol
async def test_a_pause_that_would_end_after_the_deadline_is_not_begun(
    harness: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.random", lambda: 99.0)  # seconds, for the first pause
    async with harness.client() as c:
        with pytest.raises(tc.OutcomeUnknown) as caught:
            await c.call_tool("die", {"nonce": "n", "times": 9}, timeout=20, retry_safe=True)
        assert not isinstance(caught.value, TimeoutError)
    assert harness.journal.calls == ["die"]


async def test_closing_the_client_in_the_pause_before_a_retry_ends_the_call_with_its_own_error(
    harness: Place, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("random.random", lambda: 0.999)
    caplog.set_level(logging.DEBUG, "toolcrib.client")
    c = await harness.client().connect()
    call = asyncio.create_task(c.call_tool("die", {"nonce": "n"}, retry_safe=True))
    await eventually(lambda: "retrying in" in caplog.text)
    assert not call.done()
    await c.close()
    clock.advance(2)
    with pytest.raises(tc.OutcomeUnknown):
        await soon(call)
    assert harness.journal.calls == ["die"]
