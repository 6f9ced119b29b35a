"""The activity of servers as one stream of values: messages, calls, status. `toolcrib watch` shows it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final

from ..config import SecretMask, ServerConfig, secrets_of
from ..diagnostics.tools import few
from ..errors import ToolcribError
from ..events import (
    ConnectionCompleted,
    ConnectionFailed,
    ConnectionStarted,
    Disconnected,
    Event,
    PromptsChanged,
    ResourcesChanged,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionStarted,
    ToolsChanged,
)
from ..hub.hub import Hub
from ..hub.interceptors import Approve
from ..hub.server_options import ServerOptions
from ..policy.filters import static_filter
from ..protocol.metadata import LogLevel
from ..settings import ServerEntry, Settings
from ..types import LogMessage, ReconnectPolicy
from .exit_codes import without_advice

PROMPT: Final = ReconnectPolicy(base_delay=0.5, max_delay=3.0)
"""Reconnects faster than by default, so that `watch` shows a server soon after it is back."""


@dataclass(frozen=True, slots=True)
class Activity:
    """One message, call or change of status; `facts` are for programs."""

    server: str
    kind: str
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    at: float = field(default_factory=time.time)

    def to_dict(self) -> dict[str, Any]:
        """Return the activity as JSON types."""
        return {"time": self.at, "server": self.server, "kind": self.kind, "text": self.text, **self.facts}


_LISTS: Final[dict[type[Event], str]] = {
    ToolsChanged: "tools",
    PromptsChanged: "prompts",
    ResourcesChanged: "resources",
}


class Monitor:
    """A hub of the servers of some settings, and a queue of their activities. Needs a running event loop."""

    def __init__(self, settings: Settings, *, level: LogLevel, approve: Approve) -> None:
        self._seen: asyncio.Queue[Activity] = asyncio.Queue()
        self._last_status: dict[str, str] = {}
        self._lists: dict[tuple[str, str], dict[str, Any]] = {}
        self.reached: set[str] = set()
        """The servers that were connected at least once."""
        self._secrets = {e.name: secrets_of(e.config) for e in settings.entries if e.config is not None}
        servers: dict[str, tuple[ServerConfig, ServerOptions]] = {}
        for entry in settings.entries:
            if entry.disabled:
                self.status(entry.name, "disabled", "disabled in its settings")
            elif entry.config is None:
                self.status(entry.name, "failed", message_of(entry.error))
            else:
                servers[entry.name] = (entry.config, self._options(entry, level))
        # Every change of status is reported as it happens, so the start does not wait for servers.
        chosen: dict[str, Any] = {"approve": approve, "on_error": "skip", "start": "eager", "start_timeout": None}
        self.hub = Hub(servers, **{**settings.defaults, **chosen})
        self.hub.on(Event, self._on_event)

    def _options(self, entry: ServerEntry, level: LogLevel) -> ServerOptions:
        rules = entry.allowed_tools is not None or entry.blocked_tools
        return {
            "reconnect": PROMPT,
            "log_level": level,
            "log_handler": partial(self._on_log, entry.name),
            "stderr_handler": partial(self._on_stderr, entry.name),
            "tool_filter": static_filter(entry.allowed_tools, entry.blocked_tools) if rules else None,
            "auth": entry.client_options.get("auth"),
        }

    async def next(self) -> Activity:
        """Wait for the next activity and return it."""
        return await self._seen.get()

    # ---- activities ------------------------------------------------------------------------------------------

    def tell(self, server: str, kind: str, text: str, **facts: Any) -> None:
        """Report an activity of a server, without the secrets of its config."""
        secrets = self._secrets.get(server, SecretMask())
        self._seen.put_nowait(Activity(server, kind, secrets.mask(text), secrets.mask_data(facts)))

    def status(self, server: str, state: str, text: str, **facts: Any) -> None:
        """Add a change of status; the same text twice in a row is added once."""
        if self._last_status.get(server) != text:
            self._last_status[server] = text
            self.tell(server, "status", text, state=state, **facts)

    def _on_log(self, server: str, message: LogMessage) -> None:
        said = message.data if isinstance(message.data, str) else _compact(message.data)
        who = f"{message.level} {message.logger}" if message.logger else message.level
        facts = {"level": message.level, "logger": message.logger, "data": message.data}
        self.tell(server, "log", f"[{who}] {said}", **facts)

    def _on_stderr(self, server: str, line: str) -> None:
        if line.strip():
            self.tell(server, "stderr", line)

    def on_progress(self, server: str, tool: str, done: float, total: float | None, message: str | None) -> None:
        """Add the progress of a call."""
        far = f"{done:g}" if total is None else f"{done:g}/{total:g}"
        text = f"{tool} {far}{f' {message}' if message else ''}"
        self.tell(server, "progress", text, tool=tool, progress=done, total=total, message=message)

    # ---- events of the hub -----------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        tell = self._REPORTERS.get(type(event))
        if tell is not None:
            tell(self, event)

    def _connecting(self, event: ConnectionStarted) -> None:
        if not event.is_reconnect and event.server not in self._last_status:
            self.status(event.server, "connecting", "connecting")

    def _connected(self, event: ConnectionCompleted) -> None:
        self.reached.add(event.server)
        again = " again" if event.is_reconnect else ""
        text = f"connected{again}: {event.protocol_version}, {event.duration:.2f} s"
        facts = {"protocol_version": event.protocol_version, "seconds": event.duration, "again": event.is_reconnect}
        self.status(event.server, "connected", text, **facts)

    def _failed(self, event: ConnectionFailed) -> None:
        self.status(event.server, "failed", f"no connection: {message_of(event.error)}")

    def _gone(self, event: Disconnected) -> None:
        self.status(event.server, "disconnected", f"disconnected: {event.reason}")

    def _called(self, event: ToolExecutionStarted) -> None:
        given = _compact(event.arguments or {})
        self.tell(event.server, "call", f"{event.tool} {given}", tool=event.tool, state="started")

    def _answered(self, event: ToolExecutionCompleted) -> None:
        verb = "failed" if event.is_error else "answered"
        facts = {"tool": event.tool, "state": verb, "seconds": event.duration}
        self.tell(event.server, "call", f"{event.tool} {verb} after {event.duration:.2f} s", **facts)

    def _not_answered(self, event: ToolExecutionFailed) -> None:
        facts = {"tool": event.tool, "state": "not answered", "seconds": event.duration}
        self.tell(event.server, "call", f"{event.tool} was not answered: {message_of(event.error)}", **facts)

    def _listed(self, event: Event) -> None:
        """Add which entries of a list are new, gone or changed."""
        kind = _LISTS[type(event)]
        state = next((each for each in self.hub.list_servers() if each.name == event.server), None)
        items = getattr(state, kind, ())
        before = self._lists.get((event.server, kind))
        now = {str(item.raw.get("uri" if kind == "resources" else "name")): item.raw for item in items}
        self._lists[event.server, kind] = now
        if before is None:
            if now:
                self.tell(event.server, kind, f"{len(now)}: {few(now)}", added=list(now), removed=[], changed=[])
            return
        added = [name for name in now if name not in before]
        removed = [name for name in before if name not in now]
        changed = [name for name in now if name in before and now[name] != before[name]]
        parts = (("+", added), ("-", removed), ("changed:", changed))
        text = "  ".join(f"{sign} {few(names)}" for sign, names in parts if names)
        if text:
            self.tell(event.server, kind, text, added=added, removed=removed, changed=changed)

    _REPORTERS: ClassVar[dict[type[Event], Callable[[Monitor, Any], None]]] = {
        ConnectionStarted: _connecting,
        ConnectionCompleted: _connected,
        ConnectionFailed: _failed,
        Disconnected: _gone,
        ToolExecutionStarted: _called,
        ToolExecutionCompleted: _answered,
        ToolExecutionFailed: _not_answered,
        **dict.fromkeys(_LISTS, _listed),
    }


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def message_of(error: BaseException | None) -> str:
    """Return the message of an error, without the names of server and tool."""
    return without_advice(error).message if isinstance(error, ToolcribError) else str(error or "cancelled")
