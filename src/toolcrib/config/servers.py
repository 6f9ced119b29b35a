"""The config classes of servers, and their conversion to and from dicts and JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, Final, Literal, Self, TypeVar

from ..errors import ConfigError
from ..types import UNSET, ReconnectPolicy, Unset
from .masking import (
    MASK,
    MaskedMapping,
    SecretMask,
    identifier,
    mask_arguments,
    secrets_of_process,
    secrets_of_web,
    shown,
)
from .oauth_options import OAuthOptions
from .validators import CHECKS, HeaderValue, Timeout, check_known, with_own_names, wrong

T = TypeVar("T")

URLS: Final = ("httpUrl", "url", "serverUrl")
"""Keys of settings files that hold a server's URL."""


class TransportType(StrEnum):
    """The transports. Parsing ignores case and treats `-` as `_`."""

    STDIO = "stdio"
    HTTP = "http"
    STREAMABLE_HTTP = "streamable_http"
    SSE = "sse"
    PYTHON = "python"

    @classmethod
    def _missing_(cls, value: object) -> TransportType | None:
        wanted = value.strip().lower().replace("-", "_") if isinstance(value, str) else None
        return next((kind for kind in cls if kind.value == wanted), None)

    @classmethod
    def parse(cls, text: str) -> TransportType:
        """Return the transport of that name; raise `ConfigError` if it is unknown."""
        found = cls._missing_(text)
        if found is None:
            raise wrong("type", f"one of {', '.join(cls)}", text)
        return found


