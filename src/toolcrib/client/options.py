"""The options of a client: keyword arguments take precedence over the server's config, then defaults."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, TypedDict

from .. import defaults
from .._util.suggest import suggest
from ..config import (
    ALIASES,
    CHECKS,
    HttpServer,
    ServerBase,
    SseServer,
    StdioServer,
    may_download,
    one_of,
    with_own_names,
    wrong,
)
from ..errors import ConfigError
from ..policy.filters import AnyFilter
from ..protocol.metadata import LOG_LEVELS, LogLevel
from ..transports.channel import ProgressHandler
from ..transports.spawned_http import SpawnedHttpServer
from ..types import UNSET, LogMessage, ReconnectPolicy
from .handlers import ElicitationHandler, Roots, SamplingHandler
from .negotiation import MODES

CleanArguments = Literal["schema", "always", "never"]


class ConnectionOptions(TypedDict, total=False):
    """Options of a client that can also be set for all servers of a hub. Times are seconds; `None` means no limit."""

    mode: str
    """`auto` detects the protocol's era, `legacy` selects the legacy one, `2026-07-28` the modern one."""
    connect_timeout: float | None
    """Limit from the start of the process to the answered handshake; default 30, and 120 for commands that may download
    the server first, such as npx, uvx and docker.
    """
    discovery_timeout: float | None
    """Limit for fetching a whole list with all its pages; default 30."""
    execution_timeout: float | None
    """Limit for any other request, including waiting, connecting and retries; default 30."""
    idle_timeout: float | None
    """The longest time without a progress notification within a call; default none."""
    max_attempts: int
    """Maximum number of attempts of a request that may be sent again; default 3. With 1, no request is sent twice."""
    max_retries: int
    """Alias of `max_attempts`, for compatibility with crewAI."""
    reconnect: ReconnectPolicy
    """How to restore a lost connection."""
    max_in_flight: int | None
    """Maximum number of concurrent requests; default unlimited."""
    cache_tools_list: bool
    """Cache the list of tools as long as the server's hint allows, or 300 s if there is none above 0; default False.

    A `list_changed` notification or a reconnect still discards it. If False, a list is cached only if the server sends
    a hint."""
    clean_arguments: CleanArguments
    """Which null and empty arguments to remove: `schema` (default) those that the tool's schema does not allow,
    `always` all of them, `never` none.
    """
    retry_safe: bool | Collection[str]
    """The tools that may run twice without harm; True for all."""
    trusted: bool
    """Trust the server's readOnlyHint and idempotentHint; default False."""
    sampling_handler: SamplingHandler | None
    """Answers the server's requests to a model; the capability is declared only if it is set."""
    elicitation_handler: ElicitationHandler | None
    """Answers the server's requests to the user; the capability is declared only if it is set."""
    elicitation_modes: tuple[str, ...]
    """The modes that the handler supports: `form`, `url`; default only `form`."""
    roots: Roots | None
    """Directories to report to the server; the capability is declared only if it is set."""
    log_handler: Callable[[LogMessage], Any] | None
    """Called with each log message of the server."""
    log_level: LogLevel | None
    """The minimum level of log messages to request; default `info` if there is a handler."""
    progress_handler: ProgressHandler | None
    """Called with the progress of every call that has no `on_progress` of its own."""
    stderr_handler: Callable[[str], Any] | None
    """Called with every line that a local server writes to stderr."""
    auth: Any
    """Authorises requests over HTTP: `OAuth`, `ClientCredentials`, `JwtBearer`, `CrossAppAccess`, or anything shaped
    like `httpx.Auth`, such as the OAuth providers of the mcp SDK.
    """


