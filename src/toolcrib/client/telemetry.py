"""A span for each call and the trace context in its `_meta`, if the program uses OpenTelemetry.

A program that has not loaded the api package has nobody to send spans to, so it is looked up and never imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from ..types import ToolResult


class Span:
    """One call, as its observers see it; without OpenTelemetry, nobody."""

    def __init__(self, api: Any = None, span: Any = None) -> None:
        self._api = api
        self._span = span

    def meta(self) -> dict[str, str]:
        """What rides on the request, so that the server can go on with the trace."""
        carrier: dict[str, str] = {}
        if self._span is not None:
            import_module("opentelemetry.propagate").inject(
                carrier
            )  # a part of the api that loading the api leaves out
        return carrier

    def result(self, result: ToolResult) -> None:
        """The tool answered."""
        if self._span is not None and result.is_error:
            self._span.set_status(self._api.StatusCode.ERROR, "the tool reported an error")


def tracing() -> bool:
    """Whether anybody could want spans."""
    return "opentelemetry.trace" in sys.modules


@contextmanager
def call_span(server: str, tool: str) -> Iterator[Span]:
    """The span of one tool call; errors are recorded on it by the api itself."""
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        yield Span()
        return
    attributes = {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "toolcrib.server": server,
    }
    tracer = api.get_tracer("toolcrib")
    with tracer.start_as_current_span(f"tools/call {tool}", kind=api.SpanKind.CLIENT, attributes=attributes) as span:
        yield Span(api, span)
