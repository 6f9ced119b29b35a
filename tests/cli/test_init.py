"""`toolyard init`: a file to start from, which is right however much of it is uncommented."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

from tests.cli.kit import run_cli
from toolyard.cli.init import COMMENTED
from toolyard.settings import load_settings


def test_it_writes_a_file_with_comments_and_says_what_is_next(tmp_path: Path) -> None:
    done = run_cli("init", cwd=tmp_path)
    assert (done.code, done.out) == (0, "wrote toolyard.toml\n")
    assert "toolyard add" in done.err and "toolyard tools" in done.err
    assert (tmp_path / "toolyard.toml").read_text() == COMMENTED
    assert load_settings(tmp_path / "toolyard.toml").entries == ()


def test_what_is_there_is_kept_unless_it_is_forced(tmp_path: Path) -> None:
    (tmp_path / "toolyard.toml").write_text("# mine\n")
    refused = run_cli("init", cwd=tmp_path)
    assert refused.code == 2 and "error: toolyard.toml is there already\nhint: --force" in refused.err
    assert (tmp_path / "toolyard.toml").read_text() == "# mine\n"
    assert run_cli("init", "--force", cwd=tmp_path).code == 0
    assert (tmp_path / "toolyard.toml").read_text() == COMMENTED


def test_the_plain_one_is_what_other_programs_read(tmp_path: Path) -> None:
    assert run_cli("init", "--json", cwd=tmp_path).out == "wrote .mcp.json\n"
    assert json.loads((tmp_path / ".mcp.json").read_text()) == {"mcpServers": {}}


def test_a_persons_own_file_is_for_their_eyes_only(tmp_path: Path) -> None:
    done = run_cli("init", "--user", cwd=tmp_path)
    own = tmp_path / ".config/toolyard/toolyard.toml"
    assert done.out == f"wrote {own}\n"
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    assert stat.S_IMODE(own.parent.stat().st_mode) == 0o700


def test_two_files_at_once_and_a_folder_that_is_not_there_are_told(tmp_path: Path) -> None:
    both = run_cli("init", "--user", "--json", cwd=tmp_path)
    assert both.code == 2 and "hint: give one of them" in both.err
    nowhere = run_cli("init", "--config", "no/such.toml", cwd=tmp_path)
    assert nowhere.code == 3 and "no/such.toml: cannot be written: No such file or directory" in nowhere.err


def test_every_line_that_is_uncommented_is_right(tmp_path: Path) -> None:
    """All of them together, and each example alone."""
    lines = COMMENTED.splitlines()
    code = [line.removeprefix("# ") for line in lines if re.match(r"# (\[|[a-z_]+ = )", line)]
    assert len(code) > 20
    path = tmp_path / "toolyard.toml"
    path.write_text("\n".join(code))
    settings = load_settings(path, environ={"HOME": "/h", "API_KEY": "k", "API_TOKEN": "t"})
    assert [entry.name for entry in settings.entries] == ["everything", "mine", "remote"]
    assert not settings.failed and not settings.warnings
    assert set(settings.defaults) == {"allowed_tools", "disallowed_tools", "require_approval", "on_error", "start"}
    for name in ("everything", "mine", "remote"):
        at = code.index(f"[servers.{name}]")
        path.write_text("\n".join(code[at : at + 2]))
        assert list(load_settings(path, environ={}).servers) == [name]


def test_servers_that_are_added_to_it_leave_its_comments_alone(tmp_path: Path) -> None:
    run_cli("init", cwd=tmp_path)
    added = run_cli("add", "fs", "--", "fs-server", cwd=tmp_path)
    line = len(COMMENTED.splitlines()) + 2
    assert added.out == f"added fs: fs-server  (toolyard.toml:{line})\n"
    assert run_cli("remove", "fs", cwd=tmp_path).out == f"removed fs  (toolyard.toml:{line})\n"
    assert (tmp_path / "toolyard.toml").read_text() == COMMENTED
