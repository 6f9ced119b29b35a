"""`toolcrib add`."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...config.servers import URLS
from ...settings import ServerEntry, Settings, parse_settings
from ...settings.documents import Document, Table, decode_document
from ...settings.edit.convert import convert_entry, program_for
from ...settings.formats import FORMATS, is_server
from ...settings.jsonc import read_jsonc
from ...settings.load import parts_of
from ...settings.models import place
from ...tool_names import invalid_server_name, is_server_name, slug
from ..console import note, say
from ..exit_codes import CliError
from ..lazy_command import Invocation
from ..settings_edit import (
    checked,
    file_to_write,
    format_name,
    free,
    keep,
    pairs,
    same,
    standing,
    tell_overriding,
    tell_unset,
)
from ..target import Target, ad_hoc, is_file, is_url, open_servers

_EXAMPLES: Final = "toolcrib add NAME -- npx -y some-server; toolcrib add NAME https://...; toolcrib add < mcp.json"


async def command(
    invocation: Invocation,
    words: Sequence[str],
    env: Sequence[str],
    header: Sequence[str],
    transport: str | None,
    cwd: str | None,
    config: Path | None,
    user: bool,
    replace: bool,
    check: bool,
    timeout: float | None,
) -> None:
    """Add servers to the settings."""
    path = file_to_write(config, user)
    options = {"env": pairs("--env", env), "headers": pairs("--header", header), "cwd": cwd or ""}
    given = _given(words, invocation.command, {**options, "type": transport or ""})
    checks = {entry.display_name: checked(entry.display_name, entry, given.format) for entry in given.entries}
    servers: dict[str, Mapping[str, Any]] = {}
    for entry in given.entries:
        converted = convert_entry(entry, given.format, program_for(format_name(path)), folder=path.absolute().parent)
        servers[entry.display_name] = converted.values
        for field in converted.omitted:
            note(f"{entry.display_name}: {field} is not written, because it has no effect here")
    for name, entry in standing(path).items():
        if name in servers and not replace and not same(entry, servers[name]):
            message = f"{place(entry)}: there is already a server {name!r}"
            raise CliError(message, hint="--replace overwrites it; or choose another name")
    if check:
        await _try(given.entries, timeout)
    servers = free(path, servers, replace=replace)
    keep(path, servers, replace=replace)
    tell_overriding(path, servers)
    for name in servers:
        tell_unset(name, checks[name])


@dataclasses.dataclass(frozen=True, slots=True)
class _GivenServers:
    """The servers of the command line, and the format of their entries."""

    entries: tuple[ServerEntry, ...]
    format: str


def _given(words: Sequence[str], command: tuple[str, ...], options: dict[str, Any]) -> _GivenServers:
    *names, last = words or [""]
    source = last if is_url(last) or is_file(last) or last == "-" or last.lstrip().startswith(("{", '"')) else ""
    if not source and last:
        names.append(last)
    if len(names) > 1:
        message = f"{names[1]!r} is neither a URL, a Python file nor JSON"
        raise CliError(message, hint=f"a command goes after --: toolcrib add {names[0]} -- {' '.join(names[1:])}")
    name = names[0] if names else ""
    if name and not is_server_name(name):
        raise CliError(invalid_server_name(name), hint=f"{slug(name)!r} is valid")
    named = ad_hoc(source or None, command)
    if named is not None:
        values = _values(source, command, options)
        return _GivenServers(
            parse_settings({"servers": {name or named[0]: values}}, format="toolcrib").entries, "toolcrib"
        )
    if any(options.values()):
        raise CliError("--env, --header, --transport and --cwd belong to a command or a URL", hint=_EXAMPLES)
    return _GivenServers(_of_json(name, _document(source)), "json")


def _values(source: str, command: tuple[str, ...], options: dict[str, Any]) -> dict[str, Any]:
    """Return the entry in toolcrib's format; raise `CliError` for an option that does not apply."""
    values: dict[str, Any] = {"python": str(Path(source).absolute())}
    fitting: tuple[str, ...] = ()
    if command:
        values, fitting = {"command": command[0], "args": list(command[1:])}, ("env", "cwd")
    elif is_url(source):
        values, fitting = {"url": source}, ("headers", "type")
    for key, value in options.items():
        if value and key not in fitting:
            option = {"headers": "header", "type": "transport"}.get(key, key)
            raise CliError(f"--{option} has no effect on {'a command' if command else source}")
    return {key: value for key, value in {**values, **options}.items() if value}


def _document(source: str) -> Document:
    """Return the JSON of the command line, or of stdin."""
    if source not in ("", "-"):
        return Document(Path("JSON"), source)
    if not source and sys.stdin.isatty():
        raise CliError("no server given", hint=_EXAMPLES)
    document = decode_document(Path("stdin"), sys.stdin.buffer.read())
    if not document.text.strip():
        raise CliError("no server given, and stdin is empty", hint=_EXAMPLES)
    return document


def _of_json(name: str, document: Document) -> tuple[ServerEntry, ...]:
    """Return servers written as other programs document them: a whole file, one server, or a part of a file."""
    if document.text.lstrip().startswith('"'):
        document = Document(document.path, f"{{{document.text.rstrip().removesuffix(',')}}}")
    root = read_jsonc(document)
    if is_server(root):
        named = name or _name_of(root)
        root = Table({"mcpServers": Table({named: root}, {named: 0})}, {"mcpServers": 0})
    entries = [entry for part in parts_of(document, root, FORMATS["json"], Path.cwd()) for entry in part.entries]
    if not entries:
        raise CliError("the JSON has no servers", hint='expected {"mcpServers": {"NAME": {"command": ...}}}')
    if name and len(entries) > 1:
        raise CliError(f"{name!r} cannot name {len(entries)} servers", hint="omit it: the JSON has their names")
    return tuple(entry if not name else _renamed(entry, name) for entry in entries)


def _renamed(entry: ServerEntry, name: str) -> ServerEntry:
    return dataclasses.replace(entry, name=name, display_name=name)


def _name_of(values: Mapping[str, Any]) -> str:
    """Return a name for a server that has none."""
    command, args = values.get("command"), values.get("args")
    url = next((values[key] for key in URLS if isinstance(values.get(key), str)), None)
    if isinstance(command, str):
        named = ad_hoc(None, [command, *map(str, args if isinstance(args, list) else ())])
    else:
        named = ad_hoc(url, ())
    return named[0] if named is not None else slug(Path(str(values.get("python", "server"))).stem)


async def _try(entries: tuple[ServerEntry, ...], timeout: float | None) -> None:
    """Start the servers; raise if one fails."""
    async with open_servers(Target(Settings(entries)), timeout=timeout, on_error="raise") as session:
        for state in session.hub.list_servers():
            era = state.server_info.protocol_version if state.server_info else ""
            seconds = "" if state.startup_seconds is None else f"  {state.startup_seconds:.1f} s"
            tools = f"{len(state.tools)} tool{'s' * (len(state.tools) != 1)}"
            say(f"{state.name}  {state.status.state}  {era}  {tools}{seconds}")
