"""A server that sends hostile texts through every text field of the protocol, over stdio and over HTTP.

    python -S -E hostile_server.py [FIELD TEXT]      # stdio; FIELD is one of CONNECTS, TEXT a name in hostile_texts.py

Fields of lists and of the handshake always carry hostile texts. Fields of a call are chosen by the call: the tool
`say` takes `field` (CALLS, over HTTP also ANSWERS) and `text`. Fields that end or prevent a connection (CONNECTS, over
HTTP also ANSWERS) are chosen by the command line, or by the URL: `/mcp/FIELD/TEXT`.
"""

from __future__ import annotations

import base64
import json
import os
import socketserver
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from hostile_texts import SURROGATE, TEXTS, text_for
else:
    from tests.faults.hostile_texts import SURROGATE, TEXTS, text_for

Message = dict[str, Any]
Said = Message | bytes
"""A message, or bytes that are none."""

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
LISTED = [name for name in TEXTS if name != SURROGATE and not name.startswith("long")]
"""Texts in lists: one that no decoder takes would hide the others, long ones would be slow on a terminal."""
BIG = 18446744073709563961
"""An integer beside a lone surrogate: messages with one are decoded by a decoder that takes surrogates."""
NOT_FOUND = -32002
SCHEMA = {"type": "object"}

CALLS: dict[str, Callable[[Message, str], list[Said]]] = {}
CONNECTS: dict[str, tuple[str, Callable[[Message, str], Message]]] = {}
"""The method that is answered, and its answer without the id."""


# ---- fields of a call ----------------------------------------------------------------------------------------------


def call(function: Callable[[Message, str], list[Said]]) -> Callable[[Message, str], list[Said]]:
    CALLS[function.__name__.replace("_", " ")] = function
    return function


def fails(code: int, text: str, **more: Any) -> Message:
    return {"error": {"code": code, "message": text, **more}}


def answers(text: str = "done", **more: Any) -> Message:
    return {"result": {"content": [{"type": "text", "text": text}], **more}}


def notes(method: str, **params: Any) -> Message:
    return {"method": method, "params": params}


@call
def error_message(request: Message, text: str) -> list[Said]:
    return [fails(-32000, text)]


@call
def error_message_of_invalid_params(request: Message, text: str) -> list[Said]:
    return [fails(-32602, text)]


@call
def error_data(request: Message, text: str) -> list[Said]:
    return [fails(-32000, "failed", data={text: [text]})]


@call
def error_code(request: Message, text: str) -> list[Said]:
    return [{"error": {"code": text, "message": text}}]


@call
def error_object(request: Message, text: str) -> list[Said]:
    return [{"error": text}]


@call
def result_object(request: Message, text: str) -> list[Said]:
    return [{"result": text}]


@call
def result_type(request: Message, text: str) -> list[Said]:
    return [answers(resultType=text)]


@call
def input_request_key(request: Message, text: str) -> list[Said]:
    asked = {text: {"method": "elicitation/create", "params": {"message": text, "requestedSchema": SCHEMA}}}
    return [{"result": {"resultType": "input_required", "inputRequests": asked, "requestState": text}}]


@call
def input_request_method(request: Message, text: str) -> list[Said]:
    return [{"result": {"resultType": "input_required", "inputRequests": {"a": {"method": text}}}}]


@call
def result_fields(request: Message, text: str) -> list[Said]:
    blocks = [
        {"type": "text", "text": text, "annotations": {"audience": [text]}},
        {"type": "resource_link", "uri": text, "name": text, "description": text, "mimeType": text},
        {"type": "resource", "resource": {"uri": text, "text": text, "mimeType": text}},
        {"type": text, "x": text},
    ]
    return [{"result": {"content": blocks, "structuredContent": {text: text}, "_meta": {text: text}}}]


@call
def tool_error(request: Message, text: str) -> list[Said]:
    return [answers(text, isError=True)]


@call
def progress_message(request: Message, text: str) -> list[Said]:
    token = (request.get("_meta") or {}).get("progressToken")
    return [notes("notifications/progress", progressToken=token, progress=1, total=2, message=text), answers()]


@call
def progress_token(request: Message, text: str) -> list[Said]:
    return [notes("notifications/progress", progressToken=text, progress=text, total=text, message="x"), answers()]


