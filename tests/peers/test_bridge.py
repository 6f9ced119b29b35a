"""The seam `(method, params, exchange)` carries a gateway between the eras: a question in mid-call crosses it.

The gateway here is as small as one can be: it forwards to one upstream, and a question of the upstream's becomes a
question of its own. What differs between the eras is the endpoint's on one side and the client's on the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import toolyard as ty
from tests.peers.kit import MODERN, SDK2_MODERN, SERVERS
from tests.serving import served
from toolyard.protocol.metadata import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from toolyard.server.exchange import Answerer, Exchange, Peer
from toolyard.server.serving.guard import Guard
from toolyard.server.serving.http import HttpApp

META = {PROTOCOL_VERSION: MODERN, CLIENT_CAPABILITIES: {"elicitation": {}}}
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": MODERN,
    "Mcp-Method": "tools/call",
    "Mcp-Name": "greet",
}


class Deaf:
    """Hears of no changes."""

    def __init__(self) -> None:
        self.accepted: dict[str, Any] = {}

    async def close(self) -> None:
        """Nothing."""


class Gateway:
    """Forwards to one upstream, one call at a time: over stdio a question does not say which call it belongs to."""

    def __init__(self, upstream: ty.ServerConfig, mode: str) -> None:
        self.client = ty.Client(upstream, mode=mode, elicitation_handler=self._relay, execution_timeout=30)
        self._turn = asyncio.Lock()
        self._exchange: Exchange | None = None

    async def _relay(self, asked: ty.ElicitRequest) -> ty.ElicitResult:
        assert self._exchange is not None
        said = await self._exchange.back.ask("elicitation/create", asked.raw, None)
        return ty.ElicitResult(said["action"], said.get("content"))

    def describe(self, peer: Peer) -> dict[str, Any]:
        return {"serverInfo": {"name": "gateway", "version": "1"}, "capabilities": {"tools": {}}}

    def may_ask(self, method: str, params: dict[str, Any]) -> bool:
        return method == "tools/call"

    def mirrored(self, tool: str) -> tuple[()]:
        return ()

    async def answer(self, method: str, params: dict[str, Any], exchange: Exchange) -> dict[str, Any]:
        bare = {k: v for k, v in params.items() if k not in ("_meta", "inputResponses", "requestState")}
        async with self._turn:
            self._exchange = exchange
            return await self.client.request(method, bare)

    async def watch(self, wanted: dict[str, Any], peer: Peer, deliver: Any) -> Deaf:
        return Deaf()


@asynccontextmanager
async def bridged(upstream: ty.ServerConfig, mode: str, ttl: float = 60) -> AsyncIterator[str]:
    """The URL of a gateway in front of an upstream."""
    gateway = Gateway(upstream, mode)
    front: Answerer = gateway
    async with gateway.client, served(HttpApp(front, guard=Guard(), parked_ttl=ttl)) as address:
        yield f"{address}/mcp"


class Caller:
    """A modern client, by hand: what it sends and gets is the wire itself."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self._url = url
        self._last = 0

    async def call(self, nonce: str = "n1", **more: Any) -> dict[str, Any]:
        id = self._last = self._last + 1
        params = {"name": "greet", "arguments": {"nonce": nonce}, "_meta": META, **more}
        message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
        async with self._http.post(self._url, json=message, headers=HEADERS) as response:
            answer: dict[str, Any] = await response.json()
        assert answer.pop("id") == id
        return answer

    async def again(self, before: dict[str, Any], name: str, nonce: str = "n1") -> dict[str, Any]:
        """Come again with the answer to the one question."""
        (key,) = before["result"]["inputRequests"]
        answers = {key: {"action": "accept", "content": {"name": name}}}
        return await self.call(nonce, inputResponses=answers, requestState=before["result"]["requestState"])


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "journal"
    path.touch()
    return path


@pytest.fixture
def old(python_of: Callable[[str], str], journal: Path) -> ty.StdioServer:
    """An upstream of the handshake era."""
    return ty.StdioServer(python_of("sdk1"), [str(SERVERS / "asking_server.py"), str(journal)])


@asynccontextmanager
async def caller(upstream: ty.ServerConfig, ttl: float = 60) -> AsyncIterator[Caller]:
    async with bridged(upstream, "legacy", ttl) as url, aiohttp.ClientSession() as http:
        yield Caller(http, url)


