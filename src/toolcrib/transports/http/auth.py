"""Authorisation by other people's providers: anything shaped like `httpx.Auth`, without its HTTP engine and its lock.

A provider is a generator over requests (`async_auth_flow`). It is given our request, yields it when it has set its
headers, and yields further requests (discovery, registration, tokens) for us to send. It is driven in a separate task,
one flow at a time, and the call itself is sent after it: so calls do not wait for each other.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from copy import copy
from typing import Any, NamedTuple

from multidict import CIMultiDict

from ..._util.cancellation import OwnCancellation
from ..._util.futures import retrieve
from ..._util.tasks import TaskSet
from ...config import SecretMask
from ...errors import AuthError, ToolcribError
from ...protocol.sanitize import one_line

FAREWELL = 2.0
"""Seconds that a provider has to end when the connection is closed."""
MOST_REQUESTS = 50
"""Requests that a provider may make before it has authorised one request."""

HttpParts = tuple[int, list[tuple[str, str]], bytes]
Fetch = Callable[[str, str, list[tuple[str, str]], bytes], Awaitable[HttpParts]]
"""Sends one plain request (method, URL, headers, body): its status, headers and body."""


class Outgoing(NamedTuple):
    """Our request as a provider sees it: some sign all of it."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes


class Refusal(NamedTuple):
    """How the server said no: 401, or 403 with a challenge."""

    status: int
    headers: list[tuple[str, str]]


