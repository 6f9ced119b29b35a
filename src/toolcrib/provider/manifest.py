"""Reads manifests of plugins: `plugin.json` of the MCP Tools Provider and `server.json` of the official registry.

A folder with both is read as `plugin.json`, with a warning. Everything in a manifest is data from a stranger: wrong
types, unknown runtimes, duplicate variables and identifiers that a runtime would read as a flag are refused, by the
path of the field. Nothing is executed here.

`manifest_values.select_entry` documents which of several packages is taken.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from .._util.files import read_regular_file
from ..settings.documents import Document, decode_document
from ..settings.jsonc import read_jsonc
from .commands import RUNTIMES
from .fields import Fields, field_error, is_text
from .manifest_values import Manifest, ManifestEntry, ManifestVariable, read_variable_name, refuse_duplicates
from .server_json import read_server_json
from .source_config import EnvironmentVariable, SourceTransport

MAX_MANIFEST_BYTES: Final = 1024 * 1024
PLUGIN_FILE: Final = "plugin.json"
SERVER_FILE: Final = "server.json"

_PLUGIN_FIELDS: Final = ("name", "version", "description", "packages")
_PLUGIN_PACKAGE_FIELDS: Final = ("name", "transport_type", "runtime", "command", "environment_variables")
_PLUGIN_VARIABLE_FIELDS: Final = ("name", "description", "required", "secret", "default")


def read_manifest(
    folder: str | os.PathLike[str], *, plugin_root: str | os.PathLike[str] | None = None, key: str = "mcp_plugin_dir"
) -> Manifest:
    """Return the manifest in a plugin folder, or the manifest with this path.

    Symlinks are resolved. With a `plugin_root`, the folder and the manifest must be below it, and a relative path
    begins there.
    """
    root = None if plugin_root is None else _resolved(Path(plugin_root), "plugin_root")
    place = _below(_resolved(_path(folder, root, key), key), root, key)
    if not os.path.isdir(place):
        if not os.path.exists(place):
            expected = f"an existing folder with {PLUGIN_FILE} or {SERVER_FILE}"
            raise field_error(key, expected, "Check the path", got="a path that does not exist")
        return _read_file(place, place.parent, place.name == PLUGIN_FILE)
    found = [name for name in (PLUGIN_FILE, SERVER_FILE) if os.path.lexists(place / name)]
    if not found:
        raise field_error(key, f"a folder with {PLUGIN_FILE} or {SERVER_FILE}", "Add a manifest", got="neither")
    file = _below(_resolved(place / found[0], key), root, key)
    ignored = f"{key}: the folder has {PLUGIN_FILE} and {SERVER_FILE}; {SERVER_FILE} is ignored"
    return _read_file(file, place, found[0] == PLUGIN_FILE, (ignored,) if len(found) > 1 else ())


def _path(folder: Any, root: Path | None, key: str) -> Path:
    text = os.fspath(folder) if isinstance(folder, os.PathLike) else folder
    if not is_text(text) or not str(text).strip():
        raise field_error(key, "the path of a plugin folder, a non-empty string without NUL")
    return root / text if root is not None else Path(os.path.expanduser(text))


def _resolved(path: Path, key: str) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as exc:  # a loop of symlinks, a name that is too long
        raise field_error(key, "a path that can be resolved", got=type(exc).__name__) from exc


def _below(path: Path, root: Path | None, key: str) -> Path:
    if root is not None and not path.is_relative_to(root):
        advice = "Symlinks and .. must not lead out of it"
        raise field_error(key, "a path below plugin_root", advice, got="a path outside")
    return path


def _read_file(file: Path, folder: Path, is_plugin: bool, warnings: tuple[str, ...] = ()) -> Manifest:
    document = Document(file)
    try:
        content = read_regular_file(file, MAX_MANIFEST_BYTES + 1)
    except OSError as exc:
        raise document.error(f"cannot be read: {exc.strerror or type(exc).__name__}", expected="a manifest") from exc
    if content is None:
        raise document.error("expected a regular file", expected="a regular file")
    if len(content) > MAX_MANIFEST_BYTES:
        expected = f"at most {MAX_MANIFEST_BYTES} bytes"
        raise document.error(f"expected {expected}, got more", expected=expected)
    document = decode_document(file, content)
    fields = Fields(read_jsonc(document), document=document)
    manifest = _parse_plugin(fields, warnings) if is_plugin else read_server_json(fields, warnings)
    return replace(manifest, file=file, folder=folder)


def parse_server_json(values: Any) -> Manifest:
    """Return the manifest in a mapping with the form of `server.json`, or in a response of the registry's API."""
    return read_server_json(Fields(values))


# ---- plugin.json -----------------------------------------------------------------------------------------------------


def _parse_plugin(fields: Fields, warnings: tuple[str, ...]) -> Manifest:
    packages = fields.objects("packages")
    if not packages:
        raise fields.wrong("packages", "a non-empty list of packages")
    advice = [*warnings, *fields.misspelled(_PLUGIN_FIELDS)]
    entries = []
    for package in packages:
        advice += package.misspelled(_PLUGIN_PACKAGE_FIELDS)
        entries.append(_plugin_package(package, advice))
    name = fields.text("name", expected="the name of the plugin", empty=False)
    refuse_duplicates(fields, "packages", [entry.name for entry in entries if entry.name])
    version = fields.text("version", "")
    if not version:
        advice.append("version: the manifest has none; set one, so that changes of the tools can be traced")
    return Manifest(name, version, fields.text("description", ""), tuple(entries), warnings=tuple(advice))


def _plugin_package(fields: Fields, advice: list[str]) -> ManifestEntry:
    runtime = fields.text("runtime", "", expected="the name of a runtime")
    if runtime and runtime not in RUNTIMES:
        raise fields.one_of("runtime", RUNTIMES)
    command = fields.texts("command", expected="a non-empty list of strings")
    if not command or not command[0].strip():
        raise fields.error("command", "a non-empty list of strings", got="an empty command" if command else "nothing")
    variables = []
    for each in fields.objects("environment_variables"):
        advice += each.misspelled(_PLUGIN_VARIABLE_FIELDS)
        definition = EnvironmentVariable(
            name=read_variable_name(each),
            description=each.text("description", ""),
            required=each.flag("required"),
            secret=each.flag("secret"),
            default=each.optional_text("default"),
        )
        variables.append(ManifestVariable(definition, is_public=each.values.get("secret") is False))
    refuse_duplicates(fields, "environment_variables", [each.definition.name for each in variables])
    return ManifestEntry(
        key=fields.path,
        name=fields.text("name", ""),
        transport=fields.choice("transport_type", SourceTransport, SourceTransport.STDIO),
        runtime=runtime,
        command=command,
        variables=tuple(variables),
    )