async def test_a_modern_client_is_asked_by_an_upstream_that_asks_in_mid_call(
    old: ty.StdioServer, journal: Path
) -> None:
    async with caller(old) as client:
        first = await client.call()
        assert first["result"]["resultType"] == "input_required"
        (question,) = first["result"]["inputRequests"].values()
        assert (question["method"], question["params"]["message"]) == ("elicitation/create", "first name?")
        second = await client.again(first, "Ada")
        assert second["result"]["requestState"] != first["result"]["requestState"]
        last = await client.again(second, "Lovelace")
        assert last["result"]["resultType"] == "complete"
        assert last["result"]["content"][0]["text"] == "hello Ada Lovelace"
    assert journal.read_text().split("\n")[:-1] == ["began n1", "ended n1"]


async def test_who_comes_twice_joins_the_same_call(old: ty.StdioServer, journal: Path) -> None:
    async with caller(old) as client:
        first = await client.call()
        one, other = await asyncio.gather(client.again(first, "Ada"), client.again(first, "Eve"))
        assert one["result"]["inputRequests"] == other["result"]["inputRequests"]
        done = await client.again(one, "Lovelace")
        assert done["result"]["content"][0]["text"] in ("hello Ada Lovelace", "hello Eve Lovelace")
        assert await client.again(other, "Hopper") == done
    assert journal.read_text().split("\n")[:-1] == ["began n1", "ended n1"]


async def test_answers_that_are_missing_are_asked_for_again(old: ty.StdioServer) -> None:
    async with caller(old) as client:
        first = await client.call()
        state = first["result"]["requestState"]
        again = await client.call(inputResponses={"something": {"action": "accept"}}, requestState=state)
        assert again["result"]["inputRequests"] == first["result"]["inputRequests"]


@pytest.mark.parametrize("change", ["tampered", "other arguments", "none of ours"])
async def test_a_state_that_does_not_belong_to_the_request_is_refused(
    old: ty.StdioServer, journal: Path, change: str
) -> None:
    async with caller(old) as client:
        first = await client.call()
        state = first["result"]["requestState"]
        states = {"tampered": state + "-", "other arguments": state, "none of ours": "A" * 32}
        nonce = "n2" if change == "other arguments" else "n1"
        refused = await client.call(nonce, inputResponses={}, requestState=states[change])
        assert refused["error"]["code"] == -32602
        assert (await client.again(first, "Ada"))["result"]["resultType"] == "input_required"  # and it lives on
    assert "n2" not in journal.read_text()


async def test_an_abandoned_call_ends_at_its_time_with_a_cancel_and_ran_once(
    old: ty.StdioServer, journal: Path
) -> None:
    async with caller(old, ttl=0.3) as client:
        first = await client.call()
        async with asyncio.timeout(20):
            while "cancelled n1" not in journal.read_text():
                await asyncio.sleep(0.02)
        late = await client.again(first, "Ada")
        assert late["error"]["code"] == -32602
        assert (await client.call("n2"))["result"]["resultType"] == "input_required"  # the upstream works on
        assert journal.read_text().split("\n")[:-1] == ["began n1", "cancelled n1", "began n2"]


async def test_our_own_modern_client_gets_through_too(old: ty.StdioServer) -> None:
    def answer(asked: ty.ElicitRequest) -> ty.ElicitResult:
        return ty.ElicitResult("accept", {"name": "Ada" if asked.message == "first name?" else "Lovelace"})

    async with bridged(old, "legacy") as url, ty.Client(url, mode=MODERN, elicitation_handler=answer) as client:
        assert (await client.call_tool("greet", {"nonce": "n1"})).text == "hello Ada Lovelace"


async def test_a_client_of_the_handshake_era_is_asked_by_a_modern_upstream(
    server_of: Callable[..., ty.ServerConfig],
) -> None:
    asked: list[str] = []

    def answer(question: ty.ElicitRequest) -> ty.ElicitResult:
        asked.append(question.message)
        return ty.ElicitResult("accept", {"name": "Ada"})

    upstream = server_of(SDK2_MODERN)
    async with bridged(upstream, MODERN) as url, ty.Client(url, mode="legacy", elicitation_handler=answer) as client:
        assert client.server_info.protocol_version == "2025-11-25"
        assert (await client.call_tool("ask_user", {"question": "who?"})).text == "hello Ada"
    assert asked == ["who?"]
