"""Tools for OpenAI's Responses API.

    tools = openai_responses.tools(hub)
    response = await client.responses.create(model=..., tools=tools, input=items)
    items += [*response.output, *await openai_responses.results(hub, response)]

The API has no flag for errors: the text of an error begins with `Error`.
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
    given_calls,
    offer_tools,
    own_spec,
    read,
    read_list,
    run_calls,
    run_calls_sync,
)
from .model_content import DOCUMENT_FORMATS, answer_text, describe, file_name, is_image, media_type, shown_parts
from .schemas import Target
from .tool_source import AnySource
from .toolbox import Toolbox, ToolSpec

_TARGET: Final[Target] = "openai"


def tools(
    source: AnyTools,
    *,
    strict: bool = False,
    deferred: bool = False,
    search: Literal["server", "own"] | None = "server",
    read_more: bool = False,
) -> ToolList:
    """Return the tools for `responses.create(tools=...)`.

    `strict` uses the strict mode for every tool whose schema allows it; `losses` says why another one does not.

    `deferred` adds, if there are deferred tools, a search for them: OpenAI's server makes it, among the deferred tools
    with `defer_loading` (`server`), or `results` answers it (`own`). `read_more` adds the tool that reads the rest of
    results that `max_result_tokens` cut.
    """
    target: Target = "openai-strict" if strict else _TARGET
    offer = offer_tools(source, target, deferred=deferred, read_more=read_more)
    found = ToolList(map(_tool, offer.loaded), offer.losses)
    if offer.deferred and search == "own":
        own = own_spec(SEARCH, _TARGET, ())
        client = {"execution": "client", "description": own.description, "parameters": own.input_schema}
        found.append({"type": "tool_search", **client})
        return found
    if offer.deferred and search == "server":
        found.append({"type": "tool_search", "execution": "server"})
    found += map(_tool, offer.deferred)
    return found


def calls(response: Any) -> list[ModelCall]:
    """Return the function calls of a response or of a list of items, and the searches that the program must answer."""
    return given_calls(response) or [
        call for item in read_list(response, "output") if (call := _call(item)) is not None
    ]


async def results(source: AnySource | Toolbox, response: Any, **options: Unpack[ResultOptions]) -> list[dict[str, Any]]:
    """Make the calls of a response, concurrently, and return `function_call_output` items in their order."""
    return [_item(outcome) for outcome in await run_calls(source, calls(response), _TARGET, **options)]


def results_sync(source: AnySource | Toolbox, response: Any, **options: Unpack[ResultOptions]) -> list[dict[str, Any]]:
    """Do the same as `results`, and block this thread meanwhile; for the sources of `toolcrib.sync`."""
    return [_item(outcome) for outcome in run_calls_sync(source, calls(response), _TARGET, **options)]


def _tool(spec: ToolSpec) -> dict[str, Any]:
    tool = {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.input_schema,
        "strict": spec.strict,
    }
    return {**tool, "defer_loading": True} if spec.deferred else tool


def _call(item: Any) -> ModelCall | None:
    call_id, arguments = read(item, "call_id") or "", read(item, "arguments")
    match read(item, "type"):
        case "function_call":
            return ModelCall(call_id, read(item, "name") or "", arguments)
        case "tool_search_call" if read(item, "execution") == "client":
            return ModelCall(call_id, SEARCH.name, arguments, "search")
        case _:
            return None


def _item(outcome: CallOutcome) -> dict[str, Any]:
    call = outcome.call
    if call.kind == "search":
        found = [_tool(spec) for spec in outcome.found or ()]
        state = {"execution": "client", "status": "completed"}
        return {"type": "tool_search_output", "call_id": call.id, **state, "tools": found}
    content = [_content(part) for part in shown_parts(outcome.answer)]
    only_text = all(block["type"] == "input_text" for block in content)
    if outcome.answer.is_error and not only_text:
        content.insert(0, {"type": "input_text", "text": "Error:"})
    output = answer_text(outcome.answer) if only_text else content
    return {"type": "function_call_output", "call_id": call.id, "output": output}


def _content(part: ContentPart) -> dict[str, Any]:
    mime_type = media_type(part)
    url = f"data:{mime_type};base64,{part.base64}"
    if is_image(part):
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    if part.kind == "file" and part.data and mime_type in DOCUMENT_FORMATS:
        return {"type": "input_file", "filename": file_name(part, DOCUMENT_FORMATS[mime_type]), "file_data": url}
    return {"type": "input_text", "text": describe(part)}
