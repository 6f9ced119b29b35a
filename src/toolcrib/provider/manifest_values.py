"""The values that manifests of both formats are read into, and which of a manifest's entries is used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .fields import Fields, field_error
from .source_config import EnvironmentVariable, PackageInfo, SourceTransport

BRACES: Final = re.compile(r"\{([^{}]+)\}")
"""A variable in a value or URL of a manifest."""
_NAME_IN_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class ManifestInput:
    """A value that the manifest gives or the operator enters: an argument, or a variable in `{braces}`."""

    key: str
    """The path of the field in the manifest."""
    name: str
    flag: str = ""
    value: str | None = None
    default: str | None = None
    required: bool = False
    secret: bool = False
    choices: tuple[str, ...] = ()
    variables: tuple[ManifestInput, ...] = ()
    is_switch: bool = False
    """Whether it is a flag without a value."""


@dataclass(frozen=True, slots=True)
class ManifestVariable:
    """The definition of an environment variable or header."""

    definition: EnvironmentVariable
    choices: tuple[str, ...] = ()
    is_public: bool = False
    """Whether the manifest says that the value is not a secret."""
    template: ManifestInput | None = None
    """The value with `{variables}`, if the manifest gives one."""


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One way to run or reach the server: a package, or a remote server."""

    key: str
    name: str = ""
    transport: SourceTransport = SourceTransport.STDIO
    runtime: str = ""
    command: tuple[str, ...] = ()
    """The words for the runtime; empty for a remote server."""
    package: PackageInfo | None = None
    variables: tuple[ManifestVariable, ...] = ()
    runtime_arguments: tuple[ManifestInput, ...] = ()
    arguments: tuple[ManifestInput, ...] = ()
    url: ManifestInput | None = None
    """The URL of a remote server, or the one at which a plugin over HTTP listens."""
    unusable: str = ""
    """Why the package cannot be started."""

    @property
    def is_remote(self) -> bool:
        """Whether the server runs already."""
        return self.url is not None and not self.command


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a manifest."""

    name: str
    version: str
    description: str
    entries: tuple[ManifestEntry, ...]
    file: Path | None = None
    """The manifest with all symlinks resolved; None if it was given as a mapping."""
    folder: Path | None = None
    """The plugin folder with all symlinks resolved."""
    warnings: tuple[str, ...] = field(default=())


def select_entry(manifest: Manifest, transport: SourceTransport | None = None) -> ManifestEntry:
    """Return the package or remote server of a manifest that is used.

    Packages that cannot be started (such as `mcpb`) are left out. Without a requested transport, packages come before
    remote servers: the package named `default`, else the first over stdio, else the first. With a requested transport,
    only entries that have it count, remote servers first unless it is stdio; if there are none, all packages count, as
    without a request, and the requested transport overrides theirs.
    """
    usable = [entry for entry in manifest.entries if not entry.unusable]
    packages = [entry for entry in usable if not entry.is_remote]
    remotes = [entry for entry in usable if entry.is_remote]
    if transport is not None:
        matching = [entry for entry in (*remotes, *packages) if entry.transport is transport]
        if matching:
            return next((entry for entry in matching if entry.name == "default"), matching[0])
        if not packages:
            usable = []
    for entry in packages:
        if entry.name == "default":
            return entry
    if packages:
        return next((entry for entry in packages if entry.transport is SourceTransport.STDIO), packages[0])
    if usable:
        return usable[0]
    reasons = "; ".join(f"{entry.key}: {entry.unusable}" for entry in manifest.entries if entry.unusable)
    expected = "a package or remote server that can be used" + (f" over {transport}" if transport else "")
    raise field_error("packages", expected, got=reasons or "none")


# ---- values of inputs ------------------------------------------------------------------------------------------------


def resolve_input(given: ManifestInput, inputs: Mapping[str, str], missing: list[str]) -> tuple[str | None, bool]:
    """Return the value of an input, None if it has none, and whether it is a secret.

    Names of required inputs without a value are added to `missing`. `{names}` without a definition stay as they are.
    """
    if given.value is None:
        value = inputs.get(given.name, given.default)
        if value is None and given.required:
            missing.append(given.name)
        if value is not None and given.choices and value not in given.choices:
            raise field_error(f"inputs.{given.name}", f"one of {', '.join(given.choices)}", got="another value")
        return value, given.secret
    is_secret = given.secret
    values = {}
    for variable in given.variables:
        value, hidden = resolve_input(variable, inputs, missing)
        is_secret = is_secret or hidden
        values[variable.name] = "" if value is None else value
    return BRACES.sub(lambda found: values.get(found[1], found[0]), given.value), is_secret


def input_names(entry: ManifestEntry) -> Iterator[str]:
    """Yield the names of all inputs of an entry."""
    templates = [each.template for each in entry.variables if each.template is not None]
    url = [entry.url] if entry.url is not None else []
    for given in (*entry.runtime_arguments, *entry.arguments, *templates, *url):
        if given.value is None:
            yield given.name
        yield from (variable.name for variable in given.variables)


# ---- names -----------------------------------------------------------------------------------------------------------


def is_variable_name(name: str) -> bool:
    """Return whether an environment variable can have this name."""
    return bool(name) and name.isprintable() and not re.search(r"[=\s]", name)


def is_header_name(name: str) -> bool:
    """Return whether a header can have this name."""
    return _NAME_IN_HEADER.fullmatch(name) is not None


def read_variable_name(fields: Fields, *, is_header: bool = False) -> str:
    """Return the `name` of a variable or header; raise `ConfigError` if it cannot be one."""
    expected = "the name of a header" if is_header else "the name of a variable, without = and blanks"
    name = fields.text("name", expected=expected, empty=False)
    valid = _NAME_IN_HEADER.fullmatch(name) if is_header else is_variable_name(name)
    if not valid:
        raise fields.wrong("name", expected)
    return name


def refuse_duplicates(fields: Fields, name: str, names: Iterable[str]) -> None:
    """Raise `ConfigError` about the field `name` if one of the names occurs twice."""
    seen: set[str] = set()
    for each in names:
        if each in seen:
            raise fields.error(name, "each name once", "Remove one of the two", got=f"{each[:60]!r} twice")
        seen.add(each)
