"""`toolcrib auth`: signing in to real servers with a scripted browser, and commands that use the sign-in."""

from __future__ import annotations

import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.cli.kit import Ran, in_background, run_cli, run_process, terminal, write_settings
from tests.oauth.authorization_server import AuthorizationServer
from tests.serving import served

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


def test_the_options_of_the_entry_are_used(
    tmp_path: Path, server: AuthorizationServer, browser: dict[str, str]
) -> None:
    server.add_client("own-client", redirect_uris=("http://127.0.0.1/callback",))
    server.change(registration=False)
    write_settings(tmp_path, {"web": {"url": server.url, "oauth": {"clientId": "own-client"}}})
    ran = login(tmp_path, browser, "--json")
    assert ran.code == 0 and ran.json["client_id"] == "own-client", ran.err
    assert "mcp__web__echo" in run_cli("tools", cwd=tmp_path).out


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
    assert (ran.code, ran.out) == (0, "no sign-in needed: web asks for none\n"), ran.err


@pytest.mark.parametrize(
    "entry, code, said",
    [
        ({"command": "x"}, 2, "runs on this machine and has no sign-in"),
        ({"url": "https://h/", "headers": {"authorization": "Bearer ${HOME}"}}, 3, "has its own credentials"),
        ({"url": "https://h/", "oauth": False}, 3, "is turned off"),
        ({"url": "nowhere"}, 3, "expected an absolute http"),
        ({"url": "https://h/"}, 6, "a sign-in needs a browser, or a terminal"),
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
    piped = run_cli("call", "write", "text=x", cwd=tmp_path)
    assert piped.code == 6 and "auth login web --scope" in piped.err
    with terminal("call", "write", "text=x", cwd=tmp_path, env=browser) as screen:
        screen.until("Sign in to web now? [Y/n]")
        screen.type("y")
        assert screen.exit_code() == 0 and "wrote x" in screen.text


def test_without_a_browser_the_address_is_shown_and_the_answer_is_pasted(
    tmp_path: Path, server: AuthorizationServer
) -> None:
    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    write_settings(tmp_path, {"web": {"url": server.url}})
    with terminal("auth", "login", "web", "--no-browser", cwd=tmp_path, width=2000) as screen:
        shown = screen.until("Address:")
        (url,) = re.findall(r"^\s+(http\S+)$", shown, re.MULTILINE)
        with pytest.raises(urllib.error.HTTPError) as redirected:
            urllib.request.build_opener(Stay).open(url, timeout=20)
        with redirected.value:
            screen.type(redirected.value.headers["Location"])
        assert screen.exit_code() == 0 and "signed in to web" in screen.text
