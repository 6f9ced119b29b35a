"""`toolcrib doctor` on servers of this machine: what is found, the fix, the exit code, and that nothing is left."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import COMMAND, DEMO, ROOT, Ran, environment, run_cli, show_cli, terminal, write_settings
from tests.faults.kit import alive, noise_in, until
from toolcrib.hub.start_queue import DEFAULT_LIMIT

BAD = (sys.executable, "-S", "-E", str(ROOT / "tests/faults/bad_server.py"))


def settings(folder: Path, **servers: Any) -> None:
    write_settings(folder, servers).chmod(0o600)


def stdio(*command: str, **more: Any) -> dict[str, Any]:
    return {"command": command[0], "args": list(command[1:]), **more}


def bad(**script: Any) -> dict[str, Any]:
    return stdio(*BAD, json.dumps(script))


def step(ran: Ran, server: str, name: str) -> dict[str, Any]:
    """Return the JSON of one step of one server."""
    (checkup,) = [each for each in ran.json["servers"] if each["server"] == server]
    found = [each for each in checkup["steps"] if each["step"] == name]
    assert len(found) == 1, checkup["steps"]
    return dict(found[0])


def facts(ran: Ran, server: str) -> dict[str, Any]:
    return dict(next(each for each in ran.json["servers"] if each["server"] == server))


def test_a_server_that_is_well_has_every_step_and_its_time(tmp_path: Path) -> None:
    settings(tmp_path, demo=stdio(*DEMO))
    ran = run_cli("doctor", "--json", cwd=tmp_path)
    assert (ran.code, ran.err) == (0, "")
    demo = facts(ran, "demo")
    assert [each["step"] for each in demo["steps"]] == ["settings", "command", "starts", "protocol", "answers", "tools"]
    assert demo["verdict"] == "ok"
    assert (demo["era"], demo["protocol_version"], demo["tools"]) == ("modern", "2026-07-28", 5)
    assert (demo["resources"], demo["prompts"], demo["paged"]) == (1, 1, False)
    assert step(ran, "demo", "settings")["text"] == ".mcp.json:1"
    assert facts(ran, "demo")["command"] == sys.executable
    assert all(step(ran, "demo", name)["seconds"] >= 0 for name in ("starts", "answers", "tools"))
    assert ran.json["tokens"] == demo["tokens"] > 100


def test_servers_are_started_a_few_at_a_time(tmp_path: Path) -> None:
    """All at once they slow each other down, and each is then called slow."""
    log, count = tmp_path / "log.txt", DEFAULT_LIMIT + 3
    slow = (sys.executable, "-S", "-E", str(ROOT / "tests/hub/slow_child.py"), str(log))
    settings(tmp_path, **{f"s{n}": stdio(*slow, f"s{n}", "0.3") for n in range(count)})
    ran = run_cli("doctor", "--json", cwd=tmp_path)
    assert [each["tools"] for each in ran.json["servers"]] == [1] * count
    lines = [line.split()[0] for line in log.read_text().splitlines()]
    starting = [lines[:n].count("start") - lines[:n].count("ready") for n in range(len(lines) + 1)]
    assert 1 < max(starting) <= DEFAULT_LIMIT


def test_a_server_named_ad_hoc_is_examined_too(tmp_path: Path) -> None:
    ran = run_cli("doctor", "--json", "--", *DEMO, cwd=tmp_path)
    assert ran.code == 0
    assert ran.json["files"] == []
    assert [each["tools"] for each in ran.json["servers"]] == [5]


def test_without_json_a_program_gets_a_line_for_each_step(tmp_path: Path) -> None:
    settings(tmp_path, demo=stdio(*DEMO), gone=stdio("no-such-program"))
    ran = run_cli("doctor", cwd=tmp_path)
    assert ran.code == 1
    assert ["demo", "ok", "tools"] in [row[:3] for row in ran.rows]
    (red,) = [row for row in ran.rows if row[1] == "error"]
    assert red[:3] == ["gone", "error", "command"]
    assert "no-such-program" in red[4]
    assert red[5]
    assert "2 servers: 1 ok, 1 broken; 5 tools" in ran.err


def test_servers_that_do_not_start_are_reported_with_exit_code_stderr_and_a_fix(tmp_path: Path) -> None:
    said = "first line\nError: SOME_TOKEN is required"
    settings(
        tmp_path,
        dies=bad(exit={"code": 3, "stderr": said}),
        killed=stdio(sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"),
        lost=stdio(sys.executable, str(tmp_path / "nowhere.py")),
        idle=stdio(sys.executable, "-c", "server = 'never run'"),
    )
    ran = run_cli("doctor", "--json", cwd=tmp_path)
    assert ran.code == 1
    dies = step(ran, "dies", "starts")
    assert "exited with code 3" in dies["text"]
    assert dies["quoted"].splitlines() == said.splitlines()
    assert "${SOME_TOKEN}" in dies["fix"]
    assert facts(ran, "dies")["exit_code"] == 3
    assert "signal 9" in step(ran, "killed", "starts")["text"]
    assert "nowhere.py" in step(ran, "lost", "starts")["fix"]
    assert "must call server.run()" in step(ran, "idle", "starts")["fix"]


def launcher(folder: Path, name: str, stderr: str, code: int) -> dict[str, Any]:
    """A program of this name that writes what the real one writes, and ends as it does."""
    (folder / f"{name}.txt").write_text(stderr, "utf-8")
    program = folder / name
    program.write_text(f'#!/bin/sh\ncat "{folder / name}.txt" >&2\nexit {code}\n')
    program.chmod(0o700)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.parametrize(
    "name, args, code, stderr, text, fix",
    [
        (
            "uvx",
            ["some-mcp", "--port", "1"],
            1,
            (
                "Traceback (most recent call last):\nModuleNotFoundError: No module named 'mcp.server.fastmcp'. "
                "This is mcp 2.x, where FastMCP was renamed to MCPServer; pin 'mcp<2' to keep running v1 code.\n"
            ),
            "version 2 is installed",
            "uvx --with 'mcp<2' some-mcp ...",
        ),
        (
            "uvx",
            ["windows-mcp"],
            1,
            (
                "error: No solution found when resolving tool dependencies\n  cause: Because the current Python "
                "version (3.11.7) does not satisfy Python>=3.14 and windows-mcp>=0.8.6 depends on Python>=3.14, we can "
                "conclude that windows-mcp>=0.8.6 cannot be used.\n"
            ),
            "it needs Python 3.14 or newer",
            "uvx --python 3.14 windows-mcp",
        ),
        (
            "docker",
            ["run", "-i", "--rm", "mcp/time"],
            125,
            (
                "docker: failed to connect to the docker API at unix:///var/run/docker.sock; check if the path is "
                "correct and if the daemon is running: dial unix /var/run/docker.sock: connect: no such file or "
                "directory\n\nRun 'docker run --help' for more information\n"
            ),
            "the Docker daemon is not running",
            "start Docker",
        ),
        (
            "npx",
            ["-y", "@modelcontextprotocol/server-redis"],
            1,
            "[Redis Error] Error: connect ECONNREFUSED 127.0.0.1:6379\n    at TCPConnectWrap.afterConnect\n",
            "it cannot reach 127.0.0.1:6379",
            "start the service at 127.0.0.1:6379",
        ),
    ],
    ids=["mcp-2", "python-too-old", "no-docker-daemon", "no-backend"],
)
def test_a_launcher_that_fails_leads_to_the_fix_that_works(
    tmp_path: Path, name: str, args: list[str], code: int, stderr: str, text: str, fix: str
) -> None:
    settings(tmp_path, one={"command": name, "args": args, "env": launcher(tmp_path, name, stderr, code)})
    ran = run_cli("doctor", "--json", cwd=tmp_path)
    found = step(ran, "one", "starts")
    assert (ran.code, found["verdict"]) == (1, "error")
    assert f"exited with code {code}" in found["text"]
    assert text in found["text"]
    assert fix in found["fix"]


@pytest.mark.parametrize(
    "message, stderr, host",
    [
        ("getaddrinfo ENOTFOUND db.internal", "", "db.internal"),
        ("Internal error", "connect ECONNREFUSED 127.0.0.1:5432", "127.0.0.1:5432"),
    ],
)
def test_a_server_that_cannot_reach_its_backend_is_reported_with_the_backend(
    tmp_path: Path, message: str, stderr: str, host: str
) -> None:
    program = tmp_path / "server.py"
    program.write_text(BACKEND.format(message=message, stderr=stderr))
    settings(tmp_path, one=stdio(sys.executable, str(program)))
    ran = run_cli("doctor", "--json", cwd=tmp_path)
    found = step(ran, "one", "tools")
    assert (ran.code, found["verdict"]) == (1, "error")
    assert f"it cannot reach {host}" in found["text"]
    assert host in found["fix"] and "env" in found["fix"]


BACKEND = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {{"result": {{}}}}
    if asked["method"] == "initialize":
        info = {{"name": "x", "version": "1"}}
        tools = {{"tools": {{}}}}
        answer = {{"result": {{"protocolVersion": "2025-11-25", "capabilities": tools, "serverInfo": info}}}}
    elif asked["method"] != "ping":
        if asked["method"] == "tools/list":
            print({stderr!r}, file=sys.stderr, flush=True)
        answer = {{"error": {{"code": -32603, "message": {message!r}}}}}
    print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], **answer}}), flush=True)
"""


