"""A small MCP server over stdio in plain Python: five tools, one resource, one prompt, both eras of the protocol.

It uses only the standard library, so it also shows the messages of the protocol. Start it through a client:
`toolcrib.Client(toolcrib.StdioServer("python3", ["examples/demo_server.py"]))`.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

JSON = dict[str, Any]

INFO = {"name": "demo", "version": "1.0.0", "title": "Toolcrib demo server"}
CAPABILITIES = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "logging": {}}
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
MODERN = "2026-07-28"
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

META = "io.modelcontextprotocol/"
FRESH_FOR_A_MINUTE = {"ttlMs": 60_000, "cacheScope": "public"}
STALE_AT_ONCE = {"ttlMs": 0, "cacheScope": "public"}
STATUS = "demo://status"


class Refused(Exception):
    """Becomes a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.body: JSON = {"code": code, "message": message} | ({} if data is None else {"data": data})


class Server:
    """The state of the process: running requests, pending questions to the client, subscriptions."""

    def __init__(self) -> None:
        self.calls = 0
        self.running: dict[Any, asyncio.Task[None]] = {}
        self.questions: dict[str, asyncio.Future[JSON]] = {}
        self.level = "info"
        self.subscribed: set[str] = set()
        self.listening: dict[Any, JSON] = {}

    def send(self, message: JSON) -> None:
        # A blocking write: if the client does not read, this server stops instead of filling its memory.
        line = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"
        while line:
            line = line[os.write(1, line) :]

    def receive(self, line: bytes) -> None:
        message = json.loads(line)
        if "method" not in message:
            waiting = self.questions.pop(message.get("id"), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
        elif "id" in message:
            request = Request(self, message["id"], message["method"], message.get("params") or {})
            self.running[request.id] = asyncio.create_task(self.answer(request))
        elif message["method"] == "notifications/cancelled":
            task = self.running.get(message["params"]["requestId"])
            if task is not None:
                task.cancel()

    async def answer(self, request: Request) -> None:
        try:
            result = await handler_of(request)(request)
            if request.modern:
                result = {"resultType": "complete", **result}
                result["_meta"] = {META + "serverInfo": INFO, **result.get("_meta", {})}
            self.send({"id": request.id, "result": result})
        except Refused as refusal:
            self.send({"id": request.id, "error": refusal.body})
        finally:
            del self.running[request.id]
            self.listening.pop(request.id, None)

    def count_call(self) -> None:
        self.calls += 1
        method = "notifications/resources/updated"
        if STATUS in self.subscribed:
            self.send({"method": method, "params": {"uri": STATUS}})
        for listen_id, wanted in self.listening.items():
            if STATUS in wanted.get("resourceSubscriptions", ()):
                mark = {META + "subscriptionId": listen_id}
                self.send({"method": method, "params": {"uri": STATUS, "_meta": mark}})


@dataclass
class Request:
    """One request of the client, and the messages that its tool may send before the response."""

    server: Server
    id: Any
    method: str
    params: JSON

    @property
    def meta(self) -> JSON:
        meta: JSON = self.params.get("_meta") or {}
        return meta

    @property
    def modern(self) -> bool:
        """Whether the request is modern: it names its version, while legacy requests rely on `initialize`."""
        return META + "protocolVersion" in self.meta

    def progress(self, done: int, total: int, message: str) -> None:
        token = self.meta.get("progressToken")
        if token is not None:
            params = {"progressToken": token, "progress": done, "total": total, "message": message}
            self.server.send({"method": "notifications/progress", "params": params})

    def log(self, level: str, data: Any) -> None:
        wanted = self.meta.get(META + "logLevel") if self.modern else self.server.level
        if wanted in LEVELS and LEVELS.index(level) >= LEVELS.index(wanted):
            self.server.send(
                {"method": "notifications/message", "params": {"level": level, "logger": "demo", "data": data}}
            )

    async def ask_client(self, method: str, params: JSON) -> JSON:
        """Legacy era: send a request to the client and wait for its response."""
        key = f"question-{self.id}"
        self.server.questions[key] = asyncio.get_running_loop().create_future()
        self.server.send({"id": key, "method": method, "params": params})
        reply = await self.server.questions[key]
        if "error" in reply:
            raise Refused(-32603, f"the client refused: {reply['error'].get('message')}")
        result: JSON = reply["result"]
        return result


# ---- tools ---------------------------------------------------------------------------------------------------------


def text(value: str, *, is_error: bool = False) -> JSON:
    return {"content": [{"type": "text", "text": value}], "isError": is_error}


async def add(_: Request, arguments: JSON) -> JSON:
    total = arguments["a"] + arguments["b"]
    return text(json.dumps({"sum": total})) | {"structuredContent": {"sum": total}}


async def echo(_: Request, arguments: JSON) -> JSON:
    return text(arguments["text"])


async def slow_count(request: Request, arguments: JSON) -> JSON:
    steps, seconds = arguments["steps"], arguments.get("seconds", 0.1)
    for step in range(1, steps + 1):
        await asyncio.sleep(seconds)
        request.progress(step, steps, f"counted to {step}")
        request.log("debug", f"step {step}")
    request.log("info", f"counted {steps} steps")
    return text(f"counted to {steps}")


async def fail(_: Request, arguments: JSON) -> JSON:
    return text(arguments.get("reason", "this tool always fails"), is_error=True)


async def greet(request: Request, _: JSON) -> JSON:
    """Ask the user for a name, as each era defines it."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    question = {"mode": "form", "message": "What is your name?", "requestedSchema": schema}
    if not request.modern:
        reply = await request.ask_client("elicitation/create", question)
    elif "inputResponses" not in request.params:
        if "elicitation" not in request.meta.get(META + "clientCapabilities", {}):
            raise Refused(-32021, "greet needs elicitation", {"requiredCapabilities": {"elicitation": {}}})
        asked = {"name": {"method": "elicitation/create", "params": question}}
        return {"resultType": "input_required", "inputRequests": asked, "requestState": "greet:1"}
    else:
        reply = request.params["inputResponses"]["name"]
    if reply["action"] != "accept":
        return text("no name was given", is_error=True)
    return text(f"Hello, {reply['content']['name']}!")


def tool(run: Callable[[Request, JSON], Awaitable[JSON]], description: str, required: JSON, optional: JSON) -> JSON:
    schema = {"type": "object", "properties": required | optional, "required": list(required)}
    return {"run": run, "listed": {"name": run.__name__, "description": description, "inputSchema": schema}}


NUMBER, INTEGER, STRING = {"type": "number"}, {"type": "integer"}, {"type": "string"}
TOOLS = {
    entry["listed"]["name"]: entry
    for entry in (
        tool(add, "Adds two numbers.", {"a": NUMBER, "b": NUMBER}, {}),
        tool(echo, "Returns the text unchanged.", {"text": STRING}, {}),
        tool(slow_count, "Counts slowly and reports progress.", {"steps": INTEGER}, {"seconds": NUMBER}),
        tool(fail, "Always fails with the given reason.", {}, {"reason": STRING}),
        tool(greet, "Asks for a name and greets the user.", {}, {}),
    )
}
TOOLS["add"]["listed"]["outputSchema"] = {"type": "object", "properties": {"sum": NUMBER}, "required": ["sum"]}
PYTHON_TYPES: dict[str, type | tuple[type, ...]] = {"number": (int, float), "integer": int, "string": str}


def wrong_arguments(schema: JSON, arguments: JSON) -> str | None:
    missing = [name for name in schema["required"] if name not in arguments]
    if missing:
        return f"missing: {', '.join(missing)}"
    for name, value in arguments.items():
        expected = schema["properties"].get(name, {}).get("type")
        if expected and (isinstance(value, bool) or not isinstance(value, PYTHON_TYPES[expected])):
            return f"{name}: expected {expected}, got {json.dumps(value)}"
    return None


# ---- methods of the protocol ---------------------------------------------------------------------------------------


async def discover(_: Request) -> JSON:
    return {"supportedVersions": [MODERN], "capabilities": CAPABILITIES, **FRESH_FOR_A_MINUTE}


async def initialize(request: Request) -> JSON:
    asked = request.params.get("protocolVersion")
    version = asked if asked in LEGACY else LEGACY[0]
    return {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": INFO}


async def ping(_: Request) -> JSON:
    return {}


async def set_level(request: Request) -> JSON:
    request.server.level = request.params["level"]
    return {}


async def list_tools(_: Request) -> JSON:
    return {"tools": [entry["listed"] for entry in TOOLS.values()], **FRESH_FOR_A_MINUTE}


async def call_tool(request: Request) -> JSON:
    entry = TOOLS.get(request.params.get("name", ""))
    if entry is None:
        raise Refused(-32602, f"Unknown tool: {request.params.get('name')}")
    arguments = request.params.get("arguments") or {}
    wrong = wrong_arguments(entry["listed"]["inputSchema"], arguments)
    if wrong:
        return text(wrong, is_error=True)
    result: JSON = await entry["run"](request, arguments)
    if result.get("resultType") != "input_required":
        request.server.count_call()
    return result


async def list_resources(_: Request) -> JSON:
    about = "Process id, and how many calls were answered."
    status = {"uri": STATUS, "name": "status", "description": about, "mimeType": "application/json"}
    return {"resources": [status], **FRESH_FOR_A_MINUTE}


async def list_templates(_: Request) -> JSON:
    return {"resourceTemplates": [], **FRESH_FOR_A_MINUTE}


async def read_resource(request: Request) -> JSON:
    uri = request.params["uri"]
    if uri != STATUS:
        raise Refused(-32602 if request.modern else -32002, f"Resource not found: {uri}", {"uri": uri})
    status = json.dumps({"pid": os.getpid(), "calls": request.server.calls})
    piece = {"uri": STATUS, "mimeType": "application/json", "text": status}
    return {"contents": [piece], **STALE_AT_ONCE}


async def subscribe(request: Request) -> JSON:
    request.server.subscribed.add(request.params["uri"])
    return {}


async def unsubscribe(request: Request) -> JSON:
    request.server.subscribed.discard(request.params["uri"])
    return {}


async def listen(request: Request) -> JSON:
    """Run until the client cancels it."""
    wanted = request.params["notifications"]
    mark = {META + "subscriptionId": request.id}
    acknowledged = {"notifications": wanted, "_meta": mark}
    request.server.listening[request.id] = wanted
    request.server.send({"method": "notifications/subscriptions/acknowledged", "params": acknowledged})
    await asyncio.Event().wait()
    return {"_meta": mark}


async def list_prompts(_: Request) -> JSON:
    topic = {"name": "topic", "description": "What to explain.", "required": True}
    explain = {"name": "explain", "description": "Explain a topic in one sentence.", "arguments": [topic]}
    return {"prompts": [explain], **FRESH_FOR_A_MINUTE}


async def get_prompt(request: Request) -> JSON:
    topic = (request.params.get("arguments") or {}).get("topic")
    if request.params.get("name") != "explain" or topic is None:
        raise Refused(-32602, "There is one prompt, `explain`, and it needs a `topic`")
    content = {"type": "text", "text": f"Explain {topic} in one sentence."}
    return {"description": "Explain a topic.", "messages": [{"role": "user", "content": content}]}


Handler = Callable[[Request], Awaitable[JSON]]
BOTH: dict[str, Handler] = {
    "tools/list": list_tools,
    "tools/call": call_tool,
    "resources/list": list_resources,
    "resources/templates/list": list_templates,
    "resources/read": read_resource,
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
}
LEGACY_ONLY: dict[str, Handler] = {
    "initialize": initialize,
    "ping": ping,
    "logging/setLevel": set_level,
    "resources/subscribe": subscribe,
    "resources/unsubscribe": unsubscribe,
}
MODERN_ONLY: dict[str, Handler] = {"server/discover": discover, "subscriptions/listen": listen}


def handler_of(request: Request) -> Handler:
    if request.modern:
        version = request.meta[META + "protocolVersion"]
        if version != MODERN:
            raise Refused(-32022, "Unsupported protocol version", {"supported": [MODERN], "requested": version})
        if META + "clientCapabilities" not in request.meta:
            raise Refused(-32602, f"_meta lacks {META}clientCapabilities")
    handler = (BOTH | (MODERN_ONLY if request.modern else LEGACY_ONLY)).get(request.method)
    if handler is None:
        raise Refused(-32601, f"Method not found: {request.method}")
    return handler


async def read_lines() -> AsyncIterator[bytes]:
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or sys.stdin.isatty()):
        # A file or /dev/null: the event loop cannot wait for it, and reading it does not block.
        for line in sys.stdin.buffer:
            yield line
        return
    reader = asyncio.StreamReader(limit=16 * 1024 * 1024)
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    while line := await reader.readline():
        yield line


async def main() -> None:
    server = Server()
    async for line in read_lines():
        if line.strip():
            server.receive(line)


if __name__ == "__main__":
    asyncio.run(main())
