"""Every plugin of `plugins/` can be started with the command that its manifest stands for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.provider import plugins
from toolcrib.transports.spawned_http import SpawnedHttpServer


def command_of(folder: Path) -> list[str]:
    words: list[str] = plugins.manifest_of(folder)["packages"][0]["command"]
    return words


async def test_the_python_plugin_works_over_stdio() -> None:
    server = tc.StdioServer(
        "python", command_of(plugins.PYTHON), cwd=plugins.PYTHON, env={"PATH": plugins.python_path()}
    )
    async with tc.Client(server) as client:
        assert {tool.name for tool in await client.list_tools()} == plugins.PYTHON_TOOLS
        assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"


@pytest.mark.parametrize(
    "folder, transport", [(plugins.HTTP, "streamable_http"), (plugins.SSE, "sse")], ids=["http", "sse"]
)
async def test_the_web_plugins_listen_on_their_port(folder: Path, transport: Any) -> None:
    assert plugins.manifest_of(folder)["packages"][0]["transport_type"] == transport
    command = ("python", *command_of(folder))
    server = SpawnedHttpServer(command, transport=transport, cwd=folder, env={"PATH": plugins.python_path()})  # type: ignore[arg-type]
    async with tc.Client(server) as client:
        assert {tool.name for tool in await client.list_tools()} == plugins.PYTHON_TOOLS
        assert [(await client.call_tool("counter")).data for _ in range(2)] == [1, 2]


@pytest.mark.slow
async def test_the_npm_plugins_start_without_a_download(tmp_path: Path) -> None:
    files = plugins.copy_plugin(plugins.NPM_FILESYSTEM, tmp_path)
    async with tc.Client(tc.StdioServer("npx", ["-y", *command_of(files)], cwd=files)) as client:
        listed = await client.call_tool("list_directory", {"path": "."})
        assert "plugin.json" in listed.text
    memory = plugins.copy_plugin(plugins.NPM_MEMORY, tmp_path)
    env = {"MEMORY_FILE_PATH": str(tmp_path / "graph.jsonl")}
    async with tc.Client(tc.StdioServer("npx", ["-y", *command_of(memory)], cwd=memory, env=env)) as client:
        assert (await client.call_tool("read_graph")).data == {"entities": [], "relations": []}


@pytest.mark.slow
async def test_the_package_of_the_registry_starts_without_a_download(tmp_path: Path) -> None:
    folder = plugins.copy_plugin(plugins.SERVER_JSON, tmp_path)
    package = plugins.manifest_of(folder)["packages"][0]
    name = f"{package['identifier']}@{package['version']}"
    env = {"MEMORY_FILE_PATH": str(tmp_path / "graph.jsonl")}
    async with tc.Client(tc.StdioServer(package["runtimeHint"], ["-y", name], cwd=folder, env=env)) as client:
        assert "read_graph" in {tool.name for tool in await client.list_tools()}


@pytest.mark.slow
async def test_the_plugin_from_pypi_starts_through_uvx() -> None:
    env = plugins.uvx_environment()
    async with tc.Client(tc.StdioServer("uvx", command_of(plugins.UVX), cwd=plugins.UVX, env=env)) as client:
        times = await client.call_tool("get_current_time", {"timezone": "UTC"})
        assert not times.is_error and "UTC" in times.text


async def test_the_stand_in_for_docker_records_its_start_and_speaks_mcp(tmp_path: Path) -> None:
    record = tmp_path / "starts.jsonl"
    env = {**plugins.docker_environment(record), "PLUGIN_TOKEN": "t0ken-of-the-test", "OUTSIDE": "x"}
    args = ["run", "-i", "--rm", "-e", "PLUGIN_TOKEN", *command_of(plugins.DOCKER)]
    async with tc.Client(tc.StdioServer("docker", args, cwd=plugins.DOCKER, env=env)) as client:
        seen = (await client.call_tool("env", {"names": ["PLUGIN_TOKEN", "OUTSIDE"]})).data
    assert seen == {"PLUGIN_TOKEN": "t0ken-of-the-test", "OUTSIDE": None}
    (start,) = plugins.docker_starts(record)
    assert start["argv"] == args
    assert start["env"]["PLUGIN_TOKEN"] == "t0ken-of-the-test"
