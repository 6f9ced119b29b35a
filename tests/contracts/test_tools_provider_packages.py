"""The MCP Tools Provider, sentence by sentence: packages of npm and PyPI, containers, and the table of modes.

See test_tools_provider.py. What npx and uvx start is the real thing; they are slow to start, so these tests are.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

import toolcrib as tc
from tests.contracts.conftest import MakePlugin
from tests.contracts.provider_kit import SECRET, VARIABLE, Plugin, form, manifest, package, remote_form, stored_bytes
from tests.peers.web import WebServer
from tests.provider import plugins
from tests.unit.kit import eventually
from toolcrib.provider.provider import Provider

NAME = "GitHub MCP"


async def text(provider: Provider, tool: str, arguments: dict[str, Any] | None = None, name: str = NAME) -> str:
    result = await provider.execute(name, tool, arguments)
    assert result.success, result.error
    return result.get_text()


# ---- "NPM/PyPI MCP packages": npx and uvx


@pytest.mark.slow
async def test_the_file_system_server_of_npm(provider: Provider, tmp_path: Path) -> None:
    """Using MCP packages from npm (npx): one process for each call."""
    folder = plugins.copy_plugin(plugins.NPM_FILESYSTEM, tmp_path)
    source = await provider.register(form(folder), require_ready=True)
    assert source.config.command == ("npx", "-y", "@modelcontextprotocol/server-filesystem", ".")
    assert source.config.package is not None
    assert source.config.package.identifier == "@modelcontextprotocol/server-filesystem"
    assert any("no exact version" in each for each in source.config.warnings)
    assert "plugin.json" in await text(provider, "list_directory", {"path": "."})
    outside = await provider.execute(NAME, "list_directory", {"path": "/"})
    assert outside.is_error
    assert outside.exception is None, "the server refuses it, not the provider"
    await eventually(lambda: not provider.connections(NAME))


@pytest.mark.slow
async def test_the_memory_server_of_npm_keeps_its_state(provider: Provider, tmp_path: Path) -> None:
    """Stateful tools: singleton. The registration's variable reaches the server behind npx."""
    folder = plugins.copy_plugin(plugins.NPM_MEMORY, tmp_path)
    graph = tmp_path / "graph.jsonl"
    await provider.register(
        form(folder, mcp_lifecycle_mode="singleton", mcp_env_vars={"MEMORY_FILE_PATH": str(graph)}), require_ready=True
    )
    entity = {"name": "crib", "entityType": "tool", "observations": ["is real"]}
    await text(provider, "create_entities", {"entities": [entity]})
    assert "is real" in await text(provider, "read_graph")
    assert "crib" in graph.read_text()
    (pooled,) = provider.connections(NAME)
    assert pooled.connected
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    await provider.disable(NAME)
    after = {child.pid for child in psutil.Process().children(recursive=True)}
    assert len(before - after) >= 2, "npx and its server have ended"


@pytest.mark.slow
async def test_a_package_of_the_registry(provider: Provider, tmp_path: Path) -> None:
    """server.json: the exact version of its package, through its runtime hint."""
    folder = plugins.copy_plugin(plugins.SERVER_JSON, tmp_path)
    package = plugins.manifest_of(folder)["packages"][0]
    env = {"MEMORY_FILE_PATH": str(tmp_path / "graph.jsonl")}
    source = await provider.register(form(folder, mcp_env_vars=env), require_ready=True)
    assert source.config.command == ("npx", "-y", f"{package['identifier']}@{package['version']}")
    assert source.config.warnings == ()
    assert "entities" in await text(provider, "read_graph")


@pytest.mark.slow
async def test_a_server_of_pypi_through_uvx(provider: Provider) -> None:
    """Using MCP packages from PyPI (uvx)."""
    source = await provider.register(form(plugins.UVX, mcp_env_vars=plugins.uvx_environment()), require_ready=True)
    assert source.config.command == ("uvx", "mcp-server-time")
    assert "UTC" in await text(provider, "get_current_time", {"timezone": "UTC"})


async def test_the_python_plugin_by_module_and_by_file(provider: Provider, make_plugin: MakePlugin) -> None:
    """python: `python X.py` or `python -m X`."""
    file, module = make_plugin(), make_plugin(manifest(package(command=["server"])), folder="module")
    sources = [
        await provider.register(form(plugin, name=plugin.folder.name), require_ready=True) for plugin in (file, module)
    ]
    assert [source.config.command for source in sources] == [("python", "server.py"), ("python", "-m", "server")]
    assert await text(provider, "echo", {"text": "x"}, name="module") == "x"


@pytest.mark.slow
async def test_node_runs_a_file(provider: Provider, make_plugin: MakePlugin) -> None:
    """node: `node X.js`."""
    plugins.npm_packages()
    plugin = make_plugin(manifest(package(runtime="node", command=["server.js"])))
    script = plugins.NPM_PACKAGES / "@modelcontextprotocol/server-memory/dist/index.js"
    (plugin.folder / "server.js").write_text(f"import({str(script)!r});\n")
    source = await provider.register(form(plugin), require_ready=True)
    assert source.config.command == ("node", "server.js")
    assert "read_graph" in {tool.name for tool in source.tools}


