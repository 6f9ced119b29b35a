"""A source config while it is put together: the fields that all forms of registration share, and the secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final
from urllib.parse import urlsplit

from .._util.net import is_loopback
from ..config import (
    CHECKS,
    HttpServer,
    StdioServer,
    check_header,
    mask_urls,
    server_from_dict,
    with_own_names,
)
from ..transports.spawned_http import SpawnedHttpServer
from .commands import RUNTIMES, add_docker_variables, advise, find_package, program_name
from .fields import Fields, field_error, is_text
from .manifest_values import Manifest, ManifestVariable, is_header_name, is_variable_name, resolve_input
from .secret_hiding import hide_options, hide_url, hide_words, is_ordinary_value, is_secret_value
from .source_config import EnvironmentVariable, LifecycleMode, PackageInfo, ReviewPolicy, SourceConfig, SourceTransport
from .stored_config import env_reference, make_placeholder

CONNECTION_FIELDS: Final = frozenset(
    {"command", "args", "env", "cwd", "url", "headers", "transport", "path", "tool_filter", "lifecycle"}
)
"""The fields of server configs that are not options."""
_STDIO_OPTIONS: Final = tuple(f.name for f in fields(StdioServer) if f.name not in CONNECTION_FIELDS)
_WEB_OPTIONS: Final = tuple(f.name for f in fields(HttpServer) if f.name not in {*CONNECTION_FIELDS, "oauth"})
OPTION_FIELDS: Final = tuple(dict.fromkeys((*_STDIO_OPTIONS, *_WEB_OPTIONS, "max_retries")))
"""Options of the server config, such as `connect_timeout`."""

_EMPTY_SERVERS: Final[Mapping[SourceTransport, Mapping[str, str]]] = {
    SourceTransport.STDIO: {"type": "stdio", "command": "x"},
    SourceTransport.SSE: {"type": "sse", "url": "http://x"},
    SourceTransport.STREAMABLE_HTTP: {"type": "http", "url": "http://x"},
}
"""The least config of each transport, to check options with."""


@dataclass(slots=True, repr=False)
class SourceDraft:
    """A config while it is put together. It contains the secrets, so it has no repr."""

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
        """Whether the server runs already; its environment consists of headers."""
        return not self.command

    def _key(self, name: str) -> str:
        """Return the name by which variables are compared; headers ignore case."""
        return name.lower() if self.is_remote else name

    def define(self, variables: tuple[ManifestVariable, ...], inputs: Mapping[str, str]) -> None:
        """Add the definitions of a manifest, and the values that it gives."""
        for each in variables:
            definition = each.definition
            if each.template is not None:
                missing: list[str] = []
                value, is_secret = resolve_input(each.template, inputs, missing)
                if missing:  # the operator may give the whole value, and a principal may have its own
                    definition = replace(definition, required=True)
                elif value is not None:
                    self.environment[definition.name] = value
                    if is_secret:
                        self.hidden.add(self._key(definition.name))
            elif definition.default is not None and (
                definition.secret or is_secret_value(definition.name, definition.default)
            ):
                self.environment[definition.name] = definition.default
                definition = replace(definition, default=None)
            if each.is_public:
                self.public.add(self._key(definition.name))
            if each.choices:
                self.choices[self._key(definition.name)] = each.choices
            self.definitions.append(definition)

    def set_url(self, url: Any, key: str) -> None:
        """Set the URL of a remote server: http or https, without a fragment; `key` names the field in errors."""
        CHECKS["url"](key, url)
        if "#" in url:
            raise field_error(key, "a URL without a fragment", "Remove # and what follows it")
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme == "http" and not is_loopback(host):
            advice = "others on the network can read headers and calls; use https"
            self.warnings.append(f"{key}: plain http to {host}; {advice}")
        self.server_url = url

    def make_config(self, form: Fields, *, allow_private: bool) -> tuple[SourceConfig, dict[str, str]]:
        """Return the config with placeholders for secrets, and the secrets, after adding the fields of the form."""
        self._add_environment(form)
        personal = self._personal(form)
        pass_environment = form.texts("pass_environment", expected="a list of names of variables")
        for at, each in enumerate(pass_environment):
            if not (is_header_name(each) if self.is_remote else is_variable_name(each)):
                raise form.error(f"pass_environment[{at}]", "the name of a variable, without a value")
        if self.manifest is None and form.has("inputs"):
            raise form.error("inputs", "no value without a manifest", "Remove it", got="one")
        self.options |= self._options(form)
        if self.command:
            names = {*self.environment, *pass_environment, *(each.name for each in self.definitions), *personal}
            self.command = add_docker_variables(self.command, names)
            if not self.runtime and program_name(self.command[0]) in RUNTIMES:
                self.runtime = program_name(self.command[0])
        secrets: dict[str, str] = {}
        command = hide_words(self.command, self.hidden_values, secrets)
        self.warnings += advise(command)
        file = self.manifest.file if self.manifest is not None else None
        folder = self.manifest.folder if self.manifest is not None else None
        config = SourceConfig(
            manifest_path="" if file is None else str(file),
            plugin_dir="" if folder is None else str(folder),
            transport_type=self.transport,
            lifecycle_mode=self.lifecycle,
            runtime_hint=self.runtime,
            command=command,
            environment=self._hide_environment(secrets),
            env_definitions=tuple(self.definitions),
            server_url=None if self.server_url is None else hide_url(self.server_url, self.hidden_values, secrets),
            url=mask_urls(form.text("url", "")),
            cwd=None if self.cwd is None else str(self.cwd),
            pass_environment=pass_environment,
            options=hide_options(self.options, secrets),
            stateless=form.flag("stateless"),
            per_session=form.flag("per_session"),
            review=form.choice("review", ReviewPolicy, ReviewPolicy.FOLLOW),
            validate_arguments=form.flag("validate_arguments"),
            health_interval=form.seconds("health_interval", None),
            refresh_interval=form.seconds("refresh_interval", 3600.0),
            idle_seconds=form.seconds("idle_seconds", 300.0, nullable=False) or 300.0,
            allow_private=allow_private,
            package=self.package or find_package(command),
            warnings=tuple(dict.fromkeys(self.warnings)),
        )
        return config, secrets

    def _hide_environment(self, secrets: dict[str, str]) -> dict[str, str]:
        stated = self.hidden | {self._key(each.name) for each in self.definitions if each.secret}
        hidden = {}
        for name, value in self.environment.items():
            key = self._key(name)
            # A manifest that calls a token public does not make it so.
            is_plain = key not in stated and not is_secret_value(name, value)
            if is_plain and (key in self.public or (not self.is_remote and is_ordinary_value(name, value))):
                hidden[name] = str(value)
            else:
                hidden[name] = make_placeholder(env_reference(name))
                secrets[env_reference(name)] = str(value)
        return hidden

    def _add_environment(self, form: Fields) -> None:
        """Add `mcp_env_vars` to the environment: variables of the process or, for a remote source, headers."""
        given = form.object("mcp_env_vars")
        spelled = {self._key(name): name for name in self.environment}
        seen: set[str] = set()
        for name, value in given.values.items():
            if not (is_header_name(name) if self.is_remote else is_variable_name(name)):
                what = "names of headers" if self.is_remote else "names of variables, without = and blanks"
                raise form.error("mcp_env_vars", what, got="another name")
            key = given.key(name)
            if not is_text(value):
                raise given.wrong(name, "a string (put numbers and booleans in quotes)")
            if self.is_remote:
                check_header(key, value)
            if self._key(name) in seen:
                raise given.error(name, "each header once", got="it twice")
            seen.add(self._key(name))
            allowed = self.choices.get(self._key(name), ())
            if allowed and value not in allowed:
                raise given.error(name, f"one of {', '.join(allowed)}", got="another value")
            earlier = spelled.get(self._key(name))
            if earlier is not None:
                self.environment.pop(earlier, None)
            self.environment[name] = value

    def _personal(self, form: Fields) -> tuple[str, ...]:
        """Mark the definitions of personal slots; slots without a definition get one."""
        slots = form.texts("personal", expected="a list of names of variables or headers")
        shared = {self._key(name) for name in self.environment}
        given = {self._key(name) for name in form.object("mcp_env_vars").values}
        defined = {self._key(each.name): at for at, each in enumerate(self.definitions)}
        for at, name in enumerate(slots):
            if not (is_header_name(name) if self.is_remote else is_variable_name(name)):
                raise form.error(f"personal[{at}]", "the name of a variable or header, without a value")
            key = self._key(name)
            if key in given or (key in shared and key not in defined):
                advice = "Remove the shared value: each principal stores its own"
                raise form.error(f"personal[{at}]", "a slot without a shared value", advice, got=f"{name} with one")
            for each in [each for each in self.environment if self._key(each) == key]:
                del self.environment[each]  # a default of the manifest
            place = defined.get(key)
            if place is None:
                defined[key] = len(self.definitions)
                self.definitions.append(EnvironmentVariable(name, required=True, secret=True, personal=True))
            else:
                self.definitions[place] = replace(
                    self.definitions[place], required=True, secret=True, personal=True, default=None
                )
        return slots

    def _options(self, form: Fields) -> dict[str, Any]:
        """Return the server options of the form as JSON values."""
        given = with_own_names({key: value for key, value in form.values.items() if key in OPTION_FIELDS})
        if not given:
            return {}
        if self.command and self.transport is not SourceTransport.STDIO:
            made = SpawnedHttpServer.from_dict({"command": ["x"], **given}).to_dict()
        else:
            made = server_from_dict({**_EMPTY_SERVERS[self.transport], **given}).to_dict()
        return {key: value for key, value in made.items() if key not in (*CONNECTION_FIELDS, "type")}
