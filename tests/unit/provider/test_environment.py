"""Variables and headers of a source: which value wins, what is missing, and the server configs made of them."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from toolcrib.errors import ConfigError, MissingCredential, MissingVariables
from toolcrib.provider.environment import make_server_config, resolve_environment
from toolcrib.provider.registration import parse_registration
from toolcrib.provider.source_config import EnvironmentVariable, SourceConfig, SourceTransport
from toolcrib.provider.stored_config import make_placeholder, restore_secrets
from toolcrib.transports.spawned_http import SpawnedHttpServer

SOURCES = ("call", "credential", "secret", "config", "default", "process")
"""From the strongest to the weakest."""


@pytest.mark.parametrize("stronger, weaker", [*combinations([each for each in SOURCES if each != "credential"], 2)])
def test_the_stronger_source_of_a_value_wins(stronger: str, weaker: str) -> None:
    given = {each: {"A": each} for each in (stronger, weaker)}
    config = SourceConfig(
        command=("x",),
        environment={"A": "config"} if {"config", "secret"} & {*given} else {},
        env_definitions=(EnvironmentVariable("A", default="default" if "default" in given else None),),
        pass_environment=("A",) if "process" in given else (),
    )
    resolved = resolve_environment(
        config,
        call=given.get("call"),
        secrets={"env.A": "secret"} if "secret" in given else {},
        process={"A": "process", "OTHER": "1"},
    )
    assert resolved == {"A": stronger}


def test_a_personal_slot_has_only_the_call_and_the_credential() -> None:
    config = SourceConfig(
        command=("x",),
        environment={"A": "shared"},
        env_definitions=(EnvironmentVariable("A", default="shared", personal=True),),
        pass_environment=("A",),
    )
    shared: dict[str, Any] = {"secrets": {"env.A": "shared"}, "process": {"A": "shared"}}
    with pytest.raises(MissingCredential) as caught:
        resolve_environment(config, **shared)
    assert caught.value.slots == ("A",)
    assert resolve_environment(config, credential={"A": "own"}, **shared) == {"A": "own"}
    assert resolve_environment(config, call={"A": "once"}, credential={"A": "own"}, **shared) == {"A": "once"}


def test_a_credential_for_what_is_not_personal_is_not_used() -> None:
    config = SourceConfig(command=("x",), environment={"A": "shared"})
    assert resolve_environment(config, credential={"A": "own", "B": "own"}, process={}) == {"A": "shared"}


def test_all_missing_variables_are_named_at_once() -> None:
    names = ("A", "B", "C", "D")
    definitions = (*(EnvironmentVariable(name, required=True) for name in names), EnvironmentVariable("E"))
    config = SourceConfig(command=("x",), environment={"B": "", "C": "given"}, env_definitions=definitions)
    with pytest.raises(MissingVariables, match="A, B, D") as caught:
        resolve_environment(config, process={"A": "not passed on"}, server="github")
    assert caught.value.names == ("A", "B", "D")
    assert caught.value.server == "github"
    assert caught.value.key == "mcp_env_vars"


def test_all_missing_slots_are_named_at_once() -> None:
    definitions = tuple(EnvironmentVariable(name, required=True, personal=True) for name in ("A", "B", "C"))
    with pytest.raises(MissingCredential) as caught:
        resolve_environment(SourceConfig(command=("x",), env_definitions=definitions), credential={"B": "own", "C": ""})
    assert caught.value.slots == ("A", "C")


def test_headers_ignore_case() -> None:
    config = SourceConfig(
        server_url="https://h",
        environment={"Authorization": "shared", "X-Mode": "a"},
        env_definitions=(
            EnvironmentVariable("authorization", personal=True),
            EnvironmentVariable("x-mode", required=True),
        ),
    )
    resolved = resolve_environment(config, credential={"AUTHORIZATION": "own"}, call={"x-MODE": "b"}, process={})
    assert {name.lower(): value for name, value in resolved.items()} == {"authorization": "own", "x-mode": "b"}


def test_a_secret_that_was_not_stored_is_named() -> None:
    config = SourceConfig(command=("x",), environment={"A": make_placeholder("env.A")})
    assert resolve_environment(config, secrets={"env.A": "value"}, process={}) == {"A": "value"}
    with pytest.raises(ConfigError, match=r"env\.A: expected the stored secret"):
        resolve_environment(config, process={})


def test_server_configs_of_all_transports() -> None:
    options = {"connect_timeout": 3.0}
    stdio = SourceConfig(command=("uvx", "x"), cwd="/tmp", options=options)
    assert make_server_config(stdio, {"A": "1"}) == tc.StdioServer(
        "uvx", ["x"], env={"A": "1"}, cwd="/tmp", connect_timeout=3.0
    )
    http = SourceConfig(server_url="https://h/mcp", transport_type=SourceTransport.STREAMABLE_HTTP, options=options)
    assert make_server_config(http, {"A": "1"}) == tc.HttpServer(
        "https://h/mcp", headers={"A": "1"}, connect_timeout=3.0
    )
    sse = SourceConfig(server_url="https://h/sse", transport_type=SourceTransport.SSE)
    assert make_server_config(sse, {}) == tc.SseServer("https://h/sse", headers={})
    for kind in (SourceTransport.SSE, SourceTransport.STREAMABLE_HTTP):
        spawned = SourceConfig(command=("node", "x.js"), transport_type=kind, cwd="/tmp")
        expected = SpawnedHttpServer(("node", "x.js"), env={"A": "1"}, cwd="/tmp", transport=kind.value)
        assert make_server_config(spawned, {"A": "1"}) == expected


def test_docker_gets_the_names_of_a_call_too_and_never_a_value() -> None:
    config = SourceConfig(command=("docker", "run", "-i", "--rm", "-e", "A", "image"))
    made = make_server_config(config, {"A": "canary-1", "B": "canary-2"})
    assert isinstance(made, tc.StdioServer)
    assert made.args == ("run", "-i", "--rm", "-e", "B", "-e", "A", "image")


def test_python_is_found_on_the_path_of_the_source(tmp_path: Path) -> None:
    config = SourceConfig(command=("python", "x.py"))
    made = make_server_config(config, {"PATH": str(tmp_path)})
    assert isinstance(made, tc.StdioServer)
    assert made.command == sys.executable


def test_a_config_without_its_secrets_or_without_a_server_is_refused() -> None:
    for config in (
        SourceConfig(command=("x", make_placeholder("command[1]"))),
        SourceConfig(server_url=f"https://{make_placeholder('url.user')}@h"),
    ):
        with pytest.raises(ConfigError, match="Call restore_secrets first"):
            make_server_config(config, {})
    with pytest.raises(ConfigError, match="server_url: expected a command or a server_url"):
        make_server_config(SourceConfig(), {})
    with pytest.raises(ConfigError, match=r"headers\.A"):
        make_server_config(SourceConfig(server_url="https://h"), {"A": "x\r\ny: z"})


async def test_a_stand_in_for_docker_gets_values_in_its_environment_only(tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/argv\nenv > {tmp_path}/env\n')
    docker.chmod(0o700)
    given = {
        "name": "image",
        "source_type": "mcp",
        "mcp_command": [str(docker), "run", "-e", "MODE", "image:1", "--verbose"],
        "mcp_env_vars": {"API_TOKEN": "canary-1"},
        "personal": ["OWN_TOKEN"],
    }
    made = parse_registration(given)
    config = restore_secrets(made.config, made.secrets)
    environment = resolve_environment(config, credential={"OWN_TOKEN": "canary-2"}, call={"MODE": "canary-3"})
    server = make_server_config(config, environment)
    assert isinstance(server, tc.StdioServer)
    with pytest.raises(tc.StartError):
        async with tc.Client(server):
            pass
    argv = (tmp_path / "argv").read_text().split()
    assert argv == ["run", "-i", "--rm", "-e", "API_TOKEN", "-e", "OWN_TOKEN", "-e", "MODE", "image:1", "--verbose"]
    env = (tmp_path / "env").read_text().splitlines()
    assert {"API_TOKEN=canary-1", "OWN_TOKEN=canary-2", "MODE=canary-3"} <= {*env}
