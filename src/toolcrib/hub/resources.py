"""The resources of all servers of a hub: listed, read, found by a pattern or a query."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from ..client.client import Timeout
from ..config import wrong
from ..errors import BinaryResource, ProtocolError
from ..policy.globs import Glob
from ..protocol.sanitize import one_line
from ..types import UNSET, ReadResourceResult, Resource, ResourceContents

R_co = TypeVar("R_co", covariant=True)


class ResourceHub(Protocol):
    """What `Resources` needs: a hub, or a view of a provider."""

    async def list_resources(self, server: str | None = None) -> list[Resource]:
        """Return the resources of all servers, or of one."""
        ...

    async def read_resource(self, server: str, uri: str, *, timeout: Timeout = UNSET) -> ReadResourceResult:
        """Read a resource of a server."""
        ...


class Resources:
    """`hub.resources`. Lists come from the hub's snapshot; contents come from the server."""

    def __init__(self, hub: ResourceHub) -> None:
        self._hub = hub

    async def list_all(self) -> list[Resource]:
        """Return the resources of all servers."""
        return await self._hub.list_resources()

    async def list_from_server(self, server: str) -> list[Resource]:
        """Return the resources of one server; raise `ServerNotFound` if the hub has no such server."""
        return await self._hub.list_resources(server)

    async def find_by_pattern(self, pattern: str) -> list[Resource]:
        """Return the resources whose URI matches; `*` stands for any characters, slashes included."""
        return await self.find(ResourceQuery().pattern(pattern))

    async def find(self, query: ResourceQuery) -> list[Resource]:
        """Return the resources that match the query; `query.execute(hub.resources)` does the same."""
        return [resource for resource in await self._hub.list_resources(query.of_server) if query.matches(resource)]

    async def read(self, server: str, uri: str, *, timeout: Timeout = UNSET) -> ReadResourceResult:
        """Read a resource. Returns all of its parts, text or bytes."""
        return await self._hub.read_resource(server, uri, timeout=timeout)

    async def read_text(self, server: str, uri: str, *, timeout: Timeout = UNSET) -> str:
        """Read a text resource, its parts joined by newlines; raise `BinaryResource` if a part is binary."""
        contents = await self.read(server, uri, timeout=timeout)
        for piece in contents:
            if piece.text is None:
                if piece.blob is None and not _sent_blob(piece):
                    raise _empty(piece, server, uri)
                kind = f" ({one_line(piece.mime_type)})" if isinstance(piece.mime_type, str) and piece.mime_type else ""
                message = f"{uri} is not text but bytes{kind}; use read_bytes"
                raise BinaryResource(message, server=server, uri=piece.uri or uri, mime_type=piece.mime_type)
        return contents.text

    async def read_bytes(self, server: str, uri: str, *, timeout: Timeout = UNSET) -> bytes:
        """Read a resource as bytes, its parts one after the other; text is encoded in UTF-8."""
        contents = await self.read(server, uri, timeout=timeout)
        for piece in contents:
            if piece.blob is None and (piece.text is None or _sent_blob(piece)):
                raise _empty(piece, server, uri)
        return contents.data

    def __repr__(self) -> str:
        return f"<Resources of {self._hub!r}>"


def _sent_blob(piece: ResourceContents) -> bool:
    return piece.raw.get("blob") is not None


def _empty(piece: ResourceContents, server: str, uri: str) -> ProtocolError:
    """Return the error for a part without content, which must not be taken for an empty text."""
    what = "a blob that is not valid base64" if _sent_blob(piece) else "a part with neither text nor blob"
    return ProtocolError(f"{uri}: the server sent {what}", server=server)


class Finder(Protocol[R_co]):
    """Anything that finds resources: `hub.resources` of an async or a sync hub."""

    def find(self, query: ResourceQuery) -> R_co:
        """Return the resources that match the query."""
        ...


@dataclass(frozen=True, slots=True)
class ResourceQuery:
    """A query for resources. Each method returns a new value with one condition more; all conditions must hold.

    `await ResourceQuery().server("fs").pattern("file://*").mime_type("text/plain").execute(hub.resources)`; without
    `await` where the hub is `toolcrib.sync.Hub`.
    """

    of_server: str | None = None
    of_uri: Glob | None = None
    of_type: Glob | None = None
    of_name: Glob | None = None

    def server(self, name: str) -> ResourceQuery:
        """Match only resources of this server."""
        return replace(self, of_server=_text("server", name))

    def pattern(self, pattern: str) -> ResourceQuery:
        """Match only resources with such a URI; `*` crosses slashes."""
        return replace(self, of_uri=Glob(_text("pattern", pattern)))

    def mime_type(self, mime_type: str) -> ResourceQuery:
        """Match resources of this type, `text/plain` or `text/*`. Parameters (`; charset=...`) and case are ignored."""
        return replace(self, of_type=Glob(_essence(_text("mime_type", mime_type))))

    def name(self, pattern: str) -> ResourceQuery:
        """Match only resources with such a name."""
        return replace(self, of_name=Glob(_text("name", pattern)))

    def matches(self, resource: Resource) -> bool:
        """Whether URI, type and name match; the server is not compared."""
        kind = resource.mime_type
        return (
            (self.of_uri is None or self.of_uri.matches(resource.uri))
            and (self.of_name is None or self.of_name.matches(resource.name))
            and (self.of_type is None or (isinstance(kind, str) and self.of_type.matches(_essence(kind))))
        )

    def execute(self, resources: Finder[R_co]) -> R_co:
        """Return `resources.find(query)`, which must be awaited if the hub is async."""
        return resources.find(self)


def _essence(mime_type: str) -> str:
    return mime_type.partition(";")[0].strip().lower()


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise wrong(key, "a text", value)
    return value
