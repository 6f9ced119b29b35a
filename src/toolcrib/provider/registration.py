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
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final
from urllib.parse import urlsplit

from .._util.net import is_loopback
from .._util.suggest import suggest
from ..config import (
    CHECKS,
    HttpServer,
    PythonServer,
    ServerConfig,
    SseServer,
    StdioServer,
    check_header,
    mask_urls,
    server_from_dict,
    with_own_names,
)
from ..settings import ServerEntry, parse_settings
from .commands import (
    RUNTIMES,
    add_docker_variables,
    advise,
    build_command,
    find_package,
    program_name,
    split_command,
)
from .fields import Fields, field_error, is_text
from .manifest import (
    REGISTRY_RUNTIMES,
    Manifest,
    ManifestEntry,
    ManifestInput,
    ManifestVariable,
    input_names,
    is_header_name,
    is_variable_name,
    parse_server_json,
    read_manifest,
    resolve_input,
    select_entry,
)
from .secret_hiding import hide_options, hide_url, hide_words, is_ordinary_value, is_secret_value
from .source_config import (
    EnvironmentVariable,
    LifecycleMode,
    PackageInfo,
    ReviewPolicy,
    SourceConfig,
    SourceTransport,
)
from .stored_config import (
    approval_hash,
    config_from_json,
    config_to_json,
    env_reference,
    make_placeholder,
    restore_secrets,
)

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

_CONNECTION_FIELDS: Final = frozenset({"command", "args", "env", "cwd", "url", "headers", "tool_filter", "lifecycle"})
_STDIO_OPTIONS: Final = tuple(f.name for f in fields(StdioServer) if f.name not in _CONNECTION_FIELDS)
_WEB_OPTIONS: Final = tuple(f.name for f in fields(HttpServer) if f.name not in _CONNECTION_FIELDS)
OPTION_FIELDS: Final = tuple(dict.fromkeys((*_STDIO_OPTIONS, *_WEB_OPTIONS, "max_retries")))
"""Options of the server config, such as `connect_timeout`."""

_EMPTY_SERVERS: Final[Mapping[SourceTransport, Mapping[str, str]]] = {
    SourceTransport.STDIO: {"type": "stdio", "command": "x"},
    SourceTransport.SSE: {"type": "sse", "url": "http://x"},
    SourceTransport.STREAMABLE_HTTP: {"type": "http", "url": "http://x"},
}
"""The least config of each transport, to check options with."""
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


