"""A tool server as a request handler: which function handles which request, and the errors for unknown ones."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import pydantic
import pytest

import toolcrib as tc
from toolcrib.server.context import Context
from toolcrib.server.handler import NO_BACK_CHANNEL, Peer, RequestContext
from toolcrib.types import Wire

PEER = Peer("2026-07-28", modern=True)


def offering() -> tc.ToolServer:
    server = tc.ToolServer("shop", "2.0", instructions="Be kind")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def ask(*, ctx: tc.Context) -> str:
        return ctx.protocol_version

    @server.resource("config://app")
    def config() -> str:
        return "static"

    @server.resource("config://{name}")
    def any_config(name: str) -> str:
        return f"template {name}"

    @server.resource("who://{name}")
    async def who(name: str, ctx: tc.Context) -> str:
        return f"{name} {ctx.request_id}"

    @server.prompt
    def explain(topic: str, tone: Literal["kind", "curt"] = "kind") -> str:
        return f"Explain {topic}"

    @server.prompt
    async def asking(*, ctx: tc.Context) -> str:
        return f"from {ctx.request_id}"

    return server


async def answer(server: tc.ToolServer, method: str, params: Wire | None = None) -> Wire:
    return await server.router.answer(method, params or {}, RequestContext(PEER, NO_BACK_CHANNEL, 9))


async def refused(server: tc.ToolServer, method: str, params: Wire) -> tc.RemoteError:
    with pytest.raises(tc.RemoteError) as caught:
        await answer(server, method, params)
    return caught.value


# ---- tools ---------------------------------------------------------------------------------------------------


async def test_a_call_finds_its_tool() -> None:
    result = await answer(offering(), "tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})
    assert result["content"] == [{"type": "text", "text": "5"}]
    assert "isError" not in result


async def test_a_tool_that_takes_a_context_gets_one() -> None:
    result = await answer(offering(), "tools/call", {"name": "ask"})
    assert result["content"][0]["text"] == "2026-07-28"


@pytest.mark.parametrize(
    "params, said",
    [
        ({"name": "ad"}, "Unknown tool: ad; did you mean 'add'?"),
        ({"name": "zzz"}, "Unknown tool: zzz"),
        ({"name": 5}, "name: must be the name of a tool"),
        ({}, "name: must be the name of a tool"),
        ({"name": "add", "arguments": [1]}, "arguments: must be an object"),
    ],
)
async def test_an_invalid_call_is_refused_with_a_hint(params: Wire, said: str) -> None:
    exc = await refused(offering(), "tools/call", params)
    assert (exc.code, exc.message) == (-32602, said)


async def test_wrong_arguments_are_a_result_that_a_model_can_correct() -> None:
    result = await answer(offering(), "tools/call", {"name": "add", "arguments": {"a": "x", "b": 3}})
    assert result["isError"] is True
    assert "a:" in result["content"][0]["text"]


async def test_errors_are_masked_where_the_server_wants_it() -> None:
    said: dict[bool, str] = {}
    for mask in (True, False):
        server = tc.ToolServer("s", mask_errors=mask)

        @server.tool
        async def fail() -> None:
            raise ValueError("the password is swordfish")

        result = await answer(server, "tools/call", {"name": "fail"})
        assert result["isError"] is True
        said[mask] = result["content"][0]["text"]
    assert "swordfish" in said[False]
    assert "swordfish" not in said[True]


async def test_a_remote_error_of_a_tool_is_the_answer_itself() -> None:
    server = tc.ToolServer("s")

    @server.tool
    async def fail() -> None:
        raise tc.RemoteError(-32603, "out of stock", {"item": 1})

    exc = await refused(server, "tools/call", {"name": "fail"})
    assert (exc.code, exc.message, exc.data) == (-32603, "out of stock", {"item": 1})


# ---- capabilities --------------------------------------------------------------------------------------------


async def test_the_description_has_identity_and_capabilities() -> None:
    described = offering().router.describe(PEER)
    assert described["serverInfo"] == {"name": "shop", "version": "2.0"}
    assert described["instructions"] == "Be kind"
    assert described["capabilities"] == {
        "logging": {},
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "completions": {},
    }


def test_an_empty_server_declares_tools_for_the_first_may_come_later() -> None:
    described = tc.ToolServer("s").router.describe(PEER)
    assert described["capabilities"] == {"logging": {}, "tools": {"listChanged": True}}
    assert "instructions" not in described


@pytest.mark.parametrize(
    "method, field, names",
    [
        ("tools/list", "tools", ["add", "ask"]),
        ("prompts/list", "prompts", ["explain", "asking"]),
        ("resources/list", "resources", ["config"]),
        ("resources/templates/list", "resourceTemplates", ["any_config", "who"]),
    ],
)
async def test_lists_have_the_order_of_registration(method: str, field: str, names: list[str]) -> None:
    result = await answer(offering(), method)
    assert [entry["name"] for entry in result[field]] == names
    assert result.keys() == {field, "ttlMs", "cacheScope"}


async def test_lists_come_in_pages_with_an_opaque_cursor() -> None:
    server = tc.ToolServer("s", page_size=2)
    for number in range(5):
        server.add_tool(lambda: None, name=f"t{number}")
    seen: list[str] = []
    params: Wire = {}
    for _ in range(3):
        result = await answer(server, "tools/list", params)
        seen += [tool["name"] for tool in result["tools"]]
        params = {"cursor": result.get("nextCursor")}
    assert seen == ["t0", "t1", "t2", "t3", "t4"]
    assert "nextCursor" not in result
    assert (await refused(server, "tools/list", {"cursor": "elsewhere"})).code == -32602


@pytest.mark.parametrize("auth, scope", [(None, "public"), (lambda headers: headers, "private")])
async def test_lists_carry_the_servers_cache_hint(auth: Any, scope: str) -> None:
    result = await answer(tc.ToolServer("s", cache_ttl=1.5, auth=auth), "tools/list")
    assert (result["ttlMs"], result["cacheScope"]) == (1500, scope)


@pytest.mark.parametrize(
    "method, params, may",
    [
        ("tools/call", {"name": "ask"}, True),
        ("tools/call", {"name": "add"}, False),
        ("tools/call", {"name": ["ask"]}, False),
        ("prompts/get", {"name": "asking"}, True),
        ("prompts/get", {"name": "explain"}, False),
        ("resources/read", {"uri": "who://ann"}, True),
        ("resources/read", {"uri": "config://app"}, False),
        ("resources/read", {"uri": 5}, False),
        ("tools/list", {}, False),
    ],
)
def test_only_functions_with_a_context_may_ask(method: str, params: Wire, may: bool) -> None:
    assert offering().router.may_ask(method, params) is may


def test_the_arguments_that_go_into_headers_are_known() -> None:
    server = offering()

    @server.tool
    async def deploy(region: Annotated[str, pydantic.Field(json_schema_extra={"x-mcp-header": "Region"})]) -> None: ...

    assert [declared.header for declared in server.router.mirrored("deploy")] == ["Mcp-Param-Region"]
    assert server.router.mirrored("add") == ()
    assert server.router.mirrored("nothing") == ()


@pytest.mark.parametrize("method", ["initialize", "server/discover", "ping", "subscriptions/listen", "tools/cal", ""])
async def test_an_unknown_method_is_said_to_be_unknown(method: str) -> None:
    exc = await refused(offering(), method, {})
    assert (exc.code, exc.message) == (-32601, f"Method not found: {method}")


# ---- resources, prompts, completion --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "uri, text", [("config://app", "static"), ("config://db", "template db"), ("who://ann", "ann 9")]
)
async def test_a_static_resource_takes_precedence_over_any_template(uri: str, text: str) -> None:
    (content,) = (await answer(offering(), "resources/read", {"uri": uri}))["contents"]
    assert (content["uri"], content["text"]) == (uri, text)


async def test_a_resource_that_is_not_there_is_named() -> None:
    exc = await refused(offering(), "resources/read", {"uri": "nowhere://x"})
    assert (exc.code, exc.data) == (-32002, {"uri": "nowhere://x"})
    assert (await refused(offering(), "resources/read", {})).code == -32602


async def test_prompts_are_filled_in() -> None:
    server = offering()
    result = await answer(server, "prompts/get", {"name": "explain", "arguments": {"topic": "tides"}})
    assert result["messages"] == [{"role": "user", "content": {"type": "text", "text": "Explain tides"}}]
    result = await answer(server, "prompts/get", {"name": "asking"})
    assert result["messages"][0]["content"]["text"] == "from 9"


async def test_an_unknown_prompt_is_refused_with_a_hint() -> None:
    exc = await refused(offering(), "prompts/get", {"name": "explian"})
    assert (exc.code, exc.message) == (-32602, "Unknown prompt: explian; did you mean 'explain'?")


async def test_arguments_are_completed_by_functions_or_by_their_types() -> None:
    server = offering()

    @server.completion("explain", "topic")
    async def topics(value: str, *, ctx: tc.Context) -> list[str]:
        return [f"{value}{ctx.request_id}"]

    def asked(argument: str, value: str) -> Wire:
        return {"ref": {"type": "ref/prompt", "name": "explain"}, "argument": {"name": argument, "value": value}}

    assert (await answer(server, "completion/complete", asked("tone", "k")))["completion"]["values"] == ["kind"]
    assert (await answer(server, "completion/complete", asked("topic", "ti")))["completion"]["values"] == ["ti9"]
    assert (await refused(server, "completion/complete", {"ref": 1})).code == -32602


# ---- the context ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["returns", "raises", "is cancelled"])
async def test_a_context_ends_with_its_call(how: str) -> None:
    server = tc.ToolServer("s")
    kept: list[Context] = []

    @server.tool
    async def work(*, ctx: tc.Context) -> None:
        kept.append(ctx)
        if how == "raises":
            raise ValueError(how)
        if how == "is cancelled":
            await asyncio.Event().wait()

    task = asyncio.create_task(answer(server, "tools/call", {"name": "work"}))
    if how == "is cancelled":
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert kept[0].cancelled is (how == "is cancelled")
    with pytest.raises(tc.UsageError, match="answered already"):
        await kept[0]._ask("roots/list", {}, None)
