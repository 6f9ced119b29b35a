"""Servers that are lost come back, and one that is added again waits for its former self."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import toolcrib as tc
from tests.hub.kit import FAST, Hub, bad, names, outcomes, state
from tests.unit.kit import eventually
from toolcrib.types import ConnectionState


async def test_a_server_that_was_lost_comes_back_with_its_new_list(tmp_path: Path) -> None:
    faulty = bad(tmp_path, "one")
    async with Hub({"one": faulty.server(first={"tools": 2})}, reconnect=FAST) as hub:
        assert "mcp__one__tool_1" in names(await hub.list_tools())
        back = asyncio.Event()
        hub.on(tc.events.Reconnected, lambda event: back.set())
        faulty.kill()
        async with asyncio.timeout(10):
            await back.wait()
        await eventually(lambda: "mcp__one__tool_1" not in names(list(state(hub, "one").tools)))
        assert (await hub.call_tool("mcp__one__echo", {"nonce": "n"})).text == "n"


async def test_one_that_the_client_has_given_up_is_tried_again_by_the_hub(tmp_path: Path) -> None:
    """It dies at every start for a while: the client's own tries are used up long before."""
    faulty = bad(tmp_path, "one")
    gate = tmp_path / "closed"
    script = f'test -e {gate} && exit 1; exec "$@"'
    server = tc.StdioServer("sh", ["-c", script, "sh", *faulty.command()])
    policy = tc.ReconnectPolicy(base_delay=0.01, max_delay=0.1, max_retries=1, jitter_factor=0)
    async with Hub({"one": server}, reconnect=policy) as hub:
        gate.touch()
        faulty.kill()
        await eventually(lambda: state(hub, "one").status.state is ConnectionState.FAILED)
        assert "mcp__one__echo" in names(await hub.list_tools())
        assert state(hub, "one").last_error is not None
        gate.unlink()
        await eventually(lambda: state(hub, "one").connected and state(hub, "one").last_error is None)
        assert faulty.record.lives == 2


async def test_one_that_is_not_to_be_reconnected_is_tried_again_by_the_hub_all_the_same(tmp_path: Path) -> None:
    faulty = bad(tmp_path, "one")
    policy = tc.ReconnectPolicy(base_delay=0.01, max_delay=0.1, max_retries=0, jitter_factor=0)
    async with Hub({"one": faulty.server()}, reconnect=policy) as hub:
        errors: list[Exception | None] = []
        hub.on(tc.events.Disconnected, lambda event: errors.append(state(hub, "one").last_error))
        faulty.kill()
        await eventually(
            lambda: faulty.record.lives == 2 and state(hub, "one").status.state is ConnectionState.CONNECTED
        )
        assert errors[0] is not None and "signal 9" in str(errors[0]), "meanwhile it says why"
        assert state(hub, "one").last_error is None


@pytest.mark.parametrize("how", ["its caller is cancelled", "another waits for it"])
async def test_a_server_that_is_added_again_starts_when_its_former_self_has_ended(tmp_path: Path, how: str) -> None:
    """Both would want the same port, the same lock, the same file."""
    lock = tmp_path / "lock"
    faulty = bad(tmp_path, "one")
    script = f'set -C; : > {lock} || {{ echo "in use" >&2; exit 1; }}; "$@"; sleep 0.3; rm {lock}'
    server = tc.StdioServer("sh", ["-c", script, "sh", *faulty.command()])
    async with Hub({"one": server}) as hub:
        removing = asyncio.create_task(hub.remove_server("one"))
        await eventually(lambda: not hub.list_servers())
        if how == "its caller is cancelled":
            removing.cancel()
        assert lock.exists(), "the former one is on its way out"
        await hub.add_server("one", server)
        assert (await hub.call_tool("mcp__one__echo", {"nonce": "n"})).text == "n"
        await outcomes(removing)
        assert faulty.record.lives == 2
