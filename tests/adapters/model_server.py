"""An HTTP server that speaks the API of a model provider: it checks each request strictly and answers by a script."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Turn = list[tuple[str, dict[str, Any]]] | str
"""What the model does in one turn: its calls (name and arguments), or its last words."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class ModelServer:
    """A scripted model behind an API; `problem` is what was wrong with a request."""

    def __init__(self, turns: list[Turn]) -> None:
        self.turns = list(turns)
        self.requests: list[dict[str, Any]] = []
        self.problem: str | None = None
        self.url = ""
        self._count = 0

    def next_calls(self) -> tuple[list[tuple[str, str, dict[str, Any]]], str]:
        """Return the calls of the next turn, with ids, and the text."""
        turn = self.turns.pop(0)
        if isinstance(turn, str):
            return [], turn
        calls = []
        for name, arguments in turn:
            self._count += 1
            calls.append((f"call_{self._count}", name, arguments))
        return calls, "Let me see."


@asynccontextmanager
async def serve(
    path: str, answer: Callable[[ModelServer, web.Request, dict[str, Any]], dict[str, Any]], turns: list[Turn]
) -> AsyncIterator[ModelServer]:
    """Serve a scripted model at a path of a local port; a request that breaks a rule of the API gets a 400."""
    model = ModelServer(turns)

    async def handle(request: web.Request) -> web.Response:
        body = await request.json()
        model.requests.append(body)
        try:
            return web.json_response(answer(model, request, body))
        except (AssertionError, KeyError, IndexError) as exc:
            model.problem = f"{type(exc).__name__}: {exc}"
            error = {"type": "invalid_request_error", "message": model.problem}
            return web.json_response({"type": "error", "error": error}, status=400)

    app = web.Application()
    app.router.add_post(path, handle)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        model.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield model
    finally:
        await runner.cleanup()


# ---- Anthropic -------------------------------------------------------------------------------------------------


def answer_messages(model: ModelServer, request: web.Request, body: dict[str, Any]) -> dict[str, Any]:
    """Answer `POST /v1/messages`."""
    assert request.headers["x-api-key"] == "key-of-the-test", "authentication_error"
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert set(body) <= {"model", "max_tokens", "messages", "tools", "system"} and body["max_tokens"] > 0
    names = [_check_anthropic_tool(tool) for tool in body["tools"]]
    assert len(names) == len(set(names)), "tools: names must be unique"
    waiting: list[str] = []
    for place, message in enumerate(body["messages"]):
        assert message["role"] == ("assistant" if place % 2 else "user"), "messages: roles must alternate"
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        assert blocks, "messages: content must not be empty"
        if message["role"] == "assistant":
            waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
            continue
        first = blocks[: len(waiting)]
        given = [block.get("tool_use_id") for block in first]
        assert sorted(given) == sorted(waiting), "tool_use ids were found without tool_result blocks at once after it"
        for block in blocks:
            _check_anthropic_block(block)
    calls, text = model.next_calls()
    content = [{"type": "text", "text": text}]
    content += [{"type": "tool_use", "id": id, "name": name, "input": given} for id, name, given in calls]
    assert all(name in names for _, name, _ in calls), f"the script calls a tool that was not offered: {names}"
    whole = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "stop_sequence": None}
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {**whole, "content": content, "stop_reason": "tool_use" if calls else "end_turn", "usage": usage}


def _check_anthropic_tool(tool: dict[str, Any]) -> str:
    assert set(tool) <= {"name", "description", "input_schema", "strict", "defer_loading"}, f"tools: {set(tool)}"
    schema = tool["input_schema"]
    assert NAME.fullmatch(tool["name"]) and tool["description"] and schema["type"] == "object"
    assert not {"oneOf", "anyOf", "allOf"} & set(schema), "tools: no unions at the root"
    return str(tool["name"])


def _check_anthropic_block(block: dict[str, Any]) -> None:
    match block["type"]:
        case "text":
            assert block["text"].strip(), "text content blocks must be non-empty"
        case "tool_result":
            assert set(block) <= {"type", "tool_use_id", "content", "is_error"}
            assert block["content"] and all(each["type"] != "tool_result" for each in block["content"])
            for each in block["content"]:
                _check_anthropic_block(each)
        case "image":
            assert block["source"]["type"] == "base64"
            assert block["source"]["media_type"] in ("image/png", "image/jpeg", "image/gif", "image/webp")
        case kind:
            raise AssertionError(f"unexpected block {kind}")


# ---- OpenAI ----------------------------------------------------------------------------------------------------


def answer_responses(model: ModelServer, request: web.Request, body: dict[str, Any]) -> dict[str, Any]:
    """Answer `POST /responses`."""
    assert request.headers["Authorization"] == "Bearer key-of-the-test", "invalid_api_key"
    assert set(body) <= {"model", "input", "tools", "store", "include", "instructions"}
    names = [_check_openai_tool(tool) for tool in body["tools"]]
    called: list[str] = []
    answered: list[str] = []
    for item in body["input"]:
        match item.get("type", "message"):
            case "function_call":
                called.append(item["call_id"])
                json.loads(item["arguments"])
            case "function_call_output":
                assert item["call_id"] in called, "No tool call found for function call output"
                answered.append(item["call_id"])
                assert isinstance(item["output"], str) or all(
                    block["type"] in ("input_text", "input_image", "input_file") for block in item["output"]
                )
            case kind:
                assert kind in ("message", "reasoning"), f"unexpected item {kind}"
    assert sorted(called) == sorted(answered), "No tool output found for function call"
    calls, text = model.next_calls()
    assert all(name in names for _, name, _ in calls), f"the script calls a tool that was not offered: {names}"
    output: list[dict[str, Any]] = [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}]
    for id, name, given in calls:
        item = {"type": "function_call", "id": f"fc_{id}", "call_id": id, "status": "completed"}
        output.append({**item, "name": name, "arguments": json.dumps(given)})
    if not calls:
        part = {"type": "output_text", "text": text, "annotations": []}
        output.append({"type": "message", "id": "m_1", "role": "assistant", "status": "completed", "content": [part]})
    return {"id": "resp_1", "object": "response", "status": "completed", "model": body["model"], "output": output}


def _check_openai_tool(tool: dict[str, Any]) -> str:
    assert tool["type"] == "function" and isinstance(tool["strict"], bool), "tools: strict must be said"
    assert NAME.fullmatch(tool["name"]) and tool["parameters"]["type"] == "object"
    if tool["strict"]:
        _check_strict(tool["parameters"])
    return str(tool["name"])


def _check_strict(schema: Any) -> None:
    if isinstance(schema, list):
        for each in schema:
            _check_strict(each)
    if isinstance(schema, dict):
        if "properties" in schema:
            assert schema["additionalProperties"] is False, "'additionalProperties' is required to be false"
            assert sorted(schema.get("required", [])) == sorted(schema["properties"]), "all properties must be required"
        assert not {"oneOf", "allOf", "default", "minLength"} & set(schema), "keyword is not permitted"
        for key, each in schema.items():
            for below in each.values() if key in ("properties", "$defs") else [each]:
                _check_strict(below)
