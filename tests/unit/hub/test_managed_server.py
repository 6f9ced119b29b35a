"""One server of a hub: its client keeps the connection, its lists follow the client's events. No polling."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

import toolcrib as tc
from tests.unit.kit import LEGACY, MODERN, SILENCE, Clock, PlayedServer, eventually
from toolcrib import events
from toolcrib.hub.managed_server import ManagedServer
from toolcrib.hub.server_options import spec_for
from toolcrib.types import ConnectionState as State

QUICK = tc.ReconnectPolicy(base_delay=0.001, max_delay=0.01, max_retries=0, jitter_factor=0)
SLOW = tc.ReconnectPolicy(base_delay=60, max_delay=60, jitter_factor=0)


class Server(PlayedServer):
    """Lists the tool `t`; refuses connections while `error` is set."""

    def __init__(self, error: Exception | None = None, **answers: Any) -> None:
        tools = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
        super().__init__(**{"initialize": LEGACY, "tools__list": tools, **answers})
        self.error = error
        self.attempts = 0

    def __call__(self) -> tc.MemoryStream:
        self.attempts += 1
        if self.error is not None:
            raise self.error
        return super().__call__()


class Managed:
    """A managed server, the names of the tools that it published last, and the events of its client."""

    def __init__(self, server: PlayedServer, **options: Any) -> None:
        self.tools: list[str] = []
        self.events: list[events.Event] = []
        options = {"mode": "legacy", "reconnect": QUICK, "max_attempts": 1, **options}
        self.server = ManagedServer(spec_for("s", "s", (server, options), {}), self._publish, self.events.append)
        self.server.set_forwarding(True)

    def _publish(self, server: ManagedServer, kind: str, lists: dict[str, list[Any]]) -> None:
        if kind == "tools":
            self.tools = [tool.name for tool in lists["tools"]]
            self.events.append(events.ToolsChanged(server.name))


@contextlib.asynccontextmanager
async def managed(server: PlayedServer, **options: Any) -> AsyncIterator[Managed]:
    subject = Managed(server, **options)
    try:
        yield subject
    finally:
        await subject.server.close()


def kinds(happened: list[events.Event]) -> list[str]:
    return [type(event).__name__ for event in happened]


# ---- the client's policy instead of polling ------------------------------------------------------------------


async def test_a_first_start_that_fails_is_repeated_by_the_clients_policy_and_lists_follow_its_event() -> None:
    server = Server(OSError("refused"))
    async with managed(server) as subject:
        with pytest.raises(tc.ConnectError, match="refused"):
            await subject.server.start().outcome
        assert subject.server.status.state is State.FAILED
        await eventually(lambda: server.attempts > 3)
        assert isinstance(subject.server.last_error, tc.ConnectError)
        server.error = None
        await eventually(lambda: subject.tools == ["t"])
        assert subject.server.status.state is State.CONNECTED and subject.server.last_error is None
        happened = kinds(subject.events)
        assert happened[:4] == ["ConnectionStarted", "ConnectionFailed"] * 2
        assert happened[-3:] == ["ConnectionStarted", "ConnectionCompleted", "ToolsChanged"]


async def test_a_server_that_is_connected_and_listed_has_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, loop = Clock(), asyncio.get_running_loop()
    server = Server()
    async with managed(server) as subject:
        await subject.server.start().outcome
        scheduled: list[Any] = []
        monkeypatch.setattr(loop, "call_at", lambda *args, **options: scheduled.append(args))
        received = len(server.received)
        for _ in range(3):
            await clock.advance(3600)
        monkeypatch.undo()
        assert (scheduled, len(server.received)) == ([], received)


@pytest.mark.parametrize("limit", [0, 1, 2, 5, None])
async def test_a_lost_server_fails_after_the_retries_of_its_policy_and_the_attempts_go_on(limit: int | None) -> None:
    server = Server()
    policy = tc.ReconnectPolicy(base_delay=0.001, max_delay=0.01, max_retries=limit, jitter_factor=0)
    async with managed(server, reconnect=policy) as subject:
        await subject.server.start().outcome
        states: list[State] = []
        assert subject.server.clients is not None
        subject.server.clients.client.on(
            events.ConnectionFailed, lambda event: states.append(subject.server.status.state)
        )
        server.error = OSError("refused")
        await server.end.close()
        await eventually(lambda: len(states) > 7)
        usual = 3 if limit is None else max(limit, 1)
        assert states[:8] == [State.CONNECTING] * (usual - 1) + [State.FAILED] * (9 - usual)
        server.error = None
        await eventually(lambda: subject.server.status.state is State.CONNECTED)


async def test_a_caller_tries_at_once_whatever_the_delay_and_all_callers_share_the_attempt() -> None:
    server = Server(OSError("refused"))
    async with managed(server, reconnect=SLOW) as subject:
        outcomes = await asyncio.gather(*(subject.server.wait_until_listed() for _ in range(3)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [tc.ConnectError] * 3
        assert len({id(outcome) for outcome in outcomes}) == 3
        assert server.attempts == 1
        server.error = None
        await asyncio.gather(*(subject.server.wait_until_listed() for _ in range(3)))
        assert (server.attempts, subject.tools) == (2, ["t"])


async def test_a_server_that_dies_when_it_is_listed_is_tried_again_only_as_the_policy_says() -> None:
    server = Server(tools__list=SILENCE)

    async def die(params: dict[str, Any]) -> Any:
        await server.end.close()
        return SILENCE

    server.answers["tools/list"] = die
    async with managed(server, reconnect=SLOW, max_attempts=2) as subject:
        clock = Clock()
        with pytest.raises(tc.ToolcribError):
            await subject.server.start().outcome
        for _ in range(5):
            await clock.advance(10)
        assert server.attempts == 2, "the second one was made by the request for the list, which may be repeated"
        assert not isinstance(subject.server.last_error, tc.ConnectionLost)


async def test_rejected_credentials_are_not_sent_again_until_a_caller_asks() -> None:
    server = Server(tc.AuthError("who are you?"))
    async with managed(server) as subject:
        with pytest.raises(tc.AuthError):
            await subject.server.start().outcome
        clock = Clock()
        await clock.advance(3600)
        assert server.attempts == 1 and subject.server.status.state is State.NEEDS_AUTH
        server.error = None
        await subject.server.wait_until_listed()
        assert server.attempts == 2 and subject.server.status.state is State.CONNECTED


async def test_the_same_error_is_logged_once_and_again_after_a_connection(caplog: pytest.LogCaptureFixture) -> None:
    def warnings() -> list[str]:
        return [each.message for each in caplog.records if each.levelno >= logging.WARNING and "hub" in each.name]

    server = Server(OSError("refused"))
    with caplog.at_level(logging.DEBUG, "toolcrib.hub"):
        async with managed(server) as subject:
            subject.server.start()
            await eventually(lambda: server.attempts > 3)
            assert len(warnings()) == 1 and "refused" in warnings()[0]
            server.error = None
            await eventually(lambda: subject.tools)
            server.error = OSError("refused")
            await server.end.close()
            await eventually(lambda: len(warnings()) == 2)


# ---- lists after a reconnect ---------------------------------------------------------------------------------


@pytest.mark.parametrize("announces", [True, False])
async def test_lists_are_fetched_again_after_a_reconnect_also_from_servers_that_announce_no_changes(
    announces: bool,
) -> None:
    """A server of the modern era that refuses `subscriptions/listen`."""
    capabilities = {"tools": {"listChanged": True}}
    if announces:
        server = Server(initialize={**LEGACY, "capabilities": capabilities})
    else:
        server = Server(server__discover={**MODERN, "capabilities": capabilities})
        server.answers["tools/list"] = {**MODERN, **server.answers["tools/list"]}
    async with managed(server, mode="auto" if not announces else "legacy") as subject:
        await subject.server.start().outcome
        assert subject.tools == ["t"]
        await eventually(lambda: announces or server.named("subscriptions/listen"))
        server.answers["tools/list"] = {**server.answers["tools/list"], "tools": [{"name": "u"}]}
        await server.end.close()
        await eventually(lambda: subject.tools == ["u"])


async def test_a_list_that_is_missing_is_fetched_again_after_the_longest_delay() -> None:
    clock = Clock()
    handshake = {**LEGACY, "capabilities": {"tools": {}, "prompts": {}}}
    server = Server(initialize=handshake, prompts__list=tc.RemoteError(-32603, "not yet"))
    async with managed(server, reconnect=SLOW) as subject:
        await subject.server.start().outcome
        assert str(subject.server.status) == "degraded (its prompts could not be listed: not yet)"
        await clock.advance(59)
        assert len(server.named("prompts/list")) == 1
        server.answers["prompts/list"] = {"prompts": []}
        await clock.advance(2)
        await eventually(lambda: subject.server.status.state is State.CONNECTED)
        assert len(server.named("prompts/list")) == 2 and len(server.named("tools/list")) == 1


# ---- servers that are not connected all the time -------------------------------------------------------------


async def test_a_server_that_would_be_idle_is_tried_until_it_was_listed() -> None:
    server = Server(OSError("refused"))
    async with managed(server, disconnect_idle_after=0.001) as subject:
        subject.server.start()
        await eventually(lambda: server.attempts > 5)
        server.error = None
        await eventually(lambda: subject.tools == ["t"])
        await eventually(lambda: str(subject.server.status) == "disconnected (idle)")


async def test_a_transient_server_that_came_back_is_listed_and_disconnected_again() -> None:
    server = Server()
    async with managed(server, lifecycle="transient") as subject:
        await subject.server.start().outcome
        assert str(subject.server.status) == "disconnected (transient: connected for each call)"
        server.error = OSError("refused")
        server.answers["tools/list"] = {"tools": [{"name": "u"}]}
        with pytest.raises(tc.ConnectError):
            await subject.server.refresh()
        assert subject.server.status.state in (State.FAILED, State.CONNECTING)
        server.error = None
        await eventually(lambda: subject.tools == ["u"])
        await eventually(lambda: subject.server.status.state is State.DISCONNECTED)
        assert subject.server.last_error is None


async def test_calls_use_the_client_directly_only_while_it_is_connected() -> None:
    server = Server()
    async with managed(server) as subject:
        assert subject.server.direct is None
        await subject.server.start().outcome
        assert subject.server.clients is not None and subject.server.direct is subject.server.clients.client
        server.error = OSError("refused")
        await server.end.close()
        await eventually(lambda: subject.server.direct is None)
        server.error = None
        await eventually(lambda: subject.server.direct is not None)
    assert subject.server.direct is None
    async with managed(Server(), disconnect_idle_after=60) as subject:
        await subject.server.start().outcome
        assert subject.server.direct is None


# ---- the end -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("silent", ["initialize", "tools/list"])
async def test_closing_ends_every_caller_at_once(silent: str) -> None:
    server = Server(**{silent.replace("/", "__"): SILENCE})
    subject = Managed(server)
    waiting = [
        asyncio.ensure_future(wait())
        for wait in (subject.server.wait_until_listed, subject.server.refresh, subject.server.refresh)
    ]
    first = subject.server.start().outcome
    await eventually(lambda: server.named(silent))
    closing = asyncio.ensure_future(subject.server.close())
    done, _ = await asyncio.wait([*waiting, first], timeout=5)
    assert {type(each.exception()) for each in done} == {tc.ConnectionLost} and len(done) == 4
    await closing
    with pytest.raises(tc.ConnectionLost, match="removed"):
        await subject.server.refresh()
