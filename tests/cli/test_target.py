"""Which servers a command works on, and what it says when one cannot be used. Every kind of real server."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

import toolcrib as tc
from tests.cli.kit import DEMO, GOODS_FILE, in_background, run_cli, write_settings
from tests.peers.conftest import npm_server, python_of, server_of, web, web_servers  # noqa: F401  # fixtures
from tests.peers.kit import HTTP_PEERS, Peer
from tests.serving import served

EVERY_CHANGE = (("sdk1", "auto"), ("sdk2", "auto"))
"""One server of each era; the others come at night."""
NIGHTLY = pytest.mark.nightly


# ---- settings ------------------------------------------------------------------------------------------------


def test_the_settings_of_the_folder_come_before_ones_own_and_a_named_file_before_both(tmp_path: Path) -> None:
    own = tmp_path / ".config/toolcrib"
    own.mkdir(parents=True)
    (own / "toolcrib.toml").write_text('[servers.own]\ncommand = "x"\ndisabled = true\n', "utf-8")
    off = {"command": "x", "disabled": True}

    def names(*arguments: str) -> list[str]:
        return [row[0] for row in run_cli("servers", *arguments, cwd=tmp_path).rows]

    assert names() == ["own"]
    write_settings(tmp_path, {"here": off})
    assert names() == ["here"]
    write_settings(tmp_path, {"named": off}, "named.json")
    assert names("--config", "named.json") == ["named"]


def test_without_settings_it_explains_how_to_begin(tmp_path: Path) -> None:
    ran = run_cli("tools", cwd=tmp_path)
    assert ran.code == 3 and "no settings found" in ran.err and "toolcrib init" in ran.err


def test_a_broken_file_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text('{\n  "mcpServers": {,}\n}', "utf-8")
    ran = run_cli("tools", cwd=tmp_path)
    assert ran.code == 3 and ".mcp.json:2:" in ran.err and "Traceback" not in ran.err


def test_warnings_of_the_settings_are_reported(tmp_path: Path) -> None:
    write_settings(tmp_path, {"demo": {"command": DEMO[0], "args": [DEMO[1]], "evn": {}}})
    ran = run_cli("call", "echo", "text=hi", cwd=tmp_path)
    assert ran.out == "hi\n" and ran.err.startswith("warning: ") and "did you mean 'env'?" in ran.err


def test_one_server_that_is_down_does_not_hide_the_others(tmp_path: Path) -> None:
    dead = (sys.executable, "-c", "import sys; sys.exit('no key')")
    write_settings(tmp_path, {"dead": dead, "demo": DEMO})
    ran = run_cli("tools", cwd=tmp_path)
    assert ran.code == 5 and len(ran.rows) == 5
    assert ran.err.splitlines()[:2] == ["error: dead: the server's process exited with code 1", "  | no key"]


def test_an_unknown_server_is_reported_with_the_nearest(tmp_path: Path) -> None:
    write_settings(tmp_path, {"demo": DEMO})
    ran = run_cli("tools", "dmeo", cwd=tmp_path)
    assert (ran.code, ran.out) == (4, "")
    assert (
        ran.err
        == "error: there is no server 'dmeo' in the settings; did you mean 'demo'?\nhint: the servers are demo\n"
    )


def test_a_disabled_server_is_not_started(tmp_path: Path) -> None:
    write_settings(tmp_path, {"off": {"command": DEMO[0], "args": [DEMO[1]], "disabled": True}})
    for words in (("tools",), ("call", "mcp__off__echo", "text=hi")):
        ran = run_cli(*words, cwd=tmp_path)
        assert ran.code == 6 and ran.err.startswith("error: off is disabled in the settings\n")


# ---- a server of its own -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command, code, told",
    [
        (("nosuchcommand",), 5, "command not found: 'nosuchcommand'"),
        ((sys.executable, "-c", "import sys; sys.exit('no key')"), 5, "exited with code 1\n  | no key\nhint: "),
        ((sys.executable, "-c", "print('hello')"), 5, "error: "),
        ((), 2, "no command given after --"),
    ],
)
def test_a_command_that_is_not_a_server_is_reported_in_one_line_with_a_hint(
    command: tuple[str, ...], code: int, told: str, tmp_path: Path
) -> None:
    ran = run_cli("tools", "--", *command, cwd=tmp_path)
    assert ran.code == code and told in ran.err and "hint: " in ran.err and "Traceback" not in ran.err


@pytest.mark.parametrize(
    "words, hint",
    [
        (("tools", "--", "no-such-program"), "`toolcrib doctor -- COMMAND` diagnoses the start step by step"),
        (("tools", "-c", "other.json"), "`toolcrib doctor -c other.json` diagnoses the start step by step"),
        (
            ("tools", "http://127.0.0.1:9/mcp"),
            "`toolcrib doctor http://127.0.0.1:9/mcp` diagnoses the connection step by step",
        ),
        (("tools", "http://me:s3cret@127.0.0.1:9/mcp"), "`toolcrib doctor URL` diagnoses the connection step by step"),
        (("tools", "empty.py"), "`toolcrib doctor empty.py` diagnoses the start step by step"),
    ],
)
def test_the_hint_shows_how_to_diagnose_the_same_server(words: tuple[str, ...], hint: str, tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("", "utf-8")
    write_settings(tmp_path, {"one": {"command": "no-such-program"}}, "other.json")
    ran = run_cli(*words, cwd=tmp_path)
    assert ran.code == 5 and ran.err.endswith(f"hint: {hint}\n")


@pytest.mark.parametrize(
    "words, line",
    [
        (("servers", "other.json"), "toolcrib servers -c other.json"),
        (("call", "other.json", "echo", "text=a"), "toolcrib call echo text=a -c other.json"),
    ],
)
def test_a_settings_file_in_place_of_a_server_leads_to_the_option(
    words: tuple[str, ...], line: str, tmp_path: Path
) -> None:
    ran = run_cli(*words, cwd=tmp_path)
    assert ran.code == 3 and ran.err.endswith(f"hint: a settings file goes after -c: {line}\n")
    write_settings(tmp_path, {"off": {"command": "x", "disabled": True}})
    assert "goes after -c" in run_cli("servers", "other.json", cwd=tmp_path).err


class NoServer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(404)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def page() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), NoServer) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/page"
        server.shutdown()
        thread.join()


def test_a_url_that_is_not_an_mcp_server_is_reported(page: str, tmp_path: Path) -> None:
    ran = run_cli("tools", page, cwd=tmp_path)
    assert ran.code == 5 and "404" in ran.err and "hint: most URLs of MCP servers end with /mcp or /sse" in ran.err
    assert "Traceback" not in ran.err and "?" not in ran.err


def test_a_url_without_its_scheme_is_not_taken_for_a_tool(page: str, tmp_path: Path) -> None:
    write_settings(tmp_path, {})
    ran = run_cli("call", page.removeprefix("http://"), "add", cwd=tmp_path)
    assert ran.code == 4 and f"hint: a URL starts with http:// or https://: toolcrib call {page} add\n" in ran.err


def test_a_url_with_a_closed_port_is_reported(tmp_path: Path) -> None:
    ran = run_cli("tools", "http://127.0.0.1:9/mcp", cwd=tmp_path)
    assert ran.code == 5 and "connecting failed: 127.0.0.1:9: Connection refused\nhint: " in ran.err


@pytest.mark.parametrize(
    "words, code, told",
    [
        (("tools", "none.py"), 4, "none.py: file not found in "),
        (("tools", "npx", "foo"), 3, "hint: the command of a server goes after --: toolcrib tools -- npx foo"),
        (
            ("tools", "localhost:80/mcp"),
            3,
            "hint: a URL starts with http:// or https://: toolcrib tools http://localhost",
        ),
        (("call", "x.io/mcp", "f", "a=1"), 3, "with http:// or https://: toolcrib call https://x.io/mcp f a=1\n"),
        (("tools", "http://127.0.0.1:9/mcp", "more"), 2, "expected one server only"),
        (("tools", "http://127.0.0.1:9/mcp", "--", "x"), 2, "which server"),
        (("call", "http://127.0.0.1:9/mcp", "echo", "--", "x"), 2, "which server"),
    ],
)
def test_a_target_that_cannot_be_meant_is_wrong_usage(
    words: tuple[str, ...], code: int, told: str, tmp_path: Path
) -> None:
    ran = run_cli(*words, cwd=tmp_path)
    assert ran.code == code and told in ran.err


def test_time_to_start_is_what_was_given(tmp_path: Path) -> None:
    silent = (sys.executable, "-c", "import sys; sys.stdin.read()")
    ran = run_cli("tools", "--timeout", "0.5", "--", *silent, cwd=tmp_path)
    assert ran.code == 5 and "Traceback" not in ran.err


# ---- every kind of server ------------------------------------------------------------------------------------


def test_a_python_file(tmp_path: Path) -> None:
    shutil.copy(GOODS_FILE, tmp_path / "goods.py")
    ran = run_cli("tools", "goods.py", cwd=tmp_path)
    assert ran.code == 0 and ran.rows[0][0] == "mcp__goods__typed"
    assert run_cli("call", "goods.py", "typed", "count=3", cwd=tmp_path).json["count"] == 3
    assert run_cli("read", "goods.py:server", "goods://number/5", cwd=tmp_path).out == "number 5\n"


def test_a_toolcrib_server_over_http(tmp_path: Path) -> None:
    server = tc.ToolServer("ours")

    @server.tool
    def double(n: int) -> int:
        return 2 * n

    with in_background(served(server.asgi())) as address:
        ran = run_cli("call", f"{address}/mcp", "double", "n=4", cwd=tmp_path)
    assert (ran.code, ran.out) == (0, "8\n")


def as_words(server: tc.ServerConfig) -> list[str]:
    """The end of a command line that names this server."""
    assert isinstance(server, tc.StdioServer)
    return ["--", server.command, *server.args]


@pytest.mark.parametrize(
    "peer",
    [
        pytest.param(peer, id=str(peer), marks=[] if (peer.framework, peer.mode) in EVERY_CHANGE else NIGHTLY)
        for peer in HTTP_PEERS
    ],
)
def test_sdk_and_fastmcp_servers_over_http_in_both_eras(
    peer: Peer,
    server_of: Callable[..., tc.ServerConfig],  # noqa: F811  # the fixture
    tmp_path: Path,
) -> None:
    server = server_of(peer)
    assert isinstance(server, tc.HttpServer)
    if peer.mode == "auto":
        address = [server.url]
    else:  # which a line of the settings says
        settings = tmp_path / "toolcrib.toml"
        settings.write_text(f'[hub]\nmode = "{peer.mode}"\n[servers.peer]\nurl = "{server.url}"\n')
        address = ["peer"]
    (row,) = run_cli("servers", *address, cwd=tmp_path).rows
    assert row[1:3] == ["connected", peer.version] and int(row[3]) > 0
    ran = run_cli("call", *address, "add", "a=2", "b=3", cwd=tmp_path)
    assert ran.code == 0 and "5" in ran.out


def test_the_npm_servers(npm_server: Callable[..., tc.StdioServer], tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "hello.txt").write_text("hello", "utf-8")
    files = as_words(npm_server("filesystem", str(tmp_path)))
    ran = run_cli("call", "read_text_file", f"path={tmp_path}/hello.txt", *files, cwd=tmp_path)
    assert (ran.code, ran.out) == (0, "hello\n")
    everything = as_words(npm_server("everything"))
    ran = run_cli("call", "get-tiny-image", *everything, cwd=tmp_path)
    assert ran.code == 0 and (tmp_path / "get-tiny-image.png").read_bytes().startswith(b"\x89PNG")
    memory = as_words(npm_server("memory"))
    ran = run_cli("tools", "--search", "create entities", "--limit", "1", *memory, cwd=tmp_path)
    assert ran.rows[0][0].endswith("create_entities")


@pytest.mark.slow
def test_a_pypi_server_through_uvx(tmp_path: Path) -> None:
    uvx = shutil.which("uvx")
    if uvx is None:
        pytest.skip("uvx is not on this machine")
    words = ("--timeout", "100", "--", uvx, "mcp-server-time==2026.8.18", "--local-timezone", "UTC")
    ran = run_cli("call", "get_current_time", "timezone=UTC", *words, cwd=tmp_path)
    assert ran.code == 0 and "UTC" in ran.out, ran.err
