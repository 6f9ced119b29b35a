"""The frozen values that Toolyard takes and gives.

What came over the wire keeps its wire form in `raw` and also answers `value["wireName"]` and `value.get("wireName")`,
so code written for plain dicts goes on working and no field that a newer server sends is lost.
"""

from .asked import Change, ElicitRequest, ElicitResult, LogMessage, Root, SampleResult, SamplingRequest
from .blocks import (
    Audio,
    Block,
    EmbeddedResource,
    Image,
    ResourceContent,
    ResourceLink,
    Text,
    UnknownBlock,
    block_from_wire,
)
from .listed import (
    Completion,
    Prompt,
    PromptArgument,
    PromptMessage,
    PromptResult,
    Resource,
    ResourceContents,
    ResourceTemplate,
)
from .server import FilterContext, ReconnectPolicy, ServerInfo, State, Status
from .tools import Tool, ToolResult
from .wire import UNSET, Unset, Wire

__all__ = [
    "UNSET",
    "Audio",
    "Block",
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
    "Unset",
    "Wire",
    "block_from_wire",
]
