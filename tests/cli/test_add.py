"""`toolcrib add`: every way to say a server, into the right file, and nothing else of it is touched."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import COMMAND, DEMO, environment, run_cli, show_cli
from toolcrib.settings import load_settings


def servers(path: Path) -> Any:
    return json.loads(path.read_text())["mcpServers"]


@pytest.mark.parametrize(
    "words, name, values",
    [
        (["fs", "--", "npx", "-y", "x@1", "."], "fs", {"command": "npx", "args": ["-y", "x@1", "."]}),
        (
            ["--", "npx", "-y", "@scope/server-fs@1.2"],
            "server-fs",
            {"command": "npx", "args": ["-y", "@scope/server-fs@1.2"]},
        ),
        (
            ["fs", "--env", "A=b=c", "-e", "TOKEN", "--cwd", "/w", "--", "srv"],
            "fs",
            {"command": "srv", "env": {"A": "b=c", "TOKEN": "${TOKEN}"}, "cwd": "/w"},
        ),
        (["web", "https://example.com/mcp"], "web", {"type": "http", "url": "https://example.com/mcp"}),
        (["https://example.com:1/mcp"], "example-com-1", {"type": "http", "url": "https://example.com:1/mcp"}),
        (
            ["web", "https://x.io", "--transport", "sse", "--header", "A=${V:-b=c}", "-H", "X-Key: ${TOKEN}"],
            "web",
            {"type": "sse", "url": "https://x.io", "headers": {"A": "${V:-b=c}", "X-Key": "${TOKEN}"}},
        ),
        (["fs", '{"command": "srv", "args": []}'], "fs", {"command": "srv", "args": []}),
    ],
)
def test_the_command_line_says_a_server(tmp_path: Path, words: list[str], name: str, values: Any) -> None:
    done = run_cli("add", *words, cwd=tmp_path, env={"TOKEN": "t"})
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"added {name}: ") and done.out.endswith("(.mcp.json:3)\n")
    assert servers(tmp_path / ".mcp.json") == {name: values}


@pytest.mark.parametrize(
    "words, stdin, expected",
    [
        ([], '{"mcpServers": {"a": {"command": "x"}, "b": {"url": "https://x"}}}', {"a", "b"}),
        (["-"], '{"servers": {"a": {"command": "x"}}} // VS Code', {"a"}),
        ([], '{"a": {"command": "x"}}', {"a"}),
        ([], '"a": {"command": "x"},', {"a"}),
        (["n"], '{"mcpServers": {"a": {"command": "x"}}}', {"n"}),
        (["n", "-"], '{"command": "x"}', {"n"}),
        (
            [],
            '{"command": "uvx", "args": ["mcp-server-time"], "env": {"Z": "${NO_SUCH_VARIABLE}"}}',
            {"mcp-server-time"},
        ),
        ([], '{"httpUrl": "https://example.com/mcp"}', {"example-com"}),
    ],
)
def test_json_on_stdin_says_servers_as_instructions_show_them(
    tmp_path: Path, words: list[str], stdin: str, expected: set[str]
) -> None:
    done = run_cli("add", *words, cwd=tmp_path, stdin=stdin)
    assert done.code == 0, done.err
    assert set(servers(tmp_path / ".mcp.json")) == expected


def test_a_sign_in_that_is_turned_off_stays_off(tmp_path: Path) -> None:
    given = {"mcpServers": {"web": {"url": "https://example.com/mcp", "oauth": False}}}
    ran = run_cli("add", cwd=tmp_path, stdin=json.dumps(given))
    assert ran.code == 0 and "not written" not in ran.err
    assert servers(tmp_path / ".mcp.json")["web"]["oauth"] is False


def test_a_python_file_is_in_process_for_us_and_a_command_for_others(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("")
    (tmp_path / "toolcrib.toml").write_text("")
    assert run_cli("add", "mine", "tools.py:server", cwd=tmp_path).code == 0
    assert (tmp_path / "toolcrib.toml").read_text() == '[servers.mine]\npython = "tools.py:server"\n'
    assert run_cli("add", "tools.py", "--config", ".mcp.json", cwd=tmp_path).code == 0
    assert servers(tmp_path / ".mcp.json") == {
        "tools": {"command": "toolcrib", "args": ["run", f"{tmp_path}/tools.py"]}
    }


def test_a_missing_command_for_a_python_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("")
    program = tmp_path / "bin/toolcrib"
    program.parent.mkdir()
    told = run_cli("add", "tools.py", cwd=tmp_path, env={"PATH": str(program.parent)})
    assert told.code == 0 and "the entry starts toolcrib, which is not on PATH" in told.err
    program.touch(0o700)
    assert run_cli("add", "other", "tools.py", cwd=tmp_path, env={"PATH": str(program.parent)}).err == ""


def test_the_file_is_the_one_that_is_named_or_there_or_new(tmp_path: Path) -> None:
    run_cli("add", "a", "--config", "other.json", "--", "x", cwd=tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["other.json"]
    run_cli("add", "b", "--", "x", cwd=tmp_path)
    assert set(servers(tmp_path / ".mcp.json")) == {"b"}
    (tmp_path / "toolcrib.toml").write_text("")
    run_cli("add", "c", "--", "x", cwd=tmp_path)
    assert list(load_settings(tmp_path / "toolcrib.toml").servers) == ["c"]
    own = run_cli("add", "d", "--user", "--", "x", cwd=tmp_path)
    assert f"({tmp_path}/.config/toolcrib/toolcrib.toml:1)" in own.out
    assert run_cli("add", "e", "--user", "--config", "x.json", "--", "x", cwd=tmp_path).code == 2


def test_each_programs_file_gets_its_own_words(tmp_path: Path) -> None:
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini/settings.json").write_text('{\n  "theme": "dark" // mine\n}\n')
    run_cli("add", "web", "https://x.io/mcp", "--config", ".gemini/settings.json", cwd=tmp_path)
    web = '    "web": {\n      "httpUrl": "https://x.io/mcp"\n    }\n'
    expected = f'{{\n  "theme": "dark", // mine\n  "mcpServers": {{\n{web}  }}\n}}\n'
    assert (tmp_path / ".gemini/settings.json").read_text() == expected


def test_a_name_that_is_taken_is_kept_unless_it_is_to_be_replaced(tmp_path: Path) -> None:
    run_cli("add", "fs", "--", "old", cwd=tmp_path)
    taken = run_cli("add", "fs", "--", "new", cwd=tmp_path)
    assert taken.code == 2 and "error: .mcp.json:3: there is already a server 'fs'\nhint: --replace" in taken.err
    assert servers(tmp_path / ".mcp.json")["fs"]["command"] == "old"
    again = run_cli("add", "fs", "--", "old", cwd=tmp_path)
    assert (again.code, again.out) == (0, "fs is already configured identically  (.mcp.json:3)\n")
    assert run_cli("add", "fs", "--replace", "--", "new", cwd=tmp_path).out == "replaced fs: new  (.mcp.json:3)\n"
    assert servers(tmp_path / ".mcp.json") == {"fs": {"command": "new"}}


def test_a_secret_is_written_and_warned_about_but_not_shown(tmp_path: Path) -> None:
    secret = "ghp_" + "a1" * 15
    done = run_cli("add", "gh", "--env", f"GITHUB_TOKEN={secret}", "--", "gh-mcp", "--token", secret, cwd=tmp_path)
    assert done.code == 0 and secret not in done.out + done.err
    assert "warning: gh: env.GITHUB_TOKEN looks like a secret stored in plain text in .mcp.json\nhint: " in done.err
    assert "write ${GITHUB_TOKEN} there" in done.err and "gh: args[1]" in done.err
    assert servers(tmp_path / ".mcp.json")["gh"]["env"] == {"GITHUB_TOKEN": secret}
    kept = run_cli(
        "add", "ok", "--env", "GITHUB_TOKEN=${GITHUB_TOKEN}", "--", "x", cwd=tmp_path, env={"GITHUB_TOKEN": secret}
    )
    assert kept.err == ""


def test_a_variable_that_is_not_set_is_reported(tmp_path: Path) -> None:
    done = run_cli("add", "gh", "--env", "NO_SUCH_VARIABLE", "--", "x", cwd=tmp_path)
    assert done.code == 0
    assert "warning: gh: the variable NO_SUCH_VARIABLE is not set" in done.err


@pytest.mark.parametrize(
    "words, stdin, code, said",
    [
        ([], "", 2, "no server given"),
        (
            ["fs", "npx"],
            "",
            2,
            "'npx' is neither a URL, a Python file nor JSON\nhint: a command goes after --: toolcrib add fs -- npx",
        ),
        (["my server", "--", "x"], "", 2, "'my server' is not a valid server name"),
        (["fs", "https://x.io", "--", "x"], "", 2, "which server: https://x.io, or the command after --?"),
        (["fs", "no-such.py"], "", 4, "no-such.py: file not found in "),
        (["fs", "https://x.io", "--env", "A=b"], "", 2, "--env has no effect on https://x.io"),
        (["fs", "--header", "A=b", "--", "x"], "", 2, "--header has no effect on a command"),
        (["fs", "--header", "A", "--", "x"], "", 2, "--header: expected NAME=VALUE"),
        (["fs", "--env", "=b", "--", "x"], "", 2, "--env: expected NAME=VALUE"),
        (["fs", "--env", "A=b"], '{"command": "x"}', 2, "belong to a command or a URL"),
        (["fs", "--", ""], "", 3, "command: expected a non-empty string"),
        (["fs", "https://"], "", 3, "url: expected an absolute http:// or https:// URL"),
        (["fs", "--env", "A=${B", "--", "x"], "", 3, "env.A: expected } at the end of a variable"),
        ([], '{"mcpServers": {\n "a": {"command" "x"}}}', 3, "stdin:2:18: mcpServers.a.command: expected a colon"),
        ([], '{"mcpServers": {\n "a": {"comand": "x"}}}', 3, "stdin:2:2: expected command"),
        ([], '{"mcpServers": {}}', 2, "the JSON has no servers"),
        (["n"], '{"a": {"command": "x"}, "b": {"command": "y"}}', 2, "'n' cannot name 2 servers"),
        ([], "[1]", 3, "expected an object of settings"),
        ([], '{"command": 1, "args": 2}', 3, "stdin:1:2: command: expected a non-empty string"),
        (["fs", '{"command": }'], "", 3, "JSON:1:13: command: expected a value"),
    ],
)
def test_bad_input_is_one_clear_line_and_writes_nothing(
    tmp_path: Path, words: list[str], stdin: str, code: int, said: str
) -> None:
    done = run_cli("add", *words, cwd=tmp_path, stdin=stdin)
    assert done.code == code, done.err
    assert done.err.startswith("error: ") and said in done.err and "Traceback" not in done.err
    assert done.out == "" and os.listdir(tmp_path) == []


@pytest.mark.parametrize("content", ["", " \n"])
def test_an_empty_file_is_treated_as_missing(tmp_path: Path, content: str) -> None:
    (tmp_path / ".mcp.json").write_text(content)
    done = run_cli("add", "fs", "--", "srv", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert servers(tmp_path / ".mcp.json") == {"fs": {"command": "srv"}}


def test_a_broken_file_is_reported_with_its_line_and_stays(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text('{\n  "mcpServers": {,}\n}')
    done = run_cli("add", "fs", "--", "x", cwd=tmp_path)
    assert done.code == 3 and done.err.startswith("error: .mcp.json:2:18: ")
    assert (tmp_path / ".mcp.json").read_text() == '{\n  "mcpServers": {,}\n}'


def test_check_starts_the_server_before_anything_is_written(tmp_path: Path) -> None:
    good = run_cli("add", "demo", "--check", "--", *DEMO, cwd=tmp_path)
    first, second = good.out.splitlines()
    assert first.startswith("demo  connected  20") and " 5 tools  " in first
    assert second.startswith("added demo: ")
    bad = run_cli("add", "bad", "--check", "--", "no-such-program-here", cwd=tmp_path)
    assert bad.code == 5 and bad.err.startswith("error: bad: ")
    assert set(servers(tmp_path / ".mcp.json")) == {"demo"}


def test_a_file_that_overrides_the_added_server_is_reported(tmp_path: Path) -> None:
    (tmp_path / "toolcrib.toml").write_text('[servers.fs]\ncommand = "x"\n')
    done = run_cli("add", "fs", "--config", ".mcp.json", "--", "y", cwd=tmp_path)
    assert "warning: toolcrib.toml:1 also defines fs, and takes precedence" in done.err


def test_settings_that_are_no_longer_used_are_reported(tmp_path: Path) -> None:
    run_cli("add", "a", "--user", "--", "x", cwd=tmp_path)
    done = run_cli("add", "b", "--", "y", cwd=tmp_path)
    assert "this folder now has its own settings" in done.err
    assert "settings of its own" not in run_cli("add", "c", "--", "y", cwd=tmp_path).err


def test_stdin_that_is_not_text_is_reported(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "add"], input=b'{"\xff', cwd=tmp_path, capture_output=True, env=environment(tmp_path), timeout=60
    )
    assert (done.returncode, done.stderr) == (3, b"error: stdin:1:3: is not UTF-8 text\n")


def test_at_a_terminal_it_does_not_wait_for_stdin(tmp_path: Path) -> None:
    person = show_cli("add", cwd=tmp_path)
    assert person.code == 2
    assert "no server given" in person.text
