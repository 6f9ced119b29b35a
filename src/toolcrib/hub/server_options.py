"""The options of one server of a hub: its own, those of its config, those for all servers, and the defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, cast

from .._util.suggest import suggest
from ..client.options import ClientOptions, ConnectionOptions, ResolvedOptions, checked_timeout, resolve
from ..config import ALIASES, CHECKS, HttpServer, ServerConfig, SseServer, StdioServer, one_of, with_own_names
from ..errors import ConfigError, ToolcribError
from ..policy.filters import AnyFilter
from ..policy.permissions import RequireApproval
from ..transports.factory import target_of
from ..types import UNSET, Unset
from .interceptors import Approver

Start = Literal["eager", "lazy"]
OnError = Literal["skip", "raise"]
StartTimeout = float | Literal["auto"] | None

STARTS: Final = ("eager", "lazy")
OWN: Final = ("lifecycle", "disconnect_idle_after", "start")
"""Options of a server in a hub beside those of its client."""

_CLIENT: Final = tuple(f.name for f in fields(ResolvedOptions) if f.name != "name")
_OF_ALL: Final = frozenset((*_CLIENT, *OWN)) - {"tool_filter"}


class HubOptions(ConnectionOptions, total=False):
    """Options of a `Hub` that apply to each of its servers, unless the server's config has another value."""

    lifecycle: Literal["singleton", "transient"]
    """`transient` makes a connection (a process) for each call; default `singleton`."""
    disconnect_idle_after: float | None
    """Seconds without a call after which a server is disconnected; the next call connects it again. Default None."""


class ServerOptions(HubOptions, total=False):
    """Options of one server of a hub: `hub.add_server(name, server, **options)`, `{name: (server, options)}`."""

    start: Start
    """`lazy` starts the server with the first list, or the first call to it; default: the hub's `start`."""
    tool_filter: AnyFilter | None
    """Which tools of this server are listed and may be called."""


class HubConfigOptions(HubOptions, total=False):
    """Options of `Hub.from_config`, each of which overrides the settings. See `Hub`."""

    allowed_tools: Iterable[str] | None
    disallowed_tools: Iterable[str] | None
    require_approval: RequireApproval | None
    approve: Approver | None
    tool_filter: AnyFilter | None
    on_error: OnError
    start: Start
    start_timeout: StartTimeout
    max_parallel_starts: int | Unset | None


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """One server of a hub, with checked options. It is never connected if it has an `error` or is `disabled`."""

    name: str
    display_name: str
    server: Any
    options: ClientOptions
    settings: ResolvedOptions
    tool_filter: AnyFilter | None = None
    transient: bool = False
    disconnect_idle_after: float | None = None
    start: Start = "eager"
    disabled: bool = False
    error: ToolcribError | None = None
    starts_process: bool = False
    """Whether connecting starts a process on this machine."""


def checked_options(given: Mapping[str, Any], what: str, more: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the options of one server, or of all; raise `ConfigError` with the nearest name for an unknown one."""
    known = (*_CLIENT, *OWN, *more)
    given = with_own_names(given)
    for key in given:
        if key not in known:
            hint = suggest(key, [*known, *ALIASES])
            raise ConfigError(f"{what} has no option {key!r}{hint}", key=key, expected="one of " + ", ".join(known))
    if "start" in given:
        checked_start(given["start"])
    if "lifecycle" in given:
        CHECKS["lifecycle"]("lifecycle", given["lifecycle"])
    if "disconnect_idle_after" in given:
        checked_timeout("disconnect_idle_after", given["disconnect_idle_after"])
    return given


def for_all(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a hub's options that apply to each of its servers."""
    return {key: value for key, value in options.items() if key in _OF_ALL}


class CommonOptions:
    """The options for all servers of a hub. A settings file that changes may replace them."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    @property
    def values(self) -> Mapping[str, Any]:
        """The options in force."""
        return self._values

    def replace(self, values: Mapping[str, Any]) -> None:
        """Put other options in force, for servers that are added from now on."""
        self._values = dict(values)


def checked_start(value: Any) -> Start:
    """Return `eager` or `lazy`; raises `ConfigError` for any other value."""
    return cast("Start", one_of(*STARTS)("start", value))


def spec_for(name: str, display_name: str, given: Any, of_all: Mapping[str, Any]) -> ServerSpec:
    """Return the spec of a server: a config, URL, `ToolServer`, transport, or a pair of one of these and options.

    Options of this server override its config, that overrides the options for all, those override the defaults.
    """
    server, own = _split_options(name, given)
    try:
        target = target_of(server)
        options = {**_drop_overridden(target, of_all), **checked_options(own, "a server")}
        lifecycle = options.pop("lifecycle", getattr(target, "lifecycle", "singleton"))
        disconnect_idle_after = options.pop("disconnect_idle_after", None)
        start = options.pop("start", "eager")
        own_filter = options.pop("tool_filter", None)
        tool_filter = CHECKS["tool_filter"]("tool_filter", _filter_of(target) if own_filter is None else own_filter)
        # The hub filters per caller, and cleans before it asks for approval: the client must not do either again.
        settings = resolve(target, name, cast("ClientOptions", {**options, "name": name, "tool_filter": None}))
    except ConfigError as exc:
        exc.server = exc.server or name
        raise
    options |= {"name": name, "tool_filter": None, "clean_arguments": "never"}
    return ServerSpec(
        name,
        display_name,
        server,
        cast("ClientOptions", options),
        settings,
        tool_filter,
        lifecycle == "transient",
        disconnect_idle_after,
        start,
        starts_process=isinstance(target, StdioServer),
    )


def spec_without(name: str, display_name: str, server: Any, error: ToolcribError | None) -> ServerSpec:
    """Return the spec of a server that is never connected: its settings are wrong or, without an error, disable it."""
    return ServerSpec(name, display_name, server, {}, ResolvedOptions(name=name), disabled=error is None, error=error)


def _split_options(name: str, given: Any) -> tuple[Any, Mapping[str, Any]]:
    if not isinstance(given, tuple):
        return given, {}
    if len(given) != 2 or not isinstance(given[1], Mapping):
        expected = "a server, or a pair of a server and a dict of options"
        raise ConfigError(f"expected {expected}", key=name, expected=expected, server=name)
    return given[0], given[1]


def _drop_overridden(target: Any, of_all: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for all servers without those that this one's config overrides, or that do not apply to it."""
    is_config = isinstance(target, ServerConfig)
    defaults = {f.name: f.default for f in fields(target)} if is_config else {}
    kept = {}
    for key, value in of_all.items():
        if key == "auth" and not isinstance(target, HttpServer | SseServer):
            continue
        own = getattr(target, key, UNSET) if key in defaults else UNSET
        if own is UNSET or own == defaults[key]:
            kept[key] = value
    return kept


def _filter_of(target: Any) -> AnyFilter | None:
    found = getattr(target, "tool_filter", None) if isinstance(target, ServerConfig) else None
    return cast("AnyFilter | None", found)
