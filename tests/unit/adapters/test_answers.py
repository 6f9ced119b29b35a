"""Answers: results and errors in the neutral form that adapters translate."""

from __future__ import annotations

import pytest

import toolcrib as tc
from toolcrib.adapters.answers import ContentPart, ToolAnswer, describe_error
from toolcrib.errors import (
    AccessDenied,
    CallTimeout,
    ConnectionLost,
    OutcomeUnknown,
    RemoteError,
    ToolcribError,
    ToolNotFound,
)
from toolcrib.types import ToolResult

PNG = b"\x89PNG"
RESULT = {
    "content": [
        {"type": "text", "text": "first"},
        {"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
        {"type": "audio", "data": "iVBORw==", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt", "description": "notes"},
        {"type": "resource", "resource": {"uri": "file:///b.txt", "text": "inside", "mimeType": "text/plain"}},
        {"type": "resource", "resource": {"uri": "file:///c.pdf", "blob": "iVBORw==", "mimeType": "application/pdf"}},
        {"type": "resource", "resource": {"uri": "file:///d.png", "blob": "iVBORw==", "mimeType": "image/png"}},
        {"type": "resource", "resource": {"uri": "file:///e", "blob": "iVBORw=="}},
        {"type": "hologram", "shape": [1, 2]},
    ]
}


def test_every_kind_of_content_becomes_a_part() -> None:
    answer = ToolAnswer.from_result(ToolResult(RESULT))
    assert answer.parts == (
        ContentPart("text", "first"),
        ContentPart("image", data=PNG, mime_type="image/png"),
        ContentPart("audio", data=PNG, mime_type="audio/wav"),
        ContentPart("link", "a.txt: notes", uri="file:///a.txt"),
        ContentPart("text", "inside", uri="file:///b.txt", mime_type="text/plain"),
        ContentPart("file", data=PNG, mime_type="application/pdf", uri="file:///c.pdf"),
        ContentPart("image", data=PNG, mime_type="image/png", uri="file:///d.png"),
        ContentPart("file", data=PNG, mime_type="application/octet-stream", uri="file:///e"),
        ContentPart("text", '{"type": "hologram", "shape": [1, 2]}'),
    )
    assert not answer.is_error and not answer.is_text and not answer.has_data and answer.data is None
    assert answer.text.splitlines() == [
        "first",
        "[image: image/png, 4 bytes]",
        "[audio: audio/wav, 4 bytes]",
        "a.txt: notes <file:///a.txt>",
        "inside",
        "[file:///c.pdf: application/pdf, 4 bytes]",
        "[file:///d.png: image/png, 4 bytes]",
        "[file:///e: application/octet-stream, 4 bytes]",
        '{"type": "hologram", "shape": [1, 2]}',
    ]
    assert answer.parts[1].base64 == "iVBORw==" and answer.parts[1].data_url == "data:image/png;base64,iVBORw=="


def test_structured_data() -> None:
    both = ToolAnswer.from_result(
        ToolResult({"content": [{"type": "text", "text": "three"}], "structuredContent": {"sum": 3}})
    )
    assert both.has_data and both.value == {"sum": 3} and both.text == 'three\n{"sum": 3}'
    alone = ToolAnswer.from_result(ToolResult({"content": [], "structuredContent": {"name": "é"}}))
    assert alone.text == '{"name": "é"}' and alone.value == {"name": "é"}
    failed = ToolAnswer.from_result(
        ToolResult({"content": [{"type": "text", "text": "no"}], "structuredContent": {"code": 1}, "isError": True})
    )
    assert failed.is_error and failed.value == 'no\n{"code": 1}' and failed.data == {"code": 1} and failed.error is None
    picture = ToolAnswer.from_result(ToolResult({**RESULT, "structuredContent": {"sum": 3}}))
    assert picture.value == picture.text, "data does not replace content that is not text"


NOT_RUN, MAY_HAVE_RUN = "The tool did not run.", "The tool may have run: check before you call it again."


@pytest.mark.parametrize(
    "error, text",
    [
        (ConnectionLost("the server went away", server="s", tool="t"), f"s t: the server went away. {NOT_RUN}"),
        (CallTimeout("too late!"), f"too late! {NOT_RUN}"),
        (OutcomeUnknown("no answer"), f"no answer. {MAY_HAVE_RUN}"),
        (AccessDenied("denied by x"), f"denied by x. {NOT_RUN}"),
        (AccessDenied("denied by x", sent=True), f"denied by x. {MAY_HAVE_RUN}"),
        (
            ToolNotFound("the server no longer has this tool", sent=True),
            f"the server no longer has this tool. {NOT_RUN}",
        ),
        (RemoteError(-32603, "it broke"), f"it broke [-32603]. {MAY_HAVE_RUN}"),
        (RemoteError(-32602, "a: missing"), "a: missing [-32602]. The server rejected the call as invalid."),
        (ToolcribError("of an interceptor"), "of an interceptor. It is not known whether the tool ran."),
        (ToolcribError(), "ToolcribError. It is not known whether the tool ran."),
    ],
)
def test_errors_say_whether_the_tool_ran(error: ToolcribError, text: str) -> None:
    answer = ToolAnswer.from_error(error)
    assert answer.text == describe_error(error) == text
    assert answer.is_error and answer.error is error and answer.result is None and answer.value == text


def test_parts_without_a_label() -> None:
    assert ContentPart("link", uri="file:///a").as_text() == "file:///a"
    assert ContentPart("file", data=b"ab").as_text() == "[file: unknown type, 2 bytes]"
    link = ToolAnswer.from_result(
        ToolResult.from_blocks([tc.ResourceLink(uri="file:///a", name="file:///a", mime_type="text/plain")])
    )
    assert link.parts == (ContentPart("link", uri="file:///a", mime_type="text/plain"),)


@pytest.mark.parametrize(
    "texts, data",
    [
        (['{"pages": 3}'], {"pages": 3}),
        (['{\n  "pages": 3\n}'], {"pages": 3}),
        (["5"], {"result": 5}),
        (["1", "two"], [1, "two"]),
        (["Two items:", "[1, 2]"], [1, 2]),
        (["hello"], "hello"),
    ],
)
def test_data_that_a_text_shows_is_not_repeated(texts: list[str], data: object) -> None:
    result = ToolResult.from_blocks(map(tc.types.TextContent, texts), data=data)
    assert [part.text for part in ToolAnswer.from_result(result).parts] == texts


@pytest.mark.parametrize(
    "texts, data, shown",
    [
        (["The report is ready."], {"pages": 3}, '{"pages": 3}'),
        (["1"], [1, 2], "[1, 2]"),
        (["{broken"], {"pages": 3}, '{"pages": 3}'),
        (["[" * 100_000], [1], "[1]"),
        ([], [], "[]"),
    ],
)
@pytest.mark.parametrize("is_error", [False, True])
def test_data_that_no_text_shows_is_added(texts: list[str], data: object, shown: str, is_error: bool) -> None:
    result = ToolResult.from_blocks(map(tc.types.TextContent, texts), data=data, is_error=is_error)
    answer = ToolAnswer.from_result(result)
    assert [part.text for part in answer.parts] == [*texts, shown]
    assert answer.text.endswith(shown)
    assert answer.value == (answer.text if is_error else data)
