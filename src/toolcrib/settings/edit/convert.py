"""Converts a server's entry to the format of the program that will read it.

Variables stay references, in that program's syntax: values of the environment are never written to a file. Fields that
the program does not support are reported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ...config import HttpServer, PythonServer, ServerConfig, SseServer, StdioServer
from ...config.servers import URLS
from ...errors import ConfigError
from ..documents import Document
from ..entries import Reading, make_entry
from ..formats import FORMATS, Section
from ..keys import ALLOWED, BLOCKED, EXPANDED, FIELDS, FLAGS, KINDS, NULLABLE, SIGN_INS, own_name
from ..load import known_names
from ..models import ServerEntry, place
from ..oauth_spellings import convert_option, read_oauth
from ..variables import Reference, parse

_COMMON: Final = frozenset({"command", "args", "env", "url", "headers"})
_WEB_TYPES: Final[Mapping[type, str]] = {HttpServer: "http", SseServer: "sse"}
_UNDERSTOOD: Final = FIELDS | {*URLS, *KINDS, *ALLOWED, *BLOCKED, *FLAGS, *SIGN_INS}
_STAND_INS: Final = {"command": "x", "python": "x.py", "url": "http://localhost"}
_BARE_NAME: Final = re.compile(r"\$[A-Za-z_]")


@dataclass(frozen=True, slots=True)
class Program:
    """The format in which one program expects its servers."""

    title: str
    format: str
    place: str
    """The path of its file in a project's folder."""
    keys: frozenset[str] | None = None
    """The fields that it supports; None means all fields of Toolcrib."""
    types: Mapping[type, str] = field(default_factory=dict)
    """The `type` that it expects for each kind of server."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Its names of fields, where they differ from Toolcrib's."""
    oauth: Mapping[str, str] = field(default_factory=dict)
    """Its names of the options of a sign-in; others are omitted."""
    sign_in_off: Mapping[str, Any] | None = None
    """The value of `oauth` that turns the sign-in off; None if the program has none."""
    reference: str = "${{{name}}}"
    defaults: bool = True
    """Whether it supports variables with a default."""


OWN: Final = Program("Toolcrib", "toolcrib", "toolcrib.toml", types={SseServer: "sse"})
PROGRAMS: Final[dict[str, Program]] = {
    "claude": Program(
        "Claude Code",
        "claude-code",
        ".mcp.json",
        _COMMON | {"oauth"},
        _WEB_TYPES,
        oauth={"client_id": "clientId", "scopes": "scopes", "redirect_uri": "callbackPort"},
    ),
    "vscode": Program(
        "VS Code",
        "vscode",
        ".vscode/mcp.json",
        _COMMON | {"cwd", "oauth"},
        {StdioServer: "stdio", **_WEB_TYPES},
        oauth={"client_id": "clientId"},
        reference="${{env:{name}}}",
        defaults=False,
    ),
    "cursor": Program(
        "Cursor",
        "cursor",
        ".cursor/mcp.json",
        _COMMON | {"oauth"},
        {SseServer: "sse"},
        {"oauth": "auth"},
        oauth={"client_id": "CLIENT_ID", "client_secret": "CLIENT_SECRET", "scopes": "scopes"},
        reference="${{env:{name}}}",
        defaults=False,
    ),
    "gemini": Program(
        "Gemini CLI",
        "gemini",
        ".gemini/settings.json",
        _COMMON | {"cwd", "execution_timeout", "allowed_tools", "blocked_tools", "description", "oauth"},
        names={"execution_timeout": "timeout", "allowed_tools": "includeTools", "blocked_tools": "excludeTools"},
        oauth={
            "client_id": "clientId",
            "client_secret": "clientSecret",
            "scopes": "scopes",
            "redirect_uri": "redirectUri",
        },
        sign_in_off={"enabled": False},
    ),
}


def program_for(format: str) -> Program:
    """Return the program whose format is written to files of this format: that of Claude Code for plain JSON."""
    known = {program.format: program for program in (OWN, *PROGRAMS.values())}
    return known.get(format, PROGRAMS["claude"])


@dataclass(frozen=True, slots=True)
class ConvertedEntry:
    """An entry in the format of another program, and the fields that this format does not have."""

    values: dict[str, Any]
    omitted: tuple[str, ...] = ()


