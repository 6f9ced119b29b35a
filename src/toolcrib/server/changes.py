"""Who wants to hear of changes, and telling them: from any thread, each on the event loop where it watches."""

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
"""A notification's method, and the URI if it is about one resource."""


class ChangeWatch:
    """One who watches. What is published within a turn of its loop is told once."""

    __slots__ = ("_changes", "_deliver", "_due", "_loop", "accepted", "lists", "uris")

    def __init__(self, changes: ChangeWatchers, accepted: Wire, deliver: Deliver) -> None:
        self.accepted = accepted
        self.lists = frozenset(method for flag, method in LISTS.items() if flag in accepted)
        self.uris = frozenset(accepted.get("resourceSubscriptions", ()))
        self._changes = changes
        self._deliver = deliver
        self._due: dict[ChangeKey, None] = {}
        self._loop = asyncio.get_running_loop()

    def wants(self, notifications: ChangeKey) -> bool:
        """Whether it asked for this."""
        method, uri = notifications
        return method in self.lists if uri is None else uri in self.uris

    def note(self, notifications: ChangeKey) -> None:
        """From any thread, under the lock of all: to be told in the next turn of the loop."""
        if self._loop.is_closed():
            raise RuntimeError("the loop has ended, and the watch with it")
        if not self._due:
            self._loop.call_soon_threadsafe(self._tell)
        self._due[notifications] = None

    def _tell(self) -> None:
        for method, uri in self._changes.collect(self, self._due):
            try:
                self._deliver(method, {} if uri is None else {"uri": uri})
            except Exception:
                log.exception("a change could not be told")

    async def close(self) -> None:
        """Hear no more."""
        self._changes.leave(self)


class ChangeWatchers:
    """All who watch one server."""

    def __init__(self) -> None:
        self._watches: dict[ChangeWatch, None] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._watches)

    def watch(self, wanted: Any, deliver: Deliver, knows: Callable[[str], bool] = lambda _: True) -> ChangeWatch:
        """Begin to watch, on the running loop; `wanted` has the form of `subscriptions/listen`'s `notifications`.

        Of the resources only those that `knows` knows are watched.
        """
        watch = ChangeWatch(self, accepted(wanted, knows), deliver)
        with self._lock:
            self._watches[watch] = None
        return watch

    def publish(self, method: str, uri: str | None = None) -> None:
        """Tell all who asked for it; from any thread."""
        notifications = (method, uri)
        with self._lock:
            for watch in [watch for watch in self._watches if watch.wants(notifications)]:
                try:
                    watch.note(notifications)
                except RuntimeError:
                    del self._watches[watch]

    def collect(self, watch: ChangeWatch, due: dict[ChangeKey, None]) -> list[ChangeKey]:
        """What is to be told now; nothing to one that has left."""
        with self._lock:
            notifications = list(due) if watch in self._watches else []
            due.clear()
        return notifications

    def leave(self, watch: ChangeWatch) -> None:
        """Tell it nothing any more."""
        with self._lock:
            self._watches.pop(watch, None)


def accepted(wanted: Any, knows: Callable[[str], bool] = lambda _: True) -> Wire:
    """What of the wanted can be watched; raises -32602 if that is no wish at all."""
    if not isinstance(wanted, dict):
        raise RemoteError(INVALID_PARAMS, "notifications: must be an object")
    wishes: Wire = {flag: True for flag in LISTS if wanted.get(flag) is True}
    uris = wanted.get("resourceSubscriptions")
    if uris is not None:
        if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
            raise RemoteError(INVALID_PARAMS, "notifications.resourceSubscriptions: must be a list of URIs")
        if len(uris) > MAX_ITEMS:
            raise RemoteError(INVALID_PARAMS, f"notifications.resourceSubscriptions: more than {MAX_ITEMS} URIs")
        wishes["resourceSubscriptions"] = [uri for uri in dict.fromkeys(uris) if knows(uri)]
    return wishes
