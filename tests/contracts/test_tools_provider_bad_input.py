"""The MCP Tools Provider, with wrong input: every error is typed and names the field, and nothing is half stored.

See test_tools_provider.py. After each refusal the store holds what it held before, and no process was started.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.contracts.conftest import MakePlugin
from tests.contracts.provider_kit import SECRET, VARIABLE, Plugin, form, manifest, package, remote_form, stored_rows
from tests.provider.faulty_store import FaultyStore
from tests.unit.kit import eventually
from toolcrib.provider.provider import Provider
from toolcrib.provider.store import open_store


class Refusing:
    """A provider with one good source; `refuses` checks that a registration changes nothing."""

    def __init__(self, provider: Provider, file: Path, spawned: list[list[str]]) -> None:
        self.provider = provider
        self._file = file
        self._spawned = spawned

    async def refuses(self, given: Any, key: str, *, says: str = "") -> tc.ConfigError:
        """Register and update with this input; return the error."""
        before, sources = stored_rows(self._file), self.provider.list_sources()
        self._spawned.clear()
        with pytest.raises(tc.ConfigError) as caught:
            await self.provider.register(given)
        if isinstance(given, dict) and given.get("name") == "GitHub MCP":
            with pytest.raises(tc.ConfigError) as again:
                await self.provider.update_source("good", {**given, "name": "good"})
            assert again.value.key == caught.value.key
        error = caught.value
        assert error.key == key, error
        assert says in str(error)
        assert "expected" in str(error) or "cannot be read" in str(error) or error.line
        assert SECRET not in f"{error!s}{error!r}"
        assert self._spawned == [], "no process was started"
        assert stored_rows(self._file) == before, "nothing was stored"
        assert self.provider.list_sources() == sources
        return error


@asynccontextmanager
async def open_refusing(store_file: Path, spawned: list[list[str]], **options: Any) -> AsyncIterator[Refusing]:
    async with Provider(store_file, **options) as provider:
        await provider.add_source("good", tc.HttpServer("http://127.0.0.1:9/mcp", max_attempts=1))
        await provider.disable("good")  # so that nothing is written later
        yield Refusing(provider, store_file, spawned)


@pytest.fixture
async def refusing(store_file: Path, spawned: list[list[str]]) -> AsyncIterator[Refusing]:
    async with open_refusing(store_file, spawned) as opened:
        yield opened


# ---- each field of the registration

FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "name"),
    ({"name": 5}, "name"),
    ({"name": "a\nb"}, "name"),
    ({"name": "x" * 201}, "name"),
    ({"url": 5}, "url"),
    ({"source_type": "openapi"}, "source_type"),
    ({"source_type": None}, "source_type"),
    ({"mcp_plugin_dir": 5}, "mcp_plugin_dir"),
    ({"mcp_plugin_dir": ""}, "mcp_plugin_dir"),
    ({"mcp_plugin_dir": "/no/such/folder"}, "mcp_plugin_dir"),
    ({"mcp_plugin_dir": "a\0b"}, "mcp_plugin_dir"),
    ({"mcp_transport_type": "websocket"}, "mcp_transport_type"),
    ({"mcp_transport_type": ["stdio"]}, "mcp_transport_type"),
    ({"mcp_runtime_hint": "ruby"}, "mcp_runtime_hint"),
    ({"mcp_runtime_hint": 5}, "mcp_runtime_hint"),
    ({"mcp_lifecycle_mode": "forever"}, "mcp_lifecycle_mode"),
    ({"mcp_env_vars": ["A=b"]}, "mcp_env_vars"),
    ({"mcp_env_vars": {"A": 5}}, "mcp_env_vars.A"),
    ({"mcp_env_vars": {"A=B": "x"}}, "mcp_env_vars"),
    ({"mcp_env_vars": {"A": f"{SECRET}\0"}}, "mcp_env_vars.A"),
    ({"mcp_command": []}, "mcp_command"),
    ({"mcp_command": ""}, "mcp_command"),
    ({"mcp_command": "python 'server.py"}, "mcp_command"),
    ({"mcp_command": ["python", 5]}, "mcp_command[1]"),
    ({"mcp_args": "--root /"}, "mcp_args"),
    ({"mcp_args": ["x", 5]}, "mcp_args[1]"),
    ({"mcp_server_url": "http://127.0.0.1:9/mcp"}, "mcp_server_url"),
    ({"mcp_lifecyle_mode": "singleton"}, "mcp_lifecyle_mode"),
    ({"review": "maybe"}, "review"),
    ({"idle_seconds": -1}, "idle_seconds"),
    ({"refresh_interval": "often"}, "refresh_interval"),
    ({"personal": "TOKEN"}, "personal"),
    ({"pass_environment": ["A=b"]}, "pass_environment[0]"),
    ({"connect_timeout": "soon"}, "connect_timeout"),
    ({"cwd": "/"}, "cwd"),
]


@pytest.mark.parametrize("fields, key", FIELDS, ids=[f"{key}-{n}" for n, (_, key) in enumerate(FIELDS)])
async def test_a_wrong_field_is_named(refusing: Refusing, plugin: Plugin, fields: dict[str, Any], key: str) -> None:
    await refusing.refuses(form(plugin, **fields), key)
    assert plugin.starts() == []


REMOTE_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"mcp_server_url": "127.0.0.1:9"}, "mcp_server_url"),
    ({"mcp_server_url": "ftp://127.0.0.1/mcp"}, "mcp_server_url"),
    ({"mcp_server_url": "http://127.0.0.1:9/mcp#x"}, "mcp_server_url"),
    ({"mcp_server_url": 5}, "mcp_server_url"),
    ({"mcp_transport_type": "stdio"}, "mcp_transport_type"),
    ({"mcp_runtime_hint": "uvx"}, "mcp_runtime_hint"),
    ({"mcp_command": ["x"]}, "mcp_command"),
    ({"mcp_args": ["x"]}, "mcp_args"),
    ({"mcp_env_vars": {"two words": "x"}}, "mcp_env_vars"),
    ({"mcp_env_vars": {"API_KEY": f"{SECRET}\r\nHost: x"}}, "mcp_env_vars.API_KEY"),
    ({"mcp_env_vars": {"API_KEY": "a", "api_key": "b"}}, "mcp_env_vars.api_key"),
]


@pytest.mark.parametrize("fields, key", REMOTE_FIELDS, ids=[f"{key}-{n}" for n, (_, key) in enumerate(REMOTE_FIELDS)])
async def test_a_wrong_field_of_a_remote_source_is_named(refusing: Refusing, fields: dict[str, Any], key: str) -> None:
    await refusing.refuses({**remote_form("http://127.0.0.1:9/mcp", name="GitHub MCP"), **fields}, key)


async def test_a_field_that_is_misspelled_is_suggested(refusing: Refusing, plugin: Plugin) -> None:
    await refusing.refuses(form(plugin, mcp_comand=["x"]), "mcp_comand", says="mcp_command")


async def test_a_name_that_is_taken(refusing: Refusing, plugin: Plugin) -> None:
    await refusing.refuses(form(plugin, name="good"), "name", says="update_source")


@pytest.mark.parametrize("given", [None, 5, [], {}, "", "http://127.0.0.1:9/mcp", {"mcpServers": {}}, {"packages": []}])
async def test_what_is_no_registration_at_all(refusing: Refusing, given: Any) -> None:
    before = refusing.provider.list_sources()
    with pytest.raises(tc.ConfigError, match="expected"):
        await refusing.provider.register(given)
    assert refusing.provider.list_sources() == before


# ---- manifests that are wrong, and manifests that lie

MANIFESTS: list[tuple[Any, str]] = [
    ({}, "packages"),
    (manifest(packages=[]), "packages"),
    (manifest(packages="default"), "packages"),
    (manifest(packages=[5]), "packages[0]"),
    (manifest(name=5), "name"),
    (manifest(name=""), "name"),
    (manifest(version=5), "version"),
    (manifest(package(runtime="ruby")), "packages[0].runtime"),
    (manifest(package(runtime=5)), "packages[0].runtime"),
    (manifest(package(transport_type="websocket")), "packages[0].transport_type"),
    (manifest(package(command=[])), "packages[0].command"),
    (manifest(package(command="server.py")), "packages[0].command"),
    (manifest(package(command=["server.py", None])), "packages[0].command[1]"),
    (manifest(package(), package()), "packages"),
    (manifest(package(environment_variables=[{}])), "packages[0].environment_variables[0].name"),
    (manifest(package(environment_variables=[{"name": "A B"}])), "packages[0].environment_variables[0].name"),
    (manifest(package(environment_variables=[VARIABLE, VARIABLE])), "packages[0].environment_variables"),
    (
        manifest(package(environment_variables=[{"name": "A", "required": "yes"}])),
        "packages[0].environment_variables[0].required",
    ),
]


@pytest.mark.parametrize("content, key", MANIFESTS, ids=[f"{key}-{n}" for n, (_, key) in enumerate(MANIFESTS)])
async def test_a_wrong_field_of_a_manifest_is_named(
    refusing: Refusing, make_plugin: MakePlugin, content: Any, key: str
) -> None:
    plugin = make_plugin(content)
    error = await refusing.refuses(form(plugin), key)
    assert error.file is None or Path(error.file).name == "plugin.json"


@pytest.mark.parametrize("text", ["", "{", '{"name": }', "\xff\xfe", "[" * 100_000, "null", "[]"])
async def test_a_manifest_that_is_no_json(refusing: Refusing, plugin: Plugin, text: str) -> None:
    (plugin.folder / "plugin.json").write_text(text, encoding="latin-1")
    before = refusing.provider.list_sources()
    with pytest.raises(tc.ConfigError) as caught:
        await refusing.provider.register(form(plugin))
    assert Path(caught.value.file or "").name == "plugin.json"
    assert refusing.provider.list_sources() == before


async def test_a_manifest_that_lies_about_its_transport(refusing: Refusing, make_plugin: MakePlugin) -> None:
    """The server speaks stdio, the manifest says sse: the process is ended, the error says that nobody listens."""
    plugin = make_plugin(manifest(package(transport_type="sse")))
    with pytest.raises(tc.ConnectError):
        await refusing.provider.register(form(plugin, connect_timeout=1, max_attempts=1), require_ready=True)
    assert len(plugin.starts()) == 1
    assert plugin.running() == []
    assert [source.name for source in refusing.provider.list_sources()] == ["good"]


async def test_a_manifest_that_calls_a_token_public(store_file: Path, make_plugin: MakePlugin) -> None:
    """secret: false does not make a token a plain value."""
    token = "ghp_" + "a1B2" * 9
    lie = {"name": "GITHUB_TOKEN", "required": True, "secret": False}
    plugin = make_plugin(manifest(package(environment_variables=[lie])))
    async with Provider(store_file) as provider:
        source = await provider.register(form(plugin, mcp_env_vars={"GITHUB_TOKEN": token}))
        assert token not in json.dumps(dict(source.row.config))
    assert token not in repr(stored_rows(store_file))


async def test_a_manifest_whose_command_does_not_exist(refusing: Refusing, make_plugin: MakePlugin) -> None:
    plugin = make_plugin(manifest(package(runtime="", command=["no-such-program-here"])))
    with pytest.raises(tc.StartError, match="no-such-program-here"):
        await refusing.provider.register(form(plugin), require_ready=True)
    assert [source.name for source in refusing.provider.list_sources()] == ["good"]
    stored = await refusing.provider.register(form(plugin))
    assert (stored.tools, refusing.provider.status(stored.name).state) == ((), tc.ConnectionState.FAILED)


# ---- traversal


@pytest.mark.parametrize("way", ["dots", "absolute", "folder", "manifest", "parent"])
async def test_nothing_outside_of_the_plugin_root_is_read(
    store_file: Path, spawned: list[list[str]], make_plugin: MakePlugin, tmp_path: Path, way: str
) -> None:
    """Manifests are read only below plugin_root, symlinks resolved."""
    root = tmp_path / "root"
    inside, outside = make_plugin(folder="root/inside"), make_plugin(folder="outside")
    (root / "linked").symlink_to(outside.folder)
    (root / "parent").symlink_to(tmp_path)
    (root / "half").mkdir()
    (root / "half/plugin.json").symlink_to(outside.folder / "plugin.json")
    places = {
        "dots": "inside/../../outside",
        "absolute": str(outside.folder),
        "folder": "linked",
        "manifest": "half",
        "parent": "parent/outside",
    }
    async with open_refusing(store_file, spawned, plugin_root=root) as refusing:
        await refusing.refuses(form(Path(places[way])), "mcp_plugin_dir", says="below plugin_root")
        source = await refusing.provider.register(form(Path("inside")), require_ready=True)
        assert source.config.plugin_dir == str(inside.folder)
    assert outside.starts() == []


async def test_a_manifest_that_is_no_regular_file(refusing: Refusing, plugin: Plugin) -> None:
    (plugin.folder / "plugin.json").unlink()
    os.mkfifo(plugin.folder / "plugin.json")
    with pytest.raises(tc.ConfigError, match="a regular file"):
        await refusing.provider.register(form(plugin))
    assert plugin.starts() == []


# ---- variables, runtimes, docker


async def test_all_missing_variables_are_named(refusing: Refusing, make_plugin: MakePlugin) -> None:
    needed = [{"name": name, "required": True, "secret": True} for name in ("ONE", "TWO")]
    plugin = make_plugin(manifest(package(environment_variables=needed)))
    error = await refusing.refuses(form(plugin, mcp_env_vars={"OTHER": SECRET}), "mcp_env_vars", says="ONE, TWO")
    assert isinstance(error, tc.MissingVariables)
    assert error.names == ("ONE", "TWO")
    assert plugin.starts() == []


@pytest.mark.parametrize(
    "flags",
    [
        ["-v", "/:/host"],
        ["-v/:/host"],
        ["--volume=/:/host"],
        ["--mount", "type=bind,source=/,target=/host"],
        ["--privileged"],
        ["--cap-add", "SYS_ADMIN"],
        ["-u", "0"],
        ["--pid=host"],
        ["--device", "/dev/sda"],
        ["--security-opt", "seccomp=unconfined"],
        ["-e", f"TOKEN={SECRET}"],
        ["--env-file", "/etc/environment"],
        ["-iv", "/:/host"],
    ],
    ids=lambda flags: " ".join(flags)[:20],
)
@pytest.mark.parametrize("place", ["manifest", "mcp_command"])
async def test_docker_flags_that_open_the_machine_are_refused(
    refusing: Refusing, make_plugin: MakePlugin, flags: list[str], place: str
) -> None:
    """A docker flag that mounts /: refused by its name, in a manifest and in a command."""
    if place == "manifest":
        plugin = make_plugin(manifest(package(runtime="docker", command=[*flags, "example/image:1"])))
        await refusing.refuses(form(plugin), "packages[0].command")
    else:
        command = ["docker", "run", *flags, "example/image:1"]
        await refusing.refuses(form(make_plugin(), mcp_command=command), "mcp_command")


async def test_an_operator_may_allow_a_flag(store_file: Path, make_plugin: MakePlugin) -> None:
    plugin = make_plugin(manifest(package(runtime="docker", command=["-v", "/data:/data", "example/image:1"])))
    async with Provider(store_file, allow_docker_flags=["-v"]) as provider:
        source = await provider.register(form(plugin, mcp_env_vars={"PATH": "/nonexistent"}, max_attempts=1))
        assert source.config.command[-3:-1] == ("-v", "/data:/data")


async def test_a_registration_whose_store_fails_leaves_nothing(store_file: Path, plugin: Plugin) -> None:
    """Nothing half stored: the commit fails after the discovery, and the process is ended."""
    before = stored_rows(store_file)
    store = FaultyStore(await open_store(store_file))
    async with Provider(store, key_file=store_file.parent / "toolcrib.key") as provider:
        store.inject("disk full", times=1)
        with pytest.raises(tc.StoreError, match="disk full"):
            await provider.register(form(plugin, mcp_lifecycle_mode="singleton"))
        assert provider.list_sources() == []
        assert plugin.running() == []
        assert provider.connections() == []
    assert stored_rows(store_file) == before
    async with Provider(store_file) as provider:
        await provider.register(form(plugin))


@pytest.mark.parametrize("behaviour", ["broken", "mute"])
async def test_a_source_that_is_not_ready_leaves_nothing(store_file: Path, plugin: Plugin, behaviour: str) -> None:
    """With require_ready: no source, no history, no process."""
    before = stored_rows(store_file)
    plugin.set(behaviour)
    async with Provider(store_file) as provider:
        with pytest.raises(tc.TransportError):
            await provider.register(form(plugin, connect_timeout=0.5, max_attempts=1), require_ready=True)
        assert provider.list_sources() == []
        assert plugin.running() == []
    assert stored_rows(store_file) == before


# ---- changes of a source that go wrong


async def test_an_update_that_is_not_ready_changes_nothing(store_file: Path, make_plugin: MakePlugin) -> None:
    """The old config stays in force, and its process goes on."""
    good, bad = make_plugin(), make_plugin(folder="bad")
    bad.set("broken")
    async with Provider(store_file) as provider:
        before = await provider.register(form(good, mcp_lifecycle_mode="singleton"))
        assert (await provider.execute(before.id, "counter")).get_text() == "1"
        with pytest.raises(tc.StartError):
            await provider.update_source(before.name, form(bad, max_attempts=1), require_ready=True)
        assert provider.get_source(before.name) is before
        assert provider.status(before.name).state is tc.ConnectionState.CONNECTED
        assert (await provider.execute(before.id, "counter")).get_text() == "2"
        assert len(good.starts()) == 1
        assert bad.running() == []


async def test_an_update_to_a_broken_plugin_keeps_the_tools(store_file: Path, make_plugin: MakePlugin) -> None:
    """Without require_ready it is stored as failed; ids and tools stay, and the next refresh recovers it."""
    good, bad = make_plugin(), make_plugin(folder="bad")
    bad.set("broken")
    async with Provider(store_file) as provider:
        before = await provider.register(form(good, mcp_lifecycle_mode="singleton"))
        after = await provider.update_source(before.name, form(bad, max_attempts=1))
        assert (after.id, after.generation) == (before.id, 2)
        assert [tool.id for tool in after.tools] == [tool.id for tool in before.tools]
        await eventually(lambda: not provider.connections(before.name) and not good.running())
        assert provider.status(before.name).state is tc.ConnectionState.FAILED, "also after the old process ended"
        assert "no licence found" in provider.status(before.name).reason
        bad.reset("broken")
        await provider.refresh(before.name)
        assert provider.status(before.name).state is tc.ConnectionState.CONNECTED


async def test_two_registrations_of_one_name_at_once(provider: Provider, make_plugin: MakePlugin) -> None:
    """One is stored, the other is refused; the refused one starts nothing."""
    one, other = make_plugin(), make_plugin(folder="other")
    results = await asyncio.gather(provider.register(form(one)), provider.register(form(other)), return_exceptions=True)
    assert [type(each) for each in results[1:]] == [tc.ConfigError]
    assert [source.config.plugin_dir for source in provider.list_sources()] == [str(one.folder)]
    assert other.starts() == []


async def test_a_registration_that_is_cancelled_leaves_nothing(store_file: Path, plugin: Plugin) -> None:
    """The process is ended, the name is free again."""
    before = stored_rows(store_file)
    plugin.set("mute")
    async with Provider(store_file) as provider:
        registering = asyncio.create_task(provider.register(form(plugin)))
        await eventually(plugin.running)
        registering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await registering
        assert plugin.running() == []
        assert provider.list_sources() == []
        assert stored_rows(store_file) == before
        plugin.reset("mute")
        await provider.register(form(plugin), require_ready=True)


async def test_closing_the_provider_ends_a_registration(store_file: Path, plugin: Plugin) -> None:
    """Nothing is half stored, and no process is left."""
    plugin.set("mute")
    async with Provider(store_file) as provider:
        registering = asyncio.create_task(provider.register(form(plugin)))
        await eventually(plugin.running)
    with pytest.raises((tc.ToolcribError, tc.UsageError)):
        await registering
    assert plugin.running() == []
    assert stored_rows(store_file)["source"] == []


async def test_removing_a_source_while_it_is_called(provider: Provider, plugin: Plugin) -> None:
    """The call has one outcome, the process is ended, and the name is free."""
    source = await provider.register(form(plugin, mcp_lifecycle_mode="singleton"))
    calling = asyncio.create_task(provider.execute(source.id, "hang", timeout=20))
    await eventually(lambda: provider.connections(source.id)[0].leases)
    await provider.remove_source(source.name)
    assert plugin.running() == []
    assert isinstance((await calling).exception, tc.ToolcribError)
    assert provider.list_sources() == []
    await provider.register(form(plugin))


async def test_a_source_that_is_removed_leaves_only_its_audit(store_file: Path, plugin: Plugin) -> None:
    """Rows of calls and of who did what stay; rows of the source, its tools and its history do not."""
    before = stored_rows(store_file)
    async with Provider(store_file) as provider:
        await provider.register(form(plugin, mcp_lifecycle_mode="singleton"))
        await provider.execute("GitHub MCP", "echo", {"text": "x"})
        await provider.remove_source("GitHub MCP")
    after = stored_rows(store_file)
    audit = {"execution", "admin_action", "stat_bucket", "change_counter"}
    assert {name for name in after if after[name] != before[name]} == audit
    assert [len(after[name]) for name in ("execution", "admin_action")] == [1, 2]


async def test_a_source_that_cannot_be_removed_keeps_its_history(store_file: Path, plugin: Plugin) -> None:
    """The delete fails: the source stays, with all entries of its history."""
    store = FaultyStore(await open_store(store_file))
    async with Provider(store, key_file=store_file.parent / "toolcrib.key") as provider:
        source = await provider.register(form(plugin))
        store.inject("locked", times=1)
        with pytest.raises(tc.StoreError):
            await provider.remove_source(source.name)
        kinds = [entry.kind for entry in provider.history(source.name)]
    assert [row[3] for row in stored_rows(store_file)["event"]] == kinds != []
    async with Provider(store_file) as provider:
        assert [entry.kind for entry in provider.history(source.name)] == kinds


# ---- addresses


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]", "100.100.100.200", "0xa9fea9fe"])
async def test_metadata_services_of_clouds_are_never_connected(provider: Provider, host: str) -> None:
    """Private addresses are allowed, those of cloud metadata never."""
    given = remote_form(f"http://{host}/latest/meta-data", connect_timeout=5)
    with pytest.raises(tc.ConnectError) as caught:
        await provider.register(given, require_ready=True)
    assert caught.value.permanent
    source = await provider.register(given)
    assert provider.status(source.name).state is tc.ConnectionState.FAILED


async def test_private_addresses_can_be_forbidden(store_file: Path) -> None:
    """allow_private=False: as the gateway will run it."""
    async with Provider(store_file, allow_private=False) as provider:
        with pytest.raises(tc.ConnectError, match="allow_private") as caught:
            await provider.register(remote_form("http://127.0.0.1:9/mcp"), require_ready=True)
        assert caught.value.permanent
