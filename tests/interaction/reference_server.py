"""The reference server of the interaction tests: one object, in memory or as a child process, in either era.

    python tests/interaction/reference_server.py --era modern|legacy|both [--journal FILE] [--options JSON]

`ReferenceServer.handle(message, send)` takes one message and sends any number; it needs no clock, no thread and no
loop. Received messages are kept in the journal, a file that outlives the server, and so are faults of the client: the
fixtures fail a test that left one. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

if __package__:
    from tests.interaction.reference_server_goods import LEVELS, PROMPTS, RESOURCES, TEMPLATES
    from tests.interaction.reference_server_methods import INFO, LEGACY_ONLY, META, METHODS, MODERN_ONLY
    from tests.interaction.reference_server_trials import TOOLS, Crash
else:
    from reference_server_goods import LEVELS, PROMPTS, RESOURCES, TEMPLATES
    from reference_server_methods import INFO, LEGACY_ONLY, META, METHODS, MODERN_ONLY
    from reference_server_trials import TOOLS, Crash

Message = dict[str, Any]
Send = Callable[[Message], None]

MODERN = "2026-07-28"
CAPABILITIES = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "completions": {},
    "logging": {},
}
OPTIONS: dict[str, Any] = {
    "capabilities": CAPABILITIES,
    "page": 100,  # entries a page
    "ttl": None,  # ttlMs of what may be cached
    "sick": 0,  # number of first lives that crash at their first request
    "doomed": sys.maxsize,  # from this life on, each crashes at its first request
    "crash": {},  # method -> how many times, over all lives, it crashes the server
    "silent": {},  # method -> how many times per life it is answered; then never
    "odd": {},  # method -> the exact result, to which nothing is added
    "missing": [],  # methods that do not exist, whatever the capabilities declare
    "string_ids": False,  # answers carry the id as a string
    "unknown": "error",  # how an unknown tool is reported: "error" | "result"
    "revision": None,  # the revision in the answer to initialize, whatever the client requests
    "supported": [MODERN],  # what discover offers
}


class Journal:
    """Received messages and errors, over all lives of a server; one JSON value a line."""

    def __init__(self, path: str) -> None:
        self.path = path

    def note(self, kind: str, value: Any) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps([kind, value]) + "\n")

    def entries(self, kind: str) -> list[Any]:
        if not os.path.exists(self.path):
            return []
        with open(self.path, encoding="utf-8") as file:
            whole = [line for line in file if line.endswith("\n")]
        return [value for noted, value in map(json.loads, whole) if noted == kind]

    def got(self, method: str) -> list[Message]:
        """Return the requests and notifications of this method."""
        return [message for message in self.entries("got") if message.get("method") == method]

    def taken_back(self, method: str = "tools/call") -> list[int]:
        """Return the ids of the requests of this method that the client cancelled.

        A client cancels by a notification or, over HTTP in the modern era, by closing the stream.
        """
        ids = {message["id"] for message in self.got(method)}
        cancelled = [message["params"]["requestId"] for message in self.got("notifications/cancelled")]
        return [id for id in (*cancelled, *self.entries("closed")) if id in ids]

    @property
    def lives(self) -> int:
        return len(self.entries("life"))

    @property
    def calls(self) -> list[str]:
        """Return the names of the tools called, in order."""
        return [message["params"]["name"] for message in self.got("tools/call")]

    @property
    def faults(self) -> list[str]:
        return self.entries("fault")


class Request:
    """One request of the client, and the ways to answer it."""

    def __init__(self, server: ReferenceServer, message: Message) -> None:
        self.server = server
        self.id = message["id"]
        self.answer_id = str(self.id) if server.options["string_ids"] else self.id
        self.method: str = message["method"]
        self.params: Message = message.get("params") or {}
        self.meta: Message = self.params.get("_meta") or {}
        self.version = self.meta.get(META + "protocolVersion")
        self.modern = self.version is not None

    @property
    def capabilities(self) -> Message:
        """The capabilities that the client declared."""
        declared = self.meta.get(META + "clientCapabilities") if self.modern else self.server.client
        return declared or {}

    def answer(self, result: Message, *, cached: bool = False) -> None:
        if self.modern:
            result = {"resultType": "complete", **result, "_meta": {META + "serverInfo": INFO}}
            if cached and self.server.options["ttl"] is not None:
                result |= {"ttlMs": self.server.options["ttl"], "cacheScope": "private"}
        self.server.send({"jsonrpc": "2.0", "id": self.answer_id, "result": result})

    def error(self, code: int, message: str, data: Any = None) -> None:
        body = {"code": code, "message": message} | ({"data": data} if data is not None else {})
        self.server.send({"jsonrpc": "2.0", "id": self.answer_id, "error": body})

    def text(self, *texts: str, **more: Any) -> None:
        self.answer({"content": [{"type": "text", "text": text} for text in texts], **more})

    def json(self, value: Any) -> None:
        self.text(json.dumps(value))

    def ask(self, method: str, params: Message | None, then: Callable[[Message], None]) -> None:
        """Send a request to the client as its era defines it; `then` gets `{"result": ...}` or `{"error": ...}`."""
        question = {"method": method} | ({"params": params} if params is not None else {})
        if not self.modern:
            self.server.ask(question, then)
        elif "inputResponses" in self.params:
            then({"result": self.params["inputResponses"]["question"]})
        else:
            self.answer({"resultType": "input_required", "inputRequests": {"question": question}})


class ReferenceServer:
    """One life of the server."""

    def __init__(self, journal: str, era: str = "both", **options: Any) -> None:
        self.journal = Journal(journal)
        self.era = era
        self.options = OPTIONS | options
        self.send: Send
        self.client: Message = {}
        self.initialized = False
        self.in_order = True
        """Whether messages come in the order in which they were sent; else ids need only be new ones."""
        self.ids: set[Any] = set()
        self.level: str | None = None
        self.asked: dict[str, Callable[[Message], None]] = {}
        self.sleepers: dict[int, Request] = {}
        self.subscribed: set[str] = set()
        self.listening: dict[int, Message] = {}
        self.goods: dict[str, list[Message]] = {
            "tools": [tool.wire for tool in TOOLS.values()],
            "prompts": list(PROMPTS),
            "resources": list(RESOURCES),
            "resourceTemplates": list(TEMPLATES),
        }
        self.journal.note("life", os.getpid())
        self.number = self.journal.lives
        self.answered: Counter[str] = Counter()

    def handle(self, message: Message, send: Send) -> None:
        """Handle one message; raises `Crash` if the server is to crash at it."""
        self.send = send
        self.journal.note("got", message)
        if "method" not in message:
            self.asked.pop(message["id"])(message)
        elif "id" not in message:
            self._notified(message["method"], message.get("params") or {})
        else:
            self._requested(Request(self, message), message)

    def _notified(self, method: str, params: Message) -> None:
        if method == "notifications/initialized":
            self.initialized = True
        elif method == "notifications/cancelled":
            self.take_back(params["requestId"])

    def take_back(self, id: Any) -> None:
        """Handle a cancellation by the client."""
        self.sleepers.pop(id, None)
        self.listening.pop(id, None)

    def _requested(self, request: Request, message: Message) -> None:
        self._look_for_faults(request, message)
        method = request.method
        deaths = self.options["crash"].get(method)
        if deaths is not None and len(self.journal.got(method)) <= deaths:
            raise Crash
        if self.number <= self.options["sick"] or self.number >= self.options["doomed"]:
            raise Crash
        self.answered[method] += 1
        if self.answered[method] > self.options["silent"].get(method, sys.maxsize):
            return None
        if method in self.options["odd"]:
            return self.send({"jsonrpc": "2.0", "id": request.id, "result": self.options["odd"][method]})
        handler = METHODS.get(method)
        if handler is None or method in self.options["missing"] or not self._serves(request):
            request.error(-32601, f"Method not found: {method}")
        elif request.modern and request.version not in self.options["supported"]:
            request.error(-32022, "Unsupported protocol version", {"supported": self.options["supported"]})
        else:
            handler(self, request)

    def _serves(self, request: Request) -> bool:
        if request.modern:
            return self.era != "older" and request.method not in LEGACY_ONLY
        return self.era != "modern" and request.method not in MODERN_ONLY

    def _look_for_faults(self, request: Request, message: Message) -> None:
        wrong = {
            "an id that is not a number, or not a new one": type(request.id) is not int
            or request.id in self.ids
            or (self.in_order and request.id <= max(self.ids, default=0)),
            "empty params": message.get("params") == {},
            "not JSON-RPC 2.0": message.get("jsonrpc") != "2.0",
            "no capabilities": request.modern and not isinstance(request.meta.get(META + "clientCapabilities"), dict),
            "before initialized": not request.modern
            and self.era != "modern"
            and not self.initialized
            and request.method not in ("initialize", "ping"),
        }
        for what, is_so in wrong.items():
            if is_so:
                self.fault(f"{what}: {message}")
        self.ids.add(request.id)

    def fault(self, what: str) -> None:
        """Record that the client broke the protocol."""
        self.journal.note("fault", what)

    def ask(self, question: Message, then: Callable[[Message], None]) -> str:
        id = f"question-{len(self.journal.entries('asked'))}"
        self.journal.note("asked", question)
        self.asked[id] = then
        self.send({"jsonrpc": "2.0", "id": id, **question})
        return id

    def tell(self, method: str, params: Message | None = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method} | ({"params": params} if params else {}))

    def tell_change(self, wish: str, method: str, uri: str | None = None) -> None:
        """Send a change to its subscribers, as the era defines it."""
        params = {"uri": uri} if uri is not None else {}
        if self.initialized and (uri is None or uri in self.subscribed):
            self.tell(method, params)
        for id, wishes in self.listening.items():
            if wishes.get(wish) if uri is None else uri in wishes.get(wish, ()):
                self.tell(method, {**params, "_meta": {META + "subscriptionId": id}})

    def log(self, request: Request, level: str, data: Any) -> None:
        wanted = request.meta.get(META + "logLevel") if request.modern else self.level or "debug"
        if wanted is not None and LEVELS.index(level) >= LEVELS.index(wanted):
            self.tell("notifications/message", {"level": level, "logger": "crib", "data": data})


def main() -> None:
    parser = argparse.ArgumentParser(description="The reference server over stdio.")
    parser.add_argument("--era", choices=["modern", "older", "both"], default="both")
    parser.add_argument("--journal", default=os.devnull)
    parser.add_argument("--options", type=json.loads, default={}, help=f"JSON, any of {', '.join(OPTIONS)}")
    given = parser.parse_args()
    server = ReferenceServer(given.journal, given.era, **given.options)

    def send(message: Message) -> None:
        sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
        sys.stdout.buffer.flush()

    try:
        for line in sys.stdin.buffer:
            server.handle(json.loads(line), send)
    except Crash:
        os._exit(7)


if __name__ == "__main__":
    main()
