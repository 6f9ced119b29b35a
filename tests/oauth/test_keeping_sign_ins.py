"""Sign-ins are kept while programs exit, servers fail, and other processes and tasks change them."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.oauth.authorization_server import AuthorizationServer
from tests.oauth.person import agree

BOUND = 30.0
PUBLIC = ("initialize", "notifications/initialized")

LEFT_OPEN = """
import sys, toolcrib as tc
from toolcrib.sync import Client
client = Client(sys.argv[1], auth=tc.OAuth(interact=None, store=tc.FileTokenStore(sys.argv[2])))
client.__enter__()
print("connected", flush=True)
sys.stdin.readline()
try:
    client.call_tool("whoami", {}, timeout=0.5)
except tc.CallTimeout:
    print("leaving", flush=True)
"""


class Person:
    """Agrees, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self, url: str) -> str:
        self.asked += 1
        return await agree(url)


async def connect_and_call(server: AuthorizationServer, auth: Any, **options: Any) -> str:
    async with tc.Client(server.url, auth=auth, **options) as client:
        return (await client.call_tool("whoami")).text


async def let_expire_soon(store: tc.TokenStore, url: str) -> None:
    """Change the stored token so that it is renewed in the background at its next use."""
    stored = json.loads(await store.load(url) or "")
    stored["token_sets"][0] |= {"obtained_at": time.time() - 3000, "expires_at": time.time() + 50}
    await store.save(url, json.dumps(stored))


# ---- programs that end -------------------------------------------------------------------------------------------


async def test_a_program_that_exits_during_a_renewal_stores_the_new_tokens(tmp_path: Path) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens")
    async with asyncio.timeout(BOUND), AuthorizationServer() as server:
        await connect_and_call(server, tc.OAuth(interact=agree, store=store))
        command = (sys.executable, "-c", LEFT_OPEN, server.url, str(store.folder))
        program = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        assert program.stdin is not None and program.stdout is not None
        assert await program.stdout.readline() == b"connected\n"
        server.expire_tokens()
        gate = server.hold("token-after")
        program.stdin.write(b"\n")
        assert await program.stdout.readline() == b"leaving\n"
        gate.open()
        assert await program.wait() == 0

        assert await connect_and_call(server, tc.OAuth(interact=None, store=store)) == "alice"
        assert set(server.presentations.values()) == {1}


async def test_a_session_that_is_closed_starts_no_renewal() -> None:
    async with asyncio.timeout(BOUND), AuthorizationServer() as server:
        auth = tc.OAuth(interact=agree, store=tc.MemoryTokenStore())
        async with tc.Client(server.url, auth=auth, mode="legacy") as client:
            await client.call_tool("whoami")
            account, now = auth._account(server.url), time.time()
            assert account.tokens is not None
            account.tokens = replace(account.tokens, obtained_at=now - 3000, expires_at=now + 50)
            server.hold("token")
        assert server.counters["token"] == 1
        assert server.seen("mcp")[-1].method == "DELETE"


# ---- servers that fail -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_background", [False, True], ids=["a refused token", "a token that expires soon"])
async def test_a_401_without_an_oauth_error_keeps_the_tokens(is_background: bool) -> None:
    store = tc.MemoryTokenStore()
    async with asyncio.timeout(BOUND), AuthorizationServer() as server:
        await connect_and_call(server, tc.OAuth(interact=agree, store=store))
        if is_background:
            await let_expire_soon(store, server.url)
        else:
            server.expire_tokens()
        server.fail_next("token", status=401)  # of a proxy before the authorisation server
        silent = tc.OAuth(interact=None, store=store)
        if is_background:
            assert await connect_and_call(server, silent) == "alice"
        else:
            with pytest.raises(tc.AuthError, match="a person must sign in"):
                await connect_and_call(server, silent)
        assert await connect_and_call(server, silent) == "alice"
        assert server.counters["authorize"] == server.counters["register"] == 1


