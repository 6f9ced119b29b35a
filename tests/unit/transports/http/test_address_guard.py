"""Addresses are checked when a connection is made: with real sockets, and a stub in place of the DNS."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

import toolcrib as tc
from toolcrib.errors import AuthError, ConnectError
from toolcrib.provider.egress import AddressPolicy

OPEN, CLOSED = AddressPolicy(), AddressPolicy(allow_private=False)
Names = dict[str, list[list[str]]]


class OnlySecond:
    """Rules that allow 127.0.0.2 and nothing else, so that both answers of a name can be reached in a test."""

    def refuse_host(self, host: str) -> str | None:
        return None

    def refuse_address(self, address: str, *, trusted: bool = False) -> str | None:
        return None if address == "127.0.0.2" else f"{address} is refused"


class WebServer:
    """A server on all addresses of this machine that records the addresses at which it was reached."""

    def __init__(self) -> None:
        self.reached: list[str] = []
        self.requests: list[str] = []
        self.redirect = ""
        self.challenge = False
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reached.append(writer.get_extra_info("sockname")[0].removeprefix("::ffff:"))
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.requests.append(head.split("\r\n", 1)[0])
            fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
            body = await reader.readexactly(int(fields.get("content-length", 0)))
            writer.write(self.response(body))
            await writer.drain()
        writer.close()

    def response(self, body: bytes) -> bytes:
        if self.redirect:
            return f"HTTP/1.1 307 X\r\nLocation: {self.redirect}\r\nContent-Length: 0\r\n\r\n".encode()
        if self.challenge:
            return b"HTTP/1.1 401 X\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n"
        result = {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "web", "version": "1"}},
            "ttlMs": 0,
            "cacheScope": "public",
        }
        text = json.dumps({"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": result}).encode()
        head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
        return f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text


@pytest.fixture
async def web() -> AsyncIterator[WebServer]:
    made = WebServer()
    listener = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    made.port = listener.getsockname()[1]
    async with await asyncio.start_server(made.answer, sock=listener):
        yield made


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """The answers for each name, the last one again and again. Other names are resolved as usual."""
    answers: Names = {}
    resolve = socket.getaddrinfo

    def stub(host: Any, *args: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host)
        if name not in answers:
            return resolve(host, *args, **options)
        found = answers[name].pop(0) if len(answers[name]) > 1 else answers[name][0]
        return [each for address in found for each in resolve(address, *args, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", stub)
    return answers


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


async def connect(server: Any, policy: Any, **options: Any) -> None:
    async with tc.Client(server, mode="2026-07-28", _address_policy=policy, connect_timeout=10, **options):
        pass


async def refusal(server: Any, policy: Any, **options: Any) -> str:
    with pytest.raises(ConnectError) as caught:
        await connect(server, policy, **options)
    assert caught.value.permanent
    assert caught.value.sent is False
    return caught.value.message


# ---- the spelling of a URL makes no difference


HERE = [
    "127.0.0.1",
    "user:pass@127.0.0.1",
    "8.8.8.8@127.0.0.1",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "localhost",
    "LOCALHOST",
    "here.example",
    "here.example.",
    "0.0.0.0",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "127.1",
    "①②⑦.0.0.1",
]


@pytest.mark.parametrize("host", HERE)
async def test_no_spelling_of_this_machine_is_reached_if_private_addresses_are_refused(
    host: str, names: Names, web: WebServer
) -> None:
    names["here.example"] = names["here.example."] = [["127.0.0.1"]]
    await refusal(f"http://{host}:{web.port}/mcp", CLOSED)
    await refusal(tc.SseServer(f"http://{host}:{web.port}/sse"), CLOSED)
    assert web.reached == []


@pytest.mark.parametrize("host", ["127.0.0.1", "user:pass@127.0.0.1", "[::1]", "localhost", "here.example."])
async def test_private_addresses_are_reached_by_default(host: str, names: Names, web: WebServer) -> None:
    names["here.example."] = [["127.0.0.1"]]
    await connect(f"http://{host}:{web.port}/mcp", OPEN)
    await connect(f"http://{host}:{web.port}/mcp", None)
    assert len(web.reached) >= 2


async def test_the_error_names_host_address_and_option(names: Names, web: WebServer) -> None:
    names["intranet.example"] = [["10.1.2.3", "127.0.0.1"]]
    assert await refusal(f"http://intranet.example:{web.port}/mcp", CLOSED) == (
        "not connected: intranet.example: 10.1.2.3 is a private address, and allow_private is False. "
        "Use a public address, or set allow_private=True"
    )
    assert await refusal(f"http://127.0.0.1:{web.port}/mcp", CLOSED) == (
        "not connected: 127.0.0.1 is a loopback address, and allow_private is False. "
        "Use a public address, or set allow_private=True"
    )


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "100.100.100.200",
        "2852039166",
        "metadata.google.internal",
        "Metadata.Google.Internal.",
        "rebound.example",
    ],
)
async def test_metadata_services_are_refused_by_default(host: str, names: Names) -> None:
    names["rebound.example"] = [["169.254.169.254"]]
    message = await refusal(f"http://{host}/latest/meta-data", OPEN)
    # Versions of aiohttp reject numbers in place of addresses before, or pass them on as addresses.
    assert any(words in message for words in ("always refused", "invalid URL", "is not an IP address"))


# ---- names that change


async def test_only_the_allowed_addresses_of_a_name_are_used(names: Names, web: WebServer) -> None:
    names["mixed.example"] = [["127.0.0.1", "127.0.0.2", "::1"]]
    await connect(f"http://mixed.example:{web.port}/mcp", OnlySecond())
    assert set(web.reached) == {"127.0.0.2"}


async def test_the_address_that_was_checked_is_the_one_that_is_connected_to(names: Names, web: WebServer) -> None:
    names["rebinding.example"] = [["127.0.0.2"], ["127.0.0.1"]]
    await connect(f"http://rebinding.example:{web.port}/mcp", OnlySecond())
    assert set(web.reached) == {"127.0.0.2"}
    message = await refusal(f"http://rebinding.example:{web.port}/mcp", OnlySecond())
    assert message == "not connected: rebinding.example: 127.0.0.1 is refused"
    assert set(web.reached) == {"127.0.0.2"}


async def test_the_target_of_a_redirect_is_checked(names: Names, web: WebServer) -> None:
    names["redirected.example"] = [["127.0.0.2"], ["127.0.0.1"]]
    web.redirect = "https://redirected.example/mcp"
    message = await refusal(f"http://redirected.example:{web.port}/mcp", OnlySecond())
    assert message == "not connected: redirected.example: 127.0.0.1 is refused"
    assert web.reached == ["127.0.0.2"]


# ---- authorisation and proxies


class AsksElsewhere:
    """An authorisation flow that fetches a document from another address."""

    async def async_auth_flow(self, request: Any) -> Any:
        response = yield request
        if response.status_code == 401:
            yield SimpleNamespace(method="GET", url="http://169.254.169.254/token", headers={}, content=b"")


async def test_requests_of_the_authorisation_are_checked(web: WebServer) -> None:
    web.challenge = True
    with pytest.raises(AuthError, match=r"169\.254\.169\.254 is the address of a cloud's metadata service"):
        await connect(f"http://127.0.0.1:{web.port}/mcp", OPEN, auth=AsksElsewhere())


@pytest.fixture
def proxy_of_environment(monkeypatch: pytest.MonkeyPatch, web: WebServer) -> Callable[[str], None]:
    return lambda host: monkeypatch.setenv("HTTP_PROXY", f"http://{host}:{web.port}")


@pytest.mark.parametrize("proxy", ["127.0.0.1", "proxy.example"])
async def test_a_proxy_of_the_environment_may_be_private_but_hosts_behind_it_are_checked(
    proxy: str, proxy_of_environment: Callable[[str], None], names: Names, web: WebServer
) -> None:
    names |= {"proxy.example": [["127.0.0.1"]], "public.example": [["8.8.8.8"]], "intranet.example": [["10.0.0.1"]]}
    proxy_of_environment(proxy)
    for host in ("10.0.0.1", "127.1", "intranet.example", "169.254.169.254", "metadata.google.internal"):
        await refusal(f"http://{host}/mcp", CLOSED)
    assert web.reached == []
    await connect("http://public.example/mcp", CLOSED)
    await connect("http://only-the-proxy-knows.invalid/mcp", CLOSED)
    assert set(web.requests) == {
        "POST http://public.example/mcp HTTP/1.1",
        "POST http://only-the-proxy-knows.invalid/mcp HTTP/1.1",
    }


async def test_a_proxy_of_the_config_is_checked_like_any_address(names: Names, web: WebServer) -> None:
    names["public.example"] = [["8.8.8.8"]]
    server = tc.HttpServer("http://public.example/mcp", proxy=f"http://127.0.0.1:{web.port}")
    assert "127.0.0.1 is a loopback address" in await refusal(server, CLOSED)
    assert web.reached == []
    await connect(server, OPEN)
    assert web.reached
