"""A tool server whose file is reloaded while it is served: clients stay connected, and new calls run the new code.

The file is reloaded in this process, so that sessions, credentials and the open port stay as they are. Threads and
connections that the old code started keep running; calls in progress finish in the old code.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from .._util.files import FilePoller
from ..errors import ConfigError, UsageError
from ..protocol.param_headers import Declaration
from ..server.changes import LISTS
from ..server.handler import Deliver, Peer, RequestContext, Watch
from ..server.server import ToolServer
from ..server.serving.run import serve
from ..transports.python_file import own_frames, run_file
from ..types import Wire
from .console import complain, note

CHECK_INTERVAL_SECONDS: Final = 0.3
"""Seconds between two checks of the files."""


class _Subscription:
    """A client's subscription to changes; it follows from one server to its replacement."""

    def __init__(self, front: Replaceable, wanted: Wire, peer: Peer, deliver: Deliver) -> None:
        self.accepted: Wire = {}
        self._front = front
        self._wanted = wanted
        self._peer = peer
        self._deliver = deliver
        self._watch: Watch | None = None

    async def follow(self, server: ToolServer) -> None:
        """Subscribe to the changes of this server, and end the subscription to the one before."""
        before = self._watch
        self._watch = await server.router.watch(self._wanted, self._peer, self._deliver)
        self.accepted = self._watch.accepted
        if before is not None:
            await before.close()

    def notify(self, lists: Mapping[str, str]) -> None:
        """Notify the client that these lists may have changed, because the server was replaced."""
        for flag, method in lists.items():
            if self._wanted.get(flag) is True:
                self._deliver(method, {})

    async def close(self) -> None:
        """End the subscription."""
        self._front.remove(self)
        if self._watch is not None:
            await self._watch.close()


class Replaceable:
    """A request handler that passes requests to a tool server, which can be replaced."""

    def __init__(self, server: ToolServer) -> None:
        self.server = server
        self._subscriptions: dict[_Subscription, None] = {}

    async def replace(self, server: ToolServer) -> None:
        """Pass requests to this server from now on, and notify subscribed clients."""
        offered = {*self.server.router.capabilities(), *server.router.capabilities()}
        lists = {flag: method for flag, method in LISTS.items() if flag.removesuffix("ListChanged") in offered}
        self.server = server
        for each in list(self._subscriptions):
            await each.follow(server)
            each.notify(lists)

    def remove(self, subscription: _Subscription) -> None:
        """Forget a subscription that has ended."""
        self._subscriptions.pop(subscription, None)

    # ---- the interface of a request handler ----------------------------------------------------------------------

    def describe(self, peer: Peer) -> Wire:
        """Return the name and the capabilities of the current server."""
        return self.server.router.describe(peer)

    def may_ask(self, method: str, params: Wire) -> bool:
        """Return whether the function that handles the request takes a context."""
        return self.server.router.may_ask(method, params)

    def mirrored(self, tool: str) -> tuple[Declaration, ...]:
        """Return the arguments of a tool that modern HTTP repeats in headers."""
        return self.server.router.mirrored(tool)

    async def answer(self, method: str, params: Wire, context: RequestContext) -> Wire:
        """Return the result of a request."""
        return await self.server.router.answer(method, params, context)

    async def watch(self, wanted: Wire, peer: Peer, deliver: Deliver) -> _Subscription:
        """Subscribe to changes of the current server and of those that replace it."""
        subscription = _Subscription(self, wanted, peer, deliver)
        await subscription.follow(self.server)
        self._subscriptions[subscription] = None
        return subscription


class Reloading:
    """A served file that is reloaded when it changes. `find` returns the server of its module."""

    def __init__(self, server: ToolServer, file: Path, find: Callable[[ModuleType], ToolServer]) -> None:
        self.name = server.name
        self.version = server.version
        self.router = Replaceable(server)
        self._file = file.absolute()
        self._folder = self._file.resolve().parent
        self._find = find
        self._failed_in: Path | None = None
        self._poller = FilePoller()
        sys.dont_write_bytecode = True  # Python compares its time stamps in seconds; reloads may follow faster

    async def serve(self, transport: str, **options: Any) -> None:
        """Serve the file until stopped, and watch it and its modules for changes."""
        self._follow_files()
        watching = asyncio.create_task(self._watch())
        try:
            await serve(self, transport, auth=None if self._auth is None else self._authenticate, **options)
        finally:
            watching.cancel()

    @property
    def _auth(self) -> Callable[..., Any] | None:
        return self.router.server.auth

    def _authenticate(self, headers: Mapping[str, str]) -> Any:
        assert self._auth is not None  # `reload` rejects a server that removes it
        return self._auth(headers)

    # ---- watching --------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(CHECK_INTERVAL_SECONDS)
            self._follow_files()
            if any(file.exists() for file in self._poller.poll()):  # a deleted file may be about to be replaced
                await self.reload()

    def _follow_files(self) -> None:
        """Watch the file, the modules that it imported from its folder, and the file in which it failed."""
        modules = [Path(str(each.__file__)) for each in self._modules().values()]
        failed = [] if self._failed_in is None else [self._failed_in]
        self._poller.follow([self._file, *modules, *failed])

    def _modules(self) -> dict[str, ModuleType]:
        """Return the user's own modules, by name."""
        return {name: each for name, each in list(sys.modules.items()) if self._is_own(getattr(each, "__file__", None))}

    def _is_own(self, file: Any) -> bool:
        if not isinstance(file, str) or "site-packages" in file:
            return False
        return file == str(self._file) or Path(file).is_relative_to(self._folder)

    # ---- reloading -------------------------------------------------------------------------------------------

    async def reload(self) -> None:
        """Run the files as they are now. If that fails, the previous version is still served."""
        before = self._modules()
        for name in before:
            del sys.modules[name]
        importlib.invalidate_caches()
        try:
            server = self._find(run_file(self._file, self._file.read_bytes()))
            if (server.auth is None) != (self._auth is None):
                raise ConfigError(f"{self._file}: `auth` was added or removed; restart to apply")
        except (ConfigError, UsageError, OSError) as exc:
            sys.modules.update(before)
            self._report_failure(exc)
            return
        self._failed_in = None
        self._follow_files()
        await self.router.replace(server)
        note(f"reloaded {self._file.name}: {len(server.tools)} tool{'s' * (len(server.tools) != 1)}")

    def _report_failure(self, exc: ConfigError | UsageError | OSError) -> None:
        if isinstance(exc, ConfigError) and exc.file is not None:
            self._failed_in = Path(exc.file)
        self._follow_files()
        if exc.__cause__ is not None:
            note(own_frames(exc.__cause__))
        complain(str(exc), "still serving the previous version")
