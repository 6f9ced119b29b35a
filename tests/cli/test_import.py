"""`toolcrib import`: what other programs have is shown first, and imported on request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import run_cli, terminal
from toolcrib.settings import load_settings

HOMES = {
    ".claude.json": {"mcpServers": {"user": {"type": "http", "url": "https://claude.io/mcp"}}, "other": 1},
    ".config/Claude/claude_desktop_config.json": {"mcpServers": {"desk": {"command": "desk", "args": ["a b"]}}},
    ".config/Code/User/mcp.json": {
        "servers": {
            "code": {"type": "stdio", "command": "code", "args": ["${workspaceFolder}", "${env:KEY}"]},
            "asks": {"command": "x", "env": {"K": "${input:k}"}},
        }
    },
    ".cursor/mcp.json": {"mcpServers": {"fs": {"command": "fs", "env": {"T": "${env:KEY}"}, "envFile": ".env"}}},
    ".gemini/settings.json": {
        "mcpServers": {"g": {"httpUrl": "https://g.io", "timeout": 5000}, "off": {"command": "off"}},
        "mcp": {"excluded": ["off"]},
    },
}
FOUND = ["desk", "code", "asks", "fs", "g", "off", "user"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project; the home above it has settings of every program."""
    for name, content in HOMES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content, indent=2))
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def run(folder: Path, *words: str, **env: str) -> Any:
    return run_cli("import", *words, cwd=folder, env={"HOME": str(folder.parent), **env})


def taken(folder: Path) -> Any:
    return json.loads((folder / ".mcp.json").read_text())["mcpServers"]


def test_what_is_found_is_shown_and_nothing_is_taken_unasked(folder: Path) -> None:
    done = run(folder)
    assert done.code == 0 and [row[1] for row in done.rows] == FOUND
    assert done.rows[0] == [
        "1",
        "desk",
        "claude-desktop",
        "desk 'a b'",
        "~/.config/Claude/claude_desktop_config.json:3",
        "new",
    ]
    assert [row[-1] for row in done.rows] == ["new", "new", "broken", "new", "new", "disabled", "new"]
    assert "${input:k} prompts the user" in done.err and "name the servers, or give --all" in done.err
    assert list(folder.iterdir()) == []


def test_all_is_all_that_is_neither_broken_nor_off_with_variables_kept(folder: Path) -> None:
    done = run(folder, "--all", KEY="s3cret")
    assert done.code == 0 and "s3cret" not in done.out + done.err
    assert taken(folder) == {
        "desk": {"command": "desk", "args": ["a b"]},
        "code": {"command": "code", "args": [str(folder), "${KEY}"]},
        "fs": {"command": "fs", "env": {"T": "${KEY}"}},
        "g": {"type": "http", "url": "https://g.io", "execution_timeout": 5.0},
        "user": {"type": "http", "url": "https://claude.io/mcp"},
    }
    assert "fs: not imported, because it has no effect here: envFile" in done.err
    settings = load_settings(folder / ".mcp.json", environ={"KEY": "k"})
    assert len(settings.servers) == 5 and not settings.warnings


def test_one_program_and_names_choose(folder: Path) -> None:
    assert [row[1] for row in run(folder, "gemini").rows] == ["g", "off"]
    done = run(folder, "desk", "off")
    assert "added desk: desk 'a b'  (.mcp.json:3)" in done.out
    assert "off is disabled in" in done.err and taken(folder)["off"] == {"command": "off", "disabled": True}
    assert run(folder, "cursor", "fs", "--config", "mine.toml").code == 0
    assert (folder / "mine.toml").read_text() == '[servers.fs]\ncommand = "fs"\nenv = { T = "${KEY}" }\n'


def test_any_file_can_be_named(folder: Path) -> None:
    (folder / "given.json").write_text('{"servers": {"x": {"command": "x"}}}')
    assert run(folder, "given.json", "--all").rows[-1] == ["added x: x  (.mcp.json:3)"]
    (folder / "given.json").write_text('{"servers": {]}')
    broken = run(folder, "given.json", "--all")
    assert broken.code == 3 and "given.json:1:14: " in broken.err
    assert run(folder, "no/such.json").code == 3


def test_what_is_there_is_skipped_unless_it_is_to_be_replaced(folder: Path) -> None:
    text = '{"mcpServers": {"fs": {"command": "mine"}, "desk": {"command": "desk", "args": ["a b"]}}}'
    (folder / ".mcp.json").write_text(text)
    states = {row[1]: row[-1] for row in run(folder).rows}
    assert states["fs"] == "configured differently" and states["desk"] == "already configured" and states["g"] == "new"
    skipped = run(folder, "fs", "desk")
    assert skipped.code == 0 and "desk is already configured identically  (.mcp.json:1)" in skipped.out
    assert "fs is skipped: .mcp.json:1 differs; --replace overwrites it" in skipped.err
    assert (folder / ".mcp.json").read_text() == text
    assert "replaced fs: fs  (.mcp.json:1)" in run(folder, "fs", "--replace").out
    assert taken(folder)["fs"]["command"] == "fs"


def test_a_dry_run_writes_nothing(folder: Path) -> None:
    done = run(folder, "--all", "--dry-run")
    assert "would write desk, code, fs, g, user to .mcp.json" in done.err
    assert list(folder.iterdir()) == []


def test_json_is_for_programs(folder: Path) -> None:
    found = run(folder, "--json").json
    assert [each["name"] for each in found] == FOUND
    assert found[2]["state"] == "broken" and "mcp.json:14:" in found[2]["error"]
    assert found[0] == {
        "name": "desk",
        "program": "claude-desktop",
        "file": str(folder.parent / ".config/Claude/claude_desktop_config.json"),
        "line": 3,
        "server": "desk 'a b'",
        "state": "new",
        "error": None,
    }