def test_a_server_that_waits_for_a_sign_in_is_reported_with_what_it_wrote(tmp_path: Path) -> None:
    program = (
        "import sys, time; print('visit https://x.invalid/authorize', file=sys.stderr, flush=True); time.sleep(99)"
    )
    settings(tmp_path, one=stdio(sys.executable, "-c", program))
    ran = run_cli("doctor", "--json", "--timeout", "1.5", cwd=tmp_path)
    found = step(ran, "one", "starts")
    assert "it waits for a sign-in at https://x.invalid/authorize" in found["text"]
    assert found["quoted"] == "visit https://x.invalid/authorize"
    assert "sign in" in found["fix"]


def test_a_placeholder_is_reported_as_such_and_not_as_a_secret(tmp_path: Path) -> None:
    values = ["<YOUR KEY>", "YOUR_API_KEY", "changeme", "sk-...", "xxxx"]
    settings(tmp_path, **{f"s{at}": stdio(*DEMO, env={"API_KEY": value}) for at, value in enumerate(values)})
    (tmp_path / ".mcp.json").chmod(0o644)
    ran = run_cli("doctor", "--json", cwd=tmp_path)
    for at in range(len(values)):
        found = step(ran, f"s{at}", "placeholders")
        assert found["verdict"] == "warning"
        assert "env.API_KEY of .mcp.json:1 is a placeholder" in found["text"]
        assert "replace it by the real value" in found["fix"]
    assert "secret in plain text" not in ran.out and "holds secrets" not in ran.out