# Base classes get no generated methods: generating them would add a millisecond to every import.
@dataclass(frozen=True, kw_only=True, repr=False, init=False, eq=False)
class ServerBase:
    """The common fields of all configs. `UNSET` means the client's default; a time-out of None means no time-out."""

    tool_filter: Callable[..., bool] | None = None
    cache_tools_list: bool = False
    connect_timeout: Timeout = UNSET
    discovery_timeout: Timeout = UNSET
    execution_timeout: Timeout = UNSET
    idle_timeout: Timeout = UNSET
    max_attempts: int | Unset = UNSET
    reconnect: ReconnectPolicy | Unset = UNSET
    max_in_flight: int | Unset | None = UNSET
    lifecycle: Literal["singleton", "transient"] = "singleton"
    """In a hub: `singleton` keeps one connection, `transient` opens one for each call."""
    retry_safe: bool | Collection[str] = False
    trusted: bool = False
    clean_arguments: Literal["schema", "always", "never"] | Unset = UNSET

    _kinds: ClassVar[tuple[TransportType, ...]]
    _arguments: ClassVar[tuple[str, ...]] = ("args",)
    _checks: ClassVar[Mapping[str, Callable[[str, Any], Any]]] = CHECKS

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if value is not UNSET or f.default is not UNSET:
                object.__setattr__(self, f.name, self._checks[f.name](f.name, value))

    @property
    def transport_type(self) -> TransportType:
        """The transport of this server."""
        return self._kinds[0]

    def __repr__(self) -> str:
        given = ((f.name, mask_arguments(value) if f.name in self._arguments else value) for f, value in self._given())
        return f"{type(self).__name__}({', '.join(f'{name}={shown(value)}' for name, value in given)})"

    def _given(self, always: Collection[str] = ()) -> Iterator[tuple[Field[Any], Any]]:
        """Yield the fields that are not at their default, and those named in `always`."""
        for f in _own_first(type(self)):
            value = getattr(self, f.name)
            if f.default is MISSING or value != f.default or f.name in always:
                yield f, value

    def to_dict(self, *, format: str | None = None) -> dict[str, Any]:
        """Return the config as JSON types, including secrets, with a `type`; functions such as the filter are left out.

        Fields with their default value are left out too, except for the `args` of a `StdioServer`. `format="claude"`
        writes the `type` as Claude's programs do: `http` for every `HttpServer`, which is otherwise `streamable_http`
        if it streams. `server_from_dict` reads both.
        """
        if format not in (None, "claude"):
            raise wrong("format", "claude, or None", format)
        plain = {f.name: _plain(value) for f, value in self._given(_ALWAYS_WRITTEN) if f.name != "tool_filter"}
        kind = self.transport_type
        if format == "claude" and kind is TransportType.STREAMABLE_HTTP:
            kind = TransportType.HTTP
        return {"type": kind.value, **plain}

    def to_json(self, *, format: str | None = None) -> str:
        """Return `to_dict` as JSON text, secrets included."""
        return json.dumps(self.to_dict(format=format), allow_nan=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return a config from the result of `to_dict`; `type` is optional. An invalid field raises `ConfigError`."""
        given = with_own_names(_object(values))
        kind = TransportType.parse(given.pop("type")) if "type" in given else cls._kinds[-1]
        if kind not in cls._kinds:
            raise wrong("type", " or ".join(cls._kinds), kind)
        check_known(given, [f.name for f in _own_first(cls) if f.name != "tool_filter"], "")
        for f in fields(cls):
            if f.default is MISSING and f.name not in given:
                raise ConfigError(f"{f.name}: missing in a {cls.__name__}", key=f.name, expected=f"the {f.name}")
        made = cls(**given)
        # Most settings files call streamable HTTP `http`: for that type, the field `streamable` decides.
        if kind is TransportType.STREAMABLE_HTTP and made.transport_type is not kind:
            raise wrong("streamable", "True for type streamable_http", False)
        return made

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return a config from the result of `to_json`."""
        return cls.from_dict(_parsed(text))


_COMMON = frozenset(f.name for f in fields(ServerBase))
_ALWAYS_WRITTEN = frozenset({"args"})
"""Fields that `to_dict` always writes, because other programs require them."""


def _own_first(kind: type[ServerBase]) -> list[Field[Any]]:
    """Return the fields in reading order: first those of this class, then the common ones."""
    return sorted(fields(kind), key=lambda f: f.name in _COMMON)


@dataclass(frozen=True, repr=False)
class StdioServer(ServerBase):
    """The config of a server that runs as a local process and communicates over stdin and stdout.

    The process inherits only a few environment variables; `env` adds others. A `Path` is converted to a string, here
    and in the other configs.
    """

    command: str
    """The program to start: a name that is looked up in PATH, or a path."""
    args: Sequence[str] = ()
    """The arguments of the program."""
    env: Mapping[str, str] | None = field(default=None, kw_only=True)
    """Environment variables, added to the few that the process inherits."""
    cwd: str | None = field(default=None, kw_only=True)
    """The working directory of the process; default: that of this process."""

    _kinds = (TransportType.STDIO,)

    @property
    def server_identifier(self) -> str:
        """The identifier `stdio:command:arg:...` for logs and cache keys; unique in the process, without secrets."""
        return make_identifier(
            "stdio", self.command, *self.args, shown=("stdio", self.command, *mask_arguments(self.args))
        )


@dataclass(frozen=True, repr=False, init=False, eq=False)
class _WebServer(ServerBase):
    """The common fields of remote servers."""

    url: str
    """The URL of the server, with http:// or https://."""
    headers: Mapping[str, HeaderValue] | None = field(default=None, kw_only=True)
    """Headers of every request. A value may be a function, sync or async, which is called for each request."""
    ca: str | None = field(default=None, kw_only=True)
    """A PEM file of trusted certificate authorities."""
    client_cert: str | tuple[str, str] | None = field(default=None, kw_only=True)
    """A PEM file with the client's certificate and key, or a pair of files: certificate and key."""
    proxy: str | None = field(default=None, kw_only=True)
    """The URL of a proxy; by default `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` of the environment apply."""
    oauth: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """Options of the sign-in with OAuth, an empty mapping for the defaults; None: no sign-in unless `auth=` is given.

    The keys are `client_id`, `client_secret`, `client_metadata_url`, `scopes`, `issuer`, `redirect_uri`, `resource` and
    `assume_pkce`, with the meaning that they have as parameters of `OAuth`.
    """
    verify: bool = field(default=True, kw_only=True)
    """Whether to verify the server's TLS certificate."""
    max_connections: int | None = field(default=100, kw_only=True)
    """Maximum number of concurrent calls over streamable HTTP; further calls wait for a free connection."""


@dataclass(frozen=True, repr=False)
class HttpServer(_WebServer):
    """The config of a remote server over streamable HTTP, or plain HTTP requests with `streamable=False`."""

    streamable: bool = field(default=True, kw_only=True)
    """Whether to open a stream for messages that the server sends on its own; False: only requests and responses."""

    _kinds = (TransportType.STREAMABLE_HTTP, TransportType.HTTP)

    @property
    def transport_type(self) -> TransportType:
        """The transport: `streamable_http`, or `http` if `streamable` is False."""
        return TransportType.STREAMABLE_HTTP if self.streamable else TransportType.HTTP

    @property
    def server_identifier(self) -> str:
        """The identifier `http:https://...` for logs and cache keys; unique within the process, without secrets.

        Masked parts of the URL (user, query values, fragment) are represented by ` #` and a short hash, which differs
        between processes.
        """
        return make_identifier("http", self.url)


@dataclass(frozen=True, repr=False)
class SseServer(_WebServer):
    """The config of a remote server over HTTP+SSE, the transport of the first protocol revision."""

    _kinds = (TransportType.SSE,)

    @property
    def server_identifier(self) -> str:
        """The identifier `sse:https://...` for logs and cache keys; unique within the process, without secrets."""
        return make_identifier("sse", self.url)


@dataclass(frozen=True, repr=False)
class PythonServer(ServerBase):
    """The config of a `ToolServer` in a Python file that runs in this process: `tools.py`, or `tools.py:name`.

    The file is executed as a module when a client connects, without code under `if __name__ == "__main__"`. It is
    executed again only for connections made after the file has changed.
    """

    python: str
    """The path of the file, optionally with `:name` for the variable that holds the server."""

    _kinds = (TransportType.PYTHON,)

    @property
    def file(self) -> str:
        """The path of the file, without the name of a variable."""
        return _file_and_variable(self.python)[0]

    @property
    def variable(self) -> str | None:
        """The variable of the file that holds the server, None if it is not given."""
        return _file_and_variable(self.python)[1]

    @property
    def server_identifier(self) -> str:
        """The identifier `python:file` for logs and cache keys."""
        return make_identifier("python", self.python)


_KEY: Final = os.urandom(16)


def make_identifier(*parts: str, shown: Sequence[str] | None = None) -> str:
    """Return the parts joined by colons and masked; masked parts are represented by ` #` and a short hash of them.

    Two servers that differ only in a token must not share a cache key, and the token must not appear in a log. The hash
    is keyed with a random key of this process: without the key, a short password could be found by brute force.
    Identifiers are used only within the process (names in errors and logs, keys of in-memory caches), so they may
    differ between processes. The space separates the hash from the URL, whose query would otherwise be masked with it.
    """
    text = identifier(*(parts if shown is None else shown))
    if MASK not in text:
        return text
    import hashlib  # noqa: PLC0415  # takes milliseconds to load, and few identifiers need it

    hidden = "\0".join(map(str, parts)).encode("utf-8", "surrogateescape")
    return f"{text} #{hashlib.blake2b(hidden, digest_size=4, key=_KEY).hexdigest()}"


def _file_and_variable(text: str) -> tuple[str, str | None]:
    file, _, variable = text.rpartition(":")
    return (file, variable) if file and variable.isidentifier() else (text, None)


ServerConfig = StdioServer | HttpServer | SseServer | PythonServer

_CLASSES: dict[TransportType, type[ServerConfig]] = {
    kind: cls for cls in (StdioServer, HttpServer, SseServer, PythonServer) for kind in cls._kinds
}


def server_from_dict(values: Mapping[str, Any]) -> ServerConfig:
    """Return a config of any class from the result of `to_dict`; `type` determines the class.

    `type` is `stdio`, `http` or `streamable_http` (both mean an `HttpServer`), `sse` or `python`. An unknown or invalid
    field raises a `ConfigError` that names it.
    """
    kind = _object(values).get("type")
    if kind is None:
        expected = f"one of {', '.join(TransportType)}"
        raise ConfigError(f"type: missing, expected {expected}", key="type", expected=expected)
    return _CLASSES[TransportType.parse(kind)].from_dict(values)


def server_from_json(text: str | bytes) -> ServerConfig:
    """Return a config of any class from the result of `to_json`; `type` determines the class."""
    return server_from_dict(_parsed(text))


def as_singleton(server: T) -> T:
    """Return a transient config as one for a single kept connection; anything else is returned unchanged."""
    if isinstance(server, ServerBase) and server.lifecycle == "transient":
        return replace(server, lifecycle="singleton")
    return server


def _plain(value: Any) -> Any:
    match value:
        case str():
            return str(value)
        case OAuthOptions():
            return value.as_json()
        case MaskedMapping():
            return {name: str(item) for name, item in value.items() if not callable(item)}
        case tuple():
            return list(map(str, value))
        case frozenset():
            return sorted(value)
        case ReconnectPolicy():
            return asdict(value)
        case _:
            return value


def secrets_of(config: ServerConfig) -> SecretMask:
    """Return the secrets in this config."""
    if isinstance(config, StdioServer):
        return secrets_of_process(config.env, config.args)
    if isinstance(config, HttpServer | SseServer):
        secret = (config.oauth or {}).get("client_secret")
        own = secrets_of_web(config.url, config.headers, config.proxy)
        return own if secret is None else own | SecretMask([secret])
    return SecretMask()


def _object(values: Any) -> Mapping[str, Any]:
    if not isinstance(values, Mapping):
        raise ConfigError("expected an object of settings", expected="an object of settings")
    return values


def _parsed(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as exc:
        place = f" at line {exc.lineno}, column {exc.colno}"
    except (ValueError, RecursionError):  # invalid UTF-8, numbers that are too long, nesting that is too deep
        place = ""
    # Raised outside the `except` block: a chained decode error would contain the whole document, secrets included.
    raise ConfigError(f"not JSON{place}", expected="a JSON object of settings")
