"""A small MCP server that misbehaves on request: standard library only, one thread, about 20 ms to start.

    python -S -E bad_server.py '{"log": "log.txt", "era": "legacy", "exit": {"code": 3, "stderr": "no token"}}'
    python bad_server.py --list          # every behaviour, one line each

Without a script it is a correct server of both eras. The script (JSON) has four kinds of keys:
- OPTIONS: plain values, with their defaults in the table;
- STARTS: faults before it serves, in the order of the script;
- WIRES: faults of every message it sends ("wire": ["twice", ...]; a call's argument `wire` does it once);
- `first`: keys that apply only in the first life (the first `first_lives` lives) of the server, counted in the log.
The call itself chooses the fault: TOOLS.

The log has one line per event, appended before the server answers: "start PID", "call NONCE", "cancel NONCE",
"child PID", "method NAME" (except tools/call), "eof", "term".
"""

import heapq
import json
import os
import select
import sys
import time

from bad_behaviours import STARTS, TOOLS, WIRES, entry

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
META = "io.modelcontextprotocol/"
INFO = {"name": "bad-server", "version": "1.0"}

OPTIONS = {
    "log": None,  # where to record
    "era": "both",  # "both" | "legacy" (an error to discover) | "modern" (an error to initialize)
    "silent": [],  # methods that are read and never answered
    "refused": [],  # methods that are unknown
    "revision": None,  # what initialize answers, whatever was asked
    "versions": [MODERN],  # what discover offers
    "ttl": 0,  # ttlMs of modern lists
    "wire": [],  # WIRES for every message
    "gulp": 65536,  # bytes a read
    "pause": 0.0,  # seconds between two reads: stdin is read late
    "tools": 0,  # number of tools in addition to TOOLS
    "page": 1000,  # tools a page
    "endless": False,  # each page of tools names a next one: "same" cursor or a "new" one
    "capabilities": {"tools": {"listChanged": True}, "resources": {}, "prompts": {}, "logging": {}},
    "first_lives": 1,
}
METHODS = {}


class Server:
    def __init__(self, script):
        self.lives = self.count_lives(script.get("log"))
        if self.lives < script.get("first_lives", 1):
            script = {**script, **script.get("first", {})}
        self.script = script
        self.__dict__.update({name: script.get(name, default) for name, default in OPTIONS.items()})
        self.log_fd = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if self.log else None
        self.timers = []  # (due, order, action)
        self.order = 0
        self.asked = {}  # id of a request to the client -> callback for the answer
        self.nonces = {}  # id of a call -> its nonce
        self.client = {}  # capabilities that initialize declared
        self.mute = False
        self.stubborn = False
        self.record("start", os.getpid())

    @staticmethod
    def count_lives(log):
        if not log or not os.path.exists(log):
            return 0
        with open(log, encoding="utf-8") as lines:
            return sum(line.startswith("start ") for line in lines)

    def record(self, kind, value=""):
        if self.log_fd is not None:
            os.write(self.log_fd, f"{kind} {value}\n".encode())

    def later(self, seconds, action):
        self.order += 1
        heapq.heappush(self.timers, (time.monotonic() + seconds, self.order, action))

    # --- the loop

    def run(self):
        for name, value in self.script.items():
            if name in STARTS and value is not False:
                STARTS[name](self, value)
        buffer = bytearray()
        while True:
            wait = max(0.0, self.timers[0][0] - time.monotonic()) if self.timers else None
            if select.select([0], [], [], wait)[0]:
                chunk = os.read(0, self.gulp)
                if not chunk:
                    return self.end()
                seen = len(buffer)
                buffer += chunk
                while (cut := buffer.find(b"\n", seen)) >= 0:
                    line = bytes(buffer[:cut])
                    del buffer[: cut + 1]
                    seen = 0
                    if line.strip():
                        self.receive(json.loads(line))
                if self.pause:
                    time.sleep(self.pause)
            while self.timers and self.timers[0][0] <= time.monotonic():
                heapq.heappop(self.timers)[2]()

    def end(self):
        self.record("eof")
        while self.stubborn:
            time.sleep(60)

    def receive(self, message):
        method, ident = message.get("method"), message.get("id")
        if method is None:
            self.asked.pop(ident, lambda answer: None)(message)
        elif ident is None:
            if method == "notifications/cancelled":
                requested = message["params"].get("requestId")
                self.record("cancel", self.nonces.get(requested, requested))
        elif not self.mute and method not in self.silent:
            self.handle(Request(self, ident, method, message.get("params") or {}))

    def handle(self, request):
        if request.method != "tools/call":
            self.record("method", request.method)
        if request.modern and request.version not in self.versions:
            data = {"supported": self.versions, "requested": request.version}
            request.error(-32022, "Unsupported protocol version", data)
        elif request.method not in METHODS or request.method in self.refused:
            request.error(-32601, f"Method not found: {request.method}")
        else:
            METHODS[request.method](self, request)

    # --- sending

    def send(self, message, wires=()):
        wires = [*self.wire, *wires]
        sender = self.write
        for name in wires:
            sender = WIRES[name](sender)
        sender({"jsonrpc": "2.0", **message})

    def write(self, message):
        if not self.mute:
            self.write_bytes(json.dumps(message, ensure_ascii=False).encode() + b"\n")

    def write_bytes(self, data, fd=1):
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]


