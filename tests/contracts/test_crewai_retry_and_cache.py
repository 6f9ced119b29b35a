"""crewAI's MCP module, sentence by sentence: what the client does to arguments, its retries and its cache.

Each docstring gives the document's sentence in short words, and, after "Here:", where Toolcrib departs from it and why.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import toolcrib as tc
from tests.interaction.kit import Clock, Place, eventually, soon
from toolcrib.client.listing import ListCache, Use
from toolcrib.protocol.cache_hints import CacheHint


@pytest.fixture
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A server of the modern protocol, and of the legacy one too for a test in `both_eras`."""
    here = Place("stdio", getattr(request, "param", "modern"), tmp_path)
    yield here
    assert here.journal.faults == []


both_eras = pytest.mark.parametrize("harness", ["modern", "older"], indirect=True)


@pytest.fixture
def lucky(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.random", lambda: 0.0)


# ---- "Argument cleaning"


@pytest.mark.parametrize("mode", ["always", "schema"])
async def test_arguments_are_cleaned_before_execution(harness: Place, mode: str) -> None:
    """The client cleans arguments: "unused" (null) removed, sources ["web", "file"] become objects.

    Here: by default only what the tool's schema refuses; "always" cleans without looking at it.
    """
    arguments = {"limit": None, "tags": [], "sources": ["web", "file"]}
    async with harness.client(clean_arguments=mode) as client:
        await client.list_tools()
        seen = json.loads((await client.call_tool("given", arguments)).text)["arguments"]
    assert seen == {"sources": [{"type": "web"}, {"type": "file"}]}


# ---- "Retry logic"


async def test_the_retry_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 s, 2 s, 4 s ... (2^attempt). Here: full jitter up to that, capped at 30 s."""
    monkeypatch.setattr("random.random", lambda: 1.0)
    loop = asyncio.get_running_loop()
    clock = Clock(loop)
    attempts: list[float] = []

    def open_stream() -> tc.MessageStream:
        attempts.append(loop.time())
        raise ConnectionRefusedError("nothing listens there")

    # The breaker opens after five failures, for max_delay seconds: shorter than the pauses that are measured.
    brief = tc.ReconnectPolicy(base_delay=0.01, max_delay=0.1)
    client = tc.Client(open_stream, mode="legacy", max_retries=8, execution_timeout=None, reconnect=brief)
    call = asyncio.create_task(client.call_tool("echo"))
    for _ in range(20_000):
        clock.advance(0.01)
        await asyncio.sleep(0)
        if call.done():
            break
    with pytest.raises(tc.ConnectError):
        await soon(call)
    await client.close()
    pauses = [after - before for before, after in pairwise(attempts)]
    assert pauses == pytest.approx([1, 2, 4, 8, 16, 30, 30], abs=0.5)


@pytest.mark.usefixtures("lucky")
async def test_by_default_three_attempts(harness: Place) -> None:
    """Default: max 3 attempts."""
    options = harness.sick(99)
    client = harness.client(server_options=options)
    with pytest.raises(tc.StartError):
        await client.call_tool("echo", {"text": "x"})
    assert harness.journal.lives == 3 * options["sick"] // 99
    await client.close()


@both_eras
async def test_not_found_is_returned_at_once(harness: Place) -> None:
    """Non-retryable: not found."""
    async with harness.client(retry_safe=True) as client:
        with pytest.raises(tc.ToolNotFound):
            await client.call_tool("nobody")
        with pytest.raises(tc.ResourceNotFound):
            await client.read_resource("memo://none")
    assert len(harness.journal.got("tools/call")) == len(harness.journal.got("resources/read")) == 1


@both_eras
@pytest.mark.usefixtures("lucky")
async def test_a_lost_server_is_asked_again_for_what_only_looks(harness: Place) -> None:
    """Retryable: server errors, transient network errors. Here: only where nothing can run twice."""
    async with harness.client(server_options={"crash": {"tools/list": 2}}) as client:
        assert await client.list_tools()
        with pytest.raises(tc.OutcomeUnknown):
            await client.call_tool("die", {"nonce": "n"})
        assert (await client.call_tool("die", {"nonce": "m"}, retry_safe=True)).text == "alive after 1"


async def test_a_time_out_is_not_retried(harness: Place) -> None:
    """Retryable: timeouts. Here: never, for the time-out covers all attempts."""
    clock = Clock(asyncio.get_running_loop())
    async with harness.client(retry_safe=True) as client:
        call = asyncio.create_task(client.call_tool("sleeper"))
        await eventually(lambda: harness.journal.calls)
        clock.advance(31)
        with pytest.raises(tc.UnansweredTimeout):
            await soon(call)
    assert harness.journal.calls == ["sleeper"]


# ---- "Schema cache"


def test_the_key_of_a_cached_list() -> None:
    """Key "mcp:{server_identifier}:{resource_type}", such as "mcp:stdio:python:server.py:tools"."""
    client = tc.Client(tc.StdioServer("python", ["server.py"]), name="another name")
    assert client._lister._cache.key("tools") == "mcp:stdio:python:server.py:tools"


def test_entries_are_kept_by_type_and_checked_when_they_are_looked_at() -> None:
    """Entries per resource type, checked for expiration on access."""
    cache = ListCache("stdio:python")
    cache.put("tools", ("a",), CacheHint(), now=1000.0)
    cache.put("prompts", ("b",), CacheHint(), now=1200.0)
    assert cache.get("tools", 1299.9, Use.ALWAYS) == ("a",)
    assert cache.get("tools", 1300.0, Use.ALWAYS) is None
    assert cache.get("prompts", 1300.0, Use.ALWAYS) == ("b",)


@both_eras
async def test_the_cache_lives_five_minutes(harness: Place) -> None:
    """In-memory cache with 5-minute TTL."""
    clock = Clock(asyncio.get_running_loop())
    async with harness.client(cache_tools_list=True) as client:
        for seconds, asked in ((0, 1), (299, 1), (2, 2)):
            clock.advance(seconds)
            await client.list_tools()
            assert len(harness.journal.got("tools/list")) == asked