def convert_entry(
    entry: ServerEntry, format: str, program: Program, *, only_known: bool = False, folder: Path | None = None
) -> ConvertedEntry:
    """Return an entry of a file of this format in another program's format.

    Raises `ConfigError` if the entry is invalid, or contains a text that the program would treat as a variable. With
    `only_known`, the result has only fields that the program itself supports, else all that Toolcrib reads from its
    files. The path of a Python file is relative to `folder`, if the file is in it.
    """
    reading = Reading(Document(entry.source), FORMATS[format], dict(os.environ))
    reading.known = known_names(reading, Path.cwd())
    kind, fields = _read_fields(entry, reading)
    if kind is PythonServer:
        kind, fields = _with_relative_path(fields, folder) if program is OWN else (StdioServer, _with_command(fields))
    converter = _FieldConverter(
        program, reading.known, entry.raw.get("env"), for_toolcrib=not only_known or program is OWN
    )
    values: dict[str, Any] = {"type": program.types[kind]} if kind in program.types else {}
    for key, value in fields.items():
        if only_known and program.keys is not None and key not in program.keys:
            converter.omitted.append(key)
        else:
            values.update(converter.convert(kind, key, value))
    if converter.misread:
        what = f"{program.title} would treat a literal {converter.misread[0]} as a variable"
        raise ConfigError(f"{place(entry)}: {entry.display_name}: {what}", expected="no such text", server=entry.name)
    if entry.disabled and not only_known:
        values["disabled"] = True
    understood = {*_UNDERSTOOD, *fields, *(("timeout",) if reading.kind.milliseconds else ())}
    rest = [key for key in entry.raw if key not in understood and not key.startswith(("_", "$", "/", "#"))]
    return ConvertedEntry(values, tuple(dict.fromkeys([*converter.omitted, *rest])))


def _read_fields(entry: ServerEntry, reading: Reading) -> tuple[type[ServerConfig], dict[str, Any]]:
    """Return the kind of server and its fields, by Toolcrib's names and with the texts of the file."""
    given = {key: value for key, value in entry.raw.items() if value is not None or key in NULLABLE}
    own = {own_name(key): value for key, value in given.items()}
    # The values of variables do not affect the other fields, and the variables need not be set here.
    texts = {key: _STAND_INS.get(own_name(key)) for key in given if own_name(key) in EXPANDED}
    bare = {key: value for key, value in {**given, **texts}.items() if value is not None or key in NULLABLE}
    judged = make_entry(reading, Section((), {entry.name: bare}), entry.name, entry.name)
    if judged.config is None:
        assert judged.error is not None
        raise entry.error or judged.error
    fields = {key: value for key, value in own.items() if key in FIELDS}
    if "oauth" in fields:
        fields["oauth"] = _options_of(next(key for key in SIGN_INS if key in given), fields["oauth"])
    if reading.kind.milliseconds and "timeout" in own:
        fields["execution_timeout"] = judged.config.execution_timeout
    if isinstance(python := fields.get("python"), str) and entry.source is not None and not python.startswith("${"):
        fields["python"] = _without_detours(str(entry.source.absolute().parent / python))
    if entry.allowed_tools is not None:
        fields["allowed_tools"] = list(entry.allowed_tools)
    if entry.blocked_tools:
        fields["blocked_tools"] = list(entry.blocked_tools)
    if "description" in own:
        fields["description"] = own["description"]
    return type(judged.config), fields


def _options_of(key: str, value: Any) -> Any:
    """Return the options of a sign-in by Toolcrib's names; False if it is turned off, text if that has no effect."""
    if isinstance(value, str) and value != "oauth":
        return value
    options = read_oauth(key, value).options
    return False if options is None else options


def _without_detours(path: str) -> str:
    """Return the path of the same file without `..`; `a/../b` may differ from `b` if `a` is a link."""
    short, real = os.path.normpath(path), os.path.realpath(path)
    return short if os.path.realpath(short) == real else real


