"""Binary content from a caller: bytes or base64 text; anything else is rejected at once."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

import toolcrib as tc

DATA = bytes(range(256))
MAKERS = {
    "image": lambda data: tc.ImageContent(data, "image/gif"),
    "audio": lambda data: tc.AudioContent(data, "audio/ogg"),
    "blob": lambda data: tc.ResourceContents("x://y", blob=data),
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize(
    "given",
    [DATA, bytearray(DATA), memoryview(DATA), b64encode(DATA).decode(), b64encode(DATA).decode().replace("0", "0\r\n")],
    ids=["bytes", "bytearray", "memoryview", "base64", "base64 in lines"],
)
def test_bytes_and_base64_text_are_the_same(kind: str, given: Any) -> None:
    made: Any = MAKERS[kind](given)
    assert made == MAKERS[kind](DATA)
    assert type(made.blob if kind == "blob" else made.data) is bytes
    wire = made.to_wire()
    assert wire["blob" if kind == "blob" else "data"] == b64encode(DATA).decode()


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("given", ["no base64!", "data:image/png;base64,AAAA", "AAA", 5, ["a"]])
def test_anything_else_is_refused_at_once(kind: str, given: Any) -> None:
    with pytest.raises(tc.UsageError, match="expected bytes or base64 text, got"):
        MAKERS[kind](given)


async def test_a_tool_may_return_base64_text() -> None:
    server = tc.ToolServer("s")
    server.add_tool(lambda: tc.ImageContent(b64encode(DATA).decode(), "image/gif"), name="picture")  # type: ignore[arg-type]
    async with tc.Client(server) as client:
        (block,) = (await client.call_tool("picture")).content
    assert block == tc.ImageContent(DATA, "image/gif")
