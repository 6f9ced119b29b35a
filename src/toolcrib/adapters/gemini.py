"""Tools for Google's Gemini API, and Gemini on Vertex AI.

    tools = gemini.tools(hub)
    response = await client.aio.models.generate_content(model=..., contents=contents, config={"tools": tools})
    contents += [response.candidates[0].content, *await gemini.results(hub, response)]

Structured data is sent as an object; images, audio, video and PDF files as parts of the response.
"""

from __future__ import annotations

from typing import Any, Final, Literal, Unpack

from ..types import Unset
from .model_calls import (
    AnyTools,
    CallOutcome,
    ModelCall,
    ResultOptions,
    ToolList,
    ToolLoss,
    given_calls,
    offer_tools,
    read,
    read_list,
    run_calls,
    run_calls_sync,
    with_own_search,
)
from .model_content import EMPTY, describe, is_gemini_media, media_type, split_data
from .schemas import Target
from .tool_source import AnySource
from .toolbox import Toolbox, ToolSpec

_TARGET: Final[Target] = "gemini"


def tools(
    source: AnyTools,
    *,
    strict: bool = False,
    deferred: bool = False,
    search: Literal["own"] | None = "own",
    read_more: bool = False,
    dialect: Literal["json-schema", "openapi"] = "json-schema",
) -> ToolList:
    """Return a list for `tools` of a request: one entry with all function declarations, or none without tools.

    `dialect="openapi"` declares arguments in `parameters`, for the Live API. Gemini has no strict mode: `strict` only
    adds a loss for each tool; use the mode `VALIDATED` of `functionCallingConfig` instead.

    `deferred` adds, if there are deferred tools, two tools with which the model finds and calls them, and which
    `results` answers; with `search=None`, it adds the deferred tools themselves. `read_more` adds the tool that reads
    the rest of results that `max_result_tokens` cut.
    """
    target: Target = _TARGET if dialect == "json-schema" else "gemini-openapi"
    offer = offer_tools(source, target, deferred=deferred, read_more=read_more)
    specs = with_own_search(offer, target, search)
    field = "parametersJsonSchema" if dialect == "json-schema" else "parameters"
    declarations = [_declaration(spec, field) for spec in specs]
    found = ToolList([{"functionDeclarations": declarations}] if declarations else [], offer.losses)
    if strict:
        action = "ignored: set the mode VALIDATED in functionCallingConfig"
        found.losses += [ToolLoss(spec.name, "", "strict", action) for spec in specs]
    return found


def calls(response: Any) -> list[ModelCall]:
    """Return the function calls of a response (of its first candidate), a content, or a list of parts.

    A message of the Live API with function calls is a response too.
    """
    candidates = [] if isinstance(response, list) else read_list(response, "candidates")
    content = read(candidates[0], "content") if candidates else response
    found = [read(part, "functionCall", "function_call") for part in read_list(content, "parts")]
    if not found and not candidates and not isinstance(response, list):
        found = read_list(read(response, "toolCall", "tool_call") or response, "functionCalls", "function_calls")
    return given_calls(response) or [
        ModelCall(read(call, "id") or "", read(call, "name") or "", read(call, "args"))
        for call in found
        if call is not None
    ]


async def results(source: AnySource | Toolbox, response: Any, **options: Unpack[ResultOptions]) -> list[dict[str, Any]]:
    """Make the calls of a response, concurrently, and return a list with one content, or none without calls."""
    return _contents(await run_calls(source, calls(response), _TARGET, **options))


def results_sync(source: AnySource | Toolbox, response: Any, **options: Unpack[ResultOptions]) -> list[dict[str, Any]]:
    """Do the same as `results`, and block this thread meanwhile; for the sources of `toolcrib.sync`."""
    return _contents(run_calls_sync(source, calls(response), _TARGET, **options))


def _declaration(spec: ToolSpec, field: str) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, field: spec.input_schema}


def _contents(outcomes: list[CallOutcome]) -> list[dict[str, Any]]:
    parts = [{"functionResponse": _response(outcome)} for outcome in outcomes]
    return [{"role": "user", "parts": parts}] if parts else []


def _response(outcome: CallOutcome) -> dict[str, Any]:
    parts, data = split_data(outcome.answer)
    media, texts = [], []
    for part in parts:
        if is_gemini_media(part):
            media.append({"inlineData": {"mimeType": media_type(part), "data": part.base64}})
        else:
            texts.append(describe(part))
    text = "\n".join(texts) or ("" if media else EMPTY)
    output = text if isinstance(data, Unset) else {"text": "\n".join(texts), "data": data} if texts else data
    response: dict[str, Any] = {
        "name": outcome.call.name,
        "response": {"error" if outcome.answer.is_error else "output": output},
    }
    if outcome.call.id:
        response["id"] = outcome.call.id
    if media:
        response["parts"] = media
    return response
