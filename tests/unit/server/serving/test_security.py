"""Access checks: hosts, origins, credentials."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import pytest

from toolcrib.errors import AuthError, ConnectError
from toolcrib.server.serving import security
from toolcrib.server.serving.asgi import Refused
from toolcrib.server.serving.security import RequestGuard, ends_with_credentials

OPEN = RequestGuard()


async def admitted(guard: RequestGuard, host: Any = "localhost", origin: Any = None, **headers: str) -> Any:
    said = {"host": host, "origin": origin, **headers}
    coded = {name: value.encode("latin-1") if isinstance(value, str) else value for name, value in said.items()}
    return await guard.admit({name.encode(): value for name, value in coded.items() if value is not None})


async def refused(guard: RequestGuard, *args: Any, **options: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        await admitted(guard, *args, **options)
    return caught.value


# ---- hosts and origins ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:65535", "[::1]", "[::1]:8000"])
@pytest.mark.parametrize(
    "origin", [None, "", "http://localhost", "https://127.0.0.1:3000", "http://[::1]:9", "HTTP://LocalHost"]
)
async def test_this_machine_may_be_meant_and_its_pages_may_ask(host: str, origin: str | None) -> None:
    assert await admitted(OPEN, host, origin) is None


@pytest.mark.parametrize(
    "host",
    [
        *(
            None,
            "",
            "evil.example",
            "localhost.evil.example",
            "::1",
            "[::1",
            "[::1]evil",
            "evil@localhost",
            "localhost:",
        ),
        *(
            "localhost:80:80",
            "localhost:123456",
            "localhost/x",
            "localhost\n",
            "localhost ",
            "127.1",
            "0.0.0.0",
            b"\xff",
        ),
    ],
    ids=repr,
)
async def test_another_host_is_misdirected(host: Any) -> None:
    assert (await refused(OPEN, host)).status == 421


@pytest.mark.parametrize(
    "origin",
    [
        *(
            "null",
            "http://evil.example",
            "http://localhost.evil.example",
            "http://evil@localhost",
            "localhost",
            "//localhost",
        ),
        *(
            "file://localhost",
            "http://localhost/",
            "http://localhost\n",
            "xhttp://localhost",
            "http://localhost:x",
            b"\xff",
        ),
    ],
    ids=repr,
)
async def test_a_page_of_another_origin_may_not_ask(origin: Any) -> None:
    assert (await refused(OPEN, "localhost", origin)).status == 403


async def test_hosts_that_are_named_are_served_besides_this_machine_whatever_their_case_and_port() -> None:
    guard = RequestGuard(hosts=["Tools.Example", "[FD00::1]"])
    for host in ("tools.example", "TOOLS.EXAMPLE:8443", "[fd00::1]:80", "localhost"):
        assert await admitted(guard, host) is None
    for host in ("x.tools.example", "tools.example.evil", "fd00::1"):
        assert (await refused(guard, host)).status == 421


async def test_a_page_of_this_machine_may_not_ask_a_host_that_is_another() -> None:
    guard = RequestGuard(hosts=["tools.example"])
    assert (await refused(guard, "tools.example", "http://localhost")).status == 403
    assert (await refused(guard, "tools.example", "http://tools.example")).status == 403
    assert await admitted(guard, "localhost", "http://localhost") is None


async def test_origins_that_are_named_may_ask_exactly_as_they_are_named() -> None:
    guard = RequestGuard(hosts=["tools.example"], origins=["https://App.Example:8443/"])
    for host in ("tools.example", "localhost"):
        assert await admitted(guard, host, "https://app.example:8443") is None
        for other in ("https://app.example", "http://app.example:8443", "https://app.example:8443.evil"):
            assert (await refused(guard, host, other)).status == 403
    assert (await refused(guard, "evil.example", "https://app.example:8443")).status == 421


async def test_any_host_and_any_origin_can_be_named_each_for_itself() -> None:
    assert await admitted(RequestGuard(hosts=["*"]), "whoever.example") is None
    assert await admitted(RequestGuard(hosts=["*"]), None) is None
    assert (await refused(RequestGuard(hosts=["*"]), "whoever.example", "http://evil.example")).status == 403
    assert await admitted(RequestGuard(origins=["*"]), "localhost", "null") is None
    assert (await refused(RequestGuard(origins=["*"]), "evil.example", "null")).status == 421


async def test_a_pair_that_was_admitted_is_remembered_one_that_was_refused_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(security, "MAX_REMEMBERED", 3)
    guarding = RequestGuard()
    for port in range(10):
        for _ in range(2):
            assert await admitted(guarding, f"localhost:{port}", "http://localhost") is None
            assert (await refused(guarding, f"localhost:{port}", "http://evil.example")).status == 403
            assert (await refused(guarding, f"evil.example:{port}", "http://localhost")).status == 421
    assert guarding._seen == {(b"localhost:%d" % port, b"http://localhost") for port in range(3)}


# ---- credentials ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("principal", ["alice", "", 0, True, (), {"sub": "alice"}, ["alice"]], ids=repr)
async def test_the_return_value_of_the_hook_is_the_principal(principal: Any) -> None:
    async def later(headers: Any) -> Any:
        return principal

    for hook in (lambda headers: principal, later):
        assert await admitted(RequestGuard(auth=hook)) is principal


async def test_the_hook_reads_every_header_by_its_name_in_lower_case() -> None:
    seen: list[Any] = []
    await admitted(RequestGuard(auth=lambda headers: seen.append(headers) or "me"), authorization="Bearer \xe9")
    assert seen == [{"host": "localhost", "authorization": "Bearer \xe9"}]


async def test_the_hook_is_asked_each_time_and_only_after_host_and_origin() -> None:
    asked: list[Any] = []
    guard = RequestGuard(auth=lambda headers: asked.append(headers) or "me")
    assert (await refused(guard, "evil.example")).status == 421
    assert (await refused(guard, "localhost", "http://evil.example")).status == 403
    assert asked == []
    for _ in range(3):
        await admitted(guard)
    assert len(asked) == 3


@pytest.mark.parametrize("nobody", [None, False])
async def test_a_request_without_a_principal_gets_a_challenge(nobody: Any) -> None:
    said = await refused(RequestGuard(auth=lambda headers: nobody))
    assert (said.status, said.headers) == (401, ((b"www-authenticate", b"Bearer"),))


@pytest.mark.parametrize(
    "raised, status, challenge",
    [
        (AuthError("gone"), 401, b"Bearer"),
        (AuthError("gone", status=401, challenge='Bearer scope="x"'), 401, b'Bearer scope="x"'),
        (AuthError("gone", status=403), 403, None),
        (AuthError("gone", status=403, challenge="Basic"), 403, b"Basic"),
        (AuthError("gone", status=200), 401, b"Bearer"),
        (AuthError("gone", status=400), 400, None),
        (AuthError("gone", challenge="Bearer\r\nset-cookie: a=b"), 401, None),
        (AuthError("gone", challenge="Bearer é"), 401, None),
    ],
)
async def test_the_hook_may_say_why_and_how_to_come_again(
    raised: AuthError, status: int, challenge: bytes | None
) -> None:
    async def hook(headers: Any) -> Any:
        raise raised

    said = await refused(RequestGuard(auth=hook))
    assert (said.status, str(said)) == (status, "gone")
    assert said.headers == (() if challenge is None else ((b"www-authenticate", challenge),))


@pytest.mark.parametrize(
    "raised", [KeyError("authorization"), ValueError("4711"), UnicodeDecodeError("x", b"", 0, 1, "4711")]
)
async def test_unreadable_credentials_are_rejected(raised: Exception, caplog: pytest.LogCaptureFixture) -> None:
    def hook(headers: Any) -> Any:
        raise raised

    said = await refused(RequestGuard(auth=hook))
    assert (said.status, str(said)) == (401, "missing or invalid credentials")
    assert caplog.messages == []


async def test_a_hook_that_fails_is_an_internal_error_and_rejects_the_request(caplog: pytest.LogCaptureFixture) -> None:
    def hook(headers: Any) -> Any:
        raise OSError("db://user:4711@host")

    said = await refused(RequestGuard(auth=hook))
    assert said.status == 500
    assert "4711" not in str(said)
    assert caplog.messages == ["the auth hook failed; the request was rejected"]


# ---- hooks that publish documents ------------------------------------------------------------------------------------


async def test_a_hook_that_cannot_decide_now_is_answered_with_later() -> None:
    def hook(_: Any) -> Any:
        raise ConnectError("the directory at 10.0.0.7 does not answer")

    answer = await refused(RequestGuard(auth=hook))
    assert answer.status == 503
    assert answer.headers == ((b"retry-after", b"5"),)
    assert "10.0.0.7" not in str(answer)


class Publishing:
    def __init__(self) -> None:
        self.documents = {"/.well-known/x": b"{}"}

    def __call__(self, headers: Any) -> str:
        return "ada"

    def check_query(self, query: bytes) -> None:
        if b"key" in query:
            raise AuthError("key", status=400)

    def check_calls(self, principal: Any, tools: Any) -> None:
        if "delete" in tools:
            raise AuthError(f"{principal} must not delete", status=403)


async def test_a_hook_may_publish_documents_and_check_queries_and_calls() -> None:
    guard = RequestGuard(auth=Publishing())
    local = {b"host": b"localhost"}
    sent: list[Any] = []

    async def send(event: Any) -> None:
        sent.append(event)

    document = {"method": "GET", "path": "/prefix/.well-known/x", "root_path": "/prefix"}
    assert await guard.answer_public(document, local, send)
    assert sent[0]["status"] == 200 and sent[1]["body"] == b"{}"
    assert not await guard.answer_public({"method": "GET", "path": "/mcp"}, local, send)
    assert not await guard.answer_public({"method": "POST", "path": "/.well-known/x"}, local, send)
    assert not await OPEN.answer_public(document, local, send)
    with pytest.raises(Refused) as caught:
        await guard.answer_public(document, {b"host": b"evil.example"}, send)
    assert caught.value.status == 421
    assert await guard.admit(local, b"a=1") == "ada"
    with pytest.raises(Refused) as caught:
        await guard.admit(local, b"key=1")
    assert caught.value.status == 400
    for name in ("read", None):
        guard.check_calls({"id": 1, "method": "tools/call", "params": {"name": name}}, "ada")
    for message in ({"method": "prompts/get", "params": {"name": "delete"}}, {"method": "tools/call"}, [], None):
        guard.check_calls(message, "ada")
    delete = {"id": 1, "method": "tools/call", "params": {"name": "delete"}}
    for message, id in ((delete, 1), ([{"id": 2, "method": "ping"}, delete], None), ({**delete, "id": []}, None)):
        with pytest.raises(Refused) as caught:
            guard.check_calls(message, "ada")
        assert (caught.value.status, caught.value.id) == (403, id)
    OPEN.check_calls(delete, None)


# ---- credentials that expire ---------------------------------------------------------------------------------


class Expiring:
    def __init__(self, expires_at: Any) -> None:
        self.expires_at = expires_at


async def ends(principal: Any, within: float) -> bool:
    """Return whether a stream of this principal ends within some seconds."""
    ended = asyncio.Event()
    with ends_with_credentials(principal, ended.set), contextlib.suppress(TimeoutError):
        await asyncio.wait_for(ended.wait(), within)
    return ended.is_set()


async def test_a_stream_ends_when_the_credentials_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    assert security.MIN_STREAM_SECONDS == 5.0
    assert not await ends(Expiring(time.time() - 100), 0.05)  # it has some seconds at least
    monkeypatch.setattr(security, "MIN_STREAM_SECONDS", 0.0)
    assert await ends(Expiring(time.time() - 100), 10)
    assert await ends(Expiring(time.time() + 0.05), 10)
    assert not await ends(Expiring(time.time() + 600), 0.05)


@pytest.mark.parametrize(
    "principal",
    ["ann", None, Expiring(None), Expiring(True), Expiring("1")],
    ids=["a name", "none", "unknown", "true", "a text"],
)
async def test_a_stream_of_credentials_without_an_expiry_stays(principal: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "MIN_STREAM_SECONDS", 0.0)
    assert not await ends(principal, 0.05)


async def test_a_stream_that_ended_before_is_not_ended_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "MIN_STREAM_SECONDS", 0.01)
    ended: list[str] = []
    with ends_with_credentials(Expiring(0), lambda: ended.append("first")):
        pass
    assert await ends(Expiring(time.time() + 0.05), 10)
    assert ended == []
