"""The model formats and the providers' own SDKs: run in the environment `oracles`, which `test_model_sdks.py` starts.

Responses are parsed by the SDK from JSON and read by `calls`; what `tools` and `results` return passes the SDK's own
types. Prints the names of the checks that passed.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anthropic.types as anthropic_types
import boto3
import google.genai.types as genai_types
import openai.types.chat as chat_types
import openai.types.responses as responses_types
from botocore.stub import Stubber
from openai.types.responses.response_input_item_param import FunctionCallOutput
from openai.types.responses.response_tool_search_output_item_param_param import ResponseToolSearchOutputItemParamParam
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

import toolcrib as tc
from tests.unit.adapters.showcase import RESULTS, STRICT, Showcase, response
from toolcrib.adapters import anthropic_messages, bedrock_converse, gemini, openai_chat, openai_responses
from toolcrib.types import Tool

NAMES = [(name, {}) for name in RESULTS]
TOOLS = [Tool("a", description="A", input_schema=STRICT), Tool("b", input_schema={"type": "object"})]


def check(kind: Any, values: list[dict[str, Any]]) -> None:
    """Check that each value has the type of the SDK, with no field that the type does not know."""
    adapter = TypeAdapter(kind)
    assert values
    for value in values:
        # Unknown keys of a typed dict are dropped, so a value with one comes back smaller.
        back = adapter.dump_python(adapter.validate_python(value), exclude_unset=True)
        assert to_jsonable_python(_listed(back)) == value, (value, back)


def _listed(value: Any) -> Any:
    """Return a value with iterators, which pydantic makes of `Iterable`, as lists."""
    if isinstance(value, dict):
        return {key: _listed(each) for key, each in value.items()}
    return value if isinstance(value, str | bytes | None | int | float) else [_listed(each) for each in value]


async def deferring_tools(module: Any, **options: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Return tools with deferred ones, and the results of a search."""
    server = tc.ToolServer("db")
    server.add_tool(lambda: "done", name="vacuum", description="Reclaim space")
    async with tc.Hub({"db": server}) as hub:
        hub.toolsets.register(tc.Toolset("db").defer_all())
        item = {"type": "tool_search_call", "id": "s", "call_id": "c1", "execution": "client"}
        searches = {
            anthropic_messages: response("anthropic", ("search_tools", {"query": "space"})),
            openai_responses: [{**item, "arguments": {"query": "space"}}],
        }
        tools = module.tools(hub, deferred=True, **options)
        return tools, await module.results(hub, searches[module])


async def check_anthropic() -> None:
    message = anthropic_types.Message.model_validate_json(json.dumps(response("anthropic", *NAMES)))
    assert [call.name for call in anthropic_messages.calls(message)] == list(RESULTS)
    check(anthropic_types.ToolResultBlockParam, await anthropic_messages.results(Showcase(), message))
    check(anthropic_types.ToolUnionParam, anthropic_messages.tools(TOOLS, read_more=True))
    check(anthropic_types.ToolUnionParam, anthropic_messages.tools(TOOLS, strict=True))
    for search in ("regex", "bm25", "own"):
        tools, found = await deferring_tools(anthropic_messages, search=search)
        check(anthropic_types.ToolUnionParam, tools)
        check(anthropic_types.ToolResultBlockParam, found)


async def check_chat() -> None:
    completion = chat_types.ChatCompletion.model_validate_json(json.dumps(response("chat", *NAMES)))
    assert [call.name for call in openai_chat.calls(completion)] == list(RESULTS)
    assert openai_chat.calls(completion.choices[0].message) == openai_chat.calls(completion)
    check(chat_types.ChatCompletionMessageParam, await openai_chat.results(Showcase(), completion))
    check(chat_types.ChatCompletionToolParam, openai_chat.tools(TOOLS, strict=True, read_more=True))


async def check_responses() -> None:
    whole = responses_types.Response.model_validate_json(json.dumps(response("responses", *NAMES)))
    assert [call.name for call in openai_responses.calls(whole)] == list(RESULTS)
    assert openai_responses.calls(whole.output) == openai_responses.calls(whole)
    check(FunctionCallOutput, await openai_responses.results(Showcase(), whole))
    check(responses_types.ToolParam, openai_responses.tools(TOOLS, strict=True, read_more=True))
    for search in ("server", "own"):
        tools, found = await deferring_tools(openai_responses, search=search)
        check(responses_types.ToolParam, tools)
        check(ResponseToolSearchOutputItemParamParam, found)


async def check_gemini() -> None:
    parsed = genai_types.GenerateContentResponse.model_validate_json(json.dumps(response("gemini", *NAMES)))
    calls = gemini.calls(parsed)
    assert [call.name for call in calls] == list(RESULTS) and calls[0].id == "c1"
    assert parsed.candidates and parsed.candidates[0].content is not None
    assert gemini.calls(parsed.candidates[0].content) == gemini.calls(parsed.candidates[0].content.parts) == calls
    [content] = await gemini.results(Showcase(), parsed)
    genai_types.Content.model_validate(content)  # extra fields are forbidden
    for dialect in ("json-schema", "openapi"):
        for tool in gemini.tools(TOOLS, dialect=dialect, read_more=True):
            genai_types.Tool.model_validate(tool)


async def check_bedrock() -> None:
    client = boto3.client(
        "bedrock-runtime", region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none"
    )
    usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    scripted = {**response("bedrock", *NAMES), "usage": usage, "metrics": {"latencyMs": 1}}
    with Stubber(client) as stubber:
        stubber.add_response("converse", scripted)
        stubber.add_response("converse", scripted)
        messages: list[Any] = [{"role": "user", "content": [{"text": "hello"}]}]
        config = {"tools": bedrock_converse.tools(TOOLS, read_more=True)}
        given = client.converse(modelId="m", messages=messages, toolConfig=config)
        assert [call.name for call in bedrock_converse.calls(given)] == list(RESULTS)
        results = await bedrock_converse.results(Showcase(), given)
        messages += [given["output"]["message"], {"role": "user", "content": results}]
        strict = {"tools": bedrock_converse.tools(TOOLS, strict=True)}
        client.converse(modelId="m", messages=messages, toolConfig=strict)  # validates the request


async def check_the_check() -> None:
    """A field that the SDK does not know is noticed, deep inside too."""
    [good] = await anthropic_messages.results(Showcase(), response("anthropic", ("image", {})))
    wrong = json.loads(json.dumps(good))
    wrong["content"][1]["source"]["more"] = 1
    check(anthropic_types.ToolResultBlockParam, [good])
    try:
        check(anthropic_types.ToolResultBlockParam, [wrong])
    except AssertionError:
        return
    raise AssertionError("an unknown field was accepted")


async def main() -> None:
    for function in (check_the_check, check_anthropic, check_chat, check_responses, check_gemini, check_bedrock):
        await function()
        print(function.__name__)


if __name__ == "__main__":
    asyncio.run(main())
