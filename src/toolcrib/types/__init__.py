"""The frozen values that Toolcrib takes and gives.

What came over the wire keeps its wire form in `raw` and also answers `value["wireName"]` and `value.get("wireName")`,
so code written for plain dicts goes on working and no field that a newer server sends is lost.
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