def _log(field: str) -> None:
    def say(request: Message, text: str) -> list[Said]:
        given = {"level": "error", "logger": "x", "data": "x", field.partition(" ")[0]: text}
        if field == "data object":
            given["data"] = {text: [text, {"x": text}]}
        return [notes("notifications/message", **given), answers()]

    CALLS[f"log {field}"] = say


for _field in ("level", "logger", "data", "data object"):
    _log(_field)


@call
def notification_method(request: Message, text: str) -> list[Said]:
    return [notes(text, x=text), notes(f"notifications/{text}"), answers()]


@call
def updated_uri(request: Message, text: str) -> list[Said]:
    return [notes("notifications/resources/updated", uri=text), answers()]


@call
def cancelled_request(request: Message, text: str) -> list[Said]:
    return [notes("notifications/cancelled", requestId=text, reason=text), answers()]


@call
def request_method(request: Message, text: str) -> list[Said]:
    return [{"id": f"q{text}", "method": text, "params": {}}, answers()]


@call
def request_id(request: Message, text: str) -> list[Said]:
    return [{"id": {"x": text}, "method": "ping"}, {"id": text, "method": "ping"}, answers()]


@call
def elicitation_message(request: Message, text: str) -> list[Said]:
    schema = {"type": "object", "properties": {text: {"type": "string", "title": text, "description": text}}}
    asked = {"message": text, "requestedSchema": schema}
    return [{"id": f"e{text}", "method": "elicitation/create", "params": asked}, answers()]


@call
def elicitation_mode(request: Message, text: str) -> list[Said]:
    asked = {"message": "x", "mode": text, "url": text}
    return [{"id": f"m{text}", "method": "elicitation/create", "params": asked}, answers()]


@call
def sampling_message(request: Message, text: str) -> list[Said]:
    asked = {"messages": [{"role": text, "content": {"type": "text", "text": text}}], "systemPrompt": text}
    return [{"id": f"s{text}", "method": "sampling/createMessage", "params": asked}, answers()]


@call
def answer_id(request: Message, text: str) -> list[Said]:
    return [{"id": text, "result": {}}, {"id": text, "error": {"code": 1, "message": text}}, answers()]


@call
def stray_text(request: Message, text: str) -> list[Said]:
    """Something that is not JSON."""
    return [text.encode("utf-8", "surrogatepass"), answers()]


@call
def stray_json(request: Message, text: str) -> list[Said]:
    """JSON that is not a message."""
    return [json.dumps(value).encode() for value in (text, [text], {text: text}, {"method": [text]})] + [answers()]


@call
def broken_answer(request: Message, text: str) -> list[Said]:
    """The beginning of the answer, as invalid JSON."""
    head = b'{"jsonrpc": "2.0", "id": %d, "result": ' % request["id"]
    return [head + text.encode("utf-8", "surrogatepass").replace(b"\n", b" ").replace(b"\r", b" ") + b"}"]


# ---- fields of the connection --------------------------------------------------------------------------------------


def connect(method: str) -> Callable[[Callable[[Message, str], Message]], Callable[[Message, str], Message]]:
    def put(function: Callable[[Message, str], Message]) -> Callable[[Message, str], Message]:
        CONNECTS[function.__name__.replace("_", " ")] = (method, function)
        return function

    return put


