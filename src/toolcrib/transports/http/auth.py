"""Authorisation by providers with the interface of `httpx.Auth`, without httpx as the HTTP client.

A provider is a generator over requests (`async_auth_flow`). It receives the client's request, yields it when it has set
its headers, and yields further requests (discovery, registration, tokens) for the client to send. It runs in a separate
task, one flow at a time, and the call itself is sent afterwards, so calls do not wait for each other.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from copy import copy
from typing import Any

from multidict import CIMultiDict

from ..._util.cancellation import OwnCancellation
from ..._util.futures import retrieve
from ..._util.tasks import TaskSet
from ...config import SecretMask
from ...errors import AuthError, ToolcribError
from ...oauth.http import Fetch
from ...oauth.request_authorizer import Outgoing, Refusal
from ...protocol.sanitize import one_line

CLOSE_SECONDS = 2.0
"""Seconds for the flows of a provider to end when the connection is closed."""
MAX_REQUESTS = 50
"""Maximum number of requests that a provider may make to authorise one request."""


class ForeignAuthorizer:
    """A `RequestAuthorizer` for providers with the interface of `httpx.Auth`."""

    max_renewals = 1

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
        self._tasks = TaskSet()
        self._failed: tuple[dict[str, str], dict[str, str] | AuthError] | None = None
        self._requests = 0
        """Number of requests to the authorisation server that are not answered."""
        self.rounds = 0
        """Number of attempts to renew the credentials."""

    def current(self, method: str = "", url: str = "", *, renew: bool = True) -> dict[str, str] | None:  # noqa: ARG002
        """Return the headers for a token that is still valid, without a lock; None if the provider shows none."""
        context = getattr(self._provider, "context", None)
        if context is None or not callable(getattr(context, "is_token_valid", None)) or not context.is_token_valid():
            return None
        return {"Authorization": f"Bearer {context.current_tokens.access_token}"}

    async def headers(self, request: Outgoing) -> dict[str, str]:
        """Return the headers to add to a request; empty if the provider adds none."""
        return await self._run_in_task(self._obtain(request))

    async def renew(
        self, request: Outgoing, refusal: Refusal, used: Mapping[str, str], since: int, attempt: int
    ) -> dict[str, str]:
        """Return other headers than `used`, which the server rejected.

        `since` is the value of `rounds` when the request was sent.
        """
        del attempt  # each provider decides itself
        return await self._run_in_task(self._renew(request, refusal, dict(used), since))

    async def _run_in_task(self, work: Coroutine[Any, Any, dict[str, str]]) -> dict[str, str]:
        # In a separate task: a cancelled caller must not end a flow in which a person may be logging in.
        task = self._tasks.create(work)
        task.add_done_callback(retrieve)
        cancellation = OwnCancellation()
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled() and not cancellation.cancelled_by_others():
                raise AuthError("authorisation was cancelled") from None
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
                # Renewing failed for another call, after this one was sent: the outcome is the same.
                outcome = self._failed[1]
                if isinstance(outcome, AuthError):
                    raise copy(outcome)
                return outcome
            outcome = await self._try_flow(request, refusal, used)
            self.rounds += 1
            self._failed = (used, outcome) if isinstance(outcome, AuthError) or outcome in ({}, used) else None
            if isinstance(outcome, AuthError):
                raise outcome
            return outcome

    async def _try_flow(self, request: Outgoing, refusal: Refusal, used: dict[str, str]) -> dict[str, str] | AuthError:
        try:
            return await self._flow(request, refusal, used)
        except AuthError as exc:
            return exc

    async def _flow(self, request: Outgoing, refusal: Refusal | None, used: dict[str, str]) -> dict[str, str]:
        try:
            return await self._drive(request, refusal, used)
        except ToolcribError:
            raise
        except Exception as exc:  # noqa: BLE001  # a provider may raise anything
            status = refusal.status if refusal is not None else None
            words = one_line(str(exc), mask=self._secrets)
            failure = AuthError(f"authorisation failed: {type(exc).__name__}: {words}", status=status)
            failure.__cause__ = None if self._secrets.is_in(str(exc)) else exc
        raise failure  # outside the handler, so that `exc`, which may contain secrets, is not its context

    async def _drive(self, outgoing: Outgoing, refusal: Refusal | None, used: Mapping[str, str]) -> dict[str, str]:
        request = self._library.Request(
            outgoing.method, outgoing.url, headers=outgoing.headers, content=outgoing.content
        )
        before = dict(request.headers.items())
        flow: AsyncGenerator[Any, Any] = self._provider.async_auth_flow(request)
        reply: Any = None
        try:
            for _ in range(MAX_REQUESTS):
                # Between its requests the provider may wait for a person.
                with self._hold():
                    out = await (flow.__anext__() if reply is None else flow.asend(reply))
                if out is not request:
                    reply = await self._send(out)
                    continue
                given = {name: value for name, value in request.headers.items() if before.get(name) != value}
                if refusal is None or not same_headers(given, used):
                    return given
                reply = self._library.Response(refusal.status, headers=refusal.headers, content=b"", request=request)
                refusal = None
            raise AuthError(f"the auth provider made {MAX_REQUESTS} requests without authorising the call")
        except StopAsyncIteration:
            return {}  # the provider does not handle this rejection
        finally:
            await flow.aclose()

    async def _send(self, request: Any) -> Any:
        body = await request.aread() if hasattr(request, "aread") else getattr(request, "content", b"")
        headers = [(k, v) for k, v in request.headers.items() if k.lower() not in ("host", "content-length")]
        self._requests += 1
        try:
            status, answered, content = await self._fetch(request.method, str(request.url), headers, bytes(body))
        finally:
            self._requests -= 1
        return self._library.Response(status, headers=answered, content=content, request=request)

    async def close(self) -> None:
        """Cancel the running flows, after the requests that were sent: an answer may have a new refresh token."""
        if self._requests:
            await asyncio.wait(set(self._tasks), timeout=CLOSE_SECONDS)
        self._tasks.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)


def same_headers(some: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return {k.lower(): v for k, v in some.items()} == {k.lower(): v for k, v in other.items()}


def _library_of(provider: Any) -> Any:
    """Return the library whose request type the provider expects.

    That of its base class, else a loaded one, else the minimal types below.
    """
    for base in type(provider).__mro__:
        root = base.__module__.partition(".")[0]
        if root in ("httpx", "httpx2"):
            return sys.modules[root]
    return sys.modules.get("httpx") or sys.modules.get("httpx2") or _Plain


class _PlainRequest:
    """The part of `httpx.Request` that a provider needs, for providers that do not use httpx."""

    def __init__(self, method: str, url: str, headers: Any = None, content: bytes = b"") -> None:
        self.method, self.url, self.content = method, url, content
        self.headers: CIMultiDict[str] = CIMultiDict(headers or {})


class _PlainResponse:
    """The part of `httpx.Response` that a provider needs."""

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
