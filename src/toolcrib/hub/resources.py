"""The resources of all servers of a hub: listed, read, found by pattern, asked for by a query."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from ..client.client import Timeout
from ..config import wrong
from ..errors import BinaryResource, ProtocolError
from ..policy.globs import Glob
from ..protocol.sanitize import one_line
from ..types import UNSET, ReadResourceResult, Resource, ResourceContents

if TYPE_CHECKING:
    from .hub import Hub

R_co = TypeVar("R_co", covariant=True)


class Resources:
    """`hub.resources`. Lists are the hub's snapshot; what is read comes from the server."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def list_all(self) -> list[Resource]:
        """The resources of all servers."""
        return await self._hub.list_resources()

    async def list_from_server(self, server: str) -> list[Resource]:
        """The resources of one server; `ServerNotFound` if the hub has no such server."""
        return await self._hub.list_resources(server)

    async def find_by_pattern(self, pattern: str) -> list[Resource]:
        """The resources whose URI has this form; `*` stands for anything, slashes included."""
        return await self.find(ResourceQuery().pattern(pattern))

    async def find(self, query: ResourceQuery) -> list[Resource]:
        """The resources that the query asks for; `query.execute(hub.resources)` is the same."""
        return [resource for resource in await self._hub.list_resources(query.of_server) if query.matches(resource)]

    async def read(self, server: str, uri: str, *, timeout: Timeout = UNSET) -> ReadResourceResult:
        """Read a resource: all of its pieces, text or bytes."""
        return await self._hub.read_resource(server, uri, timeout=timeout)

    async def read_text(self, server: str, uri: str, *, timeout: Timeout = UNSET) -> str:
        """Read a resource that is text, its pieces joined by newlines; `BinaryResource` if any of it is binary."""
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
        """Read a resource as bytes, its pieces one after the other; text is given in UTF-8."""
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
    """Nothing is not the same as an empty text: who reads must not take the one for the other."""
    what = "a blob that is no base64" if _sent_blob(piece) else "a piece with neither text nor blob"
    return ProtocolError(f"{uri}: the server sent {what}", server=server)


class Finder(Protocol[R_co]):
    """Who can answer a query: `hub.resources`, of a hub or of its sync face."""

    def find(self, query: ResourceQuery) -> R_co:
        """What the query asks for."""
        ...


@dataclass(frozen=True, slots=True)
class ResourceQuery:
    """A question for resources, put together step by step; every step gives a new value, and all must hold.

    `await ResourceQuery().server("fs").pattern("file://*").mime_type("text/plain").execute(hub.resources)`; without
    `await` where the hub is `toolcrib.sync.Hub`.
    """

    of_server: str | None = None
    of_uri: Glob | None = None
    of_type: Glob | None = None
    of_name: Glob | None = None

    def server(self, name: str) -> ResourceQuery:
        """Only resources of this server."""
        return replace(self, of_server=_text("server", name))

    def pattern(self, pattern: str) -> ResourceQuery:
        """Only resources whose URI has this form; `*` crosses slashes."""
        return replace(self, of_uri=Glob(_text("pattern", pattern)))

    def mime_type(self, mime_type: str) -> ResourceQuery:
        """Only resources of this type, `text/plain` or `text/*`. A resource's parameters (`; charset=...`) and the case
        of letters make no difference.
        """
        return replace(self, of_type=Glob(_essence(_text("mime_type", mime_type))))

    def name(self, pattern: str) -> ResourceQuery:
        """Only resources whose name has this form."""
        return replace(self, of_name=Glob(_text("name", pattern)))

    def matches(self, resource: Resource) -> bool:
        """Whether URI, type and name are as asked for; whose it is, is not looked at."""
        kind = resource.mime_type
        return (
            (self.of_uri is None or self.of_uri.matches(resource.uri))
            and (self.of_name is None or self.of_name.matches(resource.name))
            and (self.of_type is None or (isinstance(kind, str) and self.of_type.matches(_essence(kind))))
        )

    def execute(self, resources: Finder[R_co]) -> R_co:
        """Ask: gives what `resources.find(query)` gives, which of an async hub is to be awaited."""
        return resources.find(self)


def _essence(mime_type: str) -> str:
    return mime_type.partition(";")[0].strip().lower()


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise wrong(key, "a text", value)
    return value
