"""What a function may know of the request that it answers, and how it talks back to the client meanwhile.

A tool, resource or prompt gets one by annotating a parameter: `ctx: Context`, or `ctx: SyncContext` for a sync
function, which runs in a thread and waits instead of awaiting.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, TypeVar, Unpack

from pydantic_core import to_jsonable_python

from .._util.cancellation import OwnCancellation
from ..errors import UsageError
from ..protocol.jsonrpc import RequestId
from ..protocol.metadata import LOG_LEVELS, PROGRESS_TOKEN
from ..types import ElicitResult, Root, SamplingResult, Wire
from . import client_requests
from .definition import ServerDefinition
from .functions import worker_threads
from .functions.call_context import CallContext
from .handler import RequestContext

T = TypeVar("T")


class _Facts(CallContext):
    """What is known of the request."""

    __slots__ = ("_request_context", "_server")

    def __init__(self, request_context: RequestContext, server: ServerDefinition | None) -> None:
        self._request_context = request_context
        self._server = server

    @property
    def server(self) -> ServerDefinition | None:
        """The `ToolServer` that the function belongs to: what it defines, without its endpoints."""
        return self._server

    @property
    def request_id(self) -> RequestId | None:
        """The request's id, as the client wrote it; None where there is none, in process."""
        return self._request_context.id

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's `_meta`."""
        return self._request_context.meta

    @property
    def headers(self) -> Mapping[str, str]:
        """Of the HTTP request, names in lower case; elsewhere empty."""
        return self._request_context.headers

    @property
    def client_info(self) -> Mapping[str, Any]:
        """What the client calls itself."""
        return self._request_context.peer.info

    @property
    def client_capabilities(self) -> Mapping[str, Any]:
        """What the client can be asked for."""
        return self._request_context.peer.capabilities

    @property
    def protocol_version(self) -> str:
        """The revision of MCP that this request is spoken in."""
        return self._request_context.peer.version

    @property
    def principal(self) -> Any:
        """Who asks, as the `auth` hook said; None without one."""
        return self._request_context.peer.principal

    @property
    def session_id(self) -> str | None:
        """Of the client's session, where it has one."""
        return self._request_context.peer.session

    @property
    def log_level(self) -> str | None:
        """The least important level of logs that the client wants; None: no logs."""
        return self._request_context.peer.log_level


