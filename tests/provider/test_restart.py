"""A restart serves all lists from the store; a process that is killed while it writes leaves the store whole."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.provider.kit import SmallSource, value_of
from toolcrib.provider.provider import Provider

CHILD = Path(__file__).with_name("registering_child.py")
SOURCES = 5
CHANGING_TOOLS = 20


async def test_a_restart_serves_all_lists_without_a_process_and_a_call_wakes_its_source(tmp_path: Path) -> None:
    offers = {
        "prompts": [{"name": "greet", "description": "Greet a guest"}],
        "resources": [{"name": "note", "uri": "note://one"}],
        "templates": [{"name": "notes", "uriTemplate": "note://{name}"}],
    }
    smalls = [SmallSource(tmp_path, f"small-{number}", **offers) for number in range(SOURCES)]
    file = tmp_path / "tools.db"

    async def everything(provider: Provider) -> dict[str, Any]:
        view, group = provider.view("alice"), provider.view("alice", "greeters")
        return {
            "sources": [(each.name, each.slug, each.id, each.config) for each in provider.list_sources()],
            "records": provider.list_tools(),
            "tools": [tool.raw for tool in await view.list_tools()],
            "group": [tool.name for tool in await group.list_tools()],
            "prompts": [prompt.raw for prompt in await view.list_prompts()],
            "resources": [resource.raw for resource in await view.list_resources()],
            "templates": [template.raw for template in await view.list_resource_templates()],
            "found": [tool.name for tool in await view.search_tools("echo", limit=50)],
            "credentials": provider.credentials.list(),
        }

    async with Provider(file) as provider:
        for small in smalls:
            await provider.add_source(small.name, small.server(env={"API_KEY": f"key of {small.name}"}))
        own = SmallSource(tmp_path, "own")
        await provider.add_source("own", own.server(), personal=["TOKEN"])
        await provider.credentials.set("own", "TOKEN", "x", principal="bob")
        await provider.groups.create("greeters", include=["small-1/*"])
        await provider.disable("small-4")
        before = await everything(provider)
        assert len(before["tools"]) == 5 * 4 and len(before["prompts"]) == len(before["found"]) == 4
    async with Provider(file) as provider:
        assert await everything(provider) == before
        assert not provider.connections() and not any(small.processes() for small in smalls)
        assert {provider.status(f"small-{n}").state for n in range(4)} == {"disconnected"}
        assert provider.status("small-4").state == "disabled"
        woken = value_of(await provider.execute("small-2", "see", {"names": ["API_KEY"]}))
        assert woken["env"] == {"API_KEY": "key of small-2"}
        assert [len(small.processes()) for small in smalls] == [0, 0, 1, 0, 0]
        assert provider.status("small-2").state == "connected"
        kinds = [entry.kind for entry in provider.history("small-2")]
        assert kinds.count("start") == 2 and "inventory" in kinds  # the history goes on


@pytest.mark.parametrize(
    "times", [20, pytest.param(200, marks=[pytest.mark.nightly, pytest.mark.timeout(1200)])], ids=["20", "200"]
)
async def test_a_killed_process_leaves_every_source_complete(tmp_path: Path, times: int) -> None:
    file = tmp_path / "tools.db"
    small = SmallSource(tmp_path, tools=[])
    generator = random.Random(times)
    command = [sys.executable, CHILD, file, small.file]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    killed_while: list[str] = []
    with child:
        assert child.stdin is not None and child.stdout is not None
        for _ in range(times):
            child.stdin.write(f"{generator.uniform(0, 0.12)}\n")
            child.stdin.flush()
            killed_while.append(child.stdout.readline().strip())
        child.stdin.close()
    assert len(set(killed_while)) > 1, killed_while
    async with Provider(file) as provider:
        sources = provider.list_sources()
        assert sources, "the child registered nothing"
        names = [source.name for source in sources]
        assert len(set(names)) == len(names)
        for source in sources:
            listed = [tool.name for tool in source.tools]
            versions = {name.partition("_")[0] for name in listed}
            assert source.state is not None and source.state.listed_at is not None
            assert len(listed) == CHANGING_TOOLS and len(versions) == 1, (source.name, listed)
        small.change(tools=["see", *(f"v_{number}" for number in range(3))])
        for source in sources[:2] + sources[-2:]:
            await provider.refresh(source.id)
            assert value_of(await provider.execute(source.id, "see", {"names": ["API_KEY"]}))["env"] == {
                "API_KEY": f"key of {source.name}"
            }
        actions = {row.target for row in await provider.admin_actions(limit=10_000)}
        assert actions >= set(names)
    assert json.loads(small.file.read_text())["tools"]
