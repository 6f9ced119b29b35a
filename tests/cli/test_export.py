"""`toolcrib export`: the settings in other programs' words, and no secret among them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import Ran, run_cli
from toolcrib.settings import load_settings

TOML = """\
[hub]
start = "lazy"

[servers.fs]
command = "fs"
args = ["${ROOT:-/data}"]
env = { TOKEN = "${TOKEN}" }
cwd = "/w"
execution_timeout = 2

[servers.web]
url = "https://example.com/mcp"
headers = { Authorization = "Bearer ${TOKEN}" }

[servers.old]
type = "sse"
url = "https://example.com/sse"

[servers.mine]
python = "tools.py"

[servers.off]
command = "x"
disabled = true
"""
PLACES = {
    "claude": ".mcp.json",
    "vscode": ".vscode/mcp.json",
    "cursor": ".cursor/mcp.json",
    "gemini": ".gemini/settings.json",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "toolcrib.toml").write_text(TOML)
    return tmp_path


def run(folder: Path, *words: str) -> Ran:
    done = run_cli("export", *words, cwd=folder, env={"TOKEN": "s3cret"})
    assert "s3cret" not in done.out + done.err
    return done


def mine(folder: Path) -> Any:
    return {"command": sys.executable, "args": ["-P", "-m", "toolcrib", "run", f"{folder}/tools.py"]}


def test_claude_code(folder: Path) -> None:
    done = run(folder, "--for", "claude")
    assert done.code == 0
    assert done.json == {
        "mcpServers": {
            "fs": {"command": "fs", "args": ["${ROOT:-/data}"], "env": {"TOKEN": "${TOKEN}"}},
            "web": {
                "type": "http",
                "url": "https://example.com/mcp",
                "headers": {"Authorization": "Bearer ${TOKEN}"},
            },
            "old": {"type": "sse", "url": "https://example.com/sse"},
            "mine": mine(folder),
        }
    }
    assert done.err == (
        "fs: Claude Code cannot express cwd, execution_timeout\n"
        "off is not exported: toolcrib.toml:22 disables it, which Claude Code cannot express\n"
        "Claude Code has no options for all servers: start of [hub] not exported\n"
    )


def test_vs_code(folder: Path) -> None:
    done = run(folder, "--for", "vscode", "fs", "mine")
    assert done.json == {
        "servers": {
            "fs": {
                "type": "stdio",
                "command": "fs",
                "args": ["${env:ROOT}"],
                "env": {"TOKEN": "${env:TOKEN}"},
                "cwd": "/w",
            },
            "mine": {"type": "stdio", **mine(folder)},
        }
    }
    assert "fs: VS Code cannot express the default of ROOT, execution_timeout\n" in done.err


def test_cursor(folder: Path) -> None:
    done = run(folder, "--for", "cursor", "web", "old")
    web = {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}}
    assert done.json == {"mcpServers": {"web": web, "old": {"type": "sse", "url": "https://example.com/sse"}}}


def test_gemini(folder: Path) -> None:
    servers = run(folder, "--for", "gemini").json["mcpServers"]
    assert servers["fs"]["timeout"] == 2000 and servers["fs"]["cwd"] == "/w"
    assert servers["web"]["httpUrl"] == "https://example.com/mcp" and "url" not in servers["web"]
    assert servers["old"] == {"url": "https://example.com/sse"}


@pytest.mark.parametrize("program", PLACES)
def test_it_is_merged_into_the_programs_own_file(folder: Path, program: str) -> None:
    path = folder / PLACES[program]
    path.parent.mkdir(exist_ok=True)
    path.write_text('{\n  // mine\n  "$schema": "x"\n}\n')
    done = run(folder, "--for", program, "--write")
    assert done.code == 0, done.err
    assert f"added web: https://example.com/mcp  ({PLACES[program]}:" in done.out
    assert path.read_text().startswith('{\n  // mine\n  "$schema": "x",\n  "')
    settings = load_settings(path, environ={"TOKEN": "t", "ROOT": "/data"})
    assert set(settings.servers) == {"fs", "web", "old", "mine"}
    before = path.read_bytes()
    assert "web is already configured identically" in run(folder, "--for", program, "--write").out
    assert path.read_bytes() == before


def test_other_content_of_the_file_is_kept(folder: Path) -> None:
    (folder / ".mcp.json").write_text('{"mcpServers": {"own": {"command": "x", "execution_timeout": 5}}}')
    done = run(folder, "--for", "claude", "--write", "--replace")
    assert done.code == 0 and "own" not in done.out
    servers = json.loads((folder / ".mcp.json").read_text())["mcpServers"]
    assert servers["own"] == {"command": "x", "execution_timeout": 5} and "web" in servers


def test_another_file_can_be_named_and_what_is_there_is_kept(folder: Path) -> None:
    (folder / "out.json").write_text('{"servers": {"web": {"type": "http", "url": "https://other.io"}}}')
    done = run(folder, "--for", "vscode", "--to", "out.json", "web", "old")
    assert "web is skipped: out.json:1 differs" in done.err
    assert json.loads((folder / "out.json").read_text())["servers"]["web"]["url"] == "https://other.io"
    run(folder, "--for", "vscode", "--to", "out.json", "--replace", "web")
    servers = json.loads((folder / "out.json").read_text())["servers"]
    assert servers["web"]["url"] == "https://example.com/mcp" and set(servers) == {"web", "old"}


def test_a_broken_server_is_reported_and_the_others_are_exported(folder: Path) -> None:
    (folder / "toolcrib.toml").write_text('[servers.a]\ncomand = "x"\n\n[servers.b]\ncommand = "y"\n')
    done = run(folder, "--for", "claude")
    assert done.code == 3 and done.json == {"mcpServers": {"b": {"command": "y"}}}
    assert "error: a: toolcrib.toml:1:1: expected command" in done.err and "hint: a is not exported" in done.err


@pytest.mark.parametrize(
    "words, code, said",
    [
        ([], 2, "--for"),
        (["--for", "emacs"], 2, "emacs"),
        (["--for", "claude", "wbe"], 4, "there is no server 'wbe' in the settings; did you mean 'web'?"),
        (["--for", "claude", "--config", "no.json"], 3, "no.json: cannot be read"),
        (["--for", "claude", "--to", "toolcrib.toml"], 2, "nothing to export"),
        (["--for", "claude", "--to", "no/such.json"], 3, "cannot be written"),
    ],
)
def test_bad_input_is_one_clear_line(folder: Path, words: list[str], code: int, said: str) -> None:
    done = run(folder, *words)
    assert done.code == code and said in done.err and "Traceback" not in done.err
    assert done.out == "" and [path.name for path in folder.iterdir()] == ["toolcrib.toml"]
    assert (folder / "toolcrib.toml").read_text() == TOML


def test_paths_are_written_without_detours(tmp_path: Path) -> None:
    for name in ("project", "tools", "elsewhere"):
        (tmp_path / name).mkdir()
    settings = tmp_path / "project/toolcrib.toml"
    settings.write_text('[servers.mine]\npython = "../tools/mine.py"\n')
    done = run_cli("export", "--for", "claude", "--config", "../project/toolcrib.toml", cwd=tmp_path / "elsewhere")
    assert done.json["mcpServers"]["mine"]["args"][-2:] == ["run", f"{tmp_path}/tools/mine.py"]


def test_a_detour_through_a_link_leads_to_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "real/inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real/inner")
    (tmp_path / "link/toolcrib.toml").write_text('[servers.mine]\npython = "../mine.py"\n')
    done = run_cli("export", "--for", "claude", "--config", "link/toolcrib.toml", cwd=tmp_path)
    assert done.json["mcpServers"]["mine"]["args"][-2:] == ["run", f"{tmp_path}/real/mine.py"]


def test_claude_desktop_gets_absolute_paths_and_a_bridge_for_what_it_does_not_support(folder: Path) -> None:
    with (folder / "toolcrib.toml").open("a") as file:
        file.write('\n[servers.shell]\ncommand = "sh"\nargs = ["-c", "toolcrib.toml", "."]\n')
    done = run(folder, "--for", "claude-desktop", "mine", "web", "fs", "shell")
    assert done.code == 0, done.err
    servers = done.json["mcpServers"]
    toolcrib = [sys.executable, "-P", "-m", "toolcrib"]
    assert servers["mine"] == mine(folder)
    for name in ("web", "fs"):
        bridge = [*toolcrib, "bridge", name, "--config", f"{folder}/toolcrib.toml"]
        assert [servers[name]["command"], *servers[name]["args"]] == bridge
    assert Path(servers["shell"]["command"]).is_absolute() and servers["shell"]["args"] == [
        "-c",
        f"{folder}/toolcrib.toml",
        str(folder),
    ]
    assert (
        "web: Claude Desktop starts it with `toolcrib bridge`, which needs its variables in the environment" in done.err
    )


@pytest.mark.skipif(sys.platform == "darwin", reason="another folder there")
def test_claude_desktop_servers_are_merged_into_its_file(folder: Path) -> None:
    path = folder / ".config/Claude/claude_desktop_config.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"globalShortcut": "x", "mcpServers": {"desk": {"command": "desk"}}}')
    assert run(folder, "--for", "claude-desktop", "--write", "mine").code == 0
    written = json.loads(path.read_text())
    assert written["globalShortcut"] == "x" and written["mcpServers"] == {
        "desk": {"command": "desk"},
        "mine": mine(folder),
    }


def test_settings_without_servers_are_reported(tmp_path: Path) -> None:
    (tmp_path / "toolcrib.toml").write_text("")
    done = run(tmp_path, "--for", "claude")
    assert done.code == 0 and done.json == {"mcpServers": {}}
    assert done.err == "the settings have no servers; `toolcrib add` adds one\n"


def test_a_sign_in_that_is_turned_off_is_reported_if_the_program_cannot_express_it(tmp_path: Path) -> None:
    (tmp_path / "toolcrib.toml").write_text('[servers.web]\nurl = "https://example.com/mcp"\noauth = false\n')
    done = run(tmp_path, "--for", "claude")
    assert done.err == "web: Claude Code cannot express oauth = false, which turns the sign-in off\n"
    assert "oauth" not in done.json["mcpServers"]["web"]
    done = run(tmp_path, "--for", "gemini")
    assert not done.err and done.json["mcpServers"]["web"]["oauth"] == {"enabled": False}