async def test_a_refusal_in_the_background_leaves_the_token_that_is_still_valid() -> None:
    store, person = tc.MemoryTokenStore(), Person()
    async with asyncio.timeout(BOUND), AuthorizationServer() as server:
        await connect_and_call(server, tc.OAuth(interact=person, store=store))
        await let_expire_soon(store, server.url)
        server.fail_next("token", times=9, status=400, error="invalid_grant")
        async with tc.Client(server.url, auth=tc.OAuth(interact=None, store=store)) as client:
            while not server.seen("token")[-1].params.get("refresh_token"):
                await client.call_tool("whoami")
            for _ in range(5):
                await client.call_tool("whoami")
        assert server.counters["token"] == 2
        assert "refresh_token" not in (await store.load(server.url) or "")


async def test_an_outage_of_the_authorisation_server_does_not_end_the_session() -> None:
    person = Person()
    async with asyncio.timeout(BOUND), AuthorizationServer() as server:
        states: list[str] = []
        auth = tc.OAuth(interact=person, store=tc.MemoryTokenStore())
        async with tc.Client(server.url, auth=auth, mode="legacy") as client:
            client.on(tc.events.Event, lambda event: states.append(type(event).__name__))
            await client.call_tool("whoami")
            server.expire_tokens()
            server.fail_next("token", times=3)
            server.end_streams()
            while server.counters["token"] < 1 + 3:  # the stream is opened again, as far as that goes
                await asyncio.sleep(0.01)
            assert (await client.call_tool("whoami")).text == "alice"
        assert "Disconnected" not in states[:-1]
        opened = [each for each in server.seen("mcp") if each.params.get("method") == "initialize"]
        assert len(opened) == 2  # the first one was not authorised


async def test_a_server_that_rejects_only_the_optional_stream_asks_nobody_again() -> None:
    person = Person()
    async with asyncio.timeout(BOUND), AuthorizationServer(rejects_streams=True) as server:
        auth = tc.OAuth(interact=person, store=tc.MemoryTokenStore())
        for _ in range(3):
            assert await connect_and_call(server, auth, mode="legacy") == "alice"
        assert any(each.method == "GET" for each in server.seen("mcp"))
        assert person.asked == 1
        assert server.counters["token"] <= 1 + 3  # each stream renews the token once


async def test_the_stream_of_a_server_that_checks_no_token_before_it_is_opened_with_a_renewed_one() -> None:
    store = tc.MemoryTokenStore()
    async with asyncio.timeout(BOUND), AuthorizationServer(public_methods=PUBLIC) as server:
        await connect_and_call(server, tc.OAuth(interact=agree, store=store), mode="legacy")
        server.expire_tokens()
        async with tc.Client(server.url, auth=tc.OAuth(interact=None, store=store), mode="legacy") as client:
            await client.call_tool("whoami")
            streams = [each for each in server.seen("mcp") if each.method == "GET"]
            token = streams[-1].header("authorization")
            assert token == server.seen("mcp")[-1].header("authorization")  # the renewed one
        assert server.counters["authorize"] == 1


async def test_other_processes_renew_while_one_asks_whether_the_issuer_has_changed() -> None:
    store = tc.MemoryTokenStore()
    async with asyncio.timeout(BOUND), AuthorizationServer() as server:
        await connect_and_call(server, tc.OAuth(interact=agree, store=store))
        server.expire_tokens()
        server.fail_next("token")
        gate = server.hold("resource_metadata")
        slow = asyncio.create_task(connect_and_call(server, tc.OAuth(interact=None, store=store)))
        await gate.reached.wait()
        assert await connect_and_call(server, tc.OAuth(interact=None, store=store)) == "alice"
        gate.open()
        assert await slow == "alice"
        assert set(server.presentations.values()) == {1}


# ---- changes at the same time ------------------------------------------------------------------------------------


