"""A settings file is changed atomically, and never to something invalid."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from toolcrib.errors import ConfigError
from toolcrib.settings import edit as writing_module
from toolcrib.settings import load_settings
from toolcrib.settings.documents import Document
from toolcrib.settings.edit import edit, put_servers, remove_servers
from toolcrib.types import ReconnectPolicy

from .files import write

NEW = {"command": "npx", "args": ["-y", "x"]}


@pytest.mark.parametrize("name", [".mcp.json", "toolcrib.toml", "other.json"])
def test_a_file_that_is_not_there_is_made(tmp_path: Path, name: str) -> None:
    assert put_servers(tmp_path / name, {"a": NEW, "b c": {"url": "https://example.com"}}).keys() == {"a", "b c"}
    settings = load_settings(tmp_path / name)
    assert [entry.display_name for entry in settings.entries] == ["a", "b c"]
    assert not settings.failed and not settings.warnings


def test_the_lines_of_what_was_written_are_given(tmp_path: Path) -> None:
    lines = put_servers(tmp_path / "toolcrib.toml", {"a": NEW, "b": NEW})
    assert lines == {entry.name: entry.line for entry in load_settings(tmp_path / "toolcrib.toml").entries}


@pytest.mark.parametrize(
    "name, text, where",
    [
        (".mcp.json", '{"a": {"command": "x"}}', ("new",)),
        (".mcp.json", '{"other": {}, "mcpServers": {}}', ("mcpServers", "new")),
        ("any.json", '{"mcp": {"servers": {}}}', ("mcp", "servers", "new")),
        (".vscode/mcp.json", '{"inputs": []}', ("servers", "new")),
        (".vscode/settings.json", '{"editor.fontSize": 12}', ("mcp", "servers", "new")),
        (".gemini/settings.json", '{"theme": "x"}', ("mcpServers", "new")),
        (".claude.json", '{"projects": {}}', ("mcpServers", "new")),
    ],
)
def test_servers_go_where_the_files_program_looks_for_them(
    tmp_path: Path, name: str, text: str, where: tuple[str, ...]
) -> None:
    path = write(tmp_path / name, text)
    put_servers(path, {"new": NEW})
    found = json.loads(path.read_text())
    for key in where:
        found = found[key]
    assert found == NEW
    assert json.loads(text).items() <= json.loads(path.read_text()).items() or where[0] in json.loads(text)


@pytest.mark.parametrize(
    "name, text, line",
    [
        (".mcp.json", '{\n"mcpServers": {]}', ":2:"),
        (".mcp.json", '{"mcpServers": []}', ":1:"),
        (".mcp.json", '{"mcpServers": {}, "servers": {}}', ":1:"),
        (".mcp.json", '{"mcpServers": {"a": {}, "a": {}}}', ":1:"),
        ("toolcrib.toml", "\n\n[servers", ":3:"),
        ("toolcrib.toml", "servers = 1", ":1:"),
    ],
)
def test_a_broken_file_is_reported_with_its_line_and_never_written_to(
    tmp_path: Path, name: str, text: str, line: str
) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(ConfigError, match=f"{name}{line}"):
        put_servers(path, {"a": NEW}, replace=True)
    assert path.read_text() == text
    assert os.listdir(tmp_path) == [name]


def test_a_name_that_is_there_is_kept_unless_it_is_to_be_replaced(tmp_path: Path) -> None:
    path = write(tmp_path / ".mcp.json", '{\n"mcpServers": {\n"a": {"command": "old"}}}')
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"\.mcp\.json:3:1: a server a exists already"):
        put_servers(path, {"b": NEW, "a": NEW})
    assert path.read_bytes() == before
    put_servers(path, {"a": NEW}, replace=True)
    assert json.loads(path.read_text()) == {"mcpServers": {"a": NEW}}


def test_none_is_removed_if_one_is_not_there(tmp_path: Path) -> None:
    path = write(tmp_path / "toolcrib.toml", '[servers.a]\ncommand = "x"\n')
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="no server b"):
        remove_servers(path, ["a", "b"])
    assert path.read_bytes() == before
    remove_servers(path, ["a"])
    assert path.read_bytes() == b""


def test_what_a_person_has_for_this_project_alone_is_removed_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = {str(tmp_path): {"mcpServers": {"a": NEW}}}
    path = write(tmp_path / ".claude.json", {"mcpServers": {"a": NEW}, "projects": own})
    remove_servers(path, ["a"])
    left = json.loads(path.read_text())
    assert left["mcpServers"] == {"a": NEW} and left["projects"][str(tmp_path)]["mcpServers"] == {}


def test_the_byte_order_mark_stays(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    path.write_bytes(b'\xef\xbb\xbf{"mcpServers": {}}')
    put_servers(path, {"a": NEW})
    assert path.read_bytes().startswith(b'\xef\xbb\xbf{"mcpServers"')
    assert "a" in load_settings(path).servers


def test_permissions_stay_and_a_private_file_is_new_for_its_owner_only(tmp_path: Path) -> None:
    path = write(tmp_path / ".mcp.json", "{}")
    path.chmod(0o640)
    put_servers(path, {"a": NEW})
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    put_servers(tmp_path / "own.toml", {"a": NEW}, private=True)
    assert stat.S_IMODE((tmp_path / "own.toml").stat().st_mode) == 0o600


def test_a_link_stays_a_link_and_its_file_is_changed(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    real = write(tmp_path / "dotfiles" / "mcp", "{}")
    (tmp_path / ".mcp.json").symlink_to("dotfiles/mcp")
    put_servers(tmp_path / ".mcp.json", {"a": NEW})
    assert (tmp_path / ".mcp.json").is_symlink()
    assert json.loads(real.read_text())["mcpServers"] == {"a": NEW}
    assert os.listdir(tmp_path / "dotfiles") == ["mcp"]


def test_a_file_that_cannot_be_written_is_reported_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written: No such file or directory"):
        put_servers(tmp_path / "no" / "such.json", {"a": NEW})
    (tmp_path / "loop.json").symlink_to("loop.json")
    with pytest.raises(ConfigError, match="cannot be"):
        put_servers(tmp_path / "loop.json", {"a": NEW})
    path = write(tmp_path / ".mcp.json", "{}")
    with pytest.raises(ConfigError, match="not valid Unicode"):
        put_servers(path, {"a": {"command": "\udcff"}})
    assert path.read_text() == "{}"
    assert sorted(os.listdir(tmp_path)) == [".mcp.json", "loop.json"]


def test_an_interrupted_edit_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / ".mcp.json", "{}")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        put_servers(path, {"a": NEW})
    assert path.read_text() == "{}" and os.listdir(tmp_path) == [".mcp.json"]


def test_what_another_program_writes_meanwhile_is_not_lost(tmp_path: Path) -> None:
    path = write(tmp_path / ".mcp.json", "first")
    seen = []

    def change(document: Document) -> str:
        seen.append(document.text)
        if len(seen) == 1:
            path.write_text("second")
        return document.text + " and ours"

    assert edit(path, change).text == "second and ours"
    assert seen == ["first", "second"] and path.read_text() == "second and ours"


def test_a_file_that_never_comes_to_rest_is_given_up(tmp_path: Path) -> None:
    path = write(tmp_path / ".mcp.json", "0")

    def change(document: Document) -> str:
        path.write_text(str(int(document.text) + 1))
        return "ours"

    with pytest.raises(ConfigError, match="try again"):
        edit(path, change)
    assert path.read_text() == "10" and os.listdir(tmp_path) == [".mcp.json"]


def _add_one(path: Path, number: int) -> None:
    put_servers(path, {f"s{number}": NEW})


def test_only_changing_toml_needs_tomlkit(tmp_path: Path) -> None:
    program = """
