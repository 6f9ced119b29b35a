"""Source configs as JSON values without secrets: a placeholder `${secret:REFERENCE}` stands for each secret.

References are `env.NAME` (a variable or header), `command[N]`, `url.user`, `url.path[N]`, `url.query[N]` and
`options.proxy`. The values are kept apart, encrypted by a `Sealer`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote, unquote

from ..config import Expanded
from ..errors import ConfigError
from .fields import Fields
from .source_config import (
    EnvironmentVariable,
    LifecycleMode,
    PackageInfo,
    ReviewPolicy,
    SourceConfig,
    SourceTransport,
)

_PLACEHOLDER: Final = re.compile(r"\$\{secret:([^{}]*)\}")
_BEGINNING: Final = "${secret:"
_DEFAULTS: Final = SourceConfig()


def make_placeholder(reference: str) -> str:
    """Return the text that stands for a secret in a config."""
    return f"{_BEGINNING}{quote(reference, safe='.-_[]@:+ ')}}}"


def has_placeholder(text: str) -> bool:
    """Return whether a text contains the beginning of a placeholder; such a text must be kept as a secret itself."""
    return _BEGINNING in text


def env_reference(name: str) -> str:
    """Return the reference of the secret value of a variable or header."""
    return f"env.{name}"


def restore_text(text: str, secrets: Mapping[str, str]) -> str:
    """Return the text with its placeholders replaced by secrets; its repr shows the placeholders.

    Raises `ConfigError` if a secret is missing. Placeholders inside secrets are not replaced.
    """
    if isinstance(text, Expanded) or not has_placeholder(text):
        return text
    missing = [name for name in map(unquote, _PLACEHOLDER.findall(text)) if name not in secrets]
    if missing:
        expected = f"the stored secret {missing[0]}"
        raise ConfigError(f"{missing[0]}: expected {expected}, got none. Register the source again", key=missing[0])
    return Expanded(_PLACEHOLDER.sub(lambda found: secrets[unquote(found[1])], text), text)


def restore_secrets(config: SourceConfig, secrets: Mapping[str, str]) -> SourceConfig:
    """Return the config with all placeholders replaced by secrets; its repr and JSON form still show none of them."""
    return replace(
        config,
        command=tuple(restore_text(word, secrets) for word in config.command),
        environment={name: restore_text(value, secrets) for name, value in config.environment.items()},
        server_url=None if config.server_url is None else restore_text(config.server_url, secrets),
        options={
            name: restore_text(value, secrets) if isinstance(value, str) else value
            for name, value in config.options.items()
        },
    )


def config_to_json(config: SourceConfig) -> dict[str, Any]:
    """Return the config as JSON values, without secrets, also if `restore_secrets` put them in."""
    # `asdict` copies mappings by their own class and would need to copy `Expanded`; the fields are few.
    return {
        "manifest_path": config.manifest_path,
        "plugin_dir": config.plugin_dir,
        "transport_type": config.transport_type.value,
        "lifecycle_mode": config.lifecycle_mode.value,
        "runtime_hint": config.runtime_hint,
        "command": [_written(word) for word in config.command],
        "environment": {name: _written(value) for name, value in config.environment.items()},
        "env_definitions": [asdict(each) for each in config.env_definitions],
        "server_url": None if config.server_url is None else _written(config.server_url),
        "url": config.url,
        "cwd": config.cwd,
        "pass_environment": list(config.pass_environment),
        "options": {name: _written(value) for name, value in config.options.items()},
        "stateless": config.stateless,
        "per_session": config.per_session,
        "review": config.review.value,
        "validate_arguments": config.validate_arguments,
        "health_interval": config.health_interval,
        "refresh_interval": config.refresh_interval,
        "idle_seconds": config.idle_seconds,
        "allow_private": config.allow_private,
        "package": None if config.package is None else asdict(config.package),
        "warnings": list(config.warnings),
    }


def config_from_json(values: Mapping[str, Any]) -> SourceConfig:
    """Return the config that `config_to_json` made; missing fields have their defaults. Raises `ConfigError`."""
    fields = Fields(values)
    fields.refuse_unknown(list(config_to_json(_DEFAULTS)), "A newer version of Toolcrib may have stored it.")
    return SourceConfig(
        manifest_path=fields.text("manifest_path", ""),
        plugin_dir=fields.text("plugin_dir", ""),
        transport_type=fields.choice("transport_type", SourceTransport, _DEFAULTS.transport_type),
        lifecycle_mode=fields.choice("lifecycle_mode", LifecycleMode, _DEFAULTS.lifecycle_mode),
        runtime_hint=fields.text("runtime_hint", ""),
        command=fields.texts("command"),
        environment=_texts_by_name(fields.object("environment")),
        env_definitions=tuple(map(_definition_from_json, fields.objects("env_definitions"))),
        server_url=fields.optional_text("server_url"),
        url=fields.text("url", ""),
        cwd=fields.optional_text("cwd"),
        pass_environment=fields.texts("pass_environment"),
        options=dict(fields.object("options").values),
        stateless=fields.flag("stateless"),
        per_session=fields.flag("per_session"),
        review=fields.choice("review", ReviewPolicy, _DEFAULTS.review),
        validate_arguments=fields.flag("validate_arguments"),
        health_interval=fields.seconds("health_interval", None),
        refresh_interval=fields.seconds("refresh_interval", _DEFAULTS.refresh_interval),
        idle_seconds=fields.seconds("idle_seconds", _DEFAULTS.idle_seconds, nullable=False) or _DEFAULTS.idle_seconds,
        allow_private=fields.flag("allow_private", default=_DEFAULTS.allow_private),
        package=_package_from_json(fields.object("package")) if fields.has("package") else None,
        warnings=fields.texts("warnings"),
    )


def approval_hash(config: SourceConfig) -> str:
    """Return a SHA-256 over what a source executes or connects to.

    It covers the command with its arguments and docker flags, the names of the environment (not the values), the
    working directory and the URL. Changed secrets do not change it.
    """
    names = {*config.environment, *config.pass_environment, *(each.name for each in config.env_definitions)}
    judged = {
        "command": [_written(word) for word in config.command],
        "environment": sorted(names),
        "cwd": config.cwd,
        "url": None if config.server_url is None else _written(config.server_url),
        "transport": config.transport_type.value,
    }
    text = json.dumps(judged, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(b"toolcrib source 1\0" + text.encode()).hexdigest()


def contains_placeholders(texts: Iterable[str]) -> bool:
    """Return whether a text still has a placeholder that `restore_secrets` would replace."""
    return any(not isinstance(text, Expanded) and has_placeholder(text) for text in texts)


def _written(value: Any) -> Any:
    return value.written if isinstance(value, Expanded) else value


def _texts_by_name(fields: Fields) -> dict[str, str]:
    return {name: fields.text(name) for name in fields.values}


def _definition_from_json(fields: Fields) -> EnvironmentVariable:
    return EnvironmentVariable(
        name=fields.text("name"),
        description=fields.text("description", ""),
        required=fields.flag("required"),
        secret=fields.flag("secret"),
        default=fields.optional_text("default"),
        personal=fields.flag("personal"),
    )


def _package_from_json(fields: Fields) -> PackageInfo:
    return PackageInfo(
        registry=fields.text("registry"),
        identifier=fields.text("identifier"),
        version=fields.optional_text("version"),
        integrity=fields.optional_text("integrity"),
    )
