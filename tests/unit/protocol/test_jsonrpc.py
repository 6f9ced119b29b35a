"""JSON-RPC messages: encoding, decoding, and limits."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import ProtocolError, RemoteError, UsageError
from toolcrib.protocol import jsonrpc, limits

INT64 = st.integers(-(2**63), 2**64 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | INT64 | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=5)


# ---- making messages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("params", [None, {}])
def test_empty_params_are_left_out(params: dict[str, Any] | None) -> None:
    assert jsonrpc.request(1, "ping", params) == {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert jsonrpc.notification("notifications/initialized", params) == {
        "jsonrpc": "2.0",
        "method": "notifications/initialized",
    }


def test_an_error_without_data_says_none() -> None:
    assert "data" not in jsonrpc.error(1, -32601, "no")["error"]
    assert jsonrpc.error(1, -32601, "no", {"a": 1})["error"] == {"code": -32601, "message": "no", "data": {"a": 1}}


@given(st.integers(1) | st.text(max_size=5), st.text(max_size=10), OBJECTS)
def test_every_kind_of_message_has_the_version_and_only_its_own_fields(id: Any, method: str, value: Any) -> None:
    assert set(jsonrpc.request(id, method, value)) - {"params"} == {"jsonrpc", "id", "method"}
    assert set(jsonrpc.notification(method, value)) - {"params"} == {"jsonrpc", "method"}
    assert jsonrpc.result(id, value) == {"jsonrpc": "2.0", "id": id, "result": value}


# ---- out and in again ----------------------------------------------------------------------------------------


@given(OBJECTS)
def test_what_is_encoded_is_decoded_to_the_same(value: dict[str, Any]) -> None:
    data = jsonrpc.encode(value)
    assert b"\n" not in data
    assert b"\r" not in data
    assert jsonrpc.decode(data) == jsonrpc.decode(bytearray(data)) == jsonrpc.decode(data.decode()) == value
    assert json.loads(data) == value


@pytest.mark.parametrize(
    "value, written",
    [
        ({"big": 2**80}, b'{"big":1208925819614629174706176}'),
        ({1: "key"}, b'{"1":"key"}'),
        ({"text": "\u00e9\u2028"}, '{"text":"\u00e9\u2028"}'.encode()),
    ],
)
def test_what_only_the_slow_encoder_knows_is_written_too(value: Any, written: bytes) -> None:
    assert jsonrpc.encode(value) == written


def _self_containing() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    "value",
    [object(), {"x": {1, 2}}, b"bytes", "\ud800", {"big": 2**80, "x": math.inf}, _self_containing()],
    ids=["object", "set", "bytes", "surrogate", "infinity beside a big number", "cycle"],
)
def test_what_json_cannot_say_is_the_callers_mistake(value: Any) -> None:
    with pytest.raises(UsageError):
        jsonrpc.encode(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_do_not_become_null_on_the_way(value: float) -> None:
    with pytest.raises(UsageError):
        jsonrpc.encode({"x": value})


# ---- limits --------------------------------------------------------------------------------------------------


def _nested(depth: int, shape: str) -> bytes:
    if shape == "arrays":
        return b"[" * depth + b"]" * depth
    if shape == "objects":
        return b'{"a":' * (depth - 1) + b"{}" + b"}" * (depth - 1)
    return b'[[],{"b":[[]],"a":' + b'[1,{"a":' * (depth // 2 - 1) + b"0" + b"}]" * (depth // 2)


@pytest.mark.parametrize("shape", ["arrays", "objects", "mixed"])
def test_the_depth_limit_is_exact(shape: str) -> None:
    jsonrpc.decode(_nested(limits.MAX_DEPTH, shape))
    with pytest.raises(ProtocolError, match="nested deeper than 128"):
        jsonrpc.decode(_nested(limits.MAX_DEPTH + (2 if shape == "mixed" else 1), shape))


@given(st.integers(1, 300))
def test_depth_is_judged_by_nesting_alone(depth: int) -> None:
    """Brackets next to each other, and brackets in strings, do not count as depth."""
    wide = b"[" + b",".join([b"[" * (depth // 3) + b"]" * (depth // 3) or b"0"] * 130) + b"]"
    brackets = jsonrpc.encode({"x": "[{" * depth})
    assert jsonrpc.decode(wide)
    assert jsonrpc.decode(brackets) == {"x": "[{" * depth}
    deep = b"[" * depth + b"]" * depth
    if depth > limits.MAX_DEPTH:
        with pytest.raises(ProtocolError):
            jsonrpc.decode(deep)
    else:
        assert jsonrpc.decode(deep) is not None


def test_the_size_limit_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_MESSAGE", 100)
    assert jsonrpc.decode(b'"' + b"x" * 98 + b'"') == "x" * 98
    with pytest.raises(ProtocolError, match="101 bytes exceeds the limit of 100"):
        jsonrpc.decode(b'"' + b"x" * 99 + b'"')


def _refusal(data: bytes | str) -> ProtocolError | None:
    try:
        jsonrpc.decode(data)
    except ProtocolError as exc:
        return exc
    return None


@given(st.binary(max_size=300) | st.text(max_size=300))
def test_garbage_raises_nothing_but_a_protocol_error(data: bytes | str) -> None:
    refusal = _refusal(data)
    if refusal is not None:
        assert len(refusal.sample) <= limits.SAMPLE
        assert refusal.sample.isprintable()


@given(OBJECTS, st.integers(0, 255), st.data())
def test_a_message_cut_or_spoilt_raises_nothing_but_a_protocol_error(
    value: dict[str, Any], byte: int, data: st.DataObject
) -> None:
    whole = jsonrpc.encode(value)
    at = data.draw(st.integers(0, len(whole) - 1))
    _refusal(whole[:at] + bytes([byte]) + whole[at + 1 :])
    assert _refusal(whole[:at]), "an object without its last brace is not JSON"


# ---- answers -------------------------------------------------------------------------------------------------


def test_an_error_answer_becomes_a_remote_error_with_all_it_said() -> None:
    said = jsonrpc.outcome(jsonrpc.error(1, -32602, "bad", {"field": "x"}))
    assert isinstance(said, RemoteError)
    assert (said.code, said.message, said.data) == (-32602, "bad", {"field": "x"})


@pytest.mark.parametrize("code", [True, "1", 1.5, None, [], {}])
def test_an_error_code_that_is_not_an_integer_breaks_the_protocol(code: Any) -> None:
    assert isinstance(jsonrpc.outcome({"id": 1, "error": {"code": code, "message": "x"}}), ProtocolError)


@given(JSON)
def test_every_answer_is_a_result_a_remote_error_or_a_protocol_error(value: Any) -> None:
    for message in ({"id": 1, "result": value}, {"id": 1, "error": value}, {"id": 1}):
        said = jsonrpc.outcome(message)
        if isinstance(message.get("result"), dict):
            assert said is value
        else:
            assert isinstance(said, RemoteError | ProtocolError)


def test_an_error_beside_a_result_wins() -> None:
    said = jsonrpc.outcome({"id": 1, "result": {}, "error": {"code": 1, "message": "no"}})
    assert isinstance(said, RemoteError)


@pytest.mark.parametrize("id, ours", [(7, 7), ("7", 7), ("007", 7), (0, 0), (10**18, 10**18)])
def test_a_number_and_its_text_are_one_id(id: Any, ours: int) -> None:
    assert jsonrpc.correlate(id) == ours


@pytest.mark.parametrize("id", [True, False, None, 7.0, "", " 7", "-7", "7.0", "\u0667", "9" * 5000, [], {}])
def test_an_unknown_id_correlates_with_nothing(id: Any) -> None:
    assert jsonrpc.correlate(id) is None


@pytest.mark.parametrize("id, may", [(1, True), ("a", True), ("", True), (True, False), (1.0, False), (None, False)])
def test_a_peer_may_use_numbers_and_texts_but_no_bools_as_ids(id: Any, may: bool) -> None:
    assert jsonrpc.is_id(id) is may


# ---- integers of any size


@given(st.integers(-(10**40), 10**40), st.integers(0, 40), st.sampled_from(["bytes", "str", "bytearray"]))
def test_an_integer_of_any_size_arrives_exactly_wherever_it_is(number: int, place: int, kind: str) -> None:
    data = f'{{"pad":"{"." * place}","n":{number},"é":[1.5,"x"]}}'.encode()
    given = {"bytes": data, "str": data.decode(), "bytearray": bytearray(data)}[kind]
    value = jsonrpc.decode(given)
    assert value == {"pad": "." * place, "n": number, "é": [1.5, "x"]}
    assert type(value["n"]) is int


@pytest.mark.parametrize("digits", [19, 20, 21, 300, 308, 309, 310, 4_300])
@pytest.mark.parametrize("sign", ["", "-"])
def test_integers_up_to_the_limit_of_digits_arrive_exactly(digits: int, sign: str) -> None:
    text = f"{sign}{'9' * digits}"
    assert jsonrpc.decode(f"[{text}]") == [int(text)]


@pytest.mark.parametrize("digits", [4_301, 1_000_000])
def test_an_integer_of_too_many_digits_is_refused_at_once(digits: int) -> None:
    with pytest.raises(ProtocolError, match="not JSON"):
        jsonrpc.decode("[" + "9" * digits + "]")


@pytest.mark.parametrize(
    "text",
    ["NaN", "Infinity", "-Infinity", "1e999", '"\\ud800"', "[" * 200 + "]" * 200, "01", "1.", "'a'", "1 2"],
)
@pytest.mark.parametrize("large", ["18446744073709551616", "9" * 400])
def test_beside_a_large_integer_the_same_is_refused_as_without_one(text: str, large: str) -> None:
    for message in (f'{{"x": {text}}}', f'{{"n": {large}, "x": {text}}}'):
        with pytest.raises(ProtocolError):
            jsonrpc.decode(message)


@given(JSON)
def test_beside_a_large_integer_everything_else_is_the_same(value: object) -> None:
    data = jsonrpc.encode({"value": value})
    assert jsonrpc.decode(data[:-1] + b',"n":18446744073709551616}') == {**jsonrpc.decode(data), "n": 1 << 64}


@pytest.mark.serial
@pytest.mark.parametrize("digits", [18, 19])
def test_many_long_numbers_are_decoded_in_linear_time(digits: int) -> None:
    """Numbers that nearly are large ones: 3 MB of them."""
    data = jsonrpc.encode({"n": [int("9" * digits)] * 150_000})
    start = time.perf_counter()
    assert jsonrpc.decode(data)["n"][-1] == int("9" * digits)
    assert time.perf_counter() - start < 3


def test_a_large_integer_in_every_place_of_a_large_message_is_found() -> None:
    for place in range(64):
        noise = "1234567x" * 8_000
        assert jsonrpc.decode(f'{{"s":"{noise}{"y" * place}","n":-9223372036854775809}}')["n"] == -(1 << 63) - 1


@pytest.mark.parametrize(
    "text, expected",
    [
        (r"cut \ud83d", "cut \ufffd"),
        (r"\ude00 cut", "\ufffd cut"),
        (r"\ud83d\ude00 whole", "\U0001f600 whole"),
        (r"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
    ],
)
def test_lone_surrogates_are_replaced_if_wanted(text: str, expected: str) -> None:
    assert jsonrpc.decode(f'{{"text": "{text}"}}'.encode(), repair=True) == {"text": expected}


def test_lone_surrogates_are_not_json_otherwise() -> None:
    with pytest.raises(ProtocolError, match="not JSON"):
        jsonrpc.decode(rb'{"text": "\ud83d"}')
