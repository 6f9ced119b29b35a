"""Source configs as JSON, placeholders of secrets, and the hash that approvals are bound to."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import ConfigError
from toolcrib.provider.source_config import EnvironmentVariable, LifecycleMode, PackageInfo, ReviewPolicy, SourceConfig
from toolcrib.provider.stored_config import (
    approval_hash,
    config_from_json,
    config_to_json,
    make_placeholder,
    restore_secrets,
    restore_text,
)

FULL = SourceConfig(
    manifest_path="/p/plugin.json",
    plugin_dir="/p",
    lifecycle_mode=LifecycleMode.TRANSIENT,
    runtime_hint="uvx",
    command=("uvx", "x", f"--token={make_placeholder('command[2]')}"),
    environment={"A": make_placeholder("env.A"), "B": "plain"},
    env_definitions=(EnvironmentVariable("A", "text", required=True, secret=True, default="d", personal=True),),
    server_url=f"http://{make_placeholder('url.user')}@127.0.0.1/",
    url="mcp://x",
    cwd="/p",
    pass_environment=("HOME",),
    options={"proxy": make_placeholder("options.proxy"), "connect_timeout": 1.5, "retry_safe": ["a"]},
    stateless=True,
    per_session=True,
    review=ReviewPolicy.REVIEW_ALL,
    validate_arguments=True,
    health_interval=1.0,
    refresh_interval=None,
    idle_seconds=2.0,
    allow_private=False,
    package=PackageInfo("pypi", "x", "1.0", "sha256:ab"),
    warnings=("w",),
)
SECRETS = {"command[2]": "canary1", "env.A": "canary2", "url.user": "canary3:p", "options.proxy": "http://u:canary4@h"}


def test_every_field_survives_json() -> None:
    assert config_from_json(json.loads(json.dumps(config_to_json(FULL)))) == FULL
    assert config_from_json({}) == SourceConfig()
    changed = {
        f.name for f in dataclasses.fields(SourceConfig) if getattr(FULL, f.name) != getattr(SourceConfig(), f.name)
    }
    assert changed == {f.name for f in dataclasses.fields(SourceConfig)} - {"transport_type"}
    assert set(config_to_json(FULL)) == {f.name for f in dataclasses.fields(SourceConfig)}


def test_restored_secrets_are_used_and_never_shown() -> None:
    restored = restore_secrets(FULL, SECRETS)
    assert restored.command == ("uvx", "x", "--token=canary1")
    assert restored.environment == {"A": "canary2", "B": "plain"}
    assert restored.server_url == "http://canary3:p@127.0.0.1/"
    assert restored.options["proxy"] == "http://u:canary4@h"
    assert "canary" not in repr(restored)
    assert "canary" not in json.dumps(config_to_json(restored))
    assert config_from_json(config_to_json(restored)) == FULL
    assert restore_secrets(restored, {}) == restored


@pytest.mark.parametrize("reference", list(SECRETS))
def test_a_missing_secret_is_named(reference: str) -> None:
    with pytest.raises(ConfigError, match="Register the source again") as caught:
        restore_secrets(FULL, {key: value for key, value in SECRETS.items() if key != reference})
    assert caught.value.key == reference


@given(st.text(min_size=1).filter(lambda text: text.isprintable()), st.text())
def test_any_name_can_be_a_reference_and_values_are_not_replaced_again(name: str, value: str) -> None:
    placeholder = make_placeholder(name)
    assert restore_text(f"a{placeholder}b{placeholder}", {name: value + placeholder}) == (
        f"a{value}{placeholder}b{value}{placeholder}"
    )


@pytest.mark.parametrize(
    "field, value",
    [
        ("transport_type", "x"),
        ("lifecycle_mode", 1),
        ("command", "x"),
        ("environment", []),
        ("environment", {"A": 1}),
        ("env_definitions", [1]),
        ("env_definitions", [{}]),
        ("options", 1),
        ("review", "none"),
        ("health_interval", -1),
        ("idle_seconds", None),
        ("package", {"registry": "npm"}),
        ("of_a_newer_version", 1),
    ],
)
def test_stored_values_of_a_wrong_type_are_refused(field: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from_json({field: value})
    assert caught.value.key is not None
    assert caught.value.key.startswith(field)


def test_the_approval_covers_what_is_executed_and_no_secret_value() -> None:
    first = approval_hash(FULL)
    assert first == approval_hash(restore_secrets(FULL, SECRETS))
    assert first == approval_hash(restore_secrets(FULL, {**SECRETS, "env.A": "rotated"}))
    for same in (replace(FULL, environment={"B": "x", "A": "y"}), replace(FULL, warnings=()), replace(FULL, url="")):
        assert approval_hash(same) == first
    changes = [
        replace(FULL, command=(*FULL.command, "-v")),
        replace(FULL, command=("npx", *FULL.command[1:])),
        replace(FULL, environment={**FULL.environment, "LD_PRELOAD": "x"}),
        replace(FULL, pass_environment=()),
        replace(FULL, cwd="/q"),
        replace(FULL, server_url="http://127.0.0.2/"),
    ]
    assert len({first, *map(approval_hash, changes)}) == len(changes) + 1
