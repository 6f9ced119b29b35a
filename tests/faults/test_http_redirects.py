"""Redirects: followed only to the same server; others are reported in the error, and nothing is sent there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.http_kit import Certificates, Web
from tests.faults.kit import Ledger, either_era, outcome_of, succeeded
from toolcrib.errors import ConnectError, ProtocolError

SECRET = "c4n4ry-7d1f"


@either_era
@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_within_the_origin_is_followed_and_the_call_runs_once(web: Web, era: str, status: int) -> None:
    ledger, server = Ledger(), await web.server(era=era, path="/new/mcp")
    server.path = "/mcp"
    async with web.client(server, headers={"Authorization": f"Bearer {SECRET}"}) as client:
        await ledger.call(client)
        server.path = "/new/mcp"
        gate = server.gate("any", "redirect", to="/new/mcp", status=status, times=1)
        assert succeeded(await ledger.call(client, pad="b" * 100_000))
        assert gate.times == 0
        old, new = server.requests[-2:]
        assert (old.target, new.target) == ("/mcp", "/new/mcp")
        assert old.body == new.body
        assert new.header("authorization") == f"Bearer {SECRET}"
        server.path = "/mcp"
    ledger.check(server.executed)


@either_era
@pytest.mark.parametrize("status", [301, 302, 303, 300, 304, 305])
async def test_other_redirects_of_a_post_are_named_and_not_followed(web: Web, era: str, status: int) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        server.gate("tools/call", "redirect", to="/elsewhere", status=status, times=1)
        outcome = await ledger.call(client)
        assert isinstance(outcome, ProtocolError), outcome
        assert outcome.status == status
        assert "/elsewhere" in str(outcome)
        assert len(server.received("tools/call")) == 1
        assert {one.target for one in server.requests} == {"/mcp"}
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)


@either_era
async def test_a_redirect_loop_is_a_bounded_error_that_names_the_target(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        gate = server.gate("tools/call", "redirect", to="/mcp?again")
        outcome = await ledger.call(client)
        assert isinstance(outcome, ProtocolError), outcome
        assert "/mcp" in str(outcome)
        assert outcome.status == 307
        assert len(server.received("tools/call")) <= 6
        gate.times = 0
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)


@either_era
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("when", ["in a call", "while connecting"])
async def test_a_redirect_to_another_origin_is_named_and_gets_no_request_and_no_token(
    web: Web, era: str, status: int, when: str
) -> None:
    ledger, server, other = Ledger(), await web.server(era=era), await web.server()
    client = web.client(server, headers={"Authorization": f"Bearer {SECRET}"})
    if when == "in a call":
        await ledger.call(client)
        server.gate("tools/call", "redirect", to=other.url, status=status, times=1)
        outcome: Any = await ledger.call(client)
        assert isinstance(outcome, ProtocolError), outcome
    else:
        server.gate("POST", "redirect", to=other.url, status=status)
        with pytest.raises(ConnectError) as caught:
            await client.connect()
        outcome = caught.value
        assert outcome.permanent
    assert outcome.status == status
    assert str(other.port) in str(outcome), "it names the target"
    assert SECRET not in str(outcome)
    assert (other.requests, other.accepted) == ([], 0)
    ledger.check(server.executed)


async def test_a_redirect_of_the_standing_stream_or_the_farewell_goes_nowhere_else(web: Web) -> None:
    server, other = await web.server(era="legacy"), await web.server()
    server.gate("GET", "redirect", to=other.url)
    server.gate("DELETE", "redirect", to=other.url)
    async with web.client(server, headers={"Authorization": f"Bearer {SECRET}"}) as client:
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"
    assert (other.requests, other.accepted) == ([], 0)


TRICKS = {
    "no scheme": "//127.0.0.1:{other}/mcp",
    "a name before": "http://127.0.0.1:{port}@127.0.0.1:{other}/mcp",
    "a backslash": "http://127.0.0.1:{port}\\@127.0.0.1:{other}/mcp",
    "another name of this machine": "http://localhost:{port}/mcp",
    "another scheme": "ftp://127.0.0.1:{port}/mcp",
    "a file": "file:///etc/passwd",
    "a script": "javascript:alert(1)",
    "half an address": "http://[::1",
    "a wild port": "http://127.0.0.1:999999/mcp",
    "nothing": "",
    "control characters": "http://127.0.0.1:{other}/\x1b[31m",
    "a very long one": "http://127.0.0.1:{other}/" + "x" * 20_000,
}


@either_era
@pytest.mark.parametrize("name", TRICKS)
async def test_a_redirect_with_a_trick_in_it_goes_nowhere(web: Web, era: str, name: str) -> None:
    ledger, server, other = Ledger(), await web.server(era=era), await web.server()
    async with web.client(server, headers={"Authorization": f"Bearer {SECRET}"}) as client:
        to = TRICKS[name].format(port=server.port, other=other.port)
        server.gate("tools/call", "redirect", to=to, times=1)
        outcome = await ledger.call(client)
        assert isinstance(outcome, ProtocolError), outcome
        assert "\x1b" not in str(outcome)
        assert len(str(outcome)) < 2000
        assert (other.requests, other.accepted) == ([], 0)
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)


@either_era
async def test_from_http_to_https_on_the_same_host_is_followed(web: Web, era: str, certificates: Certificates) -> None:
    ledger = Ledger()
    plain, safe = await web.server(era=era), await web.server(era=era, ssl=certificates.server_context())
    plain.gate("any", "redirect", to=safe.url, status=308)
    async with web.client(plain, ca=certificates.path("ca.pem")) as client:
        assert succeeded(await ledger.call(client))
    ledger.check(safe.executed)
    assert plain.executed == {}


@either_era
async def test_from_https_to_http_is_never_followed(web: Web, era: str, certificates: Certificates) -> None:
    ledger = Ledger()
    safe, plain = await web.server(era=era, ssl=certificates.server_context()), await web.server()
    async with web.client(safe, ca=certificates.path("ca.pem"), headers={"X-Key": SECRET}) as client:
        await ledger.call(client)
        safe.gate("tools/call", "redirect", to=plain.url, times=1)
        outcome = await ledger.call(client)
        assert isinstance(outcome, ProtocolError)
    assert (plain.requests, plain.accepted) == ([], 0)
    ledger.check(safe.executed)


@either_era
async def test_a_secret_in_the_target_is_not_repeated(web: Web, era: str) -> None:
    server = await web.server(era=era)
    async with web.client(server) as client:
        server.gate("tools/call", "redirect", to=f"https://user:{SECRET}@login.example/?token={SECRET}")
        outcome = await outcome_of(client.call_tool("echo", {}))
        assert isinstance(outcome, ProtocolError)
        assert "login.example" in str(outcome)
        assert SECRET not in str(outcome)
