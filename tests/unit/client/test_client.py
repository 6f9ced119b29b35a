"""The client itself: entering and leaving its block, and the event loop that it belongs to."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

import toolcrib as tc
from tests.unit.kit import LEGACY, PlayedServer, eventually, turns
from tests.unit.transports.children import alive, server
from toolcrib.protocol import jsonrpc


async def test_a_block_that_is_never_entered_leaves_no_server_behind() -> None:
    def children() -> set[int]:
        return {child.pid for child in psutil.Process().children() if alive(child.pid)}

    async def enter() -> None:
        async with tc.Client(server("import sys; sys.stdin.read()")):
            raise AssertionError("it cannot connect")

    before = children()
    entering = asyncio.create_task(enter())
    await eventually(lambda: children() - before)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert children() <= before


async def test_a_close_from_another_event_loop_is_refused_and_ends_no_listening() -> None:
    played = PlayedServer(initialize={**LEGACY, "capabilities": {"tools": {"listChanged": True}}})
    async with tc.Client(played, mode="legacy") as client, client.listen() as changes:

        def elsewhere() -> None:
            with pytest.raises(tc.UsageError, match="another event loop"):
                asyncio.run(asyncio.wait_for(client.close(), 5))

        await asyncio.to_thread(elsewhere)
        await played.end.send(jsonrpc.notification("notifications/tools/list_changed"))
        async with asyncio.timeout(10):
            assert (await anext(changes)).kind == "tools"


@pytest.mark.parametrize("travel", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_client_does_not_travel(travel: Callable[[Any], Any]) -> None:
    with pytest.raises(tc.UsageError, match="pickle its server config"):
        travel(tc.Client(tc.StdioServer("server")))


@pytest.mark.parametrize(
    "use",
    [
        lambda client: client.connect(),
        lambda client: client.call_tool("echo"),
        lambda client: client.call_tool("echo", timeout=None),
        lambda client: client.list_tools(),
        lambda client: client.ping(),
        lambda client: client.subscribe("file:///a"),
        lambda client: client.listen().__aenter__(),
        lambda client: client.__aenter__(),
    ],
)
def test_without_an_asyncio_loop_the_error_says_what_to_use(use: Any) -> None:
    """As under trio, which runs coroutines without an asyncio event loop."""
    work = use(tc.Client(tc.StdioServer("python")))
    with pytest.raises(tc.UsageError, match=r"no asyncio event loop.*trio.*toolcrib\.sync"):
        work.send(None)
    work.close()


SLOW_TO_END = """
import json, pathlib, sys, time
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": json.loads(sys.argv[1])}), flush=True)
time.sleep(0.6)
pathlib.Path(sys.argv[2]).touch()
"""


@pytest.mark.parametrize("end", ["disconnect", "close"])
async def test_a_server_that_is_left_in_peace_gets_its_time_to_end(tmp_path: Path, end: str) -> None:
    done = tmp_path / "done"
    client = tc.Client(server(SLOW_TO_END, json.dumps(LEGACY), str(done)), mode="legacy")
    await client.connect()
    await getattr(client, end)()
    assert done.exists()
    await client.close()


STUBBORN = """
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
message, result = json.loads(sys.stdin.readline()), json.loads(sys.argv[1])
result["serverInfo"]["version"] = str(os.getpid())
print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
sys.stdin.readline()
os.close(1)
time.sleep(600)
"""


async def test_a_server_that_is_lost_and_does_not_end_is_killed_when_the_client_is_closed() -> None:
    client = await tc.Client(server(STUBBORN, json.dumps(LEGACY)), mode="legacy").connect()
    assert client.server_info is not None
    pid = int(client.server_info.version)
    assert alive(pid)
    await eventually(lambda: not client.connected)
    await turns()  # the client has begun to end it
    async with asyncio.timeout(10):
        await client.close()
    assert not alive(pid)
