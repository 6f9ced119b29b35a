"""The answers of the reference server to each method of the protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

if __package__:
    from tests.interaction.reference_server_goods import complete, prompt, resource
    from tests.interaction.reference_server_trials import TOOLS
else:
    from reference_server_goods import complete, prompt, resource
    from reference_server_trials import TOOLS

LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
META = "io.modelcontextprotocol/"
INFO = {"name": "crib", "version": "1.2.3", "title": "The Crib"}
INSTRUCTIONS = "Shut the gate."

Method = Callable[[Any, Any], None]


def initialize(server: Any, request: Any) -> None:
    server.client = request.params["capabilities"]
    asked = request.params["protocolVersion"]
    revision = server.options["revision"] or (asked if asked in LEGACY else LEGACY[0])
    result = {"protocolVersion": revision, "serverInfo": INFO, "instructions": INSTRUCTIONS}
    request.answer({**result, "capabilities": server.options["capabilities"]})


def discover(server: Any, request: Any) -> None:
    result = {"supportedVersions": server.options["supported"], "instructions": INSTRUCTIONS}
    request.answer({**result, "capabilities": server.options["capabilities"]}, cached=True)


def ping(server: Any, request: Any) -> None:
    request.answer({})


def listing(key: str) -> Method:
    def handler(server: Any, request: Any) -> None:
        size, goods = server.options["page"], server.goods[key]
        cursors = ["", *(f"page {n}" for n in range(2, len(goods)))]  # the first cursor is the empty one
        page = cursors.index(request.params["cursor"]) + 1 if "cursor" in request.params else 0
        more = {"nextCursor": cursors[page]} if (page + 1) * size < len(goods) else {}
        request.answer({key: goods[page * size : (page + 1) * size], **more}, cached=True)

    return handler


def call_tool(server: Any, request: Any) -> None:
    name = request.params["name"]
    if name in TOOLS:
        TOOLS[name].function(server, request, request.params.get("arguments") or {})
    elif server.options["unknown"] == "error":
        request.error(-32602, f"Unknown tool: {name}")
    else:
        request.text(f"Unknown tool: {name}", isError=True)


QUESTION = ("elicitation/create", {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}})


def said(answer: dict[str, Any]) -> str:
    return str(answer["result"]["content"]["name"])


def read_resource(server: Any, request: Any) -> None:
    uri = request.params["uri"]
    if uri == "memo://asking":
        return request.ask(*QUESTION, lambda answer: request.answer({"contents": [{"uri": uri, "text": said(answer)}]}))
    contents = resource(request.params["uri"])
    if contents is None:
        request.error(-32602 if request.modern else -32002, "Resource not found", {"uri": request.params["uri"]})
    else:
        request.answer({"contents": contents}, cached=True)


def get_prompt(server: Any, request: Any) -> None:
    if request.params["name"] == "asking":
        return request.ask(*QUESTION, lambda answer: request.answer({"messages": [], "description": said(answer)}))
    found = prompt(request.params["name"], request.params.get("arguments") or {})
    if found is None:
        request.error(-32602, f"Unknown prompt: {request.params['name']}")
    else:
        request.answer(found)


def subscribe(server: Any, request: Any) -> None:
    server.subscribed.add(request.params["uri"])
    request.answer({})


def unsubscribe(server: Any, request: Any) -> None:
    server.subscribed.discard(request.params["uri"])
    request.answer({})


def listen(server: Any, request: Any) -> None:
    server.listening[request.id] = wishes = request.params["notifications"]
    params = {"notifications": wishes, "_meta": {META + "subscriptionId": request.id}}
    server.tell("notifications/subscriptions/acknowledged", params)


def set_level(server: Any, request: Any) -> None:
    server.level = request.params["level"]
    request.answer({})


METHODS: dict[str, Method] = {
    "initialize": initialize,
    "server/discover": discover,
    "ping": ping,
    "tools/list": listing("tools"),
    "tools/call": call_tool,
    "resources/list": listing("resources"),
    "resources/templates/list": listing("resourceTemplates"),
    "resources/read": read_resource,
    "resources/subscribe": subscribe,
    "resources/unsubscribe": unsubscribe,
    "subscriptions/listen": listen,
    "prompts/list": listing("prompts"),
    "prompts/get": get_prompt,
    "completion/complete": lambda server, request: request.answer({"completion": complete(request.params)}),
    "logging/setLevel": set_level,
}
LEGACY_ONLY = {"initialize", "ping", "resources/subscribe", "resources/unsubscribe", "logging/setLevel"}
MODERN_ONLY = {"server/discover", "subscriptions/listen"}
