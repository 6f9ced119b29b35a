"""Tool filters: static lists, functions of the tool, and functions that also get the caller's context.

A tool that a filter rejects is neither listed nor callable. A filter that raises rejects the tool.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError
from ..types import FilterContext, Tool

log = logging.getLogger("toolcrib.policy")

ToolFilter = Callable[[Tool], bool]
ContextFilter = Callable[[FilterContext, Tool], bool]


@dataclass(frozen=True, slots=True)
class StaticFilter:
    """A filter that allows and blocks tools by name.

    `blocked` takes precedence. `allowed=None` allows all tools, an empty set none. A tool without a name is rejected.
    """

    allowed: frozenset[str] | None = None
    blocked: frozenset[str] = frozenset()

    def __call__(self, tool: Tool | Mapping[str, Any]) -> bool:
        name = _name(tool)
        if not name or name in self.blocked:
            return False
        return self.allowed is None or name in self.allowed

    def describe(self) -> str:
        """Return the rule as text, which explains why a tool is missing."""
        rules = [f"blocked {_listed(self.blocked)}"] if self.blocked else []
        if self.allowed is not None:
            rules.append(f"allowed {_listed(self.allowed)}")
        return f"static filter: {'; '.join(rules) or 'all allowed'}"

    def __repr__(self) -> str:
        return f"<{self.describe()}>"


@dataclass(frozen=True, slots=True)
class DynamicFilter:
    """A filter that also gets the caller's context; created by `dynamic_filter`."""

    function: ContextFilter

    def __call__(self, context: FilterContext, tool: Tool) -> bool:
        return self.function(context, tool)

    def describe(self) -> str:
        """Return the rule as text: the function's name."""
        return f"dynamic filter {_called(self.function)}"

    def __repr__(self) -> str:
        return f"<{self.describe()}>"


AnyFilter = ToolFilter | DynamicFilter

_logged: set[tuple[str, str]] = set()
"""Failures that were logged as warnings: filter and exception, both by name, so that the set stays small."""


def static_filter(allowed: Iterable[str] | None = None, blocked: Iterable[str] | None = None) -> StaticFilter:
    """Return a filter that allows and blocks tools by name; `blocked` takes precedence, `allowed=None` allows all."""
    return StaticFilter(
        None if allowed is None else _names("allowed", allowed), _names("blocked", () if blocked is None else blocked)
    )


def dynamic_filter(function: ContextFilter) -> DynamicFilter:
    """Return a filter that calls `function(context, tool)`; the context has agent, server name and run context."""
    return DynamicFilter(function)


def describe(tool_filter: AnyFilter) -> str:
    """Return the filter's rule as text, for `AccessDenied.rule`."""
    if isinstance(tool_filter, StaticFilter | DynamicFilter):
        return tool_filter.describe()
    return f"tool filter {_called(tool_filter)}"


def allows(tool_filter: AnyFilter | None, tool: Tool, context: FilterContext | None = None) -> bool:
    """Return whether the filter allows the tool; None allows every tool, a filter that raises rejects it."""
    if tool_filter is None:
        return True
    verdict: object
    try:
        if isinstance(tool_filter, DynamicFilter):
            verdict = tool_filter(FilterContext() if context is None else context, tool)
        else:
            verdict = tool_filter(tool)
        if hasattr(verdict, "__await__"):
            verdict = _refuse_awaitable(verdict)
        return bool(verdict)
    except Exception as exc:
        # One warning for each kind of failure: a broken filter fails on every tool of every list.
        failure = (describe(tool_filter), type(exc).__name__)
        level = logging.DEBUG if failure in _logged else logging.WARNING
        _logged.add(failure)
        # The message may quote the server: it is logged with %r, and the raw traceback only at debug level.
        log.log(
            level,
            "%s raised %s for tool %r, which is rejected: %r",
            *failure,
            _name(tool),
            str(exc)[:200],
            exc_info=log.isEnabledFor(logging.DEBUG),
        )
        return False


def _refuse_awaitable(verdict: Any) -> bool:
    """Raise `TypeError` for an async filter: its coroutine is always true, and would allow every tool."""
    close = getattr(verdict, "close", None)
    if close is not None:
        close()
    raise TypeError("a tool filter must be a plain function, not an async one")


def _name(tool: Tool | Mapping[str, Any]) -> str:
    name = tool.name if isinstance(tool, Tool) else tool.get("name")
    return name if isinstance(name, str) else ""


def _names(key: str, names: Iterable[str]) -> frozenset[str]:
    expected = "a list of tool names"
    given = frozenset() if isinstance(names, str) else frozenset(names)
    if isinstance(names, str) or not all(isinstance(name, str) for name in given):
        raise ConfigError(f"{key}: expected {expected}, such as ['search']", key=key, expected=expected)
    return given


def _listed(names: frozenset[str]) -> str:
    shown = sorted(names)
    more = f" and {len(shown) - 10} more" if len(shown) > 10 else ""
    return (", ".join(map(repr, shown[:10])) or "nothing") + more


def _called(function: object) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)
