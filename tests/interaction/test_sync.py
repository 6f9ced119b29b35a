"""The sync client."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import pytest

import toolcrib as tc
from tests.interaction.kit import BOUND, FAST, Place
from tests.interaction.marks import client_side, per_protocol
from toolcrib import events as ev
from toolcrib import sync

pytestmark = pytest.mark.usefixtures("lucky")


@pytest.mark.transport
def test_tools_are_listed_and_called(place: Place) -> None:
    with place.sync_client(name="y") as c:
        assert {"echo", "add"} <= {tool.name for tool in c.list_tools()}
        assert c.call_tool("add", {"a": 1, "b": 2}, timeout=10).data == {"sum": 3}
        assert c.call_tool("double", {"x": 4}).data == 8
        with pytest.raises(tc.ToolFailed):
            c.call_tool("fail").raise_for_error()
        assert c.request("tools/list", {})["tools"][0]["name"] == "echo"
        assert (c.name, c.connected, c.status.state) == ("y", True, tc.ConnectionState.CONNECTED)
        assert c.server_info is not None
        assert (c.server_info.name, c.server_info.protocol_version) == ("crib", place.version)
        assert 0 <= c.ping() < BOUND


@per_protocol
def test_resources_prompts_and_completions(place: Place) -> None:
    with place.sync_client(server_options={"page": 1}) as c:
        assert [resource.uri for resource in c.list_resources()] == ["memo://text", "memo://blob", "memo://both"]
        assert len(c.list_resource_templates()) == len(c.list_prompts()) == 2
        assert c.read_resource("memo://text").text == "good day\n"
        assert c.get_prompt("greet", {"name": "Ada"}).arguments == {"name": "Ada"}
        assert c.complete("greet", "name", "G").values == ("Grace",)
        with pytest.raises(tc.ResourceNotFound):
            c.read_resource("memo://none")


@pytest.mark.transport
def test_the_errors_are_the_same(place: Place) -> None:
    with place.sync_client(tool_filter=tc.static_filter(blocked=["echo"])) as c:
        with pytest.raises(tc.AccessDenied):
            c.call_tool("echo", {"text": "x"})
        with pytest.raises(tc.RemoteError, match="not today"):
            c.call_tool("refuse")
        c.list_tools()
        with pytest.raises(tc.ToolNotFound):
            c.call_tool("refuze")
        with pytest.raises(tc.UnansweredTimeout):
            c.call_tool("sleeper", timeout=0.05)
        with pytest.raises(tc.OutcomeUnknown):
            c.call_tool("die", {"nonce": "n"})
        assert c.call_tool("given").text
    assert place.journal.lives == 2


@client_side
def test_outside_the_with_block_the_error_is_clear(place: Place) -> None:
    c = place.sync_client()
    for use in (c.list_tools, lambda: c.call_tool("echo"), c.ping, c.disconnect, c.listen):
        with pytest.raises(tc.UsageError, match="with"):
            use()
    with c:
        c.list_tools()
    for use in (c.list_tools, lambda: c.call_tool("echo")):
        with pytest.raises(tc.UsageError):
            use()
    assert place.journal.lives == 1


def test_after_disconnect_the_next_call_connects_again(place: Place) -> None:
    with place.sync_client() as c:
        c.disconnect()
        assert c.connected is False
        assert c.call_tool("echo", {"text": "x"}).text == "x"
    assert place.journal.lives == 2


def test_a_with_block_over_a_server_that_dies_raises_and_can_be_entered_again(place: Place) -> None:
    c = place.sync_client(server_options=place.sick(1))
    with pytest.raises(tc.ConnectError), c:
        raise AssertionError("never entered")
    with pytest.raises(tc.UsageError):
        c.list_tools()
    with c:
        assert c.call_tool("echo", {"text": "x"}).text == "x"


@pytest.mark.transport
def test_progress_and_events_come_to_plain_functions(place: Place) -> None:
    progress: list[float] = []
    received: list[str] = []
    c = place.sync_client()
    c.on(ev.Event, lambda event: received.append(type(event).__name__))
    with c:
        c.call_tool("slow", {"steps": 3}, on_progress=lambda p, *_: progress.append(p))
    assert progress == [1, 2, 3]
    assert received == [
        "ConnectionStarted",
        "ConnectionCompleted",
        "ToolExecutionStarted",
        "ToolExecutionCompleted",
        "Disconnected",
    ]


@per_protocol
@pytest.mark.parametrize("is_async", [False, True])
def test_questions_are_answered_by_plain_and_async_functions(place: Place, is_async: bool) -> None:
    threads: list[threading.Thread] = []

    def plain(request: tc.ElicitRequest) -> dict[str, Any]:
        threads.append(threading.current_thread())
        return {"ok": True}

    async def later(request: tc.ElicitRequest) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"ok": True}

    with place.sync_client(elicitation_handler=later if is_async else plain) as c:
        assert '"accept"' in c.call_tool("elicit").text
    assert threading.current_thread() not in threads


@pytest.mark.transport
def test_a_plain_handler_may_block_and_use_the_client(place: Place) -> None:
    def handler(request: tc.SamplingRequest) -> str:
        return c.call_tool("echo", {"text": "inner"}).text

    with place.sync_client(sampling_handler=handler) as c:
        assert "inner" in c.call_tool("sample", timeout=BOUND).text


@pytest.mark.transport
def test_changes_are_received_in_a_plain_loop(place: Place) -> None:
    with place.sync_client() as c, c.listen("memo://text") as changes:
        c.call_tool("touch", {"uri": "memo://text"})
        c.call_tool("grow")
        received = list(islice(changes, 2))
    assert received == [tc.Change("resource", "memo://text"), tc.Change("tools")]


@pytest.mark.transport
def test_changes_are_received_after_a_restart(place: Place, relisten_soon: None) -> None:
    with place.sync_client(reconnect=FAST) as c, c.listen() as changes:
        with pytest.raises(tc.OutcomeUnknown):
            c.call_tool("die", {"nonce": "n"})
        if not place.hears_of_death:
            c.list_prompts()
        assert {next(changes).kind for _ in range(3)} == {"tools", "prompts", "resources"}


@client_side
def test_leaving_the_with_block_ends_a_loop_in_another_thread(place: Place) -> None:
    with place.sync_client() as c:
        changes = c.listen().__enter__()
        loop = threading.Thread(target=list, args=[changes], daemon=True)
        loop.start()
    loop.join(BOUND)
    assert not loop.is_alive()


def test_many_threads_may_use_one_client_and_get_their_own_answers(place: Place) -> None:
    with place.sync_client() as c, ThreadPoolExecutor(16) as pool:
        texts = [f"n{n}" for n in range(100)]
        assert [r.text for r in pool.map(lambda text: c.call_tool("echo", {"text": text}), texts)] == texts
    assert place.journal.lives == 1


@client_side
def test_several_clients_live_side_by_side_on_one_thread(place: Place) -> None:
    with place.sync_client() as one, place.sync_client() as two:
        portals = [thread for thread in threading.enumerate() if thread.name == "toolcrib-portal"]
        assert len(portals) == 1
        assert portals[0].daemon
        one.close()
        assert two.call_tool("echo", {"text": "x"}).text == "x"


@client_side
async def test_a_running_loop_elsewhere_is_fine(place: Place) -> None:
    with place.sync_client() as c:
        assert c.call_tool("echo", {"text": "x"}).text == "x"


@client_side
def test_a_callback_on_the_portals_own_thread_gets_an_error_that_it_cannot_wait(place: Place) -> None:
    errors: list[Exception] = []
    with place.sync_client() as c:

        def listener(event: ev.ToolExecutionStarted) -> None:
            try:
                c.ping()
            except tc.UsageError as exc:
                errors.append(exc)

        c.on(ev.ToolExecutionStarted, listener)
        c.call_tool("echo", {"text": "x"})
    assert "portal" in str(errors[0])


def test_it_takes_the_same_options_and_has_the_same_methods() -> None:
    public = {name for name in dir(tc.Client) if not name.startswith("_")}
    called_by_the_connection = {"on_notification", "on_connected", "on_disconnected"}
    only_async = {"connect", "session"}  # the methods of a session belong to the event loop of its client
    assert public - called_by_the_connection - only_async <= set(dir(sync.Client))
    with pytest.raises(tc.ConfigError, match="'no_such'"):
        sync.Client(tc.StdioServer("python"), no_such=1)  # type: ignore[call-arg]
