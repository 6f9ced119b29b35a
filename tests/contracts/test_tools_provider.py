"""The MCP Tools Provider, sentence by sentence: local plugins, their fields, manifests, lifecycles and environments.

Where that document sends a registration to its service, Toolcrib writes `await provider.register({...})` with the same
fields. Each docstring gives the document's sentence in short words, and, after "Here:", a departure. Remote servers,
execution, errors, packages of npm and PyPI, and wrong input have their own files.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.contracts.conftest import MakePlugin
from tests.contracts.provider_kit import (
    SECRET,
    VARIABLE,
    Plugin,
    form,
    manifest,
    package,
    stored_bytes,
)
from tests.provider import plugins
from tests.unit.kit import eventually
from toolcrib.provider.provider import Provider
from toolcrib.provider.source_config import EnvironmentVariable, LifecycleMode, SourceTransport

NAME = "GitHub MCP"


async def run(provider: Provider, tool: str, arguments: dict[str, Any] | None = None, **options: Any) -> str:
    """Return the text of a successful call."""
    result = await provider.execute(NAME, tool, arguments, **options)
    assert result.success, result.error
    return result.get_text()


# ---- "Plugin mode"


async def test_a_plugin_is_a_subprocess_that_the_provider_spawns(provider: Provider, plugin: Plugin) -> None:
    """Plugin mode spawns MCP servers as subprocesses, communicating via JSON-RPC over stdin/stdout."""
    source = await provider.register(form(plugin, mcp_lifecycle_mode="singleton"))
    assert not source.config.is_remote
    (start,) = plugin.starts()
    assert int(await run(provider, "pid")) == start["pid"] != os.getpid()
    assert await run(provider, "echo", {"text": "over stdin and stdout"}) == "over stdin and stdout"


async def test_the_registration_of_the_document(provider: Provider, make_plugin: MakePlugin) -> None:
    """The example, with a stand-in for uvx that starts the plugin's server."""
    plugin = make_plugin(
        manifest(
            {
                "name": "default",
                "transport_type": "stdio",
                "runtime": "uvx",
                "command": ["mcp-server-github"],
                "environment_variables": [
                    {"name": "GITHUB_TOKEN", "description": "GitHub Token", "required": True, "secret": True}
                ],
            },
            name="@modelcontextprotocol/github",
            version="1.0.0",
            description="GitHub MCP server for repository operations",
        )
    )
    launcher = stand_in(plugin, "uvx")
    source = await provider.register(
        {
            "name": "GitHub MCP",
            "url": "mcp://github-plugin",
            "source_type": "mcp",
            "mcp_plugin_dir": str(plugin.folder),
            "mcp_transport_type": "stdio",
            "mcp_runtime_hint": "uvx",
            "mcp_lifecycle_mode": "transient",
            "mcp_env_vars": {"GITHUB_TOKEN": "ghp_xxx...", "PATH": launcher},
        }
    )
    assert (source.name, source.config.url) == ("GitHub MCP", "mcp://github-plugin")
    assert source.config.command == ("uvx", "mcp-server-github")
    assert await run(provider, "env", {"name": "GITHUB_TOKEN"}) == "ghp_xxx..."


# ---- the table of fields


async def test_only_the_plugin_folder_is_required(provider: Provider, plugin: Plugin) -> None:
    """mcp_plugin_dir: yes; all others: no. stdio and transient are the defaults."""
    source = await provider.register(form(plugin))
    config = source.config
    assert (config.transport_type, config.lifecycle_mode) == (SourceTransport.STDIO, LifecycleMode.TRANSIENT)
    assert (config.plugin_dir, config.manifest_path) == (str(plugin.folder), str(plugin.folder / "plugin.json"))
    assert (config.runtime_hint, config.command) == ("python", ("python", "server.py"))
    assert await run(provider, "echo", {"text": "x"}) == "x"


async def test_without_the_folder_the_registration_is_refused(provider: Provider) -> None:
    """mcp_plugin_dir: required. Here: mcp_server_url or mcp_command are other ways."""
    with pytest.raises(tc.ConfigError, match=r"mcp_plugin_dir.*mcp_server_url.*mcp_command") as caught:
        await provider.register({"name": NAME, "url": "mcp://x", "source_type": "mcp"})
    assert caught.value.key == "mcp_plugin_dir"


SERVER_JSON = {
    "name": "io.github.example/plugin",
    "version": "1.2.3",
    "packages": [
        {
            "registryType": "pypi",
            "identifier": "mcp-server-plugin",
            "version": "1.2.3",
            "transport": {"type": "stdio"},
        }
    ],
}


