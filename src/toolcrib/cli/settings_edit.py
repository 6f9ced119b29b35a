"""Shared by the commands that change settings: the file that they write, and what they report."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

from ..config import MASK, mask_urls
from ..config.secrets_scan import placeholders, variable_for, written_plainly
from ..config.servers import URLS
from ..errors import ConfigError
from ..settings import ServerEntry, Settings
from ..settings.documents import read_content
from ..settings.edit import put_servers
from ..settings.edit.validate import Check, check_values
from ..settings.formats import format_of
from ..settings.load import read_file
from ..settings.models import place
from .console import note, say
from .exit_codes import CliError
from .target import PROJECT_FILES, own_settings, settings_files


def check_one_file(config: Path | None, user: bool) -> None:
    """Raise `CliError` if --config and --user are both given."""
    if config is not None and user:
        raise CliError("--config and --user name two files", hint="give one of them")


def file_to_write(config: Path | None, user: bool) -> Path:
    """Return the settings file that a command changes; it need not exist."""
    check_one_file(config, user)
    if user:
        return own_settings()
    # The one that takes precedence if several are read.
    here = [path for name in reversed(PROJECT_FILES) if (path := Path(name)).is_file()]
    return config or (here[0] if here else Path(PROJECT_FILES[0]))


def pairs(option: str, given: Iterable[str]) -> dict[str, str]:
    """Return the variables of --env, or the headers of --header."""
    found = {}
    for text in given:
        name, sign, value = text.partition("=")
        if option == "--header" and ":" in name:  # as in curl
            name, sign, value = text.partition(":")
        if not sign and option == "--env":
            value = f"${{{name}}}"
        elif not sign or not name.strip():
            raise CliError(
                f"{option}: expected NAME=VALUE", hint=f"{option} 'NAME=${{VARIABLE}}' keeps a secret out of the file"
            )
        found[name.strip()] = value.strip() if option == "--header" else value
    return found


def standing(path: Path, format: str | None = None) -> dict[str, ServerEntry]:
    """Return the servers of a file by their names in it; none if the file is missing or empty."""
    found = read_file(path, format=format) if path.is_file() and read_content(path).strip() else [Settings()]
    return {entry.display_name: entry for part in found for entry in part.entries}


def same(entry: ServerEntry | None, values: Mapping[str, Any]) -> bool:
    """Return whether an entry has exactly these values in its file."""
    return entry is not None and dict(entry.raw) == values


def free(
    path: Path, servers: Mapping[str, Mapping[str, Any]], *, replace: bool, format: str | None = None
) -> dict[str, Mapping[str, Any]]:
    """Return the servers to write: those that the file does not have, and with `replace` those that differ in it."""
    there = standing(path, format)
    for name, values in servers.items():
        if same(there.get(name), values):
            say(f"{name} is already configured identically  ({place(there[name])})")
        elif name in there and not replace:
            note(f"{name} is skipped: {place(there[name])} differs; --replace overwrites it", "yellow")
    wanted = {name: values for name, values in servers.items() if not same(there.get(name), values)}
    return {name: values for name, values in wanted.items() if replace or name not in there}


def checked(name: str, entry: ServerEntry, format: str) -> Check:
    """Check an entry without starting it; raise its `ConfigError` if it is invalid."""
    try:
        return check_values(name, dict(entry.raw), format, entry.source)
    except ConfigError as exc:
        # The error from reading the file names the line.
        fault = entry.error if entry.error is not None and entry.error.expected == exc.expected else exc
    raise fault


class References:
    """References to variables instead of secrets; each variable stands for one secret of all servers."""

    def __init__(self) -> None:
        self._secrets: dict[str, str] = {}

    def replace_secrets(self, server: str, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """Return an entry with `${NAME}` instead of its secrets, and the key and the variable of each secret."""
        changed, replaced = deepcopy(dict(values)), list[tuple[str, str]]()
        for plain in written_plainly(values):
            container, key = _locate(changed, plain.key)
            text = str(container[key])
            start, end = len(plain.instead.removesuffix(f"${{{plain.variable}}}")), len(text)
            if plain.key in URLS:
                start, end = _secret_in_url(text, plain.variable)
            variable = self._variable(plain.variable, server, text[start:end])
            container[key] = f"{text[:start]}${{{variable}}}{text[end:]}"
            replaced.append((plain.key, variable))
        return changed, replaced

    def _variable(self, name: str, server: str, secret: str) -> str:
        """Return a variable for a secret: with the server's name if another secret has the plain name."""
        for count in itertools.count():
            candidate = (name, variable_for(f"{server}_{name}"))[count] if count < 2 else f"{name}_{count}"
            if self._secrets.setdefault(candidate, secret) == secret and os.environ.get(candidate, secret) == secret:
                return candidate
        raise AssertionError  # the loop does not end


