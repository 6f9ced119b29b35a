"""Routes the notifications of a server: log messages, changes, and acknowledged subscriptions."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ..errors import ToolcribError
from ..events import Delivery
from ..protocol.metadata import LOG_LEVELS
from ..protocol.sanitize import Mask, one_line
from ..transports.channel import RequestOptions, mask_of
from ..types import Change, LogMessage, Wire
from .listing import Lister
from .options import ResolvedOptions
from .session import Session
from .subscriptions import ChangeFeed, ListKind, Subscriptions

log = logging.getLogger("toolcrib.client")
server_log = logging.getLogger("toolcrib.server")

LEVELS: Final = {
    "debug": logging.DEBUG,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}
"""Python's log levels for those of the protocol; the others are `INFO`."""
LISTS: Final[dict[str, ListKind]] = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}
MAX_LOGGED: Final = 4_000
"""Characters of a server's log message that are passed to Python's logging."""


class NotificationRouter:
    """The observer of a client's connection. It calls the parts of the client; none of them calls the router."""

    def __init__(
        self,
        settings: ResolvedOptions,
        lister: Lister,
        subscriptions: Subscriptions,
        feed: ChangeFeed,
        mask: Mask | None = None,
    ) -> None:
        self._settings = settings
        self._lister = lister
        self._subscriptions = subscriptions
        self._feed = feed
        self._mask = mask
        # Some servers ignore the level, and over HTTP messages from before it was set can arrive later.
        self._unwanted = LOG_LEVELS[: LOG_LEVELS.index(settings.wanted_log_level or "debug")]
        self._logs = Delivery(settings.log_handler or self._log_message, "log handler")

    def on_notification(self, method: str, params: Wire) -> None:
        """Pass a log message to the log handler, and a change to the feed."""
        if method == "notifications/message":
            level = str(params.get("level", "info"))
            if level not in self._unwanted:
                self._logs(LogMessage(level, params.get("data"), params.get("logger")))
        elif not self._subscriptions.is_current(params):
            return  # from a stream that was replaced: the new one reports the same changes
        elif method == "notifications/subscriptions/acknowledged":
            self._subscriptions.acknowledge()
        elif method in LISTS:
            self._feed.publish(Change(LISTS[method]))
        elif method == "notifications/resources/updated" and isinstance(params.get("uri"), str):
            self._feed.publish(Change("resource", params["uri"]))

    async def on_connected(self, session: Session) -> None:
        """Set the log level and renew the subscriptions, which belong to the connection."""
        self._mask = mask_of(session.channel) or self._mask  # also masks tokens that are not in the config
        settings, method = self._settings, session.agreement.era.log_level_method
        level = settings.wanted_log_level
        if level and method and "logging" in session.agreement.server.capabilities:
            timeout = settings.discovery_timeout
            deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
            try:
                await session.channel.request(method, {"level": level}, options=RequestOptions(deadline))
            except ToolcribError as exc:
                log.warning("%s: the log level could not be set: %s", settings.name, exc)
        await self._subscriptions.restore(session)

    def on_disconnected(self) -> None:
        """Discard the lists and the stream of the connection that ended."""
        self._lister.drop()
        self._subscriptions.forget()

    def _log_message(self, message: LogMessage) -> None:
        """Write a log message of the server to Python's logging, without secrets."""
        level = LEVELS.get(message.level, logging.INFO)
        if not server_log.isEnabledFor(level):
            return
        logger = one_line(str(message.logger or "server"), mask=self._mask)
        data = message.data if self._mask is None else self._mask.mask_data(message.data)
        server_log.log(level, "%s: %s", logger, one_line(repr(data), MAX_LOGGED))