@pytest.mark.parametrize(
    "command, text, fix",
    [
        ("npxx", "npxx is not on its PATH", "did you mean 'npx'?"),
        ("some-program --with arguments", "some-program --with arguments is not on its PATH", 'use "some-program"'),
        ("./here.sh", "is not executable", "chmod +x"),
        ("./nowhere.sh", "the file ./nowhere.sh does not exist", "path"),
    ],
)
def test_a_missing_command_is_reported_with_a_suggestion(tmp_path: Path, command: str, text: str, fix: str) -> None:
    (tmp_path / "here.sh").write_text("#!/bin/sh\n")
    settings(tmp_path, one={"command": command})
    ran = run_cli("doctor", "--json", cwd=tmp_path)
    found = step(ran, "one", "command")
    assert (ran.code, found["verdict"]) == (1, "error")
    assert text in found["text"]
    assert fix in found["fix"]


def test_a_program_that_only_a_shell_would_find_is_found_in_the_home(tmp_path: Path) -> None:
    program = tmp_path / ".local/bin/some-server"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    settings(tmp_path, one={"command": "some-server"}, two={"command": "x", "cwd": str(tmp_path / "gone")})
    ran = run_cli("doctor", "--json", cwd=tmp_path)
    assert str(program) in step(ran, "one", "command")["fix"]
    assert "is not a folder" in step(ran, "two", "command")["text"]


def test_entries_that_are_wrong_lack_a_variable_or_are_disabled_are_rows_like_the_others(tmp_path: Path) -> None:
    settings(
        tmp_path,
        wrong={"command": 5},
        lacks=stdio(*DEMO, env={"TOKEN": "${NOT_SET_ANYWHERE}"}),
        off=stdio(*DEMO, disabled=True),
    )
    ran = run_cli("doctor", "--json", cwd=tmp_path)
    assert ran.code == 1
    assert ".mcp.json:1" in step(ran, "wrong", "settings")["text"]
    assert "NOT_SET_ANYWHERE" in step(ran, "lacks", "variables")["fix"]
    assert step(ran, "off", "starts")["verdict"] == "skipped"
    assert "tools" not in facts(ran, "off")
    named = run_cli("doctor", "off", "--json", cwd=tmp_path)
    assert (named.code, facts(named, "off")["tools"]) == (0, 5)