async def test_a_client_that_another_process_has_registered_meanwhile_stays() -> None:
    store = tc.MemoryTokenStore()
    async with asyncio.timeout(BOUND), AuthorizationServer() as server:
        await connect_and_call(server, tc.OAuth(interact=agree, store=store))
        gate = server.hold("resource_metadata")
        async with tc.Client(server.url, auth=tc.OAuth(interact=None, store=store)) as client:
            asking = asyncio.create_task(client.call_tool("write", {"text": "x"}))
            await gate.reached.wait()
            server.stop_holding("resource_metadata")
            other = tc.OAuth(interact=agree, store=store)
            await other.forget(server.url)
            await connect_and_call(server, other)
            gate.open()
            with pytest.raises(tc.AuthError):
                await asking
        server.expire_tokens()
        assert await connect_and_call(server, tc.OAuth(interact=None, store=store)) == "alice"


async def test_a_sign_in_of_another_process_is_used_though_it_has_no_more_scopes() -> None:
    store = tc.MemoryTokenStore()
    async with asyncio.timeout(BOUND), AuthorizationServer(write_always_refused=True) as server:
        scopes = ["mcp:read", "mcp:write"]
        await connect_and_call(server, tc.OAuth(interact=agree, store=store, scopes=scopes))
        async with tc.Client(server.url, auth=tc.OAuth(interact=None, store=store)) as client:
            with pytest.raises(tc.AuthError, match="names none that it does not have"):
                await client.call_tool("write", {"text": "x"})
            before = server.seen("mcp")[-1].header("authorization")
            # The permissions are corrected, and the person signs in again elsewhere.
            other = tc.MemoryTokenStore()
            await connect_and_call(server, tc.OAuth(interact=agree, store=other, scopes=scopes))
            await store.save(server.url, await other.load(server.url) or "")
            server.change(write_always_refused=False)
            server.fail_next("mcp", status=403, WWW_Authenticate='Bearer error="insufficient_scope", scope="mcp:write"')
            await client.call_tool("write", {"text": "x"})
            assert server.seen("mcp")[-1].header("authorization") != before


async def test_a_sign_in_that_is_forgotten_while_it_is_read_stays_forgotten() -> None:
    class SlowStore(tc.MemoryTokenStore):
        def __init__(self) -> None:
            super().__init__()
            self.reading, self.goes_on = asyncio.Event(), asyncio.Event()

        async def load(self, key: str) -> str | None:
            text = await super().load(key)
            task = asyncio.current_task()
            if task is not None and task.get_name() == "status":
                self.reading.set()
                await self.goes_on.wait()
            return text

    store, person = SlowStore(), Person()
    async with asyncio.timeout(BOUND), AuthorizationServer() as server:
        auth = tc.OAuth(interact=person, store=store)
        async with tc.Client(server.url, auth=auth) as client:
            await client.call_tool("whoami")
            status = asyncio.create_task(auth.status(server.url), name="status")
            await store.reading.wait()
            assert await auth.forget(server.url)
            store.goes_on.set()
            assert await status is None
            await client.call_tool("whoami")
        assert person.asked == 2


async def test_newer_tokens_stay_if_the_lock_of_a_store_does_not_work() -> None:
    class Unlocked(tc.MemoryTokenStore):
        def lock(self, key: str) -> Any:
            return super().lock(f"{key} {time.perf_counter_ns()}")

    store = Unlocked()
    async with asyncio.timeout(BOUND), AuthorizationServer() as server:
        await connect_and_call(server, tc.OAuth(interact=agree, store=store))
        server.revoke_all()
        gate = server.hold("token-after")
        slow = asyncio.create_task(connect_and_call(server, tc.OAuth(interact=None, store=store)))
        await gate.reached.wait()
        server.stop_holding("token-after")
        await connect_and_call(server, tc.OAuth(interact=agree, store=store))
        gate.open()  # the answer is invalid_grant
        assert await slow == "alice"
        assert await connect_and_call(server, tc.OAuth(interact=None, store=store)) == "alice"
        assert server.counters["authorize"] == 2


