"""The tools of the reference server. A tool that must wait is woken by another tool, so no clock is needed."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Wire = dict[str, Any]
Function = Callable[[Any, Any, Wire], None]


class Crash(Exception):
    """Crash the server without an answer."""


@dataclass(frozen=True)
class Entry:
    wire: Wire
    function: Function


TOOLS: dict[str, Entry] = {}


def tool(properties: Wire | None = None, required: list[str] | None = None, **more: Any) -> Callable[[Function], None]:
    def add(function: Function) -> None:
        name = function.__name__
        schema: Wire = {"type": "object", "properties": properties or {}, "required": required or []}
        wire = {"name": name, "description": function.__doc__ or "", "inputSchema": schema, **more}
        TOOLS[name] = Entry(wire, function)

    return add


NUMBER = {"type": "number"}
TEXT = {"type": "string"}


def object_of(**properties: Wire) -> Wire:
    return {"type": "object", "properties": properties, "required": [*properties]}


@tool({"text": TEXT}, ["text"], title="Echo", annotations={"readOnlyHint": True})
def echo(server: Any, request: Any, args: Wire) -> None:
    """Say it back"""
    request.text(args.get("text", ""))


@tool({"a": NUMBER, "b": NUMBER}, ["a", "b"], outputSchema=object_of(sum=NUMBER))
def add(server: Any, request: Any, args: Wire) -> None:
    """Structured output"""
    result = {"sum": args["a"] + args["b"]}
    request.text(json.dumps(result), structuredContent=result)


@tool({"x": NUMBER}, outputSchema={**object_of(result=NUMBER), "x-toolcrib-wrap-result": True})
def double(server: Any, request: Any, args: Wire) -> None:
    """A scalar, wrapped"""
    request.text(str(2 * args["x"]), structuredContent={"result": 2 * args["x"]})


@tool(outputSchema=object_of(result=NUMBER))
def unwrapped(server: Any, request: Any, args: Wire) -> None:
    """An object that has a field called result, and no mark"""
    request.text("1", structuredContent={"result": 1})


@tool()
def nothing(server: Any, request: Any, args: Wire) -> None:
    """A structured null"""
    request.answer({"content": [], "structuredContent": None})


@tool()
def blocks(server: Any, request: Any, args: Wire) -> None:
    """One block of each kind, and one of an unknown kind"""
    data = b64encode(b"\x89bytes").decode()
    request.answer(
        {
            "content": [
                {"type": "text", "text": "one"},
                {"type": "image", "data": data, "mimeType": "image/png"},
                {"type": "audio", "data": data, "mimeType": "audio/wav"},
                {"type": "resource_link", "uri": "memo://text", "name": "text"},
                {"type": "resource", "resource": {"uri": "memo://text", "text": "good day\n"}},
                {"type": "hologram", "angles": 3},
                {"type": "text", "text": "two"},
            ]
        }
    )


@tool()
def fail(server: Any, request: Any, args: Wire) -> None:
    """The tool's own error"""
    request.text("it is", "broken", isError=True)


@tool()
def refuse(server: Any, request: Any, args: Wire) -> None:
    """A JSON-RPC error"""
    request.error(-32050, "not today", {"until": "tomorrow"})


@tool(
    {
        "limit": {"type": "integer"},
        "note": {"type": ["string", "null"]},
        "tags": {"type": "array", "items": TEXT, "minItems": 1},
        "sources": {"type": "array", "items": {"type": "object"}},
    }
)
def given(server: Any, request: Any, args: Wire) -> None:
    """What arrived: arguments, meta, id"""
    request.json({"arguments": request.params.get("arguments"), "meta": request.meta, "id": request.id})


def mirrored_as(header: str, type: str) -> Wire:
    return {"type": type, "x-mcp-header": header}


@tool(
    {
        "region": mirrored_as("Region", "string"),
        "count": mirrored_as("Count", "integer"),
        "urgent": mirrored_as("Urgent", "boolean"),
        "place": {"type": "object", "properties": {"city": mirrored_as("City", "string")}},
    }
)
def mirrored(server: Any, request: Any, args: Wire) -> None:
    """Over HTTP in the modern era, some arguments must be in headers too"""
    request.json(args)


