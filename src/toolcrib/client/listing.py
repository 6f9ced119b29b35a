"""The lists of a server: fetches all pages, caches them while fresh, and keeps the tools by name."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from .._util.locks import PerLoopLock
from ..defaults import CACHE_TTL_SECONDS
from ..errors import CallTimeout, ProtocolError, RemoteError
from ..protocol.cache_hints import CacheHint, cache_hint
from ..protocol.jsonrpc import METHOD_NOT_FOUND
from ..protocol.limits import MAX_ITEMS, MAX_PAGES
from ..protocol.param_headers import Declaration, InvalidDeclaration, declarations
from ..protocol.sanitize import one_line
from ..transports.channel import RequestOptions, mask_of
from ..types import Prompt, Resource, ResourceTemplate, Tool, Wire
from .request_executor import RequestExecutor
from .session import Session

log = logging.getLogger("toolcrib.client")

T = TypeVar("T")

TTL: Final = CACHE_TTL_SECONDS
"""Seconds that a list is cached if the client decides; a positive hint of the server takes precedence."""


class Use(enum.Enum):
    """How a cached list is used."""

    NEVER = "never"
    """Do not use the cache; request the list from the server."""
    HINTED = "hinted"
    """Use the cache as long as the server's hint allows."""
    ALWAYS = "always"
    """Use the cache as long as the server's hint allows if it is above 0, else for `TTL` seconds."""


@dataclass(frozen=True, slots=True)
class _CachedList:
    items: tuple[Any, ...]
    stored: float
    hint: CacheHint


class ListCache:
    """Lists by key `mcp:{server_identifier}:{resource_type}`. The caller passes the time of a monotonic clock."""

    def __init__(self, server_identifier: str) -> None:
        self._server_identifier = server_identifier
        self._entries: dict[str, _CachedList] = {}

    def key(self, resource_type: str) -> str:
        """Return the key of a list."""
        return f"mcp:{self._server_identifier}:{resource_type}"

    def put(self, resource_type: str, items: tuple[Any, ...], hint: CacheHint, now: float) -> None:
        """Store a list."""
        self._entries[self.key(resource_type)] = _CachedList(items, now, hint)

    def get(self, resource_type: str, now: float, use: Use) -> tuple[Any, ...] | None:
        """Return the list if it is fresh, else None."""
        entry = self._entries.get(self.key(resource_type))
        if entry is None or use is Use.NEVER:
            return None
        ttl = entry.hint.ttl
        if use is Use.ALWAYS:
            ttl = ttl or TTL
        return entry.items if ttl is not None and now < entry.stored + ttl else None

    def drop(self, *resource_types: str) -> None:
        """Discard these lists, or all if none is named."""
        if not resource_types:
            self._entries.clear()
        for resource_type in resource_types:
            self._entries.pop(self.key(resource_type), None)


@dataclass(frozen=True, slots=True)
class ListOf(Generic[T]):
    """One of the protocol's lists."""

    method: str
    key: str
    capability: str
    parse: Callable[[Wire], T]


TOOLS: Final = ListOf("tools/list", "tools", "tools", Tool.from_wire)
RESOURCES: Final = ListOf("resources/list", "resources", "resources", Resource.from_wire)
TEMPLATES: Final = ListOf("resources/templates/list", "resourceTemplates", "resources", ResourceTemplate.from_wire)
PROMPTS: Final = ListOf("prompts/list", "prompts", "prompts", Prompt.from_wire)

_STALE_WITH: Final = {"resources": ("resources", "resourceTemplates")}


