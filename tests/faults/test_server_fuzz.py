"""Fuzzed requests to an endpoint: an answer below 500, in time, to the right client; and only valid requests run."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import string
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.faults.server_kit import Place, Tools, serving
from tests.faults.server_wire import LEGACY, LEVEL, MODERN, VERSION, call, message, modern, modern_headers
from toolcrib.protocol import jsonrpc
from toolcrib.server.serving.stdio import serve_stdio
from toolcrib.server.serving.stream_session import StreamSession

pytestmark = pytest.mark.asyncio(loop_scope="module")

fuzzing = settings(  # how many examples: as the tier of the tests says
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)

# ---- requests ------------------------------------------------------------------------------------------------

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(
        ["", "add", "tools/call", "2.0", MODERN, LEGACY, VERSION, "\ud800", "\x00", "config://app", 2**64]
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
METHODS: dict[str, dict[str, Any]] = {
    "tools/call": call("add", {"a": 1, "b": 2}),
    "tools/list": {},
    "prompts/get": {"name": "explain", "arguments": {"topic": "x"}},
    "prompts/list": {},
    "resources/read": {"uri": "config://app"},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/subscribe": {"uri": "config://app"},
    "resources/unsubscribe": {"uri": "config://app"},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "explain"},
        "argument": {"name": "topic", "value": ""},
    },
    "logging/setLevel": {"level": "info"},
    "server/discover": {},
    "initialize": {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    "ping": {},
    "subscriptions/listen": {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["config://app"]}},
}
FIRST = ["tools/call"] * 4  # what can do harm is tried more often
STATE = {"requestState": "A" * 32, "inputResponses": {"go": {"action": "accept"}}}


@st.composite
def good_requests(draw: st.DrawFn, era: str | None = None) -> dict[str, Any]:
    method = draw(st.sampled_from([*FIRST, *METHODS]))
    params = copy.deepcopy(METHODS[method])
    if method == "tools/call":
        params["name"] = draw(st.sampled_from(["add", "who", "echo"]))
        params |= copy.deepcopy(draw(st.sampled_from([{}, {}, STATE])))
    if (era or draw(st.sampled_from(["modern", "legacy"]))) == "modern":
        return modern(method, params, draw(st.sampled_from([1, "x"])), **{LEVEL: "info", "progressToken": 1})
    return message(method, params, draw(st.sampled_from([1, "x"])))


def places_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Yield the path to every part of a value."""
    found = [path]
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            found += places_in(value[key], (*path, key))
    return found


@st.composite
def bent_requests(draw: st.DrawFn, era: str | None = None) -> Any:
    """Generate valid requests with some parts replaced, removed, doubled or added."""
    root = [draw(good_requests(era))]
    for _ in range(draw(st.integers(0, 3))):
        *way, last = (0, *draw(st.sampled_from(places_in(root[0]))))
        holder: Any = root
        for step in way:
            holder = holder[step]
        how = draw(st.sampled_from(["replace", "remove", "wrap", "add"]))
        if how == "remove" and isinstance(holder, dict):
            del holder[last]
        elif how == "wrap":
            holder[last] = draw(st.sampled_from([[holder[last]], {"x": holder[last]}, [holder[last]] * 2]))
        elif how == "add" and isinstance(holder[last], dict):
            holder[last][draw(st.text(string.ascii_letters, max_size=6))] = draw(VALUES)
        else:
            holder[last] = draw(VALUES)
    return root[0]


def spelled(value: Any) -> bytes:
    return json.dumps(value).encode()


@st.composite
def broken_bytes(draw: st.DrawFn) -> bytes:
    """Generate valid requests whose bytes were cut, doubled, swapped or overwritten."""
    data = spelled(draw(good_requests()))
    for _ in range(draw(st.integers(1, 4))):
        at, to = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        put = draw(
            st.binary(max_size=6) | st.sampled_from([data[at:to], b"", b'"', b"{", b"[" * 200, b"\xff", b"\\u0000"])
        )
        data = data[:at] + put + data[to:]
    return data


HEADER_NAMES = ["Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Session-Id", "Accept", "Content-Type", "Origin"]
HEADER_NAMES += ["Host", "Authorization", "Content-Encoding", "Last-Event-ID", "Mcp-Param-X", "X"]
HEADER_VALUES = st.sampled_from(
    ["", "add", "tools/call", MODERN, LEGACY, "application/json", "*/*", "0-0", "0-1", "1-1", "=?base64?YWRk?="]
) | st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=12)
HEADERS = st.lists(st.tuples(st.sampled_from(HEADER_NAMES), st.none() | HEADER_VALUES), max_size=3)

