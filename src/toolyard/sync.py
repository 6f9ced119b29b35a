"""The same client for code without an event loop, through one portal: a daemon thread with a loop, one for a process.

Any number of threads may use a client at once. Handlers that a server asks run in threads of their own, so they may
block and may use the client.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, TypeVar, Unpack, cast

from .client import client as aio
from .client.options import ClientOptions
from .client.subscriptions import Changes as AsyncChanges
from .errors import UsageError
from .transports.channel import Counters
from .types import Change, ServerInfo, Status

P = ParamSpec("P")
R = TypeVar("R")


class Portal:
    """The loop thread and the way into it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def call(self, make: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run a coroutine on the loop and wait for its outcome; an interrupted wait cancels it."""
        if threading.current_thread() is self._thread:
            raise UsageError("a callback on the portal's own thread cannot wait for it; use toolyard.Client there")
        future = asyncio.run_coroutine_threadsafe(make(), self._running())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._run, args=[self._loop], name="toolyard-portal", daemon=True
                )
                self._thread.start()
            return self._loop

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()


portal: Final = Portal()
# A forked child has the object but not the thread.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=portal.__init__)  # type: ignore[misc]


def _through_portal(
    method: Callable[Concatenate[aio.Client, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Client, P], R]:
    """The sync twin of a method: same name, same parameters, same errors."""

    def call(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> R:
        self._check_entered()
        return portal.call(lambda: method(self._client, *args, **kwargs))

    call.__name__, call.__qualname__, call.__doc__ = method.__name__, f"Client.{method.__name__}", method.__doc__
    return call


class Client:
    """One MCP server without an event loop: `with Client(server) as c:`. Same options as `toolyard.Client`."""

    def __init__(self, server: Any, **options: Unpack[ClientOptions]) -> None:
        for key in ("sampling_handler", "elicitation_handler", "roots"):
            handler = options.get(key)
            if callable(handler):
                cast("dict[str, Any]", options)[key] = _in_thread(handler)
        self._process = os.getpid()
        self._client = aio.Client(server, **options)
        self._entered = False

    def __enter__(self) -> Client:
        self._entered = True
        self._process = os.getpid()
        try:
            portal.call(self._client.__aenter__)
        except BaseException:
            self._entered = False
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _check_entered(self) -> None:
        if self._process != os.getpid():
            raise UsageError("this process was forked from the one that the client belongs to; make a new client here")
        if not self._entered:
            raise UsageError("use a client inside of its with block: with Client(server) as c: ...")

    def connect(self) -> Client:
        """Connect now; nothing if it is connected."""
        self._check_entered()
        portal.call(self._client.connect)
        return self

    disconnect = _through_portal(aio.Client.disconnect)
    list_tools = _through_portal(aio.Client.list_tools)
    call_tool = _through_portal(aio.Client.call_tool)
    list_resources = _through_portal(aio.Client.list_resources)
    list_resource_templates = _through_portal(aio.Client.list_resource_templates)
    read_resource = _through_portal(aio.Client.read_resource)
    list_prompts = _through_portal(aio.Client.list_prompts)
    get_prompt = _through_portal(aio.Client.get_prompt)
    complete = _through_portal(aio.Client.complete)
    subscribe = _through_portal(aio.Client.subscribe)
    unsubscribe = _through_portal(aio.Client.unsubscribe)
    ping = _through_portal(aio.Client.ping)
    request = _through_portal(aio.Client.request)

    def listen(self, *uris: str, tools: bool = True, prompts: bool = True, resources: bool = True) -> Changes:
        """The changes of the server's lists and of the resources at `uris`.

        `with c.listen() as changes: for change in changes`.
        """
        self._check_entered()
        return Changes(self._client.listen(*uris, tools=tools, prompts=prompts, resources=resources))

    def close(self) -> None:
        """End the client; leaving the with block does so."""
        self._entered = False
        if self._process == os.getpid():  # a forked child has nothing to close: what it inherited is closed already
            portal.call(self._client.close)

    def on(self, event: type[Any], listener: Callable[[Any], Any]) -> Callable[[], None]:
        """Call `listener` with every such event, on the portal's thread.

        It must be quick and cannot use this client.
        """
        return self._client.on(event, listener)

    @property
    def name(self) -> str:
        """What errors, events and logs call the server."""
        return self._client.name

    @property
    def connected(self) -> bool:
        """Whether there is a live connection right now."""
        return self._client.connected

    @property
    def status(self) -> Status:
        """The state of the connection, why, and since when."""
        return self._client.status

    @property
    def server_info(self) -> ServerInfo | None:
        """Who answers at the other end; None before the first connection."""
        return self._client.server_info

    @property
    def counters(self) -> Counters:
        """What came from the server so far, the useless included."""
        return self._client.counters

    def __repr__(self) -> str:
        return repr(self._client)

    def __reduce__(self) -> NoReturn:
        raise UsageError("a client holds a connection and cannot be pickled; pickle its server config instead")


class Changes:
    """The changes of one `listen`, as they come."""

    def __init__(self, changes: AsyncChanges) -> None:
        self._changes = changes

    def __enter__(self) -> Changes:
        portal.call(self._changes.__aenter__)
        return self

    def __exit__(self, *exc: object) -> None:
        portal.call(self._changes.__aexit__)

    def __iter__(self) -> Iterator[Change]:
        return self

    def __next__(self) -> Change:
        change = portal.call(self._next)
        if change is None:
            raise StopIteration
        return change

    async def _next(self) -> Change | None:
        # A future cannot carry StopAsyncIteration out of the loop.
        return await anext(self._changes, None)


def _in_thread(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Sync handlers may block and may use the client, so they must not run on the loop; async ones belong there."""
    if inspect.iscoroutinefunction(handler):
        return handler

    @wraps(handler)
    async def run(*args: Any) -> Any:
        outcome = await _thread(lambda: handler(*args))
        return await outcome if inspect.isawaitable(outcome) else outcome

    return run


def _thread(work: Callable[[], Any]) -> asyncio.Future[Any]:
    """A daemon thread for one piece of work: a pool is joined at exit, and a handler may wait for a person."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def finish(result: Any, error: BaseException | None) -> None:
        if not future.done():
            future.set_result(result) if error is None else future.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as exc:  # noqa: BLE001  # whatever it is, it belongs to who waits
            error = exc
        loop.call_soon_threadsafe(finish, result, error)

    threading.Thread(target=run, name="toolyard-handler", daemon=True).start()
    return future
