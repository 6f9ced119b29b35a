"""Servers of a hub are added, removed, killed and reloaded: the number of descriptors, tasks and threads stays flat."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.kit import FAST, FaultyServer, eventually, impatient, outcome_of, succeeds

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    impatient(monkeypatch)


def footprint() -> tuple[int, int, int]:
    """Return the numbers of descriptors, tasks, and threads, without the event loop's own threads."""
    gc.collect()
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    threads = [each for each in threading.enumerate() if not each.name.startswith("asyncio_")]
    return descriptors, len(asyncio.all_tasks()), len(threads)


async def flat(before: tuple[int, ...]) -> None:
    """Fail if something keeps growing; objects that are being closed may take a moment."""
    await eventually(
        lambda: all(now <= then for now, then in zip(footprint(), before, strict=True)),
        within=10,
        what=f"descriptors, tasks, threads: {before} -> {footprint()}",
    )


def write(file: Path, faulty: FaultyServer, turn: int) -> None:
    command, *arguments = faulty.command()
    entry = {"command": command, "args": arguments, "env": {"TURN": str(turn)}}
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps({"mcpServers": {"filed": entry}}))
    draft.replace(file)


async def one_round(hub: tc.Hub, faulty: FaultyServer, filed: FaultyServer, file: Path, turn: int) -> None:
    """Do everything that can happen to a hub, once."""
    options: list[dict[str, Any]] = [{}, {"lifecycle": "transient"}, {"idle_timeout": 0.01}, {"start": "lazy"}]
    await hub.add_server("added", faulty.server(), **options[turn % 4])
    assert (await hub.call_tool("mcp__added__echo", {"nonce": f"a{turn}"})).text == f"a{turn}"
    await outcome_of(hub.call_tool("mcp__added__silent", {"nonce": f"s{turn}"}, timeout=0.02))
    stopped = asyncio.create_task(outcome_of(hub.call_tool("mcp__filed__silent", {"nonce": f"c{turn}"})))
    view = hub.view(agent=turn)
    await view.search_tools("echo", load=True)
    with pytest.raises(tc.StartError):
        await hub.add_server("gone", tc.StdioServer(str(file.with_name("nothing"))))
    stopped.cancel()
    await stopped
    await hub.remove_server("added")
    lives = filed.record.lives
    write(file, filed, turn)
    await hub.reload()
    await eventually(lambda: filed.record.lives > lives, what="who changed is started anew")
    if turn % 3 == 0:
        filed.kill()
    result = await succeeds(lambda: hub.call_tool("mcp__filed__echo", {"nonce": f"f{turn}"}))
    assert result.text == f"f{turn}"


async def test_a_hub_stays_flat_over_all_that_happens_to_it(faulty: FaultyServer) -> None:
    file, filed = faulty.path(".mcp.json"), FaultyServer(faulty.path("filed"))
    filed.directory.mkdir()
    write(file, filed, -1)
    async with tc.Hub.from_config(file, watch=True, watch_interval=0.02, reconnect=FAST) as hub:
        for turn in range(4):
            await one_round(hub, faulty, filed, file, turn)
        before = footprint()
        for turn in range(4, 20):
            await one_round(hub, faulty, filed, file, turn)
        await flat(before)
        assert (faulty.living(), len(filed.living())) == ([], 1), "one server is there, so one process is"
    assert filed.living() == []


async def test_hubs_that_are_opened_and_closed_leave_nothing(faulty: FaultyServer) -> None:
    async def once(turn: int) -> None:
        servers = {
            "one": faulty.server(),
            "two": (faulty.server(), {"lifecycle": "transient"}),
            "here": tc.ToolServer("x"),
        }
        async with tc.Hub(servers) as hub:
            await hub.call_tool("mcp__one__echo", {"nonce": f"n{turn}"})
            await hub.call_tool("mcp__two__echo", {"nonce": f"m{turn}"})

    for turn in range(2):
        await once(turn)
    before = footprint()
    for turn in range(2, 12):
        await once(turn)
    await flat(before)
    assert faulty.living() == []