class Context(_Facts):
    """The request that a function answers: who asks, and the way back to them. It lives as long as the call."""

    __slots__ = ("_cancellation", "_cancelled", "_over", "_progress", "_waiting")

    def __init__(self, request_context: RequestContext, server: ServerDefinition | None = None) -> None:
        super().__init__(request_context, server)
        self._progress = -math.inf
        self._over = False
        self._cancelled = False
        self._cancellation = OwnCancellation()
        self._waiting: set[concurrent.futures.Future[Any]] = set()

    def _for_thread(self) -> SyncContext:
        """Return the form for a function that runs in a thread."""
        return SyncContext(self)

    # ---- telling ---------------------------------------------------------------------------------------------

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """How far it is. Nothing goes out if the client did not ask for it, or if it is no more than what it knows."""
        token = self._request_context.meta.get(PROGRESS_TOKEN)
        if token is None or self._over or not (progress > self._progress and math.isfinite(progress)):
            return
        self._progress = progress
        params: Wire = {PROGRESS_TOKEN: token, "progress": progress}
        if total is not None and math.isfinite(total):
            params["total"] = total
        if message is not None:
            params["message"] = message
        await self._request_context.back_channel.notify("notifications/progress", params)

    async def log(self, level: str, data: Any, *, logger: str | None = None) -> None:
        """A line for the client's log. Nothing goes out if the client wants none, or only more important ones."""
        if level not in LOG_LEVELS:
            raise UsageError(f"there is no log level {level!r}; the levels are {', '.join(LOG_LEVELS)}")
        wanted = self._request_context.peer.log_level
        if wanted not in LOG_LEVELS or self._over or LOG_LEVELS.index(level) < LOG_LEVELS.index(wanted):
            return
        params: Wire = {"level": level, "data": to_jsonable_python(data, fallback=str)}
        name = logger or (self._server.name if self._server is not None else None)
        if name:
            params["logger"] = name
        await self._request_context.back_channel.notify("notifications/message", params)

    async def debug(self, data: Any) -> None:
        """`log("debug", data)`"""
        await self.log("debug", data)

    async def info(self, data: Any) -> None:
        """`log("info", data)`"""
        await self.log("info", data)

    async def warning(self, data: Any) -> None:
        """`log("warning", data)`"""
        await self.log("warning", data)

    async def error(self, data: Any) -> None:
        """`log("error", data)`"""
        await self.log("error", data)

    # ---- asking ----------------------------------------------------------------------------------------------

    async def elicit(self, message: str, schema: Any = None, *, key: str | None = None) -> ElicitResult:
        """Ask the person behind the client to fill in a form.

        `schema` is a JSON schema of a flat object, or a pydantic model, dataclass or TypedDict: then what was accepted
        comes validated as `.data`. Never ask for secrets in a form. `key` names the question where several are asked
        at once; no key, and a name is made.
        """
        form = client_requests.form_of(schema)
        client_requests.need(self.client_capabilities, "elicitation", "form")
        params = {"mode": "form", "message": message, "requestedSchema": form.schema}
        if not self._request_context.peer.modern:
            del params["mode"]  # older revisions know no other, and not this word
        return client_requests.elicited(await self._ask("elicitation/create", params, key), form)

    async def elicit_url(self, message: str, url: str, *, key: str | None = None) -> ElicitResult:
        """Ask the person to visit `url`, for what must not pass through the client.

        "accept" means that they will go there, not that they are done.
        """
        client_requests.need(self.client_capabilities, "elicitation", "url")
        params = client_requests.visit(message, url, modern=self._request_context.peer.modern)
        return client_requests.elicited(await self._ask("elicitation/create", params, key))

    async def sample(
        self,
        messages: str | Iterable[Any],
        *,
        max_tokens: int = 1024,
        system_prompt: str | None = None,
        key: str | None = None,
        **options: Unpack[client_requests.SamplingOptions],
    ) -> SamplingResult:
        """Ask the client's model.

        `messages` is a text, or texts, `PromptMessage`s, blocks and dicts of the wire. Options: `temperature`,
        `stop_sequences`, `model_preferences` (the names of models will do), `metadata`, `include_context`, `tools`,
        `tool_choice`.
        """
        params = client_requests.sampling(messages, max_tokens, system_prompt, options)
        client_requests.need(self.client_capabilities, "sampling", *(["tools"] if "tools" in params else []))
        return SamplingResult.from_wire(await self._ask("sampling/createMessage", params, key))

    async def roots(self, *, key: str | None = None) -> list[Root]:
        """The directories and files that the client works with."""
        client_requests.need(self.client_capabilities, "roots")
        return client_requests.listed_roots(await self._ask("roots/list", {}, key))

    async def _ask(self, method: str, params: Wire, key: str | None) -> Wire:
        if self._over:
            raise UsageError(f"the request is answered already; {method} can only be asked before")
        return await self._request_context.back_channel.ask(method, params, key)

    async def close_stream(self) -> None:
        """Legacy era over HTTP: end the response now; the client comes again for the result. Elsewhere nothing."""
        if not self._over:
            await self._request_context.back_channel.pause()

    # ---- the end ---------------------------------------------------------------------------------------------

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled. In an async function, `CancelledError` is raised as well; a sync function,
        which runs in a thread, has to look here."""
        return self._cancelled or self._cancellation.cancelled_by_others()

    def raise_if_cancelled(self) -> None:
        """Raise `asyncio.CancelledError` if nobody waits for the answer any more."""
        if self.cancelled:
            raise asyncio.CancelledError

    def finish(self, *, cancelled: bool = False) -> None:
        """End the context: what a thread of the call still sends or asks is dropped. Called by the server."""
        self._over = True
        self._cancelled = cancelled
        self._cancellation.take_back()
        for waiting in tuple(self._waiting):
            waiting.cancel()


class SyncContext(_Facts):
    """A `Context` for sync functions: each method waits for its answer, in the function's own thread."""

    __slots__ = ("_context", "_loop")

    _blocking = True

    def __init__(self, context: Context) -> None:
        super().__init__(context._request_context, context._server)  # noqa: SLF001  # its twin for threads
        self._context = context
        self._loop = asyncio.get_running_loop()

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """As `Context.progress`."""
        self._wait(self._context.progress(progress, total, message))

    def log(self, level: str, data: Any, *, logger: str | None = None) -> None:
        """As `Context.log`."""
        self._wait(self._context.log(level, data, logger=logger))

    def debug(self, data: Any) -> None:
        """`log("debug", data)`"""
        self.log("debug", data)

    def info(self, data: Any) -> None:
        """`log("info", data)`"""
        self.log("info", data)

    def warning(self, data: Any) -> None:
        """`log("warning", data)`"""
        self.log("warning", data)

    def error(self, data: Any) -> None:
        """`log("error", data)`"""
        self.log("error", data)

    def elicit(self, message: str, schema: Any = None, *, key: str | None = None) -> ElicitResult:
        """As `Context.elicit`."""
        return self._wait(self._context.elicit(message, schema, key=key))

    def elicit_url(self, message: str, url: str, *, key: str | None = None) -> ElicitResult:
        """As `Context.elicit_url`."""
        return self._wait(self._context.elicit_url(message, url, key=key))

    def sample(
        self,
        messages: str | Iterable[Any],
        *,
        max_tokens: int = 1024,
        system_prompt: str | None = None,
        key: str | None = None,
        **options: Unpack[client_requests.SamplingOptions],
    ) -> SamplingResult:
        """As `Context.sample`."""
        context = self._context
        return self._wait(
            context.sample(messages, max_tokens=max_tokens, system_prompt=system_prompt, key=key, **options)
        )

    def roots(self, *, key: str | None = None) -> list[Root]:
        """As `Context.roots`."""
        return self._wait(self._context.roots(key=key))

    def close_stream(self) -> None:
        """As `Context.close_stream`."""
        self._wait(self._context.close_stream())

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._context.cancelled

    def raise_if_cancelled(self) -> None:
        """Raise `asyncio.CancelledError` if nobody waits for the answer any more."""
        self._context.raise_if_cancelled()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._context.cancelled:
            work.close()
            raise asyncio.CancelledError
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop is closed: nobody is there to hear of it
            work.close()
            raise asyncio.CancelledError from None
        waiting = self._context._waiting  # noqa: SLF001  # its twin, which cancels them when the call ends
        waiting.add(future)
        try:
            # The call may have ended between the look above and the entry in the book.
            if self.cancelled:
                future.cancel()
            with worker_threads.waiting():
                return future.result()
        except concurrent.futures.CancelledError:
            raise asyncio.CancelledError from None
        finally:
            waiting.discard(future)