# ---- sign-ins that a program passes on ---------------------------------------------------------------------------


async def test_clients_that_need_a_sign_in_at_once_get_one_url() -> None:
    async with asyncio.timeout(BOUND), AuthorizationServer() as server:
        auth = tc.OAuth(interact=None, store=tc.MemoryTokenStore())
        outcomes = await asyncio.gather(*(connect_and_call(server, auth) for _ in range(3)), return_exceptions=True)
        urls = {each.authorization_url for each in outcomes if isinstance(each, tc.AuthError)}
        assert len(outcomes) == 3 and len(urls) == 1
        await auth.finish_sign_in(server.url, await agree(str(urls.pop())))
        assert await connect_and_call(server, auth) == "alice"


async def test_sign_ins_for_different_scopes_can_be_finished_in_any_order() -> None:
    async with asyncio.timeout(BOUND), AuthorizationServer() as server:
        auth = tc.OAuth(interact=None, store=tc.MemoryTokenStore())

        async def url_for(tool: str) -> str:
            with pytest.raises(tc.AuthError) as caught:
                async with tc.Client(server.url, auth=auth) as client:
                    await client.call_tool(tool, {"text": "x"})
            assert caught.value.authorization_url is not None
            return caught.value.authorization_url

        await auth.finish_sign_in(server.url, await agree(await url_for("echo")))
        first = await url_for("write")
        server.change(write_scope="mcp:admin")
        second = await url_for("write")
        assert (await auth.finish_sign_in(server.url, await agree(first))).scopes == ("mcp:read", "mcp:write")
        assert (await auth.finish_sign_in(server.url, await agree(second))).scopes == ("mcp:read", "mcp:admin")
        with pytest.raises(tc.UsageError):
            await auth.finish_sign_in(server.url, await agree(first))


# ---- errors ------------------------------------------------------------------------------------------------------


async def test_the_error_says_why_the_former_sign_in_has_ended() -> None:
    store = tc.MemoryTokenStore()
    async with asyncio.timeout(BOUND), AuthorizationServer() as server:
        await connect_and_call(server, tc.OAuth(interact=agree, store=store))
        server.revoke_all()
        auth = tc.OAuth(interact=None, store=store)
        with pytest.raises(tc.AuthError, match=r"the former sign-in has ended \(invalid_grant\): a person") as caught:
            await connect_and_call(server, auth)
        await auth.finish_sign_in(server.url, await agree(str(caught.value.authorization_url)))
        server.change(write_scope="mcp:read mcp:write")
        with pytest.raises(tc.AuthError, match="the token lacks mcp:write: a person"):
            async with tc.Client(server.url, auth=auth) as client:
                await client.call_tool("write", {"text": "x"})


async def test_an_error_that_did_not_end_the_sign_in_is_not_said_to_have_ended_it() -> None:
    async with asyncio.timeout(BOUND), AuthorizationServer() as server:
        auth = tc.OAuth(interact=agree, store=tc.MemoryTokenStore())
        async with tc.Client(server.url, auth=auth) as client:
            server.expire_tokens()
            server.fail_next("token", status=400, error="invalid_request")
            with pytest.raises(tc.AuthError, match="invalid_request"):
                await client.call_tool("whoami")
            account = auth._account(server.url)
            assert account.refresh_error == ""
            await client.call_tool("whoami")
            server.revoke_all()
            server.hold("authorize")
            calling = asyncio.create_task(client.call_tool("whoami"))
            while not account.refresh_error:
                await asyncio.sleep(0.005)
            calling.cancel()
            await asyncio.wait([calling])
        assert account.refresh_error == "invalid_grant"
        await auth.forget(server.url)
        assert account.refresh_error == ""


