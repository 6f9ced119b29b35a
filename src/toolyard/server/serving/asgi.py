"""ASGI in small: reading a bounded body, answering at once, knowing when the client has gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from ...protocol import jsonrpc
from ...protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, RequestId
from ...types import Wire

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = dict[bytes, bytes]

JSON_TYPE: Final = (b"content-type", b"application/json")


class Refused(Exception):
    """A request that is answered by a status, before anything of it is done."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: int = INVALID_REQUEST,
        id: RequestId | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.id = id
        self.headers = headers

    async def reply(self, send: Send) -> None:
        """Send it, as a JSON-RPC error that names its request only if there is one."""
        body = jsonrpc.error(self.id, self.code, str(self))
        if self.id is None:
            del body["id"]
        await reply(send, self.status, jsonrpc.encode(body), *self.headers)


class Gone(Exception):
    """The client left before it had said everything."""


async def reply(send: Send, status: int, body: bytes = b"", *headers: tuple[bytes, bytes]) -> None:
    """A whole response; a body is JSON."""
    length = (b"content-length", b"%d" % len(body))
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [JSON_TYPE, length, *headers] if body else [length, *headers],
        }
    )
    await send({"type": "http.response.body", "body": body})


async def read_body(receive: Receive, headers: Headers, limit: int) -> bytes:
    """The whole body of a request, as long as it keeps within the limit."""
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    event = await receive()
    if event["type"] == "http.request" and not event.get("more_body"):
        body: bytes = event.get("body", b"")
        if len(body) > limit:
            raise _too_large(limit)
        return body
    parts: list[bytes] = []
    size = 0
    while event["type"] == "http.request":
        parts.append(event.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise _too_large(limit)
        if not event.get("more_body"):
            return b"".join(parts)
        event = await receive()
    raise Gone


def _too_large(limit: int) -> Refused:
    # The rest of the body is still coming: this connection cannot be used for another request.
    return Refused(413, f"the body is above the limit of {limit:,} bytes", headers=((b"connection", b"close"),))


async def until_gone(receive: Receive) -> None:
    """Return when the client has left, or has got its whole response."""
    while (await receive())["type"] != "http.disconnect":
        continue


def text_headers(headers: Headers) -> dict[str, str]:
    """Headers as text, names in lower case."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()}


def takes_events(headers: Headers) -> bool:
    """Whether the client reads event streams; one that says nothing does."""
    accept = headers.get(b"accept", b"*/*")
    return b"text/event-stream" in accept or b"*/*" in accept or b"text/*" in accept


def parts(message: Any) -> tuple[RequestId | None, str | None, Wire]:
    """Id, method and params of a message: no id is a notification, no method an answer."""
    if type(message) is not dict or message.get("jsonrpc") != "2.0":
        raise Refused(400, "the body must be one JSON-RPC 2.0 message")
    id, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if "id" in message and not jsonrpc.is_id(id):
        raise Refused(400, "id: must be a string or an integer")
    if "method" not in message:
        if id is None or ("result" in message) == ("error" in message):
            raise Refused(400, "the body is neither a request nor a notification nor a response")
        return id, None, {}
    if not isinstance(method, str):
        raise Refused(400, "method: must be a string", id=id)
    if type(params) is not dict:
        raise Refused(400, "params: must be an object", code=INVALID_PARAMS, id=id)
    return id, method, params
