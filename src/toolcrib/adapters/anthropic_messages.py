"""Tools for Anthropic's Messages API.

    tools = anthropic_messages.tools(hub)
    response = await client.messages.create(model=..., max_tokens=1024, tools=tools, messages=messages)
    messages += [
        {"role": "assistant", "content": response.content},
        {"role": "user", "content": await anthropic_messages.results(hub, response)},
    ]

All results of a response belong in one user message, before any text.
"""

from __future__ import annotations

from typing import Any, Final, Literal, Unpack

from ..hub.meta_tools import SEARCH
from .answers import ContentPart
from .model_calls import (
    AnyTools,
    CallOutcome,
    ModelCall,
    ResultOptions,
    ToolList,
    ToolLoss,
    given_calls,
    offer_tools,
    own_spec,
    read,
    read_list,
    run_calls,
    run_calls_sync,
)
from .model_content import describe, file_name, is_image, media_type, shown_parts
from .schemas import Target
from .tool_source import AnySource
from .toolbox import Toolbox, ToolSpec

MAX_STRICT_TOOLS: Final = 20
"""Strict tools that the API accepts in one request."""
MAX_FILE_BYTES: Final = 5 * 2**20 * 3 // 4
"""The size of an image that the API accepts: 5 MiB in Base64."""

_TARGET: Final[Target] = "anthropic"


def tools(
    source: AnyTools,
    *,
    strict: bool = False,
    deferred: bool = False,
    search: Literal["regex", "bm25", "own"] | None = "bm25",
    read_more: bool = False,
) -> ToolList:
    """Return the tools for `messages.create(tools=...)`.

    `strict` uses the strict mode for at most 20 tools whose schemas allow it; `losses` says why the others do not.

    `deferred` adds the deferred tools with `defer_loading` and, if there are any, a tool to find them: one of
    Anthropic (`regex`, `bm25`), or Toolcrib's own, which `results` answers. `read_more` adds the tool that reads the
    rest of results that `max_result_tokens` cut.
    """
    target: Target = "anthropic-strict" if strict else _TARGET
    offer = offer_tools(source, target, deferred=deferred, read_more=read_more)
    found = ToolList(losses=offer.losses)
    if offer.deferred and search == "own":
        offer.loaded.append(own_spec(SEARCH, target, offer.names))
    elif offer.deferred and search is not None:
        found.append({"type": f"tool_search_tool_{search}_20251119", "name": f"tool_search_tool_{search}"})
    left = MAX_STRICT_TOOLS if strict else 0
    for spec in (*offer.loaded, *offer.deferred):
        tool: dict[str, Any] = {"name": spec.name, "description": spec.description, "input_schema": spec.input_schema}
        if spec.strict and left > 0:
            tool["strict"] = True
            left -= 1
        elif strict and spec.strict:
            found.losses.append(ToolLoss(spec.name, "", "strict", f"omitted: more than {MAX_STRICT_TOOLS} tools"))
        if spec.deferred:
            tool["defer_loading"] = True
        found.append(tool)
    return found


def calls(response: Any) -> list[ModelCall]:
    """Return the `tool_use` blocks of a response, a message or a list of blocks."""
    return given_calls(response) or [
        ModelCall(read(block, "id") or "", read(block, "name") or "", read(block, "input"))
        for block in read_list(response, "content")
        if read(block, "type") == "tool_use"
    ]


async def results(source: AnySource | Toolbox, response: Any, **options: Unpack[ResultOptions]) -> list[dict[str, Any]]:
    """Make the calls of a response, concurrently, and return `tool_result` blocks in their order."""
    return [_result(outcome) for outcome in await run_calls(source, calls(response), _TARGET, **options)]


def results_sync(source: AnySource | Toolbox, response: Any, **options: Unpack[ResultOptions]) -> list[dict[str, Any]]:
    """Do the same as `results`, and block this thread meanwhile; for the sources of `toolcrib.sync`."""
    return [_result(outcome) for outcome in run_calls_sync(source, calls(response), _TARGET, **options)]


def _result(outcome: CallOutcome) -> dict[str, Any]:
    content = _references(outcome.found) or [_block(part) for part in shown_parts(outcome.answer)]
    result = {"type": "tool_result", "tool_use_id": outcome.call.id, "content": content}
    return {**result, "is_error": True} if outcome.answer.is_error else result


def _references(found: tuple[ToolSpec, ...] | None) -> list[dict[str, Any]]:
    return [{"type": "tool_reference", "tool_name": spec.name} for spec in found or ()]


def _block(part: ContentPart) -> dict[str, Any]:
    mime_type = media_type(part)
    source = {"type": "base64", "media_type": mime_type, "data": part.base64}
    if is_image(part, MAX_FILE_BYTES):
        return {"type": "image", "source": source}
    if mime_type == "application/pdf" and part.data:
        return {"type": "document", "title": file_name(part, "pdf"), "source": source}
    return {"type": "text", "text": describe(part)}
