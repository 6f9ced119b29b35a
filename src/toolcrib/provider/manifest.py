"""Reads manifests of plugins: `plugin.json` of the MCP Tools Provider and `server.json` of the official registry.

A folder with both is read as `plugin.json`, with a warning. Everything in a manifest is data from a stranger: wrong
types, unknown runtimes, duplicate variables and identifiers that a runtime would read as a flag are refused, by the
path of the field. Nothing is executed here.

`select_entry` documents which of several packages is taken.

Longer than 400 lines: both formats of manifests are read into the same entries, with the same checks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from .._util.files import read_regular_file
from .._util.net import is_loopback
from ..settings.documents import Document, decode_document
from ..settings.jsonc import read_jsonc
from .commands import RUNTIMES
from .fields import Fields, field_error, is_text
from .source_config import EnvironmentVariable, PackageInfo, SourceTransport

MAX_MANIFEST_BYTES: Final = 1024 * 1024
PLUGIN_FILE: Final = "plugin.json"
SERVER_FILE: Final = "server.json"
SCHEMA_VERSION: Final = "2025-12-11"
"""The version of the registry's schema that is read."""
OFFICIAL_META: Final = "io.modelcontextprotocol.registry/official"
"""The registry's own entry in `_meta`, with the status of the server."""

_PLUGIN_FIELDS: Final = ("name", "version", "description", "packages")
_PLUGIN_PACKAGE_FIELDS: Final = ("name", "transport_type", "runtime", "command", "environment_variables")
_PLUGIN_VARIABLE_FIELDS: Final = ("name", "description", "required", "secret", "default")
_SERVER_FIELDS: Final = ("$schema", "_meta", "name", "title", "description", "version", "packages", "remotes", "status")
_SERVER_PACKAGE_FIELDS: Final = (
    *("registryType", "registryBaseUrl", "identifier", "version", "fileSha256", "runtimeHint", "transport"),
    *("runtimeArguments", "packageArguments", "environmentVariables"),
)
REGISTRY_RUNTIMES: Final = {"npm": ("npx",), "pypi": ("uvx", "python"), "oci": ("docker",), "nuget": ("dnx",)}
"""The runtimes of each registry, the default first."""
_IDENTIFIERS: Final = {
    "npm": re.compile(r"(@[a-z0-9~][\w.~-]*/)?[a-z0-9~][\w.~-]*", re.IGNORECASE | re.ASCII),
    "pypi": re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w.,-]+\])?", re.ASCII),
    "oci": re.compile(r"[A-Za-z0-9][\w.-]*(:\d+)?(/[\w.-]+)*(:[\w.-]+)?(@sha256:[a-f0-9]{64})?", re.ASCII),
    "nuget": re.compile(r"[A-Za-z0-9_][\w.-]*", re.ASCII),
}
_PUBLIC_REGISTRIES: Final = {
    "npm": ("registry.npmjs.org",),
    "pypi": ("pypi.org",),
    "oci": ("docker.io",),
    "nuget": ("api.nuget.org",),
}
_VERSION: Final = re.compile(r"v?\d[\w.+!-]*", re.ASCII)
_VERSION_RANGE: Final = re.compile(r"(^|\.)[xX*]($|\.)")
_SHA256: Final = re.compile(r"[a-f0-9]{64}")
_BRACES: Final = re.compile(r"\{([^{}]+)\}")
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


# ---- files -------------------------------------------------------------------------------------------------------


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
    manifest = _parse_plugin(fields, warnings) if is_plugin else _parse_server(fields, warnings)
    return replace(manifest, file=file, folder=folder)


def parse_server_json(values: Any) -> Manifest:
    """Return the manifest in a mapping with the form of `server.json`, or in a response of the registry's API."""
    return _parse_server(Fields(values))


# ---- which entry is taken ------------------------------------------------------------------------------------------


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


# ---- values of inputs --------------------------------------------------------------------------------------------


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
    return _BRACES.sub(lambda found: values.get(found[1], found[0]), given.value), is_secret


