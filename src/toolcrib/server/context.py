"""The context of a request: what a function can know about it, and how it can contact the client meanwhile.

A tool, resource or prompt gets a context by annotating a parameter: `ctx: Context`, or `ctx: SyncContext` for a sync
function, which runs in a thread and blocks instead of awaiting.
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


class _RequestInfo(CallContext):
    """The properties of the request."""

    __slots__ = ("_request_context", "_server")

    def __init__(self, request_context: RequestContext, server: ServerDefinition | None) -> None:
        self._request_context = request_context
        self._server = server

    @property
    def server(self) -> ServerDefinition | None:
        """The `ToolServer` that the function belongs to, without its endpoints."""
        return self._server

    @property
    def request_id(self) -> RequestId | None:
        """The id of the request; None if it has none."""
        return self._request_context.id

    @property
    def meta(self) -> Mapping[str, Any]:
        """The `_meta` of the request."""
        return self._request_context.meta

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the HTTP request, names in lower case; empty on other transports."""
        return self._request_context.headers

    @property
    def client_info(self) -> Mapping[str, Any]:
        """The name and version of the client, as it declared them."""
        return self._request_context.peer.info

    @property
    def client_capabilities(self) -> Mapping[str, Any]:
        """The capabilities that the client declared, such as `elicitation` and `sampling`."""
        return self._request_context.peer.capabilities

    @property
    def protocol_version(self) -> str:
        """The MCP protocol version of this request."""
        return self._request_context.peer.version

    @property
    def principal(self) -> Any:
        """The principal that the `auth` hook returned; None without such a hook."""
        return self._request_context.peer.principal

    @property
    def session_id(self) -> str | None:
        """The id of the client's session; None without a session."""
        return self._request_context.peer.session

    @property
    def log_level(self) -> str | None:
        """The minimum level of log messages that the client wants; None: no log messages."""
        return self._request_context.peer.log_level


class Context(_RequestInfo):
    """The request that a function answers: its properties, and the methods to contact the client during the call."""

    __slots__ = ("_cancellation", "_cancelled", "_over", "_progress", "_waiting")

    def __init__(self, request_context: RequestContext, server: ServerDefinition | None = None) -> None:
        super().__init__(request_context, server)
        self._progress = -math.inf
        self._over = False
        self._cancelled = False
        self._cancellation = OwnCancellation()
        self._waiting: set[concurrent.futures.Future[Any]] = set()

    def _for_thread(self) -> SyncContext:
        """Return the context for a sync function, which runs in a thread."""
        return SyncContext(self)

    # ---- notifications ---------------------------------------------------------------------------------------

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress. Sends nothing if the client did not ask for it, or if `progress` has not increased."""
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
        """Send a log message to the client. Sends nothing if the client wants none of this level."""
        if level not in LOG_LEVELS:
            raise UsageError(f"level: expected one of {', '.join(LOG_LEVELS)}, got {level!r}")
        wanted = self._request_context.peer.log_level
        if wanted not in LOG_LEVELS or self._over or LOG_LEVELS.index(level) < LOG_LEVELS.index(wanted):
            return
        params: Wire = {"level": level, "data": to_jsonable_python(data, fallback=str)}
        name = logger or (self._server.name if self._server is not None else None)
        if name:
            params["logger"] = name
        await self._request_context.back_channel.notify("notifications/message", params)

    async def debug(self, data: Any) -> None:
        """Send a log message with the level "debug"."""
        await self.log("debug", data)

    async def info(self, data: Any) -> None:
        """Send a log message with the level "info"."""
        await self.log("info", data)

    async def warning(self, data: Any) -> None:
        """Send a log message with the level "warning"."""
        await self.log("warning", data)

    async def error(self, data: Any) -> None:
        """Send a log message with the level "error"."""
        await self.log("error", data)

    # ---- requests to the client ------------------------------------------------------------------------------

    async def elicit(self, message: str, schema: Any = None, *, key: str | None = None) -> ElicitResult:
        """Ask the user of the client to fill in a form.

        `schema` is a JSON schema of a flat object, or a pydantic model, dataclass or TypedDict; with a type, `.data`
        of the result is a validated instance of it. Never ask for secrets in a form. `key` names the request if
        several are sent at once; by default a name is generated.
        """
        form = client_requests.form_of(schema)
        client_requests.need(self.client_capabilities, "elicitation", "form")
        params = {"mode": "form", "message": message, "requestedSchema": form.schema}
        if not self._request_context.peer.modern:
            del params["mode"]  # legacy clients assume a form, and may not know the field
        return client_requests.parse_elicitation(await self._ask("elicitation/create", params, key), form)

    async def elicit_url(self, message: str, url: str, *, key: str | None = None) -> ElicitResult:
        """Ask the user to visit `url`, for data that must not pass through the client.

        The action "accept" means that the user agreed to visit it, not that they have finished there.
        """
        client_requests.need(self.client_capabilities, "elicitation", "url")
        params = client_requests.visit(message, url, modern=self._request_context.peer.modern)
        return client_requests.parse_elicitation(await self._ask("elicitation/create", params, key))

    async def sample(
        self,
        messages: str | Iterable[Any],
        *,
        max_tokens: int = 1024,
        system_prompt: str | None = None,
        key: str | None = None,
        **options: Unpack[client_requests.SamplingOptions],
    ) -> SamplingResult:
        """Request a completion from the client's model.

        `messages` is a string, or an iterable of strings, `PromptMessage`s, content blocks and dicts in the form of
        the protocol. Options: `temperature`, `stop_sequences`, `model_preferences` (names of models are enough),
        `metadata`, `include_context`, `tools`, `tool_choice`.
        """
        params = client_requests.sampling(messages, max_tokens, system_prompt, options)
        client_requests.need(self.client_capabilities, "sampling", *(["tools"] if "tools" in params else []))
        return SamplingResult.from_wire(await self._ask("sampling/createMessage", params, key))

    async def roots(self, *, key: str | None = None) -> list[Root]:
        """Return the directories and files that the client works with."""
        client_requests.need(self.client_capabilities, "roots")
        return client_requests.parse_roots(await self._ask("roots/list", {}, key))

    async def _ask(self, method: str, params: Wire, key: str | None) -> Wire:
        if self._over:
            raise UsageError(f"{method}: the request has been answered already; call this before the function returns")
        return await self._request_context.back_channel.ask(method, params, key)

    async def close_stream(self) -> None:
        """End the HTTP response now; the client reconnects for the result. Only for legacy clients over HTTP."""
        if not self._over:
            await self._request_context.back_channel.pause()

    # ---- the end ---------------------------------------------------------------------------------------------

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled. An async function also gets a `CancelledError`; a sync function, which runs
        in a thread, has to check this property."""
        return self._cancelled or self._cancellation.cancelled_by_others()

    def raise_if_cancelled(self) -> None:
        """Raise `asyncio.CancelledError` if the call was cancelled."""
        if self.cancelled:
            raise asyncio.CancelledError

    def finish(self, *, cancelled: bool = False) -> None:
        """End the context. Later notifications are dropped, and waiting threads are cancelled. Called by the server."""
        self._over = True
        self._cancelled = cancelled
        self._cancellation.take_back()
        for waiting in tuple(self._waiting):
            waiting.cancel()


