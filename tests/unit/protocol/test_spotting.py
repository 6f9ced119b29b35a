"""Which request a broken line answers: taken from the envelope, never guessed from its content."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.protocol import jsonrpc

IDS = st.integers(0, 10**17)
WITH_IDS = st.recursive(
    st.integers() | st.text(max_size=8) | st.fixed_dictionaries({"id": IDS | IDS.map(str)}),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "a", "jsonrpc"]), inner),
    max_leaves=10,
).map(lambda value: value if isinstance(value, dict) else {"value": value})


@pytest.mark.parametrize(
    "head, id",
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"text":"\xff', 7),
        (b'{"jsonrpc": "2.0", "id": "7", "result": {', 7),
        (b'{ "id" : 7 , "jsonrpc":"2.0","error":{"code":', 7),
        (b'{"jsonrpc":"2.0","id":7}}', 7),
        (b'{"jsonrpc":"2.0","id":null,"error":{}', None),
        (b'{"jsonrpc":"2.0","id":7', None),
        (b'{"jsonrpc":"2.0","id":"7,"result":', None),
        (b'{"jsonrpc":"2.0","result":{"id":7},', None),
        (b'{"jsonrpc":"2.0","method":"x","id":7,', None),
        (b"INFO starting", None),
        (b"", None),
    ],
)
def test_the_id_of_a_broken_answer_is_read_from_its_envelope(head: bytes, id: int | None) -> None:
    assert jsonrpc.spot_id(head) == id


@given(WITH_IDS, st.sampled_from(["result", "error", "params"]), st.integers(0, 1024))
def test_an_id_inside_the_payload_is_never_claimed(payload: Any, field: str, cut: int) -> None:
    line = jsonrpc.encode({"jsonrpc": "2.0", field: payload, "id": 7})
    assert jsonrpc.spot_id(line[:cut]) is None


@given(WITH_IDS, IDS, st.sampled_from(["result", "error"]), st.data())
def test_an_answer_broken_anywhere_belongs_to_its_call_or_to_none(
    payload: Any, id: int, field: str, data: st.DataObject
) -> None:
    line = jsonrpc.encode({"jsonrpc": "2.0", "id": id, field: payload})
    begin = line.index(b'"id":') + len(f'"id":{id}')
    at = data.draw(st.integers(begin, len(line)))
    assert jsonrpc.spot_id(line[:at]) in (id, None)
    assert jsonrpc.spot_id(line[:at] + b"\xff" + line[at + 1 :]) in (id, None)


@given(st.binary(max_size=300))
def test_any_bytes_can_be_looked_at(head: bytes) -> None:
    assert jsonrpc.spot_id(head) is None or b'"id"' in head


def test_a_broken_request_of_the_server_matches_no_pending_call() -> None:
    """The ids of the server's requests are separate: its 5 is not the client's 5."""
    line = b'{"jsonrpc":"2.0","id":5,"method":"sampling/createMessage","params":{"text":"\xff"}}'
    assert jsonrpc.spot_id(line) is None


@pytest.mark.parametrize("line", [b'      {"id": 5, "name": "Ann"},', b'"id": 5, "name": "Ann"}]}}'])
def test_a_piece_out_of_the_middle_of_an_answer_claims_no_call(line: bytes) -> None:
    """A server that prints its JSON over several lines sends several pieces, none of which is a message."""
    assert jsonrpc.spot_id(line) is None
