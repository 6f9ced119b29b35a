"""Encodes and decodes JSON-RPC 2.0 messages, with limits on size and depth."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

import orjson

from ..errors import ProtocolError, RemoteError, UsageError
from . import limits
from .sanitize import Mask, one_line, printable

Message = dict[str, Any]
RequestId = int | str

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603


def request(id: RequestId, method: str, params: Message | None) -> Message:
    """Return a request; empty params are left out."""
    message: Message = {"jsonrpc": "2.0", "id": id, "method": method}
    if params:
        message["params"] = params
    return message


def notification(method: str, params: Message | None = None) -> Message:
    """Return a notification; empty params are left out."""
    message: Message = {"jsonrpc": "2.0", "method": method}
    if params:
        message["params"] = params
    return message


def result(id: RequestId, value: Message) -> Message:
    """Return the response to a request."""
    return {"jsonrpc": "2.0", "id": id, "result": value}


def error(id: RequestId | None, code: int, message: str, data: Any = None) -> Message:
    """Return the error response to a request."""
    body: Message = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    return {"jsonrpc": "2.0", "id": id, "error": body}


def encode(message: Any) -> bytes:
    """Return a message as one line of JSON, without the newline.

    Raises `UsageError` if it contains values that JSON cannot represent.
    """
    try:
        data = orjson.dumps(message)
        # orjson writes null for NaN and infinity, which the tool could not notice.
        if b"null" in data and _has_non_finite(message):
            raise UsageError("the message cannot be written as JSON: NaN and infinity are not JSON numbers")
        return data
    except TypeError as fast:
        # orjson supports neither integers of more than 64 bits nor keys that are not strings; `json` does.
        try:
            return json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError):
            raise UsageError(f"the message cannot be written as JSON: {fast}") from None


def _has_non_finite(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_non_finite, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_non_finite, value))


def decode(data: bytes | bytearray | str, mask: Mask | None = None, *, repair: bool = False) -> Any:
    """Return the JSON value of one message; raise `ProtocolError` if it is invalid, too large or too deep.

    `mask` is applied to the sample in an error. `repair` replaces lone surrogates, which JavaScript writes when it cuts
    an emoji in half, by U+FFFD.
    """
    if len(data) > limits.MAX_MESSAGE:
        raise ProtocolError(
            f"message of {len(data):,} bytes exceeds the limit of {limits.MAX_MESSAGE:,}", sample=_sample(data, mask)
        )
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        if not exc.msg.startswith("number is infinity"):  # orjson's message for an integer of more than 308 digits
            if repair and (repaired := _without_lone_surrogates(data)) is not None:
                return decode(repaired, mask)
            raise ProtocolError(f"not JSON: {exc.msg}", sample=_sample(data, mask)) from None
        value = _decode_exactly(data, mask)
    # So few bytes cannot nest deeper than the limit; this covers nearly every message.
    if len(data) <= 2 * limits.MAX_DEPTH and type(data) is bytes:
        if _LONG_RUN not in data.translate(_AS_ZEROS):
            return value
    elif _too_deep(data, value):
        raise ProtocolError(f"message nested deeper than {limits.MAX_DEPTH} levels", sample=_sample(data, mask))
    return _decode_exactly(data, mask) if _may_hold_large_integer(data) else value


_LONE_SURROGATE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


def _without_lone_surrogates(data: bytes | bytearray | str) -> str | None:
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    repaired, count = _LONE_SURROGATE.subn(r"\\ufffd", text)
    return repaired if count else None


_STRIDE: Final = 4
_AS_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG_RUN: Final = b"0" * 19
_LARGE: Final = (b"0" * 20, b"-" + b"0" * 19)


def _may_hold_large_integer(data: bytes | bytearray | str) -> bool:
    """Return whether a run of digits is long enough for orjson to turn an integer into a float.

    This runs for every message. Of 19 consecutive characters, every fourth makes at least four, so first only every
    fourth character is examined. Where four of these in a row are digits, the text around them is examined; if there
    are many such places, the whole text.
    """
    every = data[::_STRIDE]
    digits = (every if type(every) is bytes else _ascii(every)).translate(_AS_ZEROS)
    if b"0000" not in digits:
        return False
    at = digits.find(b"0000")
    for _ in range(20 + len(data) // 4_000):
        if at < 0:
            return False
        around = _ascii(data[max(0, at * _STRIDE - 20) : at * _STRIDE + 36]).translate(_AS_ZEROS)
        if _LARGE[0] in around or _LARGE[1] in around:
            return True
        at = digits.find(b"0000", at + 1)
    whole = _ascii(data).translate(_AS_ZEROS)
    return _LARGE[0] in whole or _LARGE[1] in whole


def _ascii(data: bytes | bytearray | str) -> bytes | bytearray:
    return data.encode("ascii", "replace") if isinstance(data, str) else data


def _decode_exactly(data: bytes | bytearray | str, mask: Mask | None) -> Any:
    """Decode with integers of any size, slowly; everything else is accepted and rejected as by orjson."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    try:
        if re.search(rf"\d{{{limits.MAX_DIGITS + 1}}}", text):
            raise ValueError(f"number of more than {limits.MAX_DIGITS:,} digits")
        value = json.loads(text, parse_float=_finite, parse_constant=_finite)
        json.dumps(value, ensure_ascii=False).encode()  # fails for a lone surrogate
    except (ValueError, RecursionError) as exc:
        raise ProtocolError(f"not JSON: {one_line(str(exc))}", sample=_sample(data, mask)) from None
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("number out of range")
    return number


