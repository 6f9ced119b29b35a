"""`ToolServer`: its components, their names, and notifications of changes."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

import toolcrib as tc
from tests.unit.kit import turns
from toolcrib.transports.channel import ChannelSource

LISTED = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


def names(server: tc.ToolServer) -> list[str]:
    return [tool.name for tool in server.list_tools()]


# ---- tools ---------------------------------------------------------------------------------------------------


async def test_a_decorated_function_stays_the_function() -> None:
    server = tc.ToolServer("math")

    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    def shout(text: str) -> str:
        return text.upper()

    assert server.tool(add) is add
    assert server.tool(name="loud", description="Louder", annotations={"readOnlyHint": True})(shout) is shout
    assert await add(1, 2) == 3
    assert names(server) == ["add", "loud"]
    first, second = server.list_tools()
    assert isinstance(first, tc.Tool)
    assert (first.description, second.description) == ("Add two numbers.", "Louder")
    assert second.annotations == {"readOnlyHint": True}


async def test_a_standalone_tool_can_be_added_to_several_servers() -> None:
    @tc.tool
    def now() -> str:
        return "12:00"

    one, two = tc.ToolServer("one"), tc.ToolServer("two", name_style="dashed")
    one.add_tool(now)
    assert two.tool(now) is now
    two.add_tool(now, name="clock")
    assert (names(one), names(two)) == (["now"], ["now", "clock"])
    assert now() == "12:00"


def test_methods_are_tools_of_their_instance() -> None:
    class Counter:
        def __init__(self, start: int) -> None:
            self.count = start

        def plain(self, by: int = 1) -> int:
            self.count += by
            return self.count

        @tc.tool
        def decorated(self) -> int:
            return self.count

    server = tc.ToolServer("s")
    server.add_tool(Counter(1).plain)
    server.add_tool(Counter(7).decorated)
    assert names(server) == ["plain", "decorated"]
    assert server.list_tools()[0].input_schema["properties"].keys() == {"by"}
    with pytest.raises(tc.UsageError, match="from an instance"):
        server.add_tool(Counter.decorated)


def test_names_can_be_dashed_for_all_or_for_one() -> None:
    def read_file() -> None: ...

    server = tc.ToolServer("s", name_style="dashed")
    server.tool(read_file)
    server.tool(name="read_it")(read_file)
    server.tool(name_style="as_is")(read_file)
    assert names(server) == ["read-file", "read_it", "read_file"]


async def test_a_hand_made_tool_keeps_state_and_gets_one_dict() -> None:
    calls: list[Any] = []

    async def handler(args: dict[str, Any]) -> str:
        calls.append(args)
        return "ok"

    server = tc.ToolServer("s")
    schema = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}
    server.add_tool(handler, name="add2", description="Add", input_schema=schema)
    tool = server.get_tool("add2")
    assert tool is not None and tool.input_schema == schema
    assert (await tool.call({"a": 1}))["content"] == [{"type": "text", "text": "ok"}]
    assert calls == [{"a": 1}]


def test_tools_are_found_and_removed_by_name() -> None:
    server = tc.ToolServer("s")
    server.add_tool(lambda: None, name="add")
    found = server.get_tool("add")
    assert found is not None and found.name == "add"
    assert server.get_tool("ad") is None
    with pytest.raises(tc.ToolNotFound, match=r"did you mean 'add'\?"):
        server.remove_tool("ad")
    server.remove_tool("add")
    assert server.list_tools() == []


def test_a_duplicate_name_overwrites_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    server = tc.ToolServer("s")
    server.add_tool(lambda: 1, name="t", description="first")
    assert caplog.records == []
    server.add_tool(lambda: 2, name="t", description="second")
    assert [tool.description for tool in server.list_tools()] == ["second"]
    assert [(r.levelno, r.getMessage()) for r in caplog.records] == [
        (logging.WARNING, "the tool 't' already existed and was replaced")
    ]


def test_a_misspelt_option_is_not_swallowed() -> None:
    with pytest.raises(TypeError, match="descripton"):
        tc.ToolServer("s").tool(descripton="x")(lambda: None)  # type: ignore[call-overload]


# ---- resources, prompts, completion --------------------------------------------------------------------------


def test_resources_templates_and_prompts_come_and_go() -> None:
    server = tc.ToolServer("s")

    @server.resource("config://app", mime_type="application/json")
    def config() -> str:
        return "{}"

    @server.resource("file:///{path}")
    def read(path: str) -> bytes:
        return b""

    @server.prompt
    def explain(topic: str) -> str:
        return topic

    @server.prompt(name="other", title="Other")
    def second() -> str:
        return ""

    assert (config(), read("x"), explain("tides")) == ("{}", b"", "tides")
    assert [r.wire["mimeType"] for r in server.resources] == ["application/json"]
    assert [t.wire["uriTemplate"] for t in server.templates] == ["file:///{path}"]
    assert [p.wire["name"] for p in server.prompts] == ["explain", "other"]
    server.remove_resource("config://app")
    server.remove_resource("file:///{path}")
    server.remove_prompt("explain")
    assert (len(server.resources), len(server.templates), len(server.prompts)) == (0, 0, 1)
    with pytest.raises(tc.ResourceNotFound):
        server.remove_resource("config://app")
    with pytest.raises(tc.NotFound, match="'other'"):
        server.remove_prompt("othr")


def test_what_was_made_elsewhere_can_be_added() -> None:
    one, two = tc.ToolServer("one"), tc.ToolServer("two")
    made = one.add_resource(lambda: "x", "a:b", name="r")
    prompt = one.add_prompt(lambda: "x", name="p")
    assert two.add_resource(made) is made
    assert two.add_prompt(prompt) is prompt
    for again in (
        lambda: two.add_resource(made, "a:c"),
        lambda: two.add_prompt(prompt, name="q"),
        lambda: two.add_resource(lambda: "x"),
    ):
        with pytest.raises(tc.UsageError):
            again()


def test_a_resource_without_a_uri_raises_a_clear_error() -> None:
    server: Any = tc.ToolServer("s")
    with pytest.raises(tc.UsageError, match="needs its URI"):

        @server.resource
        def config() -> str:
            return ""


# ---- changes -------------------------------------------------------------------------------------------------


async def test_every_change_of_a_list_is_reported() -> None:
    server, received = tc.ToolServer("s"), []
    server.changes.watch({**LISTED, "resourceSubscriptions": ["a:b"]}, lambda method, params: received.append(method))
    steps = [
        (lambda: server.add_tool(lambda: None, name="t"), "tools/list_changed"),
        (lambda: server.add_tool(lambda: None, name="t"), "tools/list_changed"),
        (lambda: server.remove_tool("t"), "tools/list_changed"),
        (lambda: server.add_prompt(lambda: "", name="p"), "prompts/list_changed"),
        (lambda: server.remove_prompt("p"), "prompts/list_changed"),
        (lambda: server.add_resource(lambda: "", "a:b", name="r"), "resources/list_changed"),
        (lambda: server.remove_resource("a:b"), "resources/list_changed"),
        (lambda: server.add_resource(lambda x: "", "a:{x}", name="r"), "resources/list_changed"),
        (lambda: server.notify_resource_updated("a:b"), "resources/updated"),
        (server.notify_tools_changed, "tools/list_changed"),
        (server.notify_prompts_changed, "prompts/list_changed"),
        (server.notify_resources_changed, "resources/list_changed"),
    ]
    for change, notification in steps:
        received.clear()
        change()
        await turns()
        assert received == [f"notifications/{notification}"]


async def test_tools_may_be_added_from_many_threads() -> None:
    server, received = tc.ToolServer("s"), []
    server.changes.watch(LISTED, lambda method, params: received.append(threading.current_thread()))

    def add(worker: int) -> None:
        for number in range(50):
            server.add_tool(lambda: None, name=f"t{worker}-{number}")
            server.list_tools()

    await asyncio.gather(*(asyncio.to_thread(add, worker) for worker in range(4)))
    await turns()
    assert len(names(server)) == 200
    assert set(received) == {threading.current_thread()}


# ---- itself --------------------------------------------------------------------------------------------------


def test_it_identifies_itself() -> None:
    server = tc.ToolServer(
        "math", "1.2", title="Mathematics", website_url="https://a.example", icons=[{"src": "https://a.example/i.png"}]
    )
    assert server.info == {
        "name": "math",
        "version": "1.2",
        "title": "Mathematics",
        "websiteUrl": "https://a.example",
        "icons": [{"src": "https://a.example/i.png"}],
    }
    assert repr(server) == "<ToolServer math 1.2: 0 tools>"
    assert isinstance(server, ChannelSource)


@pytest.mark.parametrize(
    "options, key",
    [
        ({"name": ""}, "name"),
        ({"name": 5}, "name"),
        ({"version": None}, "version"),
        ({"name_style": "camel"}, "name_style"),
        ({"page_size": 0}, "page_size"),
        ({"page_size": True}, "page_size"),
        ({"cache_ttl": -1}, "cache_ttl"),
        ({"cache_ttl": float("nan")}, "cache_ttl"),
        ({"auth": "secret"}, "auth"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], key: str) -> None:
    with pytest.raises(tc.ConfigError, match=f"{key}: expected") as caught:
        tc.ToolServer(**{"name": "s", **options})
    assert caught.value.key == key