@tool(execution={"taskSupport": "required"})
def task_only(server: Any, request: Any, args: Wire) -> None:
    """Cannot be called plainly"""
    request.error(-32601, "only as a task")


# ---- progress, waiting, logs


@tool({"steps": {"type": "integer"}})
def slow(server: Any, request: Any, args: Wire) -> None:
    """Progress, then the answer"""
    token = request.meta.get("progressToken")
    for step in range(1, args["steps"] + 1):
        if token is not None:
            params = {"progressToken": token, "progress": step, "total": args["steps"], "message": f"step {step}"}
            server.tell("notifications/progress", params)
    request.text("done")


@tool()
def sleeper(server: Any, request: Any, args: Wire) -> None:
    """Sleep until woken or cancelled"""
    server.sleepers[request.id] = request


@tool()
def nudge(server: Any, request: Any, args: Wire) -> None:
    """Send progress for all sleepers"""
    for sleeping in server.sleepers.values():
        if "progressToken" in sleeping.meta:
            server.tell("notifications/progress", {"progressToken": sleeping.meta["progressToken"], "progress": 1})
    request.text(str(len(server.sleepers)))


@tool()
def wake(server: Any, request: Any, args: Wire) -> None:
    """Let all sleepers answer"""
    for sleeping in server.sleepers.values():
        sleeping.text("good morning")
    server.sleepers.clear()
    request.text("woken")


@tool({"level": TEXT, "data": {}})
def speak(server: Any, request: Any, args: Wire) -> None:
    """Log a line"""
    server.log(request, args["level"], args["data"])
    request.text("said")


# ---- questions


@tool()
def declared(server: Any, request: Any, args: Wire) -> None:
    """The capabilities that the client declared"""
    request.json(request.capabilities)


@tool({"mode": TEXT})
def elicit(server: Any, request: Any, args: Wire) -> None:
    """Ask the person"""
    form = {"message": "Go on?", "requestedSchema": {"type": "object", "properties": {"ok": {"type": "boolean"}}}}
    link = {"mode": "url", "message": "Sign here", "url": "https://example.com/sign?who=1", "elicitationId": "e1"}
    request.ask("elicitation/create", link if args.get("mode") == "url" else form, request.json)


@tool()
def sample(server: Any, request: Any, args: Wire) -> None:
    """Ask the model"""
    messages = [{"role": "user", "content": {"type": "text", "text": "2 + 2?"}}]
    params = {"messages": messages, "systemPrompt": "Be brief.", "maxTokens": 7}
    request.ask("sampling/createMessage", params, request.json)


@tool()
def roots(server: Any, request: Any, args: Wire) -> None:
    """Ask for the roots"""
    request.ask("roots/list", None, request.json)


def state_of(number: int) -> str:
    """Return the state after round `number`, with everything that a careless client would change."""
    return f' {number}| "é" \u2028\t\\n\x7f {{}} ' + "=" * number + "\n"


@tool({"times": {"type": "integer"}, "state": {"type": "boolean"}, "ask": {"type": "boolean"}})
def rounds(server: Any, request: Any, args: Wire) -> None:
    """Modern era: asks `times` times, with or without a state, with or without a question"""
    params, times, state, ask = request.params, args["times"], args.get("state", True), args.get("ask", True)
    came, answers = params.get("requestState"), params.get("inputResponses")
    if state:
        number = int(came.partition("|")[0]) if came is not None else 0
        if came is not None and came != state_of(number):
            server.fault(f"requestState was changed: {came!r}")
    else:
        number = max((int(key) for key in answers), default=0) if answers else 0
        if came is not None:
            server.fault(f"requestState out of nothing: {came!r}")
    if number and set(answers or {}) != ({str(number)} if ask else set()):
        server.fault(f"round {number} was answered with {answers!r}")
    if number == times:
        return request.text(f"{times} rounds")
    if "progressToken" in request.meta:
        server.tell("notifications/progress", {"progressToken": request.meta["progressToken"], "progress": number + 1})
    again: Wire = {"resultType": "input_required"}
    if state:
        again["requestState"] = state_of(number + 1)
    if ask:
        question = {"message": f"round {number + 1}", "requestedSchema": {"type": "object", "properties": {}}}
        again["inputRequests"] = {str(number + 1): {"method": "elicitation/create", "params": question}}
    request.answer(again)
