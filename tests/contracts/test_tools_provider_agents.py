"""The MCP Tools Provider, for agents: what its document registers and executes is offered to a model by a `Toolbox`.

That document has no agents; its tools are executed for other programs. Here every adapter takes a provider's view, and
`Toolbox` is what all of them use.
"""

from __future__ import annotations

import asyncio

import pytest

import toolcrib as tc
from tests.contracts.conftest import MakePlugin
from tests.contracts.provider_kit import Plugin, form
from tests.unit.kit import eventually
from toolcrib.adapters import Toolbox
from toolcrib.provider.provider import Provider


async def test_a_model_is_offered_the_tools_of_a_group(provider: Provider, plugin: Plugin) -> None:
    """Each discovered tool has its full JSON schema; a group selects those that the model sees."""
    await provider.register(form(plugin, name="plugin"))
    await provider.groups.create("readers", include=["plugin/echo", "plugin/pid"])
    box = await Toolbox.load(provider.view("alice", group="readers"))
    specs = {spec.name: spec for spec in box.tools()}
    assert list(specs) == ["mcp__plugin__echo", "mcp__plugin__pid"]
    assert specs["mcp__plugin__echo"].description == "Tool echo."
    assert specs["mcp__plugin__echo"].input_schema["required"] == ["text"]


async def test_a_model_calls_with_the_credentials_of_its_user(provider: Provider, make_plugin: MakePlugin) -> None:
    """Tools execute with the environment of the source; here each principal has processes of its own."""
    await provider.register(form(make_plugin(), name="plugin", mcp_lifecycle_mode="singleton"))
    alice, bob = (Toolbox(provider.view(name)) for name in ("alice", "bob"))
    pids = [(await box.call("mcp__plugin__pid")).text for box in (alice, alice, bob)]
    assert pids[0] == pids[1] != pids[2]


async def test_a_model_sees_why_a_call_failed(provider: Provider, plugin: Plugin) -> None:
    """McpExecutionResult: success, is_error, error. Here: an answer, which says whether the tool ran."""
    await provider.register(form(plugin, name="plugin"))
    box = Toolbox(provider.view("alice"))
    good = await box.call("mcp__plugin__echo", '{"text": "hello"}')
    assert (good.is_error, good.text) == (False, "hello")
    failed = await box.call("mcp__plugin__fail")
    assert failed.is_error and failed.error is None
    wrong = await box.call("mcp__plugin__echo", {"txt": "hello"})
    assert isinstance(wrong.error, tc.InvalidArguments) and "The tool did not run." in wrong.text
    unknown = await box.call("mcp__plugin__ecko")
    assert isinstance(unknown.error, tc.ToolNotFound) and "mcp__plugin__echo" in unknown.text
    lost = await box.call("mcp__plugin__crash")
    assert isinstance(lost.error, tc.TransportError) and "The tool may have run" in lost.text


async def test_a_model_that_runs_in_a_thread_calls_tools(provider: Provider, plugin: Plugin) -> None:
    """Frameworks that run their tools in threads can use the view as well."""
    await provider.register(form(plugin, name="plugin"))
    box = await Toolbox.load(provider.view("alice"))
    answer = await asyncio.to_thread(box.call_sync, "mcp__plugin__echo", {"text": "from a thread"})
    assert answer.text == "from a thread"
    with pytest.raises(tc.UsageError, match=r"toolcrib\.sync\.Hub"):
        box.call_sync("mcp__plugin__echo", {"text": "on the loop"})


async def test_a_model_is_offered_new_tools(provider: Provider, plugin: Plugin) -> None:
    """RefreshInventoryCommand re-discovers the tools; listeners of the toolbox are notified."""
    await provider.register(form(plugin, name="plugin"))
    box = await Toolbox.load(provider.view("alice"))
    changes: list[str] = []
    stop = box.on_change(lambda: changes.append("changed"))
    plugin.set("extra", "extra")
    await provider.refresh("plugin")
    await eventually(lambda: bool(changes))
    assert "mcp__plugin__extra" in [spec.name for spec in await box.list_tools()]
    stop()