def input_names(entry: ManifestEntry) -> Iterator[str]:
    """Yield the names of all inputs of an entry."""
    templates = [each.template for each in entry.variables if each.template is not None]
    url = [entry.url] if entry.url is not None else []
    for given in (*entry.runtime_arguments, *entry.arguments, *templates, *url):
        if given.value is None:
            yield given.name
        yield from (variable.name for variable in given.variables)


# ---- plugin.json -------------------------------------------------------------------------------------------------


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
    _refuse_duplicates(fields, "packages", [entry.name for entry in entries if entry.name])
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
            name=_variable_name(each),
            description=each.text("description", ""),
            required=each.flag("required"),
            secret=each.flag("secret"),
            default=each.optional_text("default"),
        )
        variables.append(ManifestVariable(definition, is_public=each.values.get("secret") is False))
    _refuse_duplicates(fields, "environment_variables", [each.definition.name for each in variables])
    return ManifestEntry(
        key=fields.path,
        name=fields.text("name", ""),
        transport=fields.choice("transport_type", SourceTransport, SourceTransport.STDIO),
        runtime=runtime,
        command=command,
        variables=tuple(variables),
    )


def _variable_name(fields: Fields, *, is_header: bool = False) -> str:
    expected = "the name of a header" if is_header else "the name of a variable, without = and blanks"
    name = fields.text("name", expected=expected, empty=False)
    valid = _NAME_IN_HEADER.fullmatch(name) if is_header else is_variable_name(name)
    if not valid:
        raise fields.wrong("name", expected)
    return name


def is_variable_name(name: str) -> bool:
    """Return whether an environment variable can have this name."""
    return bool(name) and name.isprintable() and not re.search(r"[=\s]", name)


def is_header_name(name: str) -> bool:
    """Return whether a header can have this name."""
    return _NAME_IN_HEADER.fullmatch(name) is not None


