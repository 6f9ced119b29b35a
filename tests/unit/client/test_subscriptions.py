"""Subscriptions: equal ones are shared, and none is reported as active before the server has acknowledged it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import toolcrib as tc
from tests.unit.kit import LEGACY, MODERN, SILENCE, PlayedServer, eventually, turns
from toolcrib.client import subscriptions
from toolcrib.errors import RemoteError, UsageError
from toolcrib.protocol import jsonrpc
from toolcrib.types import Change, Wire

RESOURCES = {"resources": {"subscribe": True, "listChanged": True}, "tools": {"listChanged": True}}
URI = "file:///a"


def legacy_server() -> PlayedServer:
    return PlayedServer(
        initialize={**LEGACY, "capabilities": RESOURCES}, resources__subscribe={}, resources__unsubscribe={}
    )


class ModernServer(PlayedServer):
    """Acknowledges every subscription; `hang_up` ends the newest one in good order or with an error."""

    def __init__(self) -> None:
        super().__init__(server__discover={**MODERN, "capabilities": RESOURCES})
        self.answers["subscriptions/listen"] = self.listen

    async def listen(self, params: Wire) -> Any:
        await self.tell("notifications/subscriptions/acknowledged", notifications=params["notifications"])
        return SILENCE

    @property
    def listening(self) -> list[Any]:
        return self.named("subscriptions/listen")

    async def tell(self, method: str, **params: Any) -> None:
        meta = {"io.modelcontextprotocol/subscriptionId": self.listening[-1]["id"]}
        await self.end.send(jsonrpc.notification(method, {"_meta": meta, **params}))


async def test_two_equal_subscriptions_are_one_for_the_server() -> None:
    server = legacy_server()
    async with tc.Client(server, mode="legacy") as client:
        await client.subscribe(URI)
        await client.subscribe(URI)
        await client.unsubscribe(URI)
        assert "resources/unsubscribe" not in server.methods
        await client.unsubscribe(URI)
        await client.unsubscribe(URI)
    assert [m for m in server.methods if m.startswith("resources/")] == ["resources/subscribe", "resources/unsubscribe"]


async def test_a_subscriber_that_joins_a_refused_subscription_is_refused_too() -> None:
    """The second one was made while the first one was pending."""
    server, gate = legacy_server(), asyncio.Event()

    async def refuse(params: Wire) -> RemoteError:
        await gate.wait()
        return RemoteError(-32603, "no")

    server.answers["resources/subscribe"] = refuse
    async with tc.Client(server, mode="legacy") as client:
        both = [asyncio.create_task(client.subscribe(URI)) for _ in range(2)]
        await eventually(lambda: server.named("resources/subscribe"))
        await turns()
        gate.set()
        assert [type(e) for e in await asyncio.gather(*both, return_exceptions=True)] == [RemoteError, RemoteError]
        server.answers["resources/subscribe"] = {}
        before = len(server.named("resources/subscribe"))
        await client.subscribe(URI)
        assert len(server.named("resources/subscribe")) == before + 1


async def test_changes_are_delivered_to_their_subscribers() -> None:
    server = legacy_server()
    client = tc.Client(server, mode="legacy")
    async with client, client.listen(URI, tools=False) as some, client.listen(resources=False) as others:
        for method in ("tools", "resources"):
            await server.end.send(jsonrpc.notification(f"notifications/{method}/list_changed"))
        for uri in (URI, "file:///other", 7):
            await server.end.send(jsonrpc.notification("notifications/resources/updated", {"uri": uri}))
        async with asyncio.timeout(5):
            assert [await anext(some) for _ in range(2)] == [Change("resources"), Change("resource", URI)]
            assert await anext(others) == Change("tools")
        assert not some._waiting and not others._waiting


async def test_changes_must_be_entered_first() -> None:
    changes = tc.Client(legacy_server()).listen()
    with pytest.raises(UsageError, match="changes: not entered"):
        await anext(changes)


async def test_a_new_subscription_opens_a_new_stream_before_the_old_one_is_closed() -> None:
    server = ModernServer()
    async with tc.Client(server) as client:
        await eventually(lambda: server.listening)
        await client.subscribe(URI)
        await eventually(lambda: server.named("notifications/cancelled"))
        first, second = server.listening
        assert "resourceSubscriptions" not in first["params"]["notifications"]
        assert second["params"]["notifications"]["resourceSubscriptions"] == [URI]
        assert server.named("notifications/cancelled")[0]["params"]["requestId"] == first["id"]
        assert server.methods.index("notifications/cancelled") > server.received.index(second)


@pytest.mark.parametrize("how", ["in good order", "with an error"])
async def test_a_listen_request_that_the_server_ends_is_repeated_and_missed_changes_are_reported(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "RELISTEN_SECONDS", 0.001)
    server = ModernServer()
    async with tc.Client(server) as client, client.listen(prompts=False, resources=False) as changes:
        await eventually(lambda: server.listening)
        id = server.listening[-1]["id"]
        before = len(server.listening)
        ended = jsonrpc.result(id, {"resultType": "complete"})
        await server.end.send(ended if how == "in good order" else jsonrpc.error(id, -32603, "overloaded"))
        await eventually(lambda: len(server.listening) > before, within=3)
        async with asyncio.timeout(5):
            assert await anext(changes) == Change("tools")
        await server.tell("notifications/tools/list_changed")
        async with asyncio.timeout(5):
            assert await anext(changes) == Change("tools")


async def test_a_refused_resource_leaves_none_of_the_others_subscribed() -> None:
    def subscribe(params: Wire) -> Any:
        return RemoteError(-32002, "no such resource") if params["uri"] == "file:///b" else {}

    server = legacy_server()
    server.answers["resources/subscribe"] = subscribe
    async with tc.Client(server, mode="legacy") as client:
        with pytest.raises(RemoteError):
            async with client.listen("file:///a", "file:///b"):
                pass
        await eventually(lambda: server.named("resources/unsubscribe"))
        assert [m["params"]["uri"] for m in server.named("resources/unsubscribe")] == ["file:///a"]


async def test_a_refused_resource_is_forgotten_even_if_the_connection_ends_meanwhile() -> None:
    def subscribe(params: Wire) -> Any:
        return RemoteError(-32002, "no such resource") if params["uri"] == "file:///c" else {}

    server = legacy_server()
    server.answers |= {"resources/subscribe": subscribe, "resources/unsubscribe": SILENCE}
    async with tc.Client(server, mode="legacy") as client:
        with pytest.raises(RemoteError):
            async with client.listen("file:///a", "file:///b", "file:///c"):
                pass
        await eventually(lambda: server.named("resources/unsubscribe"))
        await client.disconnect()
        server.received.clear()
        await client.connect()
        await turns(20)
        assert server.named("resources/subscribe") == []