def test_the_projects_own_wins_over_the_persons(folder: Path) -> None:
    (folder / ".cursor").mkdir()
    (folder / ".cursor/mcp.json").write_text('{"mcpServers": {"fs": {"command": "of-the-project"}}}')
    done = run(folder, "cursor", "--all")
    assert "fs of " in done.err and "is not imported" in done.err
    assert taken(folder)["fs"] == {"command": "of-the-project"}


@pytest.mark.parametrize(
    "words, code, said",
    [
        (["no-such"], 4, "there is no server 'no-such' in the settings of other programs"),
        (["usr"], 4, "did you mean 'user'?"),
        (["asks"], 3, "${input:k} prompts the user"),
        (["--all", "fs"], 2, "--all cannot be combined with server names"),
        (["--all", "--json"], 2, "--json lists what is found"),
    ],
)
def test_bad_input_is_one_clear_line(folder: Path, words: list[str], code: int, said: str) -> None:
    done = run(folder, *words)
    assert done.code == code and said in done.err and "Traceback" not in done.err
    assert list(folder.iterdir()) == []


def test_an_unreadable_file_is_reported_and_the_others_are_used(folder: Path) -> None:
    (folder.parent / ".cursor/mcp.json").write_text("{")
    done = run(folder, "--all")
    assert done.code == 0 and ".cursor/mcp.json:1:2: " in done.err and "its servers are skipped" in done.err
    assert set(taken(folder)) == {"desk", "code", "g", "user"}


def test_at_a_terminal_it_asks_which(folder: Path) -> None:
    with terminal("import", cwd=folder, env={"HOME": str(folder.parent)}) as person:
        person.until("Import which?")
        person.type("99")
        person.until("'99' is neither a number nor a name")
        person.type("1, g")
        assert person.exit_code() == 0
        assert "added desk" in person.text and "added g" in person.text
    assert set(taken(folder)) == {"desk", "g"}


@pytest.mark.parametrize("key, code", [("d", 0), ("c", 130)])
def test_an_aborted_prompt_imports_nothing(folder: Path, key: str, code: int) -> None:
    with terminal("import", cwd=folder, env={"HOME": str(folder.parent)}) as person:
        person.until("Import which?")
        person.press(key)
        assert person.exit_code() == code
        assert "Traceback" not in person.text
    assert list(folder.iterdir()) == []


def test_a_machine_without_other_programs(tmp_path: Path) -> None:
    done = run_cli("import", cwd=tmp_path)
    assert (done.code, done.out) == (0, "") and "no servers found" in done.err


SECRETS = {
    "mcpServers": {
        "tavily": {"command": "t", "args": ["--api-key", "tvly-123456"], "env": {"API_TOKEN": "first-secret"}},
        "github": {"url": "https://x.io/mcp?api_key=url-secret", "headers": {"Authorization": "Bearer second-secret"}},
        "other": {"command": "o", "env": {"API_TOKEN": "third-secret"}},
    }
}
LITERALS = ("tvly-123456", "first-secret", "url-secret", "second-secret", "third-secret")


def test_secrets_become_references_and_the_variables_to_set_are_named(folder: Path) -> None:
    (folder / "given.json").write_text(json.dumps(SECRETS))
    done = run(folder, "given.json", "--all")
    text = (folder / ".mcp.json").read_text()
    assert done.code == 0 and not [each for each in LITERALS if each in text + done.out + done.err]
    servers = taken(folder)
    assert servers["tavily"] == {
        "command": "t",
        "args": ["--api-key", "${API_KEY}"],
        "env": {"API_TOKEN": "${API_TOKEN}"},
    }
    assert servers["github"]["url"] == "https://x.io/mcp?api_key=${GITHUB_API_KEY}"
    assert servers["github"]["headers"] == {"Authorization": "Bearer ${TOKEN}"}
    assert servers["other"]["env"] == {"API_TOKEN": "${OTHER_API_TOKEN}"}
    assert "other: wrote ${OTHER_API_TOKEN} instead of the secret in env.API_TOKEN" in done.err
    assert "warning: other: set OTHER_API_TOKEN to the secret in env.API_TOKEN of given.json:1" in done.err
    assert {row[1]: row[-1] for row in run(folder, "given.json").rows}["tavily"] == "already configured"


def test_secrets_are_kept_on_request_in_a_file_for_the_user_only(folder: Path) -> None:
    (folder / "given.json").write_text(json.dumps(SECRETS))
    (folder / ".mcp.json").write_text('{"mcpServers": {}}')
    (folder / ".mcp.json").chmod(0o644)
    for name in (".mcp.json", "new.json"):
        assert run(folder, "given.json", "--all", "--keep-secrets", "--config", name).code == 0
        path = folder / name
        assert path.stat().st_mode & 0o777 == 0o600 and all(each in path.read_text() for each in LITERALS)


def test_a_sign_in_that_is_turned_off_stays_off(folder: Path) -> None:
    url = "https://example.com/mcp"
    gemini = {"mcpServers": {"g": {"httpUrl": url, "oauth": {"enabled": False, "clientId": "me"}}}}
    (folder.parent / ".gemini/settings.json").write_text(json.dumps(gemini))
    (folder / "given.json").write_text(json.dumps({"mcpServers": {"web": {"url": url, "oauth": False}}}))
    for words in (("gemini", "g"), ("given.json", "web")):
        done = run(folder, *words)
        assert done.code == 0 and "not imported" not in done.err
    assert {name: values["oauth"] for name, values in taken(folder).items()} == {"g": False, "web": False}
    status = run_cli("auth", "status", cwd=folder)
    assert [row[:2] for row in status.rows] == [["g", "sign-in turned off"], ["web", "sign-in turned off"]]
