"""`toolcrib auth`: signing in to real servers with a scripted browser, and commands that use the sign-in."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.cli.kit import Ran, Terminal, in_background, run_cli, run_process, terminal, write_settings
from tests.faults.http_kit import closed_port
from tests.oauth.authorization_server import AuthorizationServer
from tests.serving import served
from toolcrib.config import MASK
from toolcrib.oauth.stored_sign_in import StoredSignIn, TokenSet, storage_key

BROWSER = """
import sys, urllib.request
urllib.request.urlopen(sys.argv[1], timeout=20).read()
"""


@pytest.fixture
def server() -> Iterator[AuthorizationServer]:
    with in_background(AuthorizationServer()) as running:
        yield running


@pytest.fixture
def browser(tmp_path: Path) -> dict[str, str]:
    """The environment with a browser that agrees to everything."""
    script = tmp_path / "browser.py"
    script.write_text(BROWSER)
    return {"BROWSER": f"{sys.executable} {script} %s"}


def login(folder: Path, browser: dict[str, str], *words: str) -> Ran:
    """Sign in, in a process of its own: Python looks for browsers once per process."""
    return run_process("auth", "login", "web", *words, cwd=folder, env=browser)


def tokens_folder(home: Path) -> Path:
    return home / ".config/toolcrib/tokens"


def expire_tokens(home: Path) -> None:
    """Let all stored access tokens be expired ones."""
    for path in tokens_folder(home).glob("*.json"):
        stored = json.loads(path.read_text())
        for tokens in stored["token_sets"]:
            tokens["expires_at"] = 1.0
        path.write_text(json.dumps(stored))


def sign_in_until_expiry(folder: Path, server: AuthorizationServer, browser: dict[str, str]) -> None:
    """Leave a sign-in whose token has expired and cannot be renewed."""
    server.change(refresh_tokens="none")
    write_settings(folder, {"web": {"url": server.url}})
    assert login(folder, browser).code == 0
    expire_tokens(folder)


def test_a_sign_in_is_used_by_all_commands_until_the_sign_out(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    write_settings(tmp_path, {"web": {"url": server.url}})
    before = run_cli("tools", cwd=tmp_path)
    assert before.code == 6 and "`toolcrib auth login web` signs you in" in before.err
    assert not server.counters["register"]  # a command that was not asked to sign in registers nothing

    ran = login(tmp_path, browser)
    assert ran.code == 0, ran.err
    assert f"signed in to web at {server.issuer}; scopes: mcp:read" in ran.out and "renewed automatically" in ran.out
    assert "mcp__web__echo" in run_cli("tools", cwd=tmp_path).out
    called = run_cli("call", "echo", "text=hi", cwd=tmp_path)
    assert (called.code, called.out) == (0, "hi\n"), called.err

    (status,) = run_cli("auth", "status", "--json", cwd=tmp_path).json
    assert status["signed_in"] and status["issuer"] == server.issuer and status["scopes"] == ["mcp:read"]
    assert run_cli("auth", "status", "web", cwd=tmp_path).rows[0][:3] == ["web", "signed in", server.issuer]

    out = run_cli("auth", "logout", "web", cwd=tmp_path)
    assert (out.code, out.out) == (0, "signed out of web\n") and server.counters["revoke"]
    assert run_cli("auth", "status", "web", cwd=tmp_path).code == 6
    assert run_cli("tools", cwd=tmp_path).code == 6
    assert run_cli("auth", "logout", "web", cwd=tmp_path).out == "not signed in to web: nothing to do\n"


def test_a_url_can_be_signed_in_to_without_settings(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    words = ("auth", "login", server.url, "--json", "--scope", "mcp:read mcp:write")
    ran = run_process(*words, cwd=tmp_path, env=browser)
    assert ran.code == 0 and ran.json["scopes"] == ["mcp:read", "mcp:write"], ran.err
    assert "echo" in run_cli("tools", server.url, cwd=tmp_path).out


def test_a_new_sign_in_names_the_scopes_of_the_former_one_that_it_lacks(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    write_settings(tmp_path, {"web": {"url": server.url}})
    assert "the former" not in login(tmp_path, browser, "--scope", "mcp:read mcp:write").err
    ran = login(tmp_path, browser, "--json")
    command = "toolcrib auth login web --scope mcp:read --scope mcp:write"
    assert ran.json["scopes"] == ["mcp:read"]
    assert ran.err.endswith(f"\nthe former sign-in also had mcp:write; `{command}` requests all scopes again\n")
    assert "the former" not in login(tmp_path, browser).err


def test_a_server_that_is_given_by_url_is_shown_by_its_masked_url(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    url, shown = f"{server.url}?api_key=s3cret", f"{server.url}?api_key={MASK}"
    before = run_cli("auth", "status", url, cwd=tmp_path)
    assert (before.code, before.rows[0][:2]) == (6, [shown, "not signed in"])
    login_by_url = ("auth", "login", url)
    ran = run_process(*login_by_url, cwd=tmp_path, env=browser)
    assert ran.code == 0 and ran.out.startswith(f"signed in to {shown} at "), ran.err
    as_json = run_process(*login_by_url, "--json", cwd=tmp_path, env=browser)
    assert as_json.json["server"] == shown
    assert run_cli("auth", "status", url, cwd=tmp_path).rows[0][:2] == [shown, "signed in"]
    assert run_cli("auth", "status", url, "--json", cwd=tmp_path).json[0]["server"] == shown
    assert run_cli("auth", "logout", url, cwd=tmp_path).out == f"signed out of {shown}\n"
    assert run_cli("auth", "logout", url, cwd=tmp_path).out == f"not signed in to {shown}: nothing to do\n"
    assert run_cli("auth", "logout", url, "--json", cwd=tmp_path).json["server"] == shown
    with terminal("tools", url, cwd=tmp_path, env=browser, width=200) as screen:
        screen.until(f"Sign in to {shown} now? [Y/n]")
        screen.type("y")
        assert screen.exit_code() == 0 and f"signed in to {shown} at " in screen.text
        assert "s3cret" not in screen.text


def test_a_sign_in_is_kept_if_the_server_fails_after_it(tmp_path: Path, browser: dict[str, str]) -> None:
    class FailingServer(AuthorizationServer):
        def _respond(self, endpoint: str, *request: Any) -> Any:
            if endpoint == "token":
                self.fail_next("mcp", times=99, status=400)
            return super()._respond(endpoint, *request)

    with in_background(FailingServer()) as server:
        write_settings(tmp_path, {"web": {"url": server.url}})
        ran = login(tmp_path, browser)
        assert ran.code != 0
        assert "signed in to web, but the connection failed afterwards" in ran.err
        assert "HTTP 400" in ran.err and "Traceback" not in ran.err
        server.fail_next("mcp", times=0)
        assert run_cli("tools", cwd=tmp_path).code == 0
    assert server.counters["authorize"] == 1


def test_sign_ins_by_url_are_listed_without_settings_and_can_be_ended(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    before = run_cli("auth", "status", cwd=tmp_path)
    hint = "no settings found, and no sign-in is stored; `toolcrib auth login URL` signs in to a server\n"
    assert (before.code, before.out, before.err) == (0, "", hint)
    assert run_cli("auth", "status", "--json", cwd=tmp_path).json == []
    assert run_process("auth", "login", server.url, cwd=tmp_path, env=browser).code == 0
    ran = run_cli("auth", "status", cwd=tmp_path)
    assert (ran.code, ran.err) == (0, "") and [row[:3] for row in ran.rows] == [
        [server.url, "signed in", server.issuer]
    ]
    (shown,) = run_cli("auth", "status", "--json", cwd=tmp_path).json
    assert (shown["server"], shown["signed_in"], shown["state"]) == (server.url, True, "signed in")
    out = run_cli("auth", "logout", server.url, cwd=tmp_path)
    assert out.code == 0 and server.counters["revoke"]
    assert run_cli("auth", "status", cwd=tmp_path).err == hint


def test_a_sign_in_is_listed_once_and_with_a_named_file_only_for_its_entries(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    url = f"{server.url}?api_key=s3cret"
    write_settings(tmp_path, {"web": {"url": server.url}})
    for each in ("web", url):
        assert run_process("auth", "login", each, cwd=tmp_path, env=browser).code == 0
    ran = run_cli("auth", "status", cwd=tmp_path)
    assert [row[:2] for row in ran.rows] == [["web", "signed in"], [f"{server.url}?api_key={MASK}", "signed in"]]
    assert "s3cret" not in ran.out + run_cli("auth", "status", "--json", cwd=tmp_path).out
    named = run_cli("auth", "status", "-c", ".mcp.json", cwd=tmp_path)
    assert [row[0] for row in named.rows] == ["web"]
    write_settings(tmp_path, {"local": {"command": "x"}}, "local.json")
    assert "have no remote servers" in run_cli("auth", "status", "-c", "local.json", cwd=tmp_path).err


def test_a_sign_in_of_a_program_is_listed_with_its_account(tmp_path: Path) -> None:
    store = tc.FileTokenStore(tokens_folder(tmp_path))
    tokens = TokenSet("https://login.example", "me", "s3cret", expires_at=1.0)
    stored = StoredSignIn("https://example.com/mcp", "work").with_tokens(tokens)
    asyncio.run(store.save(storage_key(stored.server, stored.account), stored.to_text()))
    ran = run_cli("auth", "status", cwd=tmp_path)
    assert ran.rows[0][:2] == ["https://example.com/mcp (account work)", "expired"]
    (shown,) = run_cli("auth", "status", "--json", cwd=tmp_path).json
    assert (shown["server"], shown["account"], shown["state"]) == ("https://example.com/mcp", "work", "expired")


@pytest.mark.parametrize(
    "text, problem",
    [
        ("{", "expected a JSON object. Remove the file and sign in again"),
        ('{"version": 99}', "expected a stored sign-in. Remove the file and sign in again"),
        ('{"sealed": "", "key_id": ""}', "expected a file that is not encrypted"),
    ],
)
def test_a_sign_in_that_cannot_be_read_is_reported_and_the_others_are_listed(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str], text: str, problem: str
) -> None:
    assert run_process("auth", "login", server.url, cwd=tmp_path, env=browser).code == 0
    damaged = tokens_folder(tmp_path) / "damaged.json"
    damaged.write_text(text)
    damaged.chmod(0o600)
    ran = run_cli("auth", "status", cwd=tmp_path)
    assert ran.code == 0 and [row[0] for row in ran.rows] == [server.url]
    assert ran.err == f"warning: {damaged}: {problem}\n"


def test_a_stored_file_of_an_entry_that_cannot_be_read_is_reported_once(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    write_settings(tmp_path, {"web": {"url": server.url}})
    assert login(tmp_path, browser).code == 0
    (stored,) = tokens_folder(tmp_path).glob("*.json")
    stored.write_text("{")
    ran = run_cli("auth", "status", cwd=tmp_path)
    assert ran.code == 3 and ran.rows[0][:2] == ["web", "invalid"] and ran.err.count(str(stored)) == 1


def test_an_expired_sign_in_that_cannot_be_renewed_counts_as_none(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    sign_in_until_expiry(tmp_path, server, browser)
    (shown,) = run_cli("auth", "status", "--json", cwd=tmp_path).json
    assert (shown["signed_in"], shown["state"], shown["issuer"]) == (False, "expired", server.issuer)
    ran = run_cli("auth", "status", "web", cwd=tmp_path)
    assert ran.code == 6 and ran.rows[0][:2] == ["web", "expired"]


def test_the_options_of_the_entry_are_used(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    server.add_client("own-client", redirect_uris=("http://127.0.0.1/callback",))
    server.change(registration=False)
    write_settings(tmp_path, {"web": {"url": server.url, "oauth": {"clientId": "own-client"}}})
    ran = login(tmp_path, browser, "--json")
    assert ran.code == 0 and ran.json["client_id"] == "own-client", ran.err
    assert "mcp__web__echo" in run_cli("tools", cwd=tmp_path).out


def test_a_sign_in_of_one_client_keeps_that_of_another_client_at_the_same_url(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    for name in ("one", "two"):
        server.add_client(name, redirect_uris=("http://127.0.0.1/callback",))
    entries = {name: {"url": server.url, "oauth": {"client_id": name}} for name in ("one", "two")}
    write_settings(tmp_path, entries)
    for name in entries:
        ran = run_process("auth", "login", name, cwd=tmp_path, env=browser)
        assert ran.code == 0, ran.err
    found = run_cli("auth", "status", "--json", cwd=tmp_path).json
    assert [(each["server"], each["signed_in"], each["client_id"]) for each in found] == [
        ("one", True, "one"),
        ("two", True, "two"),
    ]


def test_a_sign_out_names_the_other_entries_that_it_signs_out(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    same = {"url": server.url}
    entries = {"web": same, "web2": same, "off": {**same, "oauth": False}, "other": {"url": "https://example.com/mcp"}}
    write_settings(tmp_path, entries)
    for signed_out in ("web2", server.url):
        assert login(tmp_path, browser).code == 0
        ran = run_cli("auth", "logout", signed_out, cwd=tmp_path)
        names = "web" if signed_out == "web2" else "web, web2"
        assert ran.code == 0 and ran.out.endswith(f"\nalso signed out of {names}: the URL is the same\n")
    again = run_cli("auth", "logout", "web2", cwd=tmp_path)
    assert (again.code, again.out) == (0, "not signed in to web2: nothing to do\n")
    assert login(tmp_path, browser).code == 0
    assert run_cli("auth", "logout", "web2", "--json", cwd=tmp_path).json["also_signed_out"] == ["web"]


def test_a_failed_sign_in_keeps_the_earlier_one(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    write_settings(tmp_path, {"web": {"url": server.url}})
    assert login(tmp_path, browser).code == 0
    server.fail_next("token", status=400, error="invalid_grant")
    assert login(tmp_path, browser).code == 6
    assert run_cli("call", "echo", "text=hi", cwd=tmp_path).out == "hi\n"


def test_a_server_without_a_sign_in_needs_none(tmp_path: Path, browser: dict[str, str]) -> None:
    plain = tc.ToolServer("plain")
    with in_background(served(plain.asgi())) as origin:
        write_settings(tmp_path, {"web": {"url": f"{origin}/mcp"}})
        ran = login(tmp_path, browser)
    assert (ran.code, ran.out, ran.err) == (0, "web does not require a sign-in\n", "")


@pytest.mark.parametrize("words", [(), ("--no-browser",)])
def test_a_server_without_a_sign_in_needs_neither_a_browser_nor_a_terminal(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    plain = tc.ToolServer("plain")
    with in_background(served(plain.asgi())) as origin:
        write_settings(tmp_path, {"web": {"url": f"{origin}/mcp"}})
        ran = login(tmp_path, {}, *words)
    assert (ran.code, ran.out, ran.err) == (0, "web does not require a sign-in\n", "")


AT_TERMINAL = "hint: run `toolcrib auth login web{}` at a terminal"


@pytest.mark.parametrize(
    "words, oauth, problem, hint",
    [
        (
            (),
            {},
            "a sign-in needs a browser, or a terminal",
            f"{AT_TERMINAL.format('')}, or set BROWSER to the command of a browser",
        ),
        (
            ("--no-browser",),
            {},
            "a sign-in with --no-browser needs a terminal",
            f"{AT_TERMINAL.format(' --no-browser')}, or omit --no-browser if there is a browser here",
        ),
        (
            (),
            {"redirect_uri": "https://app.example.com/callback"},
            "a sign-in whose redirect_uri leads to another machine needs a terminal",
            AT_TERMINAL.format(""),
        ),
    ],
)
def test_a_sign_in_without_a_browser_or_terminal_is_one_clear_line(
    tmp_path: Path, server: AuthorizationServer, words: tuple[str, ...], oauth: Any, problem: str, hint: str
) -> None:
    write_settings(tmp_path, {"web": {"url": server.url, "oauth": oauth}})
    ran = login(tmp_path, {}, *words)
    assert (ran.code, ran.out, ran.err) == (6, "", f"error: {problem}\n{hint}\n")
    assert not server.counters["register"]


def test_a_folder_that_others_can_use_is_reported_once(tmp_path: Path) -> None:
    store = tc.FileTokenStore(tokens_folder(tmp_path))
    for key in ("a", "b", "c"):
        asyncio.run(store.save(key, "{}"))
    store.folder.chmod(0o755)
    ran = run_cli("auth", "status", cwd=tmp_path)
    assert ran.err.count("warning:") == 1 and "chmod 700" in ran.err


@pytest.mark.parametrize(
    "entry, code, said",
    [
        ({"command": "x"}, 2, "runs on this machine and has no sign-in"),
        ({"url": "https://h/", "headers": {"authorization": "Bearer ${HOME}"}}, 3, "has its own credentials"),
        ({"url": "https://h/", "oauth": False}, 3, "is turned off"),
        ({"url": "nowhere"}, 3, "expected an absolute http"),
    ],
)
def test_what_cannot_be_signed_in_to_is_one_clear_line(tmp_path: Path, entry: Any, code: int, said: str) -> None:
    write_settings(tmp_path, {"web": entry})
    ran = login(tmp_path, {})
    assert ran.code == code and said in ran.err and "Traceback" not in ran.err


def test_the_group_has_help_and_suggestions(tmp_path: Path) -> None:
    assert "login" in run_cli("auth", "--help", cwd=tmp_path).out
    assert "Usage: toolcrib auth login" in run_cli("help", "auth", "login", cwd=tmp_path).out
    assert "did you mean 'login'?" in run_cli("auth", "logn", cwd=tmp_path).err
    assert "did you mean 'auth login'?" in run_cli("login", cwd=tmp_path).err
    assert run_cli("auth", cwd=tmp_path).code == 2


# ---- errors and hints -----------------------------------------------------------------------------------------


def test_the_hint_for_missing_scopes_keeps_the_present_ones(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    write_settings(tmp_path, {"web": {"url": server.url}})
    assert login(tmp_path, browser).code == 0
    refused = run_cli("call", "write", "text=x", cwd=tmp_path)
    assert refused.code == 6
    (more,) = re.findall(r"hint: `toolcrib auth login web (.*)` signs you in again", refused.err)
    assert login(tmp_path, browser, *more.split()).code == 0
    assert run_cli("call", "write", "text=x", cwd=tmp_path).out == "wrote x\n"
    assert run_cli("auth", "status", "--json", cwd=tmp_path).json[0]["scopes"] == ["mcp:read", "mcp:write"]


SIGN_IN_HINT = "hint: `toolcrib auth login web` signs you in; in Python, pass auth=OAuth()"


@pytest.mark.parametrize("oauth", [{}, {"oauth": {}}], ids=["without options", "with options"])
def test_a_required_sign_in_is_reported_without_advice_for_programmers(
    tmp_path: Path, server: AuthorizationServer, oauth: Any
) -> None:
    write_settings(tmp_path, {"web": {"url": server.url, **oauth}})
    ran = run_cli("tools", cwd=tmp_path)
    problem = "web: the server requires authorisation (HTTP 401)"
    assert (ran.code, ran.err) == (6, f"error: {problem}\n{SIGN_IN_HINT}\n")
    assert run_cli("servers", cwd=tmp_path).rows[0][-1] == problem
    assert run_cli("servers", "--json", cwd=tmp_path).json[0]["error"] == problem


def test_an_expired_sign_in_is_reported_without_advice_for_programmers(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    sign_in_until_expiry(tmp_path, server, browser)
    server.expire_tokens()
    for words in (("tools",), ("call", "web", "echo", "text=hi"), ("bridge", "web")):
        ran = run_cli(*words, cwd=tmp_path)
        problem = f"web: a person must sign in at {server.issuer}"
        assert (ran.code, ran.err) == (6, f"error: {problem}\n{SIGN_IN_HINT}\n")
    watched = run_cli("watch", "--json", cwd=tmp_path)
    assert watched.code == 6 and "finish_sign_in" not in watched.out + watched.err


def test_missing_scopes_are_reported_without_advice_for_programmers(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    write_settings(tmp_path, {"web": {"url": server.url}})
    assert login(tmp_path, browser).code == 0
    ran = run_cli("call", "write", "text=x", cwd=tmp_path)
    problem = f"the token lacks mcp:write: a person must sign in at {server.issuer}"
    assert ran.code == 6 and f"{problem}\nhint: `toolcrib auth login web --scope" in ran.err


def test_a_failed_sign_in_leads_to_the_diagnosis_of_the_same_server(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    write_settings(tmp_path, {"web": {"url": server.url}}, "one.json")
    for words, shown in ((("web", "-c", "one.json"), "web -c one.json"), ((server.url,), server.url)):
        server.fail_next("token", status=400, error="invalid_grant")
        ran = run_process("auth", "login", *words, cwd=tmp_path, env=browser)
        assert ran.code == 6 and ran.err.endswith(f"hint: `toolcrib doctor {shown}` shows each step of the sign-in\n")


def test_an_authorisation_server_that_is_not_available_leads_to_the_diagnosis(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    write_settings(tmp_path, {"web": {"url": server.url}})
    assert login(tmp_path, browser).code == 0
    expire_tokens(tmp_path)
    server.fail_next("token", times=99, status=503)
    ran = run_cli("tools", cwd=tmp_path)
    assert ran.code == 5 and "the authorisation server is not available (HTTP 503)" in ran.err
    assert ran.err.endswith("hint: `toolcrib doctor` diagnoses the connection step by step\n")


def test_a_refused_consent_has_no_hint(tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]) -> None:
    server.change(consent="denied")
    write_settings(tmp_path, {"web": {"url": server.url}})
    ran = login(tmp_path, browser)
    assert ran.code == 6 and "the sign-in was refused: access_denied" in ran.err and "hint:" not in ran.err


def test_a_redirect_port_in_use_has_no_hint(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    taken = f"{server.base}/callback"
    write_settings(tmp_path, {"web": {"url": server.url, "oauth": {"redirect_uri": taken}}})
    ran = login(tmp_path, browser)
    assert ran.code == 6 and f"redirect_uri: the port of {taken} is in use" in ran.err and "hint:" not in ran.err


def test_a_cancelled_paste_has_no_hint(tmp_path: Path, server: AuthorizationServer) -> None:
    write_settings(tmp_path, {"web": {"url": server.url}})
    with terminal("auth", "login", "web", "--no-browser", cwd=tmp_path, width=2000) as screen:
        screen.until("Address:")
        screen.type("")
        assert screen.exit_code() == 6
    assert "the sign-in was cancelled: no address was pasted" in screen.text and "hint:" not in screen.text


def test_a_rejected_client_of_the_settings_is_to_be_checked_there(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    server.add_client("own-client", "client_secret_basic", secret="right", redirect_uris=("http://127.0.0.1/callback",))
    oauth = {"client_id": "own-client", "client_secret": "${CLIENT_SECRET}"}
    write_settings(tmp_path, {"web": {"url": server.url, "oauth": oauth}})
    ran = login(tmp_path, {**browser, "CLIENT_SECRET": "wrong"})
    assert ran.code == 6 and "invalid_client" in ran.err
    assert ran.err.endswith("hint: check client_id and client_secret of web in the settings\n")


@pytest.mark.parametrize("is_from_file", [True, False])
def test_the_hint_to_sign_in_names_the_file_or_the_url(
    tmp_path: Path, server: AuthorizationServer, is_from_file: bool
) -> None:
    write_settings(tmp_path, {"web": {"url": server.url}}, "one.json")
    ran = run_cli("tools", *(("-c", "one.json") if is_from_file else (server.url,)), cwd=tmp_path)
    shown = "web -c one.json" if is_from_file else server.url
    assert ran.code == 6 and f"hint: `toolcrib auth login {shown}` signs you in" in ran.err


def test_the_person_is_asked_only_when_the_authorisation_server_is_known(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    write_settings(tmp_path, {"web": {"url": server.url}})
    ran = login(tmp_path, browser)
    begin = f"sign in at {server.issuer}; waiting up to 5 minutes, Ctrl-C cancels."
    assert ran.err == f"{begin}\n"
    server.add_client("own-client", redirect_uris=("http://127.0.0.1/callback",))
    for oauth in ({"client_id": "own-client"}, {"redirect_uri": f"http://127.0.0.1:{closed_port()}/callback"}):
        write_settings(tmp_path, {"web": {"url": server.url, "oauth": oauth}})
        ran = login(tmp_path, browser)
        assert ran.err == f"{begin} If the page shows an error, check client_id and redirect_uri.\n"
    write_settings(tmp_path, {"web": {"url": f"http://127.0.0.1:{closed_port()}/mcp"}})
    unreachable = login(tmp_path, browser)
    assert unreachable.code == 5 and unreachable.err.startswith("error: ")


def test_a_rejected_authorization_header_is_to_be_corrected_or_removed(
    tmp_path: Path, server: AuthorizationServer
) -> None:
    write_settings(tmp_path, {"web": {"url": server.url, "headers": {"Authorization": "Bearer wrong"}}})
    ran = run_cli("tools", cwd=tmp_path)
    hint = "correct the Authorization header of web in .mcp.json:1, or remove it and run `toolcrib auth login web`"
    assert ran.code == 6 and f"hint: {hint}\n" in ran.err


def test_the_status_shows_entries_without_a_sign_in(tmp_path: Path) -> None:
    url = "https://example.com/mcp"
    write_settings(
        tmp_path,
        {
            "off": {"url": url, "oauth": False},
            "unset": {"url": url, "oauth": {"client_id": "${NO_SUCH_CLIENT}"}},
            "wrong": {"url": url, "oauth": "x"},
            "misfit": {"url": url, "oauth": {"redirect_uri": "ftp://example.com"}},
            "own": {"url": url, "headers": {"Authorization": "Bearer ${HOME}"}},
            "new": {"url": url},
            "local": {"command": "x"},
        },
    )
    ran = run_cli("auth", "status", cwd=tmp_path)
    assert ran.code == 3
    assert [row[:2] for row in ran.rows] == [
        ["off", "sign-in turned off"],
        ["unset", "invalid"],
        ["wrong", "invalid"],
        ["misfit", "invalid"],
        ["own", "has its own credentials"],
        ["new", "not signed in"],
    ]
    assert "NO_SUCH_CLIENT is not set" in ran.err and "oauth: expected a table of sign-in options" in ran.err
    shown = run_cli("auth", "status", "--json", cwd=tmp_path)
    assert [each["state"] for each in shown.json] == [row[1] for row in ran.rows]
    assert not any(each["signed_in"] for each in shown.json)
    errors = {each["server"]: each.get("error", "") for each in shown.json}
    assert shown.code == 3 and not errors["off"] and "NO_SUCH_CLIENT is not set" in errors["unset"]


def test_a_sign_out_is_shown_as_json_with_the_reason_why_the_tokens_were_not_revoked(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    write_settings(tmp_path, {"web": {"url": server.url}})
    assert login(tmp_path, browser).code == 0
    server.fail_next("revoke", times=2, status=400, error="unsupported_token_type")
    ran = run_cli("auth", "logout", "web", "--json", cwd=tmp_path)
    assert ran.code == 1 and ran.json == {
        "server": "web",
        "signed_in": False,
        "was_signed_in": True,
        "revocation_error": f"{server.issuer}: the server did not revoke the tokens; they were only forgotten",
    }
    assert ran.err.startswith("warning: the tokens stay valid") and ran.err.count("revoke") == 1
    again = run_cli("auth", "logout", "web", "--json", cwd=tmp_path)
    assert (again.code, again.json) == (0, {"server": "web", "signed_in": False, "was_signed_in": False})


def test_options_of_a_sign_in_are_without_effect_on_a_local_server(tmp_path: Path) -> None:
    write_settings(tmp_path, {"one": {"command": "x", "oauth": {}}, "two": {"command": "x", "oauth": False}})
    ran = run_cli("auth", "status", cwd=tmp_path)
    assert ran.err.count("oauth: has no effect on a server of type stdio") == 1


# ---- at a terminal -------------------------------------------------------------------------------------------


def test_at_a_terminal_tools_and_call_offer_the_sign_in(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    write_settings(tmp_path, {"web": {"url": server.url}})
    with terminal("tools", cwd=tmp_path, env=browser) as screen:
        screen.until("Sign in to web now? [Y/n]")
        screen.type("n")
        assert screen.exit_code() == 6 and "signs you in" in screen.text
    with terminal("call", "echo", "text=hello there", cwd=tmp_path, env=browser) as screen:
        screen.until("Sign in to web now? [Y/n]")
        screen.type("")
        assert screen.exit_code() == 0 and "signed in to web" in screen.text and "hello there" in screen.text


def test_a_call_that_needs_more_scopes_offers_a_sign_in_with_them(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    write_settings(tmp_path, {"web": {"url": server.url}})
    assert login(tmp_path, browser).code == 0
    with terminal("call", "write", "text=x", cwd=tmp_path, env=browser) as screen:
        screen.until("web asks for more scopes (mcp:write). Sign in again? [Y/n]")
        screen.type("y")
        assert screen.exit_code() == 0 and "wrote x" in screen.text
    assert run_cli("auth", "status", "--json", cwd=tmp_path).json[0]["scopes"] == ["mcp:read", "mcp:write"]


def test_the_question_names_only_scopes_that_the_token_does_not_have(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    server.change(write_scope="mcp:read mcp:write")
    write_settings(tmp_path, {"web": {"url": server.url}})
    assert login(tmp_path, browser).code == 0
    with terminal("call", "write", "text=x", cwd=tmp_path, env=browser) as screen:
        screen.until("web asks for more scopes (mcp:write). Sign in again? [Y/n]")
        screen.type("y")
        assert screen.exit_code() == 0 and "wrote x" in screen.text
    assert run_cli("auth", "status", "--json", cwd=tmp_path).json[0]["scopes"] == ["mcp:read", "mcp:write"]


def test_a_first_sign_in_without_the_scopes_of_the_call_is_followed_by_another_offer(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    write_settings(tmp_path, {"web": {"url": server.url}})
    with terminal("call", "write", "text=x", cwd=tmp_path, env=browser) as screen:
        screen.until("Sign in to web now? [Y/n]")
        screen.type("y")
        screen.until("web asks for more scopes (mcp:write). Sign in again? [Y/n]")
        screen.type("y")
        assert screen.exit_code() == 0 and "wrote x" in screen.text


def test_a_sign_in_that_did_not_help_is_not_offered_again(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    server.change(write_always_refused=True)
    write_settings(tmp_path, {"web": {"url": server.url}})
    assert login(tmp_path, browser).code == 0
    with terminal("call", "write", "text=x", cwd=tmp_path, env=browser) as screen:
        screen.until("Sign in again? [Y/n]")
        screen.type("y")
        assert screen.exit_code() == 6 and screen.text.count("[Y/n]") == 1


@pytest.mark.parametrize("place, slash", [("path", ""), ("none", ""), ("none", "/")])
def test_the_sign_in_is_offered_though_the_challenge_names_no_metadata(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str], place: str, slash: str
) -> None:
    server.change(resource_metadata=place, resource_metadata_hint=False)
    if slash:
        server.change(claimed_issuer="{base}/", iss="slash")
    write_settings(tmp_path, {"web": {"url": server.url}})
    piped = run_cli("tools", cwd=tmp_path)
    assert "hint: run `toolcrib auth login web` if the server uses OAuth; else put its token under head" in piped.err
    with terminal("tools", cwd=tmp_path, env=browser) as screen:
        screen.until("Sign in to web now? [Y/n]")
        screen.type("y")
        assert screen.exit_code() == 0 and "mcp__web__echo" in screen.text
        assert f"sign in at {server.issuer}{slash};" in screen.text
        assert "--no-browser" not in screen.text  # `tools` has no such option


def paste_answer(screen: Terminal) -> None:
    """Open the address that is shown, and type the one that the server redirects to."""

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    shown = screen.until("Address:")
    (url,) = re.findall(r"^\s+(http\S+)$", shown, re.MULTILINE)
    with pytest.raises(urllib.error.HTTPError) as redirected:
        urllib.request.build_opener(Stay).open(url, timeout=20)
    with redirected.value:
        screen.type(redirected.value.headers["Location"])


def test_without_a_browser_the_address_is_shown_and_the_answer_is_pasted(
    tmp_path: Path, server: AuthorizationServer
) -> None:
    write_settings(tmp_path, {"web": {"url": server.url}})
    with terminal("auth", "login", "web", "--no-browser", cwd=tmp_path, width=2000) as screen:
        paste_answer(screen)
        assert screen.exit_code() == 0 and "signed in to web" in screen.text


def test_the_answer_is_pasted_if_it_goes_to_another_machine(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    redirect_uri = "https://app.example.com/callback"
    server.add_client("own-client", redirect_uris=(redirect_uri,))
    oauth = {"client_id": "own-client", "redirect_uri": redirect_uri}
    write_settings(tmp_path, {"web": {"url": server.url, "oauth": oauth}})
    with terminal("auth", "login", "web", cwd=tmp_path, env=browser, width=2000) as screen:
        paste_answer(screen)
        assert screen.exit_code() == 0 and "signed in to web" in screen.text