def _with_relative_path(fields: dict[str, Any], folder: Path | None) -> tuple[type[ServerConfig], dict[str, Any]]:
    python = Path(fields["python"])
    if folder is not None and python.is_relative_to(folder):
        fields["python"] = str(python.relative_to(folder))
    return PythonServer, fields


def _with_command(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a command that runs a server's Python file, for programs that only start commands."""
    rest = {key: value for key, value in fields.items() if key != "python"}
    return {"command": "toolcrib", "args": ["run", fields["python"]], **rest}


class _FieldConverter:
    """Converts fields to a program's format.

    Records the fields that it omits, and the marks of texts that the program would misread as variables.
    """

    def __init__(self, program: Program, known: Mapping[str, str], own: Any, *, for_toolcrib: bool) -> None:
        self._program = program
        self._for_toolcrib = for_toolcrib
        self._known = known
        self._own = own if isinstance(own, Mapping) else {}
        self.omitted: list[str] = []
        self.misread: list[str] = []

    def convert(self, kind: type[ServerConfig], key: str, value: Any) -> Iterator[tuple[str, Any]]:
        """Yield the program's name of a field and its value; nothing if the field is omitted."""
        if key in EXPANDED:
            value = self._texts(value)
        if key == "oauth":
            yield from self._sign_in(value)
            return
        word = self._program.names.get(key, key)
        if word == "timeout":
            if not isinstance(value, int | float):
                self.omitted.append(key)
                return
            value = round(value * 1000)
        if key == "url" and kind is HttpServer and FORMATS[self._program.format].url_is_sse:
            word = "httpUrl"
        yield word, value

    def _sign_in(self, options: Any) -> Iterator[tuple[str, Any]]:
        """Yield the options of a sign-in; other programs than Toolcrib sign in without any as well."""
        if self._program is OWN and not isinstance(options, str):
            yield "oauth", True if options == {} else options
            return
        if options is False:
            yield from self._sign_in_off()
            return
        if not isinstance(options, Mapping):
            self.omitted.append("oauth")
            return
        converted_options: dict[str, Any] = {}
        for name, value in options.items():
            word = self._program.oauth.get(name)
            converted = None if word is None else convert_option(word, value, self._program.format)
            if word is not None and converted is not None:
                converted_options[word] = converted
            elif self._for_toolcrib:
                converted_options[name] = value
            else:
                self.omitted.append(f"oauth.{name}")
        if converted_options or self._for_toolcrib:
            yield self._program.names.get("oauth", "oauth"), converted_options

    def _sign_in_off(self) -> Iterator[tuple[str, Any]]:
        """Yield what turns the sign-in off, in the program's way if it has one; Toolcrib reads `false` in any file."""
        if self._program.sign_in_off is not None:
            yield self._program.names.get("oauth", "oauth"), dict(self._program.sign_in_off)
        elif self._for_toolcrib:
            yield "oauth", False
        else:
            self.omitted.append("oauth = false, which turns the sign-in off")

    def _texts(self, value: Any) -> Any:
        if isinstance(value, str):
            return "".join(map(self._piece, parse(value)))
        if isinstance(value, list | tuple):
            return [self._texts(item) for item in value]
        if isinstance(value, Mapping):
            return {name: self._texts(item) for name, item in value.items()}
        return value

    def _piece(self, piece: str | Reference, depth: int = 0) -> str:
        if isinstance(piece, str):
            return self._plain(piece)
        if piece.name in self._known and not piece.of_environment:
            return self._known[piece.name]
        if piece.name in self._own and piece.name not in os.environ and not self._for_toolcrib:
            self.omitted.append(f"${{{piece.name}}}, which refers to another variable of env")
        if piece.default is None:
            return self._program.reference.format(name=piece.name)
        if not self._for_toolcrib and (depth or not self._program.defaults):
            self.omitted.append(f"the default of {piece.name}")
            return self._program.reference.format(name=piece.name)
        return f"${{{piece.name}:-{''.join(self._piece(each, depth + 1) for each in piece.default)}}}"

    def _plain(self, text: str) -> str:
        if self._for_toolcrib:
            return text.replace("${", "$${")
        if "${" in text:
            self.misread.append("${")
        if FORMATS[self._program.format].dollar_names and _BARE_NAME.search(text):
            self.misread.append("$NAME")
        return text
