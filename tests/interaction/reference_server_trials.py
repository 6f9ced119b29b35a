"""More tools of the reference server: messages that a client must tolerate, changes, crashes."""

from __future__ import annotations

from typing import Any

if __package__:
    from tests.interaction.reference_server_tools import TEXT, TOOLS, Crash, Entry, Wire, tool
else:
    from reference_server_tools import TEXT, TOOLS, Crash, Entry, Wire, tool


@tool()
def take_back(server: Any, request: Any, args: Wire) -> None:
    """Legacy era: send a request and cancel it at once"""
    id = server.ask({"method": "elicitation/create", "params": {"message": "?"}}, lambda answer: None)
    server.tell("notifications/cancelled", {"requestId": id})
    request.text("never mind")


@tool()
def intrude(server: Any, request: Any, args: Wire) -> None:
    """Send a request of the server, in either era"""
    server.ask({"method": "ping"}, lambda answer: None)
    request.text("sorry")


@tool()
def twice(server: Any, request: Any, args: Wire) -> None:
    """Answer twice, and also to an unknown id"""
    request.text("first")
    request.text("second")
    server.send({"jsonrpc": "2.0", "id": 10_000, "result": {}})


@tool()
def chatter(server: Any, request: Any, args: Wire) -> None:
    """Send notifications without a meaning, or with an outdated one"""
    token = request.meta.get("progressToken")
    server.tell("notifications/weather", {"sun": True})
    server.tell("notifications/progress", {"progressToken": 10_000, "progress": 1})
    server.tell("notifications/progress", {"progressToken": token, "progress": True})
    server.tell("notifications/progress", {"progressToken": token, "progress": "half"})
    server.tell("notifications/cancelled", {"requestId": "nobody"})
    server.tell("notifications/resources/updated", {"uri": 7})
    server.tell("notifications/message", {"data": "no level"})
    request.text("that is all")


# ---- changes and deaths


@tool({"kind": TEXT})
def grow(server: Any, request: Any, args: Wire) -> None:
    """Add an entry to a list and send the notification"""
    kind = args.get("kind", "tools")
    new = {"name": "grown", "inputSchema": {"type": "object"}, "uri": "memo://grown"}
    server.goods[kind].append({key: new[key] for key in new if key in server.goods[kind][0]})
    server.tell_change(f"{kind}ListChanged", f"notifications/{kind}/list_changed")
    request.text("grown")


@tool({"uri": TEXT})
def touch(server: Any, request: Any, args: Wire) -> None:
    """Change a resource"""
    server.tell_change("resourceSubscriptions", "notifications/resources/updated", args["uri"])
    request.text("touched")


@tool()
def hang_up(server: Any, request: Any, args: Wire) -> None:
    """Modern era: end every subscription in good order"""
    for id in server.listening:
        ended = {"resultType": "complete", "_meta": {"io.modelcontextprotocol/subscriptionId": id}}
        server.send({"jsonrpc": "2.0", "id": id, "result": ended})
    server.listening.clear()
    request.text("gone")


def _die(server: Any, request: Any, args: Wire) -> None:
    """Crash at the first `times` calls with this nonce"""
    done = [call["params"].get("arguments", {}).get("nonce") for call in server.journal.got("tools/call")]
    if done.count(args["nonce"]) <= args.get("times", 1):
        raise Crash
    request.text(f"alive after {args.get('times', 1)}")


for _name, _annotations in {
    "die": {},
    "die_reading": {"readOnlyHint": True},
    "die_idempotently": {"idempotentHint": True},
}.items():
    _wire = {"name": _name, "description": _die.__doc__, "inputSchema": {"type": "object"}, "annotations": _annotations}
    TOOLS[_name] = Entry(_wire, _die)
