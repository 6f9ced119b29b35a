"""Notifying watchers of changes: published from any thread, delivered on the event loop of each watcher."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from ..errors import RemoteError
from ..protocol.jsonrpc import INVALID_PARAMS
from ..protocol.limits import MAX_ITEMS
from ..types import Wire
from .handler import Deliver

log = logging.getLogger("toolcrib.server")

LISTS: Final = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}
UPDATED: Final = "notifications/resources/updated"

ChangeKey = tuple[str, str | None]
"""The method of a notification, and the URI if it is about one resource."""


class ChangeWatch:
    """One watcher. It delivers a change once per iteration of its event loop, however often that is published."""

    __slots__ = ("_changes", "_deliver", "_due", "_loop", "accepted", "lists", "uris")

    def __init__(self, changes: ChangeWatchers, accepted: Wire, deliver: Deliver) -> None:
        self.accepted = accepted
        self.lists = frozenset(method for flag, method in LISTS.items() if flag in accepted)
        self.uris = frozenset(accepted.get("resourceSubscriptions", ()))
        self._changes = changes
        self._deliver = deliver
        self._due: dict[ChangeKey, None] = {}
        self._loop = asyncio.get_running_loop()

    def wants(self, change: ChangeKey) -> bool:
        """Return whether the watcher asked for this change."""
        method, uri = change
        return method in self.lists if uri is None else uri in self.uris

    def schedule(self, change: ChangeKey) -> None:
        """Deliver a change in the next iteration of the event loop; called from any thread, with the lock held."""
        if self._loop.is_closed():
            raise RuntimeError("the event loop of the watcher is closed")
        if not self._due:
            self._loop.call_soon_threadsafe(self._deliver_due)
        self._due[change] = None

    def _deliver_due(self) -> None:
        for method, uri in self._changes.collect(self, self._due):
            try:
                self._deliver(method, {} if uri is None else {"uri": uri})
            except Exception:
                log.exception("delivering %s failed", method)

    async def close(self) -> None:
        """Stop watching."""
        self._changes.remove(self)


class ChangeWatchers:
    """All watchers of one server."""

    def __init__(self) -> None:
        self._watches: dict[ChangeWatch, None] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._watches)

    def watch(self, wanted: Any, deliver: Deliver, knows: Callable[[str], bool] = lambda _: True) -> ChangeWatch:
        """Watch for changes on the running event loop.

        `wanted` has the form of `notifications` in `subscriptions/listen`. Resources for which `knows` returns False
        are not watched.
        """
        watch = ChangeWatch(self, accepted(wanted, knows), deliver)
        with self._lock:
            self._watches[watch] = None
        return watch

    def publish(self, method: str, uri: str | None = None) -> None:
        """Notify all watchers that asked for this change. May be called from any thread."""
        change = (method, uri)
        with self._lock:
            for watch in [watch for watch in self._watches if watch.wants(change)]:
                try:
                    watch.schedule(change)
                except RuntimeError:
                    del self._watches[watch]

    def collect(self, watch: ChangeWatch, due: dict[ChangeKey, None]) -> list[ChangeKey]:
        """Return the changes in `due` and clear it; returns none for a watcher that was removed."""
        with self._lock:
            changes = list(due) if watch in self._watches else []
            due.clear()
        return changes

    def remove(self, watch: ChangeWatch) -> None:
        """Remove a watcher: it gets no further changes."""
        with self._lock:
            self._watches.pop(watch, None)


def accepted(wanted: Any, knows: Callable[[str], bool] = lambda _: True) -> Wire:
    """Return the part of `wanted` that can be watched; raises -32602 if `wanted` is invalid."""
    if not isinstance(wanted, dict):
        raise RemoteError(INVALID_PARAMS, "notifications: must be an object")
    watched: Wire = {flag: True for flag in LISTS if wanted.get(flag) is True}
    uris = wanted.get("resourceSubscriptions")
    if uris is not None:
        if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
            raise RemoteError(INVALID_PARAMS, "notifications.resourceSubscriptions: must be a list of URIs")
        if len(uris) > MAX_ITEMS:
            raise RemoteError(INVALID_PARAMS, f"notifications.resourceSubscriptions: more than {MAX_ITEMS} URIs")
        watched["resourceSubscriptions"] = [uri for uri in dict.fromkeys(uris) if knows(uri)]
    return watched
