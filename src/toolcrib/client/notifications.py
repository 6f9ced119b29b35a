"""What a server tells of its own accord, and where each piece of it goes: caches first, then those who listen."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ..errors import ToolcribError
from ..events import Delivery, Listeners, ToolsChanged
from ..protocol.metadata import LOG_LEVELS
from ..protocol.sanitize import Mask, one_line
from ..transports.channel import RequestOptions, mask_of
from ..types import Change, LogMessage, Wire
from .listing import Lister
from .options import ResolvedOptions
from .session import Session
from .subscriptions import Subscriptions

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
"""The protocol's levels in Python's; the others are `INFO`."""
MAX_LOGGED: Final = 4_000
"""Characters of a server's log message that are passed to Python's logging."""


class NotificationRouter:
    """The observer of a client's connection."""

    lister: Lister
    subscriptions: Subscriptions

    def __init__(self, settings: ResolvedOptions, listeners: Listeners, mask: Mask | None = None) -> None:
        self._settings = settings
        self._listeners = listeners
        self._mask = mask
        # Some servers do not care, and over HTTP what they said before they were told arrives beside it.
        self._unwanted = LOG_LEVELS[: LOG_LEVELS.index(settings.wanted_log_level or "debug")]
        self._logs = Delivery(settings.log_handler or self._log_message, "log handler")

    def on_notification(self, method: str, params: Wire) -> None:
        """Sort what came."""
        if method == "notifications/message":
            level = str(params.get("level", "info"))
            if level not in self._unwanted:
                self._logs(LogMessage(level, params.get("data"), params.get("logger")))
        else:
            self.subscriptions.on_notification(method, params)

    def on_change(self, change: Change) -> None:
        """Something changed, or may have changed: what was listed is stale."""
        if change.kind != "resource":
            self.lister.drop(change.kind)
        if change.kind == "tools":
            self._listeners.emit(ToolsChanged(self._settings.name))

    async def on_connected(self, session: Session) -> None:
        """Restore what the server does not remember."""
        self._mask = mask_of(session.channel) or self._mask  # it knows tokens that no config has
        settings, method = self._settings, session.agreement.era.log_level_method
        level = settings.wanted_log_level
        if level and method and "logging" in session.agreement.server.capabilities:
            timeout = settings.discovery_timeout
            deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
            try:
                await session.channel.request(method, {"level": level}, options=RequestOptions(deadline))
            except ToolcribError as exc:
                log.warning("%s: the log level could not be set: %s", settings.name, exc)
        await self.subscriptions.restore(session)

    def on_disconnected(self) -> None:
        """What was listed may not be there any more."""
        self.lister.drop()
        self.subscriptions.forget()

    def _log_message(self, message: LogMessage) -> None:
        """Write what the server logs into our own log, without secrets."""
        level = LEVELS.get(message.level, logging.INFO)
        if not server_log.isEnabledFor(level):
            return
        logger = one_line(str(message.logger or "server"), mask=self._mask)
        data = message.data if self._mask is None else self._mask.mask_data(message.data)
        server_log.log(level, "%s: %s", logger, one_line(repr(data), MAX_LOGGED))
