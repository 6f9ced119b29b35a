"""A small server for the tests of the provider, without a library, so that it starts fast.

    python -S -E small_server.py FILE                 # over stdio
    python -S -E small_server.py FILE http|sse        # over HTTP or SSE, on the port in PORT

FILE is a JSON object, which is read again for each request, so that a test can change what the server is: `version`,
`era` ("modern" or "legacy"), `tools`, `prompts`, `resources` and `templates` (lists of definitions, or the number of
tools), `refuse` (methods that fail), `listens` (a modern server declares list changes, but rejects the subscription),
`start` ("hang", "crash"), `announce` (seconds between two notifications that the tools changed, which they then do).
`tools/call` knows the tools of `CALLS`; all others return their arguments.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # the module typing alone takes longer to load than the rest
    from collections.abc import Callable
    from typing import Any

    Message = dict[str, Any]
    Send = Callable[[Message], None]

SERVER_INFO = "io.modelcontextprotocol/serverInfo"
MODERN = "2026-07-28"
LEGACY = "2025-11-25"
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
KINDS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "templates",
}
OBJECT = {"type": "object"}


class SmallServer:
    """Answers messages as its file says."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.calls = 0
        self.lists = 0
        self._lock = threading.Lock()

    def read(self) -> Message:
        with open(self.file, encoding="utf-8") as stream:
            found: Message = json.load(stream)
        return found

    def answer(self, message: Message, send: Send, seen: Message) -> None:
        """Send the answer to a message, if it is a request; `seen` is what is known of the request besides."""
        if "id" not in message or "method" not in message:
            return
        try:
            result = self.respond(message["method"], message.get("params") or {}, send, seen)
        except LookupError as exc:
            code, text = exc.args
            send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text}})
            return
        send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def respond(self, method: str, params: Message, send: Send, seen: Message) -> Message:
        facts = self.read()
        modern = facts.get("era", "modern") == "modern"
        if method in facts.get("refuse", ()):
            raise LookupError(INTERNAL_ERROR, f"{method} is refused")
        capabilities: Message = {kind: {} for kind in ("tools", "prompts", "resources") if kind in facts}
        capabilities["tools"] = {} if modern and not facts.get("listens") else {"listChanged": True}
        info = {"name": "small", "version": facts.get("version", "1")}
        if method == "server/discover" and modern:
            result: Message = {
                "supportedVersions": [MODERN],
                "capabilities": capabilities,
                "_meta": {SERVER_INFO: info},
            }
        elif method == "initialize" and not modern:
            if facts.get("announce"):
                self.announce(facts["announce"], send)
            return {"protocolVersion": LEGACY, "capabilities": capabilities, "serverInfo": info}
        elif method in KINDS:
            self.lists += 1
            kind = KINDS[method]
            name = "resourceTemplates" if kind == "templates" else kind
            result = {name: self.definitions(facts, kind)}
        elif method == "tools/call":
            result = self.call(params, send, seen)
        elif method == "prompts/get":
            result = {"messages": [{"role": "user", "content": {"type": "text", "text": params["name"]}}]}
        elif method == "resources/read":
            result = {"contents": [{"uri": params["uri"], "text": f"the text of {params['uri']}"}]}
        elif method == "ping":
            result = {}
        else:
            raise LookupError(METHOD_NOT_FOUND, f"there is no method {method}")
        if modern:
            result |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        return result

    def definitions(self, facts: Message, kind: str) -> list[Message]:
        found = facts.get(kind, list(CALLS) if kind == "tools" else [])
        if isinstance(found, int):
            found = [f"tool_{number}" for number in range(found)]
        if facts.get("announce") and kind == "tools":
            found = [*found, f"passing_{self.lists}"]
        return [{"name": each, "inputSchema": OBJECT} if isinstance(each, str) else each for each in found]

    def announce(self, pause: float, send: Send) -> None:
        def notify() -> None:
            while True:
                time.sleep(pause)
                try:
                    send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
                except OSError:
                    return

        threading.Thread(target=notify, daemon=True).start()

    def call(self, params: Message, send: Send, seen: Message) -> Message:
        with self._lock:
            self.calls += 1
        name, given = params["name"], params.get("arguments") or {}
        listed = [each["name"] for each in self.definitions(self.read(), "tools")]
        if name not in listed:
            raise LookupError(INVALID_PARAMS, f"Unknown tool: {name}")
        value = CALLS[name](self, given, send, params.get("_meta") or {}, seen) if name in CALLS else given
        return {"content": [{"type": "text", "text": json.dumps(value)}]}


# ---- tools --------------------------------------------------------------------------------------------------------


def echo(_: SmallServer, given: Message, *rest: Any) -> Any:
    return given.get("text")


def see(server: SmallServer, given: Message, send: Send, meta: Message, seen: Message) -> Any:
    """Return the process, its variables and the headers of the request, when the file `until` exists."""
    time.sleep(given.get("seconds", 0))
    while given.get("until") and not os.path.exists(given["until"]):
        time.sleep(0.01)
    return {
        "pid": os.getpid(),
        "env": {name: os.environ[name] for name in given.get("names", ()) if name in os.environ},
        "calls": server.calls,
        **seen,
    }


def sleep(_: SmallServer, given: Message, *rest: Any) -> Any:
    time.sleep(given["seconds"])
    return "awake"


def crash(_: SmallServer, given: Message, *rest: Any) -> Any:
    sys.stderr.write("the small server crashes\n")
    sys.stderr.flush()
    os._exit(3)


def progress(_: SmallServer, given: Message, send: Send, meta: Message, seen: Message) -> Any:
    for step in (1, 2):
        params = {"progressToken": meta["progressToken"], "progress": step, "total": 2, "message": f"step {step}"}
        send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    return "done"


CALLS: dict[str, Callable[..., Any]] = {
    "echo": echo,
    "see": see,
    "sleep": sleep,
    "crash": crash,
    "progress": progress,
}


# ---- transports ---------------------------------------------------------------------------------------------------


def serve_stdio(server: SmallServer) -> None:
    lock = threading.Lock()

    def send(message: Message) -> None:
        with lock:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()

    for line in sys.stdin:
        threading.Thread(target=server.answer, args=(json.loads(line), send, {}), daemon=True).start()
    os._exit(0)


def main() -> None:
    file, transport = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "stdio"
    server = SmallServer(file)
    start = server.read().get("start")
    if start == "crash":
        sys.stderr.write("the small server cannot start\n")
        sys.exit(3)
    if start == "hang":
        threading.Event().wait()
    if transport == "stdio":
        serve_stdio(server)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        from small_web_server import WebServer  # type: ignore[import-not-found]  # slow to load

        WebServer(server, int(os.environ["PORT"]), sse=transport == "sse").serve_forever()


if __name__ == "__main__":
    main()