class Lister:
    """Fetches lists over a connection.

    `tools` holds the tools of the last list by name; `complete` is False once that list may be stale. `mirrored` holds
    those of them that require some of their arguments in HTTP headers.
    """

    def __init__(self, executor: RequestExecutor, cache: ListCache) -> None:
        self.tools: dict[str, Tool] = {}
        self.mirrored: dict[str, tuple[Declaration, ...]] = {}
        self.complete = False
        self._executor = executor
        self._cache = cache
        self._lock = PerLoopLock()
        self._changes: Counter[str] = Counter()

    async def fetch(self, of: ListOf[T], use: Use, deadline: float | None) -> list[T]:
        """Return the whole list; empty if the server does not have the capability."""
        clock = asyncio.get_running_loop().time
        kept = self._cache.get(of.key, clock(), use)
        if kept is not None:
            return list(kept)
        session = await self._executor.reach(deadline)
        changes = self._changes[of.capability]
        items: tuple[T, ...] = ()
        hint = CacheHint()
        if of.capability in session.agreement.server.capabilities:
            raw, hint = await self._pages(of, deadline)
            items = tuple(of.parse(item) for item in raw)
        # A list that changed while it was fetched is returned, but not cached: the next use fetches it again.
        unchanged = self._changes[of.capability] == changes
        if of.key == TOOLS.key:
            if session.mirrors:
                self.mirrored = self._declared_headers(session, (item for item in items if isinstance(item, Tool)))
                items = tuple(item for item in items if isinstance(item, Tool) and item.name in self.mirrored)
            self.tools = {item.name: item for item in items if isinstance(item, Tool)}
            self.complete = unchanged
        if unchanged:
            self._cache.put(of.key, items, hint, clock())
        return list(items)

    def _declared_headers(self, session: Session, tools: Iterable[Tool]) -> dict[str, tuple[Declaration, ...]]:
        """Return the header declarations of each tool. Tools with invalid ones are omitted: no call could be valid."""
        declared: dict[str, tuple[Declaration, ...]] = {}
        for tool in tools:
            try:
                declared[tool.name] = declarations(tool.input_schema)
            except InvalidDeclaration as exc:
                mask = mask_of(session.channel)
                name, reason = one_line(tool.name, mask=mask), one_line(str(exc), mask=mask)
                log.warning("%s: ignoring the tool %s: %s", self._executor.name, name, reason)
        return declared

    async def ensure_tools(self, deadline: float | None) -> None:
        """Fetch the list of tools unless it is complete; concurrent callers share one request."""
        turn = self._lock()
        try:
            async with asyncio.timeout_at(deadline):
                await turn.acquire()
        except TimeoutError:
            raise CallTimeout("the deadline passed while the tools were being listed; nothing was sent") from None
        try:
            if not self.complete:
                await self.fetch(TOOLS, Use.HINTED, deadline)
        finally:
            turn.release()

    def drop(self, kind: str | None = None) -> None:
        """Mark the lists of this kind, or all, as stale."""
        self._changes.update([kind] if kind is not None else ["tools", "prompts", "resources"])
        self._cache.drop(*(() if kind is None else _STALE_WITH.get(kind, (kind,))))
        if kind in (None, "tools"):
            self.complete = False  # `tools` stays in use until a new list replaces it

    async def _pages(self, of: ListOf[T], deadline: float | None) -> tuple[list[Wire], CacheHint]:
        items: list[Wire] = []
        hint: CacheHint | None = None
        params: Wire | None = None
        for _ in range(MAX_PAGES):
            try:
                page = await self._executor.request(
                    of.method, params, options=RequestOptions(deadline), repeatable=True
                )
            except RemoteError as exc:
                if exc.code == METHOD_NOT_FOUND and not items:
                    return [], CacheHint()  # the server declares the capability but does not implement it
                raise
            items += _entries(page, of)
            hint = cache_hint(page) if hint is None else hint.joined(cache_hint(page))
            cursor = page.get("nextCursor")
            if cursor is None or len(items) >= MAX_ITEMS:
                break
            params = {"cursor": cursor}
        else:
            cursor = ""
        if cursor is not None or len(items) > MAX_ITEMS:
            log.warning(
                "%s: %s was cut at %d entries or %d pages; the server has more",
                self._executor.name,
                of.method,
                MAX_ITEMS,
                MAX_PAGES,
            )
        return items[:MAX_ITEMS], hint or CacheHint()


def _entries(page: Wire, of: ListOf[Any]) -> list[Wire]:
    found = page.get(of.key)
    if not isinstance(found, list):
        raise ProtocolError(f"{of.method}: expected a list of {of.key} in the answer")
    return [item for item in found if isinstance(item, dict)]
