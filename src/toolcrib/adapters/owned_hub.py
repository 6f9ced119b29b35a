"""A sync hub without a `with` block, for functions that open servers for their caller."""

from __future__ import annotations

import asyncio
import atexit
import os
import weakref
from collections.abc import Mapping
from typing import Any

from ..errors import ToolcribError
from ..hub.hub import Hub as AsyncHub
from ..sync.hub import Hub
from ..sync.portal import portal
from ..transports.factory import ServerLike

_open: set[Hub] = set()
"""The hubs that are closed when the interpreter exits."""


class OwnedHub:
    """A running hub of some servers, closed by `close`, with the last object that uses it, or at interpreter exit.

    All servers are connected when the constructor returns; if one cannot be connected, it raises the error of this
    server and keeps no process.
    """

    def __init__(self, servers: Mapping[str, ServerLike]) -> None:
        self.hub = Hub(servers, on_error="raise")
        self.hub.__enter__()
        try:
            for state in self.hub.ready():
                if isinstance(state.last_error, ToolcribError) and state.status != "connected":
                    raise state.last_error
        except BaseException:
            self.hub.close()
            raise
        _open.add(self.hub)

    def close_with(self, user: Any) -> None:
        """Close the hub when `user` is garbage collected, unless it is closed before."""
        loop, _ = portal.home()
        finalizer = weakref.finalize(user, _close_unused, self.hub, self.hub.async_twin(), loop, os.getpid())
        finalizer.atexit = False  # `_close_all` waits for the end of the processes

    def close(self) -> None:
        """Close the hub, and wait until its processes have ended."""
        _open.discard(self.hub)
        self.hub.close()


def _close_unused(hub: Hub, twin: AsyncHub, loop: asyncio.AbstractEventLoop, process: int) -> None:
    """Close a hub without waiting: the garbage collector may run on the thread of the loop, too."""
    if hub in _open and process == os.getpid():
        _open.discard(hub)
        asyncio.run_coroutine_threadsafe(twin.close(), loop)


@atexit.register
def _close_all() -> None:
    while _open:
        _open.pop().close()