class Request:
    def __init__(self, server, ident, method, params):
        self.server, self.id, self.method, self.params = server, ident, method, params
        self.meta = params.get("_meta") or {}
        self.version = self.meta.get(META + "protocolVersion")
        self.modern = self.version is not None
        self.arguments = params.get("arguments") or {} if method == "tools/call" else {}

    def answer(self, result, *, ttl=None):
        if self.modern and isinstance(result, dict):
            result = {"resultType": "complete", **result, "_meta": {META + "serverInfo": INFO}}
            if ttl is not None:
                result |= {"ttlMs": ttl, "cacheScope": "private"}
        self.server.send({"id": self.id, "result": result}, self.arguments.get("wire", ()))

    def text(self, text, **more):
        self.answer({"content": [{"type": "text", "text": text}], **more})

    def error(self, code, message, data=None):
        error = {"code": code, "message": message} | ({"data": data} if data is not None else {})
        self.server.send({"id": self.id, "error": error})


# --- METHODS


@entry(METHODS)
def initialize(server, request):
    if server.era == "modern":
        return request.error(-32022, "Unsupported protocol version", {"supported": server.versions, "requested": "?"})
    server.client = request.params.get("capabilities", {})
    asked = request.params.get("protocolVersion")
    revision = server.revision or (asked if asked in LEGACY else LEGACY[0])
    request.answer({"protocolVersion": revision, "capabilities": server.capabilities, "serverInfo": INFO})


@entry(METHODS, "server/discover")
def discover(server, request):
    if server.era == "legacy":
        return request.error(-32601, "Method not found: server/discover")
    request.answer({"supportedVersions": server.versions, "capabilities": server.capabilities}, ttl=server.ttl)


@entry(METHODS)
def ping(server, request):
    if request.modern:
        return request.error(-32601, "Method not found: ping")
    request.answer({})


@entry(METHODS, "tools/list")
def list_tools(server, request):
    names = [*TOOLS, *(f"tool_{n}" for n in range(server.tools))]
    cursor = request.params.get("cursor", "0")
    start = 0 if server.endless else int(cursor)
    result = {
        "tools": [
            {
                "name": name,
                "description": TOOLS[name].__doc__ if name in TOOLS else "",
                "inputSchema": {"type": "object"},
            }
            for name in names[start : start + server.page]
        ]
    }
    if server.endless:
        result["nextCursor"] = "1" if server.endless == "same" else str(int(cursor) + 1)
    elif start + server.page < len(names):
        result["nextCursor"] = str(start + server.page)
    request.answer(result, ttl=server.ttl)


@entry(METHODS, "subscriptions/listen")
def listen(server, request):
    """Acknowledge the subscription; it is never answered."""
    meta = {META + "subscriptionId": request.id}
    granted = request.params.get("notifications", {})
    server.send(
        {"method": "notifications/subscriptions/acknowledged", "params": {"_meta": meta, "notifications": granted}}
    )


@entry(METHODS, "tools/call")
def call_tool(server, request):
    name, nonce = request.params["name"], request.arguments.get("nonce")
    if name not in TOOLS:
        return request.error(-32602, f"Unknown tool: {name}")
    server.nonces[request.id] = nonce
    if nonce is not None and "inputResponses" not in request.params:
        server.record("call", nonce)
    TOOLS[name](server, request, request.arguments)


for _method, _key in (
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
    ("prompts/list", "prompts"),
):
    METHODS[_method] = lambda server, request, key=_key: request.answer({key: []}, ttl=server.ttl)


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        for title, table in (("STARTS", STARTS), ("WIRES", WIRES), ("TOOLS", TOOLS)):
            print(title, *(f"  {name:14}{function.__doc__}" for name, function in table.items()), sep="\n")
    else:
        Server(json.loads(sys.argv[1]) if sys.argv[1:] else {}).run()