def test_a_server_that_is_disabled_is_counted_as_such(tmp_path: Path) -> None:
    settings(tmp_path, demo=stdio(*DEMO), off=stdio(*DEMO, disabled=True))
    assert "2 servers: 1 ok, 1 disabled; 5 tools" in run_cli("doctor", cwd=tmp_path).err


def test_names_in_lists_that_match_no_tool_are_reported_and_only_allowed_tools_count(tmp_path: Path) -> None:
    settings(tmp_path, demo=stdio(*DEMO, allowed_tools=["add", "ecko"], blocked_tools=["zzz"]))
    ran = run_cli("doctor", "--json", cwd=tmp_path)
    assert (facts(ran, "demo")["tools"], ran.json["tools"]) == (1, 1)
    assert step(ran, "demo", "tools")["text"].startswith("1 of 5 tools, about ")
    allowed, blocked = [each for each in facts(ran, "demo")["steps"] if each["step"] == "rules"]
    assert (allowed["verdict"], allowed["text"]) == ("warning", "allowed_tools: unknown tool ecko")
    assert "did you mean 'echo'?" in allowed["fix"]
    assert blocked["text"] == "blocked_tools: unknown tool zzz"
    assert "the tools are add, echo" in blocked["fix"]


def test_a_rule_of_the_hub_that_matches_no_tool_is_reported_once_all_tools_are_known(tmp_path: Path) -> None:
    servers = f"[servers.demo]\ncommand = '{DEMO[0]}'\nargs = ['{DEMO[1]}']\n"
    hub = "[hub]\nallowed_tools = ['mcp__demo__add', 'mcp__demo__ecko*']\nrequire_approval = ['mcp__demo']\n"
    (tmp_path / "toolcrib.toml").write_text(servers + hub)
    (rule,) = [each for each in run_cli("doctor", "--json", cwd=tmp_path).json["files"] if each["step"] == "rules"]
    assert rule["text"] == "allowed_tools of [hub]: mcp__demo__ecko* matches no tool"
    (tmp_path / "toolcrib.toml").write_text(servers + hub + "[servers.off]\ncommand = 'x'\ndisabled = true\n")
    assert "rules" not in {each["step"] for each in run_cli("doctor", "--json", cwd=tmp_path).json["files"]}


def test_a_program_that_is_not_a_server_is_reported_as_such(tmp_path: Path) -> None:
    chatter = "import sys\nprint('hello', flush=True)\nsys.stdin.read()"
    settings(tmp_path, echoes=stdio("cat"), chatters=stdio(sys.executable, "-c", chatter))
    ran = run_cli("doctor", "--json", "--timeout", "2", cwd=tmp_path)
    assert "echoes its input" in step(ran, "echoes", "starts")["text"]
    assert "--timeout" not in step(ran, "echoes", "starts")["fix"]
    assert "stderr" in step(ran, "chatters", "starts")["fix"]


def test_warnings_count_only_if_they_shall(tmp_path: Path) -> None:
    settings(tmp_path, demo=stdio(*DEMO, env={"API_KEY": "do-not-show-this"}))
    ran = run_cli("doctor", cwd=tmp_path)
    assert ran.code == 0
    assert "${API_KEY}" in ran.out
    strict = run_cli("doctor", "--strict", cwd=tmp_path)
    assert strict.code == 1
    assert "do-not-show-this" not in ran.out + ran.err + strict.out + strict.err


def test_a_secret_stays_one_even_if_the_server_prints_it(tmp_path: Path) -> None:
    told = "import os, sys; sys.exit('the token is ' + os.environ['TOKEN'] + ' ' + sys.argv[2])"
    settings(tmp_path, one=stdio(sys.executable, "-c", told, "--key", "of-the-args", env={"TOKEN": "of-the-env"}))
    for how in ((), ("--json",)):
        ran = run_cli("doctor", *how, cwd=tmp_path)
        assert ran.code == 1
        assert "the token is" in ran.out
        assert "of-the-" not in ran.out + ran.err


