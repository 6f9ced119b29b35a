"""Toolyard: all of an agent's MCP tools through one yard.

Names are loaded when they are first used, so that `import toolyard` costs nothing that the program does not need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from . import events
    from .client.client import Client
    from .client.options import ClientOptions
    from .config import HttpServer, ServerConfig, SseServer, StdioServer, TransportType
    from .errors import (
        AccessDenied,
        AuthError,
        CallTimeout,
        ConfigError,
        ConnectError,
        ConnectionLost,
        NotFound,
        OutcomeUnknown,
        ProtocolError,
        RateLimited,
        RemoteError,
        ResourceNotFound,
        ServerNotFound,
        StartError,
        ToolFailed,
        ToolNotFound,
        ToolyardError,
        TransportError,
        UnansweredTimeout,
        UsageError,
    )
    from .policy.filters import dynamic_filter, static_filter
    from .transports.memory import MemoryStream, MessageStream
    from .types import (
        Audio,
        Change,
        Completion,
        ElicitRequest,
        ElicitResult,
        EmbeddedResource,
        FilterContext,
        Image,
        LogMessage,
        Prompt,
        PromptArgument,
        PromptMessage,
        PromptResult,
        ReconnectPolicy,
        Resource,
        ResourceContent,
        ResourceContents,
        ResourceLink,
        ResourceTemplate,
        SamplingRequest,
        ServerInfo,
        State,
        Status,
        Text,
        Tool,
        ToolResult,
        UnknownBlock,
    )

_ROOMS = {
    "client.client": ("Client",),
    "client.options": ("ClientOptions",),
    "config": ("HttpServer", "ServerConfig", "SseServer", "StdioServer", "TransportType"),
    "errors": (
        "AccessDenied",
        "AuthError",
        "CallTimeout",
        "ConfigError",
        "ConnectError",
        "ConnectionLost",
        "NotFound",
        "OutcomeUnknown",
        "ProtocolError",
        "RateLimited",
        "RemoteError",
        "ResourceNotFound",
        "ServerNotFound",
        "StartError",
        "ToolFailed",
        "ToolNotFound",
        "ToolyardError",
        "TransportError",
        "UnansweredTimeout",
        "UsageError",
    ),
    "policy.filters": ("dynamic_filter", "static_filter"),
    "transports.memory": ("MemoryStream", "MessageStream"),
    "types": (
        "Audio",
        "Change",
        "Completion",
        "ElicitRequest",
        "ElicitResult",
        "EmbeddedResource",
        "FilterContext",
        "Image",
        "LogMessage",
        "Prompt",
        "PromptArgument",
        "PromptMessage",
        "PromptResult",
        "ReconnectPolicy",
        "Resource",
        "ResourceContent",
        "ResourceContents",
        "ResourceLink",
        "ResourceTemplate",
        "SamplingRequest",
        "ServerInfo",
        "State",
        "Status",
        "Text",
        "Tool",
        "ToolResult",
        "UnknownBlock",
    ),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = sorted((*_HOME, "__version__", "events", "sync"))  # noqa: PLE0605  # the table above is the one list of names


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    elif name in ("events", "sync"):
        value = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