class SyncContext(_RequestInfo):
    """A `Context` for sync functions: its methods block the function's thread until they have finished."""

    __slots__ = ("_context", "_loop")

    _blocking = True

    def __init__(self, context: Context) -> None:
        super().__init__(context._request_context, context._server)  # noqa: SLF001  # its twin for threads
        self._context = context
        self._loop = asyncio.get_running_loop()

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress; see `Context.progress`."""
        self._wait(self._context.progress(progress, total, message))

    def log(self, level: str, data: Any, *, logger: str | None = None) -> None:
        """Send a log message to the client; see `Context.log`."""
        self._wait(self._context.log(level, data, logger=logger))

    def debug(self, data: Any) -> None:
        """Send a log message with the level "debug"."""
        self.log("debug", data)

    def info(self, data: Any) -> None:
        """Send a log message with the level "info"."""
        self.log("info", data)

    def warning(self, data: Any) -> None:
        """Send a log message with the level "warning"."""
        self.log("warning", data)

    def error(self, data: Any) -> None:
        """Send a log message with the level "error"."""
        self.log("error", data)

    def elicit(self, message: str, schema: Any = None, *, key: str | None = None) -> ElicitResult:
        """Ask the user of the client to fill in a form; see `Context.elicit`."""
        return self._wait(self._context.elicit(message, schema, key=key))

    def elicit_url(self, message: str, url: str, *, key: str | None = None) -> ElicitResult:
        """Ask the user to visit `url`; see `Context.elicit_url`."""
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
        """Request a completion from the client's model; see `Context.sample`."""
        context = self._context
        return self._wait(
            context.sample(messages, max_tokens=max_tokens, system_prompt=system_prompt, key=key, **options)
        )

    def roots(self, *, key: str | None = None) -> list[Root]:
        """Return the directories and files that the client works with."""
        return self._wait(self._context.roots(key=key))

    def close_stream(self) -> None:
        """End the HTTP response now; see `Context.close_stream`."""
        self._wait(self._context.close_stream())

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled."""
        return self._context.cancelled

    def raise_if_cancelled(self) -> None:
        """Raise `asyncio.CancelledError` if the call was cancelled."""
        self._context.raise_if_cancelled()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._context.cancelled:
            work.close()
            raise asyncio.CancelledError
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the event loop is closed
            work.close()
            raise asyncio.CancelledError from None
        waiting = self._context._waiting  # noqa: SLF001  # its twin, which cancels them when the call ends
        waiting.add(future)
        try:
            # The call may have ended between the check above and the registration of the future.
            if self.cancelled:
                future.cancel()
            with worker_threads.waiting():
                return future.result()
        except concurrent.futures.CancelledError:
            raise asyncio.CancelledError from None
        finally:
            waiting.discard(future)
