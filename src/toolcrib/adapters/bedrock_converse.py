"""Tools for the Converse API of Amazon Bedrock.

    tools = bedrock_converse.tools(hub)
    response = client.converse(modelId=..., messages=messages, toolConfig={"tools": tools})
    messages += [
        response["output"]["message"],
        {"role": "user", "content": bedrock_converse.results_sync(hub, response)},
    ]

Images and documents in results are `bytes`, as boto3 takes them.
"""

from __future__ import annotations

import re
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
from .model_content import (
    DOCUMENT_FORMATS,
    IMAGE_FORMATS,
    describe,
    file_name,
    is_image,
    media_type,
    shown_parts,
    split_data,
)
from .schemas import Target
from .tool_source import AnySource
from .toolbox import Toolbox, ToolSpec

MAX_IMAGE_BYTES: Final = 3_750_000
"""The size of an image that the API accepts."""
MAX_DOCUMENT_BYTES: Final = 4_500_000
"""The size of a document that the API accepts."""

_TARGET: Final[Target] = "bedrock"
_DOCUMENTS: Final = frozenset({"pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"})


def tools(
    source: AnyTools,
    *,
    strict: bool = False,
    deferred: bool = False,
    search: Literal["own"] | None = "own",
    read_more: bool = False,
) -> ToolList:
    """Return the tools for `toolConfig={"tools": ...}`, which must not be empty.

    `strict` is for models that have a strict mode, such as Claude; the schemas then follow Anthropic's rules.

    `deferred` adds, if there are deferred tools, two tools with which the model finds and calls them, and which
    `results` answers; with `search=None`, it adds the deferred tools themselves. `read_more` adds the tool that reads
    the rest of results that `max_result_tokens` cut.
    """
    target: Target = "anthropic-strict" if strict else _TARGET
    offer = offer_tools(source, target, deferred=deferred, read_more=read_more)
    return ToolList(map(_tool, with_own_search(offer, target, search)), offer.losses)


def calls(response: Any) -> list[ModelCall]:
    """Return the `toolUse` blocks of a response, a message or a list of blocks, except those that Bedrock runs."""
    message = response if isinstance(response, list) else read(read(response, "output"), "message") or response
    blocks = [read(block, "toolUse") for block in read_list(message, "content")]
    return given_calls(response) or [
        ModelCall(read(use, "toolUseId") or "", read(use, "name") or "", read(use, "input"))
        for use in blocks
        if use is not None and read(use, "type") != "server_tool_use"
    ]


async def results(source: AnySource | Toolbox, response: Any, **options: Unpack[ResultOptions]) -> list[dict[str, Any]]:
    """Make the calls of a response, concurrently, and return `toolResult` blocks in their order."""
    return _blocks(await run_calls(source, calls(response), _TARGET, **options))


def results_sync(source: AnySource | Toolbox, response: Any, **options: Unpack[ResultOptions]) -> list[dict[str, Any]]:
    """Do the same as `results`, and block this thread meanwhile; for the sources of `toolcrib.sync`."""
    return _blocks(run_calls_sync(source, calls(response), _TARGET, **options))


def _tool(spec: ToolSpec) -> dict[str, Any]:
    tool = {"name": spec.name, "description": spec.description, "inputSchema": {"json": spec.input_schema}}
    return {"toolSpec": {**tool, "strict": True} if spec.strict else tool}


def _blocks(outcomes: list[CallOutcome]) -> list[dict[str, Any]]:
    names: set[str] = set()
    return [{"toolResult": _result(outcome, names)} for outcome in outcomes]


def _result(outcome: CallOutcome, names: set[str]) -> dict[str, Any]:
    parts, data = split_data(outcome.answer)
    if not isinstance(data, dict):  # only objects are accepted
        parts = shown_parts(outcome.answer)
    content = [_content(part, names) for part in parts]
    if isinstance(data, dict):
        content.append({"json": data})
    status = "error" if outcome.answer.is_error else "success"
    return {"toolUseId": outcome.call.id, "status": status, "content": content}


def _content(part: ContentPart, names: set[str]) -> dict[str, Any]:
    mime_type = media_type(part)
    source = {"bytes": part.data}
    if is_image(part, MAX_IMAGE_BYTES):
        return {"image": {"format": IMAGE_FORMATS[mime_type], "source": source}}
    ending = DOCUMENT_FORMATS.get(mime_type, "")
    if part.kind == "file" and ending in _DOCUMENTS and 0 < len(part.data) <= MAX_DOCUMENT_BYTES:
        return {"document": {"format": ending, "name": _document_name(part, ending, names), "source": source}}
    return {"text": describe(part)}


def _document_name(part: ContentPart, ending: str, names: set[str]) -> str:
    """Return a name that the API accepts, and that no other document of these results has."""
    stem = file_name(part, ending).rpartition(".")[0]
    base = re.sub(r"[^A-Za-z0-9()\[\]-]+", " ", stem).strip()[:190].strip() or "document"
    name, count = base, 1
    while name in names:
        count += 1
        name = f"{base} {count}"
    names.add(name)
    return name