def test_a_package_without_a_version_is_reported_with_the_pinned_spelling(tmp_path: Path) -> None:
    launcher = tmp_path / "npx"
    launcher.write_text(f"#!/bin/sh\nexec {' '.join(DEMO)}\n")
    launcher.chmod(0o700)
    line = {"command": str(launcher), "args": ["-y", "@scope/server"]}
    settings(tmp_path, one=line, pinned={**line, "args": ["-y", "@scope/server@1.2.3"]})
    ran = run_cli("doctor", "--json", cwd=tmp_path)
    assert ran.code == 0
    assert step(ran, "pinned", "package")["verdict"] == "ok"
    found = step(ran, "one", "package")
    assert found["verdict"] == "warning"
    assert "write @scope/server@1.0.0, if 1.0.0, the version that the server reports," in found["fix"]
    cached = tmp_path / ".npm/_npx/abc/node_modules/@scope/server/package.json"
    cached.parent.mkdir(parents=True)
    cached.write_text('{"version": "4.5.6"}')
    again = run_cli("doctor", "one", "--json", cwd=tmp_path)
    assert step(again, "one", "package")["fix"] == "write @scope/server@4.5.6"


def test_awkward_properties_of_a_server_are_reported(tmp_path: Path) -> None:
    settings(
        tmp_path,
        old=bad(era="legacy"),
        many=bad(tools=300, page=100),
        noisy=bad(banner="hello there"),
        stays=bad(stubborn=True),
        mute=bad(silent=["tools/list"]),
    )
    ran = run_cli("doctor", "--json", "--timeout", "4", cwd=tmp_path)
    assert (facts(ran, "old")["era"], facts(ran, "old")["protocol_version"]) == ("legacy", "2025-11-25")
    assert facts(ran, "many")["paged"] is True
    assert "in pages" in step(ran, "many", "tools")["text"]
    assert "hello there" in step(ran, "noisy", "stdout")["text"]
    assert "signal" in step(ran, "stays", "ends")["text"]
    assert "cannot be listed" in step(ran, "mute", "tools")["text"]
    assert ran.json["same_names"]["echo"] == ["old", "many", "noisy", "stays"]


def test_a_server_that_says_nothing_is_bounded_by_the_time_out(tmp_path: Path) -> None:
    settings(tmp_path, silent=bad(silent=["initialize", "server/discover"]), cat=stdio("sleep", "600"))
    ran = run_cli("doctor", "--json", "--timeout", "1", cwd=tmp_path)
    assert ran.code == 1
    for server in ("silent", "cat"):
        found = step(ran, server, "starts")
        assert found["seconds"] < 10
        assert "--timeout 4" in found["fix"]


def test_without_a_time_out_the_servers_own_holds_and_else_that_of_all(tmp_path: Path) -> None:
    silent = bad(silent=["initialize", "server/discover"])
    file = tmp_path / "servers.json"
    servers = {"hurried": {**silent, "connect_timeout": 0.5}, "other": silent}
    text = json.dumps({"mcpServers": servers, "hub": {"connect_timeout": 0.7}}, indent=1)
    file.write_text(text)
    ran = run_cli("doctor", "--json", "--config", str(file), cwd=tmp_path)
    assert "connect_timeout=0.5 s" in step(ran, "hurried", "starts")["text"]
    assert "connect_timeout=0.7 s" in step(ran, "other", "starts")["text"]
    lines = text.splitlines()
    for server, shown in (("hurried", '"connect_timeout": 0.5'), ("other", '"other": {')):
        at = next(number for number, line in enumerate(lines, 1) if shown in line)
        assert f"in {file}:{at}, or give doctor" in step(ran, server, "starts")["fix"]


def test_tools_that_a_model_cannot_understand_are_reported(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "import toolcrib as tc\nserver = tc.ToolServer('odd')\n@server.tool(name='get.it')\ndef get(x): return x\n"
    )
    (tmp_path / "toolcrib.toml").write_text('[servers.odd]\npython = "tools.py"\n')
    ran = run_cli("doctor", "--json", cwd=tmp_path)
    assert ran.code == 0
    odd = facts(ran, "odd")
    assert (odd["without_description"], odd["without_type"]) == (["get.it"], ["get.it.x"])
    assert {"descriptions", "types", "names"} <= {each["step"] for each in odd["steps"]}


def test_a_python_file_that_cannot_be_run_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import toolcrib\nraise ValueError('no way')\n")
    (tmp_path / "toolcrib.toml").write_text(
        '[servers.broken]\npython = "broken.py"\n[servers.gone]\npython = "gone.py"\n'
    )
    ran = run_cli("doctor", "--json", cwd=tmp_path)
    assert ran.code == 1
    assert "broken.py:2: ValueError: no way" in step(ran, "broken", "starts")["text"]
    assert "gone.py" in step(ran, "gone", "command")["text"]


