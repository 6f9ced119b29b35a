"""The interface `(method, params, context)` supports a gateway between the eras, including requests for input.

The gateway here is minimal: it forwards to one upstream, and sends the upstream's requests for input to its own client.
The endpoint and the client handle the differences between the eras.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

import toolcrib as tc
from tests.peers.kit import MODERN, SDK2_MODERN, SERVERS, over_http
from tests.serving import served
from toolcrib.protocol.metadata import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from toolcrib.server.handler import Peer, RequestContext, RequestHandler
from toolcrib.server.serving.security import RequestGuard
from toolcrib.server.serving.streamable_http import HttpApp

pytestmark = pytest.mark.asyncio(loop_scope="module")

META = {PROTOCOL_VERSION: MODERN, CLIENT_CAPABILITIES: {"elicitation": {}}}
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": MODERN,
    "Mcp-Method": "tools/call",
    "Mcp-Name": "greet",
}


class Deaf:
    """Ignores changes."""

    def __init__(self) -> None:
        self.accepted: dict[str, Any] = {}

    async def close(self) -> None:
        """Do nothing."""


class Gateway:
    """Forwards to one upstream, one call at a time: over stdio a request for input does not name its call."""

    def __init__(self, upstream: tc.ServerConfig, mode: str) -> None:
        self.client = tc.Client(upstream, mode=mode, elicitation_handler=self._relay, execution_timeout=30)
        self._turn = asyncio.Lock()
        self._request_context: RequestContext | None = None

    async def _relay(self, asked: tc.ElicitRequest) -> tc.ElicitResult:
        assert self._request_context is not None
        said = await self._request_context.back_channel.ask("elicitation/create", asked.raw, None)
        return tc.ElicitResult(said["action"], said.get("content"))

    def describe(self, peer: Peer) -> dict[str, Any]:
        return {"serverInfo": {"name": "gateway", "version": "1"}, "capabilities": {"tools": {}}}

    def may_ask(self, method: str, params: dict[str, Any]) -> bool:
        return method == "tools/call"

    def mirrored(self, tool: str) -> tuple[()]:
        return ()

    async def answer(self, method: str, params: dict[str, Any], exchange: RequestContext) -> dict[str, Any]:
        bare = {k: v for k, v in params.items() if k not in ("_meta", "inputResponses", "requestState")}
        async with self._turn:
            self._request_context = exchange
            return await self.client.request(method, bare)

    async def watch(self, wanted: dict[str, Any], peer: Peer, deliver: Any) -> Deaf:
        return Deaf()


@asynccontextmanager
async def bridged(gateway: Gateway, ttl: float = 60) -> AsyncIterator[str]:
    """Serve a gateway and yield its URL."""
    front: RequestHandler = gateway
    async with served(HttpApp(front, guard=RequestGuard(), suspended_ttl=ttl)) as address:
        yield f"{address}/mcp"


class Caller:
    """A modern client by hand, which sends and receives raw messages."""

    def __init__(self, http: aiohttp.ClientSession, url: str, name: str) -> None:
        self._http = http
        self._url = url
        self._name = name
        self._last = 0

    async def call(self, nonce: str = "n1", **more: Any) -> dict[str, Any]:
        id = self._last = self._last + 1
        arguments = {"nonce": f"{self._name}: {nonce}"}
        params = {"name": "greet", "arguments": arguments, "_meta": META, **more}
        message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
        async with self._http.post(self._url, json=message, headers=HEADERS) as response:
            answer: dict[str, Any] = await response.json()
        assert answer.pop("id") == id
        return answer

    async def again(self, before: dict[str, Any], name: str, nonce: str = "n1") -> dict[str, Any]:
        """Repeat the call with the answer to its only question."""
        (key,) = before["result"]["inputRequests"]
        answers = {key: {"action": "accept", "content": {"name": name}}}
        return await self.call(nonce, inputResponses=answers, requestState=before["result"]["requestState"])


Open = Callable[..., AbstractAsyncContextManager[Caller]]
Steps = Callable[[], list[str]]


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bridge") / "journal"
    path.touch()
    return path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def old(python_of: Callable[[str], str], journal: Path) -> AsyncIterator[Gateway]:
    """A gateway to an upstream of the legacy era: one process for all tests."""
    upstream = tc.StdioServer(python_of("sdk1"), [str(SERVERS / "asking_server.py"), str(journal)])
    gateway = Gateway(upstream, "legacy")
    async with gateway.client:
        yield gateway


@pytest.fixture
def caller(old: Gateway, request: pytest.FixtureRequest) -> Open:
    """Open a caller of the gateway to the old upstream; its calls are known by the name of the test."""

    @asynccontextmanager
    async def open_caller(ttl: float = 60) -> AsyncIterator[Caller]:
        async with bridged(old, ttl) as url, aiohttp.ClientSession() as http:
            yield Caller(http, url, request.node.name)

    return open_caller


@pytest.fixture
def steps(journal: Path, request: pytest.FixtureRequest) -> Steps:
    """Return the steps that the upstream recorded for the calls of this test."""
    name = f"{request.node.name}: "
    return lambda: [line.replace(name, "") for line in journal.read_text().splitlines() if name in line]


async def test_a_modern_client_is_asked_by_an_upstream_that_asks_in_mid_call(caller: Open, steps: Steps) -> None:
    async with caller() as client:
        first = await client.call()
        assert first["result"]["resultType"] == "input_required"
        (question,) = first["result"]["inputRequests"].values()
        assert (question["method"], question["params"]["message"]) == ("elicitation/create", "first name?")
        second = await client.again(first, "Ada")
        assert second["result"]["requestState"] != first["result"]["requestState"]
        last = await client.again(second, "Lovelace")
        assert last["result"]["resultType"] == "complete"
        assert last["result"]["content"][0]["text"] == "hello Ada Lovelace"
    assert steps() == ["began n1", "ended n1"]


async def test_a_client_that_repeats_a_request_joins_the_same_call(caller: Open, steps: Steps) -> None:
    async with caller() as client:
        first = await client.call()
        one, other = await asyncio.gather(client.again(first, "Ada"), client.again(first, "Eve"))
        assert one["result"]["inputRequests"] == other["result"]["inputRequests"]
        done = await client.again(one, "Lovelace")
        assert done["result"]["content"][0]["text"] in ("hello Ada Lovelace", "hello Eve Lovelace")
        assert await client.again(other, "Hopper") == done
    assert steps() == ["began n1", "ended n1"]


async def test_answers_that_are_missing_are_asked_for_again(caller: Open) -> None:
    async with caller() as client:
        first = await client.call()
        state = first["result"]["requestState"]
        again = await client.call(inputResponses={"something": {"action": "accept"}}, requestState=state)
        assert again["result"]["inputRequests"] == first["result"]["inputRequests"]


@pytest.mark.parametrize("change", ["tampered", "other arguments", "none of ours"])
async def test_a_state_that_does_not_belong_to_the_request_is_refused(caller: Open, steps: Steps, change: str) -> None:
    async with caller() as client:
        first = await client.call()
        state = first["result"]["requestState"]
        states = {"tampered": state + "-", "other arguments": state, "none of ours": "A" * 32}
        nonce = "n2" if change == "other arguments" else "n1"
        refused = await client.call(nonce, inputResponses={}, requestState=states[change])
        assert refused["error"]["code"] == -32602
        assert (await client.again(first, "Ada"))["result"]["resultType"] == "input_required"  # and the call continues
    assert "began n2" not in steps()


async def test_an_abandoned_call_ends_at_its_time_with_a_cancel_and_ran_once(caller: Open, steps: Steps) -> None:
    async with caller(ttl=0.3) as client:
        first = await client.call()
        async with asyncio.timeout(20):
            while "cancelled n1" not in steps():
                await asyncio.sleep(0.02)
        late = await client.again(first, "Ada")
        assert late["error"]["code"] == -32602
        assert (await client.call("n2"))["result"]["resultType"] == "input_required"  # the upstream works on
        assert steps() == ["began n1", "cancelled n1", "began n2"]


async def test_our_own_modern_client_gets_through_too(old: Gateway) -> None:
    def answer(asked: tc.ElicitRequest) -> tc.ElicitResult:
        return tc.ElicitResult("accept", {"name": "Ada" if asked.message == "first name?" else "Lovelace"})

    async with bridged(old) as url, tc.Client(url, mode=MODERN, elicitation_handler=answer) as client:
        assert (await client.call_tool("greet", {"nonce": "n1"})).text == "hello Ada Lovelace"


async def test_a_client_of_the_legacy_era_is_asked_by_a_modern_upstream(
    server_of: Callable[..., tc.ServerConfig],
) -> None:
    asked: list[str] = []

    def answer(question: tc.ElicitRequest) -> tc.ElicitResult:
        asked.append(question.message)
        return tc.ElicitResult("accept", {"name": "Ada"})

    gateway = Gateway(server_of(*over_http(SDK2_MODERN)), MODERN)
    async with (
        gateway.client,
        bridged(gateway) as url,
        tc.Client(url, mode="legacy", elicitation_handler=answer) as client,
    ):
        assert client.server_info.protocol_version == "2025-11-25"
        assert (await client.call_tool("ask_user", {"question": "who?"})).text == "hello Ada"
    assert asked == ["who?"]
