"""The configuration of a source, as values: where its tools come from, and how its connections are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class SourceTransport(StrEnum):
    """How a source is connected. The values are those of `mcp_transport_type`."""

    STDIO = "stdio"
    SSE = "sse"
    STREAMABLE_HTTP = "streamable_http"


class LifecycleMode(StrEnum):
    """Whether a connection is kept. The values are those of `mcp_lifecycle_mode`."""

    TRANSIENT = "transient"
    """A connection, and so a process, is made for each call and closed after it."""
    SINGLETON = "singleton"
    """A connection is kept and used by many calls."""


class ReviewPolicy(StrEnum):
    """Which new and changed tools wait for a decision before they can be called."""

    FOLLOW = "follow"
    """None; changes are recorded and shown."""
    REVIEW_CHANGES = "review_changes"
    """Those that differ from what the registration listed."""
    REVIEW_ALL = "review_all"
    """All."""


@dataclass(frozen=True, slots=True)
class EnvironmentVariable:
    """A variable (or, for a remote source, a header) that a manifest or an operator defines."""

    name: str
    description: str = ""
    required: bool = False
    secret: bool = False
    default: str | None = None
    personal: bool = False
    """Each principal has its own value; there is no shared one."""


@dataclass(frozen=True, slots=True)
class PackageInfo:
    """The package that a source runs."""

    registry: str
    identifier: str
    version: str | None = None
    integrity: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """The complete configuration of a source.

    The first nine fields have the names and meanings of `McpSourceConfig` in the MCP Tools Provider. For a remote
    source, `environment` holds headers.
    """

    manifest_path: str = ""
    plugin_dir: str = ""
    transport_type: SourceTransport = SourceTransport.STDIO
    lifecycle_mode: LifecycleMode = LifecycleMode.SINGLETON
    runtime_hint: str = ""
    command: tuple[str, ...] = ()
    """The complete command line; empty for a remote source."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    env_definitions: tuple[EnvironmentVariable, ...] = ()
    server_url: str | None = field(default=None, repr=False)
    url: str = ""
    """The `url` of the registration; informative only."""
    cwd: str | None = None
    pass_environment: tuple[str, ...] = ()
    """Names of variables that are taken from the environment of this process."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the server config, such as `connect_timeout`, `verify` or `retry_safe`, as JSON values."""
    stateless: bool = False
    """The operator states that the source keeps no state of its callers, so that principals may share a connection."""
    per_session: bool = False
    """Each session of a caller has its own connection."""
    review: ReviewPolicy = ReviewPolicy.FOLLOW
    validate_arguments: bool = False
    health_interval: float | None = None
    refresh_interval: float | None = 3600.0
    idle_seconds: float = 300.0
    allow_private: bool = True
    """Whether a remote source may be at a loopback, private or link-local address; checked at connect time."""
    package: PackageInfo | None = None
    warnings: tuple[str, ...] = ()
    """Advice about the registration, such as an unpinned package."""

    @property
    def is_remote(self) -> bool:
        """Whether the server runs independently of this process."""
        return not self.command

    @property
    def personal_slots(self) -> tuple[str, ...]:
        """The names of the variables or headers of which each principal has its own value."""
        return tuple([each.name for each in self.env_definitions if each.personal]) if self.env_definitions else ()
