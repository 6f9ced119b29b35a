"""Turns every form in which a source can be registered into a `SourceConfig` and its secrets.

The forms: the registration fields of the MCP Tools Provider, an `mcpServers` entry or a document with one, a server
config object, a `server.json` of the official registry, and the path of a plugin folder or manifest. Apart from reading
manifests, nothing here does any I/O. Every error is a `ConfigError` that names the field; no error and no warning
contains a value that may be a secret.

Longer than 400 lines: all forms fill the same draft, and share its rules about secrets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .._util.suggest import suggest
from ..config import HttpServer, PythonServer, ServerConfig, SseServer, StdioServer
from ..settings import ServerEntry, parse_settings
from .commands import RUNTIMES, build_command, split_command
from .fields import Fields, field_error, is_text
from .manifest import parse_server_json, read_manifest
from .manifest_values import Manifest, ManifestEntry, ManifestInput, input_names, resolve_input, select_entry
from .server_json import REGISTRY_RUNTIMES
from .source_config import LifecycleMode, SourceConfig, SourceTransport
from .source_draft import CONNECTION_FIELDS, OPTION_FIELDS, SourceDraft
from .stored_config import approval_hash, config_from_json, config_to_json, restore_secrets

__all__ = [
    "Registration",
    "approval_hash",
    "config_from_json",
    "config_to_json",
    "parse_registration",
    "restore_secrets",
]

FORM_FIELDS: Final = (
    *("name", "url", "source_type", "mcp_plugin_dir", "mcp_transport_type", "mcp_runtime_hint", "mcp_lifecycle_mode"),
    *("mcp_env_vars", "mcp_command", "mcp_args", "mcp_server_url"),
)
"""The fields of the registration form of the MCP Tools Provider."""
EXTENSION_FIELDS: Final = (
    *("stateless", "per_session", "review", "validate_arguments", "health_interval", "refresh_interval"),
    *("idle_seconds", "pass_environment", "personal", "inputs"),
)
"""Further fields that every form accepts; `inputs` has values for arguments and `{variables}` of a `server.json`."""
MAX_NAME_LENGTH: Final = 200

_FORMS: Final = (
    "the registration fields (name, source_type, mcp_plugin_dir, ...), an mcpServers entry, a server config "
    "(StdioServer, HttpServer, SseServer), a server.json, or the path of a plugin folder"
)
_ENTRY_KEYS: Final = ("command", "url", "httpUrl", "serverUrl", "type", "transport", "python")
_DOCUMENT_KEYS: Final = ("mcpServers", "servers")


@dataclass(frozen=True, slots=True)
class Registration:
    """A registration that was read: the config without secrets, and the secrets by the references in the config."""

    name: str
    config: SourceConfig
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


def parse_registration(
    given: Any,
    *,
    name: str | None = None,
    plugin_root: str | os.PathLike[str] | None = None,
    allow_private: bool = True,
    allow_docker_flags: Collection[str] = (),
    more: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Registration:
    """Return the config of a source and its secrets. Raises `ConfigError`, which names the field, for anything wrong.

    Args:
        given: The registration in one of its forms (see the module).
        name: The name of the source. Required for a server config and for an `mcpServers` entry; otherwise it replaces
            the name that the form or the manifest has.
        plugin_root: The folder that plugin folders and manifests must be in; by default they may be anywhere.
        allow_private: Whether a remote source may be at a private address. It is checked at connect time.
        allow_docker_flags: Names of docker's flags that the operator allows, such as `-v`.
        more: Further fields, as in the registration form: extension fields and server options for every form, and
            `mcp_env_vars` and `mcp_lifecycle_mode`; for manifests all fields that go with `mcp_plugin_dir`.
        environ: The environment for `${VARIABLES}` in an `mcpServers` entry; by default that of this process.
    """
    parser = _Parser(name, plugin_root, allow_private, tuple(allow_docker_flags), environ)
    return parser.parse(given, dict(more or {}))


_StoredServer = StdioServer | HttpServer | SseServer


@dataclass(frozen=True, slots=True)
class _Parser:
    name: str | None
    plugin_root: str | os.PathLike[str] | None
    allow_private: bool
    allow_docker_flags: tuple[str, ...]
    environ: Mapping[str, str] | None

    # ---- the forms

    def parse(self, given: Any, more: dict[str, Any]) -> Registration:
        if isinstance(given, ServerConfig):
            return self._from_server(_refuse_python(given), self._required_name(None), Fields(more), [])
        if isinstance(given, str | os.PathLike):
            if isinstance(given, str) and re.match(r"https?://", given):
                raise field_error("source", _FORMS, "For a URL, use HttpServer(url)", got="a URL")
            return self._from_manifest(read_manifest(given, plugin_root=self.plugin_root, key="path"), more)
        if not isinstance(given, Mapping):
            advice = "Tools in this process need no source: give a Hub the ToolServer"
            raise field_error("source", _FORMS, advice, got=type(given).__name__)
        whole = Fields(given)
        keys = set(whole.values)
        if "packages" in keys or "remotes" in keys or isinstance(given.get("server"), Mapping):
            return self._from_manifest(parse_server_json(given), more)
        if keys & {"name", "source_type"} or any(key.startswith("mcp_") for key in keys):
            return self._from_form(Fields({**given, **more}))
        if keys & set(_DOCUMENT_KEYS):
            return self._from_document(whole, more)
        if keys & set(_ENTRY_KEYS):
            return self._from_entry(self._required_name(None), given, more)
        known = (*FORM_FIELDS, *_DOCUMENT_KEYS, *_ENTRY_KEYS, "packages", "remotes")
        hint = next(filter(None, (suggest(key, known) for key in keys if len(key) < 100)), "").removeprefix("; ")
        raise field_error("source", _FORMS, hint[:1].upper() + hint[1:], got="other fields")

    def _from_form(self, form: Fields) -> Registration:
        form.refuse_unknown((*FORM_FIELDS, *EXTENSION_FIELDS, *OPTION_FIELDS, "cwd"))
        if form.values.get("source_type") != "mcp":
            raise form.wrong("source_type", "'mcp'")
        name = self._required_name(form.text("name", "") if self.name is None else self.name)
        ways = [key for key in ("mcp_plugin_dir", "mcp_server_url") if form.has(key)]
        if len(ways) > 1:
            expected = "either mcp_plugin_dir or mcp_server_url"
            raise form.error("mcp_server_url", expected, "Remove one of them", got="both")
        if form.has("mcp_server_url"):
            return self._finish(name, self._remote_draft(form), form)
        if form.has("mcp_plugin_dir"):
            manifest = read_manifest(form.values["mcp_plugin_dir"], plugin_root=self.plugin_root)
            return self._finish(name, self._manifest_draft(manifest, form, LifecycleMode.TRANSIENT), form)
        if form.has("mcp_command"):
            return self._finish(name, self._command_draft(form), form)
        expected = "mcp_plugin_dir (a plugin folder), mcp_server_url (a remote server) or mcp_command"
        raise form.error("mcp_plugin_dir", expected, got="none of them")

    def _from_manifest(self, manifest: Manifest, more: dict[str, Any]) -> Registration:
        form = Fields(more)
        form.refuse_unknown(
            (
                *("mcp_transport_type", "mcp_runtime_hint", "mcp_lifecycle_mode", "mcp_env_vars", "mcp_command"),
                *("mcp_args", "url", *EXTENSION_FIELDS, *OPTION_FIELDS),
            )
        )
        name = self._required_name(self.name or manifest.name)
        return self._finish(name, self._manifest_draft(manifest, form, LifecycleMode.SINGLETON), form)

    def _from_document(self, whole: Fields, more: dict[str, Any]) -> Registration:
        key = next(key for key in _DOCUMENT_KEYS if key in whole.values)
        servers = whole.object(key)
        if len(servers.values) != 1:
            advice = "Register the others one by one"
            raise whole.error(key, "exactly one server", advice, got=f"{len(servers.values)} servers")
        display_name, entry = next(iter(servers.values.items()))
        return self._from_entry(self._required_name(self.name or display_name), entry, more)

    def _from_entry(self, name: str, given: Any, more: dict[str, Any]) -> Registration:
        entry = Fields(given, "mcpServers entry").values
        mine = {key: value for key, value in entry.items() if key in EXTENSION_FIELDS}
        rest = {key: value for key, value in entry.items() if key not in EXTENSION_FIELDS}
        settings = parse_settings({"mcpServers": {name: rest}}, format="claude-code", environ=self.environ)
        found: ServerEntry = settings.entries[0]
        if found.error is not None or found.config is None:
            raise found.error or field_error(name, "a valid entry")
        for key, is_set in (
            ("disabled", found.disabled),
            ("allowed_tools", found.allowed_tools is not None),
            ("blocked_tools", bool(found.blocked_tools)),
        ):
            if is_set:
                advice = "Remove it from the entry, and disable the source or its tools after the registration"
                raise field_error(key, "no value in a registration", advice)
        return self._from_server(_refuse_python(found.config), name, Fields({**mine, **more}), list(settings.warnings))

    def _from_server(self, server: _StoredServer, name: str, form: Fields, warnings: list[str]) -> Registration:
        form.refuse_unknown(("mcp_lifecycle_mode", "mcp_env_vars", "url", *EXTENSION_FIELDS, *OPTION_FIELDS))
        if getattr(server, "oauth", None) is not None:
            # Its secret would be stored in plain text, and a service must not open a browser.
            raise field_error("oauth", "no value in a registration", "Set the header Authorization", got="options")
        if server.tool_filter is not None:
            raise field_error("tool_filter", "no function", "Functions cannot be stored; use groups", got="a function")
        lifecycle = form.choice("mcp_lifecycle_mode", LifecycleMode, LifecycleMode(server.lifecycle))
        if isinstance(server, StdioServer):
            words = [server.command, *server.args]
            command = build_command("", words, allow_docker_flags=self.allow_docker_flags, key="args")
            draft = SourceDraft(SourceTransport.STDIO, lifecycle, command, dict(server.env or {}), cwd=server.cwd)
        else:
            transport = SourceTransport.SSE if isinstance(server, SseServer) else SourceTransport.STREAMABLE_HTTP
            headers = {}
            for header, value in (server.headers or {}).items():
                if not isinstance(value, str):
                    advice = "Functions cannot be stored; declare the header as personal, or give its value"
                    raise field_error(f"headers.{header}", "a string", advice, got="a function")
                headers[header] = value
            draft = SourceDraft(transport, lifecycle, environment=headers)
            draft.set_url(server.url, "url")
        given = server.to_dict()
        draft.options = {key: value for key, value in given.items() if key not in (*CONNECTION_FIELDS, "type")}
        draft.warnings += warnings
        return self._finish(name, draft, form)

    # ---- drafts

    def _remote_draft(self, form: Fields) -> SourceDraft:
        for key in ("mcp_command", "mcp_args", "mcp_runtime_hint", "cwd"):
            if form.has(key):
                raise form.error(key, "no value for a remote source", f"Remove {key} or mcp_server_url", got="one")
        transport = form.choice("mcp_transport_type", SourceTransport, SourceTransport.STREAMABLE_HTTP)
        if transport is SourceTransport.STDIO:
            advice = "Remove it, or use mcp_plugin_dir for a local plugin"
            raise form.error("mcp_transport_type", "streamable_http (or sse) with mcp_server_url", advice, got="stdio")
        # Connections to remote servers are kept unless the form says otherwise: the modes are those of plugins.
        lifecycle = form.choice("mcp_lifecycle_mode", LifecycleMode, LifecycleMode.SINGLETON)
        draft = SourceDraft(transport, lifecycle)
        draft.set_url(form.values["mcp_server_url"], "mcp_server_url")
        return draft

    def _command_draft(self, form: Fields) -> SourceDraft:
        transport = form.choice("mcp_transport_type", SourceTransport, SourceTransport.STDIO)
        lifecycle = form.choice("mcp_lifecycle_mode", LifecycleMode, LifecycleMode.TRANSIENT)
        runtime = self._runtime_hint(form)
        draft = SourceDraft(transport, lifecycle, self._own_command(form, runtime), runtime=runtime)
        draft.cwd = form.optional_text("cwd")
        return draft

    def _manifest_draft(self, manifest: Manifest, form: Fields, default: LifecycleMode) -> SourceDraft:
        if form.has("cwd"):
            raise form.error("cwd", "no value: a plugin runs in its folder", "Remove it", got="one")
        wanted = form.choice("mcp_transport_type", SourceTransport, SourceTransport.STDIO)
        requested = wanted if form.has("mcp_transport_type") else None
        entry = select_entry(manifest, requested)
        draft = SourceDraft(
            requested or entry.transport, form.choice("mcp_lifecycle_mode", LifecycleMode, default), manifest=manifest
        )
        draft.warnings += manifest.warnings
        inputs = self._inputs(form, entry)
        missing: list[str] = []
        if entry.is_remote:
            self._use_remote(entry, form, inputs, missing, draft)
        else:
            self._use_package(entry, form, inputs, missing, draft)
        if missing:
            expected = f"values for {', '.join(dict.fromkeys(missing))}"
            raise field_error("inputs", expected, "The manifest requires them", got="none")
        draft.define(entry.variables, inputs)
        if requested is not None and requested is not entry.transport:
            draft.warnings.append(f"mcp_transport_type: {requested} differs from {entry.transport} of the manifest")
        return draft

    def _use_remote(
        self, entry: ManifestEntry, form: Fields, inputs: Mapping[str, str], missing: list[str], draft: SourceDraft
    ) -> None:
        for key in ("mcp_command", "mcp_args", "mcp_runtime_hint"):
            if form.has(key):
                raise form.error(key, "no value for a remote source", f"Remove {key}", got="one")
        url, _ = resolve_input(entry.url or ManifestInput("url", "url"), inputs, missing)
        if missing:
            return
        draft.set_url(url, f"{entry.key}.url")
        draft.hidden_values += [
            inputs[each.name]
            for each in (entry.url.variables if entry.url else ())
            if each.secret and each.name in inputs
        ]

    def _use_package(
        self, entry: ManifestEntry, form: Fields, inputs: Mapping[str, str], missing: list[str], draft: SourceDraft
    ) -> None:
        folder = draft.manifest.folder if draft.manifest is not None else None
        draft.cwd = None if folder is None else str(folder)
        if entry.url is not None and entry.url.value is not None:
            draft.server_url = re.sub(r"(?<!\$)\{port\}", "${PORT}", entry.url.value, flags=re.IGNORECASE)
            if "${PORT}" not in draft.server_url:
                draft.warnings.append(
                    f"{entry.url.key}: the port is not used; the plugin must listen on the one in PORT"
                )
        hint = self._runtime_hint(form)
        if form.has("mcp_command"):
            draft.command, draft.runtime = self._own_command(form, hint), hint
            return
        if hint and entry.package is not None and hint not in REGISTRY_RUNTIMES[entry.package.registry]:
            raise form.one_of("mcp_runtime_hint", REGISTRY_RUNTIMES[entry.package.registry])
        words = list(entry.command)
        if len(words) > 1 and words[0] == entry.runtime:  # the hint must not get the other runtime as a package
            words = words[1:]
        draft.runtime = hint or entry.runtime
        draft.package = entry.package
        runtime_arguments = list(self._arguments(entry.runtime_arguments, inputs, missing, draft))
        words += self._arguments(entry.arguments, inputs, missing, draft)
        draft.command = build_command(
            draft.runtime,
            [*words, *self._own_arguments(form)],
            runtime_arguments=runtime_arguments,
            version=entry.package.version if entry.package is not None else None,
            allow_docker_flags=self.allow_docker_flags,
            key=f"{entry.key}.{'runtimeArguments' if runtime_arguments else 'command'}",
        )

    def _own_command(self, form: Fields, runtime: str) -> tuple[str, ...]:
        """Return `mcp_command` with `mcp_args`: a complete command line, or words for an explicit runtime hint."""
        words = split_command(form.values["mcp_command"])
        return build_command(runtime, [*words, *self._own_arguments(form)], allow_docker_flags=self.allow_docker_flags)

    def _own_arguments(self, form: Fields) -> tuple[str, ...]:
        return form.texts("mcp_args", expected="a list of strings, one for each argument")

    def _runtime_hint(self, form: Fields) -> str:
        hint = form.text("mcp_runtime_hint", "")
        if hint and hint not in RUNTIMES:
            raise form.one_of("mcp_runtime_hint", RUNTIMES)
        return hint

    def _inputs(self, form: Fields, entry: ManifestEntry) -> dict[str, str]:
        given = form.object("inputs")
        names = list(dict.fromkeys(input_names(entry)))
        if given.values:
            given.refuse_unknown(names, "" if names else "The manifest has no inputs.")
        return {name: given.text(name) for name in given.values}

    def _arguments(
        self, arguments: tuple[ManifestInput, ...], inputs: Mapping[str, str], missing: list[str], draft: SourceDraft
    ) -> Iterator[str]:
        for each in arguments:
            if each.is_switch:
                if each.required or each.name in inputs:
                    yield each.flag
                continue
            value, is_secret = resolve_input(each, inputs, missing)
            if value is None:
                continue
            if is_secret and value:
                draft.hidden_values.append(value)
            yield from [each.flag, value] if each.flag else [value]

    def _finish(self, name: str, draft: SourceDraft, form: Fields) -> Registration:
        config, secrets = draft.make_config(form, allow_private=self.allow_private)
        return Registration(name, config, secrets)

    def _required_name(self, given: str | None) -> str:
        name = self.name if given is None else given
        if name is None or not name:
            raise field_error("name", "the name of the source", got="none")
        if not is_text(name) or not name.strip() or len(name) > MAX_NAME_LENGTH or not name.isprintable():
            raise field_error("name", f"at most {MAX_NAME_LENGTH} printable characters on one line")
        return name.strip()


def _refuse_python(server: ServerConfig) -> _StoredServer:
    if isinstance(server, PythonServer):
        advice = "Start it as a process: StdioServer('toolcrib', ['run', FILE])"
        raise field_error("source", "a server that runs as a process or at a URL", advice, got="a PythonServer")
    return server
