"""More tools of the reference server: what a client must bear, changes, deaths."""

from __future__ import annotations

from typing import Any

if __package__:
    from tests.interaction.reference_server_tools import TEXT, TOOLS, Crash, Entry, Wire, tool
else:
    from reference_server_tools import TEXT, TOOLS, Crash, Entry, Wire, tool


@tool()
def take_back(server: Any, request: Any, args: Wire) -> None:
    """Legacy era: asks, and takes the question back at once"""
    id = server.ask({"method": "elicitation/create", "params": {"message": "?"}}, lambda answer: None)
    server.tell("notifications/cancelled", {"requestId": id})
    request.text("never mind")


@tool()
def intrude(server: Any, request: Any, args: Wire) -> None:
    """A request of the server's own, in either era"""
    server.ask({"method": "ping"}, lambda answer: None)
    request.text("sorry")


@tool()
def twice(server: Any, request: Any, args: Wire) -> None:
    """The answer, again, and one that nobody asked for"""
    request.text("first")
    request.text("second")
    server.send({"jsonrpc": "2.0", "id": 10_000, "result": {}})


@tool()
def chatter(server: Any, request: Any, args: Wire) -> None:
    """Notifications that mean nothing, or nothing any more"""
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
    """One entry more on a list, and the news of it"""
    kind = args.get("kind", "tools")
    new = {"name": "grown", "inputSchema": {"type": "object"}, "uri": "memo://grown"}
    server.goods[kind].append({key: new[key] for key in new if key in server.goods[kind][0]})
    server.tell_change(f"{kind}ListChanged", f"notifications/{kind}/list_changed")
    request.text("grown")


@tool({"uri": TEXT})
def touch(server: Any, request: Any, args: Wire) -> None:
    """A resource changes"""
    server.tell_change("resourceSubscriptions", "notifications/resources/updated", args["uri"])
    request.text("touched")


@tool()
def hang_up(server: Any, request: Any, args: Wire) -> None:
    """Modern era: every listening is ended in good order"""
    for id in server.listening:
        ended = {"resultType": "complete", "_meta": {"io.modelcontextprotocol/subscriptionId": id}}
        server.send({"jsonrpc": "2.0", "id": id, "result": ended})
    server.listening.clear()
    request.text("gone")


def _die(server: Any, request: Any, args: Wire) -> None:
    """Dies of the first `times` calls with this nonce"""
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
