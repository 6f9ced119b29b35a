"""`toolcrib init`: a file to start from, which is right however much of it is uncommented."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest

from tests.cli.kit import run_cli
from toolcrib.cli.commands.init import COMMENTED
from toolcrib.errors import ConfigError
from toolcrib.hub.hub import Hub
from toolcrib.hub.server_options import ServerSpec
from toolcrib.settings import load_settings


def test_it_writes_a_file_with_comments_and_says_what_is_next(tmp_path: Path) -> None:
    done = run_cli("init", cwd=tmp_path)
    assert (done.code, done.out) == (0, "wrote toolcrib.toml\n")
    assert "toolcrib add" in done.err and "toolcrib tools" in done.err
    assert (tmp_path / "toolcrib.toml").read_text() == COMMENTED
    assert load_settings(tmp_path / "toolcrib.toml").entries == ()


def test_what_is_there_is_kept_unless_it_is_forced(tmp_path: Path) -> None:
    (tmp_path / "toolcrib.toml").write_text("# mine\n")
    refused = run_cli("init", cwd=tmp_path)
    assert refused.code == 2 and "error: toolcrib.toml already exists\nhint: --force" in refused.err
    assert (tmp_path / "toolcrib.toml").read_text() == "# mine\n"
    assert run_cli("init", "--force", cwd=tmp_path).code == 0
    assert (tmp_path / "toolcrib.toml").read_text() == COMMENTED


def test_the_plain_one_is_what_other_programs_read(tmp_path: Path) -> None:
    assert run_cli("init", "--json", cwd=tmp_path).out == "wrote .mcp.json\n"
    assert json.loads((tmp_path / ".mcp.json").read_text()) == {"mcpServers": {}}


def test_a_persons_own_file_is_for_their_eyes_only(tmp_path: Path) -> None:
    done = run_cli("init", "--user", cwd=tmp_path)
    own = tmp_path / ".config/toolcrib/toolcrib.toml"
    assert done.out == f"wrote {own}\n"
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    assert stat.S_IMODE(own.parent.stat().st_mode) == 0o700


def test_two_files_at_once_and_a_missing_folder_are_reported(tmp_path: Path) -> None:
    both = run_cli("init", "--user", "--json", cwd=tmp_path)
    assert both.code == 2 and "hint: give one of them" in both.err
    nowhere = run_cli("init", "--config", "no/such.toml", cwd=tmp_path)
    assert nowhere.code == 3 and "no/such.toml: cannot be written: No such file or directory" in nowhere.err


def test_every_line_that_is_uncommented_is_right(tmp_path: Path) -> None:
    """All of them together, and each example alone."""
    lines = COMMENTED.splitlines()
    code = [line.removeprefix("# ") for line in lines if re.match(r"# (\[|[a-z_]+ = )", line)]
    assert len(code) > 20
    path = tmp_path / "toolcrib.toml"
    path.write_text("\n".join(code))
    settings = load_settings(path, environ={"HOME": "/h", "API_KEY": "k", "API_TOKEN": "t"})
    assert [entry.name for entry in settings.entries] == ["everything", "mine", "remote"]
    assert not settings.failed and not settings.warnings
    rules = {"allowed_tools", "disallowed_tools", "require_approval"}
    assert set(settings.defaults) == {*rules, "on_error", "start", "disconnect_idle_after"}
    for name in ("everything", "mine", "remote"):
        at = code.index(f"[servers.{name}]")
        path.write_text("\n".join(code[at : at + 2]))
        assert list(load_settings(path, environ={}).servers) == [name]


def uncommented() -> list[str]:
    return [line.removeprefix("# ") for line in COMMENTED.splitlines() if re.match(r"# (\[|[a-z_]+ = )", line)]


def plan_of(path: Path, text: str) -> ServerSpec:
    path.write_text(text)
    hub = Hub.from_config(path, environ={"HOME": "/h", "API_KEY": "k", "API_TOKEN": "t"})
    return hub._servers.by_name["remote"].spec


def test_the_values_that_it_shows_as_defaults_are_the_defaults(tmp_path: Path) -> None:
    code = uncommented()
    at, end = code.index("[servers.remote]"), code.index("[hub]")
    plain, path = "\n".join(code[at : at + 3]), tmp_path / "toolcrib.toml"
    values = [line for line in code[at + 3 : end] if "an example" not in line]
    assert len(values) == 7
    shown, default = plan_of(path, "\n".join([plain, *values])), plan_of(path, plain)
    assert shown.settings == default.settings
    assert (shown.transient, shown.disconnect_idle_after, shown.disabled) == (False, None, False)
    of_hub = [line for line in code[end:] if re.match(r"\[hub|on_error|start|disconnect_idle_after", line)]
    assert len(of_hub) == 4
    with_hub = plan_of(path, "\n".join([*of_hub, plain]))
    assert with_hub.settings == default.settings
    assert with_hub.disconnect_idle_after == default.disconnect_idle_after


def test_what_it_says_about_silence_idleness_and_retries_is_true(tmp_path: Path) -> None:
    comments = {line.partition(" = ")[0]: line.partition("#")[2] for line in uncommented() if " = " in line}
    assert "without progress" in comments["idle_timeout"]
    assert "without a call" in comments["disconnect_idle_after"]
    plan = plan_of(
        tmp_path / "toolcrib.toml",
        "[hub]\ndisconnect_idle_after = 7\n"
        '[servers.remote]\nurl = "https://x.invalid/mcp"\nidle_timeout = 20\nmax_attempts = 1',
    )
    assert (plan.settings.idle_timeout, plan.disconnect_idle_after) == (20, 7)
    assert "attempts in total" in comments["max_attempts"] and plan.settings.max_attempts == 1
    with pytest.raises(ConfigError, match="max_attempts"):  # attempts in total: there is no zero of them
        load_settings_strictly(tmp_path / "toolcrib.toml")


def load_settings_strictly(path: Path) -> None:
    path.write_text('[servers.remote]\nurl = "https://x.invalid/mcp"\nmax_attempts = 0')
    for entry in load_settings(path).failed:
        raise entry.error or AssertionError


def test_servers_that_are_added_to_it_leave_its_comments_alone(tmp_path: Path) -> None:
    run_cli("init", cwd=tmp_path)
    added = run_cli("add", "fs", "--", "fs-server", cwd=tmp_path)
    line = len(COMMENTED.splitlines()) + 2
    assert added.out == f"added fs: fs-server  (toolcrib.toml:{line})\n"
    assert run_cli("remove", "fs", cwd=tmp_path).out == f"removed fs  (toolcrib.toml:{line})\n"
    assert (tmp_path / "toolcrib.toml").read_text() == COMMENTED
