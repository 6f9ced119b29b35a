"""Which tools are seen: static lists, plain functions, and functions that also look at who asks.

A tool that a filter refuses is neither listed nor callable, so a filter that breaks refuses.
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
    """Allow and block by name. Block wins; `allowed=None` allows all, an empty one nothing; no name, no entry."""

    allowed: frozenset[str] | None = None
    blocked: frozenset[str] = frozenset()

    def __call__(self, tool: Tool | Mapping[str, Any]) -> bool:
        name = _name(tool)
        if not name or name in self.blocked:
            return False
        return self.allowed is None or name in self.allowed

    def describe(self) -> str:
        """The rule in words, for people who ask why a tool is not there."""
        rules = [f"blocked {_listed(self.blocked)}"] if self.blocked else []
        if self.allowed is not None:
            rules.append(f"allowed {_listed(self.allowed)}")
        return f"static filter: {'; '.join(rules) or 'all allowed'}"

    def __repr__(self) -> str:
        return f"<{self.describe()}>"


@dataclass(frozen=True, slots=True)
class DynamicFilter:
    """A filter that also looks at who asks; `dynamic_filter` makes one."""

    function: ContextFilter

    def __call__(self, context: FilterContext, tool: Tool) -> bool:
        return self.function(context, tool)

    def describe(self) -> str:
        """The rule in words: the function's name."""
        return f"dynamic filter {_called(self.function)}"

    def __repr__(self) -> str:
        return f"<{self.describe()}>"


AnyFilter = ToolFilter | DynamicFilter

_told: set[tuple[str, str]] = set()
"""Filters and the exceptions of theirs that were told, both by name: there are only so many names in a program."""


def static_filter(allowed: Iterable[str] | None = None, blocked: Iterable[str] | None = None) -> StaticFilter:
    """A filter by names; see `StaticFilter`."""
    return StaticFilter(
        None if allowed is None else _names("allowed", allowed), _names("blocked", () if blocked is None else blocked)
    )


def dynamic_filter(function: ContextFilter) -> DynamicFilter:
    """A filter by `function(context, tool)`, where the context tells agent, server name and run context."""
    return DynamicFilter(function)


def describe(tool_filter: AnyFilter) -> str:
    """The rule in words, as `AccessDenied.rule` tells it."""
    if isinstance(tool_filter, StaticFilter | DynamicFilter):
        return tool_filter.describe()
    return f"tool filter {_called(tool_filter)}"


def allows(tool_filter: AnyFilter | None, tool: Tool, context: FilterContext | None = None) -> bool:
    """Whether the filter lets the tool through; no filter lets everything through, one that raises nothing."""
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
        level = logging.DEBUG if failure in _told else logging.WARNING
        _told.add(failure)
        # The text may quote what a server wrote: it goes through %r, and the raw traceback only to who debugs.
        log.log(
            level,
            "%s raised %s on tool %r, which is refused: %r",
            *failure,
            _name(tool),
            str(exc)[:200],
            exc_info=log.isEnabledFor(logging.DEBUG),
        )
        return False


def _refuse_awaitable(verdict: Any) -> bool:
    """An `async def` filter gives a coroutine, which is true whatever it would say: that must not open the door."""
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
