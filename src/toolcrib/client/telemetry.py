"""A span for each call and the trace context in its `_meta`, if the program uses OpenTelemetry.

The api package is only used if the program has imported it: otherwise no exporter can be configured.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from ..types import ToolResult


class Span:
    """The span of one call; does nothing without OpenTelemetry."""

    def __init__(self, api: Any = None, span: Any = None) -> None:
        self._api = api
        self._span = span

    def meta(self) -> dict[str, str]:
        """Return the trace context for the request's `_meta`, so that the server can continue the trace."""
        carrier: dict[str, str] = {}
        if self._span is not None:
            import_module("opentelemetry.propagate").inject(
                carrier
            )  # a part of the api that loading the api leaves out
        return carrier

    def result(self, result: ToolResult) -> None:
        """Record the result; an error result sets the status of the span."""
        if self._span is not None and result.is_error:
            self._span.set_status(self._api.StatusCode.ERROR, "the tool reported an error")


def tracing() -> bool:
    """Return whether the program uses OpenTelemetry."""
    return "opentelemetry.trace" in sys.modules


@contextmanager
def call_span(server: str, tool: str) -> Iterator[Span]:
    """Open a span for one tool call; the api package records exceptions on it."""
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
