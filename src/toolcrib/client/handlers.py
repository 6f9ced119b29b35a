"""Handlers for the requests of a server: sampling, elicitation, roots. Both eras use the same answers."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any, Final

from .._util.threads import in_daemon_thread, is_async
from ..errors import RemoteError
from ..protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from ..protocol.sanitize import one_line
from ..types import ElicitRequest, ElicitResult, SamplingRequest, Wire

log = logging.getLogger("toolcrib.client")

SamplingHandler = Callable[[SamplingRequest], Awaitable[str | Wire] | str | Wire]
"""Returns the model's answer: a string, or the whole `CreateMessageResult` as a dict."""

ElicitationHandler = Callable[
    [ElicitRequest], Awaitable[ElicitResult | Wire | bool | None] | ElicitResult | Wire | bool | None
]
"""Returns the person's answer: an `ElicitResult`, a dict (accepted with this content), True or False (accepted or
declined), None (cancelled)."""

Root = str | os.PathLike[str] | Wire
Roots = Iterable[Root] | Callable[[], Awaitable[Iterable[Root]] | Iterable[Root]]
"""Paths or URIs, or a callable that returns them when the server requests them."""

ASKS_A_PERSON = frozenset({"sampling/createMessage", "elicitation/create"})
"""Requests that may wait for a person or a model; the deadlines of calls pause meanwhile."""


MAX_HANDLER_THREADS: Final = 64
"""Maximum number of threads for sync handlers. A thread cannot be stopped, even if the server cancels its request."""


class HandlerFailed(RemoteError):
    """A handler of the client failed. A legacy server gets it as the answer; with a modern one the call raises it."""


@dataclass(slots=True, eq=False)
class Handlers:
    """The handlers that the client's user provides. The client declares only capabilities that have one."""

    sampling: SamplingHandler | None = None
    elicitation: ElicitationHandler | None = None
    elicitation_modes: tuple[str, ...] = ("form",)
    roots: Roots | None = None
    open_requests: int = 0
    """Requests of the server that are being answered right now."""
    _threads: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(MAX_HANDLER_THREADS))

    def capabilities(self, extensions: Sequence[str] = ()) -> Wire:
        """Return the capabilities that the client declares to the server, with these protocol extensions."""
        declared: Wire = {}
        if self.sampling is not None:
            declared["sampling"] = {}
        if self.elicitation is not None:
            declared["elicitation"] = {mode: {} for mode in self.elicitation_modes}
        if self.roots is not None:
            declared["roots"] = {}
        if extensions:
            declared["extensions"] = {name: {} for name in extensions}
        return declared

    async def answer(self, method: str, params: Wire) -> Wire:
        """Return the result for the server's request; raise `RemoteError` to reject it."""
        if method == "ping":
            return {}
        self.open_requests += 1
        try:
            return await self._answer(method, params)
        finally:
            self.open_requests -= 1

    async def _answer(self, method: str, params: Wire) -> Wire:
        if method == "sampling/createMessage" and self.sampling is not None:
            return _sampling_result(await self._call(self.sampling, SamplingRequest.from_wire(params)))
        if method == "elicitation/create" and self.elicitation is not None:
            request = ElicitRequest.from_wire(params)
            if request.mode not in self.elicitation_modes:
                raise RemoteError(INVALID_PARAMS, f"elicitation mode {one_line(str(request.mode))!r} was not declared")
            return _elicitation_result(await self._call(self.elicitation, request))
        if method == "roots/list" and self.roots is not None:
            return {"roots": await self._call(self._list_roots, self.roots)}
        raise RemoteError(METHOD_NOT_FOUND, f"{one_line(method)} is not offered by this client")

    async def _call(self, handler: Callable[..., Any], *args: Any) -> Any:
        """Call a handler. One that is not async runs in a thread, because it may block until a person answers."""
        try:
            outcome = handler(*args) if is_async(handler) else await self._in_thread(lambda: handler(*args))
            return await outcome if inspect.isawaitable(outcome) else outcome
        except RemoteError:
            raise
        except Exception as exc:
            log.exception("a handler raised")
            raise HandlerFailed(INTERNAL_ERROR, f"{type(exc).__name__} in the client's handler") from exc

    def _in_thread(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        threads = self._threads
        if not threads.acquire(blocking=False):
            raise RemoteError(INTERNAL_ERROR, "too many requests at once")

        def run() -> Any:
            try:
                return work()
            finally:
                threads.release()

        return in_daemon_thread(run)

    async def _list_roots(self, roots: Roots) -> list[Wire]:
        given = await self._call(roots) if callable(roots) else roots
        return [_root(root) for root in given]


def _sampling_result(answer: Any) -> Wire:
    if isinstance(answer, str):
        return {
            "role": "assistant",
            "content": {"type": "text", "text": answer},
            "model": "unknown",
            "stopReason": "endTurn",
        }
    if isinstance(answer, Mapping):
        return dict(answer)
    kind = type(answer).__name__
    raise HandlerFailed(INTERNAL_ERROR, f"sampling handler: expected a string or a result, got {kind}")


def _elicitation_result(answer: Any) -> Wire:
    if isinstance(answer, ElicitResult):
        return answer.to_wire()
    if answer is None:
        return {"action": "cancel"}
    if isinstance(answer, bool):
        return {"action": "accept" if answer else "decline"}
    if isinstance(answer, Mapping):
        if answer.get("action") in ("accept", "decline", "cancel") and answer.keys() <= {"action", "content", "_meta"}:
            return dict(answer)  # a result as it is sent
        return {"action": "accept", "content": dict(answer)}
    kind = type(answer).__name__
    raise HandlerFailed(INTERNAL_ERROR, f"elicitation handler: expected ElicitResult, dict, bool or None, got {kind}")


def _root(root: Root) -> Wire:
    if isinstance(root, Mapping):
        return dict(root)
    if isinstance(root, str) and "://" in root:
        return {"uri": root}
    path = Path(root).absolute()
    return {"uri": path.as_uri(), "name": path.name}
