"""What passes a bridge, whichever era each side speaks: everything, in both directions."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

import toolcrib as tc
from tests.serving import served
from toolcrib.bridge.proxy import Proxy
from toolcrib.server.serving.security import RequestGuard
from toolcrib.server.serving.streamable_http import HttpApp

BRIDGED_SERVER = Path(__file__).with_name("bridged_server.py")
PAIRS = (("legacy", "auto"), ("auto", "legacy"), ("legacy", "legacy"), ("auto", "auto"))
VERSIONS = {"legacy": "2025-11-25", "auto": "2026-07-28"}
WITHIN = 30.0

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Guest:
    """A client in front of a bridge, and the requests and notifications that it received."""

    client: tc.Client
    journal: Path
    front: str
    asked: list[tc.ElicitRequest] = field(default_factory=list)
    logged: list[Any] = field(default_factory=list)

    async def text(self, tool: str, **arguments: Any) -> str:
        return (await self.client.call_tool(tool, arguments)).text

    async def noted(self, step: str) -> None:
        async with asyncio.timeout(WITHIN):
            while step not in self.journal.read_text():
                await asyncio.sleep(0.01)


@asynccontextmanager
async def bridged(upstream: tc.ServerConfig, mode: str = "auto") -> AsyncIterator[str]:
    """The URL of a bridge to this server."""
    passing = Proxy(upstream, alone=False, mode=mode)
    try:
        await passing.start()
        async with served(HttpApp(passing, guard=RequestGuard())) as address:
            yield f"{address}/mcp"
    finally:
        await passing.close()


@asynccontextmanager
async def guest(url: str, front: str, journal: Path, **options: Any) -> AsyncIterator[Guest]:
    """A client with every handler."""

    def elicit(asked: tc.ElicitRequest) -> Any:
        found.asked.append(asked)
        return {"name": "Ada"} if asked.mode == "form" else True

    given = {
        "elicitation_handler": elicit,
        "elicitation_modes": ("form", "url"),
        "sampling_handler": lambda _: "a rose",
        "roots": ["file:///garden"],
        "log_handler": lambda message: found.logged.append(message.data),
        "log_level": "warning",
        **options,
    }
    client = tc.Client(url, mode=front, **given)
    found = Guest(client, journal, front)
    async with client:
        yield found


def scripted(journal: Path) -> tc.StdioServer:
    journal.touch()
    return tc.StdioServer(sys.executable, [str(BRIDGED_SERVER), str(journal)])


@pytest.fixture
def upstream(tmp_path: Path) -> tc.StdioServer:
    return scripted(tmp_path / "journal")


def pairs_of_eras(mark_of_equal_ones: pytest.MarkDecorator) -> list[Any]:
    """Return the eras in front of and behind the bridge. Each era is on each side in the unequal pairs."""
    year = {"legacy": 2025, "auto": 2026}
    return [
        pytest.param(
            pair,
            id=f"{year[front]}-in-front-{year[behind]}-behind",
            marks=mark_of_equal_ones if front == behind else (),
        )
        for pair in PAIRS
        for front, behind in [pair]
    ]


EVERY_PAIR = pytest.mark.parametrize("eras", pairs_of_eras(pytest.mark.slow), indirect=True)
"""For what depends on both eras together: in whose name the upstream asks and logs."""


@pytest.fixture(scope="module", params=pairs_of_eras(pytest.mark.nightly))
def eras(request: pytest.FixtureRequest) -> tuple[str, str]:
    front, behind = request.param
    return front, behind


@asynccontextmanager
async def guest_of_a_bridge(eras: tuple[str, str], journal: Path) -> AsyncIterator[Guest]:
    front, behind = eras
    async with bridged(scripted(journal), behind) as url, guest(url, front, journal) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lasting(eras: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guest]:
    async with guest_of_a_bridge(eras, tmp_path_factory.mktemp("bridge") / "journal") as found:
        yield found


@pytest.fixture
def here(lasting: Guest) -> Guest:
    """A client whose bridge and upstream are those of the tests before it with the same eras."""
    lasting.asked.clear()
    lasting.logged.clear()
    return lasting


@pytest_asyncio.fixture(loop_scope="module")
async def alone(eras: tuple[str, str], tmp_path: Path) -> AsyncIterator[Guest]:
    """A client with its own bridge and upstream."""
    async with guest_of_a_bridge(eras, tmp_path / "journal") as found:
        yield found


async def test_the_upstream_introduces_itself(here: Guest) -> None:
    info = here.client.server_info
    assert info is not None
    assert (info.name, info.version, info.instructions) == ("crib", "2.1", "Mind the step.")
    assert info.protocol_version == VERSIONS[here.front]
    assert info.capabilities == {
        "completions": {},
        "logging": {},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "tools": {"listChanged": True},
    }


async def test_tools_resources_prompts_and_completion_pass(here: Guest) -> None:
    client = here.client
    add = next(tool for tool in await client.list_tools() if tool.name == "add")
    assert add.description == "Add two numbers."
    assert (await client.call_tool("add", {"a": 2, "b": 40})).data == 42
    assert [resource.uri for resource in await client.list_resources()] == ["crib://plot"]
    assert (await client.read_resource("crib://plot")).text == "a plot"
    prompt = await client.get_prompt("explain", {"topic": "bees"})
    assert [message.content for message in prompt.messages] == [tc.TextContent("Explain bees.")]
    assert (await client.complete("explain", "topic", "a")).values == ("apples",)


async def test_progress_comes_before_the_answer(here: Guest) -> None:
    seen: list[Any] = []
    result = await here.client.call_tool("count", {"steps": 3}, on_progress=lambda *step: seen.append(step))
    assert (result.text, seen) == ("counted 3", [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")])


@EVERY_PAIR
async def test_logs_pass_from_the_level_on_that_was_asked_for(here: Guest) -> None:
    assert await here.text("chatter") == "said"
    assert here.logged == ["high"]


@EVERY_PAIR
async def test_what_the_upstream_asks_reaches_the_client_and_the_answer_the_upstream(here: Guest) -> None:
    assert await here.text("ask_user", question="who?") == "who? accept Ada"
    assert await here.text("ask_model") == "a rose"
    assert await here.text("ask_roots") == "file:///garden"
    assert [asked.message for asked in here.asked] == ["who?"]


@EVERY_PAIR
async def test_a_person_is_sent_to_a_url_with_what_the_era_in_front_wants(here: Guest) -> None:
    assert await here.text("ask_page") == "accept"
    (asked,) = here.asked
    assert asked.url == "https://example.com/sign-in"
    assert ("elicitationId" in asked.raw) == (here.front == "legacy")


@EVERY_PAIR
async def test_many_questions_at_once_find_their_answers(here: Guest) -> None:
    words = await asyncio.gather(*(here.text("ask_user", question=f"n{n}") for n in range(6)))
    assert words == [f"n{n} accept Ada" for n in range(6)]


async def test_a_call_that_is_given_up_is_cancelled_upstream(here: Guest) -> None:
    began = asyncio.Event()
    call = asyncio.create_task(here.client.call_tool("nap", on_progress=lambda *_: began.set()))
    async with asyncio.timeout(WITHIN):
        await began.wait()
    call.cancel()
    await here.noted("nap cancelled")
    assert (await here.client.call_tool("add", {"a": 1, "b": 1})).data == 2


async def test_changes_are_forwarded(here: Guest) -> None:
    async with here.client.listen("crib://plot", prompts=False, resources=False) as changes, asyncio.timeout(WITHIN):
        await here.client.call_tool("grow")
        assert await anext(changes) == tc.Change("tools")
        await here.client.call_tool("touch")
        assert await anext(changes) == tc.Change("resource", "crib://plot")
    assert "grown" in [tool.name for tool in await here.client.list_tools()]


async def test_a_missing_resource_is_reported_with_the_code_of_the_era(here: Guest) -> None:
    with pytest.raises(tc.RemoteError) as caught:
        await here.client.request("resources/read", {"uri": "crib://nowhere"})
    assert caught.value.code == (-32002 if here.front == "legacy" else -32602)


async def test_a_subscription_that_the_upstream_refuses_is_refused(upstream: tc.StdioServer, tmp_path: Path) -> None:
    async with bridged(upstream, "legacy") as url, guest(url, "legacy", tmp_path / "journal") as here:
        with pytest.raises(tc.RemoteError) as caught:
            await here.client.subscribe("crib://nowhere")
        assert caught.value.code == -32002


async def test_errors_of_the_upstream_keep_code_and_data(here: Guest) -> None:
    with pytest.raises(tc.RemoteError) as caught:
        await here.client.call_tool("refuse")
    assert (caught.value.code, caught.value.message, caught.value.data) == (-31999, "not today", {"why": "rain"})
    with pytest.raises(tc.RemoteError) as caught:
        await here.client.request("no/such", {})
    assert caught.value.code == -32601
    with pytest.raises(tc.RemoteError) as caught:
        await here.client.request("tools/call", {"name": "ad", "arguments": {}})
    assert (caught.value.code, "add" in caught.value.message) == (-32602, True)


async def test_an_upstream_that_dies_is_a_typed_error_and_comes_back(alone: Guest) -> None:
    first = await alone.text("pid")
    with pytest.raises(tc.RemoteError) as caught:
        await alone.client.request("tools/call", {"name": "die", "arguments": {}})
    assert caught.value.code == -32603
    assert caught.value.data == {"reason": "OutcomeUnknown", "sent": True}
    assert "bridged_server.py" not in caught.value.message  # its stderr is not for every client
    async with asyncio.timeout(WITHIN):
        assert await alone.text("pid") != first


async def test_changes_are_forwarded_after_the_upstream_came_back(alone: Guest) -> None:
    async with alone.client.listen("crib://plot", tools=False, prompts=False, resources=False) as changes:
        with pytest.raises(tc.RemoteError):
            await alone.client.request("tools/call", {"name": "die", "arguments": {}})
        async with asyncio.timeout(WITHIN):
            assert await anext(changes) == tc.Change("resource", "crib://plot")  # perhaps it was missed
            await alone.client.call_tool("touch")
            assert await anext(changes) == tc.Change("resource", "crib://plot")


async def test_only_capabilities_of_the_client_are_declared_to_the_upstream(
    upstream: tc.StdioServer, eras: tuple[str, str], tmp_path: Path
) -> None:
    front, behind = eras
    async with bridged(upstream, behind) as url:
        nothing: dict[str, Any] = {"elicitation_handler": None, "sampling_handler": None, "roots": None}
        async with guest(url, front, tmp_path / "journal", **nothing) as here:
            assert (await here.client.call_tool("capabilities")).data == []
        some = {**nothing, "roots": ["file:///garden"]}
        async with guest(url, front, tmp_path / "journal", **some) as here:
            assert (await here.client.call_tool("capabilities")).data == ["roots"]


@EVERY_PAIR
async def test_a_client_that_refuses_is_a_refusal_to_the_upstream(
    upstream: tc.StdioServer, eras: tuple[str, str], tmp_path: Path
) -> None:
    front, behind = eras

    def decline(_: tc.ElicitRequest) -> bool:
        return False

    options: dict[str, Any] = {"elicitation_handler": decline}
    async with bridged(upstream, behind) as url, guest(url, front, tmp_path / "journal", **options) as here:
        assert await here.text("ask_user", question="who?") == "who? decline None"


# ---- who shares an upstream ------------------------------------------------------------------------------------


async def test_sessions_have_their_own_processes_which_end_with_them(upstream: tc.StdioServer, tmp_path: Path) -> None:
    async with bridged(upstream) as url:
        async with guest(url, "legacy", tmp_path / "journal") as one, guest(url, "legacy", tmp_path / "journal") as two:
            pids = {int(await each.text("pid")) for each in (one, two, one)}
            assert len(pids) == 2
        async with asyncio.timeout(WITHIN):
            while any(psutil.pid_exists(pid) for pid in pids):
                await asyncio.sleep(0.02)


async def test_modern_clients_share_one(upstream: tc.StdioServer, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    async with bridged(upstream) as url, guest(url, "auto", journal) as one, guest(url, "auto", journal) as two:
        assert await one.text("pid") == await two.text("pid")


async def test_the_first_connection_is_taken_over_or_ended_before_another_begins(
    upstream: tc.StdioServer, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    nothing: dict[str, Any] = {"elicitation_handler": None, "sampling_handler": None, "roots": None}
    async with bridged(upstream) as url, guest(url, "legacy", journal, **nothing) as here:
        assert await here.text("pid") == journal.read_text().split()[1]
        assert journal.read_text().count("began") == 1


async def test_hidden_tools_are_neither_listed_nor_called(upstream: tc.StdioServer, tmp_path: Path) -> None:
    config = replace(upstream, tool_filter=tc.static_filter(allowed=["add"]))
    async with bridged(config) as url, guest(url, "auto", tmp_path / "journal") as here:
        assert [tool.name for tool in await here.client.list_tools()] == ["add"]
        with pytest.raises(tc.RemoteError, match="Unknown tool: pid"):
            await here.client.request("tools/call", {"name": "pid", "arguments": {}})
