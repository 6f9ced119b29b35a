"""One attempt to connect: a session in time, or a clear error and nothing left."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.unit.kit import LEGACY, MODERN, SILENCE, PlayedServer, eventually
from tests.unit.transports.children import server as process
from toolcrib.errors import ConfigError, ConnectError
from toolcrib.transports.message_stream import MemoryStream


async def refused(server: Any, **options: Any) -> ConnectError:
    """Return the error of an attempt that must fail; afterwards nothing may be left of it."""
    before = asyncio.all_tasks()
    client = tc.Client(server, name="office", max_attempts=1, **options)
    with pytest.raises(ConnectError) as caught:
        await client.connect()
    assert caught.value.server == "office"
    assert not client.connected
    assert client.status.state == "failed"
    await client.close()
    await eventually(lambda: asyncio.all_tasks() <= before)
    return caught.value


async def test_a_silent_server_is_reported_with_possible_causes() -> None:
    server = PlayedServer(initialize=SILENCE, server__discover=SILENCE)
    error = await refused(server, connect_timeout=0.05)
    assert "connect_timeout=0.05" in str(error)
    assert "slow to start" in str(error)
    assert not error.permanent


async def test_a_server_that_talks_other_things_is_reported_with_a_sample_of_them() -> None:
    class Banner(PlayedServer):
        def __call__(self) -> MemoryStream:
            stream = super().__call__()
            self._spawn(self.end.send({"banner": "Welcome to MyServer 1.0"}))
            return stream

    error = await refused(Banner(initialize=SILENCE), connect_timeout=0.05, mode="legacy")
    assert "1 lines that are not MCP messages" in str(error)
    assert "Welcome to MyServer" in str(error)


async def test_a_refusal_is_reported_in_the_servers_words_and_not_tried_again() -> None:
    server = PlayedServer(initialize=tc.RemoteError(-32603, "licence expired"))
    error = await refused(server)
    assert "licence expired [-32603]" in str(error)
    assert error.permanent


async def test_a_server_that_exits_before_it_answers_is_reported() -> None:
    class Gone(PlayedServer):
        async def _answer(self, end: MemoryStream, message: Any) -> None:
            await end.close()

    error = await refused(Gone())
    assert "ended before the server answered" in str(error)
    assert not error.permanent


async def test_a_transport_that_dies_of_the_probe_is_opened_again_in_the_old_way() -> None:
    class Fragile(PlayedServer):
        """A server that closes the connection at every unknown request."""

        connections = 0

        def __call__(self) -> MemoryStream:
            self.connections += 1
            return super().__call__()

        async def _answer(self, end: MemoryStream, message: Any) -> None:
            if message["method"] not in self.answers:
                await end.close()
            else:
                await super()._answer(end, message)

    server = Fragile(initialize=LEGACY)
    async with tc.Client(server) as client:
        assert client.server_info is not None
        assert client.server_info.protocol_version == "2025-11-25"
    assert server.connections == 2


DIES_OF_THE_PROBE = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "server/discover":
        sys.exit("ExpectedInitializeRequest")
    if message["method"] == "initialize":
        info = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "strict", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": info}), flush=True)
"""


async def test_a_process_that_dies_of_the_probe_is_asked_in_the_older_way() -> None:
    async with tc.Client(process(DIES_OF_THE_PROBE)) as client:
        assert client.server_info is not None
        assert client.server_info.name == "strict"


async def test_a_process_that_dies_without_hearing_us_is_started_once(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    with pytest.raises(tc.StartError) as caught:
        await tc.Client(process(f"open({str(starts)!r}, 'a').write('x'); raise SystemExit(3)")).connect()
    assert (caught.value.exit_code, caught.value.input_consumed) == (3, False)
    assert starts.read_text() == "x"


@pytest.mark.parametrize("made", [None, 7, (1, 2)])
async def test_an_invalid_transport_is_the_callers_mistake(made: Any) -> None:
    client = tc.Client(lambda: made)
    with pytest.raises(ConfigError, match="transport callable"):
        await client.connect()
    await client.close()


async def test_a_failed_connect_leaves_a_client_that_can_try_again() -> None:
    server = PlayedServer(initialize=tc.RemoteError(-32603, "not yet"))
    client = tc.Client(server)
    with pytest.raises(ConnectError):
        await client.connect()
    server.answers = {"server/discover": MODERN}
    async with client:
        assert client.connected
        assert client.server_info is not None
        assert client.server_info.protocol_version == "2026-07-28"


async def test_only_the_handshake_is_followed_by_its_notification() -> None:
    for server, expected in (
        (PlayedServer(initialize=LEGACY), True),
        (PlayedServer(server__discover=MODERN), False),
    ):
        async with tc.Client(server):
            await eventually(lambda server=server: server.received)
            await asyncio.sleep(0)
        assert ("notifications/initialized" in server.methods) is expected


async def test_what_a_source_of_channels_raises_is_a_connect_error_with_its_cause() -> None:
    class Source:
        def make_channel(self) -> Any:
            raise ValueError("my own fault")

    error = await refused(Source())
    assert "ValueError: my own fault" in str(error)
