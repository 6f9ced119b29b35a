"""More tools of the reference server: what a client must bear, changes, deaths."""

from __future__ import annotations

from typing import Any

if __package__:
    from tests.interaction.yard_tools import TEXT, TOOLS, Crash, Entry, Wire, tool
else:
    from yard_tools import TEXT, TOOLS, Crash, Entry, Wire, tool


@tool()
def take_back(yard: Any, request: Any, args: Wire) -> None:
    """Handshake era: asks, and takes the question back at once"""
    id = yard.ask({"method": "elicitation/create", "params": {"message": "?"}}, lambda answer: None)
    yard.tell("notifications/cancelled", {"requestId": id})
    request.text("never mind")


@tool()
def intrude(yard: Any, request: Any, args: Wire) -> None:
    """A request of the server's own, in either era"""
    yard.ask({"method": "ping"}, lambda answer: None)
    request.text("sorry")


@tool()
def twice(yard: Any, request: Any, args: Wire) -> None:
    """The answer, again, and one that nobody asked for"""
    request.text("first")
    request.text("second")
    yard.send({"jsonrpc": "2.0", "id": 10_000, "result": {}})


@tool()
def chatter(yard: Any, request: Any, args: Wire) -> None:
    """Notifications that mean nothing, or nothing any more"""
    token = request.meta.get("progressToken")
    yard.tell("notifications/weather", {"sun": True})
    yard.tell("notifications/progress", {"progressToken": 10_000, "progress": 1})
    yard.tell("notifications/progress", {"progressToken": token, "progress": True})
    yard.tell("notifications/progress", {"progressToken": token, "progress": "half"})
    yard.tell("notifications/cancelled", {"requestId": "nobody"})
    yard.tell("notifications/resources/updated", {"uri": 7})
    yard.tell("notifications/message", {"data": "no level"})
    request.text("that is all")


# ---- changes and deaths


@tool({"kind": TEXT})
def grow(yard: Any, request: Any, args: Wire) -> None:
    """One entry more on a list, and the news of it"""
    kind = args.get("kind", "tools")
    new = {"name": "grown", "inputSchema": {"type": "object"}, "uri": "memo://grown"}
    yard.goods[kind].append({key: new[key] for key in new if key in yard.goods[kind][0]})
    yard.tell_change(f"{kind}ListChanged", f"notifications/{kind}/list_changed")
    request.text("grown")


@tool({"uri": TEXT})
def touch(yard: Any, request: Any, args: Wire) -> None:
    """A resource changes"""
    yard.tell_change("resourceSubscriptions", "notifications/resources/updated", args["uri"])
    request.text("touched")


@tool()
def hang_up(yard: Any, request: Any, args: Wire) -> None:
    """Modern era: every listening is ended in good order"""
    for id in yard.listening:
        ended = {"resultType": "complete", "_meta": {"io.modelcontextprotocol/subscriptionId": id}}
        yard.send({"jsonrpc": "2.0", "id": id, "result": ended})
    yard.listening.clear()
    request.text("gone")


def _die(yard: Any, request: Any, args: Wire) -> None:
    """Dies of the first `times` calls with this nonce"""
    done = [call["params"].get("arguments", {}).get("nonce") for call in yard.journal.got("tools/call")]
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
