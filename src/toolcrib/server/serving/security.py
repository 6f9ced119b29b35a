"""Checks on every HTTP request: its `Host` and `Origin` headers, and the credentials of its sender."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Final, Protocol, runtime_checkable

from ...errors import AuthError, ConnectError
from ...protocol import jsonrpc
from ...protocol.jsonrpc import RequestId
from .asgi import Headers, Refused, Scope, Send, path_of, reply, text_headers
from .cors import ANY, CrossOriginAccess

log = logging.getLogger("toolcrib.server")

Auth = Callable[[Mapping[str, str]], Awaitable[Any] | Any]
"""Takes a request's headers (names in lower case) and returns the principal.

It rejects the request by returning None or False, or by raising `AuthError`; it raises `ConnectError` if it cannot
decide now, because a server that it needs does not answer. Sessions, subscriptions and suspended calls belong to the
principal that opened them, so principals of the same client must be equal: a str, a number, or an instance of a class
with `__eq__` and `__hash__`.
"""

_HOST: Final = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")
_ORIGIN: Final = re.compile(r"https?://" + _HOST.pattern)
BAD_REQUEST: Final = 400
UNAUTHORISED: Final = 401
FORBIDDEN: Final = 403
RETRY_LATER: Final = (b"retry-after", b"5")
DOCUMENT_HEADERS: Final = ((b"cache-control", b"public, max-age=3600"),)
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
MAX_REMEMBERED: Final = 256
MIN_STREAM_SECONDS: Final = 5.0
"""Minimum life of a stream in seconds: a token may be accepted for a moment after its expiry."""


@runtime_checkable
class ProtectedResource(Protocol):
    """An `auth` hook that also publishes documents about itself, such as `TokenVerifier`."""

    @property
    def documents(self) -> Mapping[str, bytes]:
        """The JSON documents that anyone may read, by their paths."""
        ...

    def check_query(self, query: bytes) -> None:
        """Raise `AuthError` if the query of a URL contains credentials."""
        ...

    def check_calls(self, principal: Any, tools: Iterable[str]) -> None:
        """Raise `AuthError` if this principal may not call these tools."""
        ...


class RequestGuard:
    """Checks every request: its `Host` and `Origin` first, then its credentials."""

    def __init__(self, *, hosts: Iterable[str] = (), origins: Iterable[str] = (), auth: Auth | None = None) -> None:
        self._hosts = LOOPBACK | {host.lower().strip("[]") for host in hosts}
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)
        self._auth = auth
        self._resource = _protected_resource(auth)
        self._seen: set[tuple[bytes, bytes]] = set()
        self._cors = CrossOriginAccess(self._origins)
        self.expose = self._cors.expose

    async def admit(self, headers: Headers, query: bytes = b"") -> Any:
        """Return the principal, or None without an `auth` hook; raises `Refused` if the request is not allowed."""
        self._check_seen(headers)
        if self._auth is None:
            return None
        return await self._identify(self._auth, headers, query)

    async def answer_public(self, scope: Scope, headers: Headers, send: Send) -> bool:
        """Answer a request that needs no credentials; returns whether this was one.

        These are preflight requests of browsers, and those for the documents that the `auth` hook publishes.
        """
        method = scope["method"]
        if method == "OPTIONS":
            self._check_seen(headers)
            return await self._cors.answer_preflight(headers, send)
        if self._resource is None or method not in ("GET", "HEAD"):
            return False
        document = self._resource.documents.get(path_of(scope).rstrip("/"))
        if document is None:
            return False
        self._check_seen(headers)
        await reply(send, 200, document, *DOCUMENT_HEADERS)
        return True

    def check_calls(self, message: Any, principal: Any) -> None:
        """Raise `Refused` if the principal may not call the tool of this message, or one of those of a batch."""
        if self._resource is None:
            return
        tools = _called_tools(message)
        if not tools:
            return
        try:
            self._resource.check_calls(principal, tools)
        except AuthError as exc:
            id = message.get("id") if type(message) is dict else None
            raise _refusal(exc, id if jsonrpc.is_id(id) else None) from exc

    def _check_seen(self, headers: Headers) -> None:
        pair = headers.get(b"host", b""), headers.get(b"origin", b"")
        if pair not in self._seen:
            self._check(*pair)
            if len(self._seen) < MAX_REMEMBERED:
                self._seen.add(pair)

    def _check(self, host: bytes, origin: bytes) -> None:
        name = _name_in(_HOST, host.decode("latin-1"))
        if ANY not in self._hosts and name not in self._hosts:
            raise Refused(421, "Host: not an allowed host; add it to allowed_hosts to serve it")
        page = origin.decode("latin-1").lower()
        if not page or ANY in self._origins or page in self._origins:
            return
        if _name_in(_ORIGIN, page) not in LOOPBACK or name not in LOOPBACK:
            raise Refused(403, "Origin: not an allowed origin; add it to allowed_origins to serve it")

    async def _identify(self, auth: Auth, headers: Headers, query: bytes) -> Any:
        try:
            if query and self._resource is not None:
                self._resource.check_query(query)
            principal = auth(text_headers(headers))
            if inspect.isawaitable(principal):
                principal = await principal
        except AuthError as exc:
            raise _refusal(exc) from exc
        except ConnectError as exc:
            log.debug("the credentials of a request cannot be checked now: %s", exc)
            raise Refused(503, "the credentials cannot be checked now", headers=(RETRY_LATER,)) from exc
        except (LookupError, ValueError) as exc:  # missing, malformed or unknown credentials
            log.debug("the auth hook raised an exception; the request was rejected", exc_info=exc)
            raise _refusal(AuthError()) from exc
        except Exception as exc:
            log.exception("the auth hook failed; the request was rejected")
            raise Refused(500, "the credentials could not be checked") from exc
        if principal is None or principal is False:
            raise _refusal(AuthError())
        if getattr(type(principal), "__eq__") is object.__eq__ and not isinstance(principal, Enum):  # noqa: B009
            # The next request of the same client would get an unequal principal, and could not use its session.
            log.error(
                "the auth hook returned a %s, which is compared by identity; the request was rejected. Return a str, "
                "or a value of a class with __eq__ and __hash__, such as a frozen dataclass",
                type(principal).__name__,
            )
            raise Refused(500, "the credentials could not be checked")
        return principal


class CredentialTimer:
    """Calls `end` when the credentials of a principal expire."""

    def __init__(self, principal: Any, end: Callable[[], object]) -> None:
        self._end = end
        self._expires_at = _expiry_of(principal)
        self._timer: asyncio.TimerHandle | None = None
        self._start()

    def _start(self) -> None:
        if self._expires_at < math.inf:
            seconds = max(self._expires_at - time.time(), MIN_STREAM_SECONDS)
            self._timer = asyncio.get_running_loop().call_later(seconds, self._end)

    def renew(self, principal: Any) -> None:
        """Start again if these credentials expire later than those before."""
        expires_at = _expiry_of(principal)
        if expires_at > self._expires_at:
            self.cancel()
            self._expires_at = expires_at
            self._start()

    def cancel(self) -> None:
        """Call nothing any longer."""
        if self._timer is not None:
            self._timer.cancel()


@contextlib.contextmanager
def ends_with_credentials(principal: Any, end: Callable[[], object]) -> Iterator[CredentialTimer]:
    """Call `end` when the credentials of a principal expire, unless the context has exited before."""
    timer = CredentialTimer(principal, end)
    try:
        yield timer
    finally:
        timer.cancel()


def _expiry_of(principal: Any) -> float:
    """Return when the credentials of a principal expire, in seconds since 1970."""
    expires_at = getattr(principal, "expires_at", None)
    if isinstance(expires_at, int | float) and not isinstance(expires_at, bool):
        return expires_at
    return math.inf


def _called_tools(message: Any) -> list[str]:
    """Return the tools that a message calls, or those of a batch."""
    calls = (
        each.get("params")
        for each in (message if type(message) is list else (message,))
        if type(each) is dict and each.get("method") == "tools/call"
    )
    return [name for params in calls if type(params) is dict and isinstance(name := params.get("name"), str)]


def _protected_resource(auth: object) -> ProtectedResource | None:
    return auth if isinstance(auth, ProtectedResource) else None


def _refusal(exc: AuthError, id: RequestId | None = None) -> Refused:
    status = exc.status if exc.status in (BAD_REQUEST, FORBIDDEN) else UNAUTHORISED
    challenge = exc.challenge or ("Bearer" if status == UNAUTHORISED else "")
    valid = challenge.isascii() and challenge.isprintable()
    headers = ((b"www-authenticate", challenge.encode()),) if challenge and valid else ()
    return Refused(status, exc.message or "missing or invalid credentials", id=id, headers=headers)


def _name_in(form: re.Pattern[str], value: str) -> str:
    """Return the host name in a header value; "" if the value is malformed, which proxies may parse differently."""
    found = form.fullmatch(value.lower())
    return found["name"].strip("[]") if found is not None else ""
