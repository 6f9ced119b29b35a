"""A client for a single connection attempt, without retries and without falling back to another transport."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..client.client import Client
from ..config import ServerConfig, StdioServer, as_singleton
from ..transports.channel import Channel, Counters
from ..transports.factory import open_channel
from ..types import ReconnectPolicy


@dataclass(frozen=True, slots=True)
class _AsGiven:
    """A server that is reached only over the transport in its config; a client would also try the older one."""

    config: ServerConfig
    auth: Any = None

    def make_channel(self) -> Channel:
        return open_channel(self.config, Counters(), None, auth=self.auth)


def client_for(
    config: ServerConfig,
    name: str,
    timeout: float,
    on_stderr: Callable[[str], object] | None = None,
    auth: Any = None,
) -> Client:
    """Return a client that is not connected yet; `on_stderr` is called with each line of its process's stderr."""
    target = as_singleton(config) if isinstance(config, StdioServer) else _AsGiven(config, auth)
    once = ReconnectPolicy(max_retries=0)
    rounded = max(0.1, round(timeout, 1))  # the message of a time-out shows it
    return Client(target, name=name, connect_timeout=rounded, max_attempts=1, reconnect=once, stderr_handler=on_stderr)
