"""The calculator of Strands' document, with a few more tools: `python calculator_server.py stdio|http|sse`."""

from __future__ import annotations

import asyncio
import sys

import toolcrib as tc

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c63fccfc0500f0004850180849a8c210000000049454e44ae426082"
)
calculator = tc.ToolServer("Calculator Server")


@calculator.tool(name="calculator", description="Calculator tool which performs calculations")
def calculate(x: int, y: int) -> int:
    return x + y


@calculator.tool
def chart() -> list[tc.TextContent | tc.ImageContent]:
    """Draw a chart."""
    return [tc.TextContent("a chart"), tc.ImageContent(PNG, "image/png")]


@calculator.tool
def record() -> tc.AudioContent:
    """Record a sound."""
    return tc.AudioContent(b"RIFF", "audio/wav")


@calculator.tool
def divide(x: float, y: float) -> float:
    """Divide two numbers."""
    if y == 0:
        raise tc.ToolFailed("y is zero: choose another divisor")
    return x / y


@calculator.tool
async def sleep() -> str:
    """Sleep forever."""
    await asyncio.Event().wait()
    return "awake"


if __name__ == "__main__":
    calculator.run(transport=sys.argv[1], port=0)  # type: ignore[arg-type]