@pytest.mark.parametrize(
    "options, command",
    [
        ({}, "toolcrib auth login {url}"),
        ({"scopes": ["a", "b"]}, "toolcrib auth login {url} --scope a --scope b"),
        ({"client_id": "mine"}, None),
        ({"issuer": "{issuer}"}, None),
        ({"resource": None}, None),
        ({"account": "work"}, None),
        ({"store": tc.MemoryTokenStore()}, None),
    ],
    ids=str,
)
async def test_the_error_names_the_command_that_makes_a_sign_in_for_this_provider(
    options: dict[str, Any], command: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    async with asyncio.timeout(BOUND), AuthorizationServer(requires_resource=False) as server:
        server.add_client("mine", redirect_uris=("http://127.0.0.1:27465/callback",))
        given = {name: server.issuer if value == "{issuer}" else value for name, value in options.items()}
        with pytest.raises(tc.AuthError, match="a person must sign in") as caught:
            await connect_and_call(server, tc.OAuth(interact=None, **given))
        shown = str(caught.value)
        assert ("toolcrib auth login" in shown) == (command is not None)
        assert command is None or f"`{command.format(url=server.url)}`" in shown


async def test_a_missing_keyring_is_reported_before_a_person_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)  # as if it were not installed
    store, person = tc.FileTokenStore(tmp_path / "tokens", key="keyring"), Person()
    async with asyncio.timeout(BOUND), AuthorizationServer() as server:
        with pytest.raises(tc.ConfigError, match="keyring: expected to be installed"):
            await connect_and_call(server, tc.OAuth(interact=person, store=store))
        assert not server.counters["register"]
    assert person.asked == 0


async def test_a_store_that_fails_is_an_error_of_the_authorisation_without_secrets() -> None:
    class Vault(tc.MemoryTokenStore):
        async def load(self, key: str) -> str | None:
            raise RuntimeError("https://vault.example/read?token=CANARY")

    async with asyncio.timeout(BOUND), AuthorizationServer() as server:
        with pytest.raises(tc.AuthError, match="the authorisation failed: RuntimeError") as caught:
            await connect_and_call(server, tc.OAuth(interact=agree, store=Vault()))
        assert "CANARY" not in f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"


async def test_the_challenge_of_an_error_shows_no_token() -> None:
    async with asyncio.timeout(BOUND), AuthorizationServer() as server:
        store = tc.MemoryTokenStore()
        await connect_and_call(server, tc.OAuth(interact=agree, store=store))
        token = json.loads(await store.load(server.url) or "")["token_sets"][0]["access_token"]
        challenge = f'Bearer error="invalid_token", error_description="{token}"'
        server.fail_next("mcp", times=9, status=401, WWW_Authenticate=challenge)
        server.fail_next("token", times=9, status=400, error="invalid_grant")
        with pytest.raises(tc.AuthError) as caught:
            await connect_and_call(server, tc.OAuth(interact=None, store=store))
        assert "invalid_token" in str(caught.value.challenge)
        assert token not in str(caught.value.challenge)


@pytest.mark.parametrize("name", ["forget", "logout"])
async def test_what_cannot_be_removed_is_an_error(name: str, tmp_path: Path) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens")
    url = "https://tools.example.com/mcp"
    await store.save(url, "{}")
    store.folder.chmod(0o755)
    with pytest.raises(tc.ConfigError, match="chmod 700"):
        await getattr(tc.OAuth(store=store), name)(url)
    assert list(store.folder.glob("*.json"))


async def test_what_cannot_be_read_is_forgotten_and_said_to_be_not_revoked(tmp_path: Path) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens")
    url = "https://tools.example.com/mcp"
    for name in ("forget", "logout"):
        await store.save(url, "{}")
        next(store.folder.glob("*.json")).write_text("damaged")
        auth = tc.OAuth(store=store)
        if name == "forget":
            assert await auth.forget(url)
        else:
            with pytest.raises(tc.AuthError, match="could not be read; its tokens were not revoked"):
                await auth.logout(url)
        assert not list(store.folder.glob("*.json"))