# ---- docker


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the stand-in for docker records its starts."""
    file = tmp_path / "docker.jsonl"
    for name, value in plugins.docker_environment(file).items():
        monkeypatch.setenv(name, value)
    return file


DOCKER_CLIENT = {"pass_environment": ["FAKE_DOCKER_RECORD", "FAKE_DOCKER_PYTHON"]}
"""What the stand-in needs, but not the real client of docker."""


async def test_docker_gets_names_in_its_arguments_and_values_in_its_environment(store_file: Path, record: Path) -> None:
    """docker run -i --rm -e NAME IMAGE: values are never in argv."""
    env = {"PLUGIN_TOKEN": SECRET, "LEVEL": "debug"}
    async with Provider(store_file) as provider:
        source = await provider.register(form(plugins.DOCKER, mcp_env_vars=env, **DOCKER_CLIENT), require_ready=True)
        words = source.config.command
        assert words[:4] == ("docker", "run", "-i", "--rm")
        assert words[-1] == "example/python-plugin:1.2.3"
        assert ("-e", "PLUGIN_TOKEN") in pairwise(words)
        assert SECRET in await text(provider, "env", {"names": ["PLUGIN_TOKEN", "LEVEL"]})
    starts = plugins.docker_starts(record)
    assert len(starts) == 2, "the discovery and a call"
    for start in starts:
        assert start["argv"] == list(words[1:])
        assert SECRET not in " ".join(start["argv"])
        assert "debug" not in " ".join(start["argv"])
        assert (start["env"]["PLUGIN_TOKEN"], start["env"]["LEVEL"]) == (SECRET, "debug")
    assert SECRET.encode() not in stored_bytes(store_file)


async def test_docker_gets_variables_of_one_call_by_name_too(provider: Provider, record: Path) -> None:
    """Values of a call are never in argv either."""
    await provider.register(form(plugins.DOCKER, mcp_env_vars={"PLUGIN_TOKEN": "a"}, **DOCKER_CLIENT))
    result = await provider.execute(NAME, "env", {"names": ["ONCE"]}, environment={"ONCE": SECRET})
    assert SECRET in result.get_text()
    start = plugins.docker_starts(record)[-1]
    assert ("-e", "ONCE") in pairwise(start["argv"])
    assert SECRET not in " ".join(start["argv"])


async def test_a_container_without_its_token_is_not_started(provider: Provider, record: Path) -> None:
    """Provide all required env vars at registration: avoids runtime failures."""
    with pytest.raises(tc.MissingVariables) as caught:
        await provider.register(form(plugins.DOCKER, **DOCKER_CLIENT))
    assert caught.value.names == ("PLUGIN_TOKEN",)
    assert plugins.docker_starts(record) == []


async def test_no_value_of_a_variable_is_in_any_command_line(provider: Provider, make_plugin: MakePlugin) -> None:
    """Every process on the machine can read arguments: a secret is in none of them."""
    plugin = make_plugin(manifest(package(environment_variables=[VARIABLE])))
    await provider.register(form(plugin, mcp_lifecycle_mode="singleton", mcp_env_vars={"PLUGIN_TOKEN": SECRET}))
    children = psutil.Process().children(recursive=True)
    assert len(children) >= 1
    assert SECRET not in "".join(word for child in children for word in child.cmdline())


# ---- "Overview": the table of modes


async def test_all_modes_side_by_side(
    provider: Provider, plugin: Plugin, sdk1: WebServer, sdk2: WebServer, record: Path
) -> None:
    """Plugin (stdio or sse) and Remote (streamable_http), in one provider; the tools of all can be called."""
    python = {"PATH": plugins.python_path()}
    plugin_names = ["stdio", "sse", "http", "docker"]
    await provider.register(form(plugin, name="stdio"))
    await provider.register(form(plugins.SSE, name="sse", mcp_lifecycle_mode="singleton", mcp_env_vars=python))
    await provider.register(form(plugins.HTTP, name="http", mcp_lifecycle_mode="singleton", mcp_env_vars=python))
    await provider.register(form(plugins.DOCKER, name="docker", mcp_env_vars={"PLUGIN_TOKEN": "x"}, **DOCKER_CLIENT))
    for name, server in (("remote 1", sdk1), ("remote 2", sdk2)):
        await provider.register(remote_form(server.url("stateful/mcp"), name=name))
    await provider.register(remote_form(sdk1.url("sse"), name="remote sse", mcp_transport_type="sse"))
    sources = provider.list_sources()
    assert [source.name for source in sources if not source.config.is_remote] == plugin_names
    for source in sources:
        assert provider.status(source.name).state is tc.ConnectionState.CONNECTED
        assert await text(provider, "echo", {"text": source.name}, name=source.name) == source.name
    pids = {child.pid for child in psutil.Process().children(recursive=True)}
    assert len(pids) >= 2
    view = provider.view("alice")
    listed = {tool.name for tool in await view.list_tools()}
    assert {f"mcp__{source.slug}__echo" for source in sources} <= listed
