"""A hub that follows its settings: what is wrong in them changes nothing, what is right is not lost on the way."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.hub.kit import FaultyServer, Hub, bad, names, state
from tests.unit.kit import eventually


def toml(path: Path, hub_options: str = "", **faulty_servers: FaultyServer) -> Path:
    """In one step, as editors do."""
    text = f"[hub]\n{hub_options}\n"
    for name, faulty in faulty_servers.items():
        command, *arguments = faulty.command()
        text += f"[servers.{name}]\ncommand = {json.dumps(command)}\nargs = {json.dumps(arguments)}\n"
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    return draft.replace(path)


def here(hub: Hub) -> list[str]:
    return [each.name for each in hub.list_servers()]


async def test_settings_with_a_wrong_rule_change_nothing_and_apply_once_they_are_fixed(tmp_path: Path) -> None:
    a, b = bad(tmp_path, "a"), bad(tmp_path, "b")
    file = toml(tmp_path / "toolcrib.toml", "disallowed_tools = ['mcp__a__slow']", a=a)
    async with Hub.from_config(file) as hub:
        toml(file, "disallowed_tools = ['oops']", a=a, b=b)
        for _ in range(2):
            with pytest.raises(tc.ConfigError, match="qualified names") as refused:
                await hub.reload()
            assert (refused.value.file, refused.value.key) == (str(file), "hub.disallowed_tools")
            assert here(hub) == ["a"] and "mcp__a__slow" not in names(await hub.list_tools())
        toml(file, "disallowed_tools = ['mcp__a__fail']", a=a, b=b)
        assert await hub.reload() == (("b",), (), ())
        assert "mcp__a__slow" in names(await hub.list_tools()) and "mcp__a__fail" not in names(await hub.list_tools())


async def test_a_watched_file_with_a_wrong_rule_is_reported_and_followed_once_it_is_fixed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = bad(tmp_path, "a"), bad(tmp_path, "b")
    file = toml(tmp_path / "toolcrib.toml", a=a)
    async with Hub.from_config(file, watch=True, watch_interval=0.02) as hub:
        toml(file, "disallowed_tools = ['oops']", a=a, b=b)
        await eventually(lambda: "the last settings stay in force" in caplog.text)
        assert f"{file}:2:1: hub.disallowed_tools" in caplog.text
        assert here(hub) == ["a"]
        toml(file, "disallowed_tools = ['mcp__a__fail']", a=a, b=b)
        await eventually(lambda: here(hub) == ["a", "b"] and state(hub, "b").tools)
        assert "mcp__a__fail" not in names(await hub.list_tools())
        assert a.record.lives == 1


async def test_a_wrong_rule_in_the_file_names_the_file_when_the_hub_is_made(tmp_path: Path) -> None:
    file = toml(tmp_path / "toolcrib.toml", "allowed_tools = ['read']")
    with pytest.raises(tc.ConfigError, match="qualified names") as refused:
        Hub.from_config(file)
    assert (refused.value.file, refused.value.key, refused.value.line) == (str(file), "hub.allowed_tools", 2)


async def test_a_folder_that_goes_away_under_the_process_does_not_end_the_watching(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = bad(tmp_path, "a"), bad(tmp_path, "b")
    file = toml(tmp_path / "toolcrib.toml", a=a)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    async with Hub.from_config(file, watch=True, watch_interval=0.02) as hub:
        gone.rmdir()
        with pytest.raises(FileNotFoundError):
            os.getcwd()
        toml(file, a=a, b=b)
        await eventually(lambda: here(hub) == ["a", "b"])


async def test_a_reload_that_was_slow_to_read_does_not_undo_what_was_written_since(tmp_path: Path) -> None:
    a, b = bad(tmp_path, "a"), bad(tmp_path, "b")
    file = toml(tmp_path / "toolcrib.toml", a=a)
    async with Hub.from_config(file, watch=True, watch_interval=0.02) as hub:
        assert hub._config_sync is not None and hub._config_sync._watcher is not None
        source, watcher = hub._config_sync._source, hub._config_sync._watcher
        was_read, go_on, real = threading.Event(), threading.Event(), source.read

        def slow() -> Any:
            settings = real()
            was_read.set()
            go_on.wait(20)
            return settings

        source.read = slow  # type: ignore[method-assign]
        reloading = asyncio.create_task(hub.reload())
        await eventually(was_read.is_set)
        toml(file, a=a, b=b)
        looking = asyncio.create_task(watcher.check())
        await asyncio.wait([looking], timeout=0.3)  # it may have been quicker than the reload
        go_on.set()
        await asyncio.gather(reloading, looking)
        await eventually(lambda: here(hub) == ["a", "b"])
        for _ in range(3):
            await watcher.check()
        assert here(hub) == ["a", "b"], "the file says so"


async def test_one_that_hangs_does_not_keep_the_watching_from_the_next_change(tmp_path: Path) -> None:
    a, hangs, b = bad(tmp_path, "a"), bad(tmp_path, "hangs"), bad(tmp_path, "b")
    file = toml(tmp_path / "toolcrib.toml", a=a)
    async with Hub.from_config(file, watch=True, watch_interval=0.02, start_timeout=None) as hub:
        servers = {"a": json_entry(a), "hangs": json_entry(hangs, silent=["initialize", "server/discover"])}
        write(file, servers)
        await eventually(lambda: here(hub) == ["a", "hangs"])
        write(file, {**servers, "b": json_entry(b)})
        await eventually(lambda: here(hub) == ["a", "hangs", "b"] and state(hub, "b").tools)


def json_entry(faulty: FaultyServer, **script: Any) -> tuple[str, list[str]]:
    command, *arguments = faulty.command(**script)
    return command, arguments


def write(path: Path, servers: dict[str, tuple[str, list[str]]]) -> None:
    text = "".join(
        f"[servers.{name}]\ncommand = {json.dumps(command)}\nargs = {json.dumps(arguments)}\n"
        for name, (command, arguments) in servers.items()
    )
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(path)


async def test_options_that_the_file_changes_hold_for_servers_that_are_added_later(tmp_path: Path) -> None:
    a, x = bad(tmp_path, "a"), bad(tmp_path, "x")
    file = toml(tmp_path / "toolcrib.toml", "execution_timeout = 20", a=a)
    async with Hub.from_config(file) as hub:
        toml(file, "execution_timeout = 0.2", a=a)
        await hub.reload()
        await hub.add_server("x", x.server())
        for name in ("a", "x"):
            with pytest.raises(tc.CallTimeout):
                await hub.call_tool(f"mcp__{name}__silent", {"nonce": "n"})


async def test_a_server_that_was_removed_by_hand_stays_away_until_its_own_entry_changes(tmp_path: Path) -> None:
    a, b = bad(tmp_path, "a"), bad(tmp_path, "b")
    file = toml(tmp_path / "toolcrib.toml", a=a, b=b)
    async with Hub.from_config(file) as hub:
        await hub.remove_server("b")
        toml(file, "max_attempts = 2", a=a, b=b)
        assert await hub.reload() == ((), (), ("a",))
        assert here(hub) == ["a"]
        other = bad(tmp_path, "other")
        toml(file, "max_attempts = 2", a=a, b=other)
        assert await hub.reload() == ((), (), ("b",))
        assert here(hub) == ["a", "b"]


async def test_a_change_of_rules_emits_events_for_the_servers_that_it_concerns(tmp_path: Path) -> None:
    a, b = bad(tmp_path, "a"), bad(tmp_path, "b")
    file = toml(tmp_path / "toolcrib.toml", a=a, b=b)
    async with Hub.from_config(file) as hub:
        heard: list[str] = []
        hub.on(tc.events.ToolsChanged, lambda event: heard.append(event.server))
        toml(file, "disallowed_tools = ['mcp__a__slow']", a=a, b=b)
        await hub.reload()
        assert heard == ["a"]


async def test_a_server_keeps_its_name_when_a_neighbour_goes(tmp_path: Path) -> None:
    """Otherwise a rule with its name would apply to another server, and no longer to this one."""
    one, two = bad(tmp_path, "one"), bad(tmp_path, "two")
    file = tmp_path / ".mcp.json"

    def save(**faulty_servers: FaultyServer) -> None:
        entries = {name: json_entry(faulty) for name, faulty in faulty_servers.items()}
        servers = {name: {"command": command, "args": rest} for name, (command, rest) in entries.items()}
        draft = file.with_suffix(".draft")
        draft.write_text(json.dumps({"mcpServers": servers}))
        draft.replace(file)

    save(**{"my db": one, "my.db": two})
    async with Hub.from_config(file, disallowed_tools=["mcp__my-db-2__echo"]) as hub:
        assert here(hub) == ["my-db", "my-db-2"]
        save(**{"my.db": two})
        assert await hub.reload() == ((), ("my-db",), ())
        assert here(hub) == ["my-db-2"] and two.record.lives == 1
        assert not any(tool.original_name == "echo" for tool in await hub.list_tools())
        save(**{"my.db": two, "my db": one})
        assert await hub.reload() == (("my-db",), (), ())
        assert here(hub) == ["my-db-2", "my-db"]


async def test_a_hub_is_made_of_what_is_found_on_the_machine(tmp_path: Path) -> None:
    """`Hub.from_config(discover_settings())`: the project's settings override the user's."""
    home, project = tmp_path / "home", tmp_path / "project"
    mine, ours, both = (bad(tmp_path, name) for name in ("mine", "ours", "both"))
    for folder, servers in ((home / ".cursor", {"mine": mine, "both": mine}), (project, {"ours": ours, "both": both})):
        folder.mkdir(parents=True)
        entries = {name: json_entry(faulty) for name, faulty in servers.items()}
        text = {name: {"command": command, "args": rest} for name, (command, rest) in entries.items()}
        name = "mcp.json" if folder.name == ".cursor" else ".mcp.json"
        (folder / name).write_text(json.dumps({"mcpServers": text}))
    found = tc.discover_settings(project, home=home, environ={})
    assert len(found) == 2
    async with Hub.from_config(found) as hub:
        assert set(here(hub)) == {"mine", "ours", "both"}
        assert (await hub.call_tool("mcp__both__echo", {"nonce": "n"})).text == "n"
    assert both.record.executed["n"] == 1
    for wrong in ([*found, "file.json"], [5]):
        with pytest.raises(tc.ConfigError, match="settings file"):
            Hub.from_config(wrong)  # type: ignore[arg-type]
