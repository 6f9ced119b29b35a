"""`toolcrib run`: the tools of a Python file, over stdio, HTTP and SSE."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

import toolcrib as tc
from tests.cli.kit import COMMAND, environment, run_cli, terminal

TOOLS = """
import sys
import toolcrib as tc
from beside import WORD

print("printed while it was loaded", flush=True)
server = tc.ToolServer("garden", "1.0")

@server.tool
def word() -> str:
    print("printed while it ran", flush=True)
    return WORD

@server.tool
def around() -> list[str]:
    return [sys.argv[0], __file__, __name__]

if __name__ == "__main__":
    raise SystemExit("this part is not run")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("WORD = 'rose'\n")
    tools = tmp_path / "tools.py"
    tools.write_text(TOOLS)
    return tools


def over_stdio(file: Path | str, *options: str) -> tc.StdioServer:
    return tc.StdioServer(COMMAND[0], [*COMMAND[1:], "run", str(file), *options])


@asynccontextmanager
async def over_web(file: Path | str, *options: str) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """The URL at which it says that it serves, and its process; which is ended, if the test did not."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "run", str(file), "--port", "0", *options, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            while b" serves MCP at " not in (line := await process.stderr.readline()):
                assert line, "it ended"
        yield next(word for word in line.decode().split() if word.startswith("http")), process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("mode, version", [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
async def test_a_file_is_served_over_stdio_and_stdout_stays_clean(file: Path, mode: str, version: str) -> None:
    said: list[str] = []
    async with tc.Client(over_stdio(file), mode=mode, stderr_handler=said.append) as client:
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.protocol_version) == ("garden", version)
        assert (await client.call_tool("word")).text == "rose"
        assert client.counters.malformed == 0
    assert "printed while it was loaded" in said


async def test_the_file_finds_around_it_what_python_gives_a_program(file: Path) -> None:
    async with tc.Client(over_stdio(file)) as client:
        argv, own_file, name = json.loads((await client.call_tool("around")).text)
    assert (argv, own_file) == (str(file), str(file))
    assert name != "__main__"


async def test_modules_beside_the_file_come_before_what_is_installed(file: Path) -> None:
    (file.parent / "pluggy.py").write_text("WORD = 'mine, not the one that is installed'\n")
    file.write_text(TOOLS.replace("from beside", "from pluggy"))
    async with tc.Client(over_stdio(file)) as client:
        assert (await client.call_tool("word")).text == "mine, not the one that is installed"


@pytest.mark.parametrize("name", ["multiprocessing", "configparser"])
async def test_a_file_may_be_called_like_a_module_of_python_that_is_needed_to_serve_it(file: Path, name: str) -> None:
    named = file.rename(file.with_name(f"{name}.py"))
    async with over_web(named, "--http") as (url, _), tc.Client(tc.HttpServer(url)) as client:
        assert (await client.call_tool("word")).text == "rose"


@pytest.mark.parametrize("options, path", [(("--http",), "/mcp"), (("--transport", "sse"), "/sse")])
async def test_a_file_is_served_at_a_url(file: Path, options: tuple[str, ...], path: str) -> None:
    async with over_web(file, *options) as (url, process):
        assert url.endswith(path)
        async with tc.Client(url) as client:
            assert (await client.call_tool("word")).text == "rose"
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(20):
            assert await process.wait() == 0


@pytest.mark.parametrize("options", [("--http", "--reload"), ("--transport", "sse")])
@pytest.mark.parametrize("auth", ["", ", auth=lambda headers: 'me'"], ids=["without auth", "with auth"])
async def test_the_line_with_the_url_says_whether_the_server_is_without_authorisation(
    file: Path, auth: str, options: tuple[str, ...]
) -> None:
    file.write_text(
        f"import toolcrib as tc\nserver = tc.ToolServer('garden'{auth})\n"
        "if __name__ == '__main__':\n    server.run('http', auth=lambda headers: 'me')\n"
    )
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "run", str(file), "--port", "0", *options, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            line = (await process.stderr.readline()).decode()
    finally:
        process.terminate()
        await process.communicate()
    path = "/sse" if "sse" in options else "/mcp"
    remark = "" if auth else r" \(without authorisation\)"
    assert re.fullmatch(rf"garden 0\.0\.0 serves MCP at http://127\.0\.0\.1:\d+{path}{remark}\n", line)


async def test_the_path_can_be_chosen(file: Path) -> None:
    async with over_web(file, "--http", "--path", "/tools") as (url, _), tc.Client(url) as client:
        assert url.endswith("/tools")
        assert (await client.call_tool("word")).text == "rose"


async def test_one_of_several_servers_is_named(file: Path) -> None:
    file.write_text("import toolcrib as tc\none, two = tc.ToolServer('one'), tc.ToolServer('two')\n")
    async with tc.Client(over_stdio(f"{file}:two")) as client:
        assert client.server_info is not None and client.server_info.name == "two"


async def test_functions_that_are_tools_need_no_server(file: Path) -> None:
    file.write_text("import toolcrib as tc\n@tc.tool\ndef add(a: int, b: int) -> int:\n    return a + b\n")
    async with tc.Client(over_stdio(file)) as client:
        assert client.server_info is not None and client.server_info.name == "tools"
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"


async def test_what_the_file_says_of_logging_holds(file: Path) -> None:
    logging = "import logging\nlogging.basicConfig(format='MINE %(message)s', level='INFO')\nlogging.info('hello')\n"
    file.write_text(logging + TOOLS)
    said: list[str] = []
    async with tc.Client(over_stdio(file), stderr_handler=said.append) as client:
        await client.call_tool("word")
    assert "MINE hello" in said


@pytest.mark.parametrize(
    "text, words, shows",
    [
        ("import toolcrib\n1 / 0\n", "{file}:2: ZeroDivisionError: division by zero", 'File "{file}", line 2'),
        ("x = (\n", "{file}:1: SyntaxError: '(' was never closed", 'File "{file}", line 1'),
        ("x = 1\n", "{file}: no ToolServer found; define one", None),
        (
            "import toolcrib as tc\na, b = tc.ToolServer('a'), tc.ToolServer('b')\n",
            "{file}: expected one ToolServer, got several",
            None,
        ),
    ],
)
def test_an_error_in_a_file_is_reported_with_only_its_own_lines(
    file: Path, text: str, words: str, shows: str | None
) -> None:
    file.write_text(text)
    ran = run_cli("run", str(file), cwd=file.parent)
    assert (ran.code, ran.out) == (3, "")
    assert f"error: {words.format(file=file)}" in ran.err
    assert (shows.format(file=file) in ran.err) if shows else ("Traceback" not in ran.err)
    assert "pyfile.py" not in ran.err and "cli/" not in ran.err


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "server.py").touch()
    ran = run_cli("run", "serve.py", cwd=tmp_path)
    expected = f"error: serve.py: file not found in {tmp_path}; did you mean 'server.py'?\n"
    assert (ran.code, ran.err) == (3, expected)


def test_other_machines_are_let_in_only_on_purpose(file: Path) -> None:
    ran = run_cli("run", str(file), "--http", "--host", "0.0.0.0", "--port", "0", cwd=file.parent)
    assert ran.code == 2
    assert ran.err.splitlines()[1:] == [  # without what the file prints
        "error: --host: 0.0.0.0 can be reached from other machines",
        "hint: --allow-remote accepts unauthenticated requests from other machines; or give the ToolServer an `auth`",
    ]


def test_a_port_in_use_is_reported(file: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run_cli("run", str(file), "--http", "--port", str(port), cwd=file.parent)
    assert ran.code == 2
    assert f"error: --port: cannot listen on 127.0.0.1:{port}" in ran.err


def test_a_user_at_a_terminal_sees_why_nothing_happens(file: Path) -> None:
    with terminal("run", str(file), cwd=file.parent) as screen:
        screen.until("waits for a client's messages; --http serves it at a URL")
        screen.press("c")
        assert screen.exit_code() == 0
        assert "Traceback" not in screen.text


# ---- the end ---------------------------------------------------------------------------------------------------


def _begun(file: Path, *options: str) -> subprocess.Popen[bytes]:
    """A server that has answered, so that all of it is there."""
    process = subprocess.Popen(
        [*COMMAND, "run", str(file), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(file.parent),
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    process.stdin.flush()
    assert json.loads(process.stdout.readline()) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    return process


def _end(process: subprocess.Popen[bytes], how: Any) -> None:
    assert process.stdin is not None
    if how == "EOF":
        process.stdin.close()
        process.stdin = None
    else:
        process.send_signal(how)


@pytest.mark.parametrize("how", ["EOF", signal.SIGINT, signal.SIGTERM], ids=str)
@pytest.mark.parametrize("options", [(), ("--reload",)], ids=["plain", "reload"])
def test_it_ends_quietly_and_leaves_no_process(file: Path, how: Any, options: tuple[str, ...]) -> None:
    process = _begun(file, *options)
    children = psutil.Process(process.pid).children(recursive=True)
    _end(process, how)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, b""), err
    assert b"Traceback" not in err
    assert psutil.wait_procs(children, timeout=10)[1] == []


async def test_it_ends_with_its_parent(file: Path) -> None:
    """A parent that is killed closes nothing in good order, but its pipes end."""
    code = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE); time.sleep(3600)"
    parent = subprocess.Popen([sys.executable, "-c", code, *COMMAND, "run", str(file)], stderr=subprocess.PIPE)
    assert parent.stderr is not None
    try:
        assert b"printed while it was loaded" in parent.stderr.readline()
        (child,) = psutil.Process(parent.pid).children()
    finally:
        parent.kill()
        parent.communicate()
    assert psutil.wait_procs([child], timeout=20)[1] == []