class Authoriser:
    """The headers that a provider puts on our requests."""

    def __init__(
        self,
        provider: Any,
        fetch: Fetch,
        hold: Callable[[], AbstractContextManager[None]],
        secrets: SecretMask,
    ) -> None:
        self._provider = provider
        self._secrets = secrets
        self._fetch = fetch
        self._hold = hold
        self._library = _library_of(provider)
        self._turn = asyncio.Lock()
        self._under_way = TaskSet()
        self._failed: tuple[dict[str, str], dict[str, str] | AuthError] | None = None
        self.rounds = 0
        """How often it was tried to get other credentials."""

    def current(self) -> dict[str, str] | None:
        """The headers of a token that is still valid, if the provider shows it: the fast path, without any lock."""
        context = getattr(self._provider, "context", None)
        if context is None or not callable(getattr(context, "is_token_valid", None)) or not context.is_token_valid():
            return None
        return {"Authorization": f"Bearer {context.current_tokens.access_token}"}

    async def headers(self, request: Outgoing) -> dict[str, str]:
        """What to put on a request. Empty: the provider has nothing."""
        return await self._apart(self._obtain(request))

    async def renewed(self, request: Outgoing, refusal: Refusal, used: dict[str, str], since: int) -> dict[str, str]:
        """Something else than what was `used` and refused; `since` is what `rounds` was when the request was sent."""
        return await self._apart(self._renew(request, refusal, used, since))

    async def _apart(self, work: Coroutine[Any, Any, dict[str, str]]) -> dict[str, str]:
        # In a separate task: a cancelled caller does not end a flow that a person may be in the middle of.
        task = self._under_way.create(work)
        task.add_done_callback(retrieve)
        cancellation = OwnCancellation()
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled() and not cancellation.cancelled_by_others():
                raise AuthError("authorising was given up") from None
            raise

    async def _obtain(self, request: Outgoing) -> dict[str, str]:
        async with self._turn:
            return self.current() or await self._flow(request, None, {})

    async def _renew(self, request: Outgoing, refusal: Refusal, used: dict[str, str], since: int) -> dict[str, str]:
        async with self._turn:
            known = self.current()
            if known is not None and not same_headers(known, used):
                return known  # another call has renewed them
            if self._failed is not None and self._failed[0] == used and self.rounds > since:
                # It failed for another call, after this one was sent: the outcome is the same.
                outcome = self._failed[1]
                if isinstance(outcome, AuthError):
                    raise copy(outcome)
                return outcome
            outcome = await self._tried(request, refusal, used)
            self.rounds += 1
            self._failed = (used, outcome) if isinstance(outcome, AuthError) or outcome in ({}, used) else None
            if isinstance(outcome, AuthError):
                raise outcome
            return outcome

    async def _tried(self, request: Outgoing, refusal: Refusal, used: dict[str, str]) -> dict[str, str] | AuthError:
        try:
            return await self._flow(request, refusal, used)
        except AuthError as exc:
            return exc

    async def _flow(self, request: Outgoing, refusal: Refusal | None, used: dict[str, str]) -> dict[str, str]:
        try:
            return await self._drive(request, refusal, used)
        except ToolcribError:
            raise
        except Exception as exc:  # noqa: BLE001  # a provider is foreign code
            status = refusal.status if refusal is not None else None
            words = one_line(str(exc), mask=self._secrets)
            failure = AuthError(f"authorising failed: {type(exc).__name__}: {words}", status=status)
            failure.__cause__ = None if self._secrets.is_in(str(exc)) else exc
        raise failure  # out here: its context must not hold what its cause must not

    async def _drive(self, outgoing: Outgoing, refusal: Refusal | None, used: Mapping[str, str]) -> dict[str, str]:
        request = self._library.Request(
            outgoing.method, outgoing.url, headers=outgoing.headers, content=outgoing.content
        )
        before = dict(request.headers.items())
        flow: AsyncGenerator[Any, Any] = self._provider.async_auth_flow(request)
        reply: Any = None
        try:
            for _ in range(MOST_REQUESTS):
                # What the provider does between its requests may be waiting for a person.
                with self._hold():
                    out = await (flow.__anext__() if reply is None else flow.asend(reply))
                if out is not request:
                    reply = await self._send(out)
                    continue
                given = {name: value for name, value in request.headers.items() if before.get(name) != value}
                if refusal is None or not same_headers(given, used):
                    return given
                (status, headers), refusal = refusal, None
                reply = self._library.Response(status, headers=headers, content=b"", request=request)
            raise AuthError(f"the provider made {MOST_REQUESTS} requests without an end")
        except StopAsyncIteration:
            return {}  # the provider does not act on this refusal
        finally:
            await flow.aclose()

    async def _send(self, request: Any) -> Any:
        body = await request.aread() if hasattr(request, "aread") else getattr(request, "content", b"")
        headers = [(k, v) for k, v in request.headers.items() if k.lower() not in ("host", "content-length")]
        status, answered, content = await self._fetch(request.method, str(request.url), headers, bytes(body))
        return self._library.Response(status, headers=answered, content=content, request=request)

    async def close(self) -> None:
        """Cancel the flows that run."""
        self._under_way.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=FAREWELL)


def same_headers(some: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return {k.lower(): v for k, v in some.items()} == {k.lower(): v for k, v in other.items()}


def _library_of(provider: Any) -> Any:
    """The library whose requests the provider knows: that of its base class, else one that is loaded, else our own."""
    for base in type(provider).__mro__:
        root = base.__module__.partition(".")[0]
        if root in ("httpx", "httpx2"):
            return sys.modules[root]
    return sys.modules.get("httpx") or sys.modules.get("httpx2") or _Plain


class _PlainRequest:
    """As much of `httpx.Request` as a provider touches that was written without httpx."""

    def __init__(self, method: str, url: str, headers: Any = None, content: bytes = b"") -> None:
        self.method, self.url, self.content = method, url, content
        self.headers: CIMultiDict[str] = CIMultiDict(headers or {})


class _PlainResponse:
    """As much of `httpx.Response`."""

    def __init__(self, status_code: int, *, headers: Any, content: bytes, request: Any) -> None:
        self.status_code, self.content, self.request = status_code, content, request
        self.headers: CIMultiDict[str] = CIMultiDict(headers)

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        return json.loads(self.content)

    async def aread(self) -> bytes:
        return self.content


class _Plain:
    Request = _PlainRequest
    Response = _PlainResponse
