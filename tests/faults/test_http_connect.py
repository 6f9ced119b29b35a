"""Servers that cannot be reached: a typed error with `sent=False`, and recovery."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.http_kit import Certificates, Web, closed_port, unreachable
from tests.faults.http_proxy import Fault
from tests.faults.http_server import BadWebServer
from tests.faults.kit import Ledger, either_era, outcome_of, succeeded, succeeds
from toolcrib.errors import ConfigError, ConnectError, TransportError
from toolcrib.types import ConnectionState

SLOW_BREAKER = tc.ReconnectPolicy(base_delay=0.01, max_delay=30, max_retries=3, jitter_factor=0)


async def test_a_refused_port_is_a_connect_error_that_names_the_place(web: Web) -> None:
    port = closed_port()
    client = web.client(f"http://127.0.0.1:{port}/mcp")
    start = time.monotonic()
    with pytest.raises(ConnectError, match=f"127.0.0.1.*{port}") as caught:
        await client.connect()
    assert time.monotonic() - start < 3
    assert not caught.value.sent
    assert not caught.value.permanent, "it may be up the next time"
    assert client.status.state is ConnectionState.FAILED
    outcome = await outcome_of(client.call_tool("echo", {}, timeout=5))
    assert isinstance(outcome, ConnectError)
    assert not outcome.sent


async def test_an_unknown_host_name_is_a_connect_error_that_names_it(web: Web) -> None:
    client = web.client("http://no-such-host-7f3a.invalid/mcp", connect_timeout=10)
    with pytest.raises(ConnectError, match=r"no-such-host-7f3a\.invalid") as caught:
        await client.connect()
    assert not caught.value.sent


async def test_a_connection_that_is_never_made_ends_at_the_deadline_unsent(web: Web) -> None:
    async with unreachable() as port:
        client = web.client(f"http://127.0.0.1:{port}/mcp", connect_timeout=0.5)
        start = time.monotonic()
        with pytest.raises(ConnectError):
            await client.connect()
        outcome = await outcome_of(client.call_tool("echo", {}, timeout=0.3))
        assert isinstance(outcome, TransportError)
        assert not outcome.sent
        assert time.monotonic() - start < 5
        await client.close()


@either_era
async def test_a_server_behind_a_slow_line_is_as_good_as_any(web: Web, era: str) -> None:
    server = await web.server(era=era)
    line = await web.line(server, lambda number: Fault(latency=0.02))
    async with web.client(line) as client:
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"


# ---- TLS and proxies


async def test_a_self_signed_certificate_is_a_connect_error_and_nothing_is_sent(
    web: Web, certificates: Certificates
) -> None:
    server = await web.server(ssl=certificates.server_context("own"))
    client = web.client(server, headers={"Authorization": "Bearer t"})
    with pytest.raises(ConnectError, match=r"(?i)certificate") as caught:
        await client.connect()
    assert not caught.value.sent
    assert caught.value.permanent, "another attempt would not help"
    assert server.requests == []


@pytest.mark.parametrize("name, option", [("server", {"verify": True}), ("other", {})], ids=["authority", "name"])
async def test_a_certificate_of_an_unknown_authority_or_another_name_is_refused(
    web: Web, certificates: Certificates, name: str, option: dict[str, Any]
) -> None:
    server = await web.server(ssl=certificates.server_context(name))
    trust = {"ca": certificates.path("ca.pem")} if name == "other" else {}
    with pytest.raises(ConnectError, match=r"(?i)certificate"):
        await web.client(server, **trust, **option).connect()
    assert server.requests == []


async def test_https_to_a_port_that_speaks_http_is_a_connect_error(web: Web) -> None:
    server = await web.server()
    client = web.client(server.url.replace("http:", "https:"), connect_timeout=10)
    with pytest.raises(ConnectError) as caught:
        await client.connect()
    assert not caught.value.sent
    assert server.requests == []


async def test_http_to_a_port_that_speaks_https_is_a_connect_error(web: Web, certificates: Certificates) -> None:
    server = await web.server(ssl=certificates.server_context())
    client = web.client(server.url.replace("https:", "http:"), connect_timeout=10)
    with pytest.raises(ConnectError):
        await asyncio.wait_for(client.connect(), 20)
    assert server.requests == []


@either_era
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_ca_makes_our_own_authority_trusted(web: Web, era: str, certificates: Certificates, host: str) -> None:
    server = await web.server(era=era, ssl=certificates.server_context(), host=host)
    async with web.client(server, ca=certificates.path("ca.pem")) as client:
        assert (await client.call_tool("echo", {"nonce": "x", "as": "event"})).text == "x"


async def test_a_ca_file_that_is_not_there_is_a_config_error(web: Web, certificates: Certificates) -> None:
    server = await web.server(ssl=certificates.server_context())
    for options in ({"ca": "/nowhere/ca.pem"}, {"client_cert": certificates.path("ca.pem")}):
        with pytest.raises(ConfigError) as caught:
            await web.client(server, **options).connect()
        assert caught.value.key in ("ca", "client_cert")


@either_era
async def test_verify_false_takes_any_certificate(web: Web, era: str, certificates: Certificates) -> None:
    server = await web.server(era=era, ssl=certificates.server_context("own"))
    async with web.client(server, verify=False) as client:
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"


@pytest.mark.parametrize("form", ["a pair", "one file"])
async def test_a_client_certificate_is_shown_to_a_server_that_wants_one(
    web: Web, era: str, certificates: Certificates, form: str
) -> None:
    server = await web.server(era=era, ssl=certificates.server_context(wants_client=True))
    certificate, key = certificates.path("client.pem"), certificates.path("client.key")
    both = certificates.directory / "both.pem"
    both.write_text(Path(certificate).read_text() + Path(key).read_text())
    shown = (certificate, key) if form == "a pair" else str(both)
    async with web.client(server, ca=certificates.path("ca.pem"), client_cert=shown) as client:
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"


async def test_without_the_client_certificate_that_the_server_wants_nothing_is_executed(
    web: Web, certificates: Certificates
) -> None:
    server = await web.server(ssl=certificates.server_context(wants_client=True))
    with pytest.raises(ConnectError):
        await web.client(server, ca=certificates.path("ca.pem")).connect()
    assert server.requests == []


@either_era
@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
async def test_everything_goes_through_the_proxy(web: Web, era: str, certificates: Certificates, secure: bool) -> None:
    server = await web.server(era=era, ssl=certificates.server_context() if secure else None)
    proxy = await web.proxy()
    trust = {"ca": certificates.path("ca.pem")} if secure else {}
    async with web.client(server, proxy=proxy.origin, headers={"Authorization": "Bearer t"}, **trust) as client:
        assert (await client.call_tool("echo", {"nonce": "x", "as": "event"})).text == "x"
    assert proxy.asked
    assert {one.verb for one in proxy.asked} <= ({"CONNECT"} if secure else {"POST", "GET", "DELETE"})
    assert all(f":{server.port}" in one.target for one in proxy.asked)
    if secure:
        assert "Bearer" not in "".join(one.raw for one in proxy.asked), "the proxy sees no token of the tunnel"
    assert server.requests[-1].target == "/mcp"


@either_era
async def test_a_proxy_with_credentials_gets_them_and_the_server_does_not(web: Web, era: str) -> None:
    server, proxy = await web.server(era=era), await web.proxy()
    url = proxy.origin.replace("http://", "http://user:c4n4ry@")
    async with web.client(server, proxy=url) as client:
        await client.call_tool("echo", {})
    assert {one.header("proxy-authorization") for one in proxy.asked} == {"Basic dXNlcjpjNG40cnk="}
    assert "proxy-authorization" not in "".join(one.raw for one in server.requests).lower()


async def test_the_proxy_of_the_environment_is_used_but_where_it_says_no(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, proxy = await web.server(), await web.proxy()
    monkeypatch.setenv("HTTP_PROXY", proxy.origin)
    async with web.client(server) as client:
        await client.call_tool("echo", {})
    seen = len(proxy.asked)
    assert seen >= 2
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with web.client(server) as client:
        await client.call_tool("echo", {})
    assert len(proxy.asked) == seen


@pytest.mark.parametrize("case", ["gone", "refuses"])
@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
async def test_a_proxy_that_does_not_work_is_a_connect_error(
    web: Web, certificates: Certificates, case: str, secure: bool
) -> None:
    server = await web.server(ssl=certificates.server_context() if secure else None)
    place = f"http://127.0.0.1:{closed_port()}" if case == "gone" else (await web.proxy(refusal=407)).origin
    client = web.client(server, proxy=place, ca=certificates.path("ca.pem"))
    with pytest.raises(ConnectError) as caught:
        await client.connect()
    assert not caught.value.sent
    assert server.requests == []


# ---- down and back again


@either_era
async def test_the_circuit_opens_after_five_failures_and_spares_the_server(web: Web, era: str) -> None:
    server = await web.server(era=era)
    server.gate("any", "die")
    client = web.client(server, reconnect=SLOW_BREAKER, max_retries=1)
    for _ in range(12):
        outcome = await outcome_of(client.call_tool("echo", {}, timeout=5))
        assert isinstance(outcome, ConnectError)
        assert not outcome.sent
    seen = len(server.requests)
    assert seen <= 15
    start = time.monotonic()
    for _ in range(50):
        assert isinstance(await outcome_of(client.call_tool("echo", {}, timeout=5)), ConnectError)
    assert time.monotonic() - start < 2, "an open circuit answers at once"
    assert len(server.requests) == seen


async def test_a_server_that_was_down_is_used_again_when_it_is_back(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    client = web.client(server, max_attempts=1)
    await ledger.call(client)
    port = server.port
    await server.stop()
    for _ in range(8):
        outcome = await ledger.call(client, timeout=2)
        assert isinstance(outcome, TransportError)
    again = BadWebServer(era=era)
    web.servers.append(await again.start(port))
    await succeeds(lambda: client.call_tool("echo", {"nonce": "back"}, timeout=5))
    assert succeeded(await ledger.call(client))
    assert client.status.state is ConnectionState.CONNECTED
    ledger.check(server.executed + again.executed)


async def test_the_circuit_opens_too_for_a_server_that_was_there_and_is_gone(web: Web, era: str) -> None:
    server = await web.server(era=era)
    client = web.client(server, reconnect=SLOW_BREAKER, max_retries=1)
    await client.call_tool("echo", {})
    await server.stop()
    outcomes = [await outcome_of(client.call_tool("echo", {}, timeout=5)) for _ in range(12)]
    assert all(isinstance(outcome, TransportError) for outcome in outcomes)
    assert isinstance(outcomes[-1], ConnectError)
    assert "failures in a row" in str(outcomes[-1]), "attempts do not continue forever"
    assert client.status.state in (ConnectionState.FAILED, ConnectionState.DEGRADED)


async def test_a_restarted_server_costs_a_call_nothing_that_was_not_sent(web: Web, era: str) -> None:
    """The new server does not know the old session: the client makes one handshake and sends the call again."""
    ledger, server = Ledger(), await web.server(era=era)
    client = web.client(server)
    assert succeeded(await ledger.call(client))
    port = server.port
    await server.stop()
    again = BadWebServer(era=era)
    web.servers.append(await again.start(port))
    for _ in range(5):
        await ledger.call(client)
    assert ledger.count(succeeded) >= 5, f"{ledger.outcomes}"
    ledger.check(server.executed + again.executed)


# ---- answers that are no connection


@pytest.mark.parametrize(
    "how, status",
    [
        pytest.param({"status": 404}, 404, id="404"),
        pytest.param({"status": 405, "headers": {"Allow": "GET"}}, 405, id="405"),
        pytest.param({"status": 400, "body": "nope", "type": "text/plain"}, 400, id="400"),
        pytest.param({"status": 404, "body": "<h1>Not here</h1>", "type": "text/html"}, 404, id="404 html"),
        pytest.param({"status": 200, "body": "<h1>Welcome</h1>", "type": "text/html"}, 200, id="200 html"),
        pytest.param({"status": 202}, 202, id="202"),
        pytest.param({"status": 410}, 410, id="410"),
    ],
)
async def test_a_url_that_is_not_an_mcp_server_is_a_permanent_connect_error(
    web: Web, how: dict[str, Any], status: int
) -> None:
    server = await web.server()
    server.gate("any", "status", **how)
    client = web.client(server)
    with pytest.raises(ConnectError) as caught:
        await asyncio.wait_for(client.connect(), 10)
    assert caught.value.status == status
    assert caught.value.permanent
    assert not caught.value.sent
    assert len(server.requests) <= 4, "asked in both eras, and perhaps for HTTP+SSE"


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_a_server_that_fails_while_connecting_may_be_tried_again(web: Web, status: int) -> None:
    server = await web.server()
    gate = server.gate("any", "status", status=status, body="<h1>Oops</h1>", type="text/html")
    client = web.client(server)
    with pytest.raises(ConnectError) as caught:
        await client.connect()
    assert caught.value.status == status
    assert not caught.value.permanent
    gate.times = 0
    await succeeds(lambda: client.call_tool("echo", {"nonce": "x"}, timeout=5))


async def test_all_waiting_callers_share_one_handshake(web: Web, era: str) -> None:
    server = await web.server(era=era)
    client = web.client(server)
    calls = [client.call_tool("echo", {"nonce": str(n)}) for n in range(50)]
    results = (await asyncio.gather(*(client.connect() for _ in range(20)), *calls))[20:]
    assert [result.text for result in results] == [str(n) for n in range(50)]
    assert len(server.received("server/discover")) == 1
    assert len(server.received("initialize")) == (era == "legacy")