async def test_the_manifest_is_plugin_json_or_server_json(provider: Provider, make_plugin: MakePlugin) -> None:
    """mcp_plugin_dir: directory containing the manifest (`plugin.json` or `server.json`)."""
    plugin = make_plugin(SERVER_JSON, file="server.json")
    source = await provider.register(form(plugin, mcp_env_vars={"PATH": stand_in(plugin, "uvx")}))
    assert Path(source.config.manifest_path).name == "server.json"
    assert source.config.command == ("uvx", "mcp-server-plugin@1.2.3")
    assert await run(provider, "echo", {"text": "x"}) == "x"


@pytest.mark.parametrize("transport, folder", [("sse", plugins.SSE), ("streamable_http", plugins.HTTP)])
async def test_a_plugin_may_serve_on_a_local_port(provider: Provider, transport: str, folder: Path) -> None:
    """mcp_transport_type: stdio or sse. Here: streamable_http as well; `SSE (future)` works."""
    env = {"PATH": plugins.python_path()}
    source = await provider.register(
        form(folder, mcp_transport_type=transport, mcp_lifecycle_mode="singleton", mcp_env_vars=env)
    )
    assert source.config.transport_type == transport
    assert not source.config.is_remote
    assert [await run(provider, "counter") for _ in range(2)] == ["1", "2"]
    pid = int(await run(provider, "pid"))
    await provider.disable(NAME)
    await eventually(lambda: not Path(f"/proc/{pid}").exists())


async def test_a_transient_plugin_on_a_port_ends_after_its_call(provider: Provider) -> None:
    """transient: start process per call, terminate after; over sse too."""
    await provider.register(form(plugins.SSE, mcp_env_vars={"PATH": plugins.python_path()}))
    assert provider.get_source(NAME).config.transport_type is SourceTransport.SSE
    pid = int(await run(provider, "pid"))
    await eventually(lambda: not Path(f"/proc/{pid}").exists())


HINTS = {
    "uvx": ["uvx", "server.py"],
    "npx": ["npx", "-y", "server.py"],
    "python": ["python", "server.py"],
    "node": ["node", "server.py"],
    "docker": ["docker", "run", "-i", "--rm", "-e", "PATH", "server.py"],
}


@pytest.mark.parametrize("hint", HINTS)
async def test_the_hint_names_the_runtime(provider: Provider, plugin: Plugin, hint: str) -> None:
    """mcp_runtime_hint: uvx, npx, python, node, docker. It overrides the runtime of the manifest."""
    env = {"PATH": stand_in(plugin, hint)}
    source = await provider.register(form(plugin, mcp_runtime_hint=hint, mcp_env_vars=env))
    assert list(source.config.command) == HINTS[hint]
    assert source.config.runtime_hint == hint
    (start,) = plugin.starts()
    assert start["argv"] == HINTS[hint][1:]
    assert len(source.tools) > 5


async def test_variables_reach_the_subprocess(provider: Provider, plugin: Plugin) -> None:
    """mcp_env_vars: environment variables for the subprocess. Here: it inherits few others of this process."""
    os.environ["OF_THIS_PROCESS"] = "x"
    try:
        await provider.register(form(plugin, mcp_env_vars={"LEVEL": "debug", "EMPTY": ""}))
    finally:
        del os.environ["OF_THIS_PROCESS"]
    (start,) = plugin.starts()
    assert (start["env"]["LEVEL"], start["env"]["EMPTY"]) == ("debug", "")
    assert "OF_THIS_PROCESS" not in start["env"]
    assert await run(provider, "env", {"name": "LEVEL"}) == "debug"


@pytest.mark.parametrize(
    "command",
    [[sys.executable, "server.py", "two words", "$HOME"], f"{sys.executable} server.py 'two words' $HOME"],
    ids=["list", "string"],
)
async def test_a_command_overrides_the_manifest(provider: Provider, make_plugin: MakePlugin, command: object) -> None:
    """mcp_command: custom command (overrides manifest). Here: a list, or a string that no shell interprets."""
    plugin = make_plugin(manifest(package(runtime="docker", command=["example/image"])))
    source = await provider.register(form(plugin, mcp_command=command))
    assert source.config.command == (sys.executable, "server.py", "two words", "$HOME")
    (start,) = plugin.starts()
    assert start["argv"] == ["two words", "$HOME"]


async def test_arguments_are_appended(provider: Provider, plugin: Plugin) -> None:
    """mcp_args: additional command arguments; to the manifest's command and to mcp_command."""
    await provider.register(form(plugin, mcp_args=["--root", "/data; rm -rf /"]))
    command = [sys.executable, "server.py", "own"]
    await provider.register(form(plugin, name="Other", mcp_command=command, mcp_args=["last"]))
    assert [start["argv"] for start in plugin.starts()] == [["--root", "/data; rm -rf /"], ["own", "last"]]


