"""Authentication: the hook decides before anything else is read, and a principal's state is not available to others."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import logging
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.kit import eventually
from tests.faults.server_kit import Place, Tools, serving
from tests.faults.server_wire import ACCEPTED, call, message, modern
from tests.faults.test_server_parked import come_again, parked, refused
from tests.serving import served

ADD = call("add", {"a": 1, "b": 2})
SECRET = "canary-7f3a91"
ALICE, BOB = {"Authorization": f"Bearer alice-{SECRET}"}, {"Authorization": f"Bearer bob-{SECRET}"}


def by_token(headers: Mapping[str, str]) -> str | None:
    kind, _, token = headers.get("authorization", "").partition(" ")
    name, _, secret = token.partition("-")
    return name if kind == "Bearer" and secret == SECRET else None


async def by_token_later(headers: Mapping[str, str]) -> str | None:
    await asyncio.sleep(0)
    return by_token(headers)


class Desk:
    """A hook that is an object with a method."""

    async def __call__(self, headers: Mapping[str, str]) -> str | None:
        return by_token(headers)


HOOKS = {"a function": by_token, "a coroutine function": by_token_later, "an object": Desk()}
BAD = [None, "", "Bearer", "Bearer ", "Bearer alice", f"Basic alice-{SECRET}", f"bearer alice-{SECRET}x", b"\xff\xfe"]


@pytest.mark.parametrize("hook", HOOKS.values(), ids=HOOKS)
async def test_the_principal_of_the_hook_reaches_the_tool(hook: Any, era: str) -> None:
    async with serving(auth=hook) as place:
        for who, name in ((ALICE, "alice"), (BOB, "bob")):
            if era == "modern":
                answer = await place.post(modern("tools/call", call("who")), who)
            else:
                answer = await place.post(
                    message("tools/call", call("who")), {**await place.session(headers=who), **who}
                )
            assert answer.text == repr(name)
        assert place.tools.seen == ["alice", "bob"]


@pytest.mark.parametrize("hook", HOOKS.values(), ids=HOOKS)
async def test_without_credentials_every_route_is_401_with_a_challenge(hook: Any) -> None:
    async with serving(auth=hook) as place:
        for verb, path, wrong in product(("POST", "GET", "DELETE", "PUT"), ("/mcp", "/nowhere"), BAD):
            answer = await place.send(b"{}" if verb == "POST" else b"", {"Authorization": wrong}, verb, path)
            assert answer.status == 401, (verb, path, wrong)
            assert (answer.header("www-authenticate") or "").startswith("Bearer")
            assert SECRET.encode() not in answer.body
        assert not place.ran


class User:
    """Compared by identity."""

    def __init__(self, name: str) -> None:
        self.name = name


@dataclasses.dataclass
class EqualUser:
    """Compared by its name; cannot be hashed."""

    name: str


class Role(enum.Enum):
    ADMIN = 1


async def test_a_principal_that_is_never_equal_to_the_next_one_is_refused_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(auth=lambda headers: User("ada"), faults=True) as place:
        answer = await place.post(message("initialize", {"protocolVersion": "2025-11-25"}))
        assert (answer.status, place.sessions) == (500, 0)
        assert (await place.post(modern("tools/call", ADD))).status == 500
        assert not place.ran
    assert "the auth hook returned a User" in caplog.text
    assert "Return a str" in caplog.text


@pytest.mark.parametrize(
    "principal",
    [lambda: EqualUser("ada"), lambda: {"sub": "ada"}, lambda: ("ada", 1), lambda: Role.ADMIN, lambda: True],
)
async def test_a_principal_needs_only_be_equal_to_itself(principal: Any) -> None:
    async with serving(auth=lambda headers: principal()) as place:
        session = await place.session()
        assert (await place.post(message("tools/call", ADD), session)).text == "3"
        listening = await place.begin(modern("subscriptions/listen", {"notifications": {}}))
        assert (await listening.head()).status == 200


async def test_the_server_s_own_hook_is_used_without_being_named_again() -> None:
    async with serving(Tools(auth=by_token)) as place:
        assert (await place.post(modern("tools/call", ADD))).status == 401
        assert (await place.post(modern("tools/call", ADD), ALICE)).text == "3"


@pytest.mark.parametrize("status, expected", [(401, 401), (403, 403), (None, 401), (500, 401), (200, 401)])
async def test_a_hook_may_say_why_it_refuses(status: int | None, expected: int) -> None:
    def hook(headers: Mapping[str, str]) -> Any:
        raise tc.AuthError("this key has been withdrawn", status=status)

    async with serving(auth=hook) as place:
        answer = await place.post(modern("tools/call", ADD), ALICE)
        assert (answer.status, answer.error["message"]) == (expected, "this key has been withdrawn")
        assert (answer.header("www-authenticate") is not None) == (expected == 401)
        assert not place.ran


async def test_a_hook_may_give_the_challenge_itself() -> None:
    challenge = 'Bearer resource_metadata="https://tools.example/.well-known/oauth-protected-resource", scope="x"'

    def hook(headers: Mapping[str, str]) -> Any:
        raise tc.AuthError("not you", status=403, challenge=challenge)

    async with serving(auth=hook) as place:
        answer = await place.post(modern("tools/call", ADD))
        assert (answer.status, answer.header("www-authenticate")) == (403, challenge)


@pytest.mark.parametrize("kind", [RuntimeError, KeyError, TimeoutError, OSError, asyncio.CancelledError])
async def test_a_hook_that_breaks_rejects_requests_and_reveals_nothing(kind: type[BaseException]) -> None:
    def hook(headers: Mapping[str, str]) -> Any:
        raise kind(f"db://user:{SECRET}@host")

    async with serving(auth=hook, faults=True) as place:
        answer = await place.post(modern("tools/call", ADD), ALICE)
        assert answer.status in (401, 500, 503)
        assert SECRET.encode() not in answer.body
        assert b"Traceback" not in answer.body
        assert not place.ran


async def test_duplicate_credentials_are_rejected() -> None:
    async with serving(auth=by_token) as place:
        body = b"{}"
        pairs = place.pairs({}, len(body))
        for first, second in ((ALICE, BOB), (BOB, ALICE), ({"Authorization": "x"}, ALICE)):
            for verb in ("POST", "GET", "DELETE"):
                twice = [*pairs, *first.items(), *second.items()]
                assert (await place.send(body, twice, verb)).status in (400, 401)


@pytest.mark.parametrize("refusal", [None, False], ids=repr)
async def test_none_and_false_are_rejected(refusal: Any) -> None:
    async with serving(auth=lambda headers: refusal) as place:
        assert (await place.post(modern("tools/call", ADD), ALICE)).status == 401
        assert not place.ran


@pytest.mark.parametrize("principal", ["", 0, True, (), {"sub": "alice"}, ["alice"]], ids=repr)
async def test_any_other_principal_is_accepted(principal: Any) -> None:
    async with serving(auth=lambda headers: principal) as place:
        session = await place.session()
        assert (await place.post(message("tools/call", call("who")), session)).text == repr(principal)
        state = await parked(place)
        assert (await come_again(place, state)).status == 200


# ---- state of one principal ----------------------------------------------------------------------------------


async def test_a_stolen_session_id_does_not_exist_for_the_thief() -> None:
    async with serving(auth=by_token) as place:
        session = await place.session(headers=ALICE)
        mine, stolen = {**session, **ALICE}, {**session, **BOB}
        line = await place.begin(message("tools/call", call("ask"), 9), mine)
        await line.head()
        event = await line.event()
        answer_of_bob = {"jsonrpc": "2.0", "id": 1, "result": ACCEPTED}
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}
        for said in (message("tools/call", ADD), message("ping"), answer_of_bob, cancel):
            answer = await place.post(said, stolen)
            assert answer.status == 404
        for verb in ("GET", "DELETE"):
            assert (await place.send(b"", stolen, verb)).status == 404
        assert (await place.send(b"", {**stolen, "Last-Event-ID": event["id"]}, "GET")).status == 404
        assert (await place.post(message("ping"), session)).status == 401  # no principal
        assert place.ran == {"ask": 1}
        assert (await place.post(answer_of_bob, mine)).status == 202
        (last,) = await line.messages()
        assert last["result"]["content"][0]["text"] == "alice said accept"


async def test_answers_to_another_principal_do_not_reveal_whether_a_session_exists() -> None:
    async with serving(auth=by_token) as place:
        session = await place.session(headers=ALICE)
        known = await place.post(message("ping"), {**session, **BOB})
        unknown = await place.post(message("ping"), {**session, **BOB, "Mcp-Session-Id": "made-up"})
        assert (known.status, known.body) == (unknown.status, unknown.body)


async def test_a_state_of_another_principal_finds_nothing() -> None:
    async with serving(auth=by_token) as place:
        state = await parked(place, headers=ALICE)
        stolen = await come_again(place, state, headers=BOB)
        assert refused(stolen)
        assert stolen.body == (await come_again(place, "made-up", headers=BOB)).body
        assert place.ran == {"ask": 1}
        assert (await come_again(place, state, headers=ALICE)).text == "alice said accept"


async def test_a_stolen_stream_of_http_sse_does_not_exist_for_the_thief() -> None:
    tools = Tools()
    app = tools.server.asgi(transport="sse", path="/sse", auth=by_token)
    async with served(app) as url:
        place = Place(tools, app, url)
        line = await place.open(b"", ALICE, "GET", "/sse")
        await line.head()
        path = (await line.event())["data"]
        for who, status in ((BOB, 404), ({}, 401), (ALICE, 202)):
            answer = await place.post(message("ping"), who, path=path)
            assert answer.status == status
        for foreign, status in (({"Host": "evil.example"}, 421), ({"Origin": "http://evil.example"}, 403)):
            assert (await place.post(message("ping"), {**ALICE, **foreign}, path=path)).status == status
            assert (await place.send(b"", {**ALICE, **foreign}, "GET", "/sse")).status == status
        assert '"result":{}' in (await line.event())["data"]
        line.cut()
        await eventually(lambda: len(app) == 0)
        assert (await place.post(message("ping"), ALICE, path=path)).status == 404


# ---- secrets -------------------------------------------------------------------------------------------------


async def test_no_header_value_is_ever_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "toolcrib")
    logging.getLogger("uvicorn.error").addHandler(caplog.handler)
    hot = {**ALICE, "X-Api-Key": f"key-{SECRET}", "Cookie": f"session={SECRET}", "Mcp-Param-Token": SECRET}

    class Failing(Tools):
        async def wait(self) -> str:
            raise RuntimeError("broken")

        async def who(self, ctx: tc.Context) -> str:
            raise RuntimeError("broken too")

    try:
        async with serving(Failing(), auth=by_token, faults=True) as place:
            session = await place.session(headers=hot)
            for tool in ("wait", "who", "add", "nothing"):
                await place.post(modern("tools/call", call(tool)), hot)
                await place.post(message("tools/call", call(tool)), {**session, **hot})
            await place.send(b"{", hot)
            await place.post(modern("tools/call", ADD), {**hot, "Mcp-Name": SECRET})
            await place.post(modern("tools/call", ADD), {**hot, "Host": f"{SECRET}.example"})
            await place.post(modern("tools/call", ADD), {**hot, "Origin": f"http://{SECRET}.example"})
            await place.post(modern("tools/call", ADD), {"Authorization": f"Bearer eve-{SECRET}x"})
            await place.post(message("ping"), {**hot, "Mcp-Session-Id": SECRET})
    finally:
        logging.getLogger("uvicorn.error").removeHandler(caplog.handler)
    assert "broken" in caplog.text
    assert SECRET not in caplog.text
    assert all(SECRET not in str(vars(record)) for record in caplog.records if record.name.startswith("toolcrib"))


async def test_beyond_loopback_no_client_is_served_without_auth_or_a_flag() -> None:
    server = Tools().server
    for host in ("0.0.0.0", "::", "192.0.2.1", "tools.example", ""):
        with pytest.raises(tc.ConfigError, match="allow_remote"):
            await server.run_async("http", host=host, port=0)