def _too_deep(data: bytes | bytearray | str, value: Any) -> bool:
    # So few brackets cannot nest deeper than the limit.
    few = data.count("[") + data.count("{") if isinstance(data, str) else data.count(b"[") + data.count(b"{")
    if few <= limits.MAX_DEPTH:
        return False
    level = [value]
    for _ in range(limits.MAX_DEPTH + 1):
        if not level:
            return False
        level = [
            child
            for container in level
            for child in (container.values() if type(container) is dict else container)
            if type(child) is dict or type(child) is list
        ]
    return True


def _sample(data: bytes | bytearray | str, mask: Mask | None) -> str:
    return one_line(bytes(data) if isinstance(data, bytearray) else data, mask=mask)


_ID: Final = re.compile(rb'"id"\s*:\s*("?)(\d{1,18})\1\s*[,}]')


def spot_id(head: bytes) -> int | None:
    """Return the id of a malformed response, so that its caller need not wait for the deadline; None if unknown.

    Only an id at the beginning of a response counts: an id in a result, or of a request, belongs to something else.
    """
    found = _ID.search(head)
    if found is None or not head.lstrip().startswith(b"{") or b'"jsonrpc"' not in head or b'"method"' in head:
        return None
    return None if re.search(rb'"(result|error|params)"', head[: found.start()]) else int(found[2])


def correlate(id: Any) -> int | None:
    """Return the integer id of a request from the id of its response: `7` and `"7"` are equal, a bool is not an id."""
    if type(id) is int:
        return id
    if isinstance(id, str) and id.isascii() and id.isdigit() and len(id) < 19:
        return int(id)
    return None


def is_id(id: Any) -> bool:
    """Return whether this value is a valid id of a peer's request."""
    return isinstance(id, str) or (isinstance(id, int) and not isinstance(id, bool))


def outcome(message: Message, mask: Mask | None = None) -> Message | RemoteError | ProtocolError:
    """Return the result of a response, the peer's error, or a `ProtocolError` for an invalid response.

    The text of a peer's error is masked, stripped of control characters and cut here.
    """
    body = message.get("error")
    if body is not None:
        if isinstance(body, dict) and type(body.get("code")) is int:
            text, data = body.get("message"), body.get("data")
            text = printable(text, limits.MAX_ERROR_TEXT, mask) if isinstance(text, str) else ""
            return RemoteError(body["code"], text, data if mask is None or data is None else mask.mask_data(data))
        return ProtocolError("error response without an integer code", sample=one_line(encode(body), mask=mask))
    value = message.get("result")
    if type(value) is dict:
        return value
    return ProtocolError("response whose result is not an object", sample=one_line(encode(value), mask=mask))
