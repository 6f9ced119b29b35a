"""Tools for OpenAI's Chat Completions API, and the many servers that speak it.

    tools = openai_chat.tools(hub)
    response = await client.chat.completions.create(model=..., tools=tools, messages=messages)
    messages += [response.choices[0].message, *await openai_chat.results(hub, response)]

The API takes no images in tool messages: they follow in a user message.
"""

from __future__ import annotations

from typing import Any, Final, Literal, Unpack

from .answers import ContentPart
from .model_calls import (
    AnyTools,
    CallOutcome,
    ModelCall,
    ResultOptions,
    ToolList,
    given_calls,
    offer_tools,
    read,
    read_list,
    run_calls,
    run_calls_sync,
    with_own_search,
)
from .model_content import answer_text, describe, is_image, media_type, shown_parts
from .schemas import Target
from .tool_source import AnySource
from .toolbox import Toolbox, ToolSpec

_TARGET: Final[Target] = "openai"


def tools(
    source: AnyTools,
    *,
    strict: bool = False,
    deferred: bool = False,
    search: Literal["own"] | None = "own",
    read_more: bool = False,
) -> ToolList:
    """Return the tools for `chat.completions.create(tools=...)`.

    `strict` uses the strict mode for every tool whose schema allows it; `losses` says why another one does not.

    `deferred` adds, if there are deferred tools, two tools with which the model finds and calls them, and which
    `results` answers; with `search=None`, it adds the deferred tools themselves. `read_more` adds the tool that reads
    the rest of results that `max_result_tokens` cut.
    """
    target: Target = "openai-strict" if strict else _TARGET
    offer = offer_tools(source, target, deferred=deferred, read_more=read_more)
    return ToolList(map(_tool, with_own_search(offer, target, search)), offer.losses)


def calls(response: Any) -> list[ModelCall]:
    """Return the function calls of a response (of its first choice), a message or a list of tool calls."""
    choices = [] if isinstance(response, list) else read_list(response, "choices")
    message = read(choices[0], "message") if choices else response
    return given_calls(response) or [
        ModelCall(read(call, "id") or "", read(function, "name") or "", read(function, "arguments"))
        for call in read_list(message, "tool_calls")
        if (function := read(call, "function")) is not None
    ]


async def results(source: AnySource | Toolbox, response: Any, **options: Unpack[ResultOptions]) -> list[dict[str, Any]]:
    """Make the calls of a response, concurrently, and return messages: one for each call, and one with the images."""
    return _messages(await run_calls(source, calls(response), _TARGET, **options))


def results_sync(source: AnySource | Toolbox, response: Any, **options: Unpack[ResultOptions]) -> list[dict[str, Any]]:
    """Do the same as `results`, and block this thread meanwhile; for the sources of `toolcrib.sync`."""
    return _messages(run_calls_sync(source, calls(response), _TARGET, **options))


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.input_schema,
        "strict": spec.strict,
    }
    return {"type": "function", "function": function}


def _messages(outcomes: list[CallOutcome]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    images: list[dict[str, Any]] = []
    for outcome in outcomes:
        parts: list[ContentPart] = []
        for part in shown_parts(outcome.answer):
            if not is_image(part):
                parts.append(part)
                continue
            label = f"image {len(images) // 2 + 1}"
            url = f"data:{media_type(part)};base64,{part.base64}"
            images.append({"type": "text", "text": f"{label}, from the result of {outcome.call.id}:"})
            images.append({"type": "image_url", "image_url": {"url": url}})
            parts.append(ContentPart("text", f"{describe(part)} ({label} in the message after the tool results)"))
        text = answer_text(outcome.answer, parts)
        messages.append({"role": "tool", "tool_call_id": outcome.call.id, "content": text})
    return [*messages, {"role": "user", "content": images}] if images else messages
