"""The frozen values that Toolcrib's functions take and return.

Values from the protocol keep their original form in `raw` and also support `value["wireName"]` and
`value.get("wireName")`, so that code written for plain dicts keeps working and fields of newer servers are not lost.
"""

from .client_requests import Change, ElicitRequest, ElicitResult, LogMessage, Root, SamplingRequest, SamplingResult
from .content import (
    AudioContent,
    Block,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    UnknownContent,
    block_from_wire,
)
from .prompts import Completion, GetPromptResult, Prompt, PromptArgument, PromptMessage
from .resources import ReadResourceResult, Resource, ResourceTemplate
from .server import ConnectionState, ConnectionStatus, FilterContext, ReconnectPolicy, ServerInfo
from .tools import Tool, ToolResult
from .wire import UNSET, Unset, Wire

__all__ = [
    "UNSET",
    "AudioContent",
    "Block",
    "Change",
    "Completion",
    "ConnectionState",
    "ConnectionStatus",
    "ElicitRequest",
    "ElicitResult",
    "EmbeddedResource",
    "FilterContext",
    "GetPromptResult",
    "ImageContent",
    "LogMessage",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "ReadResourceResult",
    "ReconnectPolicy",
    "Resource",
    "ResourceContents",
    "ResourceLink",
    "ResourceTemplate",
    "Root",
    "SamplingRequest",
    "SamplingResult",
    "ServerInfo",
    "TextContent",
    "Tool",
    "ToolResult",
    "UnknownContent",
    "Unset",
    "Wire",
    "block_from_wire",
]
