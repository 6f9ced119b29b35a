"""`auth=` with our own providers: clients, hubs, the sync API, several event loops, settings; and what is loaded."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
import toolcrib.sync
from tests.oauth.authorization_server import AuthorizationServer
from tests.oauth.person import agree


def person(**given: Any) -> tc.OAuth:
    return tc.OAuth(**{"interact": agree, "store": tc.MemoryTokenStore(), **given})


async def test_one_provider_serves_several_clients_with_one_sign_in() -> None:
    async with AuthorizationServer() as server:
        auth = person()
        async with tc.Client(server.url, auth=auth) as first, tc.Client(server.url, auth=auth) as second:
            texts = [(await each.call_tool("echo", {"text": "hi"})).text for each in (first, second)]

    assert texts == ["hi", "hi"]
    assert server.counters["authorize"] == 1


async def test_clients_that_start_together_ask_the_person_once() -> None:
    async with AuthorizationServer() as server:
        auth = person()

        async def call() -> str:
            async with tc.Client(server.url, auth=auth) as client:
                return (await client.call_tool("echo", {"text": "hi"})).text

        assert await asyncio.gather(*(call() for _ in range(5))) == ["hi"] * 5

    assert server.counters["authorize"] == 1


async def test_one_provider_serves_several_event_loops() -> None:
    async with AuthorizationServer() as server:
        auth = person()

        def call() -> str:
            with toolcrib.sync.Client(server.url, auth=auth) as client:
                return client.call_tool("echo", {"text": "hi"}).text

        assert await asyncio.gather(*(asyncio.to_thread(call) for _ in range(3))) == ["hi"] * 3

    assert server.counters["authorize"] == 1


async def test_accounts_at_one_server_keep_their_own_tokens_in_one_store() -> None:
    store = tc.MemoryTokenStore()
    async with AuthorizationServer() as server:

        async def whoami(account: str, **given: Any) -> str:
            async with tc.Client(server.url, auth=person(account=account, store=store, **given)) as client:
                return (await client.call_tool("whoami")).text

        for name in ("ann", "bob"):
            server.change(subject=name)
            assert await whoami(name) == name
        for name in ("ann", "bob"):
            assert await whoami(name, interact=None) == name

    assert server.counters["authorize"] == 2


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_sign_in_works_in_both_eras(mode: str) -> None:
    async with AuthorizationServer() as server, tc.Client(server.url, auth=person(), mode=mode) as client:
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
        assert [tool.name for tool in await client.list_tools()] == ["echo", "whoami", "write"]

    assert server.counters["authorize"] == 1


async def test_a_hub_takes_a_provider_for_each_server() -> None:
    async with AuthorizationServer(subject="ann") as one, AuthorizationServer(subject="bob") as two:
        servers = {
            "one": (tc.HttpServer(one.url), {"auth": person()}),
            "two": (tc.HttpServer(two.url), {"auth": person()}),
        }
        async with tc.Hub(servers) as hub:
            answers = [(await hub.call_tool(f"mcp__{name}__whoami")).text for name in servers]

    assert "ann" in answers[0] and "bob" in answers[1]


async def test_the_extension_of_a_provider_is_declared() -> None:
    async with AuthorizationServer() as server:
        server.add_client("ci", "client_secret_basic", secret="secret")
        auth = tc.ClientCredentials(issuer=server.issuer, client_id="ci", client_secret="secret")
        async with tc.Client(server.url, auth=auth, mode="legacy"):
            pass

    (start,) = [each for each in server.seen("mcp") if each.params.get("method") == "initialize"][-1:]
    assert start.params["params"]["capabilities"]["extensions"] == {
        "io.modelcontextprotocol/oauth-client-credentials": {}
    }


async def test_in_the_modern_era_each_request_declares_the_extension() -> None:
    async with AuthorizationServer() as server:
        server.add_client("ci", "client_secret_basic", secret="secret")
        auth = tc.ClientCredentials(issuer=server.issuer, client_id="ci", client_secret="secret")
        async with tc.Client(server.url, auth=auth, mode="2026-07-28") as client:
            await client.call_tool("whoami")

    declared = [
        each.params["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"]
        for each in server.seen("mcp")
        if "id" in each.params
    ]
    assert len(declared) >= 3
    assert all(each == {"io.modelcontextprotocol/oauth-client-credentials": {}} for each in declared)


@pytest.mark.parametrize(
    "provider, expected",
    [
        (tc.OAuth, ()),
        (tc.JwtBearer, ("io.modelcontextprotocol/auth/wif",)),
        (tc.CrossAppAccess, ("io.modelcontextprotocol/enterprise-managed-authorization",)),
    ],
)
def test_each_provider_names_its_extension(provider: Any, expected: tuple[str, ...]) -> None:
    assert provider.extensions == expected


async def test_without_a_provider_the_error_names_both_ways_to_sign_in() -> None:
    async with AuthorizationServer() as server:
        with pytest.raises(tc.AuthError, match=r"auth=toolcrib\.OAuth\(\).*`toolcrib auth login`") as caught:
            async with tc.Client(server.url):
                pass

    assert caught.value.status == 401 and caught.value.sent is False


async def test_the_settings_of_a_server_become_a_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("BROWSER", raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)
    async with AuthorizationServer() as server:
        config = tc.HttpServer(server.url, oauth={"client_id": "app", "scopes": ["mcp:write"]})
        with pytest.raises(tc.AuthError, match="a person must sign in") as caught:
            async with tc.Client(config):
                pass

    assert "client_id=app&" in str(caught.value.authorization_url)
    assert "scope=mcp%3Awrite" in str(caught.value.authorization_url)


async def test_a_sign_in_is_finished_by_the_program_that_got_the_url() -> None:
    async with AuthorizationServer() as server:
        auth = person(interact=None)
        with pytest.raises(tc.AuthError) as caught:
            async with tc.Client(server.url, auth=auth):
                pass
        url = caught.value.authorization_url
        assert url is not None
        status = await auth.finish_sign_in(server.url, await agree(url))
        async with tc.Client(server.url, auth=auth) as client:
            assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"

    assert status.issuer == server.issuer and status.can_renew and status.scopes == ("mcp:read",)


async def test_logging_out_authenticates_a_client_with_a_secret() -> None:
    async with AuthorizationServer() as server:
        server.add_client("app", "client_secret_basic", secret="s", redirect_uris=("http://127.0.0.1:27465/callback",))
        auth = person(client_id="app", client_secret="s")
        async with tc.Client(server.url, auth=auth):
            pass

        assert await auth.logout(server.url)

    assert {(each.header("authorization") or "")[:6] for each in server.seen("revoke")} == {"Basic "}
    assert all(family.is_revoked for family in server.families.values())


async def test_an_exception_of_the_programs_own_function_becomes_an_auth_error() -> None:
    def fail(_: str) -> str:
        raise KeyError("no window")

    async with AuthorizationServer() as server:
        with pytest.raises(tc.AuthError, match="the authorisation failed: KeyError: 'no window'") as caught:
            async with tc.Client(server.url, auth=person(interact=fail)):
                pass

    assert caught.value.status == 401 and caught.value.sent is False


class Proving:
    """A provider that adds the method and URL of each request, as proofs of possession have them."""

    extensions = ()
    rounds = 0
    max_renewals = 1

    def __init__(self, token: str) -> None:
        self._token = token

    def connect(self, *_: Any) -> Proving:
        return self

    def current(self, method: str, url: str, *, renew: bool = True) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}", "X-Proof": f"{method} {url}"}

    async def close(self) -> None:
        pass


async def test_a_provider_gets_the_method_and_url_of_each_request() -> None:
    async with (
        AuthorizationServer() as server,
        tc.Client(server.url, auth=Proving(server.issue_token()), mode="legacy") as client,
    ):
        await client.call_tool("echo", {"text": "hi"})
        await client.close()

    requests = server.seen("mcp")
    assert {each.method for each in requests} >= {"POST", "DELETE"}
    assert [each.header("x-proof") for each in requests] == [f"{each.method} {server.url}" for each in requests]


@pytest.mark.parametrize("value", [tc.OAuth, tc.ClientCredentials])
def test_a_class_in_place_of_a_provider_is_rejected(value: Any) -> None:
    with pytest.raises(
        tc.ConfigError, match=rf"auth: expected an object, such as {value.__name__}\(\), got a class"
    ) as caught:
        tc.Client("https://tools.example.com/mcp", auth=value)
    assert caught.value.key == "auth"


@pytest.mark.parametrize(
    "options, key",
    [
        ({"store": "tokens"}, "store"),
        ({"store": tc.FileTokenStore}, "store"),
        ({"store": tc.MemoryTokenStore}, "store"),
        ({"assume_pkce": "yes"}, "assume_pkce"),
        ({"client_id": 5}, "client_id"),
        ({"client_id": ""}, "client_id"),
        ({"client_id": "app", "client_secret": 5}, "client_secret"),
        ({"client_secret": "canary"}, "client_id"),
        ({"client_id": "app", "client_secret": "canary", "private_key": "canary"}, "client_secret"),
        ({"client_id": "app", "private_key": 5}, "private_key"),
        ({"client_name": 5}, "client_name"),
        ({"client_name": ""}, "client_name"),
        ({"client_metadata_url": 5}, "client_metadata_url"),
        ({"client_metadata_url": "http://app.example/client.json"}, "client_metadata_url"),
        ({"account": 5}, "account"),
        ({"account": None}, "account"),
        ({"account": "a\nb"}, "account"),
        ({"resource": 5}, "resource"),
        ({"resource": "canary"}, "resource"),
        ({"scopes": 5}, "scopes"),
        ({"scopes": ["read", "a b"]}, "scopes[1]"),
        ({"issuer": 5}, "issuer"),
        ({"issuer": "http://login.example"}, "issuer"),
        ({"redirect_uri": 5}, "redirect_uri"),
        ({"redirect_uri": "/callback"}, "redirect_uri"),
        ({"redirect_uri": "https://app.example/callback", "interact": "browser"}, "redirect_uri"),
        ({"redirect_uri": "http://localhost/callback", "interact": "browser"}, "redirect_uri"),
        ({"interact": 5}, "interact"),
    ],
    ids=str,
)
def test_wrong_options_of_a_sign_in_are_named_and_secrets_are_not_shown(options: dict[str, Any], key: str) -> None:
    with pytest.raises(tc.ConfigError) as caught:
        tc.OAuth(**options)
    assert caught.value.key == key
    assert key in str(caught.value)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("value", ["token", 7, object()])
def test_other_values_of_auth_are_rejected(value: Any) -> None:
    with pytest.raises(tc.ConfigError, match=r"auth: expected OAuth\(\)"):
        tc.Client("https://tools.example.com/mcp", auth=value)


# ---- what is loaded ------------------------------------------------------------------------------------------

LOADED = "import json, sys; print(json.dumps([m for m in sys.modules]))"


def loaded_by(code: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", f"{code}\n{LOADED}"], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_local_servers_load_nothing_of_oauth() -> None:
    found = loaded_by("import toolcrib; toolcrib.Client(toolcrib.StdioServer('true'))")

    assert not [name for name in found if name.startswith("toolcrib.oauth")]


def test_a_call_of_a_local_server_loads_nothing_of_oauth() -> None:
    server = (
        "import toolcrib\n"
        "server = toolcrib.ToolServer('local')\n"
        "@server.tool\n"
        "def double(number: int) -> int: return 2 * number\n"
        "server.run('stdio')"
    )
    found = loaded_by(
        "import asyncio, toolcrib as tc\n"
        "async def main():\n"
        f"    async with tc.Client(tc.StdioServer({sys.executable!r}, ['-c', {server!r}])) as client:\n"
        "        assert (await client.call_tool('double', {'number': 2})).text == '4'\n"
        "asyncio.run(main())"
    )

    assert not [name for name in found if name.startswith("toolcrib.oauth")]
    assert not found & {"cryptography", "joserfc", "keyring", "aiohttp"}


async def test_a_valid_token_loads_no_cryptography(tmp_path: Path) -> None:
    async with AuthorizationServer() as server:
        store = tc.FileTokenStore(tmp_path / "tokens")
        async with tc.Client(server.url, auth=person(store=store)):
            pass
        code = (
            "import asyncio, toolcrib as tc\n"
            "async def main():\n"
            f"    auth = tc.OAuth(interact=None, store=tc.FileTokenStore({str(tmp_path / 'tokens')!r}))\n"
            f"    async with tc.Client({server.url!r}, auth=auth) as client:\n"
            "        assert (await client.call_tool('echo', {'text': 'hi'})).text == 'hi'\n"
            "asyncio.run(main())"
        )
        found = await asyncio.to_thread(loaded_by, code)

    assert not found & {"cryptography", "joserfc", "keyring", "mcp"}
    assert server.counters["authorize"] == 1
