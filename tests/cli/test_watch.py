"""`toolcrib watch`: what servers send, live, over stdio and HTTP, for people and for programs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.cli.kit import COMMAND, DEMO, ROOT, environment, run_cli, show_cli, terminal, write_settings
from tests.faults.kit import alive, noise_in
from tests.serving import served

BAD = (sys.executable, "-S", "-E", str(ROOT / "tests/faults/bad_server.py"))
PATIENCE = 30.0


def stdio(*command: str, **more: Any) -> dict[str, Any]:
    return {"command": command[0], "args": list(command[1:]), **more}


class Watching:
    """A running `toolcrib watch --json`: its lines are read as they come."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.seen: list[dict[str, Any]] = []

    async def until(self, kind: str, words: str = "", **facts: Any) -> dict[str, Any]:
        """The next line of this kind that has these words and facts."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while line := await self.process.stdout.readline():
                self.seen.append(json.loads(line))
                sight = self.seen[-1]
                if sight["kind"] == kind and words in sight["text"] and facts.items() <= sight.items():
                    return sight
        raise AssertionError(f"it ended before {kind} {words}: {self.seen}")


@asynccontextmanager
async def watching(*arguments: str, cwd: Path) -> AsyncIterator[Watching]:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "watch", "--json", *arguments, cwd=cwd, env=environment(cwd), stdout=subprocess.PIPE
    )
    try:
        yield Watching(process)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            await process.wait()


def test_a_call_is_seen_with_its_progress_its_logs_and_its_answer(tmp_path: Path) -> None:
    write_settings(tmp_path, {"demo": stdio(*DEMO)})
    ran = run_cli("watch", "demo", "--call", "slow_count", "steps=2", "seconds=0", "--count", "13", cwd=tmp_path)
    assert (ran.code, ran.err) == (0, "")
    seen = [(server, kind, text) for _, server, kind, text in ran.rows]
    assert {server for server, _, _ in seen} == {"demo"}
    told = [(kind, text) for _, kind, text in seen]
    assert told[0] == ("status", "connecting")
    assert told[1][1].startswith("connected: 2026-07-28")
    assert ("tools", "5: add, echo, slow_count, fail, greet") in told
    assert told[5] == ("call", 'slow_count {"steps": 2, "seconds": 0}')
    assert [text for kind, text in told if kind == "progress"] == [
        "slow_count 1/2 counted to 1",
        "slow_count 2/2 counted to 2",
    ]
    assert [text for kind, text in told if kind == "log"] == [
        "[debug demo] step 1",
        "[debug demo] step 2",
        "[info demo] counted 2 steps",
    ]
    assert told[-2][1].startswith("slow_count answered after")
    assert told[-1] == ("result", "slow_count: counted to 2")


def test_programs_get_a_line_of_json_for_each_with_all_facts(tmp_path: Path) -> None:
    ran = run_cli(
        *("watch", "--json", "--level", "info", "--call", "slow_count", "steps=1", "--count", "9", "--", *DEMO),
        cwd=tmp_path,
    )
    assert ran.code == 0
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert len(lines) == 9
    by_kind = {line["kind"]: line for line in lines}
    assert by_kind["progress"] | {"tool": "slow_count", "progress": 1, "total": 1} == by_kind["progress"]
    assert by_kind["log"] | {"level": "info", "logger": "demo", "data": "counted 1 steps"} == by_kind["log"]
    assert by_kind["tools"]["added"][0] == "add"
    assert by_kind["call"]["state"] == "answered"


async def test_a_tool_that_fails_is_an_answer_and_the_watch_goes_on(tmp_path: Path) -> None:
    async with watching("--call", "fail", "reason=no luck", "--", *DEMO, cwd=tmp_path) as watch:
        await watch.until("result", "fail: no luck", is_error=True)
        assert watch.process.returncode is None


@pytest.mark.parametrize(
    "arguments, code, said",
    [
        (("--call", "slow_cuont"), 4, "mcp__demo__slow_count"),
        (("--call", "slow_count", "steps=many"), 2, "steps"),
        (("steps=3",), 2, "--call NAME"),
        (("--level", "loud"), 2, "debug, info"),
        (("nobody",), 4, "demo"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(
    tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    write_settings(tmp_path, {"demo": stdio(*DEMO)})
    ran = run_cli("watch", *arguments, cwd=tmp_path)
    assert ran.code == code
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_it_ends_by_itself_if_no_server_can_be_started(tmp_path: Path) -> None:
    script = json.dumps({"exit": {"code": 3, "stderr": "no token"}})
    write_settings(tmp_path, {"dies": stdio(*BAD, script), "wrong": {"command": 5}})
    ran = run_cli("watch", cwd=tmp_path)
    assert ran.code == 5
    assert "no token" in ran.out + ran.err
    assert any(row[1:3] == ["wrong", "status"] for row in ran.rows)


@pytest.mark.parametrize(
    "words, rule", [(("echo", "text=x"), "disallowed_tools"), (("add", "a=1", "b=2"), "filter")], ids=["hub", "server"]
)
async def test_rules_of_the_settings_hold_for_the_call_too(tmp_path: Path, words: tuple[str, ...], rule: str) -> None:
    command, script = DEMO
    (tmp_path / "toolcrib.toml").write_text(
        f'[hub]\ndisallowed_tools = ["mcp__demo__echo"]\n[servers.demo]\ncommand = "{command}"\nargs = ["{script}"]\n'
        'blocked_tools = ["add"]\n'
    )
    async with watching("--call", *words, cwd=tmp_path) as watch:
        await watch.until("result", rule, is_error=True)
    assert "answered" not in [sight.get("state") for sight in watch.seen]


def test_secrets_and_control_characters_of_a_server_are_not_shown(tmp_path: Path) -> None:
    told = "import os, sys, time; sys.stderr.write(f'token {os.environ[\"TOKEN\"]} \\x1b[2Jevil\\n'); time.sleep(60)"
    write_settings(tmp_path, {"one": stdio(sys.executable, "-c", told, env={"TOKEN": "do-not-show-this"})})
    for how in ((), ("--json",)):
        ran = run_cli("watch", *how, "--count", "2", cwd=tmp_path)
        assert ran.code == 0
        assert "token <masked>" in ran.out
        assert "do-not-show" not in ran.out
        assert "\x1b" not in ran.out


async def test_a_server_that_dies_is_seen_to_go_and_to_come_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    write_settings(tmp_path, {"one": stdio(*BAD, json.dumps({"log": str(log)}))})
    async with watching(cwd=tmp_path) as watch:
        await watch.until("status", "connected:", state="connected", again=False)
        await watch.until("tools")
        os.kill(int(log.read_text().split()[1]), signal.SIGKILL)
        gone = await watch.until("status", "disconnected", state="disconnected")
        assert "signal 9" in gone["text"]
        await watch.until("status", "connected again", again=True)


async def test_a_resource_that_changes_is_seen(tmp_path: Path) -> None:
    write_settings(tmp_path, {"demo": stdio(*DEMO)})
    arguments = ("--resource", "demo://status", "--call", "slow_count", "steps=5")
    async with watching(*arguments, cwd=tmp_path) as watch:
        await watch.until("resource", "subscribed", uri="demo://status")
        await watch.until("resource", "changed", uri="demo://status")


async def test_a_subscription_that_is_refused_is_reported(tmp_path: Path) -> None:
    write_settings(tmp_path, {"one": stdio(*BAD, json.dumps({"era": "legacy", "refused": ["resources/subscribe"]}))})
    async with watching("-r", "some://thing", cwd=tmp_path) as watch:
        await watch.until("resource", "no subscription to some://thing", state="refused")


async def test_over_http_tools_are_seen_to_come_and_go_and_the_server_too(tmp_path: Path) -> None:
    server = tc.ToolServer("math")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    def double(a: int) -> int:
        """Twice as much."""
        return 2 * a

    async with served(server.asgi()) as origin, watching(f"{origin}/mcp", "--poll", "0.3", cwd=tmp_path) as watch:
        assert (await watch.until("tools"))["added"] == ["add"]
        server.add_tool(double)
        assert (await watch.until("tools"))["added"] == ["double"]
        server.remove_tool("add")
        gone = await watch.until("tools")
        assert (gone["removed"], gone["text"]) == (["add"], "- add")
    assert watch.process.returncode == 130


async def test_the_loss_and_the_return_of_a_server_behind_a_url_are_reported(tmp_path: Path) -> None:
    demo = [str(ROOT / "examples/demo_http_server.py"), "--port"]

    async def start(port: str) -> tuple[asyncio.subprocess.Process, str]:
        process = await asyncio.create_subprocess_exec(sys.executable, *demo, port, stdout=subprocess.PIPE)
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        return process, next(word for word in line.split() if word.startswith("http"))

    process, url = await start("0")
    try:
        async with watching(url, "--poll", "0.3", cwd=tmp_path) as watch:
            await watch.until("tools")
            process.kill()
            await process.wait()
            await watch.until("status", "no ")
            process, _ = await start(url.partition("://")[2].partition("/")[0].rpartition(":")[2])
            await watch.until("status", state="connected")
    finally:
        process.kill()
        await process.wait()


async def test_it_goes_on_if_a_server_goes_away_as_soon_as_its_tools_are_seen(tmp_path: Path) -> None:
    server = tc.ToolServer("math")
    server.add_tool(lambda a: a, name="same")
    server.add_prompt(lambda a: a, name="ask")
    app, seen, is_back = server.asgi(), asyncio.Event(), asyncio.Event()

    async def leaving(scope: Any, receive: Any, send: Any) -> None:
        messages = [await receive()] if scope["type"] == "http" else []
        if any(b'"prompts/list"' in message.get("body", b"") for message in messages) and not is_back.is_set():
            await seen.wait()  # the start is not over yet, and the tools are on the screen
            await send({"type": "http.response.start", "status": 503, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
            return

        async def replayed() -> Any:
            return messages.pop() if messages else await receive()

        await app(scope, replayed, send)

    async with served(leaving) as origin, watching(f"{origin}/mcp", "--poll", "0.3", cwd=tmp_path) as watch:
        await watch.until("tools")
        seen.set()
        await watch.until("status", "no ")
        is_back.set()
        await watch.until("status", state="connected")
    assert watch.process.returncode == 130


# ---- its end -------------------------------------------------------------------------------------------------


async def test_ctrl_c_ends_it_cleanly_with_130_and_leaves_no_server(tmp_path: Path) -> None:
    log = tmp_path / "log"
    write_settings(tmp_path, {"one": stdio(*BAD, json.dumps({"log": str(log)}))})
    with terminal("watch", cwd=tmp_path) as screen:
        await asyncio.to_thread(screen.until, "tools")
        pid = int(log.read_text().split()[1])
        assert alive(pid)
        screen.press("c")
        assert screen.exit_code(timeout=20) == 130
        assert noise_in(screen.text) == []
        assert not alive(pid)


def test_a_time_limit_and_a_closed_pipe_end_it_too(tmp_path: Path) -> None:
    write_settings(tmp_path, {"demo": stdio(*DEMO)})
    assert run_cli("watch", "--for", "0.01", cwd=tmp_path).code == 0
    line = f"{' '.join(COMMAND)} watch | head -1"
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, noise_in(done.stderr)) == (0, [])
    assert "connecting" in done.stdout


def test_in_a_terminal_it_is_a_line_for_each_with_time_server_and_kind(tmp_path: Path) -> None:
    write_settings(tmp_path, {"demo": stdio(*DEMO)})
    screen = show_cli("watch", "--call", "echo", "text=hello", "--count", "8", cwd=tmp_path)
    assert screen.code == 0
    lines = screen.text.splitlines()
    assert len(lines) == 8
    assert lines[-1].split()[1:4] == ["demo", "result", "echo:"]
