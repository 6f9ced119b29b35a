"""The sync client for one server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Self, Unpack

from ..client import client as aio
from ..client.options import ClientOptions, check_server_given
from ..client.subscriptions import Changes as AsyncChanges
from ..errors import UsageError
from ..transports.channel import Counters
from ..transports.factory import ServerLike
from ..types import Change, ConnectionStatus, ServerInfo
from .portal import portal
from .wrapper import ContextWrapper, on_loop, through_portal


class Client(ContextWrapper[aio.Client]):
    """A sync client for one MCP server: `with Client(server) as c:`. Same options as `toolcrib.Client`."""

    _noun, _usage = "client", "with Client(server) as c"

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Check that a server is given, with a clearer message than Python's own."""
        check_server_given(args, options)
        return super().__new__(cls)

    def __init__(self, server: ServerLike, **options: Unpack[ClientOptions]) -> None:
        super().__init__(aio.Client(server, **options))

    def connect(self) -> Client:
        """Connect now, unless there is a connection already."""
        self._check_entered()
        portal.call(self._twin.connect)
        return self

    disconnect = through_portal(aio.Client.disconnect)
    list_tools = through_portal(aio.Client.list_tools)
    peek_tools = on_loop(aio.Client.peek_tools)
    call_tool = through_portal(aio.Client.call_tool)
    list_resources = through_portal(aio.Client.list_resources)
    list_resource_templates = through_portal(aio.Client.list_resource_templates)
    read_resource = through_portal(aio.Client.read_resource)
    list_prompts = through_portal(aio.Client.list_prompts)
    get_prompt = through_portal(aio.Client.get_prompt)
    complete = through_portal(aio.Client.complete)
    subscribe = through_portal(aio.Client.subscribe)
    unsubscribe = through_portal(aio.Client.unsubscribe)
    ping = through_portal(aio.Client.ping)
    request = through_portal(aio.Client.request)

    def listen(self, *uris: str, tools: bool = True, prompts: bool = True, resources: bool = True) -> Changes:
        """Return a stream of the changes of the server's lists and of the resources at `uris`.

        `with c.listen() as changes: for change in changes`.
        """
        self._check_entered()
        return Changes(self._twin.listen(*uris, tools=tools, prompts=prompts, resources=resources))

    def on(self, event: type[Any], listener: Callable[[Any], Any]) -> Callable[[], None]:
        """Call `listener` with every such event, on the portal's thread.

        It must be quick and cannot use this client.
        """
        self._check_process()
        return self._twin.on(event, listener)

    @property
    def name(self) -> str:
        """The name of the server in errors, events and logs."""
        return self._twin.name

    @property
    def connected(self) -> bool:
        """Whether there is a live connection right now."""
        return self._twin.connected

    @property
    def status(self) -> ConnectionStatus:
        """The state of the connection, why, and since when."""
        return self._twin.status

    @property
    def server_info(self) -> ServerInfo | None:
        """Name, version, capabilities and instructions of the connected server; None if not connected."""
        return self._twin.server_info

    @property
    def counters(self) -> Counters:
        """Counts of the messages that the server has sent so far, also of malformed ones."""
        return self._twin.counters

    def __repr__(self) -> str:
        return repr(self._twin)

    def __reduce__(self) -> NoReturn:
        raise UsageError("a client holds a connection and cannot be pickled; pickle its server config instead")


class Changes:
    """A stream of the changes of one `listen`."""

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
        # A coroutine cannot raise StopAsyncIteration through a future.
        return await anext(self._changes, None)