@dataclass(slots=True)
class _Draft:
    """A config while it is put together, with its secrets."""

    transport: SourceTransport
    lifecycle: LifecycleMode
    command: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    definitions: list[EnvironmentVariable] = field(default_factory=list)
    public: set[str] = field(default_factory=set)
    """Names of variables of which the manifest says that they are not secret."""
    hidden: set[str] = field(default_factory=set)
    """Names of variables whose values come from secret inputs."""
    hidden_values: list[str] = field(default_factory=list)
    """Secret inputs that are part of the command or the URL."""
    choices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The only values that the manifest allows, by name."""
    server_url: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    runtime: str = ""
    cwd: str | None = None
    manifest: Manifest | None = None
    package: PackageInfo | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def is_remote(self) -> bool:
        return not self.command


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
        if server.tool_filter is not None:
            raise field_error("tool_filter", "no function", "Functions cannot be stored; use groups", got="a function")
        lifecycle = form.choice("mcp_lifecycle_mode", LifecycleMode, LifecycleMode(server.lifecycle))
        if isinstance(server, StdioServer):
            words = [server.command, *server.args]
            command = build_command("", words, allow_docker_flags=self.allow_docker_flags, key="args")
            draft = _Draft(SourceTransport.STDIO, lifecycle, command, dict(server.env or {}), cwd=server.cwd)
        else:
            transport = SourceTransport.SSE if isinstance(server, SseServer) else SourceTransport.STREAMABLE_HTTP
            headers = {}
            for header, value in (server.headers or {}).items():
                if not isinstance(value, str):
                    advice = "Functions cannot be stored; declare the header as personal, or give its value"
                    raise field_error(f"headers.{header}", "a string", advice, got="a function")
                headers[header] = value
            draft = _Draft(transport, lifecycle, environment=headers, server_url=server.url)
            self._check_url(server.url, "url", draft)
        given = server.to_dict()
        draft.options = {key: value for key, value in given.items() if key not in (*_CONNECTION_FIELDS, "type")}
        draft.warnings += warnings
        return self._finish(name, draft, form)

    # ---- drafts

    def _remote_draft(self, form: Fields) -> _Draft:
        for key in ("mcp_command", "mcp_args", "mcp_runtime_hint", "cwd"):
            if form.has(key):
                raise form.error(key, "no value for a remote source", f"Remove {key} or mcp_server_url", got="one")
        transport = form.choice("mcp_transport_type", SourceTransport, SourceTransport.STREAMABLE_HTTP)
        if transport is SourceTransport.STDIO:
            advice = "Remove it, or use mcp_plugin_dir for a local plugin"
            raise form.error("mcp_transport_type", "streamable_http (or sse) with mcp_server_url", advice, got="stdio")
        # Connections to remote servers are kept unless the form says otherwise: the modes are those of plugins.
        lifecycle = form.choice("mcp_lifecycle_mode", LifecycleMode, LifecycleMode.SINGLETON)
        draft = _Draft(transport, lifecycle, server_url=form.values["mcp_server_url"])
        self._check_url(draft.server_url, "mcp_server_url", draft)
        return draft

    def _command_draft(self, form: Fields) -> _Draft:
        transport = form.choice("mcp_transport_type", SourceTransport, SourceTransport.STDIO)
        lifecycle = form.choice("mcp_lifecycle_mode", LifecycleMode, LifecycleMode.TRANSIENT)
        runtime = self._runtime_hint(form)
        draft = _Draft(transport, lifecycle, self._own_command(form, runtime), runtime=runtime)
        draft.cwd = form.optional_text("cwd")
        return draft

    def _manifest_draft(self, manifest: Manifest, form: Fields, default: LifecycleMode) -> _Draft:
        if form.has("cwd"):
            raise form.error("cwd", "no value: a plugin runs in its folder", "Remove it", got="one")
        wanted = form.choice("mcp_transport_type", SourceTransport, SourceTransport.STDIO)
        requested = wanted if form.has("mcp_transport_type") else None
        entry = select_entry(manifest, requested)
        draft = _Draft(
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
        self._define(entry.variables, inputs, draft)
        if requested is not None and requested is not entry.transport:
            draft.warnings.append(f"mcp_transport_type: {requested} differs from {entry.transport} of the manifest")
        return draft

    def _use_remote(
        self, entry: ManifestEntry, form: Fields, inputs: Mapping[str, str], missing: list[str], draft: _Draft
    ) -> None:
        for key in ("mcp_command", "mcp_args", "mcp_runtime_hint"):
            if form.has(key):
                raise form.error(key, "no value for a remote source", f"Remove {key}", got="one")
        url, _ = resolve_input(entry.url or ManifestInput("url", "url"), inputs, missing)
        if missing:
            return
        draft.server_url = url
        draft.hidden_values += [
            inputs[each.name]
            for each in (entry.url.variables if entry.url else ())
            if each.secret and each.name in inputs
        ]
        self._check_url(url, f"{entry.key}.url", draft)

    def _use_package(
        self, entry: ManifestEntry, form: Fields, inputs: Mapping[str, str], missing: list[str], draft: _Draft
    ) -> None:
        folder = draft.manifest.folder if draft.manifest is not None else None
        draft.cwd = None if folder is None else str(folder)
        if entry.url is not None and entry.url.value is not None:
            draft.server_url = re.sub(r"(?<!\$)\{port\}", "${PORT}", entry.url.value, flags=re.IGNORECASE)
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
        self, arguments: tuple[ManifestInput, ...], inputs: Mapping[str, str], missing: list[str], draft: _Draft
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

    def _define(self, variables: tuple[ManifestVariable, ...], inputs: Mapping[str, str], draft: _Draft) -> None:
        for each in variables:
            definition = each.definition
            if each.template is not None:
                missing: list[str] = []
                value, is_secret = resolve_input(each.template, inputs, missing)
                if missing:  # the operator may give the whole value, and a principal may have its own
                    definition = replace(definition, required=True)
                elif value is not None:
                    draft.environment[definition.name] = value
                    if is_secret:
                        draft.hidden.add(_key(definition.name, draft))
            elif definition.default is not None and (
                definition.secret or is_secret_value(definition.name, definition.default)
            ):
                draft.environment[definition.name] = definition.default
                definition = replace(definition, default=None)
            if each.is_public:
                draft.public.add(_key(definition.name, draft))
            if each.choices:
                draft.choices[_key(definition.name, draft)] = each.choices
            draft.definitions.append(definition)

    # ---- the parts that all forms share

    def _finish(self, name: str, draft: _Draft, form: Fields) -> Registration:
        self._add_environment(draft, form)
        personal = self._personal(draft, form)
        pass_environment = form.texts("pass_environment", expected="a list of names of variables")
        for at, each in enumerate(pass_environment):
            if not (is_header_name(each) if draft.is_remote else is_variable_name(each)):
                raise form.error(f"pass_environment[{at}]", "the name of a variable, without a value")
        if draft.manifest is None and form.has("inputs"):
            raise form.error("inputs", "no value without a manifest", "Remove it", got="one")
        draft.options |= self._options(draft, form)
        if draft.command:
            names = {*draft.environment, *pass_environment, *(each.name for each in draft.definitions), *personal}
            draft.command = add_docker_variables(draft.command, names)
            if not draft.runtime and program_name(draft.command[0]) in RUNTIMES:
                draft.runtime = program_name(draft.command[0])
        secrets: dict[str, str] = {}
        command = hide_words(draft.command, draft.hidden_values, secrets)
        draft.warnings += advise(command)
        file = draft.manifest.file if draft.manifest is not None else None
        folder = draft.manifest.folder if draft.manifest is not None else None
        config = SourceConfig(
            manifest_path="" if file is None else str(file),
            plugin_dir="" if folder is None else str(folder),
            transport_type=draft.transport,
            lifecycle_mode=draft.lifecycle,
            runtime_hint=draft.runtime,
            command=command,
            environment=self._hide_environment(draft, secrets),
            env_definitions=tuple(draft.definitions),
            server_url=None if draft.server_url is None else hide_url(draft.server_url, draft.hidden_values, secrets),
            url=mask_urls(form.text("url", "")),
            cwd=None if draft.cwd is None else str(draft.cwd),
            pass_environment=pass_environment,
            options=hide_options(draft.options, secrets),
            stateless=form.flag("stateless"),
            per_session=form.flag("per_session"),
            review=form.choice("review", ReviewPolicy, ReviewPolicy.FOLLOW),
            validate_arguments=form.flag("validate_arguments"),
            health_interval=form.seconds("health_interval", None),
            refresh_interval=form.seconds("refresh_interval", 3600.0),
            idle_seconds=form.seconds("idle_seconds", 300.0, nullable=False) or 300.0,
            allow_private=self.allow_private,
            package=draft.package or find_package(command),
            warnings=tuple(dict.fromkeys(draft.warnings)),
        )
        return Registration(name, config, secrets)

    def _hide_environment(self, draft: _Draft, secrets: dict[str, str]) -> dict[str, str]:
        stated = draft.hidden | {_key(each.name, draft) for each in draft.definitions if each.secret}
        hidden = {}
        for name, value in draft.environment.items():
            key = _key(name, draft)
            # A manifest that calls a token public does not make it so.
            is_plain = key not in stated and not is_secret_value(name, value)
            if is_plain and (key in draft.public or (not draft.is_remote and is_ordinary_value(name, value))):
                hidden[name] = str(value)
            else:
                hidden[name] = make_placeholder(env_reference(name))
                secrets[env_reference(name)] = str(value)
        return hidden

    def _required_name(self, given: str | None) -> str:
        name = self.name if given is None else given
        if name is None or not name:
            raise field_error("name", "the name of the source", got="none")
        if not is_text(name) or not name.strip() or len(name) > MAX_NAME_LENGTH or not name.isprintable():
            raise field_error("name", f"at most {MAX_NAME_LENGTH} printable characters on one line")
        return name.strip()

    def _check_url(self, url: Any, key: str, draft: _Draft) -> None:
        CHECKS["url"](key, url)
        if "#" in url:
            raise field_error(key, "a URL without a fragment", "Remove # and what follows it")
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme == "http" and not is_loopback(host):
            advice = "others on the network can read headers and calls; use https"
            draft.warnings.append(f"{key}: plain http to {host}; {advice}")

    def _add_environment(self, draft: _Draft, form: Fields) -> None:
        """Add `mcp_env_vars` to the environment: variables of the process or, for a remote source, headers."""
        given = form.object("mcp_env_vars")
        spelled = {_key(name, draft): name for name in draft.environment}
        seen: set[str] = set()
        for name, value in given.values.items():
            if not (is_header_name(name) if draft.is_remote else is_variable_name(name)):
                what = "names of headers" if draft.is_remote else "names of variables, without = and blanks"
                raise form.error("mcp_env_vars", what, got="another name")
            key = given.key(name)
            if not is_text(value):
                raise given.wrong(name, "a string (put numbers and booleans in quotes)")
            if draft.is_remote:
                check_header(key, value)
            if _key(name, draft) in seen:
                raise given.error(name, "each header once", got="it twice")
            seen.add(_key(name, draft))
            allowed = draft.choices.get(_key(name, draft), ())
            if allowed and value not in allowed:
                raise given.error(name, f"one of {', '.join(allowed)}", got="another value")
            earlier = spelled.get(_key(name, draft))
            if earlier is not None:
                draft.environment.pop(earlier, None)
            draft.environment[name] = value

    def _personal(self, draft: _Draft, form: Fields) -> tuple[str, ...]:
        """Mark the definitions of personal slots; slots without a definition get one."""
        slots = form.texts("personal", expected="a list of names of variables or headers")
        shared = {_key(name, draft) for name in draft.environment}
        given = {_key(name, draft) for name in form.object("mcp_env_vars").values}
        defined = {_key(each.name, draft): at for at, each in enumerate(draft.definitions)}
        for at, name in enumerate(slots):
            if not (is_header_name(name) if draft.is_remote else is_variable_name(name)):
                raise form.error(f"personal[{at}]", "the name of a variable or header, without a value")
            key = _key(name, draft)
            if key in given or (key in shared and key not in defined):
                advice = "Remove the shared value: each principal stores its own"
                raise form.error(f"personal[{at}]", "a slot without a shared value", advice, got=f"{name} with one")
            for each in [each for each in draft.environment if _key(each, draft) == key]:
                del draft.environment[each]  # a default of the manifest
            place = defined.get(key)
            if place is None:
                defined[key] = len(draft.definitions)
                draft.definitions.append(EnvironmentVariable(name, required=True, secret=True, personal=True))
            else:
                draft.definitions[place] = replace(
                    draft.definitions[place], required=True, secret=True, personal=True, default=None
                )
        return slots

    def _options(self, draft: _Draft, form: Fields) -> dict[str, Any]:
        """Return the server options of the form as JSON values."""
        given = with_own_names({key: value for key, value in form.values.items() if key in OPTION_FIELDS})
        if not given:
            return {}
        made = server_from_dict({**_EMPTY_SERVERS[draft.transport], **given}).to_dict()
        return {key: value for key, value in made.items() if key not in (*_CONNECTION_FIELDS, "type")}


def _refuse_python(server: ServerConfig) -> _StoredServer:
    if isinstance(server, PythonServer):
        advice = "Start it as a process: StdioServer('toolcrib', ['run', FILE])"
        raise field_error("source", "a server that runs as a process or at a URL", advice, got="a PythonServer")
    return server


def _key(name: str, draft: _Draft) -> str:
    """Return the name by which variables are compared; headers ignore case."""
    return name.lower() if draft.is_remote else name