@connect("initialize")
def protocol_version(request: Message, text: str) -> Message:
    return {"result": {"protocolVersion": text, "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}}


@connect("initialize")
def initialize_error(request: Message, text: str) -> Message:
    return fails(-32000, text, data={text: text})


@connect("initialize")
def initialize_result(request: Message, text: str) -> Message:
    return {"result": text}


@connect("server/discover")
def discover_error(request: Message, text: str) -> Message:
    return fails(-32022, text, data={"supported": [text], "requested": text})


@connect("server/discover")
def supported_versions(request: Message, text: str) -> Message:
    return {"result": {"resultType": "complete", "supportedVersions": [text], "capabilities": {}}}


@connect("logging/setLevel")
def level_error(request: Message, text: str) -> Message:
    return fails(-32000, text)


@connect("tools/list")
def tools_error(request: Message, text: str) -> Message:
    return fails(-32000, text)


@connect("tools/list")
def tools_result(request: Message, text: str) -> Message:
    return {"result": {"resultType": "complete", "tools": text}}


@connect("tools/list")
def cursor(request: Message, text: str) -> Message:
    """Two pages; the second one is an error that quotes the cursor."""
    given = (request.get("params") or {}).get("cursor")
    if given is None:
        return {"result": {"resultType": "complete", "tools": [], "nextCursor": text}}
    return fails(-32602, f"unknown cursor {given}")


@connect("tools/list")
def duplicate_names(request: Message, text: str) -> Message:
    return {"result": {"resultType": "complete", "tools": [{"name": text, "inputSchema": SCHEMA}] * 3}}


@connect("tools/list")
def header_declaration(request: Message, text: str) -> Message:
    schema = {"type": "object", "properties": {text: {"type": "string", "x-mcp-header": text}}}
    return {"result": {"resultType": "complete", "tools": [{"name": text, "inputSchema": schema}]}}


@connect("resources/list")
def resources_error(request: Message, text: str) -> Message:
    return fails(-32000, text)


@connect("prompts/list")
def prompts_error(request: Message, text: str) -> Message:
    return fails(-32000, text)


@connect("subscriptions/listen")
def listen_error(request: Message, text: str) -> Message:
    return fails(-32000, text)


@connect("ping")
def ping_error(request: Message, text: str) -> Message:
    return fails(-32000, text)


@connect("stderr")
def stderr_and_exit(request: Message, text: str) -> Message:
    """Only over stdio: the process writes the text to stderr and ends."""
    raise AssertionError


@connect("stdout")
def stdout_and_exit(request: Message, text: str) -> Message:
    """Only over stdio: the process writes the text to stdout and ends."""
    raise AssertionError


# ---- fields that are always hostile --------------------------------------------------------------------------------


class Hostile:
    """Answers messages; `secrets` are those that the client sent."""

    def __init__(self, field: str = "", name: str = "", secrets: list[str] | None = None) -> None:
        self.field, self.name, self.secrets = field, name, secrets or []

    def text(self, field: str, name: str) -> str:
        return text_for(field, name, self.secrets)

    def all(self, field: str) -> str:
        return " ".join(self.text(field, name) for name in LISTED)

    def take(self, message: Message) -> list[Said]:
        """Return all messages sent in reaction to this message; the last one is the answer if it is a request."""
        method, params = message.get("method"), message.get("params") or {}
        if method is None or "id" not in message:
            return []
        arguments = params.get("arguments") or {}
        name = arguments.get("text") or self.name
        if method == "tools/call" and params.get("name") == "say":
            said = CALLS[arguments["field"]]({**params, "id": message["id"]}, self.text(arguments["field"], name))
        elif method == CONNECTS.get(self.field, ("",))[0]:
            said = [CONNECTS[self.field][1](message, self.text(self.field, self.name))]
        else:
            said = [*self._good(method, params)]
        if isinstance(said[-1], dict):
            said[-1] = {"id": message["id"], **said[-1]}
        modern = (params.get("_meta") or {}).get(META + "protocolVersion") == MODERN
        return [self._framed(each, modern, name == SURROGATE) if isinstance(each, dict) else each for each in said]

    def _framed(self, message: Message, modern: bool, surrogate: bool) -> Message:
        if modern and isinstance(message.get("result"), dict):
            info = {"name": self.all("modern server name"), "version": self.all("modern server version")}
            meta = {META + "serverInfo": info, **message["result"].get("_meta", {})}
            message["result"] = {"resultType": "complete", **message["result"], "_meta": meta}
        return {"jsonrpc": "2.0", **message, **({"big": BIG} if surrogate else {})}

    def _good(self, method: str, params: Message) -> Iterator[Message]:
        table: dict[str, Callable[[Message], Any]] = {
            "initialize": self._initialize,
            "server/discover": self._discover,
            "tools/list": self._tools,
            "resources/list": self._resources,
            "resources/templates/list": self._templates,
            "prompts/list": self._prompts,
        }
        if method in table:
            yield {"result": table[method](params)}
        elif method in ("ping", "logging/setLevel"):
            yield {"result": {}}
        elif method == "tools/call" and params.get("name") == "all":
            yield from self._everything(params)
        elif method == "tools/call" and params.get("name") == "fail":
            yield answers(self.all("tool error"), isError=True)
        elif method == "tools/call":
            yield fails(-32602, self.all("unknown tool"))
        elif method == "resources/read" and params["uri"] == "hostile:all":
            uri = self.all("contents uri")
            pieces = [{"uri": uri, "mimeType": uri, "text": self.text("contents text", name)} for name in LISTED]
            yield {"result": {"contents": pieces}}
        elif method == "prompts/get" and params["name"] == "all":
            said = [
                {"role": self.text("role", name), "content": {"type": "text", "text": self.text("prompt text", name)}}
                for name in LISTED
            ]
            yield {"result": {"description": self.all("prompt description"), "messages": said}}
        else:
            # What was asked for says the text: `say:NAME` as URI, prompt, or argument.
            asked = str(params.get("uri") or params.get("name") or (params.get("argument") or {}).get("value"))
            name = asked.partition("say:")[2]
            code = NOT_FOUND if method == "resources/read" else -32602
            yield fails(code, self.text(method, name) if name in TEXTS else self.all(method))

    def _everything(self, params: Message) -> Iterator[Message]:
        """Return a result and everything that may precede it."""
        request = {**params, "id": 0}
        before = ("progress message", "log level", "log logger", "log data", "notification method", "updated uri")
        for field in before:
            for name in LISTED:
                for said in CALLS[field](request, self.text(field, name))[:-1]:
                    assert isinstance(said, dict)
                    yield said
        texts = [{"type": "text", "text": self.text("result text", name)} for name in LISTED]
        links = [{"type": "resource_link", "uri": self.text("link", name), "name": name} for name in LISTED]
        data = {self.text("data key", name): self.text("data value", name) for name in LISTED}
        yield {"result": {"content": [*texts, *links], "structuredContent": data}}

    def _capabilities(self) -> Message:
        known = {"tools": {}, "prompts": {}, "logging": {}, "resources": {"subscribe": True}, "completions": {}}
        return {**known, self.all("capability"): {self.all("capability"): True}}

    def _initialize(self, params: Message) -> Message:
        names = {field: self.all(f"server {field}") for field in ("name", "version", "title", "websiteUrl")}
        said = {"protocolVersion": "2025-11-25", "capabilities": self._capabilities(), "serverInfo": names}
        return {**said, "instructions": self.all("instructions")}

    def _discover(self, params: Message) -> Message:
        said = {"supportedVersions": [MODERN], "capabilities": self._capabilities()}
        return {**said, "instructions": self.all("instructions"), "ttlMs": 0, "cacheScope": "private"}

    def _tools(self, params: Message) -> Message:
        own = [{"name": name, "inputSchema": SCHEMA} for name in ("say", "all", "fail")]
        return {"tools": [*own, *(self._tool(name) for name in LISTED)]}

    def _tool(self, name: str) -> Message:
        described = {"type": "string", "description": self.text("schema description", name)}
        described |= {"title": self.text("schema title", name), "enum": [self.text("schema enum", name)]}
        properties = {self.text("schema property", name): described}
        return {
            "name": self.text("tool name", name),
            "title": self.text("tool title", name),
            "description": self.text("tool description", name),
            "inputSchema": {"type": "object", "properties": properties, "required": list(properties)},
            "outputSchema": {"type": "object", "description": self.text("output schema", name)},
            "annotations": {"title": self.text("annotation", name), self.text("annotation key", name): True},
            "icons": [{"src": self.text("icon", name)}],
        }

    def _resources(self, params: Message) -> Message:
        def resource(name: str) -> Message:
            fields = ("uri", "name", "title", "description", "mimeType")
            return {field: self.text(f"resource {field}", name) for field in fields}

        own = {"uri": "hostile:all", "name": "all"}
        return {"resources": [own, *map(resource, LISTED)]}

    def _templates(self, params: Message) -> Message:
        def template(name: str) -> Message:
            fields = ("uriTemplate", "name", "title", "description", "mimeType")
            return {field: self.text(f"template {field}", name) for field in fields}

        return {"resourceTemplates": [*map(template, LISTED)]}

    def _prompts(self, params: Message) -> Message:
        def prompt(name: str) -> Message:
            argument = {"name": self.text("argument", name), "description": self.text("argument description", name)}
            fields = {field: self.text(f"prompt {field}", name) for field in ("name", "title", "description")}
            return {**fields, "arguments": [argument]}

        return {"prompts": [{"name": "all"}, *map(prompt, LISTED)]}


# ---- stdio ---------------------------------------------------------------------------------------------------------


def serve_stdio(field: str = "", name: str = "") -> None:
    secrets = [os.environ[key] for key in ("HOSTILE_TOKEN",) if key in os.environ]
    hostile = Hostile(field, name, secrets)
    if field in ("stderr and exit", "stdout and exit"):
        stream = sys.stderr if field.startswith("stderr") else sys.stdout
        stream.buffer.write(hostile.text(field, name).encode("utf-8", "replace") + b"\n")
        stream.flush()
        sys.exit(3)
    for text in LISTED:
        sys.stderr.write(hostile.text("stderr", text) + "\n")
    sys.stderr.flush()
    for line in sys.stdin.buffer:
        for said in hostile.take(json.loads(line)):
            data = said if isinstance(said, bytes) else json.dumps(said).encode()
            sys.stdout.buffer.write(data + b"\n")
        sys.stdout.buffer.flush()


# ---- HTTP ----------------------------------------------------------------------------------------------------------

ANSWERS: dict[str, Callable[[Message, bytes, bytes], bytes]] = {}
"""Whole responses, from the request, the text and the text as it fits into a header."""


def answer(function: Callable[[Message, bytes, bytes], bytes]) -> Callable[[Message, bytes, bytes], bytes]:
    ANSWERS["http " + function.__name__.replace("_", " ")] = function
    return function


def response(status: bytes, *headers: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join((b"HTTP/1.1 " + status, *headers, b"Content-Length: %d" % len(body), b"", body))


def rpc_error(request: Message, text: bytes, ident: Any = None) -> bytes:
    message = {"code": -32000, "message": text.decode("utf-8", "surrogatepass")}
    return json.dumps({"jsonrpc": "2.0", "id": ident, "error": message}).encode()


JSON = b"Content-Type: application/json"
PLAIN = b"Content-Type: text/plain; charset=utf-8"
EVENTS = b"Content-Type: text/event-stream"


@answer
def reason_500(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"500 " + header)


@answer
def reason_418(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"418 " + header)


@answer
def status_line(request: Message, text: bytes, header: bytes) -> bytes:
    return b"HTTP/1.1 " + text + b"\r\n\r\n"


@answer
def body_500(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"500 X", PLAIN, body=text)


@answer
def body_400(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"400 X", PLAIN, body=text)


@answer
def body_429(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"429 X", PLAIN, b"Retry-After: 600", body=text)


@answer
def error_429(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"429 X", JSON, b"Retry-After: 600", body=rpc_error(request, text))


@answer
def error_400(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"400 X", JSON, body=rpc_error(request, text))


@answer
def error_404(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"404 X", JSON, body=rpc_error(request, text))


@answer
def error_500(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"500 X", JSON, body=rpc_error(request, text, request.get("id")))


@answer
def json_400(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"400 X", JSON, body=json.dumps({"detail": text.decode("utf-8", "surrogatepass")}).encode())


@answer
def page_400(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"400 X", b"Content-Type: text/html", body=b"<html>" + text)


@answer
def broken_json(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"200 OK", JSON, body=text)


@answer
def other_json(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"200 OK", JSON, body=json.dumps([{"x": text.decode("utf-8", "surrogatepass")}]).encode())


@answer
def other_body(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"200 OK", PLAIN, body=text)


@answer
def content_type(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"200 OK", b"Content-Type: " + header, body=b"x")


@answer
def content_encoding(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"200 OK", JSON, b"Content-Encoding: " + header, body=b"x")


@answer
def content_length(request: Message, text: bytes, header: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: " + header + b"\r\n\r\n"


@answer
def transfer_encoding(request: Message, text: bytes, header: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: " + header + b"\r\n\r\n"


@answer
def chunk(request: Message, text: bytes, header: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\n" + JSON + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + text + b"\r\n"


@answer
def header_name(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"200 OK", header + b": x", JSON, body=b"x")


@answer
def header_value(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"200 OK", b"X-Any: " + text, b"Set-Cookie: " + header, JSON, body=b"x")


@answer
def challenge_401(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"401 X", b'WWW-Authenticate: Bearer realm="' + header + b'"', PLAIN, body=text)


@answer
def challenge_403(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"403 X", b'WWW-Authenticate: Bearer error="insufficient_scope", scope="' + header + b'"')


@answer
def location_302(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"302 X", b"Location: " + header)


@answer
def location_307(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"307 X", b"Location: http://other.example/" + header + b"?a=" + header)


@answer
def location_path(request: Message, text: bytes, header: bytes) -> bytes:
    """Redirect to a path that does not exist; its 404 quotes the path."""
    return response(b"308 X", b"Location: /gone/" + urllib.parse.quote(header).encode())


@answer
def retry_after(request: Message, text: bytes, header: bytes) -> bytes:
    return response(b"503 X", b"Retry-After: " + header)


@answer
def session_id(request: Message, text: bytes, header: bytes) -> bytes:
    message = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": request.get("id"), "result": message}).encode()
    return response(b"200 OK", JSON, b"Mcp-Session-Id: " + header, body=body)


@answer
def event_fields(request: Message, text: bytes, header: bytes) -> bytes:
    lines = [b": " + text, b"event: " + text, b"id: " + text, b"retry: " + text, b"data: x", b"", b"data: " + text, b""]
    return response(b"200 OK", EVENTS, body=b"\n".join(lines) + b"\n")


@answer
def event_endpoint(request: Message, text: bytes, header: bytes) -> bytes:
    """Send the endpoint event of HTTP+SSE, with the URL for messages."""
    return response(b"200 OK", EVENTS, body=b"event: endpoint\ndata: http://other.example/" + header + b"\n\n")


class _Handler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    over = False
    """Whether the connection is closed after this answer: some do not say where they end."""

    def handle(self) -> None:
        try:
            while not self.over and (line := self.rfile.readline(1 << 16)):
                verb, target, _ = line.decode("latin-1").split(" ")
                headers = {}
                while (field := self.rfile.readline(1 << 16).decode("latin-1").strip()) != "":
                    key, _, value = field.partition(":")
                    headers[key.lower()] = value.strip()
                body = self.rfile.read(int(headers.get("content-length", "0")))
                self.wfile.write(self._answer(verb, target, headers, body))
        except ConnectionError:
            return

    def _answer(self, verb: str, target: str, headers: dict[str, str], body: bytes) -> bytes:
        split = urllib.parse.urlsplit(target)
        secrets = _secrets_in(headers, split.query)
        _, place, field, name, *_ = [*map(urllib.parse.unquote, split.path.split("/")), "", "", ""]
        if place == "gone":
            return response(b"404 X", PLAIN, body=urllib.parse.unquote_to_bytes(split.path))
        message = json.loads(body) if body else {}
        hostile = Hostile(field, name, secrets)
        params = message.get("params") or {}
        arguments = params.get("arguments") or {}
        asked = arguments.get("field", "") if params.get("name") == "say" else ""
        if asked in ANSWERS:
            return self._whole(hostile, asked, arguments["text"], message)
        if field in ANSWERS and (verb == "GET" or message.get("method") in ("initialize", "server/discover")):
            return self._whole(hostile, field, name, message)
        if verb != "POST":
            return response(b"200 OK" if verb == "DELETE" else b"405 X")
        said = hostile.take(message)
        if not said:
            return response(b"202 X")
        session = b"Mcp-Session-Id: s1"
        if len(said) == 1 and isinstance(said[0], dict):
            return response(b"200 OK", JSON, session, body=json.dumps(said[0]).encode())
        events = (each if isinstance(each, bytes) else json.dumps(each).encode() for each in said)
        lines = (b"data: " + event.replace(b"\r", b"\n").replace(b"\n", b"\ndata: ") + b"\n\n" for event in events)
        return response(b"200 OK", EVENTS, session, body=b"".join(lines))

    def _whole(self, hostile: Hostile, field: str, name: str, message: Message) -> bytes:
        self.over = True
        text = hostile.text(field, name).encode("utf-8", "surrogatepass")
        header = text.replace(b"\r", b" ").replace(b"\n", b" ")[:60_000]
        return ANSWERS[field](message, text, header)


def _secrets_in(headers: dict[str, str], query: str) -> list[str]:
    kind, _, credentials = headers.get("authorization", "").partition(" ")
    found = [credentials, headers.get("x-api-key", ""), *(value for _, value in urllib.parse.parse_qsl(query))]
    if kind == "Basic":
        found.append(base64.b64decode(credentials).decode().partition(":")[2])
    return [each for each in found if each]


class HttpServer(socketserver.ThreadingTCPServer):
    """The hostile server over HTTP, on threads of this process. Use it as a context manager."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128  # else the kernel drops what comes at once, and it comes again a second later

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port = self.server_address[1]
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def url(self, field: str = "", name: str = "", *, user: str = "", query: str = "") -> str:
        path = "/".join(urllib.parse.quote(part, safe="") for part in (field, name) if part)
        return f"http://{user}127.0.0.1:{self.port}/mcp{'/' if path else ''}{path}{query}"

    def __exit__(self, *exc: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


if __name__ == "__main__":
    serve_stdio(*sys.argv[1:])
