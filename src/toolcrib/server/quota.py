"""Limits on subscriptions: how many listens an endpoint holds open, and how much memory their URIs take.

`subscriptions/listen` and `resources/subscribe` cost the client one small message and the server memory for as long as
the connection or session lives. Every endpoint therefore counts them, per principal and in total.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any, Final

from ..errors import RemoteError
from ..protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from ..protocol.limits import MAX_ITEMS
from ..types import Wire
from .handler import principal_key
from .json_copy import size_of

MAX_LISTENS: Final = 10_000
"""Open `subscriptions/listen` requests of one endpoint."""
MAX_LISTENS_PER_PRINCIPAL: Final = 1_000
MAX_URI: Final = 8_192
"""Characters of a URI that a client subscribes to."""
MAX_SUBSCRIBED_URIS: Final = MAX_ITEMS
"""URIs of one `subscriptions/listen`, or of one legacy session."""
MAX_SUBSCRIBER_BYTES: Final = 4 * 1024 * 1024
"""Memory for one `subscriptions/listen`, or for the subscriptions of one legacy session."""
MAX_PRINCIPAL_BYTES: Final = 8 * 1024 * 1024
"""Memory for all subscriptions of one principal."""
MAX_SUBSCRIPTION_BYTES: Final = 32 * 1024 * 1024
"""Memory for all subscriptions of one endpoint."""
URI_OVERHEAD: Final = 512
"""Bytes that a subscription takes besides the text of its URI."""


class SubscriptionLimit(RemoteError):
    """The endpoint or the principal has too many subscriptions; the same request may succeed later."""


class SubscriptionQuota:
    """Counts the subscriptions of one endpoint.

    Anonymous clients share only the limits of the endpoint: without `auth` they cannot be distinguished, and one of
    them could use up a lower limit for all.
    """

    def __init__(self, max_listens: int = MAX_LISTENS) -> None:
        self._max_listens = max_listens
        self._all_listens = self._all_bytes = 0
        self._listens: Counter[Hashable] = Counter()
        self._bytes: Counter[Hashable] = Counter()

    def add(self, principal: Any, *, listens: int = 0, size: int = 0) -> None:
        """Count one more subscription; raises `SubscriptionLimit`, and counts nothing, if that exceeds a limit."""
        owner = principal_key(principal)
        exceeded = (
            self._all_listens + listens > self._max_listens
            or self._all_bytes + size > MAX_SUBSCRIPTION_BYTES
            or (
                principal is not None
                and (
                    self._listens[owner] + listens > MAX_LISTENS_PER_PRINCIPAL
                    or self._bytes[owner] + size > MAX_PRINCIPAL_BYTES
                )
            )
        )
        if exceeded:
            raise SubscriptionLimit(INTERNAL_ERROR, "too many subscriptions at once; try again later")
        self._all_listens += listens
        self._all_bytes += size
        self._listens[owner] += listens
        self._bytes[owner] += size

    def remove(self, principal: Any, *, listens: int = 0, size: int = 0) -> None:
        """Undo one `add`."""
        owner = principal_key(principal)
        self._all_listens -= listens
        self._all_bytes -= size
        for counter, amount in ((self._listens, listens), (self._bytes, size)):
            counter[owner] -= amount
            if counter[owner] <= 0:
                del counter[owner]


def check_uri(uri: Any, key: str = "uri") -> str:
    """Return `uri` if a client may subscribe to it; raises -32602 otherwise."""
    if not isinstance(uri, str) or len(uri) > MAX_URI:
        raise RemoteError(INVALID_PARAMS, f"{key}: must be a string of at most {MAX_URI:,} characters")
    return uri


def memory_of(uri: str) -> int:
    """Return about how many bytes a legacy subscription to `uri` takes."""
    return len(uri) + URI_OVERHEAD


def check_listen(params: Wire) -> int:
    """Return about how many bytes an open `subscriptions/listen` takes; raises -32602 if its params are invalid.

    All of its params stay in memory until it ends, so all of them count.
    """
    wanted, key = params.get("notifications"), "notifications.resourceSubscriptions"
    if not isinstance(wanted, dict):
        raise RemoteError(INVALID_PARAMS, "notifications: must be an object")
    uris = wanted.get("resourceSubscriptions")
    if uris is None:
        uris = []
    if not isinstance(uris, list):
        raise RemoteError(INVALID_PARAMS, f"{key}: must be a list of URIs")
    if len(uris) > MAX_SUBSCRIBED_URIS:
        raise RemoteError(INVALID_PARAMS, f"{key}: more than {MAX_SUBSCRIBED_URIS} URIs")
    for uri in uris:
        check_uri(uri, key)
    size = size_of(params) + URI_OVERHEAD * len(uris)
    if size > MAX_SUBSCRIBER_BYTES:
        raise RemoteError(INVALID_PARAMS, f"{key}: the request takes more than {MAX_SUBSCRIBER_BYTES:,} bytes")
    return size


class ByteBudget:
    """Counts the bytes of requests that the server holds in memory."""

    __slots__ = ("_limit", "used")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.used = 0

    def has_room_for(self, size: int) -> bool:
        """Return whether `size` more bytes fit. A single request of any size does, if nothing else is counted."""
        return not self.used or self.used + size <= self._limit

    def add(self, size: int) -> None:
        """Count `size` more bytes."""
        self.used += size

    def remove(self, size: int) -> None:
        """Undo one `add`."""
        self.used -= size
