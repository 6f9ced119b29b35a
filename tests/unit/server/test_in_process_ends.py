"""How an in-process call ends early: cancelled, timed out, closed; and on other event loops."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import toolcrib as tc
import toolcrib.sync
from tests.unit.kit import Clock, eventually, turns
from tests.unit.server.in_process_kit import SampleServer, both
from toolcrib.transports.channel import RequestOptions

# ---- the end of a call ---------------------------------------------------------------------------------------


@both
async def test_a_cancelled_caller_cancels_the_tool(mode: Any) -> None:
    sample = SampleServer()
    async with tc.Client(sample.server, mode=mode) as client:
        task = asyncio.create_task(client.call_tool("wait"))
        await eventually(lambda: sample.entered)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sample.seen == ["cancelled"]
        assert (await client.call_tool("add", {"a": 2, "b": 3})).data == 5


async def test_a_caller_that_was_cancelled_just_before_the_call_gets_that_and_no_error_of_the_tool() -> None:
    sample = SampleServer()
    async with tc.Client(sample.server) as client:

        async def caller() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()  # as Ctrl-C does: it is delivered at the next await
            await client.call_tool("wait")

        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(caller())
        assert (await client.call_tool("add", {"a": 2, "b": 3})).data == 5


@both
async def test_a_deadline_stops_the_tool_and_only_the_call(mode: Any) -> None:
    clock, sample = Clock(), SampleServer()
    async with tc.Client(sample.server, mode=mode) as client:

        async def caller() -> str:
            with pytest.raises(tc.UnansweredTimeout) as caught:
                await client.call_tool("wait", timeout=5)
            assert caught.value.sent
            sample.gate.set()
            return (await client.call_tool("wait")).text  # the task ignores the cancellation

        task = asyncio.create_task(caller())
        await eventually(lambda: sample.entered)
        await clock.advance(4)
        assert not task.done()
        await clock.advance(2)
        assert await task == "waited"
        assert task.cancelling() == 0
    assert sample.seen == ["cancelled"]


async def test_a_tool_that_swallows_its_end_is_late_all_the_same() -> None:
    clock, sample = Clock(), SampleServer()
    async with tc.Client(sample.server) as client:
        task = asyncio.create_task(client.call_tool("stubborn", timeout=5))
        await eventually(lambda: sample.entered)
        await clock.advance(6)
        with pytest.raises(tc.UnansweredTimeout):
            await task
    assert sample.seen == ["swallowed"]


async def test_a_deadline_that_is_over_runs_nothing() -> None:
    sample = SampleServer()
    async with tc.Client(sample.server) as client:
        session = client._supervisor.session
        assert session is not None
        with pytest.raises(tc.CallTimeout) as caught:
            await session.channel.request(
                "tools/call", {"name": "keep", "arguments": {"value": 1}}, options=RequestOptions(deadline=0.0)
            )
        assert not caught.value.sent
    assert sample.seen == []


async def test_progress_puts_off_the_end_of_a_silence() -> None:
    clock, server = Clock(), tc.ToolServer("s")
    gates = [asyncio.Event() for _ in range(3)]

    @server.tool
    async def steps(*, ctx: tc.Context) -> None:
        for number, gate in enumerate(gates):
            await ctx.progress(number)
            await gate.wait()

    async with tc.Client(server) as client:
        task = asyncio.create_task(client.call_tool("steps", timeout=None, idle_timeout=10))
        await turns()
        for gate in gates[:2]:
            await clock.advance(8)
            gate.set()
            await turns()
        assert not task.done()
        await clock.advance(11)
        with pytest.raises(tc.UnansweredTimeout):
            await task


async def test_a_sync_tool_runs_in_its_thread_and_sees_that_it_was_cancelled() -> None:
    clock, sample = Clock(), SampleServer()
    try:
        async with tc.Client(sample.server) as client:
            task = asyncio.create_task(client.call_tool("block", timeout=5))
            await eventually(lambda: sample.entered)
            await clock.advance(6)
            with pytest.raises(tc.UnansweredTimeout):
                await task
    finally:
        sample.thread_gate.set()
    await eventually(lambda: sample.seen)
    assert sample.seen == [True]


async def test_calls_inside_calls_each_have_their_own_end() -> None:
    clock, sample = Clock(), SampleServer()
    async with tc.Client(sample.server) as client:

        @sample.server.tool
        async def outer(inner_timeout: float) -> str:
            try:
                await client.call_tool("wait", timeout=inner_timeout)
            except tc.CallTimeout:
                return "inner"
            return "none"

        for inner, expected in ((5.0, "inner"), (50.0, None)):
            sample.entered = 0
            task = asyncio.create_task(client.call_tool("outer", {"inner_timeout": inner}, timeout=10))
            await eventually(lambda: sample.entered)
            await clock.advance(6)
            await clock.advance(6)
            if expected is None:
                with pytest.raises(tc.UnansweredTimeout):
                    await task
            else:
                assert (await task).text == expected


async def test_a_tool_whose_own_work_was_cancelled_does_not_cancel_its_caller() -> None:
    server = tc.ToolServer("s")

    @server.tool
    async def lonely() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    async with tc.Client(server) as client:
        with pytest.raises(tc.RemoteError, match="raised CancelledError") as caught:
            await client.call_tool("lonely")
        assert caught.value.code == -32603


@both
async def test_closing_the_client_ends_its_calls_with_an_unknown_outcome(mode: Any) -> None:
    sample = SampleServer()
    client = tc.Client(sample.server, mode=mode)
    task = asyncio.create_task(client.call_tool("wait"))
    await eventually(lambda: sample.entered)
    await client.close()
    with pytest.raises(tc.OutcomeUnknown, match="closed"):
        await task
    assert sample.seen == ["cancelled"]


async def test_a_tool_that_disconnects_its_own_client_ends_its_own_call() -> None:
    server = tc.ToolServer("s")
    client = tc.Client(server)

    @server.tool
    async def leave() -> None:
        await client.disconnect()

    with pytest.raises(tc.OutcomeUnknown, match="closed"):
        await client.call_tool("leave")
    assert not client.connected
    assert [tool.name for tool in await client.list_tools()] == ["leave"]
    await client.close()


# ---- other loops ---------------------------------------------------------------------------------------------


def test_one_server_answers_on_several_loops_at_once() -> None:
    server = tc.ToolServer("s")
    barrier = threading.Barrier(2, timeout=30)

    @server.tool
    def meet(name: str) -> str:
        barrier.wait()
        return name

    def elsewhere(name: str, said: list[str]) -> None:
        async def call() -> None:
            async with tc.Client(server) as client:
                said.append((await client.call_tool("meet", {"name": name})).text)

        asyncio.run(call())

    said: list[str] = []
    threads = [threading.Thread(target=elsewhere, args=(name, said)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(said) == ["one", "two"]


def test_the_sync_face_takes_a_server_too() -> None:
    def loud(text: str) -> str:
        return text.upper()

    server = tc.ToolServer("s")
    server.add_tool(loud)
    with toolcrib.sync.Client(server) as client:
        assert client.call_tool("loud", {"text": "hi"}).text == "HI"