async def test_a_plugin_runs_in_its_folder(provider: Provider, plugin: Plugin) -> None:
    """The plugin directory is the working directory of the subprocess."""
    await provider.register(form(plugin))
    assert [start["cwd"] for start in plugin.starts()] == [str(plugin.folder)]


# ---- "Plugin lifecycle modes"


async def test_transient_starts_a_process_for_each_call(provider: Provider, plugin: Plugin) -> None:
    """Tool call, spawn, execute, return result, terminate process: clean state and resource cleanup."""
    await provider.register(form(plugin, mcp_lifecycle_mode="transient"))
    await eventually(lambda: not plugin.running())
    assert len(plugin.starts()) == 1, "the discovery"
    assert [await run(provider, "counter") for _ in range(3)] == ["1", "1", "1"], "each process counts alone"
    await eventually(lambda: not plugin.running())
    assert len({start["pid"] for start in plugin.starts()}) == 4
    await eventually(lambda: not provider.connections(NAME))


async def test_singleton_keeps_one_process(provider: Provider, plugin: Plugin) -> None:
    """Spawn once, keep alive, reuse the connection: stateful tools, faster execution."""
    await provider.register(form(plugin, mcp_lifecycle_mode="singleton"))
    assert [await run(provider, "counter") for _ in range(3)] == ["1", "2", "3"]
    assert len(plugin.starts()) == len(plugin.running()) == 1


async def test_the_first_call_spawns_a_singleton_and_shutdown_ends_it(store_file: Path, plugin: Plugin) -> None:
    """First tool call: spawn subprocess ... shutdown signal: terminate."""
    async with Provider(store_file) as provider:
        await provider.register(form(plugin, mcp_lifecycle_mode="singleton"))
    assert plugin.running() == []
    async with Provider(store_file) as provider:
        assert len(provider.list_tools(NAME)) > 5
        assert len(plugin.starts()) == 1, "lists come from the store"
        assert [await run(provider, "counter") for _ in range(2)] == ["1", "2"]
        assert len(plugin.starts()) == 2
        assert len(plugin.running()) == 1
    assert plugin.running() == []


async def test_an_idle_singleton_is_stopped_and_woken(provider: Provider, plugin: Plugin) -> None:
    """Keep process running. Here: not longer than idle_seconds; its tools stay listed, and a call starts it again."""
    await provider.register(form(plugin, mcp_lifecycle_mode="singleton", idle_seconds=0.05))
    await eventually(lambda: not plugin.running())
    assert len(provider.list_tools(NAME)) > 5
    assert await run(provider, "echo", {"text": "awake"}) == "awake"
    assert len(plugin.starts()) == 2


# ---- "Plugin manifest"


async def test_the_manifest_of_the_document_is_kept_in_the_config(provider: Provider, make_plugin: MakePlugin) -> None:
    """packages: name, transport_type, runtime, command, environment_variables with name, description, ..."""
    plain = {"name": "LEVEL", "description": "How much is logged", "required": False, "secret": False}
    plugin = make_plugin(manifest(package(environment_variables=[VARIABLE, plain])))
    source = await provider.register(form(plugin, mcp_env_vars={"PLUGIN_TOKEN": SECRET, "LEVEL": "debug"}))
    assert source.config.env_definitions == (
        EnvironmentVariable("PLUGIN_TOKEN", "A token", required=True, secret=True),
        EnvironmentVariable("LEVEL", "How much is logged", required=False, secret=False),
    )
    assert source.config.environment["LEVEL"] == "debug"
    assert SECRET not in source.config.environment["PLUGIN_TOKEN"]


@pytest.mark.parametrize(
    "packages, requested, taken",
    [
        ([package(name="b", command=["b.py"]), package(command=["server.py"])], None, "server.py"),
        ([package(name="a", transport_type="sse", command=["b.py"]), package(name="b")], None, "server.py"),
        ([package(name="a"), package(name="b", command=["b.py"])], None, "server.py"),
        ([package(transport_type="sse", command=["b.py"]), package(name="b")], "stdio", "server.py"),
    ],
    ids=["default", "stdio", "first", "requested"],
)
async def test_which_package_is_taken(
    provider: Provider, make_plugin: MakePlugin, packages: Any, requested: str | None, taken: str
) -> None:
    """packages[]: the one named default, else the first over stdio, else the first; one of the requested transport."""
    asked = {} if requested is None else {"mcp_transport_type": requested}
    source = await provider.register(form(make_plugin(manifest(*packages)), **asked), require_ready=True)
    assert source.config.command == ("python", taken)


