"""The reference memory server from npm: nested structured data, and a resource that notifies its subscribers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import toolcrib as tc
from tests.peers.kit import first

pytestmark = pytest.mark.slow

GRAPH = "memory://knowledge-graph"
ANN = {"name": "Ann", "entityType": "person", "observations": ["likes red"]}


@pytest.fixture
def memory(npm_server: Callable[..., tc.StdioServer], tmp_path: Path) -> tc.StdioServer:
    return npm_server("memory", env={"MEMORY_FILE_PATH": str(tmp_path / "graph.jsonl")})


async def test_a_graph_is_kept_over_a_restart(memory: tc.StdioServer) -> None:
    async with tc.Client(memory) as client:
        made = await client.call_tool("create_entities", {"entities": [ANN]})
        assert made.data == {"entities": [ANN]}
        await client.disconnect()
        graph = await client.call_tool("read_graph")
        read = await client.read_resource(GRAPH)

    assert graph.data == json.loads(read.text) == {"entities": [ANN], "relations": []}


async def test_an_update_is_sent_to_subscribers(memory: tc.StdioServer) -> None:
    client = tc.Client(memory)
    async with client, client.listen(GRAPH, tools=False, prompts=False, resources=False) as changes:
        await client.call_tool("create_entities", {"entities": [ANN]})
        assert await first(changes) == tc.Change("resource", GRAPH)


async def test_bad_arguments_and_unknown_names_are_distinguished(memory: tc.StdioServer) -> None:
    async with tc.Client(memory) as client:
        await client.list_tools()
        bad = await client.call_tool("create_entities", {"entities": "Ann"})
        unknown = await client.call_tool("read_graf")
        with pytest.raises(tc.ResourceNotFound):
            await client.read_resource("memory://nowhere")

    assert bad.is_error and "expected array" in bad.text
    assert unknown.is_error and "read_graf" in unknown.text
