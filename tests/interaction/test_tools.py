"""Calling tools: the requests and the results."""

from __future__ import annotations

import json
from typing import Any

import pytest

import toolcrib as tc
from tests.interaction.kit import Place
from tests.interaction.marks import MODERN_WEB, client_side, only, per_protocol


@per_protocol
async def test_structured_data_comes_beside_the_text(harness: Place) -> None:
    async with harness.client() as c:
        result = await c.call_tool("add", {"a": 2, "b": 3.5})
        assert (result.data, result.has_data, result.text) == ({"sum": 5.5}, True, '{"sum": 5.5}')
        echoed = await c.call_tool("echo", {"text": "x"})
        assert (echoed.data, echoed.has_data) == (None, False)


@per_protocol
async def test_a_wrapped_scalar_is_unwrapped_once_the_tool_is_known(harness: Place) -> None:
    async with harness.client() as c:
        await c.list_tools()
        result = await c.call_tool("double", {"x": 21})
        assert result.data == 42
        assert result.raw["structuredContent"] == {"result": 42}


async def test_a_wrapped_scalar_stays_unwrapped_when_the_list_of_tools_changes(harness: Place) -> None:
    async with harness.client() as c:
        await c.list_tools()
        before = (await c.call_tool("double", {"x": 21})).data
        await c.call_tool("grow")
        assert (await c.call_tool("double", {"x": 21})).data == before
        await c.disconnect()
        assert (await c.call_tool("double", {"x": 21})).data == before


@per_protocol
async def test_an_object_with_a_result_field_is_not_taken_for_a_wrapped_scalar(harness: Place) -> None:
    async with harness.client() as c:
        await c.list_tools()
        assert (await c.call_tool("unwrapped")).data == {"result": 1}


@per_protocol
async def test_a_structured_null_is_distinguished_from_no_data(harness: Place) -> None:
    async with harness.client() as c:
        result = await c.call_tool("nothing")
        assert (result.data, result.has_data, result.content) == (None, True, ())


@per_protocol
async def test_every_block_is_kept_in_order_also_one_of_an_unknown_kind(harness: Place) -> None:
    async with harness.client() as c:
        result = await c.call_tool("blocks")
    one, image, audio, link, embedded, unknown, two = result.content
    assert (one, two) == (tc.TextContent("one"), tc.TextContent("two"))
    assert image == tc.ImageContent(b"\x89bytes", "image/png")
    assert audio == tc.AudioContent(b"\x89bytes", "audio/wav")
    assert link == tc.ResourceLink("memo://text", "text")
    assert isinstance(embedded, tc.EmbeddedResource)
    assert embedded.resource.text == "good day\n"
    assert isinstance(unknown, tc.UnknownContent)
    assert (unknown.type, unknown.raw["angles"]) == ("hologram", 3)
    assert result.text == "one\ntwo"


@client_side
async def test_a_result_says_how_long_the_call_took(harness: Place) -> None:
    async with harness.client() as c:
        assert 0 < (await c.call_tool("echo", {"text": "x"})).elapsed < 10


async def test_a_json_rpc_error_is_a_remote_error_with_code_and_data(harness: Place) -> None:
    async with harness.client(name="y") as c:
        with pytest.raises(tc.RemoteError, match="not today") as caught:
            await c.call_tool("refuse")
    error = caught.value
    assert (error.code, error.data, error.server, error.tool) == (-32050, {"until": "tomorrow"}, "y", "refuse")


async def test_the_callers_meta_rides_on_the_request(harness: Place) -> None:
    async with harness.client() as c:
        meta = {"com.example/trace": "t1"}
        seen = json.loads((await c.call_tool("given", {}, meta=meta)).text)["meta"]
    assert seen["com.example/trace"] == "t1"
    assert meta == {"com.example/trace": "t1"}
    assert ("io.modelcontextprotocol/protocolVersion" in seen) is harness.modern
    if harness.modern:
        assert seen["io.modelcontextprotocol/clientInfo"] == {"name": "toolcrib", "version": tc.__version__}


@pytest.mark.transport
async def test_big_and_strange_texts_come_back_as_they_were(harness: Place) -> None:
    strange = 'é \u2028 \U0001f600 \\ " \n \x00' + "x" * 200_000
    async with harness.client() as c:
        assert (await c.call_tool("echo", {"text": strange})).text == strange


