"""Converts an object of a settings file to a server's config: all spellings of keys, variables, and errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .._util.suggest import did_you_mean, find_misspelled, suggest
from ..config import (
    ALIASES,
    Expanded,
    MaskedMapping,
    ServerConfig,
    TransportType,
    server_from_dict,
    with_own_names,
    wrong,
)
from ..config.oauth_options import OAUTH_KEYS
from ..config.servers import URLS
from ..errors import ConfigError
from ..protocol.sanitize import one_line
from .documents import Document, Table, place_of
from .formats import Format, Section
from .keys import (
    ALLOWED,
    BLOCKED,
    EXPANDED,
    FIELDS,
    FLAGS,
    KINDS,
    KNOWN,
    KNOWN_OF,
    LOCAL,
    NULLABLE,
    SIGN_INS,
    SILENT,
    SPELLINGS,
    WEB,
    WITHOUT_EFFECT,
    own_name,
    read_none,
)
from .models import ServerEntry
from .oauth_spellings import CALLBACK_PORTS, OAUTH_ALIASES, OAUTH_WITHOUT_EFFECT, read_oauth
from .variables import Scope, braced

MAX_WARNINGS = 100
"""The most warnings that are recorded for one file."""


@dataclass(slots=True)
class Reading:
    """The context shared by all entries of one file, and the warnings recorded while they are read."""

    document: Document
    kind: Format
    environ: Mapping[str, str]
    known: Mapping[str, str] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)

    def warn(self, about: str, text: str, offset: int | None) -> None:
        """Record a warning; only the first one per subject `about` is kept."""
        where = self.document.named(offset)
        if not self.skips_warning(about):
            self.warnings[about] = f"{where}: {text}" if where else text

    def skips_warning(self, about: str) -> bool:
        """Return whether a warning about this would be dropped: it is recorded already, or `MAX_WARNINGS` are."""
        return about in self.warnings or len(self.warnings) >= MAX_WARNINGS


def make_entry(reading: Reading, section: Section, display_name: str, name: str) -> ServerEntry:
    """Return one entry; if it is invalid, its `error` says why, and no other entry is affected."""
    values = section.servers[display_name]
    table = values if isinstance(values, Mapping) else {}
    if reading.kind.dollar_names:
        table = _with_braces(table)
    offset = place_of(section.servers, display_name)
    draft = _EntryDraft(reading, table)
    config: ServerConfig | None = None
    error: ConfigError | None = None
    fault: ConfigError | None = None
    try:
        _check_whole(reading.document, section, display_name)
        config = draft.config()
    except ConfigError as exc:
        fault = exc
    if fault is not None:
        error = _located(reading.document, section, display_name, name, draft, fault)
    return ServerEntry(
        name=name,
        config=config,
        error=error,
        disabled=draft.disabled or section.is_off(display_name),
        source=reading.document.path,
        line=reading.document.line(offset),
        display_name=display_name,
        allowed_tools=draft.allowed_tools,
        blocked_tools=draft.blocked_tools,
        raw=MaskedMapping(table),
        key_lines=_key_lines(reading.document, table),
    )


def _key_lines(document: Document, table: Mapping[str, Any]) -> dict[str, int]:
    """Return the line of each key of an entry, by its own name."""
    places = table.places if isinstance(table, Table) else {}
    return {own_name(key): document.place(offset)[0] for key, offset in places.items()}


def _with_braces(table: Mapping[str, Any]) -> Table:
    """Return an entry with every bare `$NAME` written as `${NAME}`."""
    values = {key: braced(value) if own_name(key) in EXPANDED else value for key, value in table.items()}
    return Table(values, table.places if isinstance(table, Table) else {})


def _check_whole(document: Document, section: Section, name: str) -> None:
    values = section.servers[name]
    _check_once(document, section.servers, name, "duplicate name")
    if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
        expected = "an object with command, python or url"
        raise ConfigError(f"expected {expected}", expected=expected)
    for key in values:
        _check_once(document, values, key, f"{one_line(key, 60)}: duplicate key", key)


def _check_once(document: Document, table: Mapping[str, Any], name: str, fault: str, key: str | None = None) -> None:
    if isinstance(table, Table) and name in table.repeats:
        first = document.line(table.repeats[name])
        raise ConfigError(f"{fault} (first defined on line {first})", key=key, expected="each name once")


def _located(
    document: Document, section: Section, display_name: str, name: str, draft: _EntryDraft, fault: ConfigError
) -> ConfigError:
    """Return the error of one field as an error that names file, line and the whole key."""
    # Keys have the form env.TOKEN, args[0] or oauth.scopes[0]; names of variables and headers may contain dots.
    head, _, inner = (fault.key or "").partition(".")
    head = re.sub(r"\[\d+\]$", "", head)
    spelled, rest = draft.spelled.get(head, head), (fault.key or "").removeprefix(head)
    if head == "oauth" and inner:
        option = re.sub(r"\[\d+\]$", "", inner)
        inner = draft.spelled.get(f"oauth.{option}", option)
        rest = f".{inner}" + rest.removeprefix(f".{option}")
    keys = [key for key in (spelled, inner) if key]
    offset = place_of(section.servers, display_name, *keys)
    whole = ".".join(one_line(part, 200) for part in (section.key, display_name, f"{spelled}{rest}") if part)
    message = fault.message
    if fault.key and message.startswith(fault.key):
        message = f"{spelled}{rest}" + message.removeprefix(fault.key)
    elif fault.key:
        message = f"{spelled}{rest}: {message}"
    return document.error(message, offset=offset, key=whole, expected=fault.expected, server=name)


class _EntryDraft:
    """An entry while it is converted to a config; attributes set before an error is found keep their values."""

    def __init__(self, reading: Reading, values: Mapping[str, Any]) -> None:
        self._reading = reading
        self._values = values
        self.spelled: dict[str, str] = {}
        self.disabled = False
        self.allowed_tools: tuple[str, ...] | None = None
        self.blocked_tools: tuple[str, ...] = ()

    def config(self) -> ServerConfig:
        self.disabled = self._flag("disabled", False) or not self._flag("enabled", True)
        self.allowed_tools = self._tools(ALLOWED)
        self.blocked_tools = self._tools(BLOCKED) or ()
        kind = self._kind()
        known = KNOWN_OF.get(kind, WEB)
        given = {own_name(key): value for key, value in with_own_names(self._values).items() if own_name(key) in known}
        self.spelled.update({own_name(key): key for key in self._values if key in ALIASES})
        self._warn_about_rest(known, kind)
        if self._reading.kind.milliseconds and "timeout" in self._values:
            given.setdefault("execution_timeout", self._seconds())
        if "oauth" in given:
            given["oauth"] = self._sign_in()
        plain = {key: read_none(key, value) for key, value in given.items()}
        present = {key: value for key, value in plain.items() if value is not None or key in NULLABLE}
        return server_from_dict({**self._placed(self._expanded(present)), "type": kind.value})

    def _placed(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the fields with the path of a Python file resolved against the folder of the settings file."""
        path, python = self._reading.document.path, given.get("python")
        if path is None or not isinstance(python, str) or not python:
            return given
        placed = str(path.absolute().parent / python)
        return {**given, "python": Expanded(placed, python.written) if isinstance(python, Expanded) else placed}

    def _flag(self, key: str, default: bool) -> bool:
        value = self._values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise wrong(key, "true or false", value)
        return value

    def _tools(self, spellings: tuple[str, ...]) -> tuple[str, ...] | None:
        for key in spellings:
            value = self._values.get(key)
            if value is None:
                continue
            if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
                raise wrong(key, "a list of tool names", value)
            return tuple(value)
        return None

    def _kind(self) -> TransportType:
        """Return the kind that `type` or `transport` names, else the kind that `command`, `python` or a URL implies."""
        named = {key: self._parsed_kind(key) for key in KINDS if self._values.get(key) is not None}
        if len(set(map(_family, named.values()))) > 1:
            raise ConfigError("transport: expected the same as type", key="transport", expected="the same as type")
        urls = [key for key in URLS if self._values.get(key) is not None]
        if len(urls) > 1:
            raise ConfigError(f"{urls[1]}: expected one of {' and '.join(urls)}", key=urls[1], expected="one URL")
        self.spelled.update(url=urls[0] if urls else "url", type=next(iter(named), "type"))
        if named:
            return next(iter(named.values()))
        return self._guessed_kind(urls)

    def _parsed_kind(self, key: str) -> TransportType:
        value = self._values[key]
        expected = f"one of {', '.join(kind.value for kind in TransportType)}"
        if not isinstance(value, str):
            raise wrong(key, expected, value)
        try:
            return TransportType.parse(SPELLINGS.get(value.strip().lower(), value))
        except ConfigError:
            fault = wrong(key, expected, value)
        raise fault

    def _guessed_kind(self, urls: list[str]) -> TransportType:
        local = {key: kind for key, kind in LOCAL.items() if self._values.get(key) is not None}
        ways = [*local, *urls]
        if len(ways) > 1:
            expected = f"{ways[0]} or {'a URL' if urls else ways[1]}, not both, or a type"
            raise ConfigError(f"{ways[1]}: expected {expected}", key=ways[1], expected=expected)
        if local:
            return local[ways[0]]
        if not urls:
            expected = "command (a local program), python (a Python file with tools) or url (a remote server)"
            found = find_misspelled(self._values, (*LOCAL, *URLS))
            hint = did_you_mean(found[1:], given=one_line(found[0], 60)) if found else ""
            raise ConfigError(f"expected {expected}{hint}", expected=expected)
        return TransportType.SSE if urls == ["url"] and self._reading.kind.url_is_sse else TransportType.HTTP

    def _warn_about_rest(self, known: frozenset[str], kind: TransportType) -> None:
        for key, value in self._values.items():
            own = own_name(key)
            offset = place_of(self._values, key)
            if own in known or key in (*KINDS, *FLAGS, *ALLOWED, *BLOCKED) or key in SILENT:
                continue
            if own in FIELDS:
                if value or (own == "oauth" and isinstance(value, Mapping)):  # an empty table turns the sign-in on
                    text = f"{key}: has no effect on a server of type {kind.value}"
                    self._reading.warn(f"{kind} {key}", text, offset)
            elif key == "timeout" and self._reading.kind.milliseconds:
                continue
            elif key in WITHOUT_EFFECT:
                self._reading.warn(key, f"{key}: has no effect here; {WITHOUT_EFFECT[key]}", offset)
            elif not key.startswith(("_", "$", "/", "#")) and not self._reading.skips_warning(key):
                text = f"{one_line(key, 60)}: unknown key, has no effect{suggest(key, KNOWN)}"
                self._reading.warn(key, text, offset)

    def _sign_in(self) -> dict[str, Any] | None:
        """Return the options of the sign-in by Toolcrib's names; None if there is none."""
        keys = [key for key in SIGN_INS if self._values.get(key) is not None]
        if len(keys) > 1:
            raise ConfigError("auth is another name of oauth: use only one of them", key="auth", expected="oauth")
        if not keys:
            return None
        key, value = keys[0], self._values[keys[0]]
        if key == "auth" and isinstance(value, str) and value != "oauth":
            text = "auth: has no effect as text; put a token into headers, as Authorization"
            self._reading.warn(key, text, place_of(self._values, key))
            return None
        found = read_oauth(key, value)
        self.spelled["oauth"] = key
        self.spelled.update({f"oauth.{name}": written for name, written in found.spelled.items()})
        for name in found.ignored:
            if not self._reading.skips_warning(f"{key}.{name}"):
                self._reading.warn(f"{key}.{name}", _about_option(key, name), place_of(self._values, key, name))
        return found.options

    def _seconds(self) -> float:
        value = self._values["timeout"]
        self.spelled["execution_timeout"] = "timeout"
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
            raise wrong("timeout", "a positive number of milliseconds", value)
        return value / 1000

    def _expanded(self, given: dict[str, Any]) -> dict[str, Any]:
        own = self._values.get("env")
        scope = Scope(self._reading.environ, own if isinstance(own, Mapping) else None, self._reading.known)
        return {
            key: self._replaced(scope, key, key, value) if key in EXPANDED else value for key, value in given.items()
        }

    def _replaced(self, scope: Scope, field_name: str, key: str, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(scope, field_name, key, value)
        if isinstance(value, list | tuple):
            return [self._replaced(scope, field_name, f"{key}[{at}]", item) for at, item in enumerate(value)]
        if isinstance(value, Mapping) and key == field_name:
            kept = {name: _as_text(item) for name, item in value.items() if item is not None}
            return {name: self._replaced(scope, field_name, f"{key}.{name}", item) for name, item in kept.items()}
        return value

    def _text(self, scope: Scope, field_name: str, key: str, text: str) -> str:
        inside = key.removeprefix("env.") if field_name == "env" else None
        try:
            return scope.expand(text, inside)
        except ConfigError as exc:
            fault = exc
        raise ConfigError(f"{key}: {fault.message}", key=key, expected=fault.expected)


def _about_option(key: str, name: str) -> str:
    """Return a warning about an option of a sign-in that is not used."""
    if name in OAUTH_WITHOUT_EFFECT:
        return f"{key}.{name}: has no effect here; {OAUTH_WITHOUT_EFFECT[name]}"
    hint = suggest(name, (*OAUTH_KEYS, *OAUTH_ALIASES, *CALLBACK_PORTS))
    return f"{key}.{one_line(name, 60)}: unknown key, has no effect{hint}"


def _family(kind: TransportType) -> TransportType:
    """Return the kind with `http` replaced by `streamable_http`, its synonym in settings files."""
    return TransportType.STREAMABLE_HTTP if kind is TransportType.HTTP else kind


def _as_text(value: Any) -> Any:
    """Return a number as text, other values unchanged: VS Code accepts numbers in `env` and `headers`."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