# ---- allowed outcomes ----------------------------------------------------------------------------------------


def id_of(value: Any) -> Any:
    """Return the id of a request; None if the message is not a request."""
    good = isinstance(value, dict) and value.get("jsonrpc") == "2.0" and isinstance(value.get("method"), str)
    id = value.get("id") if good else None
    if isinstance(id, str):
        return id if id.isascii() else None
    return id if type(id) is int and abs(id) < 2**63 else None


def may_run(value: Any, tool: str, has_states: bool = True) -> bool:
    """Return whether a message is a valid call of this tool. An unknown state makes it invalid, if states are used."""
    if not isinstance(value, dict) or value.get("method") != "tools/call" or value.get("jsonrpc") != "2.0":
        return False
    params, id = value.get("params"), value.get("id")
    if not isinstance(params, dict) or params.get("name") != tool or type(id) not in (int, str):
        return False
    if "_meta" in params and not isinstance(params["_meta"], dict):
        return False
    if has_states and is_modern(params) and "requestState" in params:
        return False
    return isinstance(params.get("arguments"), dict | None)


def is_modern(params: dict[str, Any]) -> bool:
    return isinstance(params.get("_meta"), dict) and VERSION in params["_meta"]


def read(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[Place]:
    async with serving(max_sessions=100) as place:
        place.session_headers = await place.session()  # type: ignore[attr-defined]
        yield place


async def try_it(place: Place, body: bytes, headers: Any, verb: str = "POST") -> None:
    """Send a message; check the answer, and which tools ran."""
    place.ran.clear()
    value = read(body)
    line = await place.open(body, headers, verb)
    try:
        async with asyncio.timeout(5):
            answer = await line.head()
            if answer.header("content-type") != "text/event-stream" and verb != "HEAD":
                answer.body = await line.reader.readexactly(int(answer.header("content-length") or 0))
    finally:
        line.cut()
        place.lines.remove(line)
    assert answer.status < 500
    if answer.header("content-type") == "application/json" and verb != "HEAD":
        said = answer.json
        for each in said if isinstance(said, list) else [said]:
            assert each["jsonrpc"] == "2.0"
            assert ("result" in each) != ("error" in each)
            if "error" in each:
                assert type(each["error"]["code"]) is int
                assert isinstance(each["error"]["message"], str)
            if answer.status == 200 and id_of(value) is not None:
                assert each["id"] == id_of(value)
                assert type(each["id"]) is type(id_of(value))
    elif answer.status < 400:
        assert answer.status in (202, 204) or answer.header("content-type") == "text/event-stream"
    for tool in place.ran:
        if tool in ("add", "who", "echo"):
            assert answer.status == 200
            assert any(may_run(each, tool) for each in (value if isinstance(value, list) else [value]))
            if isinstance(value, dict) and is_modern(value["params"]):
                assert repeats(headers, tool)
    assert place.faults == []


def repeats(headers: dict[str, str], tool: str) -> bool:
    """Return whether the headers match the body."""
    said = [(headers.get(name) or "").strip() for name in ("Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name")]
    return said[:2] == [MODERN, "tools/call"] and said[2] in (tool, f"=?base64?{b64encode(tool.encode()).decode()}?=")


@fuzzing
@given(body=st.binary(max_size=200) | broken_bytes(), headers=HEADERS)
async def test_any_bytes_are_answered(server: Place, body: bytes, headers: Any) -> None:
    await try_it(server, body, {name: value for name, value in headers if name != "Host"})


@fuzzing
@given(value=VALUES | st.lists(bent_requests("legacy"), max_size=3), in_session=st.booleans())
async def test_any_json_is_answered(server: Place, value: Any, in_session: bool) -> None:
    await try_it(server, spelled(value), server.session_headers if in_session else {})  # type: ignore[attr-defined]


@fuzzing
@given(request=bent_requests("modern"), headers=HEADERS)
async def test_any_modern_request_is_answered(server: Place, request: Any, headers: Any) -> None:
    owed: dict[str, Any] = {}
    if isinstance(request, dict) and isinstance(request.get("method"), str) and isinstance(request.get("params"), dict):
        owed = modern_headers(request) if is_modern(request["params"]) else {}
    sayable = {
        name: value
        for name, value in owed.items()
        if isinstance(value, str) and value.isascii() and value.isprintable()
    }
    await try_it(server, spelled(request), {name: str(value) for name, value in sayable.items()} | dict(headers))


@fuzzing
@given(request=bent_requests("legacy"), headers=HEADERS)
async def test_any_request_in_a_session_is_answered(server: Place, request: Any, headers: Any) -> None:
    session = server.session_headers  # type: ignore[attr-defined]
    await try_it(server, spelled(request), {**session, **dict(headers)})


@fuzzing
@given(verb=st.sampled_from(["GET", "DELETE", "PUT", "HEAD", "X"]), headers=HEADERS, resume=HEADER_VALUES)
async def test_any_verb_with_any_headers_is_answered(server: Place, verb: str, headers: Any, resume: str) -> None:
    session = {} if verb == "DELETE" else server.session_headers  # type: ignore[attr-defined]
    await try_it(server, b"", {**session, "Last-Event-ID": resume, **dict(headers)}, verb)


# ---- streams -------------------------------------------------------------------------------------------------


class Duplex:
    """A stream session in memory, and the messages that it sent."""

    def __init__(self) -> None:
        self.tools = Tools()
        self.said: list[Any] = []
        self.session = StreamSession(self.tools.server.router, self._take)

    def _take(self, one: Any) -> None:
        said = json.loads(jsonrpc.encode(one))
        self.said += said if isinstance(said, list) else [said]

    async def settle(self) -> None:
        """Wait until nothing is running."""
        async with asyncio.timeout(5):
            while [task for task in self.session._tasks if not self._listens(task)]:
                await asyncio.sleep(0)
            for _ in range(4):  # a listen that is refused is answered in its task too
                await asyncio.sleep(0)

    def _listens(self, task: Any) -> bool:
        return any(each.task is task and each.listens for each in self.session._live.values())


@fuzzing
@given(
    beginning=st.sampled_from([None, LEGACY, "2025-03-26"]),
    messages=st.lists(bent_requests() | VALUES, max_size=6),
)
async def test_any_messages_can_be_fed_to_a_stream(beginning: str | None, messages: list[Any]) -> None:
    before = asyncio.all_tasks()
    duplex = Duplex()
    modern_only = beginning is None and b"initialize" not in spelled(messages)
    if beginning is not None:
        duplex.session.feed(message("initialize", {"protocolVersion": beginning, "capabilities": {}}, "begin"))
    for each in messages:
        duplex.said.clear()
        duplex.tools.ran.clear()
        value = copy.deepcopy(each)
        duplex.session.feed(value)
        await duplex.settle()
        listens = isinstance(each, dict) and each.get("method") == "subscriptions/listen"
        if id_of(each) is not None and isinstance(each, dict) and not listens:
            assert [said["id"] for said in duplex.said if "method" not in said] == [each["id"]]
        for tool in duplex.tools.ran:
            if tool in ("add", "who", "echo"):
                assert any(may_run(one, tool, modern_only) for one in (each if isinstance(each, list) else [each]))
    await duplex.session.close()
    assert asyncio.all_tasks() <= before
    assert len(duplex.tools.server.changes) == 0


@fuzzing
@given(
    data=st.lists(st.binary(max_size=60) | broken_bytes() | bent_requests().map(spelled), max_size=6),
    cuts=st.integers(1, 50),
)
async def test_any_bytes_can_come_on_stdin(data: list[bytes], cuts: int) -> None:
    tools = Tools()
    ours, theirs = os.pipe(), os.pipe()
    serving_it = asyncio.create_task(serve_stdio(tools.server.router, stdin=ours[0], stdout=theirs[1]))
    stream = b"\n".join([*data, spelled(modern("tools/list", {}, "the last")), b""])
    for at in range(0, len(stream), max(1, len(stream) // cuts)):
        os.write(ours[1], stream[at : at + max(1, len(stream) // cuts)])
        await asyncio.sleep(0)
    os.close(ours[1])
    async with asyncio.timeout(5):
        await serving_it
    os.close(theirs[1])
    with os.fdopen(theirs[0], "rb") as out:
        lines = [json.loads(line) for line in out]
    os.close(ours[0])
    said = [one for line in lines for one in (line if isinstance(line, list) else [line])]
    assert [one for one in said if one.get("id") == "the last"]
    read_as = [read(line) for line in stream.split(b"\n")]
    values = [one for each in read_as for one in (each if isinstance(each, list) else [each])]
    for tool in tools.ran:
        if tool in ("add", "who", "echo"):
            assert any(may_run(one, tool, b"initialize" not in stream) for one in values)
