"""The messages of a client conform to the published schema of the revision."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import toolcrib as tc
from tests.unit import spec
from tests.unit.kit import LEGACY, MODERN, SILENCE, PlayedServer, eventually
from toolcrib.types import Wire

EVERYTHING = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "completions": {},
    "logging": {},
}
DEFINITIONS = {
    "server/discover": "DiscoverRequest",
    "initialize": "InitializeRequest",
    "notifications/initialized": "InitializedNotification",
    "notifications/cancelled": "CancelledNotification",
    "tools/list": "ListToolsRequest",
    "tools/call": "CallToolRequest",
    "resources/list": "ListResourcesRequest",
    "resources/templates/list": "ListResourceTemplatesRequest",
    "resources/read": "ReadResourceRequest",
    "resources/subscribe": "SubscribeRequest",
    "resources/unsubscribe": "UnsubscribeRequest",
    "prompts/list": "ListPromptsRequest",
    "prompts/get": "GetPromptRequest",
    "completion/complete": "CompleteRequest",
    "subscriptions/listen": "SubscriptionsListenRequest",
    "logging/setLevel": "SetLevelRequest",
    "ping": "PingRequest",
}
BOTH = {
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "notifications/cancelled",
}
ONLY = {
    spec.MODERN: {"server/discover", "subscriptions/listen"},
    spec.LEGACY: {
        "initialize",
        "notifications/initialized",
        "resources/subscribe",
        "resources/unsubscribe",
        "logging/setLevel",
        "ping",
    },
}


class Full(PlayedServer):
    """A server with every method of both eras; one tool never answers."""

    def __init__(self) -> None:
        super().__init__()
        page = {"resultType": "complete", "nextCursor": None, "ttlMs": 0, "cacheScope": "private"}
        self.answers = {
            "initialize": {**LEGACY, "capabilities": EVERYTHING},
            "server/discover": {**MODERN, "capabilities": EVERYTHING},
            "tools/list": self.two_pages,
            "tools/call": lambda params: SILENCE if params["name"] == "never" else {"content": []},
            "resources/list": {**page, "resources": []},
            "resources/templates/list": {**page, "resourceTemplates": []},
            "resources/read": {**page, "contents": []},
            "prompts/list": {**page, "prompts": []},
            "prompts/get": {"messages": []},
            "completion/complete": {"completion": {"values": []}},
            "resources/subscribe": {},
            "resources/unsubscribe": {},
            "logging/setLevel": {},
            "ping": {},
            "subscriptions/listen": self.listen,
        }

    def two_pages(self, params: Wire) -> Wire:
        page: Wire = {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}
        return page if "cursor" in params else {**page, "nextCursor": ""}

    async def listen(self, params: Wire) -> Any:
        id = self.named("subscriptions/listen")[-1]["id"]
        meta = {"io.modelcontextprotocol/subscriptionId": id}
        params = {"_meta": meta, "notifications": params["notifications"]}
        method = "notifications/subscriptions/acknowledged"
        await self.end.send({"jsonrpc": "2.0", "method": method, "params": params})
        return SILENCE


@pytest.fixture(params=[spec.MODERN, spec.LEGACY])
async def spoken(request: pytest.FixtureRequest) -> tuple[str, Full]:
    """A server of each era after a client has used every method."""
    revision, server = request.param, Full()
    client = tc.Client(
        server,
        mode=revision if revision == spec.MODERN else "legacy",
        sampling_handler=lambda request: "",
        elicitation_handler=lambda request: None,
        elicitation_modes=("form", "url"),
        roots=["file:///srv"],
        log_level="debug",
    )
    async with client, asyncio.timeout(10):
        await client.list_tools()
        await client.call_tool("a", {"x": [1, None]}, on_progress=lambda *said: None, meta={"com.example/mine": 1})
        await client.call_tool("a")
        await client.list_resources()
        await client.list_resource_templates()
        await client.read_resource("file:///a")
        await client.list_prompts()
        await client.get_prompt("p", {"n": 1})
        await client.get_prompt("p")
        await client.complete("p", "n", "v", context={"a": "b"})
        await client.complete("file:///{a}", "a")
        await client.ping()
        async with client.listen("file:///a"):
            await client.subscribe("file:///b")
            await client.unsubscribe("file:///b")
        call = asyncio.create_task(client.call_tool("never"))
        await eventually(lambda: server.received[-1].get("params", {}).get("name") == "never")
        call.cancel()
        await eventually(lambda: "notifications/cancelled" in server.methods)
    return revision, server


async def test_every_message_is_valid_in_the_schema_of_its_revision(spoken: tuple[str, Full]) -> None:
    revision, server = spoken
    assert {message["method"] for message in server.received} == BOTH | ONLY[revision]
    for message in server.received:
        assert spec.faults(revision, DEFINITIONS[message["method"]], message) == [], message


async def test_ids_are_integers_from_one_on_and_never_used_twice(spoken: tuple[str, Full]) -> None:
    ids = [message["id"] for message in spoken[1].received if "id" in message]
    assert ids == list(range(1, len(ids) + 1))


async def test_the_progress_token_is_the_id_and_is_sent_only_if_there_is_a_listener(spoken: tuple[str, Full]) -> None:
    with_token, without, _ = spoken[1].named("tools/call")
    assert with_token["params"]["_meta"]["progressToken"] == with_token["id"]
    assert with_token["params"]["_meta"]["com.example/mine"] == 1
    assert "progressToken" not in without["params"].get("_meta", {})


async def test_an_empty_cursor_is_a_cursor(spoken: tuple[str, Full]) -> None:
    assert [message.get("params", {}).get("cursor") for message in spoken[1].named("tools/list")] == [None, ""]


async def test_a_handshake_connection_stamps_nothing_on_its_requests(spoken: tuple[str, Full]) -> None:
    revision, server = spoken
    stamped = [message for message in server.received if "io.modelcontextprotocol" in str(message)]
    requests = [message for message in server.received if "id" in message]
    assert stamped == (requests if revision == spec.MODERN else [])


async def test_exactly_the_offered_handlers_are_declared(spoken: tuple[str, Full]) -> None:
    revision, server = spoken
    first = server.received[0]["params"]
    declared = (
        first["_meta"]["io.modelcontextprotocol/clientCapabilities"]
        if revision == spec.MODERN
        else first["capabilities"]
    )
    assert declared == {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}


def test_the_schema_would_notice_a_wrong_request() -> None:
    bare = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a"}}
    assert spec.faults(spec.LEGACY, "CallToolRequest", bare) == []
    assert spec.faults(spec.MODERN, "CallToolRequest", bare) != []
    assert spec.faults(spec.LEGACY, "CallToolRequest", {**bare, "id": None}) != []
