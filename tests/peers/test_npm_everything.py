"""The reference server that uses every feature of the legacy era, from npm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

import toolcrib as tc
from tests.peers.kit import LEGACY, ScriptedClient, eventually, first
from tests.peers.web import Servers, npm_everything

pytestmark = pytest.mark.asyncio(loop_scope="module")

SLOW = pytest.mark.slow

TEXT = "demo://resource/dynamic/text/1"


@pytest.fixture(scope="module", params=["stdio", pytest.param("http", marks=SLOW), pytest.param("sse", marks=SLOW)])
def server(
    request: pytest.FixtureRequest, npm_server: Callable[..., tc.StdioServer], web_servers: Servers
) -> tc.ServerConfig:
    if request.param == "http":
        running = web_servers.get("npm http", lambda: npm_everything("streamableHttp"))
        return tc.HttpServer(running.url("mcp"))
    if request.param == "sse":
        return tc.SseServer(web_servers.get("npm sse", lambda: npm_everything("sse")).url("sse"))
    return npm_server("everything")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def everything(server: tc.ServerConfig) -> AsyncIterator[ScriptedClient]:
    async with ScriptedClient(server) as opened:
        yield opened


async def test_it_is_met_in_the_legacy_era(everything: ScriptedClient) -> None:
    info = everything.client.server_info

    assert info is not None
    assert (info.title, info.protocol_version) == ("Everything Reference Server", LEGACY)
    await everything.client.ping()


async def test_what_was_declared_decides_which_tools_it_offers(everything: ScriptedClient) -> None:
    conditional = {"get-roots-list", "trigger-sampling-request", "trigger-elicitation-request"}

    async def names() -> set[str] | None:
        found = {tool.name for tool in await everything.client.list_tools()}
        return found if conditional <= found else None

    found = await eventually(names, what="its conditional tools were listed")
    assert {"echo", "get-sum"} <= found and "trigger-url-elicitation" not in found


async def test_text_structured_and_picture_results(everything: ScriptedClient) -> None:
    text = await everything.client.call_tool("echo", {"message": "hi"})
    weather = await everything.client.call_tool("get-structured-content", {"location": "Chicago"})
    picture = await everything.client.call_tool("get-tiny-image")

    assert text.text == "Echo: hi" and not text.has_data
    assert weather.data.keys() == {"temperature", "conditions", "humidity"}
    images = [block for block in picture.content if isinstance(block, tc.ImageContent)]
    assert len(images) == 1 and images[0].data.startswith(b"\x89PNG") and images[0].mime_type == "image/png"


async def test_links_and_embedded_resources_are_kept(everything: ScriptedClient) -> None:
    links = await everything.client.call_tool("get-resource-links", {"count": 2})
    embedded = await everything.client.call_tool("get-resource-reference", {"resourceType": "Blob", "resourceId": 1})

    assert [block.uri for block in links.content if isinstance(block, tc.ResourceLink)] == [
        "demo://resource/dynamic/blob/1",
        "demo://resource/dynamic/text/2",
    ]
    (resource,) = [block.resource for block in embedded.content if isinstance(block, tc.EmbeddedResource)]
    assert resource.blob is not None and resource.blob.startswith(b"Resource 1:")


async def test_the_error_result_about_an_unknown_tool_stays_a_result(everything: ScriptedClient) -> None:
    await everything.client.list_tools()
    result = await everything.client.call_tool("get-summ", {"a": 1, "b": 2})
    assert result.is_error and "get-summ" in result.text


async def test_bad_arguments_are_the_tools_own_error(everything: ScriptedClient) -> None:
    result = await everything.client.call_tool("get-sum", {"a": "x", "b": 1})

    assert result.is_error and "expected number" in result.text


async def test_a_tool_that_only_runs_as_a_task_gives_a_clear_error(everything: ScriptedClient) -> None:
    with pytest.raises(tc.ToolcribError, match="task"):
        (await everything.client.call_tool("simulate-research-query", {"topic": "x"})).raise_for_error()


async def test_progress_of_a_long_operation(everything: ScriptedClient) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    result = await everything.client.call_tool(
        "trigger-long-running-operation", {"duration": 0.2, "steps": 4}, on_progress=lambda *step: seen.append(step)
    )

    assert "completed" in result.text
    assert seen == [(step, 4, None) for step in (1, 2, 3, 4)]


async def test_a_call_that_is_given_up_leaves_the_connection_whole(everything: ScriptedClient) -> None:
    started = asyncio.Event()
    call = asyncio.create_task(
        everything.client.call_tool(
            "trigger-long-running-operation", {"duration": 1, "steps": 20}, on_progress=lambda *_: started.set()
        )
    )
    async with asyncio.timeout(20):
        await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    # The server still sends progress for the cancelled call; it must be ignored.
    assert (await everything.client.call_tool("echo", {"message": "still here"})).text == "Echo: still here"


async def test_resources_templates_and_their_completion(everything: ScriptedClient) -> None:
    resources = await everything.client.list_resources()
    templates = await everything.client.list_resource_templates()
    template = "demo://resource/dynamic/text/{resourceId}"

    assert "demo://resource/static/document/features.md" in [resource.uri for resource in resources]
    assert template in [entry.uri_template for entry in templates]
    assert (await everything.client.read_resource(TEXT)).text.startswith("Resource 1: This is a plaintext resource")
    assert (await everything.client.read_resource("demo://resource/dynamic/blob/2")).data.startswith(b"Resource 2:")
    completion = await everything.client.complete({"type": "ref/resource", "uri": template}, "resourceId", "3")
    assert completion.values == ("3",)


async def test_an_unknown_resource_is_not_found(everything: ScriptedClient) -> None:
    with pytest.raises(tc.ResourceNotFound):
        await everything.client.read_resource("demo://nowhere")


async def test_prompts_with_arguments_resources_and_completion(everything: ScriptedClient) -> None:
    weather = await everything.client.get_prompt("args-prompt", {"city": "Bonn", "state": "NRW"})
    about = await everything.client.get_prompt("resource-prompt", {"resourceType": "Text", "resourceId": "1"})
    ref = {"type": "ref/prompt", "name": "completable-prompt"}
    department = await everything.client.complete(ref, "department", "E")
    member = await everything.client.complete(ref, "name", "", context={"department": "Engineering"})

    assert weather.text == "What's weather in Bonn, NRW?"
    assert [type(message.content) for message in about.messages] == [tc.TextContent, tc.EmbeddedResource]
    assert department.values == ("Engineering",)
    assert member.values == ("Alice", "Bob", "Charlie")


async def test_it_samples_through_the_client(everything: ScriptedClient) -> None:
    everything.sampled.clear()
    everything.says = lambda _: "forty-two"

    result = await everything.client.call_tool("trigger-sampling-request", {"prompt": "hey", "maxTokens": 9})

    assert "forty-two" in result.text
    (request,) = everything.sampled
    assert request.max_tokens == 9 and "hey" in request.text


async def test_it_elicits_a_form_without_naming_the_mode(everything: ScriptedClient) -> None:
    everything.asked.clear()
    everything.answers = lambda _: {"name": "Ann"}

    result = await everything.client.call_tool("trigger-elicitation-request")

    assert "Name: Ann" in result.text
    (request,) = everything.asked
    assert request.mode == "form" and "mode" not in request.raw
    assert "untitledMultipleSelectEnum" in request.schema["properties"]


async def test_it_shows_the_roots_that_it_was_given(everything: ScriptedClient) -> None:
    async def shown() -> bool:
        return "file:///crib/two" in (await everything.client.call_tool("get-roots-list")).text

    await eventually(shown, what="it knew the roots")


async def test_it_logs_to_the_handler(everything: ScriptedClient) -> None:
    everything.logged.clear()

    async def logged() -> bool:
        # It picks a level at random at each start; those below the asked one are not sent.
        await everything.client.call_tool("toggle-simulated-logging")
        return bool(everything.logged)

    await eventually(logged, what="a message was logged")
    message = everything.logged[0]
    assert message.level in {"warning", "error", "critical", "alert", "emergency"}
    assert isinstance(message.data, str) and message.logger is None


async def test_updates_of_a_subscribed_resource_come(everything: ScriptedClient) -> None:
    async with everything.client.listen(TEXT, tools=False, prompts=False, resources=False) as changes:
        await everything.client.call_tool("toggle-subscriber-updates")
        assert await first(changes) == tc.Change("resource", TEXT)
        await everything.client.call_tool("toggle-subscriber-updates")
