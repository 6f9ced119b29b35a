"""A person is asked to sign in: in a browser, with deadlines that stand still, and not again after a refusal."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shlex
import socket
import sys
import webbrowser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

import toolcrib as tc
from tests.oauth.authorization_server import AuthorizationServer
from tests.oauth.person import agree, agree_and_follow, query_of
from toolcrib.oauth import account, interaction

BOUND = 30.0
BROWSER = """
import json, sys, urllib.request
page = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[2], timeout=20)
text = json.dumps([page.status, page.headers["Cache-Control"], page.read().decode()])
open(sys.argv[1], "a").write(text + "\\n")
"""
"""A browser in the foreground: it follows the redirects of a URL, and writes down the last page."""


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


class Browser:
    """The command in `BROWSER`, and the pages that it has shown."""

    def __init__(self, folder: Path) -> None:
        self._script = folder / "browser.py"
        self._script.write_text(BROWSER)
        self._shown = folder / "pages"

    @property
    def command(self) -> str:
        """The value of `BROWSER`."""
        return shlex.join([sys.executable, str(self._script), str(self._shown)]) + " %s"

    @property
    def pages(self) -> list[list[Any]]:
        """Status, cache header and text of each page."""
        return [json.loads(line) for line in self._shown.read_text().splitlines()] if self._shown.exists() else []


@pytest.fixture
def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Browser:
    found = Browser(tmp_path)
    monkeypatch.setenv("BROWSER", found.command)
    # The standard library reads the variable once for each process.
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    monkeypatch.setattr(webbrowser, "_browsers", {})
    return found


class Person:
    """Answers when it is released, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.reached = asyncio.Event()
        self.released = asyncio.Event()

    async def __call__(self, url: str) -> str:
        self.asked += 1
        self.reached.set()
        await self.released.wait()
        return await agree(url)


def provider(interact: Any, **given: Any) -> tc.OAuth:
    return tc.OAuth(**{"interact": interact, "store": tc.MemoryTokenStore(), **given})


async def call(client: tc.Client, **options: Any) -> str:
    return (await client.call_tool("echo", {"text": "hi"}, **options)).text


async def connect_and_call(url: str, auth: tc.OAuth, **options: Any) -> str:
    async with tc.Client(url, auth=auth, **options) as client:
        return await call(client)


def redirects(server: AuthorizationServer) -> list[str]:
    return [str(each.params["redirect_uri"]) for each in server.seen("authorize")]


# ---- a browser -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interact", ["browser", "auto"])
async def test_a_browser_signs_in_and_shows_the_page_of_the_listener(browser: Browser, interact: str) -> None:
    async with AuthorizationServer(exact_redirects=True) as server, asyncio.timeout(BOUND):
        assert await connect_and_call(server.url, provider(interact)) == "hi"

    (redirect,) = redirects(server)
    assert redirect.startswith("http://127.0.0.1:") and urlsplit(redirect).port
    assert server.seen("register")[0].params["redirect_uris"] == [redirect]
    with pytest.raises(OSError):  # refused: nothing listens any more
        await asyncio.open_connection("127.0.0.1", urlsplit(redirect).port)


async def test_the_page_of_the_listener_is_complete_when_the_browser_gets_it(browser: Browser) -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        assert await connect_and_call(server.url, provider("browser")) == "hi"
        while not browser.pages:  # the browser writes it down after the answer has arrived
            await asyncio.sleep(0.01)

    ((status, cache, text),) = browser.pages
    assert (status, cache) == (200, "no-store")
    assert "You can close this page" in text
    assert not [code for code in server.codes if code in text]


