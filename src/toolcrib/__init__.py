"""Toolcrib connects Python agents to any number of MCP servers.

Names are loaded on first use, so that `import toolcrib` loads only what the program needs.
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
    from .catalog.tokens import estimate_tokens as estimate_tokens
    from .catalog.tokens import tokens_by_server as tokens_by_server
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
    from .errors import BinaryResource as BinaryResource
    from .errors import CallTimeout as CallTimeout
    from .errors import ConfigError as ConfigError
    from .errors import ConnectError as ConnectError
    from .errors import ConnectionLost as ConnectionLost
    from .errors import ConsentRefused as ConsentRefused
    from .errors import InvalidArguments as InvalidArguments
    from .errors import IssuerUnavailable as IssuerUnavailable
    from .errors import MissingCredential as MissingCredential
    from .errors import MissingVariables as MissingVariables
    from .errors import NotFound as NotFound
    from .errors import OutcomeUnknown as OutcomeUnknown
    from .errors import ProtocolError as ProtocolError
    from .errors import RateLimited as RateLimited
    from .errors import RemoteError as RemoteError
    from .errors import ResourceNotFound as ResourceNotFound
    from .errors import ReviewConflict as ReviewConflict
    from .errors import ServerNotFound as ServerNotFound
    from .errors import SessionExpired as SessionExpired
    from .errors import StartError as StartError
    from .errors import StoreError as StoreError
    from .errors import ToolcribError as ToolcribError
    from .errors import ToolFailed as ToolFailed
    from .errors import ToolNotFound as ToolNotFound
    from .errors import TransportError as TransportError
    from .errors import UnansweredTimeout as UnansweredTimeout
    from .errors import UsageError as UsageError
    from .hub.hub import Hub as Hub
    from .hub.interceptors import CallNext as CallNext
    from .hub.interceptors import ToolCall as ToolCall
    from .hub.resources import ResourceQuery as ResourceQuery
    from .hub.server_options import HubOptions as HubOptions
    from .hub.server_options import ServerOptions as ServerOptions
    from .hub.server_state import ServerState as ServerState
    from .hub.toolsets import ToolLoadConfig as ToolLoadConfig
    from .hub.toolsets import Toolset as Toolset
    from .hub.view import HubView as HubView
    from .oauth.introspection import Introspection as Introspection
    from .oauth.program_providers import ClientCredentials as ClientCredentials
    from .oauth.program_providers import CrossAppAccess as CrossAppAccess
    from .oauth.program_providers import JwtBearer as JwtBearer
    from .oauth.providers import OAuth as OAuth
    from .oauth.providers import SignInStatus as SignInStatus
    from .oauth.token_claims import TokenPrincipal as TokenPrincipal
    from .oauth.token_store import FileTokenStore as FileTokenStore
    from .oauth.token_store import MemoryTokenStore as MemoryTokenStore
    from .oauth.token_store import TokenStore as TokenStore
    from .oauth.token_verifier import TokenVerifier as TokenVerifier
    from .policy.argument_cleaning import clean_tool_arguments as clean_tool_arguments
    from .policy.filters import dynamic_filter as dynamic_filter
    from .policy.filters import static_filter as static_filter
    from .server.components.tools import tool as tool
    from .server.context import Context as Context
    from .server.context import SyncContext as SyncContext
    from .server.registry import ServerRegistry as ServerRegistry
    from .server.server import ToolServer as ToolServer
    from .settings import ServerEntry as ServerEntry
    from .settings import Settings as Settings
    from .settings import discover_settings as discover_settings
    from .settings import load_settings as load_settings
    from .settings import parse_settings as parse_settings
    from .transports.factory import ServerLike as ServerLike
    from .transports.message_stream import MemoryStream as MemoryStream
    from .transports.message_stream import MessageStream as MessageStream
    from .types import AudioContent as AudioContent
    from .types import Change as Change
    from .types import Completion as Completion
    from .types import ConnectionState as ConnectionState
    from .types import ConnectionStatus as ConnectionStatus
    from .types import ElicitRequest as ElicitRequest
    from .types import ElicitResult as ElicitResult
    from .types import EmbeddedResource as EmbeddedResource
    from .types import FilterContext as FilterContext
    from .types import GetPromptResult as GetPromptResult
    from .types import ImageContent as ImageContent
    from .types import LogMessage as LogMessage
    from .types import Prompt as Prompt
    from .types import PromptArgument as PromptArgument
    from .types import PromptMessage as PromptMessage
    from .types import ReadResourceResult as ReadResourceResult
    from .types import ReconnectPolicy as ReconnectPolicy
    from .types import Resource as Resource
    from .types import ResourceContents as ResourceContents
    from .types import ResourceLink as ResourceLink
    from .types import ResourceTemplate as ResourceTemplate
    from .types import Root as Root
    from .types import SamplingRequest as SamplingRequest
    from .types import SamplingResult as SamplingResult
    from .types import ServerInfo as ServerInfo
    from .types import TextContent as TextContent
    from .types import Tool as Tool
    from .types import ToolResult as ToolResult
    from .types import UnknownContent as UnknownContent

_NAMES = {
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
        "ConsentRefused",
        "InvalidArguments",
        "IssuerUnavailable",
        "MissingCredential",
        "MissingVariables",
        "NotFound",
        "BinaryResource",
        "OutcomeUnknown",
        "ProtocolError",
        "RateLimited",
        "RemoteError",
        "ResourceNotFound",
        "ReviewConflict",
        "ServerNotFound",
        "SessionExpired",
        "StartError",
        "StoreError",
        "ToolFailed",
        "ToolNotFound",
        "ToolcribError",
        "TransportError",
        "UnansweredTimeout",
        "UsageError",
    ),
    "hub.hub": ("Hub",),
    "hub.view": ("HubView",),
    "hub.interceptors": ("ToolCall", "CallNext"),
    "hub.server_options": ("HubOptions", "ServerOptions"),
    "catalog.tokens": ("estimate_tokens", "tokens_by_server"),
    "hub.server_state": ("ServerState",),
    "hub.toolsets": ("ToolLoadConfig", "Toolset"),
    "hub.resources": ("ResourceQuery",),
    "oauth.introspection": ("Introspection",),
    "oauth.program_providers": ("ClientCredentials", "CrossAppAccess", "JwtBearer"),
    "oauth.providers": ("OAuth", "SignInStatus"),
    "oauth.token_store": ("FileTokenStore", "MemoryTokenStore", "TokenStore"),
    "oauth.token_claims": ("TokenPrincipal",),
    "oauth.token_verifier": ("TokenVerifier",),
    "settings": ("ServerEntry", "Settings", "discover_settings", "load_settings", "parse_settings"),
    "policy.argument_cleaning": ("clean_tool_arguments",),
    "policy.filters": ("dynamic_filter", "static_filter"),
    "server.context": ("SyncContext", "Context"),
    "server.registry": ("ServerRegistry",),
    "server.server": ("ToolServer",),
    "server.components.tools": ("tool",),
    "transports.message_stream": ("MemoryStream", "MessageStream"),
    "transports.factory": ("ServerLike",),
    "types": (
        "AudioContent",
        "Change",
        "Completion",
        "ElicitRequest",
        "ElicitResult",
        "EmbeddedResource",
        "FilterContext",
        "ImageContent",
        "LogMessage",
        "Prompt",
        "PromptArgument",
        "PromptMessage",
        "GetPromptResult",
        "ReconnectPolicy",
        "Resource",
        "ResourceContents",
        "ReadResourceResult",
        "ResourceLink",
        "ResourceTemplate",
        "Root",
        "SamplingResult",
        "SamplingRequest",
        "ServerInfo",
        "ConnectionState",
        "ConnectionStatus",
        "TextContent",
        "Tool",
        "ToolResult",
        "UnknownContent",
    ),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

_MODULES = ("defaults", "events", "sync")

_FOREIGN_NAMES = {
    "Audio": "AudioContent",
    "CallToolResult": "ToolResult",
    "ClientSession": "Client",
    "ClientSessionGroup": "Hub",
    "FastMCP": "ToolServer",
    "File": "EmbeddedResource",
    "Image": "ImageContent",
    "MCPServer": "ToolServer",
    "McpError": "RemoteError",
    "MCPError": "RemoteError",
    "Server": "ToolServer",
    "SseServerParameters": "SseServer",
    "StdioServerParameters": "StdioServer",
    "StdioTransport": "StdioServer",
    "SSETransport": "SseServer",
    "StreamableHttpParameters": "HttpServer",
    "StreamableHttpServerParameters": "HttpServer",
    "StreamableHttpTransport": "HttpServer",
    "ToolError": "ToolFailed",
    "sse_client": "SseServer",
    "stdio_client": "StdioServer",
    "streamable_http_client": "HttpServer",
    "streamablehttp_client": "HttpServer",
}
"""Names of the packages `mcp` and `fastmcp`, with ours for the same thing: hints for names that do not exist here."""

__all__ = [*_HOME, "__version__", *_MODULES]  # noqa: PLE0604  # the table above is the one list of names

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    elif name in _MODULES:
        value = import_module(f".{name}", __name__)
    else:
        own = _FOREIGN_NAMES.get(name)
        hint = f"; toolcrib's name for it is {own!r}" if own is not None else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