@pytest.mark.transport
async def test_what_json_cannot_say_is_the_callers_bug(harness: Place) -> None:
    async with harness.client() as c:
        with pytest.raises(tc.UsageError):
            await c.call_tool("echo", {"text": object()})
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"


async def test_a_tool_that_the_server_refuses_as_unknown_is_not_found(harness: Place) -> None:
    async with harness.client(server_options={"unknown": "error"}) as c:
        await c.list_tools()
        with pytest.raises(tc.ToolNotFound, match="did you mean 'echo'") as caught:
            await c.call_tool("ecko")
    assert caught.value.nearest == ("echo",)
    assert caught.value.tool == "ecko"


@per_protocol
async def test_an_error_result_about_an_unknown_tool_stays_a_result(harness: Place) -> None:
    """The text must not decide: an unlisted tool that ran and failed answers in the same form."""
    async with harness.client(server_options={"unknown": "result"}) as c:
        await c.list_tools()
        result = await c.call_tool("ecko")
    assert (result.is_error, result.text) == (True, "Unknown tool: ecko")


async def test_an_unknown_tool_is_looked_for_where_no_list_is_known(harness: Place) -> None:
    async with harness.client(server_options={"unknown": "error"}) as c:
        with pytest.raises(tc.ToolNotFound, match="Unknown tool: ecko") as caught:
            await c.call_tool("ecko")
        assert caught.value.nearest == ("echo",)
        with pytest.raises(tc.ToolNotFound):
            await c.call_tool("zzz")


async def test_an_error_result_does_not_mean_that_the_tool_is_missing(harness: Place) -> None:
    async with harness.client() as c:
        await c.list_tools()
        assert (await c.call_tool("fail")).is_error
    assert len(harness.journal.got("tools/list")) == 1


@client_side
async def test_a_hidden_tool_is_not_among_the_nearest_names(harness: Place) -> None:
    async with harness.client(tool_filter=lambda tool: tool.name != "echo") as c:
        await c.list_tools()
        with pytest.raises(tc.ToolNotFound) as caught:
            await c.call_tool("ecko")
    assert "echo" not in caught.value.nearest


@client_side
async def test_a_tool_that_only_runs_as_a_task_is_refused_with_a_reason(harness: Place) -> None:
    async with harness.client() as c:
        await c.list_tools()
        with pytest.raises(tc.AccessDenied, match="task"):
            await c.call_tool("task_only")
    assert harness.journal.calls == []


ARGUMENTS: dict[str, Any] = {
    "limit": None,
    "note": None,
    "tags": [],
    "sources": ["web"],
    "other": {"deep": None, "kept": 0},
}
CLEANED = {
    "schema": {"note": None, "sources": [{"type": "web"}], "other": {"deep": None, "kept": 0}},
    "always": {"sources": [{"type": "web"}], "other": {"kept": 0}},
    "never": ARGUMENTS,
}


@client_side
@pytest.mark.parametrize("mode", CLEANED)
async def test_arguments_are_cleaned_as_the_mode_says(harness: Place, mode: str) -> None:
    async with harness.client(clean_arguments=mode) as c:
        await c.list_tools()
        given = json.loads(json.dumps(ARGUMENTS))
        seen = json.loads((await c.call_tool("given", given)).text)["arguments"]
    assert seen == CLEANED[mode]
    assert given == ARGUMENTS, "what the caller gave stays as it was"


@only(but=MODERN_WEB)  # there every schema is known before the call, for it says what goes into headers
async def test_arguments_of_a_tool_whose_schema_is_not_known_are_untouched_by_default(harness: Place) -> None:
    async with harness.client() as c:
        assert json.loads((await c.call_tool("given", ARGUMENTS)).text)["arguments"] == ARGUMENTS


@client_side
async def test_a_wrong_timeout_is_reported_before_anything_is_sent(harness: Place) -> None:
    async with harness.client() as c:
        for timeout in (0, -1, True):
            with pytest.raises(tc.ConfigError, match="timeout"):
                await c.call_tool("echo", {"text": "x"}, timeout=timeout)
    assert harness.journal.calls == []


@pytest.mark.parametrize(
    "options, named",
    [({"timeout": 3}, "'timeout'; did you mean"), ({"mode": "2031"}, "mode"), ({"max_attempts": 0}, "max_attempts")],
)
def test_a_wrong_option_is_reported_with_its_name(options: dict[str, Any], named: str) -> None:
    with pytest.raises(tc.ConfigError, match=named):
        tc.Client(tc.StdioServer("python"), **options)
