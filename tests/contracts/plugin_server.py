"""A server over stdio that starts at once, as it needs the standard library only: the plugin of most provider tests.

It appends pid, arguments, working directory and environment of each start to `starts.jsonl` in its working directory.
Files of that directory decide how it behaves: with `broken` it exits, with `mute` it answers nothing, with `flaky`,
which holds a number, it exits that many times, `extra` is the name of one more tool.
"""

import json
import os
import sys
from pathlib import Path

SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string", "maxLength": 10_000}, "times": {"type": "integer", "minimum": 1}},
    "required": ["text"],
    "additionalProperties": False,
}
NOTHING = {"type": "object", "properties": {}}
TOOLS = {
    "echo": SCHEMA,
    "env": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    "pid": NOTHING,
    "counter": NOTHING,
    "fail": NOTHING,
    "picture": NOTHING,
    "crash": NOTHING,
    "garbage": NOTHING,
    "hang": NOTHING,
}
PIXEL = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
_counted = 0


def call(name: str, arguments: dict) -> dict:
    """Return the result of a call."""
    global _counted  # noqa: PLW0603  # the state that the tests look for
    if name == "crash":
        print("the plugin crashes", file=sys.stderr, flush=True)
        os._exit(7)
    if name == "fail":
        return {"content": [{"type": "text", "text": "the tool failed"}], "isError": True}
    if name == "picture":
        return {"content": [{"type": "text", "text": "a"}, PIXEL, {"type": "text", "text": "b"}]}
    if name == "echo":
        return text(arguments["text"] * arguments.get("times", 1))
    if name == "env":
        return text(os.environ.get(arguments["name"], "-"))
    _counted += 1
    return text(str(os.getpid() if name == "pid" else _counted))


def text(words: str) -> dict:
    return {"content": [{"type": "text", "text": words}]}


def answer(method: str, params: dict) -> dict:
    """Return the result or the error of a request."""
    if method == "initialize":
        version = params["protocolVersion"]
        server = {"name": "plugin", "version": "1.2.3"}
        return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}}
    if method == "ping":
        return {"result": {}}
    if method == "tools/list":
        tools = [{"name": name, "description": f"Tool {name}.", "inputSchema": schema} for name, schema in listed()]
        return {"result": {"tools": tools}}
    if method == "tools/call":
        return {"result": call(params["name"], params.get("arguments", {}))}
    return {"error": {"code": -32601, "message": "unknown method"}}


def listed() -> list:
    extra = Path("extra").read_text().split() if Path("extra").exists() else []
    return [*TOOLS.items(), *((name, NOTHING) for name in extra)]


def note_start() -> None:
    with open("starts.jsonl", "a", encoding="utf-8") as file:
        start = {"pid": os.getpid(), "argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}
        file.write(json.dumps(start) + "\n")


def refuse_to_start() -> None:
    """Exit if a file says so."""
    flaky = Path("flaky")
    left = int(flaky.read_text()) if flaky.exists() else 0
    if left:
        flaky.write_text(str(left - 1))
    if left or Path("broken").exists():
        print("no licence found", file=sys.stderr, flush=True)
        sys.exit(3)


def main() -> None:
    note_start()
    refuse_to_start()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or Path("mute").exists():
            continue
        name = message.get("params", {}).get("name")
        if name == "hang":
            print("the plugin hangs", file=sys.stderr, flush=True)
            continue
        if name == "garbage":
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": "not an object"}
        else:
            reply = {"jsonrpc": "2.0", "id": message["id"], **answer(message["method"], message.get("params", {}))}
        print(json.dumps(reply), flush=True)


main()
