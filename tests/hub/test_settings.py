"""A hub made from settings: what is wrong fails alone, what changed is restarted, and nothing else."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.kit import Ledger, outcome_of, succeeded
from tests.hub.kit import FaultyServer, Hub, bad, counting_server, echo_server, names, state
from tests.serving import served
from tests.unit.kit import eventually
from toolcrib.types import ConnectionState


def entry(faulty: FaultyServer, **more: Any) -> dict[str, Any]:
    command, *arguments = faulty.command()
    return {"command": command, "args": arguments, **more}


def write(path: Path, **servers: Any) -> Path:
    """Write in one step, as editors do: no reader sees half a file."""
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps({"mcpServers": servers}))
    return draft.replace(path)


async def test_a_hub_from_a_file_has_its_servers(tmp_path: Path) -> None:
    a, b = bad(tmp_path, "a"), bad(tmp_path, "b")
    file = write(tmp_path / ".mcp.json", a=entry(a), **{"B server": entry(b)})
    async with Hub.from_config(file, allowed_tools=["mcp__a__*"]) as hub:
        assert [(s.name, s.display_name) for s in hub.list_servers()] == [("a", "a"), ("B-server", "B server")]
        assert isinstance(state(hub, "a").config, tc.StdioServer)
        assert {tool.server for tool in await hub.list_tools()} == {"a"}
        assert (await hub.call_tool("mcp__a__echo", {"nonce": "n"})).text == "n"


async def test_a_mapping_and_several_files_do_as_well(tmp_path: Path) -> None:
    a, b = bad(tmp_path, "a"), bad(tmp_path, "b")
    async with Hub.from_config({"mcpServers": {"a": entry(a)}}) as hub:
        assert state(hub, "a").connected
    general = write(tmp_path / "general.json", a={"url": "http://127.0.0.1:9"}, b=entry(b))
    own = write(tmp_path / "own.json", a=entry(a))
    async with Hub.from_config([general, own]) as hub:
        assert [each.connected for each in hub.list_servers()] == [True, True]


async def test_a_missing_variable_fails_its_server_and_not_the_file(tmp_path: Path) -> None:
    a = bad(tmp_path, "a")
    file = write(tmp_path / ".mcp.json", a=entry(a), b={"command": "x", "env": {"T": "${NO_SUCH_TOKEN}"}})
    async with Hub.from_config(file, environ={}) as hub:
        assert state(hub, "a").connected
        found = state(hub, "b")
        assert found.status.state is ConnectionState.FAILED and "NO_SUCH_TOKEN" in found.status.reason
        assert isinstance(found.last_error, tc.ConfigError)
        with pytest.raises(tc.ConfigError, match="NO_SUCH_TOKEN"):
            await hub.call_tool("mcp__b__x")
        with pytest.raises(tc.ConfigError, match="NO_SUCH_TOKEN"):
            await hub.read_resource("b", "x://y")
        assert "NO_SUCH_TOKEN" in hub.explain("mcp__b__x")
    with pytest.raises(tc.ConfigError, match="NO_SUCH_TOKEN"):
        await Hub.from_config(file, environ={}, on_error="raise").start()


async def test_a_disabled_server_is_shown_and_never_started(tmp_path: Path) -> None:
    a, b = bad(tmp_path, "a"), bad(tmp_path, "b")
    file = write(tmp_path / ".mcp.json", a=entry(a, disabled=True), b=entry(b))
    async with Hub.from_config(file, on_error="raise") as hub:
        assert state(hub, "a").status.state is ConnectionState.DISABLED
        assert {tool.server for tool in await hub.list_tools()} == {"b"}
        with pytest.raises(tc.AccessDenied) as disabled:
            await hub.call_tool("mcp__a__echo")
        assert disabled.value.rule == "disabled"
        assert "disabled" in hub.explain("mcp__a__echo")
        await hub.refresh()
    assert a.record.lives == 0


async def test_tools_that_the_file_hides_are_hidden(tmp_path: Path) -> None:
    a = bad(tmp_path, "a")
    file = write(tmp_path / "settings.json", a=entry(a, includeTools=["echo", "slow"], excludeTools=["slow"]))
    async with Hub.from_config(file) as hub:
        assert names(await hub.list_tools()) == ["mcp__a__echo"]
        with pytest.raises(tc.AccessDenied):
            await hub.call_tool("mcp__a__slow")


async def test_options_of_the_file_hold_where_no_keyword_says_otherwise(tmp_path: Path) -> None:
    a = bad(tmp_path, "a")
    command, *arguments = a.command()
    file = tmp_path / "toolcrib.toml"
    file.write_text(
        f"[hub]\nstart = 'lazy'\ndisallowed_tools = ['mcp__a__slow']\n"
        f"[servers.a]\ncommand = {json.dumps(command)}\nargs = {json.dumps(arguments)}\n"
    )
    async with Hub.from_config(file) as hub:
        assert a.record.lives == 0
        assert "mcp__a__slow" not in names(await hub.list_tools())
    async with Hub.from_config(file, disallowed_tools=[], start="eager") as hub:
        assert a.record.lives == 2
        assert "mcp__a__slow" in names(await hub.list_tools())


async def test_a_broken_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / ".mcp.json"
    file.write_text("{ not json")
    with pytest.raises(tc.ConfigError) as broken:
        Hub.from_config(file)
    assert broken.value.file == str(file)
    for wrong in (5, [], None):
        with pytest.raises(tc.ConfigError, match="settings file"):
            Hub.from_config(wrong)  # type: ignore[arg-type]
    with pytest.raises(tc.UsageError, match="watched"):
        Hub.from_config({"mcpServers": {}}, watch=True)


async def test_a_reload_restarts_only_what_changed(tmp_path: Path) -> None:
    faulty_servers = {name: bad(tmp_path, name) for name in ("same", "changed", "removed", "added")}
    entries = {name: entry(faulty) for name, faulty in faulty_servers.items()}
    file = write(tmp_path / ".mcp.json", **{name: entries[name] for name in ("same", "changed", "removed")})
    async with Hub.from_config(file) as hub:
        await hub.add_server("by-hand", echo_server("a"))
        entries["changed"]["env"] = {"NEW": "1"}
        write(file, **{name: entries[name] for name in ("same", "changed", "added")})
        difference = await hub.reload()
        assert difference == (("added",), ("removed",), ("changed",))
        assert {name: faulty.record.lives for name, faulty in faulty_servers.items()} == {
            "same": 1,
            "changed": faulty_servers["changed"].record.lives,
            "removed": 1,
            "added": 1,
        }
        assert (await hub.call_tool("mcp__changed__echo", {"nonce": "n"})).text == "n"
        assert faulty_servers["changed"].record.lives == 2
        assert {each.name for each in hub.list_servers()} == {"same", "changed", "added", "by-hand"}
        assert faulty_servers["removed"].living() == []
        assert await hub.reload() == ((), (), ())


@pytest.mark.parametrize("how", ["reload", "watch"])
async def test_a_reload_under_load_loses_no_call_of_an_unchanged_server(tmp_path: Path, how: str) -> None:
    same, other = bad(tmp_path, "same"), bad(tmp_path, "other")
    ledgers = {"same": Ledger(), "web": Ledger(), "other": Ledger()}
    over = False

    async def load(hub: Hub, name: str) -> None:
        while not over:
            nonce = ledgers[name].open()
            outcome = await outcome_of(hub.call_tool(f"mcp__{name}__echo", {"nonce": nonce}))
            ledgers[name].outcomes[nonce].append(outcome)

    remote, ran = counting_server()
    async with served(remote.asgi()) as url:
        web = {"type": "http", "url": f"{url}/mcp"}
        file = write(tmp_path / ".mcp.json", same=entry(same), web=web, other=entry(other))
        async with Hub.from_config(file, watch=how == "watch", watch_interval=0.02) as hub:
            started: list[str] = []
            hub.on(tc.events.ConnectionStarted, lambda event: started.append(event.server))
            pid = same.record.pid
            workers = [asyncio.create_task(load(hub, name)) for name in ledgers for _ in range(4)]
            for turn in range(4):
                count = ledgers["same"].count(succeeded)
                write(file, same=entry(same), web=web, other=entry(other, env={"ROUND": str(turn)}))
                if how == "reload":
                    assert await hub.reload() == ((), (), ("other",))
                await eventually(lambda turn=turn: other.record.lives == turn + 2)
                await eventually(lambda count=count: ledgers["same"].count(succeeded) > count + 20)
            over = True
            await asyncio.gather(*workers)
            assert same.living() == [pid]
            assert set(started) == {"other"}, "nobody else was connected anew"
            assert (await hub.call_tool("mcp__other__echo", {"nonce": "n"})).text == "n"
    for name in ("same", "web"):
        assert ledgers[name].count(succeeded) == len(ledgers[name].outcomes) > 50, name
    for name, executed in (("same", same.record.executed), ("web", ran), ("other", other.record.executed)):
        ledgers[name].check(executed)


async def test_a_server_starts_anew_only_when_its_former_self_has_ended(tmp_path: Path) -> None:
    """Both would want the same port, the same lock, the same file."""
    faulty = bad(tmp_path, "one")
    file = write(tmp_path / ".mcp.json", one=entry(faulty))
    async with Hub.from_config(file) as hub:
        for turn in range(3):
            pid = faulty.record.pid
            write(file, one=entry(faulty, env={"ROUND": str(turn)}))
            reloading = asyncio.create_task(hub.reload())
            await eventually(lambda: not state(hub, "one").tools)
            assert (await hub.call_tool("mcp__one__echo", {"nonce": f"n{turn}"})).text == f"n{turn}"
            await reloading
            assert faulty.living() == [faulty.record.pid] != [pid]


async def test_permissions_of_the_file_hold_at_once_when_they_change(tmp_path: Path) -> None:
    faulty = bad(tmp_path, "a")
    command, *arguments = faulty.command()
    file = tmp_path / "toolcrib.toml"

    def write_toml(hub_options: str) -> None:
        file.write_text(
            f"[hub]\n{hub_options}\n[servers.a]\ncommand = {json.dumps(command)}\nargs = {json.dumps(arguments)}\n"
        )

    write_toml("")
    async with Hub.from_config(file) as hub:
        assert "mcp__a__slow" in names(await hub.list_tools())
        write_toml("disallowed_tools = ['mcp__a__slow']")
        await hub.reload()
        assert "mcp__a__slow" not in names(await hub.list_tools())
        with pytest.raises(tc.AccessDenied):
            await hub.call_tool("mcp__a__slow")
        assert faulty.record.lives == 1
        write_toml("execution_timeout = 0.2")
        await hub.reload()
        with pytest.raises(tc.CallTimeout):
            await hub.call_tool("mcp__a__silent")
        assert faulty.record.lives == 2


async def test_a_keyword_that_can_be_gone_through_only_once_holds_after_a_reload(tmp_path: Path) -> None:
    faulty = bad(tmp_path, "a")
    command, *arguments = faulty.command()
    file = tmp_path / "toolcrib.toml"
    server = f"[servers.a]\ncommand = {json.dumps(command)}\nargs = {json.dumps(arguments)}\n"
    file.write_text(server)
    async with Hub.from_config(file, disallowed_tools=iter(["mcp__a__slow"])) as hub:
        file.write_text("[hub]\nallowed_tools = ['mcp__a__slow', 'mcp__a__echo']\n" + server)
        await hub.reload()
        assert names(await hub.list_tools()) == ["mcp__a__echo"]


async def test_reloads_at_once_end_with_what_was_written_last(tmp_path: Path) -> None:
    faulty_servers = [bad(tmp_path, f"s{n}") for n in range(3)]
    file = write(tmp_path / ".mcp.json")
    async with Hub.from_config(file) as hub:
        reloads = []
        for n, faulty in enumerate(faulty_servers):
            write(file, **{f"s{n}": entry(faulty)})
            reloads.append(asyncio.create_task(hub.reload()))
            await asyncio.sleep(0)
        await asyncio.gather(*reloads)
        assert [(each.name, each.connected) for each in hub.list_servers()] == [("s2", True)]


async def test_a_watched_file_is_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    a, b = bad(tmp_path, "a"), bad(tmp_path, "b")
    file = write(tmp_path / ".mcp.json", a=entry(a))
    async with Hub.from_config(file, watch=True, watch_interval=0.02) as hub:
        assert "mcp__a__echo" in names(await hub.list_tools())
        write(file, b=entry(b))
        await eventually(lambda: [each.name for each in hub.list_servers() if each.connected] == ["b"])
        assert (await hub.call_tool("mcp__b__echo", {"nonce": "n"})).text == "n"
        file.write_text("{ broken")
        await eventually(lambda: "the last settings stay in force" in caplog.text)
        assert state(hub, "b").connected
        write(file, a=entry(a), b=entry(b))
        await eventually(lambda: sum(each.connected for each in hub.list_servers()) == 2)
        assert b.record.lives == 1


async def test_only_a_hub_from_settings_can_be_reloaded() -> None:
    async with Hub({"s": echo_server()}) as hub:
        with pytest.raises(tc.UsageError, match="add_server"):
            await hub.reload()
