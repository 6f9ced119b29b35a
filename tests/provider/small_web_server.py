"""The small server over streamable HTTP and SSE."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.provider.small_server import SmallServer

Message = dict[str, Any]


class _Handler(BaseHTTPRequestHandler):
    """Streamable HTTP at `/mcp`, with sessions for legacy clients; SSE at `/sse` and `/messages/NAME`."""

    protocol_version = "HTTP/1.1"
    server: WebServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, dict(self.headers.items())))
        message = json.loads(body)
        place, _, name = self.path.partition("?")[0].lstrip("/").partition("/")
        headers = {key.lower(): value for key, value in self.headers.items()}
        if place == "messages":
            stream = self.server.streams[name]
            self.reply(202)
            seen = {"headers": headers, "stream_headers": stream.headers, "session": name}
            threading.Thread(target=self.server.small.answer, args=(message, stream.put, seen), daemon=True).start()
            return
        if place != "mcp" or self.server.sse:
            self.reply(404)
            return
        answers: list[Message] = []
        session = headers.get("mcp-session-id", "")
        if message.get("method") == "initialize":
            session = f"session-{next(self.server.numbers)}"
        self.server.small.answer(message, answers.append, {"headers": headers, "session": session})
        if not answers:
            self.reply(202)
        elif len(answers) == 1:
            self.reply(200, json.dumps(answers[0]).encode(), "application/json", session)
        else:
            events = "".join(f"event: message\ndata: {json.dumps(each)}\n\n" for each in answers)
            self.reply(200, events.encode(), "text/event-stream", session)

    def do_GET(self) -> None:
        self.server.requests.append((self.path, dict(self.headers.items())))
        if not self.server.sse or not self.path.startswith("/sse"):
            self.reply(405)
            return
        stream = _EventStream({key.lower(): value for key, value in self.headers.items()})
        name = str(next(self.server.numbers))
        self.server.streams[name] = stream
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(f"event: endpoint\ndata: /messages/{name}\n\n".encode())
        self.wfile.flush()
        while (message := stream.messages.get()) is not None:
            try:
                self.wfile.write(f"event: message\ndata: {json.dumps(message)}\n\n".encode())
                self.wfile.flush()
            except OSError:
                break

    def do_DELETE(self) -> None:
        self.reply(200)

    def reply(self, status: int, body: bytes = b"", kind: str = "text/plain", session: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if session:
            self.send_header("Mcp-Session-Id", session)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


class _EventStream:
    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers
        self.messages: queue.Queue[Message | None] = queue.Queue()
        self.put = self.messages.put


class WebServer(ThreadingHTTPServer):
    """Serves over HTTP or SSE. `requests` has path and headers of each request."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, small: SmallServer, port: int, *, sse: bool) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.small = small
        self.sse = sse
        self.streams: dict[str, _EventStream] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.numbers: Iterator[int] = iter(range(1, 1_000_000))

    def end(self) -> None:
        """Serve no more, and end all streams."""
        self.shutdown()
        for stream in self.streams.values():
            stream.put(None)
        self.server_close()
