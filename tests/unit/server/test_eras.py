"""What differs between the eras around a request, as tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.server.serving.answering import Bench
from toolcrib.errors import RemoteError
from toolcrib.protocol import jsonrpc
from toolcrib.server import eras
from toolcrib.server.handler import Peer
from toolcrib.types import Wire

VERSION, INFO, CAPABILITIES, LEVEL, SERVER = (
    f"io.modelcontextprotocol/{name}"
    for name in ("protocolVersion", "clientInfo", "clientCapabilities", "logLevel", "serverInfo")
)
EVERY = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
US = {"name": "us", "version": "1"}
DESCRIPTION: Wire = {"serverInfo": US, "capabilities": {"tools": {}}, "instructions": "be kind"}
OWED = {"resultType": "complete", "_meta": {SERVER: US}}
HINTS = {"ttlMs": 0, "cacheScope": "private"}


def meta(**changes: Any) -> Wire:
    """Return the `_meta` of a modern request, with changes by short names; `...` removes one."""
    said = {"version": "2026-07-28", "info": {"name": "c"}, "capabilities": {"roots": {}}, **changes}
    keys = {"version": VERSION, "info": INFO, "capabilities": CAPABILITIES, "level": LEVEL}
    return {keys[name]: value for name, value in said.items() if value is not ...}


# ---- the client ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params, modern",
    [
        ({"_meta": {VERSION: "2026-07-28"}}, True),
        ({"_meta": {VERSION: None}}, True),
        ({"_meta": {"progressToken": 1}}, False),
        ({"_meta": None}, False),
        ({"_meta": [VERSION]}, False),
        ({VERSION: "2026-07-28"}, False),
        ({}, False),
        (None, False),
        ([VERSION], False),
    ],
)
def test_a_request_that_says_its_version_is_modern(params: Any, modern: bool) -> None:
    assert eras.is_modern(params) is modern


def test_a_modern_request_identifies_the_client() -> None:
    peer = eras.peer_of_request({"_meta": meta(level="debug")}, principal="alice")
    assert (peer.version, peer.modern, peer.info) == ("2026-07-28", True, {"name": "c"})
    assert (peer.capabilities, peer.principal, peer.log_level) == ({"roots": {}}, "alice", "debug")
    assert peer.session is None


@pytest.mark.parametrize("said", [{}, {"info": ...}])
def test_a_modern_request_may_leave_out_its_name_and_the_level_of_logs(said: Wire) -> None:
    peer = eras.peer_of_request({"_meta": meta(**said)})
    assert peer.log_level is None
    assert peer.info == ({} if "info" in said else {"name": "c"})
    assert peer.principal is None


@pytest.mark.parametrize(
    "wrong, named",
    [
        (None, "_meta: must be"),
        ([], "_meta: must be"),
        ({}, f"{VERSION} is missing"),
        (meta(version=...), f"{VERSION} is missing"),
        (meta(version=5), f"{VERSION} is missing"),
        (meta(version=["2026-07-28"]), f"{VERSION} is missing"),
        (meta(capabilities=...), f"{CAPABILITIES} is missing"),
        (meta(capabilities=[]), f"{CAPABILITIES} is missing"),
        (meta(info=None), f"{INFO} must be"),
        (meta(info="c"), f"{INFO} must be"),
        (meta(level=None), "log level: must be one of"),
        (meta(level="loud"), "log level: must be one of"),
        (meta(level=["info"]), "log level: must be one of"),
    ],
)
def test_a_modern_request_without_client_info_has_invalid_params(wrong: Any, named: str) -> None:
    with pytest.raises(RemoteError) as caught:
        eras.peer_of_request({"_meta": wrong})
    assert caught.value.code == -32602
    assert named in caught.value.message


@pytest.mark.parametrize("version", ["2025-11-25", "2027-01-01", ""])
def test_a_version_that_is_not_served_is_answered_with_those_that_are(version: str) -> None:
    with pytest.raises(RemoteError) as caught:
        eras.peer_of_request({"_meta": meta(version=version, capabilities=...)})
    assert caught.value.code == -32022
    assert caught.value.data == {"supported": EVERY, "requested": version}


# ---- the beginning -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked, given",
    [
        *((version, version) for version in EVERY[1:]),
        *((version, "2025-11-25") for version in ("2026-07-28", "1999-01-01", "", None, 5, [], ["2024-11-05"], {})),
    ],
)
def test_a_session_is_never_of_the_modern_era(asked: Any, given: str) -> None:
    peer, result = eras.begin_session(Bench(), {"protocolVersion": asked})
    assert (peer.version, peer.modern) == (given, False)
    assert result == {"protocolVersion": given, **Bench().describe(peer)}


def test_a_session_begins_with_client_info() -> None:
    params = {"clientInfo": {"name": "c"}, "capabilities": {"roots": {}}}
    peer, _ = eras.begin_session(Bench(), params, "alice")
    assert (peer.info, peer.capabilities, peer.principal) == ({"name": "c"}, {"roots": {}}, "alice")
    assert (peer.log_level, peer.session) == ("info", None)
    for wrong in (None, 5, "c", []):
        peer, _ = eras.begin_session(Bench(), {"clientInfo": wrong, "capabilities": wrong})
        assert (peer.info, peer.capabilities, peer.principal) == ({}, {}, None)


@pytest.mark.parametrize("level", ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"])
def test_the_level_of_logs_is_one_of_eight_and_stays_with_the_session(level: str) -> None:
    peer = Peer("2025-11-25", modern=False)
    assert eras.answer_at_once(Bench(), peer, "logging/setLevel", {"level": level}) == {}
    assert peer.log_level == level
    for wrong in ("INFO", "", None, 5, [level]):
        with pytest.raises(RemoteError) as caught:
            eras.answer_at_once(Bench(), peer, "logging/setLevel", {"level": wrong})
        assert caught.value.code == -32602
    assert peer.log_level == level


def test_a_session_itself_answers_requests_that_need_no_handler() -> None:
    peer = Peer("2025-11-25", modern=False)
    assert eras.answer_at_once(Bench(), peer, "ping", {}) == {}
    for method in ("tools/call", "tools/list", "resources/subscribe", "nonsense"):
        assert eras.answer_at_once(Bench(), peer, method, {}) is None


@pytest.mark.parametrize(
    "method, code",
    [
        ("initialize", -32600),
        ("server/discover", -32601),
        ("subscriptions/listen", -32601),
        ("logging/setLevel", -32601),
    ],
)
def test_a_session_refuses_what_is_over_not_there_yet_or_not_offered(method: str, code: int) -> None:
    with pytest.raises(RemoteError) as caught:
        eras.answer_at_once(Bench(tools={}), Peer("2025-11-25", modern=False), method, {"level": "info"})
    assert caught.value.code == code


def test_a_modern_endpoint_answers_discovery_itself_and_refuses_what_was_removed() -> None:
    peer = Peer("2026-07-28", modern=True)
    assert eras.answer_at_once(Bench(), peer, "server/discover", {}) == eras.discover_result(Bench().describe(peer))
    for method in ("tools/call", "tools/list", "subscriptions/listen", "nonsense"):
        assert eras.answer_at_once(Bench(), peer, method, {}) is None
        eras.check_not_removed(method)
    for method in eras.REMOVED:
        with pytest.raises(RemoteError, match=method) as caught:
            eras.answer_at_once(Bench(), peer, method, {})
        assert caught.value.code == -32601
        with pytest.raises(RemoteError, match=method):
            eras.check_not_removed(method)


def test_discovery_says_every_version_and_the_server_s_name_only_in_its_frame() -> None:
    result = eras.discover_result(DESCRIPTION)
    assert result == {"supportedVersions": EVERY, "capabilities": {"tools": {}}, "instructions": "be kind"}
    assert eras.modern_result("server/discover", result, US) == {**result, **OWED, **HINTS}
    assert "serverInfo" in DESCRIPTION


# ---- results -------------------------------------------------------------------------------------------------

CACHEABLE = ["server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list"]
CACHEABLE += ["resources/read"]


@pytest.mark.parametrize("method", CACHEABLE)
def test_what_can_be_cached_owes_a_hint_in_the_modern_era(method: str) -> None:
    assert eras.modern_result(method, {"a": 1}, US) == {"a": 1, **OWED, **HINTS}
    own = {"ttlMs": 60_000, "cacheScope": "public"}
    assert eras.modern_result(method, own, US) == {**OWED, **own}


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "completion/complete", "subscriptions/listen"])
def test_what_cannot_be_cached_has_no_hint(method: str) -> None:
    assert eras.modern_result(method, {"a": 1}, US) == {"a": 1, **OWED}


def test_questions_as_a_result_are_neither_complete_nor_cached() -> None:
    asked = {"resultType": "input_required", "inputRequests": {}, "requestState": "x"}
    assert eras.modern_result("resources/read", asked, US) == {**asked, "_meta": {SERVER: US}}


@pytest.mark.parametrize("said, framed", [({"x": 1}, {"x": 1, SERVER: US}), ({}, {SERVER: US}), (None, {SERVER: US})])
def test_the_servers_name_is_added_to_the_metadata_of_a_result(said: Any, framed: Wire) -> None:
    result = {"_meta": said}
    assert eras.modern_result("tools/call", result, US)["_meta"] == framed
    assert result == {"_meta": said}, "the result of the handler is not modified"


def test_the_legacy_era_sees_nothing_that_only_the_modern_one_knows() -> None:
    plain = {"tools": [], "_meta": {"x": 1}}
    assert eras.legacy_result(plain) is plain
    for extra in ({"ttlMs": 0}, {"cacheScope": "public"}, {"resultType": "complete"}, {"resultType": "x", "ttlMs": 1}):
        assert eras.legacy_result({**plain, **extra}) == plain


def test_a_framer_frames_for_the_era_of_the_client_and_describes_the_server_once() -> None:
    described: list[Peer] = []

    class Server:
        def describe(self, peer: Peer) -> Wire:
            described.append(peer)
            return DESCRIPTION

    framer, hinted = eras.ResultFramer(Server()), {"tools": [], "ttlMs": 5, "cacheScope": "public"}
    assert framer.frame(Peer("2025-11-25", modern=False), "tools/list", hinted) == {"tools": []}
    assert described == []
    for _ in range(2):
        framed = framer.frame(Peer("2026-07-28", modern=True), "tools/list", hinted)
        assert framed == eras.modern_result("tools/list", hinted, US)
    assert len(described) == 1


# ---- errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code", [-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022, -1, 5, -31999, -32100]
)
def test_an_error_that_the_modern_era_knows_stays_as_it_is(code: int) -> None:
    error = RemoteError(code, "no", {"x": 1})
    assert eras.modern_error(error) is error


def test_what_is_not_found_has_another_code_in_the_modern_era() -> None:
    error = eras.modern_error(RemoteError(-32002, "not found", {"uri": "x:"}))
    assert (error.code, error.message, error.data) == (-32602, "not found", {"uri": "x:"})


@pytest.mark.parametrize("code", [-32000, -32001, -32019, -32023, -32042, -32099])
def test_a_reserved_code_without_a_meaning_does_not_go_on_the_modern_wire(code: int) -> None:
    error = eras.modern_error(RemoteError(code, "no", 5))
    assert (error.code, error.message, error.data) == (-32603, "no", {"code": code, "data": 5})


@pytest.mark.parametrize("code", [-32002, -32602, -32603, -32022, -32042, 5])
def test_an_error_of_the_legacy_era_stays_as_it_is(code: int) -> None:
    error = RemoteError(code, "no", {"x": 1})
    assert eras.legacy_error(error, "tools/call") is error


def test_a_missing_capability_is_a_result_to_read_in_the_legacy_era() -> None:
    error = RemoteError(-32021, "needs sampling", {"requiredCapabilities": {"sampling": {}}})
    said = {"content": [{"type": "text", "text": "needs sampling"}], "isError": True}
    assert eras.legacy_error(error, "tools/call") == said
    other = eras.legacy_error(error, "prompts/get")
    assert isinstance(other, RemoteError)
    assert (other.code, other.message, other.data) == (-32602, "needs sampling", error.data)


MISSING = RemoteError(-32021, "needs sampling", {"x": 1})
TEXT = {"content": [{"type": "text", "text": "needs sampling"}], "isError": True}
UNKNOWN = RemoteError(-32050, "odd", 5)


@pytest.mark.parametrize(
    "modern, method, exc, answer",
    [
        (True, "tools/call", RemoteError(-32002, "gone", 1), jsonrpc.error(7, -32602, "gone", 1)),
        (False, "tools/call", RemoteError(-32002, "gone", 1), jsonrpc.error(7, -32002, "gone", 1)),
        (True, "tools/call", UNKNOWN, jsonrpc.error(7, -32603, "odd", {"code": -32050, "data": 5})),
        (False, "tools/call", UNKNOWN, jsonrpc.error(7, -32050, "odd", 5)),
        (True, "tools/call", MISSING, jsonrpc.error(7, -32021, "needs sampling", {"x": 1})),
        (False, "tools/call", MISSING, jsonrpc.result(7, TEXT)),
        (False, "prompts/get", MISSING, jsonrpc.error(7, -32602, "needs sampling", {"x": 1})),
        (True, "tools/call", ValueError("secret"), jsonrpc.error(7, -32603, "Internal error")),
        (False, "tools/call", ValueError("secret"), jsonrpc.error(7, -32603, "Internal error")),
    ],
)
def test_every_exception_has_one_answer_in_each_era(modern: bool, method: str, exc: Exception, answer: Wire) -> None:
    assert eras.error_answer(7, method, exc, modern=modern) == answer


def test_an_internal_error_is_logged_with_details_and_reported_without(caplog: pytest.LogCaptureFixture) -> None:
    error = eras.internal_error(ValueError("the secret is 4711"), "tools/call")
    assert (error.code, error.message, error.data) == (-32603, "Internal error", None)
    assert "tools/call failed" in caplog.text
    assert "the secret is 4711" in caplog.text


def test_an_answer_that_json_cannot_say_is_our_own_fault(caplog: pytest.LogCaptureFixture) -> None:
    good = jsonrpc.result(7, {"n": 2**70})
    assert json.loads(eras.encoded(good, "tools/call")) == good
    assert caplog.messages == []
    for wrong in (object(), float("nan"), {1: {2}}):
        said = json.loads(eras.encoded(jsonrpc.result("seven", {"n": wrong}), "tools/call"))
        assert said == jsonrpc.error("seven", -32603, "Internal error")
    assert caplog.messages == ["tools/call failed"] * 3


def test_the_tables_of_methods_by_era_have_nothing_in_common() -> None:
    assert not eras.REMOVED & eras.NEW
    assert set(CACHEABLE) == eras.CACHEABLE
    assert {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"} < eras.REMOVED


def test_what_a_client_names_cannot_forge_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    eras.internal_error(RuntimeError("broken"), "tools/\x1b]0;owned\x07\n2026-01-01 CRITICAL forged")
    (record,) = caplog.records
    assert record.getMessage().isprintable()
