"""A client for one try: what fails is told, not tried again, and nothing is tried that the settings do not name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..client.client import Client
from ..config import ServerConfig, StdioServer, as_singleton
from ..transports.channel import Channel, Counters
from ..transports.factory import open_channel
from ..types import ReconnectPolicy


@dataclass(frozen=True, slots=True)
class _AsGiven:
    """A server by the way that its config names and no other: a client would quietly try the older one too."""

    config: ServerConfig

    def make_channel(self) -> Channel:
        return open_channel(self.config, Counters(), None)


def client_for(
    config: ServerConfig, name: str, timeout: float, on_stderr: Callable[[str], object] | None = None
) -> Client:
    """A client that is not connected yet; `on_stderr` is called with each line that its process writes there."""
    target = as_singleton(config) if isinstance(config, StdioServer) else _AsGiven(config)
    once = ReconnectPolicy(max_retries=0)
    rounded = max(0.1, round(timeout, 1))  # a person reads it, if it passes
    return Client(target, name=name, connect_timeout=rounded, max_attempts=1, reconnect=once, stderr_handler=on_stderr)