async def test_the_folder_must_contain_a_manifest(provider: Provider, tmp_path: Path) -> None:
    """The plugin directory must contain a manifest file describing the MCP server."""
    with pytest.raises(tc.ConfigError, match=r"plugin\.json or server\.json") as caught:
        await provider.register(form(tmp_path))
    assert caught.value.key == "mcp_plugin_dir"


# ---- "Environment variable resolution"


async def test_required_variables_are_validated_all_at_once(
    provider: Provider, make_plugin: MakePlugin, spawned: list[list[str]]
) -> None:
    """The resolver validates that required variables are provided. Here: before anything is stored or started."""
    needed = [{"name": name, "required": True} for name in ("ONE", "TWO", "THREE")]
    plugin = make_plugin(manifest(package(environment_variables=needed)))
    with pytest.raises(tc.MissingVariables) as caught:
        await provider.register(form(plugin, mcp_env_vars={"TWO": "2"}))
    assert caught.value.names == ("ONE", "THREE")
    assert spawned == []
    assert provider.list_sources() == []


async def test_variables_are_resolved_when_a_tool_is_executed(
    store_file: Path, make_plugin: MakePlugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Environment variables are resolved at execution time, from the manifest and the registration."""
    defined = [{"name": "REGION", "default": "north"}, {"name": "BUILD", "required": True}]
    plugin = make_plugin(manifest(package(environment_variables=defined)))
    monkeypatch.setenv("BUILD", "one")
    async with Provider(store_file) as provider:
        await provider.register(form(plugin, pass_environment=["BUILD"]))
        assert await run(provider, "env", {"name": "REGION"}) == "north"
        assert await run(provider, "env", {"name": "REGION"}, environment={"REGION": "south"}) == "south"
        assert await run(provider, "env", {"name": "REGION"}) == "north"
    monkeypatch.setenv("BUILD", "two")
    async with Provider(store_file) as provider:
        assert await run(provider, "env", {"name": "BUILD"}) == "two"
    monkeypatch.delenv("BUILD")
    starts = len(plugin.starts())
    async with Provider(store_file) as provider:
        result = await provider.execute(NAME, "env", {"name": "BUILD"})
        assert isinstance(result.exception, tc.MissingVariables)
        assert result.exception.names == ("BUILD",)
    assert len(plugin.starts()) == starts


async def test_the_process_environment_is_read_for_each_new_process(
    provider: Provider, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Environment variables are resolved at execution time."""
    monkeypatch.setenv("BUILD", "one")
    await provider.register(form(plugin, pass_environment=["BUILD"]))
    assert await run(provider, "env", {"name": "BUILD"}) == "one"
    monkeypatch.setenv("BUILD", "two")
    assert await run(provider, "env", {"name": "BUILD"}) == "two"


async def test_secrets_are_marked_and_shown_nowhere(
    store_file: Path, make_plugin: MakePlugin, caplog: pytest.LogCaptureFixture
) -> None:
    """... and marks secrets appropriately. Here: encrypted in the store, masked everywhere else."""
    plugin = make_plugin(manifest(package(environment_variables=[VARIABLE])))
    caplog.set_level("DEBUG")
    async with Provider(store_file) as provider:
        source = await provider.register(form(plugin, mcp_env_vars={"PLUGIN_TOKEN": SECRET}))
        assert (await run(provider, "env", {"name": "PLUGIN_TOKEN"})) == SECRET, "the plugin gets it"
        plugin.set("broken")
        failed = await provider.execute(NAME, "echo", {"text": "x"}, timeout=0.5)
        shown = [source, source.config, source.row, provider.history(NAME), provider.status(NAME), failed]
        assert SECRET not in "".join(map(repr, shown))
    assert SECRET not in caplog.text
    assert SECRET.encode() not in stored_bytes(store_file)
    assert stat.S_IMODE(store_file.stat().st_mode) == stat.S_IMODE((store_file.parent / "toolcrib.key").stat().st_mode)
    assert stat.S_IMODE((store_file.parent / "toolcrib.key").stat().st_mode) == 0o600
    async with Provider(store_file) as provider:
        plugin.reset("broken")
        assert (await run(provider, "env", {"name": "PLUGIN_TOKEN"})) == SECRET, "a restart can decrypt it"


def stand_in(plugin: Plugin, name: str) -> str:
    """Make a program of this name, which starts the plugin's server with its own arguments; return its PATH."""
    folder = plugin.folder / "bin"
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "{plugin.folder}/server.py" "$@"\n')
    program.chmod(0o755)
    return os.pathsep.join((str(folder), os.environ["PATH"]))
