"""After a server is closed none of its tasks is left, whatever ran, waited or listened."""

from __future__ import annotations

import asyncio

import pytest

import toolcrib as tc
from tests.faults.kit import eventually
from tests.faults.server_kit import serving
from tests.faults.server_wire import call, message, modern
from toolcrib.server.serving.stream_session import StreamSession


class Slow:
    """A tool that needs a moment to clean up after its cancellation."""

    def __init__(self) -> None:
        self.ran = self.ended = 0

    async def slow(self, ctx: tc.Context) -> str:
        self.ran += 1
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            self.ended += 1
        return "never"


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_closed_app_has_no_task_left(era: str) -> None:
    slow = Slow()
    async with serving() as place:
        place.tools.server.add_tool(slow.slow)
        session = await place.session() if era == "legacy" else {}
        make = message if era == "legacy" else modern
        lines = [await place.begin(make("tools/call", call("slow"), 1), session)]
        if era == "legacy":
            lines.append(await place.open(b"", session, "GET"))
            await lines[-1].head()
        else:
            assert (await place.post(modern("tools/call", call("ask")))).json["result"]["requestState"]
            lines.append(await place.begin(modern("subscriptions/listen", {"notifications": {}})))
            await lines[-1].head()
        await eventually(lambda: slow.ran == 1)
        await place.app.close()
        assert slow.ended == 1
        ours = [task for task in asyncio.all_tasks() if "toolcrib/server" in repr(task)]
        assert ours == []


async def test_a_closed_stream_has_no_task_left() -> None:
    slow = Slow()
    server = tc.ToolServer("s")
    server.add_tool(slow.slow)
    before = asyncio.all_tasks()
    session = StreamSession(server.router, lambda _: None)
    session.feed(modern("tools/call", call("slow"), 1))
    await eventually(lambda: slow.ran == 1)
    await session.close()
    assert (slow.ended, asyncio.all_tasks()) == (1, before)
