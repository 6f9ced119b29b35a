"""Receives the answer to a sign-in on a port of this machine (RFC 8252)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from ..errors import AuthError

MAX_REQUEST_BYTES: Final = 16 * 1024
REQUEST_SECONDS: Final = 10.0
DEFAULT_PATH: Final = "/callback"
_PAGE: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>"
    "<body style='font-family:system-ui;max-width:32rem;margin:15vh auto;padding:0 1rem'><h1>{title}</h1><p>{text}</p>"
)
_DONE: Final = _PAGE.format(title="You can close this page", text="The program that opened it has received the answer.")
_UNKNOWN: Final = _PAGE.format(title="Nothing here", text="This address only receives the answer to a sign-in.")


class LoopbackListener:
    """Listens for one redirect. Created by `open`, before the authorisation URL is made."""

    _server: asyncio.Server
    redirect_uri: str
    """The address that the authorisation server redirects to."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._is_expected: Callable[[Mapping[str, str]], bool] = lambda _: False
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._connections: set[asyncio.StreamWriter] = set()

    @classmethod
    async def open(cls, redirect_uri: str | None = None) -> LoopbackListener:
        """Listen on the port of `redirect_uri`, by default a free one of 127.0.0.1; raises `OSError` if it is taken."""
        parts = urlsplit(redirect_uri or f"http://127.0.0.1:0{DEFAULT_PATH}")
        listener = cls(parts.path or "/")
        # By address: `localhost` may be an address of another interface in a broken hosts file.
        host = parts.hostname or ""
        listener._server = await asyncio.start_server(
            listener._serve, "127.0.0.1" if host == "localhost" else host, parts.port or 0, limit=MAX_REQUEST_BYTES
        )
        port = listener._server.sockets[0].getsockname()[1]
        listener.redirect_uri = redirect_uri or f"http://127.0.0.1:{port}{listener._path}"
        return listener

    async def wait(self, is_expected: Callable[[Mapping[str, str]], bool], timeout: float) -> dict[str, str]:
        """Return the parameters of the redirect that is expected; raises `AuthError` after `timeout` seconds."""
        self._is_expected = is_expected
        try:
            async with asyncio.timeout(timeout):
                return await self._answer
        except TimeoutError:
            raise AuthError(
                f"the sign-in was not completed within {timeout:.0f} s. Try again; if the page showed an error, check "
                "client_id and redirect_uri",
                status=401,
            ) from None

    async def close(self) -> None:
        """Stop listening, and close connections that browsers opened in advance, after responses in progress."""
        self._server.close()
        for each in self._connections:
            each.close()
        with contextlib.suppress(OSError):
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                status, page = self._respond(head)
                writer.write(_response(status, page))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a browser that opens connections in advance, or another program; TimeoutError is an OSError
        finally:
            self._connections.discard(writer)
            writer.close()

    def _respond(self, head: bytes) -> tuple[str, str]:
        method, _, rest = head.decode("latin-1").partition(" ")
        try:
            target = urlsplit(rest.partition(" ")[0])
        except ValueError:
            return "404 Not Found", _UNKNOWN
        answer = dict(parse_qsl(target.query, keep_blank_values=True))
        if method != "GET" or target.path != self._path or self._answer.done() or not self._is_expected(answer):
            return "404 Not Found", _UNKNOWN
        self._answer.set_result(answer)
        return "200 OK", _DONE


def _response(status: str, page: str) -> bytes:
    body = page.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n"
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