import sys
sys.modules["tomlkit"] = None
from pathlib import Path
import toolcrib as tc
from toolcrib.settings import load_settings
from toolcrib.settings.edit import put_servers
put_servers(Path(".mcp.json"), {"a": {"command": "x"}})
Path("toolcrib.toml").write_text("[servers.a]\\ncommand = 'x'\\n")
assert len(load_settings("toolcrib.toml").entries) == 1
try:
    put_servers(Path("toolcrib.toml"), {"b": {"command": "x"}})
except tc.ConfigError as exc:
    print(exc)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("editing TOML needs tomlkit (the extra `cli`): pip install tomlkit\n", "")
    assert (tmp_path / "toolcrib.toml").read_text() == "[servers.a]\ncommand = 'x'\n"


@pytest.mark.parametrize("name", [".mcp.json", "toolcrib.toml"])
def test_many_processes_at_once_lose_nothing(tmp_path: Path, name: str) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_add_one, args=(tmp_path / name, number)) for number in range(12)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 12
    assert set(load_settings(tmp_path / name).servers) == {f"s{number}" for number in range(12)}
    assert os.listdir(tmp_path) == [name]


def test_one_of_us_waits_for_the_other_and_does_not_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / ".mcp.json", "{}")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        thread = threading.Thread(target=put_servers, args=(path, {"a": NEW}))
        thread.start()
        thread.join(0.2)
        assert thread.is_alive() and path.read_text() == "{}"
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        thread.join(30)
        assert "a" in load_settings(path).servers
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        monkeypatch.setattr(writing_module, "_LOCK_TIMEOUT", 0.05)
        put_servers(path, {"b": NEW})
        assert "b" in load_settings(path).servers
    finally:
        os.close(descriptor)


def test_no_limit_is_said_in_the_words_of_the_format(tmp_path: Path) -> None:
    values = {"command": "x", "execution_timeout": None, "cwd": None, "env": {"A": None}}
    values["reconnect"] = {"max_retries": None}
    for name in (".mcp.json", "toolcrib.toml"):
        put_servers(tmp_path / name, {"a": values})
        config = load_settings(tmp_path / name).servers["a"]
        assert config.execution_timeout is None and not getattr(config, "cwd", "")
        assert config.reconnect == ReconnectPolicy(max_retries=None)
    assert 'execution_timeout = "none"\n' in (tmp_path / "toolcrib.toml").read_text()
