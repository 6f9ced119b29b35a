"""The command line as a whole: help, completion, wrong usage, exit codes, what is missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import DEMO, ROOT, environment, run_cli, run_process, write_settings
from toolcrib import __version__
from toolcrib.cli.command_table import COMMANDS
from toolcrib.cli.exit_codes import Exit
from toolcrib.hub.hub import Hub


def test_help_names_every_command_and_exit_code(tmp_path: Path) -> None:
    for arguments in ((), ("--help",)):
        ran = run_cli(*arguments, cwd=tmp_path)
        assert ran.code == 0 and all(name in ran.out for name in COMMANDS)
    codes = {code for code in Exit if code is not Exit.BUG}
    assert all(f"{code.value} " in ran.out for code in codes)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_loaded_and_has_help(name: str, tmp_path: Path) -> None:
    ran = run_cli(*name.split(), "--help", cwd=tmp_path)
    assert ran.code == 0 and f"toolcrib {name} [OPTIONS]" in ran.out and "{" not in ran.out.split("\n")[1], ran.err


def test_the_version_is_printed(tmp_path: Path) -> None:
    assert run_cli("--version", cwd=tmp_path).out == f"toolcrib {__version__}\n"


@pytest.mark.parametrize(
    "words, code", [(("--version",), 0), (("frob",), 2), (("tools",), 3), (("tools", "--", "no-such-program"), 5)]
)
def test_the_process_exits_with_the_code_of_the_command(words: tuple[str, ...], code: int, tmp_path: Path) -> None:
    here, process = run_cli(*words, cwd=tmp_path), run_process(*words, cwd=tmp_path)
    assert (process.code, process.out, process.err) == (code, here.out, here.err)
    assert here.code == code


@pytest.mark.parametrize(
    "arguments, told",
    [
        (("frob",), "No such command 'frob'."),
        (("tols",), "No such command 'tols'; did you mean 'tools'?"),
        (("list",), "No such command 'list'; did you mean 'tools'?"),
        (("tools", "--serch", "x"), "No such option: --serch; did you mean '--search'"),
        (("tools", "--frob"), "No such option: --frob"),
        (("tools", "--timeout", "soon"), "Invalid value for '--timeout'"),
        (("tools", "--timeout", "0"), "Invalid value for '--timeout'"),
        (("tools", "--timeout", "inf"), "Invalid value for '--timeout'"),
        (("auth",), "Missing command."),
        (("auth", "logn"), "No such command 'logn'; did you mean 'login'?"),
        (("init", "--", "x"), "`toolcrib init` takes no command after --"),
        (("call", "x", "--args"), "Option '--args' requires an argument."),
    ],
)
def test_wrong_usage_is_one_line_and_a_hint(arguments: tuple[str, ...], told: str, tmp_path: Path) -> None:
    ran = run_cli(*arguments, cwd=tmp_path)
    error, hint = ran.err.splitlines()
    assert (ran.code, ran.out) == (2, "") and error.startswith(f"error: {told}")
    known = "" if arguments[0] in ("frob", "tols", "list") else f"{arguments[0]} "
    assert hint == f"hint: `toolcrib {known}--help` shows its usage"


def test_an_argument_of_a_tool_as_an_option_leads_to_key_value(tmp_path: Path) -> None:
    ran = run_cli("call", "read", "--path", "a", cwd=tmp_path)
    assert ran.code == 2
    assert ran.err.endswith("hint: an argument of the tool is written as key=value, such as path=VALUE\n")


@pytest.mark.parametrize("option", ["--header", "-H"])
def test_a_header_for_a_url_leads_to_the_settings(option: str, tmp_path: Path) -> None:
    ran = run_cli("tools", "https://example.com/mcp", option, "Authorization: Bearer t", cwd=tmp_path)
    error, hint = ran.err.splitlines()
    assert (ran.code, error) == (2, f"error: No such option: {option}")
    assert "toolcrib add NAME URL --header" in hint


@pytest.mark.parametrize(
    "words, hint",
    [
        (("tools", "npx", "-y", "foo"), "toolcrib tools -- npx -y foo"),
        (("add", "fs", "/usr/bin/uvx", "--from", "a b"), "toolcrib add fs -- /usr/bin/uvx --from 'a b'"),
    ],
)
def test_a_command_without_its_dashes_gets_a_hint(words: tuple[str, ...], hint: str, tmp_path: Path) -> None:
    ran = run_cli(*words, cwd=tmp_path)
    assert ran.code == 2 and f"hint: the command of a server goes after --: {hint}\n" in ran.err


def test_a_command_in_place_of_a_server_gets_the_same_hint(tmp_path: Path) -> None:
    write_settings(tmp_path, {"demo": DEMO})
    ran = run_cli("tools", "npx", "foo", cwd=tmp_path)
    assert ran.code == 4 and "hint: the command of a server goes after --: toolcrib tools -- npx foo\n" in ran.err


@pytest.mark.parametrize("with_settings", [True, False])
def test_a_command_behind_the_arguments_of_a_tool_gets_the_same_hint(with_settings: bool, tmp_path: Path) -> None:
    if with_settings:
        write_settings(tmp_path, {"demo": DEMO})
    ran = run_cli("call", "add", "a=1", "b=2", "python3", "x.py", cwd=tmp_path)
    assert ran.code == (2 if with_settings else 3)
    assert "hint: the command of a server goes after --: toolcrib call add a=1 b=2 -- python3 x.py\n" in ran.err


@pytest.mark.parametrize("words", [(), ("tools",)])
def test_the_word_help_shows_the_help(words: tuple[str, ...], tmp_path: Path) -> None:
    assert run_cli("help", *words, cwd=tmp_path) == run_cli(*words, "--help", cwd=tmp_path)


def test_a_traceback_is_shown_only_on_request(tmp_path: Path) -> None:
    words = ("call", "nothing", "--", *DEMO)
    assert "Traceback" not in run_cli(*words, cwd=tmp_path).err
    debug = run_cli("--debug", *words, cwd=tmp_path)
    assert "Traceback" in debug.err and debug.code == 4
    assert "Traceback" in run_cli("call", "nothing", "--debug", "--", *DEMO, cwd=tmp_path).err


def test_a_bug_is_reported_as_a_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(Hub, "from_config", broken)
    ran = run_cli("tools", "--", *DEMO, cwd=tmp_path)
    assert (ran.code, ran.out) == (70, "") and "Traceback" not in ran.err
    assert ran.err == "error: KeyError: 'oops'\nhint: this is a bug in toolcrib: --debug shows the traceback\n"


def test_a_terminal_without_unicode_does_not_cause_a_failure(tmp_path: Path) -> None:
    ran = run_process("call", "echo", "text=日本 é", "--", *DEMO, cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"})
    assert (ran.code, ran.out) == (0, "?? ?\n")
    ran = run_process("call", "echo", "text=é", "--json", "--", *DEMO, cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"})
    assert ran.json["content"][0]["text"] == "é"


@pytest.mark.parametrize("closed, code", [("<&-", 0), (">&-", 0), ("2>&-", 0), ("<&- >&- 2>&-", 0), (">/dev/full", 1)])
def test_closed_and_full_streams_are_not_bugs(closed: str, code: int, tmp_path: Path) -> None:
    line = f"{sys.executable} -m toolcrib tools -- {' '.join(DEMO)} {closed}"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True)
    assert done.returncode == code and "Traceback" not in done.stderr and "bug" not in done.stderr
    assert ("mcp__demo_server__add" in done.stdout) == (">&-" not in closed.split() and ">/dev/full" not in closed)


# ---- completion ----------------------------------------------------------------------------------------------


def completed(line: str, cwd: Path) -> list[str]:
    """What Tab offers behind this line."""
    words = line.split(" ")
    asked = {"_TOOLCRIB_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return [row.removeprefix("plain,") for row in run_cli(cwd=cwd, env=asked).out.split()]


@pytest.mark.parametrize(
    "line, offered",
    [
        ("toolcrib ", list(dict.fromkeys(name.split()[0] for name in COMMANDS))),
        ("toolcrib auth ", ["login", "logout", "status"]),
        ("toolcrib re", ["resources", "read", "remove"]),
        ("toolcrib tools --sch", ["--schema"]),
        ("toolcrib tools ", ["demo", "other"]),
        ("toolcrib tools demo o", ["other"]),
        ("toolcrib call d", ["demo"]),
        ("toolcrib read o", ["other"]),
        ("toolcrib tools -c none.json d", []),
    ],
)
def test_the_shell_completes_commands_options_and_servers(line: str, offered: list[str], tmp_path: Path) -> None:
    write_settings(tmp_path, {"demo": DEMO, "other": DEMO})
    assert completed(line, tmp_path) == offered


# ---- what it needs -------------------------------------------------------------------------------------------


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-m", "toolcrib", "tools"]  # -S: no site-packages, so neither click nor rich
    env = {**environment(tmp_path), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 1 and "pip install click rich" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments, without",
    [
        (("--version",), {"rich", "asyncio", "aiohttp", "pydantic", "toolcrib.hub"}),
        (("tools", "--help"), {"rich", "asyncio", "aiohttp", "pydantic", "toolcrib.hub", "toolcrib.types"}),
        (("tools", "--", *DEMO), {"rich", "aiohttp", "jsonschema_rs", "toolcrib.server.server"}),
    ],
)
def test_a_command_loads_only_what_it_needs(arguments: tuple[str, ...], without: set[str], tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "toolcrib", *arguments]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ}, capture_output=True, text=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert done.returncode == 0 and "toolcrib.cli.app" in loaded and not loaded & without


def test_a_page_of_help_has_examples_and_no_types_of_python(tmp_path: Path) -> None:
    shown = run_cli("call", "--help", cwd=tmp_path).out
    assert "Usage: toolcrib call [OPTIONS] [SERVER] NAME [KEY=VALUE]... [-]\n" in shown
    assert "\nExamples:\n  toolcrib call mcp__fs__read_file path=notes.txt\n" in shown
    for name in COMMANDS:
        shown = run_cli(*name.split(), "--help", cwd=tmp_path).out
        assert not re.search(r"<(bool|str|int|float|list|path)\b", shown), name


def test_a_command_loads_no_validators(tmp_path: Path) -> None:
    """pydantic takes longer to import than many servers take to start."""
    program = "import sys; from toolcrib.cli.app import run; run(sys.argv[1:]); sys.exit('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program, "tools", "--", *DEMO], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done
