"""Reads `server.json` of the official registry (schema 2025-12-11) into a `Manifest`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from .._util.net import is_loopback
from .fields import Fields, field_error
from .manifest_values import (
    BRACES,
    Manifest,
    ManifestEntry,
    ManifestInput,
    ManifestVariable,
    is_variable_name,
    read_variable_name,
    refuse_duplicates,
)
from .source_config import EnvironmentVariable, PackageInfo, SourceTransport

SCHEMA_VERSION: Final = "2025-12-11"
"""The version of the registry's schema that is read."""
OFFICIAL_META: Final = "io.modelcontextprotocol.registry/official"
"""The registry's own entry in `_meta`, with the status of the server."""

_SERVER_FIELDS: Final = (
    *("$schema", "_meta", "name", "title", "description", "version", "status", "packages", "remotes"),
    *("repository", "websiteUrl", "icons"),
)
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


def read_server_json(fields: Fields, warnings: tuple[str, ...] = ()) -> Manifest:
    """Return the manifest in the fields of a `server.json`, or of a response of the registry's API."""
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
    refuse_duplicates(fields, "environmentVariables", [each.definition.name for each in variables])
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
    host = _host(BRACES.sub("1", url))
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
    refuse_duplicates(fields, "headers", [each.definition.name.lower() for each in headers])
    template = ManifestInput(key=fields.key("url"), name="url", value=url, variables=_variables(fields))
    return ManifestEntry(key=fields.path, transport=transport, variables=headers, url=template)


def _variables(fields: Fields) -> tuple[ManifestInput, ...]:
    defined = fields.object("variables")
    return tuple(_input(defined.object(name), name, is_nested=True) for name in defined.values)


def _input(
    fields: Fields, name: str, *, flag: str = "", is_switch: bool = False, is_nested: bool = False
) -> ManifestInput:
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
        variables=() if is_nested else _variables(fields),
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
    name = read_variable_name(fields, is_header=is_header)
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