def test_a_file_that_others_may_write_is_reported(tmp_path: Path) -> None:
    settings(tmp_path, demo=stdio(*DEMO))
    (tmp_path / ".mcp.json").chmod(0o666)
    ran = run_cli("doctor", "--json", cwd=tmp_path)
    assert [each["fix"] for each in ran.json["files"]] == ["chmod go-w .mcp.json"]
    assert stat.S_IMODE((tmp_path / ".mcp.json").stat().st_mode) == 0o666  # it is reported, not done


@pytest.mark.parametrize(
    "arguments, code, said",
    [
        (("doctor",), 3, "no settings found"),
        (("doctor", "demo"), 3, "no settings found"),
        (("doctor", "--config", "gone.json"), 3, "gone.json"),
    ],
)
def test_without_settings_there_is_one_clear_line(
    tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    ran = run_cli(*arguments, cwd=tmp_path)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_a_file_that_is_broken_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text('{\n"mcpServers": {\n')
    ran = run_cli("doctor", cwd=tmp_path)
    assert ran.code == 3
    assert ".mcp.json:3" in ran.err


# ---- in a terminal -------------------------------------------------------------------------------------------


def test_in_a_terminal_the_steps_are_shown_live_and_then_as_a_table(tmp_path: Path) -> None:
    settings(tmp_path, demo=stdio(*DEMO), slow=bad(delay=1.0))
    with terminal("doctor", cwd=tmp_path) as screen:
        screen.until(lambda text: "slow" in text and "starts" in text and "step" not in text)
        assert screen.exit_code() == 0
        text = screen.text
    assert "✓   starts" in text
    assert "2026-07-28 (modern era): demo 1.0.0" in text
    assert "echo, fail are tools of demo and slow" in text
    assert "2 servers: 2 ok; " in text
    # The progress is gone, and the table has its place.
    assert text.count("slow ") == 1


def test_in_a_narrow_terminal_what_was_found_has_its_room(tmp_path: Path) -> None:
    settings(tmp_path, gone=stdio("no-such-program"))
    screen = show_cli("doctor", cwd=tmp_path, width=40)
    assert screen.code == 1
    lines = screen.lines
    at = lines.index("✗ command")
    assert "gone" in lines[:at]
    assert lines[at + 1].startswith("  no-such-program is not on its PATH")
    assert any(line.startswith("  fix: ") for line in lines[at:])


def test_control_characters_of_a_server_never_reach_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e"
    settings(
        tmp_path, dies=bad(exit={"code": 3, "stderr": f"evil {evil} words"}), noisy=bad(banner=f"evil {evil} words")
    )
    screen = show_cli("doctor", cwd=tmp_path)
    assert screen.code == 1
    assert b"evil" in screen.bytes
    assert b"\x1b[2J" not in screen.bytes
    assert b"owned\x07" not in screen.bytes
    assert "\u202e".encode() not in screen.bytes
    assert "\x9b".encode() not in screen.bytes


def test_ctrl_c_ends_everything_at_once_with_130(tmp_path: Path) -> None:
    log = tmp_path / "log"
    settings(tmp_path, stuck=bad(log=str(log), silent=["initialize", "server/discover"]))
    with terminal("doctor", cwd=tmp_path) as screen:
        screen.until(lambda text: "stuck" in text and "starts" in text)
        until(lambda: log.exists() and "start" in log.read_text(), what="the server runs")
        pid = int(log.read_text().split()[1])
        screen.press("c")
        assert screen.exit_code(timeout=20) == 130
        assert "Traceback" not in screen.text
        assert not alive(pid)


def test_a_signal_to_the_process_leaves_no_server_behind(tmp_path: Path) -> None:
    log = tmp_path / "log"
    settings(tmp_path, stuck=bad(log=str(log), silent=["initialize", "server/discover"]))
    child = subprocess.Popen(
        [*COMMAND, "doctor"], cwd=tmp_path, env=environment(tmp_path), stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        until(lambda: log.exists() and "start" in log.read_text(), 30, "the server runs")
        os.kill(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=20)
    finally:
        child.kill()
    assert (child.returncode, out, noise_in(err.decode())) == (130, b"", [])
    until(lambda: not alive(int(log.read_text().split()[1])), 10, "the server has gone")