async def test_a_browser_that_does_not_start_leaves_the_address_on_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        connecting = asyncio.create_task(connect_and_call(server.url, provider("browser")))
        shown = ""
        while "/authorize?" not in shown:
            await asyncio.sleep(0.01)
            shown += capsys.readouterr().err
        (url,) = [word for word in shown.split() if "/authorize?" in word]
        redirected_to = urlsplit(await agree(url))
        reader, writer = await asyncio.open_connection("127.0.0.1", redirected_to.port)
        writer.write(f"GET {redirected_to.path}?{redirected_to.query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        writer.close()
        assert await connecting == "hi"


@pytest.mark.usefixtures("browser")
async def test_the_port_of_a_registration_is_used_again_and_a_taken_port_leads_to_another_client() -> None:
    async with AuthorizationServer(exact_redirects=True, refresh_tokens="none") as server, asyncio.timeout(BOUND):
        store = tc.MemoryTokenStore()
        assert await connect_and_call(server.url, provider("browser", store=store)) == "hi"
        server.expire_tokens()
        assert await connect_and_call(server.url, provider("browser", store=store)) == "hi"
        first, second = redirects(server)
        assert first == second
        assert server.counters["register"] == 1

        server.expire_tokens()
        with socket.create_server(("127.0.0.1", urlsplit(first).port or 0)):
            assert await connect_and_call(server.url, provider("browser", store=store)) == "hi"

    third = redirects(server)[2]
    assert third != first
    assert [each.params["redirect_uris"] for each in server.seen("register")] == [[first], [third]]


@pytest.mark.usefixtures("browser")
async def test_a_redirect_uri_of_the_user_is_not_replaced_if_its_port_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        uri = f"http://127.0.0.1:{taken.getsockname()[1]}/callback"
        async with AuthorizationServer() as server, asyncio.timeout(BOUND):
            with pytest.raises(tc.AuthError, match=r"redirect_uri: the port of .* is in use"):
                await connect_and_call(server.url, provider("browser", redirect_uri=uri))

    assert server.counters["authorize"] == server.counters["register"] == 0


async def test_the_listener_is_closed_if_the_sign_in_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    opened: asyncio.Future[str] = loop.create_future()

    def show(url: str) -> bool:
        loop.call_soon_threadsafe(opened.set_result, url)
        return True

    monkeypatch.setattr(webbrowser, "open", show)
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        connecting = asyncio.create_task(connect_and_call(server.url, provider("browser")))
        port = urlsplit(query_of(await opened)["redirect_uri"]).port
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        with pytest.raises(OSError):  # refused: nothing listens any more
            await asyncio.open_connection("127.0.0.1", port)
    assert server.counters["token"] == 0


async def test_a_sign_in_that_is_not_completed_ends_after_five_minutes_and_frees_the_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert interaction.SIGN_IN_SECONDS == 300.0
    monkeypatch.setattr(interaction, "SIGN_IN_SECONDS", 0.05)
    monkeypatch.setattr(webbrowser, "open", lambda _: True)
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        with pytest.raises(tc.AuthError, match="the sign-in was not completed within"):
            await connect_and_call(server.url, provider("browser"))
        (redirect,) = server.seen("register")[0].params["redirect_uris"]
        with pytest.raises(OSError):  # refused: nothing listens any more
            await asyncio.open_connection("127.0.0.1", urlsplit(redirect).port)


@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
async def test_the_address_is_shown_too_at_a_terminal_in_case_the_browser_shows_nothing(
    kind: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = kind()
    monkeypatch.setattr(sys, "stderr", errors)
    monkeypatch.setattr(webbrowser, "open", lambda _: True)
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        connecting = asyncio.create_task(connect_and_call(server.url, provider("browser")))
        while not (server.counters["register"] and (kind is io.StringIO or "\n\n" in errors.getvalue())):
            await asyncio.sleep(0.005)
        if kind is Terminal:
            (url,) = re.findall("If it shows no page, open this address:\n\n  (.*)\n", errors.getvalue())
            await agree_and_follow(url)
            await connecting
        else:
            connecting.cancel()
            await asyncio.wait([connecting])
            assert errors.getvalue() == ""  # a log file must not have the state


# ---- deadlines and callers that give up ------------------------------------------------------------------------


async def test_deadlines_stand_still_while_a_person_is_asked() -> None:
    seconds = 1.0

    async def think(url: str) -> str:
        await asyncio.sleep(1.5 * seconds)  # the person takes longer than any of the deadlines
        return await agree(url)

    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        auth = provider(think)
        async with tc.Client(server.url, auth=auth, connect_timeout=seconds, execution_timeout=seconds) as client:
            assert await call(client) == "hi"
            assert (await client.call_tool("write", {"text": "hi"})).text  # needs another scope, so the person again

    assert server.counters["authorize"] == 2


async def test_the_status_and_an_event_say_that_a_person_is_asked() -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        person = Person()
        client = tc.Client(server.url, auth=provider(person), name="wiki")
        seen: list[tc.events.SignInStarted] = []
        client.on(tc.events.SignInStarted, seen.append)
        for state, work in (("connecting", client.connect), ("connected", lambda: call(client))):
            running = asyncio.create_task(work())
            await person.reached.wait()
            assert client.status == state and "waiting for a person to sign in" in client.status.reason
            person.released.set()
            await running
            assert client.status == "connected" and not client.status.reason
            server.revoke_all()
            person.reached.clear()
            person.released.clear()
        await client.close()
    assert seen == [tc.events.SignInStarted("wiki", server.issuer)] * 2


async def test_a_caller_that_gives_up_does_not_end_the_sign_in_of_the_others() -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        person = Person()
        person.released.set()
        async with tc.Client(server.url, auth=provider(person)) as client:
            person.reached.clear()
            person.released.clear()
            server.revoke_all()
            calls = [asyncio.create_task(call(client)) for _ in range(3)]
            await person.reached.wait()
            calls[0].cancel()
            with pytest.raises(asyncio.CancelledError):
                await calls[0]
            person.released.set()
            assert await asyncio.gather(*calls[1:]) == ["hi", "hi"]
        assert person.asked == 2


async def test_a_client_that_is_closed_leaves_the_sign_in_to_the_next_one() -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        person = Person()
        auth = provider(person)
        first = asyncio.create_task(connect_and_call(server.url, auth))
        await person.reached.wait()
        second = asyncio.create_task(connect_and_call(server.url, auth))
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        person.released.set()
        assert await second == "hi"
    assert server.counters["authorize"] == 1


@pytest.mark.parametrize("end", ["cancel", "close"])
async def test_tokens_are_kept_if_the_client_ends_while_the_code_is_redeemed(end: str) -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        auth = provider(agree)
        gate = server.hold("token-after")
        client = tc.Client(server.url, auth=auth)
        connecting = asyncio.create_task(client.connect())
        await gate.reached.wait()
        ending = asyncio.create_task(client.close())
        if end == "cancel":
            connecting.cancel()
        await asyncio.wait([ending], timeout=0.1)  # it waits for the answer
        gate.open()
        await asyncio.gather(connecting, ending, return_exceptions=True)
        status = await auth.status(server.url)
        assert status is not None and status.can_renew
        assert await connect_and_call(server.url, auth) == "hi"
    assert server.counters["authorize"] == server.counters["token"] == 1


# ---- refusals --------------------------------------------------------------------------------------------------


async def test_a_refused_consent_is_an_error_for_all_and_no_person_is_asked_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with AuthorizationServer(consent="denied") as server, asyncio.timeout(BOUND):
        person = Person()
        auth = provider(person)
        clients = [asyncio.create_task(connect_and_call(server.url, auth)) for _ in range(3)]
        await person.reached.wait()
        person.released.set()
        outcomes = await asyncio.gather(*clients, return_exceptions=True)
        assert all(isinstance(each, tc.AuthError) for each in outcomes)
        assert all("the sign-in was refused: access_denied" in str(each) for each in outcomes)
        with pytest.raises(tc.AuthError, match="the sign-in was refused: access_denied"):
            await connect_and_call(server.url, auth)
        assert person.asked == server.counters["authorize"] == 1
        assert account.REFUSAL_PAUSE == 60.0

        server.change(consent="granted")
        monkeypatch.setattr(account, "REFUSAL_PAUSE", 0.0)  # the pause is over
        assert await connect_and_call(server.url, auth) == "hi"
        assert person.asked == 2


async def test_another_error_of_a_sign_in_does_not_prevent_the_next_one() -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        asked: list[str] = []

        async def fail_once(url: str) -> str:
            asked.append(url)
            query = query_of(url)
            failure = {"error": "server_error", "state": query["state"], "iss": server.issuer}
            return await agree(url) if len(asked) > 1 else f"{query['redirect_uri']}?{urlencode(failure)}"

        auth = provider(fail_once)
        with pytest.raises(tc.AuthError, match="server_error"):
            await connect_and_call(server.url, auth)
        assert await connect_and_call(server.url, auth) == "hi"


async def test_no_client_is_registered_while_no_person_is_asked() -> None:
    async with AuthorizationServer(consent="denied") as server, asyncio.timeout(BOUND):
        auth = provider(agree)
        for _ in range(3):
            with pytest.raises(tc.AuthError, match="access_denied"):
                await connect_and_call(server.url, auth)

    assert server.counters["register"] == server.counters["authorize"] == 1


# ---- no person -------------------------------------------------------------------------------------------------


async def test_without_a_person_the_error_has_the_url_and_no_client_is_registered_again() -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        auth = provider(None)
        urls = set()
        for _ in range(3):
            client = tc.Client(server.url, auth=auth)
            with pytest.raises(tc.AuthError, match="a person must sign in") as caught:
                await client.connect()
            assert client.status.state is tc.ConnectionState.NEEDS_AUTH
            await client.close()
            assert caught.value.authorization_url is not None
            urls.add(caught.value.authorization_url)
    (url,) = urls
    assert url.startswith(f"{server.issuer}/authorize?")
    assert query_of(url)["resource"] == server.resource
    assert query_of(url)["state"] not in str(caught.value)
    assert (server.counters["register"], server.counters["authorize"]) == (1, 0)


@pytest.mark.parametrize("is_shared", [True, False], ids=["one store", "as another process"])
async def test_a_program_that_asks_no_person_does_not_wait_while_another_one_asks(
    is_shared: bool, tmp_path: Path
) -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        person, store = Person(), tc.FileTokenStore(tmp_path / "tokens")
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(connect_and_call(server.url, provider(person, store=store)))
            await person.reached.wait()
            own = store if is_shared else tc.FileTokenStore(store.folder)
            with pytest.raises(tc.AuthError, match="a person must sign in"):
                async with asyncio.timeout(5):
                    await connect_and_call(server.url, provider(None, store=own))
            person.released.set()
            assert await asking == "hi"


async def test_a_call_that_needs_a_person_sets_the_status() -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        store = tc.MemoryTokenStore()
        await connect_and_call(server.url, provider(agree, store=store))
        async with tc.Client(server.url, auth=provider(None, store=store)) as client:
            assert await call(client) == "hi"
            server.revoke_all()
            with pytest.raises(tc.AuthError, match="a person must sign in") as caught:
                await call(client)
            assert client.status.state is tc.ConnectionState.NEEDS_AUTH
        assert caught.value.authorization_url is not None
    assert server.counters["authorize"] == 1


# ---- a sign-in that the program finishes -----------------------------------------------------------------------


async def begin(server: AuthorizationServer, auth: tc.OAuth) -> str:
    """Return the URL of the error of a client that needs a person."""
    with pytest.raises(tc.AuthError, match="a person must sign in") as caught:
        await connect_and_call(server.url, auth)
    assert caught.value.authorization_url is not None
    return caught.value.authorization_url


@pytest.mark.parametrize(
    "answer, error",
    [
        ("http://127.0.0.1:27465/callback?code=x&state=forged", tc.AuthError),
        ("http://127.0.0.1:27465/callback?error=access_denied&state=forged", tc.AuthError),
        ("http://127.0.0.1:27465/callback?code=x", tc.AuthError),
        ("http://127.0.0.1:27465/callback", tc.AuthError),
        ("http://[/callback?code=x", tc.AuthError),
        ("http://127.0.0.1:27465/callback?code=x&state=\ud800", tc.AuthError),
        ("", tc.AuthError),
        (None, tc.ConfigError),
        (b"code=x", tc.ConfigError),
        ({"code": "x"}, tc.ConfigError),
    ],
    ids=ascii,
)
async def test_a_wrong_answer_leaves_the_sign_in_pending(answer: Any, error: type[tc.ToolcribError]) -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        auth = provider(None)
        genuine = await agree(await begin(server, auth))
        with pytest.raises(error):
            await auth.finish_sign_in(server.url, answer)
        assert server.counters["token"] == 0

        assert (await auth.finish_sign_in(server.url, genuine)).issuer == server.issuer
        with pytest.raises(tc.UsageError):
            await auth.finish_sign_in(server.url, genuine)
        assert await connect_and_call(server.url, auth) == "hi"
    assert server.counters["token"] == 1


async def test_a_pending_sign_in_is_forgotten_with_the_tokens() -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        auth = provider(None)
        redirected_to = await agree(await begin(server, auth))
        await auth.forget(server.url)
        with pytest.raises(tc.UsageError, match="no sign-in is pending"):
            await auth.finish_sign_in(server.url, redirected_to)
    assert server.counters["token"] == 0


async def test_without_a_pending_sign_in_the_error_says_what_to_do() -> None:
    with pytest.raises(tc.UsageError, match="Call it once after an AuthError with an authorization_url"):
        await provider(None).finish_sign_in("https://tools.example/mcp", "http://127.0.0.1/callback?code=x&state=y")


async def test_a_sign_in_is_finished_with_the_given_function_for_requests() -> None:
    sent: list[tuple[str, str]] = []

    async def fetch(method: str, url: str, headers: Any, body: bytes) -> Any:
        sent.append((method, url))
        return 200, [("Content-Type", "application/json")], b'{"access_token": "t", "token_type": "Bearer"}'

    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        auth = provider(None)
        redirected_to = await agree(await begin(server, auth))
        assert not (await auth.finish_sign_in(server.url, redirected_to, fetch=fetch)).can_renew
    assert sent == [("POST", f"{server.issuer}/token")]
    assert server.counters["token"] == 0


@pytest.mark.parametrize("redirect_uri", ["https://app.example/callback", "http://localhost/callback"])
@pytest.mark.usefixtures("browser")
async def test_no_browser_is_opened_if_nothing_can_listen_for_the_answer(redirect_uri: str) -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        auth = provider("auto", redirect_uri=redirect_uri)
        assert query_of(await begin(server, auth))["redirect_uri"] == redirect_uri
    assert server.counters["authorize"] == 0