def _locate(values: dict[str, Any], key: str) -> tuple[Any, Any]:
    """Return the container and the key in it for `env.NAME`, `args[0]` or `url`."""
    if key.startswith("args["):
        return values["args"], int(key[len("args[") : -1])
    table, _, name = key.partition(".")
    return (values[table], name) if name else (values, key)


def _secret_in_url(url: str, variable: str) -> tuple[int, int]:
    """Return start and end of the secret in a URL for which `written_plainly` suggests this variable.

    It is the value of a field of the query, as the URL quotes it, or the password.
    """
    for field in re.finditer(r"(?<=[?&])([^=&#]+)=([^&#]+)", url):
        if variable_for(unquote_plus(field[1])) == variable and not field[2].startswith("${"):
            return field.span(2)
    password = re.match(r"[^:/?#]+://[^:@/?#]*:([^/?#]+)@", url)
    return (0, len(url)) if password is None else password.span(1)


def keep(
    path: Path,
    servers: Mapping[str, Mapping[str, Any]],
    *,
    replace: bool = False,
    format: str | None = None,
    private: bool = False,
) -> None:
    """Write servers into a file, and report their lines.

    A new file is readable only by its owner if it has secrets; with `private` an existing one becomes so too.
    """
    if not servers:
        return
    has_secrets = any(written_plainly(values) for values in servers.values())
    if private and has_secrets and path.exists():
        path.chmod(0o600)  # before the secrets are in it
        note(f"only you can read {path} now")
    is_own, own_were_used = path == own_settings(), settings_files(None) == [own_settings()]
    if is_own:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    before = standing(path, format)
    lines = put_servers(path, servers, format=format, replace=replace, private=is_own or has_secrets)
    for name, line in lines.items():
        say(f"{'replaced' if name in before else 'added'} {name}: {described(servers[name])}  ({path}:{line})")
    for name, values in servers.items():
        for key in placeholders(values):
            note(f"warning: {name}: {key} in {path} is a placeholder: replace it with the real value", "yellow")
        for key, _, instead in written_plainly(values):
            note(f"warning: {name}: {key} looks like a secret stored in plain text in {path}", "yellow")
            note(f"hint: keep it in the environment, and write {instead} there")
    if has_secrets and path.stat().st_mode & 0o077:
        note(f"warning: other users of this machine can read {path}: chmod 600 {path}", "yellow")
    for name, values in servers.items():
        if values.get("command") == "toolcrib" and shutil.which("toolcrib") is None:
            note(f"warning: {name}: the entry starts toolcrib, which is not on PATH", "yellow")
            note(f"hint: add {Path(sys.executable).parent} to PATH, or write the absolute path there")
    if own_were_used and settings_files(None) != [own_settings()]:
        note(f"this folder now has its own settings; yours in {own_settings()} are not used here")


def tell_unset(name: str, check: Check) -> None:
    """Warn about what a valid entry still lacks."""
    for variable in check.unset:
        note(f"warning: {name}: the variable {variable} is not set; the server needs it", "yellow")
    for text in check.warnings:
        note(f"warning: {name}: {text}", "yellow")


def tell_overriding(path: Path, names: Mapping[str, Any]) -> None:
    """Warn about other files of this folder that define the same servers and take precedence."""
    if str(path) not in PROJECT_FILES:
        return
    for other in map(Path, PROJECT_FILES[PROJECT_FILES.index(str(path)) + 1 :]):
        for name, entry in standing(other).items():
            if name in names:
                note(f"warning: {place(entry)} also defines {name}, and takes precedence", "yellow")


def described(values: Mapping[str, Any]) -> str:
    """Return a server on one line, without secrets."""
    for key in URLS:
        if key in values:
            return mask_urls(str(values[key]))
    if "python" in values:
        return str(values["python"])
    args = values.get("args")
    hidden = {plain.key for plain in written_plainly(values)}
    shown = [
        MASK if f"args[{at}]" in hidden else str(arg)
        for at, arg in enumerate(args if isinstance(args, list | tuple) else ())
    ]
    words = [str(values["command"])] if "command" in values else []
    return mask_urls(shlex.join(words + shown)).replace(f"'{MASK}'", MASK)


def format_name(path: Path) -> str:
    """Return the name of the format of a file, by its name."""
    return format_of(path).name
