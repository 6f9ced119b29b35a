"""The `[hub]` table of `toolcrib.toml`: options for the hub and all of its servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .._util.suggest import suggest
from ..config import CHECKS, one_of, with_own_names, wrong
from ..errors import ConfigError
from ..protocol.sanitize import one_line
from ..tool_names import pattern
from .documents import place_of
from .entries import Reading
from .keys import own_name, read_none


def _patterns(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) and pattern(item) for item in value):
        raise wrong(key, "a list of qualified names or patterns, such as ['mcp__fs__read_*']", value)
    return tuple(value)


def _approvals(key: str, value: Any) -> Any:
    words = ("always", "never")
    if value in words:
        return value
    if isinstance(value, Mapping) and all(pattern(name) and word in words for name, word in value.items()):
        return dict(value)
    if isinstance(value, Mapping | str):
        raise wrong(
            key, "always, never, a list of qualified names or patterns, or a table of them to always/never", value
        )
    return _patterns(key, value)


def _start_timeout(key: str, value: Any) -> Any:
    return value if value in ("auto", 0) else CHECKS["connect_timeout"](key, value)


_FROM_CONFIGS = (
    "connect_timeout",
    "discovery_timeout",
    "execution_timeout",
    "idle_timeout",
    "max_attempts",
    "max_in_flight",
    "reconnect",
    "cache_tools_list",
    "clean_arguments",
    "lifecycle",
)
OPTIONS: dict[str, Callable[[str, Any], Any]] = {
    "allowed_tools": _patterns,
    "disallowed_tools": _patterns,
    "require_approval": _approvals,
    "on_error": one_of("skip", "raise"),
    "start": one_of("eager", "lazy"),
    "start_timeout": _start_timeout,
    "max_parallel_starts": CHECKS["max_in_flight"],
    "mode": one_of("auto", "legacy", "2026-07-28"),
    "disconnect_idle_after": CHECKS["idle_timeout"],
    **{name: CHECKS[name] for name in _FROM_CONFIGS},
}


def hub_options(reading: Reading, root: Mapping[str, Any]) -> dict[str, Any]:
    """Return the validated options; an invalid one raises, because without it the hub would behave differently."""
    table = root.get("hub", {})
    if not isinstance(table, Mapping):
        expected = "a table of options"
        raise reading.document.error(
            f"hub: expected {expected}", offset=place_of(root, "hub"), key="hub", expected=expected
        )
    return with_own_names({str(key): _option(reading, root, str(key), value) for key, value in table.items()})


def _option(reading: Reading, root: Mapping[str, Any], key: str, value: Any) -> Any:
    try:
        if own_name(key) not in OPTIONS:
            raise _unknown(key)
        return OPTIONS[own_name(key)](key, read_none(key, value))
    except ConfigError as exc:
        fault = exc
    whole = one_line(f"hub.{fault.key}", 200)
    offset = place_of(root, "hub", key)
    raise reading.document.error(f"hub.{fault.message}", offset=offset, key=whole, expected=fault.expected)


def _unknown(key: str) -> ConfigError:
    hint = suggest(key, OPTIONS) or f"; expected one of {', '.join(OPTIONS)}"
    return ConfigError(f"{one_line(key, 60)}: unknown option{hint}", key=key, expected="an option of the hub")
