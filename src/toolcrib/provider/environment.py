"""Resolves the variables or headers of a source, and makes the server config of a connection. Pure functions.

The first of these that has a value for a name decides: the call, the credential of the principal (personal slots only),
the stored secrets, the source's config, the default of the definition, the environment of this process (only the names
in `pass_environment`). Personal slots have only the first two.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from ..config import HttpServer, SseServer, StdioServer
from ..errors import ConfigError, MissingCredential, MissingVariables
from ..transports.spawned_http import SpawnedHttpServer
from .commands import add_docker_variables, find_python
from .source_config import SourceConfig, SourceTransport
from .stored_config import contains_placeholders, env_reference, restore_text


def resolve_environment(
    config: SourceConfig,
    *,
    call: Mapping[str, str] | None = None,
    credential: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
    process: Mapping[str, str] = os.environ,
    server: str | None = None,
) -> dict[str, str]:
    """Return the variables for the process of a source or, for a remote source, the headers.

    Raises `MissingVariables` with all required names that have no value, or `MissingCredential` with all personal slots
    that have none. An empty value counts as missing.

    Args:
        config: The config, with or without its secrets restored.
        call: Values for one call.
        credential: The principal's own values of personal slots.
        secrets: The stored secrets by reference.
        process: The environment of this process.
        server: The name of the source, for errors.
    """
    names = _Names(ignore_case=config.is_remote)
    personal = names.keys(config.personal_slots)
    found = names.collect(_shared_values(config, secrets or {}, process, names))
    for key in personal:
        found.pop(key, None)
    found |= {key: value for key, value in names.collect(credential or {}).items() if key in personal}
    found |= names.collect(call or {})
    required = [each.name for each in config.env_definitions if each.required and not each.personal]
    if missing := tuple(name for name in required if not found.get(names.key(name))):
        what = "headers" if config.is_remote else "variables"
        advice = "Set them in mcp_env_vars"
        message = f"mcp_env_vars: expected values for the required {what} {', '.join(missing)}, got none. {advice}"
        raise MissingVariables(message, server=server, names=missing)
    if slots := tuple(name for name in config.personal_slots if not found.get(names.key(name))):
        advice = "Store your own credentials for this source; there are no shared ones"
        message = f"credentials: expected values for the personal slots {', '.join(slots)}, got none. {advice}"
        raise MissingCredential(message, server=server, slots=slots)
    return {names.spelled[key]: value for key, value in found.items()}


def _shared_values(
    config: SourceConfig, secrets: Mapping[str, str], process: Mapping[str, str], names: _Names
) -> dict[str, str]:
    """Return the values that do not depend on the principal or the call."""
    values = {name: process[name] for name in config.pass_environment if name in process}
    values |= {each.name: each.default for each in config.env_definitions if each.default is not None}
    personal = names.keys(config.personal_slots)
    for name, value in config.environment.items():
        if names.key(name) not in personal:
            stored = secrets.get(env_reference(name))
            values[name] = restore_text(value, secrets) if stored is None else stored
    return values


class _Names:
    """Names of variables or, ignoring case, of headers; `spelled` has the first spelling of each."""

    def __init__(self, *, ignore_case: bool) -> None:
        self._ignore_case = ignore_case
        self.spelled: dict[str, str] = {}

    def key(self, name: str) -> str:
        return name.lower() if self._ignore_case else name

    def keys(self, names: tuple[str, ...]) -> set[str]:
        return set(map(self.key, names))

    def collect(self, values: Mapping[str, str]) -> dict[str, str]:
        collected = {}
        for name, value in values.items():
            key = self.key(name)
            self.spelled.setdefault(key, name)
            collected[key] = value
        return collected


def make_server_config(
    config: SourceConfig, environment: Mapping[str, str]
) -> StdioServer | HttpServer | SseServer | SpawnedHttpServer:
    """Return the server config for one connection to a source.

    A plugin over SSE or streamable HTTP, which must be started first, gives a `SpawnedHttpServer`.

    Args:
        config: The config with its secrets restored (`restore_secrets`).
        environment: What `resolve_environment` returned.
    """
    if contains_placeholders(_texts(config)):
        expected = "a config with its secrets restored"
        raise ConfigError(f"config: expected {expected}. Call restore_secrets first", key="config", expected=expected)
    env = dict(environment)
    if config.is_remote:
        return _make_web_server(config, env)
    command = add_docker_variables(_with_python(config.command, env), env)
    if config.transport_type is SourceTransport.STDIO:
        options: dict[str, Any] = dict(config.options)
        return StdioServer.from_dict(
            {"command": command[0], "args": list(command[1:]), "env": env, "cwd": config.cwd, **options}
        )
    path = None if config.server_url is None else urlsplit(config.server_url).path or None
    spawned = {"command": list(command), "env": env, "cwd": config.cwd, "path": path, **config.options}
    return SpawnedHttpServer.from_dict({**spawned, "transport": config.transport_type.value})


def _make_web_server(config: SourceConfig, headers: Mapping[str, str]) -> HttpServer | SseServer:
    if config.server_url is None:
        expected = "a command or a server_url"
        raise ConfigError(f"server_url: expected {expected}, got neither", key="server_url", expected=expected)
    values = {"url": config.server_url, "headers": dict(headers), **config.options}
    if config.transport_type is SourceTransport.SSE:
        return SseServer.from_dict(values)
    return HttpServer.from_dict({**values, "type": "http"})


def _with_python(command: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command with the first word `python` replaced by a Python that the path has."""
    if command[0] != "python":
        return command
    return (find_python(env.get("PATH")), *command[1:])


def _texts(config: SourceConfig) -> Iterator[str]:
    yield from config.command
    if config.server_url is not None:
        yield config.server_url
    yield from (value for value in config.options.values() if isinstance(value, str))
