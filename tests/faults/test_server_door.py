"""Misdirected requests: hosts, origins, verbs, paths, headers, sessions and states of other clients."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
import pytest_asyncio
from pydantic import Field

from tests.faults.server_kit import Place, Tools, serving
from tests.faults.server_wire import LEGACY, MODERN, call, message, modern, modern_headers

ADD = call("add", {"a": 1, "b": 2})
BODY = json.dumps(modern("tools/call", ADD)).encode()

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Routed(Tools):
    """A server with a tool whose arguments are repeated in headers."""

    def __init__(self) -> None:
        super().__init__()
        self.server.add_tool(self.route)

    async def route(
        self,
        region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
        shard: Annotated[int, Field(json_schema_extra={"x-mcp-header": "Shard"})] = 0,
    ) -> str:
        self.ran["route"] += 1
        return f"{region} {shard}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[Place]:
    async with serving(Routed()) as place:
        yield place


@pytest_asyncio.fixture(loop_scope="module")
async def place(server: Place) -> AsyncIterator[Place]:
    """A server. Whatever the test sends, no tool runs and nothing is logged. It still works afterwards."""
    server.ran.clear()
    yield server
    assert not server.ran
    assert server.faults == []
    await server.quiet()
    assert (await server.post(modern("tools/call", ADD))).text == "3"


# ---- hosts and origins ---------------------------------------------------------------------------------------

FOREIGN_HOSTS = [
    *(
        None,
        "",
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "evil-localhost",
        "127.0.0.1.evil.example",
    ),
    *("evil.example@localhost", "localhost@evil.example", "localhost:80@evil.example", "user:pass@127.0.0.1"),
    *("localhost/evil.example", "localhost#evil.example", "localhost?evil.example", "localhost\\evil.example"),
    *("localhost:80:80", "localhost:evil", "localhost, evil.example", "localhost evil.example", "local\thost"),
    *(
        "::1",
        "[::1",
        "[::1]evil.example",
        "[::1].evil.example",
        "[::1]:evil",
        "[evil.example]",
        "[::2]",
        "[fe80::1%lo]",
    ),
    *(
        "0.0.0.0",
        "127.1",
        "2130706433",
        "0x7f000001",
        "[::ffff:127.0.0.1]",
        "192.168.0.1",
        "10.0.0.1",
        "*",
        "%6cocalhost",
    ),
    *("http://localhost", "//localhost", b"localhost\xff", b"l\xf6calhost"),
]
OWN_HOSTS = ["localhost", "LocalHost", "localhost:1", "127.0.0.1:65535", "[::1]", "[::1]:8000"]
FOREIGN_ORIGINS = [
    *("null", "https://evil.example", "http://evil.example:8000", "http://localhost.evil.example", "file://"),
    *("http://localhost@evil.example", "http://evil.example@localhost", "http://user:pass@localhost"),
    *("http://localhost, http://evil.example", "http://localhost http://evil.example", "localhost", "//localhost"),
    *("javascript://localhost", "chrome-extension://localhost", "http://localhost/evil", "http://localhost?evil"),
    *("http://localhost#evil", "http://evil.example\\@localhost", "http://local\thost", "http://[::1].evil.example"),
    *("http://0.0.0.0", "http://127.1", "http://192.168.0.1", "http:/localhost", "http:localhost", "*", b"\xff"),
]
OWN_ORIGINS = ["http://localhost", "http://localhost:3000", "HTTP://LOCALHOST", "https://127.0.0.1", "http://[::1]:9"]
VERBS = ["POST", "GET", "DELETE", "PUT", "OPTIONS"]


@pytest.mark.parametrize("host", FOREIGN_HOSTS, ids=repr)
async def test_a_request_for_another_host_is_misdirected(place: Place, host: Any) -> None:
    answer = await place.post(modern("tools/call", ADD), {"Host": host})
    assert answer.status in ((421, 400) if host in (None, "") or isinstance(host, bytes) else (421,))
    assert "result" not in answer.json


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS, ids=repr)
async def test_a_page_of_another_origin_is_forbidden(place: Place, origin: Any) -> None:
    answer = await place.post(modern("tools/call", ADD), {"Origin": origin})
    assert (answer.status, answer.code) == (403, -32600)
    assert answer.header("access-control-allow-origin") is None


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("path", ["/mcp", "/", "/other"])
async def test_host_and_origin_are_looked_at_first_on_every_route(place: Place, verb: str, path: str) -> None:
    session = await place.session()
    assert (await place.send(b"{", session | {"Host": "evil.example"}, verb, path)).status == 421
    assert (await place.send(b"{", session | {"Origin": "http://evil.example"}, verb, path)).status == 403
    assert (await place.post(message("ping"), session)).status == 200


@pytest.mark.parametrize("name, value", [("Host", each) for each in OWN_HOSTS] + [("Origin", o) for o in OWN_ORIGINS])
async def test_this_machine_may_be_meant_and_may_ask(server: Place, name: str, value: str) -> None:
    assert (await server.post(modern("tools/call", ADD), {name: value})).text == "3"


async def test_other_hosts_and_origins_are_served_when_they_are_named(server: Place) -> None:
    names = {"allowed_hosts": ["Tools.Example"], "allowed_origins": ["https://App.Example/"]}
    async with serving(**names) as named:
        request = modern("tools/call", ADD)
        assert (await named.post(request, {"Host": "tools.example:443"})).text == "3"
        assert (await named.post(request, {"Host": "tools.example", "Origin": "https://app.example"})).text == "3"
        for wrong in (
            {"Host": "tools.example.evil.example"},
            {"Host": "tools.example", "Origin": "http://app.example"},  # another scheme is another origin
            {"Host": "tools.example", "Origin": "https://app.example:444"},
            {"Host": "tools.example", "Origin": "http://localhost:3000"},  # a page of the caller's own machine
        ):
            assert (await named.post(request, wrong)).status in (403, 421)
        assert named.ran["add"] == 2


# ---- headers -------------------------------------------------------------------------------------------------

MISMATCHES: dict[str, dict[str, Any]] = {
    "no version": {"Mcp-Protocol-Version": None},
    "another version": {"Mcp-Protocol-Version": LEGACY},
    "an empty version": {"Mcp-Protocol-Version": ""},
    "no method": {"Mcp-Method": None},
    "another method": {"Mcp-Method": "tools/list"},
    "the method in other letters": {"Mcp-Method": "Tools/Call"},
    "an empty method": {"Mcp-Method": ""},
    "two methods": {"Mcp-Method": "tools/call, tools/list"},
    "no name": {"Mcp-Name": None},
    "another name": {"Mcp-Name": "echo"},
    "the name in other letters": {"Mcp-Name": "ADD"},
    "an empty name": {"Mcp-Name": ""},
    "a broken sentinel": {"Mcp-Name": "=?base64?!!!?="},
    "another name in a sentinel": {"Mcp-Name": "=?base64?ZWNobw==?="},
    "bytes as a name": {"Mcp-Name": b"\xff\xfe"},
}


@pytest.mark.parametrize("wrong", MISMATCHES.values(), ids=MISMATCHES)
async def test_a_header_that_contradicts_the_body_or_is_missing_is_a_mismatch(place: Place, wrong: Any) -> None:
    answer = await place.post(modern("tools/call", ADD), wrong)
    assert (answer.status, answer.code, answer.json["id"]) == (400, -32020, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        *({}, {"Mcp-Param-Region": "north"}, {"Mcp-Param-Shard": "2"}),
        *({"Mcp-Param-Region": "south", "Mcp-Param-Shard": "2"}, {"Mcp-Param-Region": "north", "Mcp-Param-Shard": "3"}),
        *({"Mcp-Param-Region": "north", "Mcp-Param-Shard": value} for value in ("two", "", "2.5", "NaN", "2, 2")),
    ],
)
async def test_a_repeated_argument_that_differs_from_the_body_is_a_mismatch(place: Place, wrong: Any) -> None:
    answer = await place.post(modern("tools/call", call("route", {"region": "north", "shard": 2})), wrong)
    assert (answer.status, answer.code) == (400, -32020)


DOUBLED = [
    "Host",
    "Origin",
    "Authorization",
    "Mcp-Protocol-Version",
    "Mcp-Method",
    "Mcp-Name",
    "Content-Type",
    "Mcp-Param-X",
]


@pytest.mark.parametrize("name", DOUBLED)
@pytest.mark.parametrize("same", [True, False], ids=["the same", "another"])
async def test_a_header_that_decides_must_not_come_twice(place: Place, name: str, same: bool) -> None:
    own = {"Host": "127.0.0.1", "Origin": "http://127.0.0.1", "Content-Type": "application/json"}
    pairs = place.pairs({**modern_headers(modern("tools/call", ADD)), **own, name: own.get(name, "add")}, len(BODY))
    first = next(value for key, value in pairs if key == name)
    answer = await place.send(BODY, [*pairs, (name, first if same else "evil.example")])
    assert answer.status in (400, 403, 421)
    answer = await place.send(BODY, [(name, first if same else "evil.example"), *pairs])
    assert answer.status in (400, 403, 421)


@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE"])
async def test_a_request_in_the_name_of_two_sessions_is_refused(place: Place, verb: str) -> None:
    mine = await place.session()
    pairs = place.pairs(mine, len(BODY))
    for other in (mine["Mcp-Session-Id"], "another"):
        answer = await place.send(BODY, [*pairs, ("Mcp-Session-Id", other)], verb)
        assert answer.status == 400
        answer = await place.send(BODY, [("Mcp-Session-Id", other), *pairs], verb)
        assert answer.status == 400
    assert (await place.post(message("ping"), mine)).status == 200


@pytest.mark.parametrize("version", ["1999-01-01", "2026-07-29", "latest", "DRAFT-2026", "2025-11-25, 2026-07-28", "0"])
async def test_an_unsupported_version_is_refused_with_the_supported_ones(place: Place, version: str) -> None:
    answer = await place.post(modern("tools/call", ADD, version=version))
    assert (answer.status, answer.code) == (400, -32022)
    assert {MODERN, LEGACY} <= set(answer.error["data"]["supported"])
    assert answer.error["data"]["requested"] == version
    session = await place.session()
    answer = await place.post(message("tools/call", ADD), session | {"Mcp-Protocol-Version": version})
    assert (answer.status, answer.code) == (400, -32022)
    assert (await place.send(b"", session | {"Mcp-Protocol-Version": version}, "GET")).status == 400
    assert (await place.send(b"", session | {"Mcp-Protocol-Version": version}, "DELETE")).status == 400
    assert (await place.post(message("ping"), session)).status == 200


# ---- verbs and paths -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["PUT", "PATCH", "OPTIONS", "TRACE", "HEAD", "PROPFIND"])
async def test_other_verbs_are_not_allowed(place: Place, verb: str) -> None:
    line = await place.open(BODY, {**modern_headers(modern("tools/call", ADD)), "Connection": "close"}, verb)
    answer = await line.head()
    assert answer.status == 405
    assert answer.header("allow") == "POST, GET, DELETE"


@pytest.mark.parametrize("verb", ["GET", "DELETE"])
async def test_the_modern_era_has_neither_standing_streams_nor_sessions_to_end(place: Place, verb: str) -> None:
    session = await place.session()
    answer = await place.send(b"", session | {"Mcp-Protocol-Version": MODERN}, verb)
    assert answer.status == 405
    assert (await place.post(message("ping"), session)).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/mc",
        "/mcpx",
        "/MCP",
        "/mcp/x",
        "/mcp/..",
        "//mcp",
        "/x/mcp",
        "/mcp%2fx",
        "/mcp%00",
        "/mcp;x",
        "/.well-known/x",
    ],
)
async def test_elsewhere_there_is_nothing(place: Place, path: str) -> None:
    answer = await place.post(modern("tools/call", ADD), path=path)
    assert answer.status == 404


async def test_a_websocket_is_not_spoken(place: Place) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "eA==",
    }
    assert (await place.send(b"", upgrade, "GET")).status == 400


@pytest.mark.parametrize("accept", ["application/json", "text/html", "image/*"])
async def test_a_get_stream_requires_a_client_that_accepts_events(place: Place, accept: str) -> None:
    answer = await place.send(b"", await place.session() | {"Accept": accept}, "GET")
    assert answer.status == 406


# ---- sessions ------------------------------------------------------------------------------------------------

SAYINGS = [
    message("tools/call", ADD),
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 1, "result": {}},
]


@pytest.mark.parametrize("said", SAYINGS, ids=["request", "notification", "response"])
async def test_without_a_session_nothing_is_said(place: Place, said: Any) -> None:
    answer = await place.post(said)
    assert (answer.status, answer.code) == (400, -32600)
    for made_up in ("", "x", "0", "../..", "null", b"\xff\xfe", "A" * 10_000):
        assert (await place.post(said, {"Mcp-Session-Id": made_up})).status == 404
    for verb in ("GET", "DELETE"):
        assert (await place.send(b"", {}, verb)).status == 400
        assert (await place.send(b"", {"Mcp-Session-Id": "x"}, verb)).status == 404


async def test_an_ended_session_is_gone_for_good(place: Place) -> None:
    session = await place.session()
    assert (await place.send(b"", session, "DELETE")).status == 204
    for said in SAYINGS:
        assert (await place.post(said, session)).status == 404
    for verb in ("GET", "DELETE"):
        assert (await place.send(b"", session, verb)).status == 404


async def test_a_session_id_cannot_be_guessed_from_others(place: Place) -> None:
    ids = {(await place.session())["Mcp-Session-Id"] for _ in range(20)}
    assert len(ids) == 20
    assert all(len(id) >= 32 and id.isascii() and id.isprintable() for id in ids)
    heads = {id[:8] for id in ids} | {id[-8:] for id in ids}
    assert len(heads) == 40


@pytest.mark.parametrize(
    "place_said", ["0-1", "0-999", "1-0", "99-1", "x", "", "0", "0-", "-", "-1-1", "1-1-1", "0-" + "9" * 35, "0-٣"]
)
async def test_what_was_never_said_cannot_be_resumed(place: Place, place_said: str) -> None:
    session = await place.session()
    answer = await place.send(b"", session | {"Last-Event-ID": place_said.encode()}, "GET")
    assert answer.status == 400
    assert (await place.post(message("ping"), session)).status == 200


async def test_a_session_cannot_resume_the_stream_of_another(server: Place) -> None:
    mine, other = await server.session(), await server.session()
    server.tools.release.clear()
    line = await server.begin(message("tools/call", call("talk")), mine)
    await line.head()
    event = await line.event()
    answer = await server.send(b"", other | {"Last-Event-ID": event["id"]}, "GET")
    assert answer.status == 400
    server.tools.release.set()
    assert [each.get("id") for each in await line.messages()] == [1]
