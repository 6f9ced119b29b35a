"""A tool server whose file may change while it is served: clients stay, the new code answers from the next call on.

It happens in this process, so that everything else is as it is without it: sessions, credentials, the open port. What
the old code has left running (threads, connections) goes on; a call under way ends in the code that it began in.
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

INTERVAL: Final = 0.3
"""Seconds between two looks at the files."""


class _Following:
    """One who watches for changes, whichever server is the current one."""

    def __init__(self, front: Replaceable, wanted: Wire, peer: Peer, deliver: Deliver) -> None:
        self.accepted: Wire = {}
        self._front = front
        self._wanted = wanted
        self._peer = peer
        self._deliver = deliver
        self._watch: Watch | None = None

    async def follow(self, server: ToolServer) -> None:
        """Hear of this server's changes, and of no other's."""
        before = self._watch
        self._watch = await server.router.watch(self._wanted, self._peer, self._deliver)
        self.accepted = self._watch.accepted
        if before is not None:
            await before.close()

    def tell(self, lists: Mapping[str, str]) -> None:
        """The server is another one: these lists may have changed."""
        for flag, method in lists.items():
            if self._wanted.get(flag) is True:
                self._deliver(method, {})

    async def close(self) -> None:
        """Hear no more."""
        self._front.leave(self)
        if self._watch is not None:
            await self._watch.close()


class Replaceable:
    """Answers as a tool server does that can be replaced by another one."""

    def __init__(self, server: ToolServer) -> None:
        self.server = server
        self._following: dict[_Following, None] = {}

    async def replace(self, server: ToolServer) -> None:
        """From now on this one answers; who watches is told."""
        offered = {*self.server.router.capabilities(), *server.router.capabilities()}
        lists = {flag: method for flag, method in LISTS.items() if flag.removesuffix("ListChanged") in offered}
        self.server = server
        for each in list(self._following):
            await each.follow(server)
            each.tell(lists)

    def leave(self, following: _Following) -> None:
        """It watches no more."""
        self._following.pop(following, None)

    # ---- the seam --------------------------------------------------------------------------------------------

    def describe(self, peer: Peer) -> Wire:
        """Who answers, and what is offered now."""
        return self.server.router.describe(peer)

    def may_ask(self, method: str, params: Wire) -> bool:
        """Whether the function that answers takes a context."""
        return self.server.router.may_ask(method, params)

    def mirrored(self, tool: str) -> tuple[Declaration, ...]:
        """The arguments of a tool that modern HTTP repeats in headers."""
        return self.server.router.mirrored(tool)

    async def answer(self, method: str, params: Wire, context: RequestContext) -> Wire:
        """The result of a request."""
        return await self.server.router.answer(method, params, context)

    async def watch(self, wanted: Wire, peer: Peer, deliver: Deliver) -> _Following:
        """Hear of changes, also of those that a new server brings."""
        following = _Following(self, wanted, peer, deliver)
        await following.follow(self.server)
        self._following[following] = None
        return following


class Reloading:
    """A file that is served and watched. `find` gives the server of the module."""

    def __init__(self, server: ToolServer, file: Path, find: Callable[[ModuleType], ToolServer]) -> None:
        self.name = server.name
        self.version = server.version
        self.router = Replaceable(server)
        self._file = file.absolute()
        self._folder = self._file.resolve().parent
        self._find = find
        self._failed_in: Path | None = None
        self._poller = FilePoller()
        sys.dont_write_bytecode = True  # it is told apart by the second, and we reload sooner than that

    async def serve(self, transport: str, **options: Any) -> None:
        """Serve it until it is stopped, and follow its files meanwhile."""
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
        assert self._auth is not None  # a server that has none does not replace one that has
        return self._auth(headers)

    # ---- watching --------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            self._follow_files()
            if any(file.exists() for file in self._poller.poll()):  # a file that is gone may be about to be replaced
                await self.reload()

    def _follow_files(self) -> None:
        """Follow the file, the modules that it imported from its folder, and the file in which it failed."""
        modules = [Path(str(each.__file__)) for each in self._modules().values()]
        failed = [] if self._failed_in is None else [self._failed_in]
        self._poller.follow([self._file, *modules, *failed])

    def _modules(self) -> dict[str, ModuleType]:
        """The modules of the user's own, by name."""
        return {name: each for name, each in list(sys.modules.items()) if self._is_own(getattr(each, "__file__", None))}

    def _is_own(self, file: Any) -> bool:
        if not isinstance(file, str) or "site-packages" in file:
            return False
        return file == str(self._file) or Path(file).is_relative_to(self._folder)

    # ---- reloading -------------------------------------------------------------------------------------------

    async def reload(self) -> None:
        """Run the files as they are now. Where that fails, the code before stays at work."""
        before = self._modules()
        for name in before:
            del sys.modules[name]
        importlib.invalidate_caches()
        try:
            server = self._find(run_file(self._file, self._file.read_bytes()))
            if (server.auth is None) != (self._auth is None):
                raise ConfigError(f"{self._file}: auth has come or gone: start again for that")
        except (ConfigError, UsageError, OSError) as exc:
            sys.modules.update(before)
            self._tell_failure(exc)
            return
        self._failed_in = None
        self._follow_files()
        await self.router.replace(server)
        note(f"reloaded {self._file.name}: {len(server.tools)} tool{'s' * (len(server.tools) != 1)}")

    def _tell_failure(self, exc: ConfigError | UsageError | OSError) -> None:
        if isinstance(exc, ConfigError) and exc.file is not None:
            self._failed_in = Path(exc.file)
        self._follow_files()
        if exc.__cause__ is not None:
            note(own_frames(exc.__cause__))
        complain(str(exc), "the code before it stays at work")
