"""A source with a tool for each kind of result, and the calls of each model API as it sends them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from toolcrib.adapters import anthropic_messages, bedrock_converse, gemini, openai_chat, openai_responses
from toolcrib.errors import AccessDenied, ToolNotFound
from toolcrib.types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    Tool,
    ToolResult,
)

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF = b"%PDF-1.4 a page"
FORMATS: dict[str, ModuleType] = {
    "anthropic": anthropic_messages,
    "chat": openai_chat,
    "responses": openai_responses,
    "gemini": gemini,
    "bedrock": bedrock_converse,
}


def file(data: bytes, mime_type: str, uri: str) -> EmbeddedResource:
    return EmbeddedResource(ResourceContents(uri, mime_type, blob=data))


RESULTS: dict[str, ToolResult] = {
    "text": ToolResult.from_text("hello"),
    "empty": ToolResult.from_blocks([TextContent(" ")]),
    "image": ToolResult.from_blocks([TextContent("a dot"), ImageContent(PNG, "image/png")]),
    "wrong_type": ToolResult.from_blocks([ImageContent(PNG, "image/jpeg")]),
    "drawing": ToolResult.from_blocks([ImageContent(b"<svg/>", "image/svg+xml")]),
    "audio": ToolResult.from_blocks([AudioContent(b"RIFFabcd", "audio/wav")]),
    "link": ToolResult.from_blocks([ResourceLink("file:///a.txt", "a.txt")]),
    "note": ToolResult.from_blocks([EmbeddedResource(ResourceContents("file:///n.md", "text/markdown", "# Note"))]),
    "pdf": ToolResult.from_blocks([file(PDF, "application/pdf", "file:///out/My_report%201.pdf")]),
    "two_pdfs": ToolResult.from_blocks([file(PDF, "application/pdf", f"file:///{n}/a.pdf") for n in range(2)]),
    "csv": ToolResult.from_blocks([file(b"a,b\n1,2\n", "text/csv", "file:///t.csv")]),
    "zip": ToolResult.from_blocks([file(b"PK\x03\x04", "application/zip", "file:///t.zip")]),
    "data": ToolResult.from_blocks([TextContent('{"sum": 3}')], data={"sum": 3}),
    "data_only": ToolResult.from_blocks([], data={"sum": 3}),
    "text_and_data": ToolResult.from_blocks([TextContent("3 rows")], data={"rows": [1, 2, 3]}),
    "list": ToolResult.from_blocks([TextContent("a"), TextContent("b")], data=["a", "b"]),
    "fail": ToolResult.from_error("the disk is full"),
    "fail_with_image": ToolResult.from_blocks([ImageContent(PNG, "image/png")], is_error=True),
    "long": ToolResult.from_text("".join(f"line {n}\n" for n in range(10_000))),
}
STRICT = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["text"],
}


class Showcase:
    """A source whose tools return `RESULTS`; `echo`, `wait`, `delete` and `denied` do what their names say."""

    def __init__(self, *more: Tool) -> None:
        self.lists = 0
        self.calls: list[tuple[str, Mapping[str, Any], dict[str, Any]]] = []
        self.waiting = 0
        self.cancelled = 0
        self.go = asyncio.Event()
        names = (*RESULTS, "wait", "denied", "delete")
        self.tools = [*(Tool(name, input_schema={"type": "object"}) for name in names), *more]
        self.tools.append(Tool("echo", description="Return the arguments", input_schema=STRICT))

    async def list_tools(self) -> list[Tool]:
        self.lists += 1
        return self.tools

    def needs_approval(self, name: str) -> bool:
        return name == "delete"

    async def call_tool(self, name: str, arguments: Mapping[str, Any], **options: Any) -> ToolResult:
        self.calls.append((name, arguments, options))
        match name:
            case "echo":
                return ToolResult.from_text(json.dumps(dict(arguments)))
            case "wait":
                await self._wait()
                return ToolResult.from_text("waited")
            case "delete" if not options.get("approved"):
                raise AccessDenied("a person must approve this call", tool=name)
            case "delete":
                return ToolResult.from_text("deleted")
            case "denied":
                raise AccessDenied("a rule forbids it", tool=name)
            case _ if name in RESULTS:
                return RESULTS[name]
        raise ToolNotFound("there is no tool of this name", tool=name)

    async def _wait(self) -> None:
        self.waiting += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def response(format: str, *calls: tuple[str, Any], text: bool = False) -> dict[str, Any]:
    """Return a response as the API sends it. `text` gives the arguments as they are, else as the API encodes them."""
    found = []
    for number, (name, arguments) in enumerate(calls, 1):
        encoded = arguments if text else json.dumps(arguments)
        match format:
            case "anthropic":
                found.append({"type": "tool_use", "id": f"c{number}", "name": name, "input": arguments})
            case "chat":
                function = {"name": name, "arguments": encoded}
                found.append({"id": f"c{number}", "type": "function", "function": function})
            case "responses":
                item = {"type": "function_call", "id": f"i{number}", "call_id": f"c{number}", "status": "completed"}
                found.append({**item, "name": name, "arguments": encoded})
            case "gemini":
                found.append({"functionCall": {"id": f"c{number}", "name": name, "args": arguments}})
            case "bedrock":
                found.append({"toolUse": {"toolUseId": f"c{number}", "name": name, "input": arguments}})
    match format:
        case "anthropic":
            first = {"type": "text", "text": "I call tools."}
            usage = {"input_tokens": 1, "output_tokens": 1}
            whole = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "usage": usage}
            return {**whole, "content": [first, *found], "stop_reason": "tool_use", "stop_sequence": None}
        case "chat":
            message = {"role": "assistant", "content": None, "refusal": None}
            if found:
                message["tool_calls"] = found
            choice = {"index": 0, "finish_reason": "tool_calls", "message": message, "logprobs": None}
            return {"id": "r1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        case "responses":
            reasoning = {"type": "reasoning", "id": "rs1", "summary": []}
            whole = {"id": "r1", "object": "response", "created_at": 1, "model": "m", "output": [reasoning, *found]}
            return {**whole, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        case "gemini":
            content = {"role": "model", "parts": [{"text": "I call tools."}, *found]}
            return {"candidates": [{"content": content, "finishReason": "STOP"}]}
        case _:
            message = {"role": "assistant", "content": [{"text": "I call tools."}, *found]}
            return {"output": {"message": message}, "stopReason": "tool_use"}


def answers(format: str, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each result its id, its text, whether it is an error, and the number of images."""
    found = []
    for result in results:
        match format:
            case "anthropic":
                found.append(_answer(result["tool_use_id"], result["content"], result.get("is_error", False)))
            case "chat" if result["role"] == "tool":
                text = result["content"]
                found.append({"id": result["tool_call_id"], "text": text, "error": text.startswith("Error")})
            case "responses":
                output = result["output"]
                blocks = [{"text": output}] if isinstance(output, str) else output
                error = blocks[0].get("text", "").startswith("Error")
                found.append(_answer(result["call_id"], blocks, error))
            case "gemini":
                for part in result["parts"]:
                    given = part["functionResponse"]
                    (key, value) = next(iter(given["response"].items()))
                    text = value if isinstance(value, str) else json.dumps(value)
                    found.append({"id": given["id"], "text": text, "error": key == "error"})
            case "bedrock":
                given = result["toolResult"]
                found.append(_answer(given["toolUseId"], given["content"], given["status"] == "error"))
    return found


def _answer(id: str, blocks: list[dict[str, Any]], error: bool) -> dict[str, Any]:
    texts = [block["text"] if "text" in block else json.dumps(block["json"]) for block in blocks if _is_text(block)]
    return {"id": id, "text": "\n".join(texts), "error": error}


def _is_text(block: dict[str, Any]) -> bool:
    return "text" in block or "json" in block
