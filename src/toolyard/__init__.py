"""Toolyard: all of an agent's MCP tools through one yard.

Names are loaded when they are first used, so that `import toolyard` costs nothing that the program does not need.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__ as __version__

if TYPE_CHECKING:
    # The same names for type checkers; a test keeps the two lists equal.
    from . import defaults as defaults
    from . import events as events
    from . import sync as sync
    from .client.client import Client as Client
    from .client.options import ClientOptions as ClientOptions
    from .config import HttpServer as HttpServer
    from .config import PythonServer as PythonServer
    from .config import ServerConfig as ServerConfig
    from .config import SseServer as SseServer
    from .config import StdioServer as StdioServer
    from .config import TransportType as TransportType
    from .config import server_from_dict as server_from_dict
    from .config import server_from_json as server_from_json
    from .errors import AccessDenied as AccessDenied
    from .errors import AuthError as AuthError
    from .errors import CallTimeout as CallTimeout
    from .errors import ConfigError as ConfigError
    from .errors import ConnectError as ConnectError
    from .errors import ConnectionLost as ConnectionLost
    from .errors import NotFound as NotFound
    from .errors import NotText as NotText
    from .errors import OutcomeUnknown as OutcomeUnknown
    from .errors import ProtocolError as ProtocolError
    from .errors import RateLimited as RateLimited
    from .errors import RemoteError as RemoteError
    from .errors import ResourceNotFound as ResourceNotFound
    from .errors import ServerNotFound as ServerNotFound
    from .errors import SessionExpired as SessionExpired
    from .errors import StartError as StartError
    from .errors import ToolFailed as ToolFailed
    from .errors import ToolNotFound as ToolNotFound
    from .errors import ToolyardError as ToolyardError
    from .errors import TransportError as TransportError
    from .errors import UnansweredTimeout as UnansweredTimeout
    from .errors import UsageError as UsageError
    from .hub.hub import Hub as Hub
    from .hub.pipeline import Call as Call
    from .hub.pipeline import Proceed as Proceed
    from .hub.plan import HubOptions as HubOptions
    from .hub.plan import ServerOptions as ServerOptions
    from .hub.resources import ResourceQuery as ResourceQuery
    from .hub.state import ServerState as ServerState
    from .hub.tokens import estimate_tokens as estimate_tokens
    from .hub.tokens import tokens_by_server as tokens_by_server
    from .hub.toolsets import ToolLoadConfig as ToolLoadConfig
    from .hub.toolsets import Toolset as Toolset
    from .hub.view import View as View
    from .policy.arguments import clean_tool_arguments as clean_tool_arguments
    from .policy.filters import dynamic_filter as dynamic_filter
    from .policy.filters import static_filter as static_filter
    from .server.context import BlockingContext as BlockingContext
    from .server.context import Context as Context
    from .server.registry import ServerRegistry as ServerRegistry
    from .server.server import ToolServer as ToolServer
    from .server.tool import tool as tool
    from .settings import ServerEntry as ServerEntry
    from .settings import Settings as Settings
    from .settings import discover_settings as discover_settings
    from .settings import load_settings as load_settings
    from .settings import parse_settings as parse_settings
    from .transports.memory import MemoryStream as MemoryStream
    from .transports.memory import MessageStream as MessageStream
    from .transports.opening import ServerLike as ServerLike
    from .types import Audio as Audio
    from .types import Change as Change
    from .types import Completion as Completion
    from .types import ElicitRequest as ElicitRequest
    from .types import ElicitResult as ElicitResult
    from .types import EmbeddedResource as EmbeddedResource
    from .types import FilterContext as FilterContext
    from .types import Image as Image
    from .types import LogMessage as LogMessage
    from .types import Prompt as Prompt
    from .types import PromptArgument as PromptArgument
    from .types import PromptMessage as PromptMessage
    from .types import PromptResult as PromptResult
    from .types import ReconnectPolicy as ReconnectPolicy
    from .types import Resource as Resource
    from .types import ResourceContent as ResourceContent
    from .types import ResourceContents as ResourceContents
    from .types import ResourceLink as ResourceLink
    from .types import ResourceTemplate as ResourceTemplate
    from .types import Root as Root
    from .types import SampleResult as SampleResult
    from .types import SamplingRequest as SamplingRequest
    from .types import ServerInfo as ServerInfo
    from .types import State as State
    from .types import Status as Status
    from .types import Text as Text
    from .types import Tool as Tool
    from .types import ToolResult as ToolResult
    from .types import UnknownBlock as UnknownBlock

_ROOMS = {
    "client.client": ("Client",),
    "client.options": ("ClientOptions",),
    "config": (
        "HttpServer",
        "PythonServer",
        "ServerConfig",
        "SseServer",
        "StdioServer",
        "TransportType",
        "server_from_dict",
        "server_from_json",
    ),
    "errors": (
        "AccessDenied",
        "AuthError",
        "CallTimeout",
        "ConfigError",
        "ConnectError",
        "ConnectionLost",
        "NotFound",
        "NotText",
        "OutcomeUnknown",
        "ProtocolError",
        "RateLimited",
        "RemoteError",
        "ResourceNotFound",
        "ServerNotFound",
        "SessionExpired",
        "StartError",
        "ToolFailed",
        "ToolNotFound",
        "ToolyardError",
        "TransportError",
        "UnansweredTimeout",
        "UsageError",
    ),
    "hub.hub": ("Hub",),
    "hub.view": ("View",),
    "hub.pipeline": ("Call", "Proceed"),
    "hub.plan": ("HubOptions", "ServerOptions"),
    "hub.tokens": ("estimate_tokens", "tokens_by_server"),
    "hub.state": ("ServerState",),
    "hub.toolsets": ("ToolLoadConfig", "Toolset"),
    "hub.resources": ("ResourceQuery",),
    "settings": ("ServerEntry", "Settings", "discover_settings", "load_settings", "parse_settings"),
    "policy.arguments": ("clean_tool_arguments",),
    "policy.filters": ("dynamic_filter", "static_filter"),
    "server.context": ("BlockingContext", "Context"),
    "server.registry": ("ServerRegistry",),
    "server.server": ("ToolServer",),
    "server.tool": ("tool",),
    "transports.memory": ("MemoryStream", "MessageStream"),
    "transports.opening": ("ServerLike",),
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
        "Root",
        "SampleResult",
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

_MODULES = ("defaults", "events", "sync")

__all__ = [*_HOME, "__version__", *_MODULES]  # noqa: PLE0604  # the table above is the one list of names

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    elif name in _MODULES:
        value = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
