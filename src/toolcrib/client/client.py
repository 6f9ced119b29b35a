"""The client of one server: its public methods."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, Unpack

from .._util.async_only import AsyncOnly
from .._util.locks import running_loop
from .._version import __version__
from ..errors import ConfigError, ConnectionLost, RemoteError, ResourceNotFound, ToolcribError, UsageError
from ..events import Event, Listeners
from ..policy.retry import is_repeatable
from ..protocol import jsonrpc
from ..protocol.sanitize import one_line
from ..protocol.versions import RESOURCE_NOT_FOUND
from ..transports.channel import CallTrace, Counters, ProgressHandler, RequestOptions
from ..transports.factory import ServerLike, mask_for, older_way, open_channel, target_of, uses_streamable_http
from ..types import (
    UNSET,
    Completion,
    ConnectionStatus,
    GetPromptResult,
    Prompt,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ServerInfo,
    Tool,
    ToolResult,
    Unset,
    Wire,
)
from .connector import Way
from .handlers import Handlers
from .listing import PROMPTS, RESOURCES, TEMPLATES, TOOLS, ListCache, Lister, ListOf, Use
from .negotiation import Identity
from .notifications import NotificationRouter
from .options import ClientOptions, check_server_given, checked_timeout, resolve
from .request_executor import RequestExecutor
from .session import Session
from .subscriptions import ChangeFeed, Changes, Subscriptions
from .supervisor import StartGate, Supervisor
from .telemetry import tracing
from .tool_calls import ToolCaller

if TYPE_CHECKING:
    from ..transports.http.address_guard import AddressRules  # aiohttp is slow to import

E = TypeVar("E", bound=Event)
T = TypeVar("T")
Timeout = float | None | Unset


class Client(AsyncOnly):
    """A client for one MCP server.

    `server` is a `StdioServer`, `HttpServer`, `SseServer` or `PythonServer`, a URL, a `ToolServer`, or a callable that
    opens a transport. Use it as `async with Client(server) as c:`. Without `with`, the first call connects, and
    the caller must call `close()`. The options are those of `ClientOptions`.
    """

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Check that a server is given, with a clearer message than Python's own."""
        check_server_given(args, options)
        return super().__new__(cls)

    def __init__(
        self,
        server: ServerLike,
        *,
        _start_gate: StartGate | None = None,
        _keep_trying: bool = False,
        _address_policy: AddressRules | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        target = target_of(server)
        if getattr(target, "lifecycle", None) == "transient":
            raise ConfigError(
                "lifecycle: expected 'singleton', got 'transient': a Client keeps one connection. Use a Hub, or remove "
                "lifecycle",
                key="lifecycle",
                expected="singleton",
            )
        identifier = str(getattr(target, "server_identifier", None) or getattr(target, "name", None) or "custom")
        self._settings = settings = resolve(target, identifier, options)
        self._listeners = Listeners()
        handlers = Handlers(
            settings.sampling_handler, settings.elicitation_handler, settings.elicitation_modes, settings.roots
        )
        older = older_way(target)
        ways: list[Way] = [
            partial(
                open_channel,
                way,
                on_stderr=settings.stderr_handler,
                auth=self._observed_auth(settings.auth),
                address_policy=_address_policy,
            )
            for way in ([target] if older is None else [target, older])
        ]
        self._supervisor = Supervisor(
            ways,
            settings,
            identity=Identity(
                {"name": "toolcrib", "version": __version__},
                handlers.capabilities(getattr(settings.auth, "extensions", ())),
                settings.wanted_log_level,
            ),
            handlers=handlers,
            listeners=self._listeners,
            start_gate=_start_gate,
            keep_trying=_keep_trying,
        )
        self._executor = RequestExecutor(self._supervisor, handlers)
        self._lister = Lister(self._executor, ListCache(identifier))
        self._caller = ToolCaller(
            settings, self._supervisor, self._executor, self._lister, self._listeners, uses_streamable_http(target)
        )
        self._feed = ChangeFeed(self._lister, self._listeners, settings.name)
        self._subscriptions = Subscriptions(self._supervisor, self._executor, self._feed, settings.discovery_timeout)
        self._supervisor.add_observer(
            NotificationRouter(settings, self._lister, self._subscriptions, self._feed, mask_for(target))
        )

    def _observed_auth(self, auth: Any) -> Any:
        """Return the provider with events about sign-ins; providers of other libraries have none."""
        if not hasattr(auth, "for_client"):
            return auth
        note = lambda issuer: self._supervisor.note_sign_in(issuer)  # noqa: E731, PLW0108  # it is created later
        return auth.for_client(note, allow_legacy=self._settings.mode in ("auto", "legacy"))

    # ---- the connection --------------------------------------------------------------------------------------

    async def connect(self) -> Client:
        """Connect now, unless there is a connection already."""
        await self._supervisor.connect()
        return self

    async def disconnect(self) -> None:
        """Close the connection; the next call connects again."""
        await self._supervisor.disconnect()

    async def close(self) -> None:
        """Close the client for good. Calls in progress fail, and the server's process is ended."""
        self._supervisor.check_loop()
        try:
            await self._supervisor.close()
        finally:
            self._feed.end()

    async def __aenter__(self) -> Client:
        try:
            return await self.connect()
        except BaseException:
            # `__aexit__` is not called if entering fails, and the attempt would continue in the background.
            await self._supervisor.disconnect()
            raise

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def name(self) -> str:
        """The name of the server in errors, events and logs."""
        return self._settings.name

    @property
    def connected(self) -> bool:
        """Whether there is a live connection right now."""
        return self._supervisor.session is not None

    @property
    def status(self) -> ConnectionStatus:
        """The state of the connection, why, and since when."""
        return self._supervisor.status

    @property
    def server_info(self) -> ServerInfo | None:
        """Name, version, capabilities and instructions of the connected server; None if not connected."""
        session = self._supervisor.session
        return session.agreement.server if session is not None else None

    @property
    def session(self) -> Session:
        """The live session; raises `ConnectionLost` while there is none.

        It belongs to one connection: after a reconnect this property returns another object.
        """
        session = self._supervisor.session
        if session is None:
            raise ConnectionLost("not connected; call connect() first", server=self.name)
        return session

    @property
    def counters(self) -> Counters:
        """Counts of the messages that the server has sent so far, also of malformed ones."""
        return self._supervisor.counters

    def on(self, event: type[E], listener: Callable[[E], Awaitable[None] | None]) -> Callable[[], None]:
        """Call `listener`, sync or async, with every such event. Returns a function that removes the listener."""
        return self._listeners.on(event, listener)

    # ---- tools -----------------------------------------------------------------------------------------------

    async def list_tools(self, *, use_cache: bool | None = None, timeout: Timeout = UNSET) -> list[Tool]:
        """Return the tools that the filter allows.

        `use_cache`: True uses the cached list if there is one, False always requests it from the server, None follows
        `cache_tools_list` and, without it, the server's own cache hints.
        """
        default = Use.ALWAYS if self._settings.cache_tools_list else Use.HINTED
        tools = await self._list(TOOLS, use_cache, timeout, default)
        return tools if self._settings.tool_filter is None else [tool for tool in tools if self._caller.allowed(tool)]

    def peek_tools(self) -> list[Tool] | None:
        """Return the last list of tools; None if there is none, or if the server has announced a change since."""
        self._supervisor.check_loop()
        if self._supervisor.closed:
            raise UsageError(f"the client for {self.name} is closed; make a new one")
        if not self._lister.complete:
            return None
        return [tool for tool in self._lister.tools.values() if self._caller.allowed(tool)]

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = UNSET,
        idle_timeout: Timeout = UNSET,
        on_progress: ProgressHandler | None = None,
        meta: Mapping[str, Any] | None = None,
        retry_safe: bool | None = None,
        _trace: CallTrace | None = None,
    ) -> ToolResult:
        """Call a tool and return its result, or raise one typed error.

        A failure that the tool reports is a result with `is_error=True`, not an exception. `timeout` covers waiting,
        connecting, retries and the execution; `idle_timeout` is the longest time without a message. `retry_safe=True`
        says that this call may run twice without harm.
        """
        settings = self._settings
        options = RequestOptions(
            self._deadline(timeout),
            settings.idle_timeout if idle_timeout is UNSET else checked_timeout("idle_timeout", idle_timeout),
            on_progress or settings.progress_handler,
            trace=_trace,
        )
        calls = self._caller
        try:
            if settings.tool_filter is not None:
                await calls.check_filter(name, options.deadline)
            params, repeatable = calls.prepare(name, arguments, meta, retry_safe)
            run = calls.execute_observed if self._listeners.observe_calls or tracing() else calls.execute
            return await run(name, params, options, repeatable)
        except ToolcribError as exc:
            exc.server, exc.tool = exc.server or settings.name, exc.tool or name
            raise

    # ---- resources and prompts -------------------------------------------------------------------------------

    async def list_resources(self, *, use_cache: bool | None = None, timeout: Timeout = UNSET) -> list[Resource]:
        """Return the resources that the server lists."""
        return await self._list(RESOURCES, use_cache, timeout)

    async def list_resource_templates(
        self, *, use_cache: bool | None = None, timeout: Timeout = UNSET
    ) -> list[ResourceTemplate]:
        """Return the resource templates that the server lists."""
        return await self._list(TEMPLATES, use_cache, timeout)

    async def read_resource(self, uri: str, *, timeout: Timeout = UNSET) -> ReadResourceResult:
        """Read a resource; raises `ResourceNotFound` if the server does not have it."""
        try:
            raw = await self.request("resources/read", {"uri": uri}, timeout=timeout)
        except RemoteError as exc:
            if exc.code in RESOURCE_NOT_FOUND:
                raise ResourceNotFound(
                    f"resource not found: {uri!r} ({one_line(exc.message)})", server=self.name, uri=uri, sent=True
                ) from exc
            raise
        return ReadResourceResult.from_wire(raw)

    async def list_prompts(self, *, use_cache: bool | None = None, timeout: Timeout = UNSET) -> list[Prompt]:
        """Return the prompts that the server lists."""
        return await self._list(PROMPTS, use_cache, timeout)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, timeout: Timeout = UNSET
    ) -> GetPromptResult:
        """Return a prompt filled in with these arguments. They are sent as strings; other values are sent as JSON."""
        texts = {
            key: value if isinstance(value, str) else jsonrpc.encode(value).decode()
            for key, value in (arguments or {}).items()
        }
        params: Wire = {"name": name, "arguments": texts} if texts else {"name": name}
        return GetPromptResult.from_wire(name, texts, await self.request("prompts/get", params, timeout=timeout))

    async def complete(
        self,
        ref: str | Prompt | ResourceTemplate | Mapping[str, Any],
        argument: str,
        value: str = "",
        *,
        context: Mapping[str, str] | None = None,
        timeout: Timeout = UNSET,
    ) -> Completion:
        """Return suggestions for an argument of a prompt (name or `Prompt`) or of a template (URI or
        `ResourceTemplate`).

        `context` holds the arguments already filled in. For a server without completions the result is empty.
        """
        options = RequestOptions(self._deadline(timeout))
        session = await self._executor.reach(options.deadline)
        if "completions" not in session.agreement.server.capabilities:
            return Completion()
        params: Wire = {"ref": _reference(ref), "argument": {"name": argument, "value": value}}
        if context:
            params["context"] = {"arguments": dict(context)}
        answer = await self._executor.request("completion/complete", params, options=options, repeatable=True)
        return Completion.from_wire(answer)

    # ---- changes ---------------------------------------------------------------------------------------------

    async def subscribe(self, uri: str) -> None:
        """Subscribe to changes of this resource; receive them with `listen`."""
        await self._subscriptions.subscribe(uri)

    async def unsubscribe(self, uri: str) -> None:
        """Undo one `subscribe`."""
        await self._subscriptions.unsubscribe(uri)

    def listen(self, *uris: str, tools: bool = True, prompts: bool = True, resources: bool = True) -> Changes:
        """Return a stream of the changes of the server's lists, and of the resources at `uris`.

        `async with client.listen("file:///a") as changes: async for change in changes: ...`
        """
        wanted = {"tools": tools, "prompts": prompts, "resources": resources}
        return Changes(self._subscriptions, frozenset(kind for kind, yes in wanted.items() if yes), uris)

    # ---- raw -------------------------------------------------------------------------------------------------

    async def ping(self, *, timeout: Timeout = UNSET) -> float:
        """Ping the server and return the seconds until its answer."""
        clock = running_loop().time
        options = RequestOptions(self._deadline(timeout))
        session = await self._executor.reach(options.deadline)
        began = clock()
        await self._executor.request(session.agreement.era.health_method, options=options, repeatable=True)
        return clock() - began

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = UNSET,
        idle_timeout: float | None = None,
        on_progress: ProgressHandler | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Wire:
        """Send any request and return its raw result. `headers` are added over HTTP."""
        idle = checked_timeout("idle_timeout", idle_timeout)
        options = RequestOptions(self._deadline(timeout), idle, on_progress, headers=headers)
        copy = dict(params) if params is not None else None
        return await self._executor.request(method, copy, options=options, repeatable=is_repeatable(method))

    # ---- helpers ---------------------------------------------------------------------------------------------

    async def _list(
        self, of: ListOf[T], use_cache: bool | None, timeout: Timeout, default: Use = Use.HINTED
    ) -> list[T]:
        use = default if use_cache is None else Use.ALWAYS if use_cache else Use.NEVER
        given = self._settings.discovery_timeout if timeout is UNSET else timeout
        return await self._lister.fetch(of, use, self._deadline(given))

    def _deadline(self, timeout: Timeout) -> float | None:
        seconds = self._settings.execution_timeout if timeout is UNSET else checked_timeout("timeout", timeout)
        if seconds is None:
            return None
        # Looking up the running loop costs a system call on some Python versions; the executor checks it later.
        return (self._supervisor.loop or running_loop()).time() + seconds

    def __repr__(self) -> str:
        return f"<Client {self.name} {self.status}>"

    def __reduce__(self) -> NoReturn:
        raise UsageError("a client holds a connection and cannot be pickled; pickle its server config instead")


def _reference(ref: str | Prompt | ResourceTemplate | Mapping[str, Any]) -> Wire:
    if isinstance(ref, Prompt):
        return {"type": "ref/prompt", "name": ref.name}
    if isinstance(ref, ResourceTemplate):
        return {"type": "ref/resource", "uri": ref.uri_template}
    if isinstance(ref, str):
        return {"type": "ref/resource", "uri": ref} if "://" in ref else {"type": "ref/prompt", "name": ref}
    return dict(ref)
