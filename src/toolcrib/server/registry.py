"""A registry of tool servers that passes JSON-RPC requests to them by name."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from .._util.suggest import did_you_mean, similar_names
from ..errors import ServerNotFound
from ..types import Wire
from .server import ToolServer

log = logging.getLogger("toolcrib.server")


class ServerRegistry:
    """Tool servers by name. `handle(server_name, request)` passes a request to the server with that name."""

    def __init__(self, servers: Iterable[ToolServer] = ()) -> None:
        self._servers: dict[str, ToolServer] = {}
        for server in servers:
            self.register(server)

    def register(self, server: ToolServer) -> None:
        """Add a server; replaces a server with the same name."""
        if self._servers.get(server.name, server) is not server:
            log.warning("replacing the registered server %r", server.name)
        self._servers[server.name] = server

    def unregister(self, server_name: str) -> None:
        """Remove a server; raises `ServerNotFound` if none has this name."""
        self.get(server_name)
        del self._servers[server_name]

    def get(self, server_name: str) -> ToolServer:
        """Return the server with this name; raises `ServerNotFound` if there is none."""
        server = self._servers.get(server_name)
        if server is None:
            nearest = similar_names(server_name, self._servers)
            hint = did_you_mean(nearest)
            message = f"no server is registered as {server_name!r}{hint}"
            raise ServerNotFound(message, server=server_name, nearest=nearest)
        return server

    async def handle(self, server_name: str, request: Wire | str | bytes) -> Wire | None:
        """Return the answer of the named server's `handle`; raises `ServerNotFound` if none has this name."""
        return await self.get(server_name).handle(request)

    def __iter__(self) -> Iterator[ToolServer]:
        return iter(tuple(self._servers.values()))

    def __contains__(self, server_name: object) -> bool:
        return server_name in self._servers

    def __len__(self) -> int:
        return len(self._servers)