class ClientOptions(ConnectionOptions, total=False):
    """Keyword options of a `Client`. Times are in seconds; `None` means no limit."""

    name: str | None
    """The name of the server in errors, events and logs; default: its identifier."""
    tool_filter: AnyFilter | None
    """Decides which tools are listed and may be called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedOptions:
    """The effective options, validated."""

    name: str
    mode: str = "auto"
    connect_timeout: float | None = defaults.CONNECT_TIMEOUT
    discovery_timeout: float | None = defaults.DISCOVERY_TIMEOUT
    execution_timeout: float | None = defaults.EXECUTION_TIMEOUT
    idle_timeout: float | None = None
    max_attempts: int = defaults.MAX_ATTEMPTS
    reconnect: ReconnectPolicy = field(default_factory=ReconnectPolicy)
    max_in_flight: int | None = None
    cache_tools_list: bool = False
    tool_filter: AnyFilter | None = None
    clean_arguments: CleanArguments = "schema"
    retry_safe: bool | Collection[str] = False
    trusted: bool = False
    sampling_handler: SamplingHandler | None = None
    elicitation_handler: ElicitationHandler | None = None
    elicitation_modes: tuple[str, ...] = ("form",)
    roots: Roots | None = None
    log_handler: Callable[[LogMessage], Any] | None = None
    log_level: LogLevel | None = None
    progress_handler: ProgressHandler | None = None
    stderr_handler: Callable[[str], Any] | None = None
    auth: Any = None

    @property
    def wanted_log_level(self) -> LogLevel | None:
        """The minimum level of log messages to request from the server; None for no request."""
        return self.log_level or ("info" if self.log_handler is not None else None)

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            object.__setattr__(self, each.name, _CHECKS[each.name](each.name, value))


def check_server_given(args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    """Raise a `TypeError` that shows how to give the server, if it is not among the arguments of a client."""
    if args or "server" in options:
        return
    if "transport_callable" in options:
        example = "Client(lambda: stdio_client(parameters)), not as transport_callable="
    else:
        example = "Client(StdioServer('python3', ['server.py'])) or Client('https://example.com/mcp')"
    raise TypeError(f"Client: expected the server as the first argument, such as {example}")


def resolve(config: object, name: str, given: ClientOptions) -> ResolvedOptions:
    """Return the options: keywords take precedence over the server's config, then defaults.

    The attributes of a custom transport are not options.
    """
    known = [each.name for each in fields(ResolvedOptions)]
    own = with_own_names(given)
    for key in own:
        if key not in known:
            hint = "; give it to HttpServer(url, headers=...)" if key == "headers" else suggest(key, [*known, *ALIASES])
            raise ConfigError(f"a Client has no option {key!r}{hint}", key=key, expected="one of " + ", ".join(known))
    asked = known if isinstance(config, ServerBase) else []
    chosen = {key: getattr(config, key) for key in asked if getattr(config, key, UNSET) is not UNSET}
    options = {**chosen, **own}
    if not isinstance(config, HttpServer | SseServer):
        if options.get("auth") is not None:
            raise ConfigError("auth: only allowed for servers with a URL", key="auth", expected="an HttpServer")
    elif options.get("auth") is None and config.oauth is not None:
        options["auth"] = _oauth_of(config.oauth)
    if options.get("name") is None:
        options["name"] = name
    command = _command_of(config)
    if command and may_download(command[0], command[1:]):
        options.setdefault("connect_timeout", defaults.DOWNLOAD_CONNECT_TIMEOUT)
    return ResolvedOptions(**options)


def _oauth_of(values: Mapping[str, Any]) -> Any:
    from ..oauth.providers import OAuth  # noqa: PLC0415  # most clients do not need it

    return OAuth(**values)


def _command_of(config: object) -> Sequence[str]:
    if isinstance(config, SpawnedHttpServer):
        return config.command
    return (config.command, *config.args) if isinstance(config, StdioServer) else ()


def checked_timeout(key: str, timeout: float | None) -> float | None:
    """Return the timeout; raises `ConfigError` if it is invalid."""
    _CHECKS["execution_timeout"](key, timeout)
    return timeout


def _handler(key: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise wrong(key, "a function, or None", value)
    return value


def _auth(key: str, value: Any) -> Any:
    if isinstance(value, type):
        raise wrong(key, f"an object, such as {value.__name__}()", value)
    if value is None or callable(getattr(value, "async_auth_flow", None)):
        return value
    if callable(getattr(value, "connect", None)) and hasattr(value, "extensions"):  # an `AuthProvider`
        return value
    advice = "For a fixed token, use HttpServer(url, headers={'Authorization': 'Bearer ...'})"
    raise wrong(key, "OAuth(), or an httpx.Auth-shaped object with async_auth_flow(request)", value, advice)


def _roots(key: str, value: Any) -> Any:
    single = isinstance(value, str | Mapping)  # iterable, but a single root
    if value is not None and (single or not (callable(value) or isinstance(value, Iterable))):
        raise wrong(key, "a list of paths or URIs, a function that returns one, or None", value)
    return value if value is None or callable(value) else tuple(value)


def _log_level(key: str, value: Any) -> Any:
    return None if value is None else one_of(*LOG_LEVELS)(key, value)


def _modes(key: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Collection) or not set(value) <= {"form", "url"}:
        raise wrong(key, 'some of "form" and "url"', value)
    return tuple(value)


def _name(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise wrong(key, "a name", value)
    return value


_CHECKS: Final[dict[str, Callable[[str, Any], Any]]] = {
    **CHECKS,
    "name": _name,
    "mode": one_of(*MODES),
    "sampling_handler": _handler,
    "elicitation_handler": _handler,
    "elicitation_modes": _modes,
    "roots": _roots,
    "log_handler": _handler,
    "log_level": _log_level,
    "progress_handler": _handler,
    "stderr_handler": _handler,
    "auth": _auth,
}
"""The check of each option; options of a server config have the same check here."""
