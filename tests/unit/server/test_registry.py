"""Several servers by name in one registry."""

from __future__ import annotations

import logging

import pytest

import toolcrib as tc


def server(name: str, text: str = "") -> tc.ToolServer:
    made = tc.ToolServer(name)

    @made.tool
    async def say() -> str:
        return text or name

    return made


CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "say"}}


async def test_a_request_goes_to_the_server_of_that_name() -> None:
    registry = tc.ServerRegistry([server("one")])
    registry.register(server("two"))
    for name in ("one", "two"):
        answer = await registry.handle(name, CALL)
        assert answer is not None and answer["result"]["content"] == [{"type": "text", "text": name}]
    assert await registry.handle("one", {"jsonrpc": "2.0", "method": "notifications/initialized"}) is None


async def test_an_unknown_server_is_an_error_with_the_nearest_names() -> None:
    registry = tc.ServerRegistry([server("math-tools")])
    with pytest.raises(tc.ServerNotFound, match=r"'math-tool'; did you mean 'math-tools'\?") as caught:
        await registry.handle("math-tool", CALL)
    assert (caught.value.server, caught.value.nearest) == ("math-tool", ("math-tools",))


async def test_a_server_of_the_same_name_takes_its_place_and_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    first = server("one", "first")
    registry = tc.ServerRegistry([first, first])
    assert caplog.records == []
    registry.register(server("one", "second"))
    assert [(r.levelno, r.getMessage()) for r in caplog.records] == [
        (logging.WARNING, "replacing the registered server 'one'")
    ]
    answer = await registry.handle("one", CALL)
    assert answer is not None and answer["result"]["content"][0]["text"] == "second"
    assert len(registry) == 1


def test_servers_can_be_looked_up_and_unregistered() -> None:
    one, two = server("one"), server("two")
    registry = tc.ServerRegistry([one, two])
    assert [*registry] == [one, two]
    assert "one" in registry and "three" not in registry
    assert registry.get("two") is two
    registry.unregister("one")
    assert [*registry] == [two]
    with pytest.raises(tc.ServerNotFound):
        registry.unregister("one")