def _refuse_duplicates(fields: Fields, name: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for each in names:
        if each in seen:
            raise fields.error(name, "each name once", "Remove one of the two", got=f"{each[:60]!r} twice")
        seen.add(each)


# ---- server.json -------------------------------------------------------------------------------------------------


def _parse_server(fields: Fields, warnings: tuple[str, ...] = ()) -> Manifest:
    advice = list(warnings)
    if isinstance(fields.values.get("server"), Mapping):  # a response of the registry's API
        _check_status(fields, advice)
        fields = fields.object("server")
    _check_status(fields, advice)
    advice += fields.misspelled(_SERVER_FIELDS)
    schema = fields.text("$schema", "")
    if schema and f"/{SCHEMA_VERSION}/" not in schema:
        advice.append(
            f"$schema: expected {SCHEMA_VERSION}, got another version; its fields are read as if it were that"
        )
    entries = [_server_package(each, advice) for each in fields.objects("packages")]
    entries += [_remote(each) for each in fields.objects("remotes")]
    if not entries:
        raise fields.error("packages", "a non-empty list of packages, or of remotes", got="neither")
    version = fields.text("version", "")
    if not version:
        advice.append("version: the manifest has none; set one, so that changes of the tools can be traced")
    name = fields.text("name", expected="the name of the server", empty=False)
    return Manifest(name, version, fields.text("description", ""), tuple(entries), warnings=tuple(advice))


def _check_status(fields: Fields, advice: list[str]) -> None:
    official = fields.object("_meta").object(OFFICIAL_META)
    for place in (official, fields):
        status = place.text("status", "")
        if status == "deleted":
            raise place.error("status", "a server that is not deleted", "Choose another version", got="deleted")
        if status == "deprecated":
            advice.append(f"{place.key('status')}: the server is deprecated; look for its successor")


def _server_package(fields: Fields, advice: list[str]) -> ManifestEntry:
    advice += fields.misspelled(_SERVER_PACKAGE_FIELDS)
    registry = fields.text("registryType", expected="npm, pypi, oci, nuget or mcpb", empty=False)
    identifier = fields.text("identifier", expected="the identifier of the package", empty=False)
    integrity = _integrity(fields)
    transport, url = _transport(fields.object("transport"), fields)
    if registry not in REGISTRY_RUNTIMES:
        reason = (
            "unpack the bundle and register its folder with a plugin.json" if registry == "mcpb" else "unknown type"
        )
        package = PackageInfo(registry, identifier, fields.optional_text("version"), integrity)
        return ManifestEntry(key=fields.path, transport=transport, package=package, unusable=f"{registry}: {reason}")
    if not _IDENTIFIERS[registry].fullmatch(identifier):
        raise fields.wrong("identifier", f"the name of a package of the registry {registry}")
    version = _version(fields)
    _check_registry(fields, registry, advice)
    if integrity is not None and registry != "oci":
        advice.append(f"{fields.key('fileSha256')}: recorded, not verified, because the runtime downloads the package")
    runtime = _runtime(fields, registry)
    runtime_arguments = [_argument(each) for each in fields.objects("runtimeArguments")]
    variables = [_key_value(each) for each in fields.objects("environmentVariables")]
    if runtime == "docker":
        variables += [_docker_variable(each) for each in runtime_arguments if _assigns(each)]
        runtime_arguments = [each for each in runtime_arguments if not _assigns(each)]
    _refuse_duplicates(fields, "environmentVariables", [each.definition.name for each in variables])
    if registry == "oci":
        name, at, digest = identifier.partition("@")
        path, colon, tag = name.rpartition(":")
        has_tag = bool(colon) and "/" not in tag
        image = path if has_tag else name
        package = PackageInfo(registry, image, version or (tag if has_tag else None), digest if at else integrity)
    else:
        package = PackageInfo(registry, identifier, version, integrity)
    return ManifestEntry(
        key=fields.path,
        transport=transport,
        runtime=runtime,
        command=(identifier,),
        package=package,
        variables=tuple(variables),
        runtime_arguments=tuple(runtime_arguments),
        arguments=tuple(_argument(each) for each in fields.objects("packageArguments")),
        url=url,
    )


def _integrity(fields: Fields) -> str | None:
    digest = fields.optional_text("fileSha256")
    if digest is None:
        return None
    if not _SHA256.fullmatch(digest):
        raise fields.wrong("fileSha256", "64 hexadecimal digits in lower case")
    return f"sha256:{digest}"


def _version(fields: Fields) -> str | None:
    version = fields.optional_text("version")
    if version is not None and (not _VERSION.fullmatch(version) or _VERSION_RANGE.search(version)):
        raise fields.wrong("version", "one exact version, such as 1.0.2")
    return version


def _check_registry(fields: Fields, registry: str, advice: list[str]) -> None:
    base = fields.text("registryBaseUrl", "")
    if not base:
        return
    if (_host(base) or "").removeprefix("www.") in _PUBLIC_REGISTRIES[registry]:
        return
    if registry == "oci":
        raise fields.error("registryBaseUrl", "no value", "Put the registry into identifier: host/name:tag")
    advice.append(f"{fields.key('registryBaseUrl')}: has no effect; set the registry in the settings of the runtime")


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _runtime(fields: Fields, registry: str) -> str:
    hint = fields.text("runtimeHint", "")
    if not hint:
        return REGISTRY_RUNTIMES[registry][0]
    if hint not in REGISTRY_RUNTIMES[registry]:
        raise fields.one_of("runtimeHint", REGISTRY_RUNTIMES[registry])
    return hint


def _transport(fields: Fields, package: Fields) -> tuple[SourceTransport, ManifestInput | None]:
    if not package.has("transport"):
        raise package.wrong("transport", "an object with a type")
    if not fields.has("type"):
        raise fields.wrong("type", "stdio, streamable-http or sse")
    transport = fields.choice("type", SourceTransport, SourceTransport.STDIO)
    if transport is SourceTransport.STDIO:
        return transport, None
    url = fields.text("url", "")
    if not url:
        return transport, None
    host = _host(_BRACES.sub("1", url))
    if host is None or not is_loopback(host):
        raise fields.wrong("url", "a URL on this machine, such as http://127.0.0.1:${PORT}/mcp")
    return transport, ManifestInput(key=fields.key("url"), name="url", value=url)


def _remote(fields: Fields) -> ManifestEntry:
    if not fields.has("type"):
        raise fields.wrong("type", "streamable-http or sse")
    transport = fields.choice("type", SourceTransport, SourceTransport.STREAMABLE_HTTP)
    if transport is SourceTransport.STDIO:
        raise fields.wrong("type", "streamable-http or sse")
    url = fields.text("url", expected="an absolute http:// or https:// URL", empty=False)
    headers = tuple(_key_value(each, is_header=True) for each in fields.objects("headers"))
    _refuse_duplicates(fields, "headers", [each.definition.name.lower() for each in headers])
    template = ManifestInput(key=fields.key("url"), name="url", value=url, variables=_variables(fields))
    return ManifestEntry(key=fields.path, transport=transport, variables=headers, url=template)


def _variables(fields: Fields) -> tuple[ManifestInput, ...]:
    defined = fields.object("variables")
    return tuple(_input(defined.object(name), name) for name in defined.values)


def _input(fields: Fields, name: str, *, flag: str = "", is_switch: bool = False) -> ManifestInput:
    choices = fields.texts("choices")
    default = fields.optional_text("default")
    if choices and default is not None and default not in choices:
        raise fields.wrong("default", "one of the choices")
    return ManifestInput(
        key=fields.path,
        name=name,
        flag=flag,
        value=fields.optional_text("value"),
        default=default,
        required=fields.flag("isRequired"),
        secret=fields.flag("isSecret"),
        choices=choices,
        variables=_variables(fields) if fields.has("variables") else (),
        is_switch=is_switch,
    )


def _argument(fields: Fields) -> ManifestInput:
    kind = fields.values.get("type")
    if kind == "positional":
        hint = fields.text("valueHint", "")
        if not hint and not fields.has("value") and not fields.has("default"):
            raise fields.error("value", "a value, or a valueHint that names it", got="neither")
        return _input(fields, hint or fields.path)
    if kind == "named":
        flag = fields.text("name", expected="a flag with its leading dashes, such as --port", empty=False)
        if not re.fullmatch(r"-[^\s=]+", flag):
            raise fields.wrong("name", "a flag with its leading dashes, such as --port")
        valued = ("value", "default", "valueHint", "choices", "placeholder", "format", "variables")
        is_switch = not any(fields.has(each) for each in valued)
        return _input(fields, flag.lstrip("-"), flag=flag, is_switch=is_switch)
    raise fields.wrong("type", "positional or named")


def _key_value(fields: Fields, *, is_header: bool = False) -> ManifestVariable:
    name = _variable_name(fields, is_header=is_header)
    given = _input(fields, name)
    return _as_variable(name, given, fields.text("description", ""), fields.values.get("isSecret") is False)


def _as_variable(name: str, given: ManifestInput, description: str = "", is_public: bool = False) -> ManifestVariable:
    definition = EnvironmentVariable(
        name=name,
        description=description,
        required=given.required,
        secret=given.secret or any(each.secret for each in given.variables),
        default=given.default,
    )
    return ManifestVariable(definition, given.choices, is_public, given if given.value is not None else None)


def _assigns(argument: ManifestInput) -> bool:
    return argument.flag in ("-e", "--env") and argument.value is not None and "=" in argument.value


def _docker_variable(argument: ManifestInput) -> ManifestVariable:
    """Return `-e NAME=VALUE` as a variable, so that its value is passed in the environment, not in the arguments."""
    name, _, value = (argument.value or "").partition("=")
    if not is_variable_name(name) or "{" in name:
        raise field_error(f"{argument.key}.value", "NAME=VALUE with a valid name")
    given = ManifestInput(
        key=argument.key,
        name=name,
        value=value,
        required=argument.required,
        secret=argument.secret,
        variables=argument.variables,
    )
    return _as_variable(name, given)
