"""The context of a function: properties of the request, notifications, and requests to the client."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import threading
from typing import Any

import pytest

import toolcrib as tc
from tests.unit.kit import eventually
from tests.unit.server.context_kit import Client, context
from toolcrib.protocol.metadata import PROGRESS_TOKEN
from toolcrib.server.context import Context, SyncContext
from toolcrib.server.handler import Peer, RequestContext


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


# ---- properties ----------------------------------------------------------------------------------------------


async def test_it_describes_the_caller_and_the_transport() -> None:
    peer = Peer(
        "2025-11-25",
        modern=False,
        info={"name": "c"},
        capabilities={"roots": {}},
        principal="ann",
        log_level="info",
        session="s1",
    )
    server = tc.ToolServer("math")
    ctx = Context(RequestContext(peer, Client(), "r1", {"a": 1}, {"x-tenant": "t"}), server)
    assert (ctx.request_id, ctx.meta, ctx.headers) == ("r1", {"a": 1}, {"x-tenant": "t"})
    assert (ctx.client_info, ctx.client_capabilities) == ({"name": "c"}, {"roots": {}})
    assert (ctx.protocol_version, ctx.principal, ctx.session_id, ctx.log_level) == ("2025-11-25", "ann", "s1", "info")
    assert ctx.server is server


# ---- progress ------------------------------------------------------------------------------------------------


async def test_progress_goes_out_under_the_clients_own_token() -> None:
    client = Client()
    await context(client, meta={PROGRESS_TOKEN: "mine"}).progress(1, 10, "fetching")
    assert client.notifications == [
        ("notifications/progress", {"progressToken": "mine", "progress": 1, "total": 10, "message": "fetching"})
    ]


async def test_without_a_token_no_progress_is_sent() -> None:
    client = Client()
    await context(client).progress(1)
    assert client.notifications == []


async def test_a_token_of_zero_is_a_token() -> None:
    client = Client()
    await context(client, meta={PROGRESS_TOKEN: 0}).progress(1)
    assert [params["progressToken"] for _, params in client.notifications] == [0]


async def test_progress_only_ever_grows() -> None:
    client = Client()
    ctx = context(client, meta={PROGRESS_TOKEN: 1})
    for value in (0, 0, 2, 1, 2, math.nan, math.inf, 2.5):
        await ctx.progress(value)
    assert [params["progress"] for _, params in client.notifications] == [0, 2, 2.5]


# ---- logs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wanted, arrive",
    [
        (None, []),
        ("debug", ["debug", "info", "warning", "error"]),
        ("notice", ["warning", "error"]),
        ("error", ["error"]),
        ("emergency", []),
        ("loud", []),
    ],
)
async def test_logs_go_out_from_the_wanted_level_on(wanted: str | None, arrive: list[str]) -> None:
    client = Client()
    ctx = context(client, level=wanted)
    for say in (ctx.debug, ctx.info, ctx.warning, ctx.error):
        await say("x")
    assert [params["level"] for _, params in client.notifications] == arrive


async def test_a_log_line_carries_data_that_json_can_say() -> None:
    client = Client()
    await context(client, level="info").log("info", {"at": {1}, "odd": object}, logger="crawler")
    method, params = client.notifications[0]
    assert method == "notifications/message"
    assert params == {"level": "info", "logger": "crawler", "data": {"at": [1], "odd": "<class 'object'>"}}


async def test_an_unknown_level_is_the_functions_mistake() -> None:
    with pytest.raises(tc.UsageError, match=r"level: expected one of debug, info, .*got 'loud'"):
        await context(Client()).log("loud", "x")


async def test_the_stream_is_closed_by_the_endpoint() -> None:
    client = Client()
    await context(client).close_stream()
    assert client.paused == 1


# ---- the end -------------------------------------------------------------------------------------------------


async def test_after_the_answer_nothing_more_goes_out() -> None:
    client = Client()
    ctx = context(client, meta={PROGRESS_TOKEN: 1}, level="debug")
    ctx.finish()
    await ctx.progress(1)
    await ctx.info("late")
    await ctx.close_stream()
    with pytest.raises(tc.UsageError, match="answered already"):
        await ctx.elicit("?")
    assert (client.notifications, client.asked, client.paused) == ([], [], 0)
    assert not ctx.cancelled


async def test_a_cancelled_task_is_seen_from_its_context() -> None:
    seen: list[bool] = []

    async def work() -> None:
        ctx = context(Client())
        ctx.raise_if_cancelled()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(ctx.cancelled)
            with pytest.raises(asyncio.CancelledError):
                ctx.raise_if_cancelled()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == [True]


async def test_what_was_cancelled_before_the_call_says_nothing_about_the_call() -> None:
    seen: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(context(Client()).cancelled)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == [False]


# ---- in a thread ---------------------------------------------------------------------------------------------


async def test_a_thread_waits_where_others_await() -> None:
    client = Client(
        elicitation={"action": "accept", "content": {"x": 1}},
        sampling={"role": "assistant", "content": {"type": "text", "text": "hi"}},
        roots={"roots": [{"uri": "file:///a"}]},
    )
    blocking = SyncContext(context(client, meta={PROGRESS_TOKEN: 1, "a": 1}, level="debug"))

    def work() -> list[Any]:
        blocking.progress(1)
        for say in (blocking.debug, blocking.info, blocking.warning, blocking.error):
            say("x")
        blocking.close_stream()
        blocking.raise_if_cancelled()
        return [
            blocking.elicit("?", Point).data,
            blocking.elicit_url("?", "https://a.example").action,
            blocking.sample("?").text,
            blocking.roots(),
            blocking.meta["a"],
            blocking.cancelled,
        ]

    assert await asyncio.to_thread(work) == [Point(1), "accept", "hi", [tc.Root("file:///a")], 1, False]
    assert [params.get("level") for _, params in client.notifications] == [None, "debug", "info", "warning", "error"]
    assert client.paused == 1


async def test_a_thread_gets_the_errors_of_its_questions() -> None:
    blocking = SyncContext(context(Client(), capabilities={}))
    with pytest.raises(tc.RemoteError, match="roots"):
        await asyncio.to_thread(blocking.roots)


async def test_a_thread_that_waits_for_an_answer_is_freed_when_its_call_is_cancelled() -> None:
    client = Client(elicitation=asyncio.get_running_loop().create_future())
    ctx = context(client)
    blocking = SyncContext(ctx)
    ends: list[BaseException] = []

    def work() -> None:
        try:
            blocking.elicit("?")
        except asyncio.CancelledError as exc:
            ends.append(exc)

    thread = threading.Thread(target=work)
    thread.start()
    await eventually(lambda: client.asked)
    ctx.finish(cancelled=True)
    await eventually(lambda: not thread.is_alive())
    assert len(ends) == 1
    assert blocking.cancelled


async def test_a_thread_of_a_cancelled_call_asks_and_says_nothing_more() -> None:
    client = Client()
    ctx = context(client, meta={PROGRESS_TOKEN: 1})
    blocking = SyncContext(ctx)
    ctx.finish(cancelled=True)
    for say in (lambda: blocking.progress(1), blocking.raise_if_cancelled, blocking.roots):
        with pytest.raises(asyncio.CancelledError):
            say()
    assert (client.notifications, client.asked) == ([], [])


def test_a_thread_that_outlives_its_loop_gets_a_clear_error() -> None:
    async def make() -> SyncContext:
        return SyncContext(context(Client()))

    blocking = asyncio.run(make())
    with pytest.raises(asyncio.CancelledError):
        blocking.roots()
