"""Translation between the revisions of the client in front and the server behind, as tables in both directions."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.bridge import translate
from toolcrib.errors import ConnectionLost, OutcomeUnknown, RemoteError, ToolcribError
from toolcrib.types import ServerInfo, Wire
from toolcrib.upstreams.features import Features

PREFIX = "io.modelcontextprotocol/"
MODERN_META = {
    f"{PREFIX}protocolVersion": "2026-07-28",
    f"{PREFIX}clientInfo": {"name": "c"},
    f"{PREFIX}clientCapabilities": {},
    f"{PREFIX}logLevel": "info",
}

# ---- client to server ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "declared, features",
    [
        ({}, Features()),
        ({"tasks": {}, "experimental": {"x": {}}}, Features()),
        ({"elicitation": {}}, Features(elicitation=("form",))),
        ({"elicitation": {"form": {}}}, Features(elicitation=("form",))),
        ({"elicitation": {"url": {}}}, Features(elicitation=("url",))),
        ({"elicitation": {"url": {}, "form": {}}}, Features(elicitation=("form", "url"))),
        ({"elicitation": {"telepathy": {}}}, Features(elicitation=("form",))),
        ({"sampling": {"tools": {}}}, Features(sampling=True)),
        ({"roots": {"listChanged": True}}, Features(roots=True)),
        ({"elicitation": {}, "sampling": {}, "roots": {}}, Features(("form",), sampling=True, roots=True)),
        ({"elicitation": None, "sampling": True, "roots": []}, Features()),
    ],
)
def test_what_a_client_declares_is_what_it_can_be_asked(declared: Wire, features: Features) -> None:
    assert translate.translate_capabilities(declared) == features


@pytest.mark.parametrize(
    "params, translated",
    [
        ({}, {}),
        ({"name": "add", "arguments": {"_meta": 1}}, {"name": "add", "arguments": {"_meta": 1}}),
        ({"name": "add", "_meta": MODERN_META}, {"name": "add"}),
        ({"name": "add", "_meta": {"progressToken": 7}}, {"name": "add"}),
        ({"_meta": {"progressToken": 7, "trace": "t", **MODERN_META}}, {"_meta": {"trace": "t"}}),
        ({"name": "add", "_meta": None}, {"name": "add"}),
        ({"name": "add", "inputResponses": {"a": {}}, "requestState": "s"}, {"name": "add"}),
        ({"cursor": "c"}, {"cursor": "c"}),
    ],
)
def test_params_cross_without_what_belongs_to_the_hop_in_front(params: Wire, translated: Wire) -> None:
    before = copy.deepcopy(params)
    assert translate.translate_params(params) == translated
    assert params == before


@pytest.mark.parametrize(
    "method, result, translated",
    [
        ("elicitation/create", {"action": "accept", "content": {"a": 1}}, {"action": "accept", "content": {"a": 1}}),
        ("elicitation/create", {"action": "decline", "_meta": {"x": 1}, "more": 2}, {"action": "decline"}),
        ("elicitation/create", {}, {}),
        ("sampling/createMessage", {"role": "assistant", "model": "m"}, {"role": "assistant", "model": "m"}),
        ("roots/list", {"roots": []}, {"roots": []}),
    ],
)
def test_an_answer_of_the_client_crosses_to_the_server(method: str, result: Wire, translated: Wire) -> None:
    assert translate.translate_client_result(method, result) == translated


# ---- server to client ----------------------------------------------------------------------------------------


def test_a_server_describes_itself_as_far_as_its_capabilities_are_forwarded() -> None:
    info = ServerInfo(
        name="files",
        version="1",
        title="Files",
        instructions="Be kind.",
        capabilities={
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": "yes"},
            "prompts": {},
            "logging": {},
            "completions": None,
            "tasks": {"list": {}},
            "experimental": {"x": {}},
        },
    )
    assert translate.translate_description(info) == {
        "serverInfo": {"name": "files", "version": "1", "title": "Files"},
        "capabilities": {
            "tools": {"listChanged": True},
            "resources": {"subscribe": True},
            "prompts": {},
            "logging": {},
        },
        "instructions": "Be kind.",
    }
    bare = translate.translate_description(ServerInfo(name="x", version="0"))
    assert bare == {"serverInfo": {"name": "x", "version": "0"}, "capabilities": {}}


OBJECT, ARRAY = {"type": "object"}, {"type": "array"}
TEXT = [{"type": "text", "text": "[1]"}]
BOTH = (True, False)
RESULTS: list[tuple[str, Wire, tuple[bool, ...], Wire]] = [
    # method, the result of the server, for modern and/or legacy clients, the result of the client
    ("tools/call", {"content": []}, BOTH, {"content": []}),
    ("tools/call", {"_meta": {f"{PREFIX}serverInfo": {"name": "s"}}}, BOTH, {}),
    ("tools/call", {"_meta": {f"{PREFIX}serverInfo": {}, "cost": 5}}, BOTH, {"_meta": {"cost": 5}}),
    ("tools/call", {"_meta": {"progressToken": 1}}, BOTH, {}),
    ("tools/call", {"structuredContent": {"a": 1}}, BOTH, {"structuredContent": {"a": 1}}),
    ("tools/call", {"content": TEXT, "structuredContent": [1]}, (True,), {"content": TEXT, "structuredContent": [1]}),
    ("tools/call", {"content": TEXT, "structuredContent": [1]}, (False,), {"content": TEXT}),
    ("tools/call", {"content": [], "structuredContent": [1]}, (False,), {"content": TEXT}),
    ("tools/call", {"structuredContent": "é"}, (False,), {"content": [{"type": "text", "text": '"é"'}]}),
    ("prompts/get", {"structuredContent": [1]}, BOTH, {"structuredContent": [1]}),
    ("tools/list", {"tools": ["a", None, {"name": "b"}]}, BOTH, {"tools": [{"name": "b"}]}),
    ("tools/list", {"tools": None}, BOTH, {"tools": None}),
    ("tools/list", {"tools": [], "nextCursor": "c"}, BOTH, {"tools": [], "nextCursor": "c"}),
    (
        "tools/list",
        {"tools": [{"name": "a", "outputSchema": OBJECT}]},
        BOTH,
        {"tools": [{"name": "a", "outputSchema": OBJECT}]},
    ),
    (
        "tools/list",
        {"tools": [{"name": "a", "outputSchema": ARRAY}]},
        (True,),
        {"tools": [{"name": "a", "outputSchema": ARRAY}]},
    ),
    ("tools/list", {"tools": [{"name": "a", "outputSchema": ARRAY}]}, (False,), {"tools": [{"name": "a"}]}),
    (
        "tools/list",
        {
            "tools": [
                {"name": "a", "execution": {"taskSupport": "optional"}},
                {"name": "b", "execution": {"taskSupport": "required"}},
                {"name": "c", "execution": None},
            ]
        },
        BOTH,
        {"tools": [{"name": "a"}, {"name": "c"}]},
    ),
]


@pytest.mark.parametrize(
    "method, result, modern, translated", [(m, r, each, t) for m, r, for_, t in RESULTS for each in for_]
)
def test_a_result_crosses_in_the_form_that_the_client_understands(
    method: str, result: Wire, modern: bool, translated: Wire
) -> None:
    before = copy.deepcopy(result)
    assert translate.translate_result(method, result, modern=modern) == translated
    assert result == before


@pytest.mark.parametrize(
    "code, method, modern, translated",
    [
        (-32602, "resources/read", False, (-32002, 5)),
        (-32602, "resources/read", True, (-32602, 5)),
        (-32602, "tools/call", False, (-32602, 5)),
        (-32002, "resources/read", False, (-32002, 5)),
        (
            -32002,
            "resources/read",
            True,
            (-32002, 5),
        ),  # the endpoint in front knows that modern clients have no such code
        (-32020, "tools/call", True, (-32603, {"code": -32020, "data": 5})),
        (-32020, "tools/call", False, (-32603, {"code": -32020, "data": 5})),
        (-32022, "tools/list", True, (-32603, {"code": -32022, "data": 5})),
        (-32042, "tools/call", False, (-32042, 5)),
        (-1, "tools/call", True, (-1, 5)),
    ],
)
def test_an_error_crosses_with_the_code_of_the_revision_in_front(
    code: int, method: str, modern: bool, translated: tuple[int, Any]
) -> None:
    error = translate.translate_error(RemoteError(code, "no", 5), method, modern=modern)
    assert (error.code, error.data) == translated
    assert error.message == "no"


URL = {"mode": "url", "message": "go", "url": "https://a.example"}


@pytest.mark.parametrize(
    "method, params, modern, translated",
    [
        ("elicitation/create", {"message": "?", "_meta": {"x": 1}}, True, {"message": "?"}),
        ("elicitation/create", {**URL, "elicitationId": "theirs"}, True, URL),
        ("elicitation/create", URL, True, URL),
        ("elicitation/create", {**URL, "elicitationId": "theirs"}, False, {**URL, "elicitationId": "theirs"}),
        ("elicitation/create", URL, False, {**URL, "elicitationId": "new"}),
        ("elicitation/create", {"mode": "form", "elicitationId": "x"}, True, {"mode": "form", "elicitationId": "x"}),
        ("sampling/createMessage", {"mode": "url", "maxTokens": 5}, False, {"mode": "url", "maxTokens": 5}),
        ("roots/list", {}, False, {}),
    ],
)
def test_a_request_of_the_server_crosses_to_the_client(
    method: str, params: Wire, modern: bool, translated: Wire
) -> None:
    before = copy.deepcopy(params)
    assert translate.translate_client_request(method, params, modern=modern, new_id=lambda: "new") == translated
    assert params == before


def test_every_elicitation_by_url_has_its_own_id() -> None:
    made = [translate.translate_client_request("elicitation/create", URL, modern=False) for _ in range(2)]
    assert made[0]["elicitationId"] != made[1]["elicitationId"]


@pytest.mark.parametrize("exc", [ConnectionLost("gone"), OutcomeUnknown("gone"), ToolcribError("gone")])
def test_a_request_without_an_answer_says_whether_it_may_have_run(exc: ToolcribError) -> None:
    for detailed, text in (
        (True, "gone"),
        (False, "the server behind this bridge did not answer; see the log of the bridge"),
    ):
        error = translate.translate_failure(exc, detailed=detailed)
        assert (error.code, error.message) == (-32603, text)
        assert error.data == {"reason": type(exc).__name__, "sent": exc.sent}


# ---- in general ----------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=2)
)
OBJECTS = st.dictionaries(
    st.sampled_from(["_meta", "tools", "structuredContent", "content", "mode", "elicitationId", "x"]),
    JSON | st.dictionaries(st.sampled_from(["progressToken", f"{PREFIX}logLevel", "y"]), JSON, max_size=3),
    max_size=4,
)


@given(st.sampled_from(["tools/call", "tools/list", "resources/read"]), OBJECTS, st.booleans())
def test_translating_twice_changes_nothing_more(method: str, message: Wire, modern: bool) -> None:
    params = translate.translate_params(message)
    assert translate.translate_params(params) == params
    result = translate.translate_result(method, message, modern=modern)
    assert translate.translate_result(method, result, modern=modern) == result
