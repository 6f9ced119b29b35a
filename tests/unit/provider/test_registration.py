"""Registrations: every form, every wrong field, and secrets that must not be shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import toolcrib as tc
from tests.unit.provider.conftest import MakePlugin
from tests.unit.provider.manifests import package, plugin, server
from toolcrib.errors import ConfigError, MissingVariables
from toolcrib.provider.environment import make_server_config, resolve_environment
from toolcrib.provider.registration import (
    EXTENSION_FIELDS,
    FORM_FIELDS,
    OPTION_FIELDS,
    Registration,
    approval_hash,
    config_from_json,
    config_to_json,
    parse_registration,
    restore_secrets,
)
from toolcrib.provider.source_config import LifecycleMode, PackageInfo, ReviewPolicy, SourceTransport

REMOTE = {"name": "CML MCP Server", "source_type": "mcp", "mcp_server_url": "https://cml-mcp:9000"}
COMMAND = {"name": "local", "source_type": "mcp", "mcp_command": ["server"]}


def form(folder: Path, **fields: Any) -> dict[str, Any]:
    """Return a registration of a plugin in the form of the MCP Tools Provider."""
    return {"name": "GitHub MCP", "url": "mcp://github", "source_type": "mcp", "mcp_plugin_dir": str(folder), **fields}


def restored(registration: Registration) -> Any:
    """Return the server config of a connection to a source, with all secrets."""
    config = restore_secrets(registration.config, registration.secrets)
    return make_server_config(config, resolve_environment(config, process={}))


# ---- the registration form -------------------------------------------------------------------------------------------


def test_the_plugin_of_the_documentation(make_plugin: MakePlugin) -> None:
    folder = make_plugin(plugin())
    made = parse_registration(
        form(
            folder,
            mcp_transport_type="stdio",
            mcp_runtime_hint="uvx",
            mcp_lifecycle_mode="transient",
            mcp_env_vars={"GITHUB_TOKEN": "ghp_canary"},
        )
    )
    config = made.config
    assert made.name == "GitHub MCP"
    assert (config.manifest_path, config.plugin_dir, config.cwd) == (f"{folder}/plugin.json", str(folder), str(folder))
    assert (config.transport_type, config.lifecycle_mode) == (SourceTransport.STDIO, LifecycleMode.TRANSIENT)
    assert (config.runtime_hint, config.command) == ("uvx", ("uvx", "mcp-server-github"))
    assert (config.url, config.server_url, config.is_remote) == ("mcp://github", None, False)
    assert made.secrets == {"env.GITHUB_TOKEN": "ghp_canary"}
    assert restored(made).env == {"GITHUB_TOKEN": "ghp_canary"}


def test_the_defaults_of_the_form_are_transient_and_stdio(make_plugin: MakePlugin) -> None:
    config = parse_registration(form(make_plugin(plugin()))).config
    assert (config.transport_type, config.lifecycle_mode) == (SourceTransport.STDIO, LifecycleMode.TRANSIENT)
    assert config.review is ReviewPolicy.FOLLOW
    assert (config.refresh_interval, config.health_interval, config.idle_seconds) == (3600.0, None, 300.0)


def test_the_remote_server_of_the_documentation() -> None:
    made = parse_registration({**REMOTE, "mcp_env_vars": {"API_KEY": "canary", "X-Team": "blue"}})
    assert made.config.transport_type is SourceTransport.STREAMABLE_HTTP
    assert made.config.is_remote
    assert restored(made) == tc.HttpServer("https://cml-mcp:9000", headers={"API_KEY": "canary", "X-Team": "blue"})
    sse = parse_registration({**REMOTE, "mcp_transport_type": "sse"})
    assert restored(sse) == tc.SseServer("https://cml-mcp:9000", headers={})


@pytest.mark.parametrize(
    "fields, command",
    [
        ({}, "uvx mcp-server-github"),
        ({"mcp_args": ["--port", "1 2"]}, "uvx mcp-server-github --port|1 2"),
        ({"mcp_runtime_hint": "npx"}, "npx -y mcp-server-github"),
        ({"mcp_command": ["/bin/server", "-x"]}, "/bin/server -x"),
        ({"mcp_command": "server 'a b'", "mcp_args": ["c"]}, "server a b|c"),
        ({"mcp_command": ["other"], "mcp_runtime_hint": "uvx"}, "uvx other"),
        ({"mcp_command": "uvx other", "mcp_runtime_hint": "uvx"}, "uvx other"),
        ({"mcp_command": "docker run image:1"}, "docker run -i --rm -e GITHUB_TOKEN image:1"),
        ({"mcp_runtime_hint": "docker"}, "docker run -i --rm -e GITHUB_TOKEN mcp-server-github"),
    ],
)
def test_command_arguments_and_hint_override_the_manifest(
    make_plugin: MakePlugin, fields: dict[str, Any], command: str
) -> None:
    made = parse_registration(form(make_plugin(plugin()), **fields))
    assert " ".join(made.config.command) == command.replace("|", " ")


def test_a_command_alone_is_enough() -> None:
    made = parse_registration({**COMMAND, "mcp_command": "uvx server@1.0", "cwd": "/srv"})
    assert (made.config.command, made.config.cwd, made.config.runtime_hint) == (("uvx", "server@1.0"), "/srv", "uvx")
    assert made.config.package == PackageInfo("pypi", "server", "1.0")
    assert made.config.lifecycle_mode is LifecycleMode.TRANSIENT


def test_plugins_over_http_keep_their_transport(make_plugin: MakePlugin) -> None:
    folder = make_plugin(plugin(transport_type="sse", environment_variables=[]))
    assert parse_registration(form(folder)).config.transport_type is SourceTransport.SSE
    over_http = parse_registration(form(folder, mcp_transport_type="streamable-http"))
    assert over_http.config.transport_type is SourceTransport.STREAMABLE_HTTP
    assert any("differs from sse of the manifest" in warning for warning in over_http.config.warnings)


def test_extension_fields_and_options_are_kept() -> None:
    given = {
        "stateless": True,
        "per_session": True,
        "review": "review_changes",
        "validate_arguments": True,
        "health_interval": 30,
        "refresh_interval": None,
        "idle_seconds": 5,
        "pass_environment": ["HOME"],
        "personal": ["Authorization"],
        "connect_timeout": 3,
        "execution_timeout": None,
        "max_retries": 2,
        "retry_safe": ["b", "a"],
        "verify": False,
    }
    config = parse_registration({**REMOTE, **given}, allow_private=False).config
    assert (config.stateless, config.per_session, config.validate_arguments) == (True, True, True)
    assert config.review is ReviewPolicy.REVIEW_CHANGES
    assert (config.health_interval, config.refresh_interval, config.idle_seconds) == (30.0, None, 5.0)
    assert (config.pass_environment, config.personal_slots, config.allow_private) == (
        ("HOME",),
        ("Authorization",),
        False,
    )
    expected = {
        "connect_timeout": 3,
        "execution_timeout": None,
        "max_attempts": 2,
        "retry_safe": ["a", "b"],
        "verify": False,
    }
    assert config.options == expected
    assert config_from_json(json.loads(json.dumps(config_to_json(config)))) == config


FORM_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({**REMOTE, "name": ""}, "name"),
    ({**REMOTE, "name": None}, "name"),
    ({**REMOTE, "name": 3}, "name"),
    ({**REMOTE, "name": "a\nb"}, "name"),
    ({**REMOTE, "name": "x" * 201}, "name"),
    ({**REMOTE, "url": 3}, "url"),
    ({**REMOTE, "source_type": "openapi"}, "source_type"),
    ({**REMOTE, "source_type": None}, "source_type"),
    ({"name": "x", "mcp_server_url": "https://h"}, "source_type"),
    ({**REMOTE, "mcp_lifecycle": "singleton"}, "mcp_lifecycle"),
    ({**REMOTE, "mcp_plugin_dir": "/x"}, "mcp_server_url"),
    ({"name": "x", "source_type": "mcp"}, "mcp_plugin_dir"),
    ({"name": "x", "source_type": "mcp", "mcp_plugin_dir": 3}, "mcp_plugin_dir"),
    ({"name": "x", "source_type": "mcp", "mcp_plugin_dir": "/nowhere/at/all"}, "mcp_plugin_dir"),
    ({**REMOTE, "mcp_transport_type": "stdio"}, "mcp_transport_type"),
    ({**REMOTE, "mcp_transport_type": "grpc"}, "mcp_transport_type"),
    ({**REMOTE, "mcp_transport_type": ["sse"]}, "mcp_transport_type"),
    ({**REMOTE, "mcp_command": ["x"]}, "mcp_command"),
    ({**REMOTE, "mcp_args": ["x"]}, "mcp_args"),
    ({**REMOTE, "mcp_runtime_hint": "uvx"}, "mcp_runtime_hint"),
    ({**REMOTE, "cwd": "/"}, "cwd"),
    ({**REMOTE, "mcp_lifecycle_mode": "forever"}, "mcp_lifecycle_mode"),
    ({**REMOTE, "mcp_env_vars": ["A"]}, "mcp_env_vars"),
    ({**REMOTE, "mcp_env_vars": {"A": 1}}, "mcp_env_vars.A"),
    ({**REMOTE, "mcp_env_vars": {"A": "x\r\ny"}}, "mcp_env_vars.A"),
    ({**REMOTE, "mcp_env_vars": {"A B": "x"}}, "mcp_env_vars"),
    ({**REMOTE, "mcp_env_vars": {"A": "1", "a": "2"}}, "mcp_env_vars.a"),
    ({**COMMAND, "mcp_env_vars": {"A=B": "x"}}, "mcp_env_vars"),
    ({**COMMAND, "mcp_env_vars": {"A": "x\0"}}, "mcp_env_vars.A"),
    ({**COMMAND, "mcp_env_vars": {"A": None}}, "mcp_env_vars.A"),
    ({**COMMAND, "mcp_command": []}, "mcp_command"),
    ({**COMMAND, "mcp_command": "'"}, "mcp_command"),
    ({**COMMAND, "mcp_command": {"a": 1}}, "mcp_command"),
    ({**COMMAND, "mcp_command": ["docker", "run", "-v", "/:/host", "image"]}, "mcp_command"),
    ({**COMMAND, "mcp_command": ["docker", "run"], "mcp_args": ["-v", "/:/host", "image"]}, "mcp_command"),
    ({**COMMAND, "mcp_command": ["docker", "run", "image"], "mcp_env_vars": {"A B": "x"}}, "mcp_env_vars"),
    ({**COMMAND, "mcp_args": "--port 1"}, "mcp_args"),
    ({**COMMAND, "mcp_args": [1]}, "mcp_args[0]"),
    ({**COMMAND, "mcp_runtime_hint": "uvxx"}, "mcp_runtime_hint"),
    ({**COMMAND, "mcp_runtime_hint": 1}, "mcp_runtime_hint"),
    ({**COMMAND, "cwd": 1}, "cwd"),
    ({**COMMAND, "stateless": "yes"}, "stateless"),
    ({**COMMAND, "per_session": 1}, "per_session"),
    ({**COMMAND, "review": "never"}, "review"),
    ({**COMMAND, "validate_arguments": "x"}, "validate_arguments"),
    ({**COMMAND, "health_interval": 0}, "health_interval"),
    ({**COMMAND, "refresh_interval": "1h"}, "refresh_interval"),
    ({**COMMAND, "idle_seconds": None}, "idle_seconds"),
    ({**COMMAND, "idle_seconds": float("nan")}, "idle_seconds"),
    ({**COMMAND, "pass_environment": "HOME"}, "pass_environment"),
    ({**COMMAND, "pass_environment": ["A=1"]}, "pass_environment[0]"),
    ({**COMMAND, "personal": "TOKEN"}, "personal"),
    ({**COMMAND, "personal": ["A=1"]}, "personal[0]"),
    ({**COMMAND, "personal": ["A"], "mcp_env_vars": {"A": "shared"}}, "personal[0]"),
    ({**REMOTE, "personal": ["authorization"], "mcp_env_vars": {"Authorization": "shared"}}, "personal[0]"),
    ({**COMMAND, "inputs": {"a": "b"}}, "inputs"),
    ({**COMMAND, "connect_timeout": -1}, "connect_timeout"),
    ({**COMMAND, "max_attempts": 0}, "max_attempts"),
    ({**COMMAND, "max_attempts": 1, "max_retries": 1}, "max_retries"),
    ({**COMMAND, "verify": False}, "verify"),
    ({**REMOTE, "proxy": "socks://x"}, "proxy"),
]


@pytest.mark.parametrize("given, key", FORM_FAULTS)
def test_a_wrong_field_of_the_form_is_named(given: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_registration(given)
    assert caught.value.key == key
    assert caught.value.expected
    assert "shared" not in str(caught.value).replace("shared value", "")


def test_every_field_of_the_form_has_a_wrong_value_in_the_table() -> None:
    tested = {key.partition("[")[0].partition(".")[0] for _, key in FORM_FAULTS}
    assert {*FORM_FIELDS, *EXTENSION_FIELDS} <= tested


def test_unknown_fields_are_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"mcp_env_var: expected a known field.*Did you mean 'mcp_env_vars'"):
        parse_registration({**REMOTE, "mcp_env_var": {}})


@pytest.mark.parametrize(
    "url",
    [
        "",
        "cml:9000",
        "ftp://h",
        "file:///etc/passwd",
        "http://",
        "https://h/#x",
        "https://h:0",
        "https://h h",
        3,
        ["x"],
    ],
)
def test_only_absolute_web_urls_without_a_fragment_are_accepted(url: object) -> None:
    for source in ({**REMOTE, "mcp_server_url": url}, server(remotes=[{"type": "sse", "url": url}])):
        with pytest.raises(ConfigError) as caught:
            parse_registration(source)
        assert caught.value.key in ("mcp_server_url", "remotes[0].url")


@pytest.mark.parametrize(
    "given, warning",
    [
        ({**REMOTE, "mcp_server_url": "http://cml-mcp:9000"}, "plain http to cml-mcp"),
        ({**COMMAND, "mcp_command": "npx -y server"}, "'server' has no exact version"),
        ({**COMMAND, "mcp_command": "server --token canary"}, "command[2]: looks like a secret"),
        ({**COMMAND, "mcp_command": "docker run --network host image:1"}, "--network host"),
        ({"name": "x", "packages": [package()]}, "version: the manifest has none"),
        (server(package(fileSha256="a" * 64)), "not verified"),
        ({**server(package()), "$schema": "https://x/2025-07-09/server.schema.json"}, "$schema: expected 2025-12-11"),
        (server(package(registryBaseUrl="https://npm.example.com")), "registryBaseUrl: has no effect"),
    ],
)
def test_bad_practices_are_warned_about(given: dict[str, Any], warning: str) -> None:
    warnings = parse_registration(given).config.warnings
    assert any(warning in each for each in warnings), warnings
    assert not any("canary" in each for each in warnings)


def test_good_practices_cause_no_warning() -> None:
    for source in (
        {**REMOTE, "mcp_env_vars": {"Authorization": "Bearer x"}},
        {**REMOTE, "mcp_server_url": "http://localhost:9000"},
        {**COMMAND, "mcp_command": "uvx server@1.2.3", "mcp_env_vars": {"TOKEN": "x"}},
        server(package()),
    ):
        assert parse_registration(source).config.warnings == ()


# ---- other forms -----------------------------------------------------------------------------------------------------


def test_server_config_objects() -> None:
    stdio = tc.StdioServer("uvx", ["x"], env={"TOKEN": "canary"}, cwd="/srv", connect_timeout=3)
    made = parse_registration(stdio, name="fs")
    assert restored(made) == stdio
    assert made.config.lifecycle_mode is LifecycleMode.SINGLETON
    for remote in (
        tc.HttpServer("https://u:p@h/mcp?token=1", headers={"A": "b"}, streamable=False, proxy="http://u:p@proxy"),
        tc.SseServer("https://h/sse", headers={}, verify=False),
    ):
        assert restored(parse_registration(remote, name="fs")) == remote
    transient = tc.StdioServer("x", lifecycle="transient")
    assert parse_registration(transient, name="t").config.lifecycle_mode is LifecycleMode.TRANSIENT
    more = {"mcp_lifecycle_mode": "transient", "stateless": True, "mcp_env_vars": {"B": "c"}, "max_attempts": 5}
    config = parse_registration(stdio, name="fs", more=more).config
    assert (config.lifecycle_mode, config.stateless, set(config.environment)) == ("transient", True, {"TOKEN", "B"})
    assert config.options == {"connect_timeout": 3, "max_attempts": 5}


@pytest.mark.parametrize(
    "given, key",
    [
        (tc.PythonServer("tools.py"), "source"),
        (tc.ToolServer("x"), "source"),
        (tc.HttpServer("https://h", headers={"A": lambda: "x"}), "headers.A"),
        (tc.HttpServer("https://h/#x"), "url"),
        (tc.HttpServer("https://h", oauth={}), "oauth"),
        (tc.SseServer("https://h", oauth={"client_secret": "canary"}), "oauth"),
        ({**REMOTE, "oauth": {"client_secret": "canary"}}, "oauth"),
        (tc.StdioServer("x", tool_filter=lambda *_: True), "tool_filter"),
        (tc.StdioServer("docker", ["run", "-v", "/:/x", "image"]), "args"),
        (3, "source"),
        (None, "source"),
        ([], "source"),
        ("https://h/mcp", "source"),
        ({}, "source"),
        ({"mcpServer": {}}, "source"),
        ("/nowhere/at/all", "path"),
    ],
)
def test_what_cannot_be_stored_is_refused(given: Any, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_registration(given, name="x")
    assert caught.value.key == key
    assert caught.value.expected
    assert "canary" not in str(caught.value)


def test_a_name_is_required_where_the_form_has_none() -> None:
    for source in (tc.StdioServer("x"), {"command": "x"}):
        with pytest.raises(ConfigError, match="name: expected the name of the source"):
            parse_registration(source)


def test_entries_of_settings_files() -> None:
    entry = {"command": "npx", "args": ["-y", "x@1.0.0", "${ROOT}"], "env": {"TOKEN": "${MY_TOKEN}"}, "personal": ["P"]}
    environ = {"ROOT": "/data", "MY_TOKEN": "canary"}
    whole = parse_registration({"mcpServers": {"fs": entry}}, environ=environ)
    alone = parse_registration(entry, name="fs", environ=environ)
    assert whole == alone
    assert (whole.name, whole.config.personal_slots) == ("fs", ("P",))
    assert whole.config.lifecycle_mode is LifecycleMode.SINGLETON
    config = restore_secrets(whole.config, whole.secrets)
    made = make_server_config(config, resolve_environment(config, credential={"P": "own"}, process={}))
    assert made == tc.StdioServer("npx", ["-y", "x@1.0.0", "/data"], env={"TOKEN": "canary", "P": "own"})
    assert "canary" not in repr((whole, config, made))
    remote = parse_registration({"type": "http", "url": "https://h/mcp", "headers": {"A": "b"}}, name="r")
    assert restored(remote) == tc.HttpServer("https://h/mcp", headers={"A": "b"})


@pytest.mark.parametrize(
    "given, key",
    [
        ({"mcpServers": {}}, "mcpServers"),
        ({"mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}}}, "mcpServers"),
        ({"mcpServers": {"a": 3}}, "mcpServers entry"),
        ({"mcpServers": 3}, "mcpServers"),
        ({"mcpServers": {"a": {"command": "x", "args": "y"}}}, "mcpServers.a.args"),
        ({"mcpServers": {"a": {"command": "x", "env": {"T": "${UNSET_VARIABLE}"}}}}, "mcpServers.a.env.T"),
        ({"mcpServers": {"a": {"command": "x", "disabled": True}}}, "disabled"),
        ({"mcpServers": {"a": {"command": "x", "disabledTools": ["y"]}}}, "blocked_tools"),
        ({"mcpServers": {"a": {"command": "x", "enabledTools": ["y"]}}}, "allowed_tools"),
        ({"mcpServers": {"a": {"python": "x.py"}}}, "source"),
        ({"mcpServers": {"a": {"command": "x", "review": "no"}}}, "review"),
    ],
)
def test_wrong_entries_are_refused(given: Any, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_registration(given, environ={})
    assert caught.value.key == key


def test_a_plugin_folder_and_a_manifest_by_path(make_plugin: MakePlugin) -> None:
    folder = make_plugin(plugin())
    more = {"mcp_env_vars": {"GITHUB_TOKEN": "canary"}}
    for source in (folder, str(folder), folder / "plugin.json"):
        made = parse_registration(source, more=more)
        assert (made.name, made.config.cwd) == ("@modelcontextprotocol/github", str(folder))
        assert made.config.lifecycle_mode is LifecycleMode.SINGLETON
        assert made.secrets == {"env.GITHUB_TOKEN": "canary"}
    assert parse_registration(folder, name="gh").name == "gh"
    with pytest.raises(ConfigError, match="path: expected a path below plugin_root"):
        parse_registration(folder, plugin_root=folder / "below")
    with pytest.raises(ConfigError, match="mcp_plugin_dir: expected a path below plugin_root"):
        parse_registration(form(folder), plugin_root=folder / "below")
    with pytest.raises(ConfigError, match="mcp_server_url: expected a known field"):
        parse_registration(folder, more={"mcp_server_url": "https://h"})


# ---- server.json -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields, command",
    [
        ({}, ["npx", "-y", "@example/weather@1.0.2"]),
        ({"registryType": "pypi", "identifier": "weather"}, ["uvx", "weather@1.0.2"]),
        ({"registryType": "pypi", "identifier": "weather", "runtimeHint": "python"}, ["python", "-m", "weather"]),
        ({"registryType": "oci", "identifier": "o/w:2", "version": None}, ["docker", "run", "-i", "--rm", "o/w:2"]),
        ({"registryType": "oci", "identifier": "o/w"}, ["docker", "run", "-i", "--rm", "o/w:1.0.2"]),
        ({"registryType": "nuget", "identifier": "A.W"}, ["dnx", "A.W@1.0.2", "--yes"]),
        (
            {
                "runtimeArguments": [{"type": "named", "name": "--prefer-offline", "isRequired": True}],
                "packageArguments": [
                    {"type": "positional", "value": "start"},
                    {"type": "named", "name": "--mode", "default": "local", "choices": ["local", "proxy"]},
                    {"type": "named", "name": "--port", "format": "number"},
                    {"type": "positional", "value": "/data/{sub}", "variables": {"sub": {"default": "x"}}},
                ],
            },
            ["npx", "-y", "--prefer-offline", "@example/weather@1.0.2", "start", "--mode", "local", "/data/x"],
        ),
    ],
)  # fmt: skip
def test_packages_of_the_registry_become_commands(fields: dict[str, Any], command: list[str]) -> None:
    made = parse_registration(server(package(**fields)))
    assert list(made.config.command) == command
    assert made.name == "io.github.example/weather"
    assert made.config.lifecycle_mode is LifecycleMode.SINGLETON
    assert made.config.package is not None
    assert made.config.package.version in ("1.0.2", "2")


def test_inputs_fill_arguments_and_missing_ones_are_named_at_once() -> None:
    arguments = [
        {"type": "named", "name": "--db", "isRequired": True, "format": "string"},
        {"type": "positional", "valueHint": "folder", "isRequired": True},
        {"type": "named", "name": "--pin", "isSecret": True, "format": "string"},
        {"type": "named", "name": "--mode", "choices": ["a", "b"]},
    ]
    document = server(package(packageArguments=arguments))
    with pytest.raises(ConfigError, match="inputs: expected values for db, folder") as caught:
        parse_registration(document)
    assert caught.value.key == "inputs"
    inputs = {"db": "x", "folder": "/data", "pin": "canary-4711"}
    made = parse_registration(document, more={"inputs": inputs})
    assert restored(made).args == ("-y", "@example/weather@1.0.2", "--db", "x", "/data", "--pin", "canary-4711")
    assert "canary" not in repr(made) + json.dumps(config_to_json(made.config))
    for wrong, key in (
        ({"fodler": "x"}, "inputs.fodler"),
        ({**inputs, "mode": "c"}, "inputs.mode"),
        ({"db": 1}, "inputs.db"),
    ):
        with pytest.raises(ConfigError) as caught:
            parse_registration(document, more={"inputs": wrong})
        assert caught.value.key == key


def test_docker_flags_of_a_stranger() -> None:
    def image(*arguments: dict[str, Any]) -> dict[str, Any]:
        return server(package(registryType="oci", identifier="o/w:1", version=None, runtimeArguments=list(arguments)))

    mount = {"type": "named", "name": "--mount", "value": "type=bind,src=/,dst=/host"}
    with pytest.raises(
        ConfigError, match=r"packages\[0\].runtimeArguments: expected only the docker flags.*got --mount"
    ):
        parse_registration(image(mount))
    allowed = parse_registration(image(mount), allow_docker_flags=["--mount"])
    assert "--mount" in allowed.config.command
    value = {"type": "named", "name": "-e", "value": "MODE={mode}", "variables": {"mode": {"isRequired": True}}}
    made = parse_registration(image(value), more={"inputs": {"mode": "canary"}})
    assert made.config.command == ("docker", "run", "-i", "--rm", "-e", "MODE", "o/w:1")
    assert restored(made).env == {"MODE": "canary"}
    with pytest.raises(MissingVariables, match="MODE"):
        restored(parse_registration(image(value)))


def test_remotes_of_the_registry() -> None:
    secret = {"isRequired": True, "isSecret": True}
    remote = {
        "type": "streamable-http",
        "url": "https://{tenant}.example.com/mcp",
        "variables": {"tenant": {"isRequired": True}},
        "headers": [
            {"name": "Authorization", "value": "Bearer {token}", "variables": {"token": secret}},
            {"name": "X-Region", "default": "eu", "choices": ["eu", "us"], "isSecret": False},
        ],
    }  # fmt: skip
    document = server(remotes=[remote])
    inputs = {"tenant": "acme", "token": "canary"}
    made = parse_registration(document, more={"inputs": inputs})
    headers = {"Authorization": "Bearer canary", "X-Region": "eu"}
    assert restored(made) == tc.HttpServer("https://acme.example.com/mcp", headers=headers)
    assert made.secrets == {"env.Authorization": "Bearer canary"}
    whole = parse_registration(document, more={"inputs": {"tenant": "a"}, "mcp_env_vars": {"authorization": "canary"}})
    assert {name.lower(): value for name, value in restored(whole).headers.items()}["authorization"] == "canary"
    unset = parse_registration(document, more={"inputs": {"tenant": "acme"}})
    with pytest.raises(MissingVariables) as caught:
        restored(unset)
    assert caught.value.names == ("Authorization",)
    personal = parse_registration(document, more={"inputs": {"tenant": "acme"}, "personal": ["authorization"]})
    assert personal.config.personal_slots == ("Authorization",)
    with pytest.raises(ConfigError, match="inputs: expected values for tenant"):
        parse_registration(document)
    with pytest.raises(ConfigError, match=r"mcp_env_vars\.X-Region: expected one of eu, us"):
        parse_registration(document, more={"inputs": inputs, "mcp_env_vars": {"X-Region": "mars"}})


def test_a_package_over_http_keeps_its_url() -> None:
    transport = {"type": "streamable-http", "url": "http://127.0.0.1:{port}/mcp"}
    config = parse_registration(server(package(transport=transport))).config
    assert (config.server_url, config.is_remote) == ("http://127.0.0.1:${PORT}/mcp", False)
    assert config.transport_type is SourceTransport.STREAMABLE_HTTP
    assert config.warnings == ()
    fixed = {"type": "sse", "url": "http://localhost:3000/sse"}
    made = parse_registration(server(package(transport=fixed)), more={"connect_timeout": 3})
    assert any("the plugin must listen on the one in PORT" in warning for warning in made.config.warnings)
    assert made.config.options == {"connect_timeout": 3}
    with pytest.raises(ConfigError, match="proxy: unknown setting"):
        parse_registration(server(package(transport=fixed)), more={"proxy": "http://h"})


# ---- secrets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "definition, name, value, is_secret",
    [
        ({"secret": True}, "MODE", "debug", True),
        ({"secret": False}, "REGION", "canary-eu", False),
        ({"secret": False}, "API_TOKEN", "canary", True),
        ({"secret": False}, "REGION", "ghp_" + "0123456789abcdef", True),
        ({"secret": False}, "DATABASE", "postgres://u:canary@h/db", True),
        ({}, "REGION", "canary-eu", True),
        ({}, "LOG_LEVEL", "debug", False),
        (None, "LOG_LEVEL", "debug", False),
        (None, "PORT", "8080", False),
        (None, "DB_PASS", "debug", True),
        (None, "DOOR_PIN", "1234", True),
        (None, "ANYTHING", "hunter", True),
        (None, "ANYTHING", "${secret:env.OTHER}", True),
    ],
)
def test_which_values_are_secrets(
    make_plugin: MakePlugin, definition: dict[str, Any] | None, name: str, value: str, is_secret: bool
) -> None:
    variables = [] if definition is None else [{"name": name, **definition}]
    made = parse_registration(form(make_plugin(plugin(environment_variables=variables)), mcp_env_vars={name: value}))
    assert (f"env.{name}" in made.secrets) is is_secret
    assert (made.config.environment[name] == value) is not is_secret
    assert restored(made).env == {name: value}


def test_a_secret_default_of_a_manifest_is_stored_as_a_secret(make_plugin: MakePlugin) -> None:
    variables = [{"name": "TOKEN", "default": "canary", "required": True}, {"name": "MODE", "default": "fast"}]
    made = parse_registration(form(make_plugin(plugin(environment_variables=variables))))
    assert made.secrets == {"env.TOKEN": "canary"}
    assert "canary" not in repr(made) + json.dumps(config_to_json(made.config))
    assert restored(made).env == {"TOKEN": "canary", "MODE": "fast"}


def test_a_personal_slot_loses_the_default_of_the_manifest(make_plugin: MakePlugin) -> None:
    variables = [{"name": "TOKEN", "default": "canary"}]
    made = parse_registration(form(make_plugin(plugin(environment_variables=variables)), personal=["TOKEN"]))
    assert (made.secrets, made.config.environment) == ({}, {})
    assert made.config.env_definitions[0].default is None


SECRET = "c4n4ry" + "Z" * 12
PLACES: list[tuple[Any, dict[str, Any]]] = [
    ({**REMOTE, "mcp_env_vars": {"X-Anything": SECRET}}, {}),
    ({**REMOTE, "mcp_server_url": f"https://user:{SECRET}@h/mcp"}, {}),
    ({**REMOTE, "mcp_server_url": f"https://{SECRET}@h/mcp"}, {}),
    ({**REMOTE, "mcp_server_url": f"https://h/mcp?a=1&b={SECRET}"}, {}),
    ({**REMOTE, "mcp_server_url": f"https://h/mcp?{SECRET}="}, {}),
    ({**REMOTE, "mcp_server_url": f"https://h/sk-{SECRET}/mcp"}, {}),
    ({**REMOTE, "url": f"https://u:{SECRET}@h"}, {}),
    ({**REMOTE, "proxy": f"http://u:{SECRET}@proxy:1"}, {}),
    ({**COMMAND, "mcp_env_vars": {"ANYTHING": SECRET}}, {}),
    ({**COMMAND, "mcp_command": f"server --api-key {SECRET}"}, {}),
    ({**COMMAND, "mcp_command": f"server --api-key={SECRET}"}, {}),
    ({**COMMAND, "mcp_args": ["--header", f"Authorization: Bearer {SECRET}"]}, {}),
    ({**COMMAND, "mcp_args": [f"postgres://u:{SECRET}@h/db"]}, {}),
    ({**COMMAND, "mcp_args": [f"TOKEN={SECRET}"]}, {}),
    ({**COMMAND, "mcp_command": "docker run image", "mcp_env_vars": {"ANYTHING": SECRET}}, {}),
    ({**COMMAND, "mcp_command": f"uvx --from git+https://{SECRET}@github.com/x/y x"}, {}),
    (tc.StdioServer("x", env={"A": SECRET}), {}),
    (tc.HttpServer("https://h", headers={"A": SECRET}), {}),
    ({"command": "x", "args": ["${V}"], "env": {"W": "${V}"}}, {"environ": {"V": SECRET}}),
    ({"url": "https://h/${V}"}, {"environ": {"V": f"sk-{SECRET}"}}),
    (server(package(packageArguments=[{"type": "named", "name": "--a", "value": SECRET, "isSecret": True}])), {}),
]  # fmt: skip


@pytest.mark.parametrize("given, arguments", PLACES)
def test_a_secret_is_shown_nowhere_and_still_used(given: Any, arguments: dict[str, Any]) -> None:
    made = parse_registration(given, name="x", **arguments)
    config = restore_secrets(made.config, made.secrets)
    server_config = make_server_config(config, resolve_environment(config, process={}))
    assert SECRET not in repr(made)
    assert SECRET not in json.dumps(config_to_json(made.config))
    assert SECRET not in repr(config)
    assert SECRET not in json.dumps(config_to_json(config))
    assert SECRET not in repr(server_config)
    assert approval_hash(config) == approval_hash(made.config)
    if not (isinstance(given, dict) and SECRET in str(given.get("url", "")) and "name" in given):
        assert SECRET in json.dumps(server_config.to_dict())  # type: ignore[union-attr]


@given(
    value=st.text(alphabet=st.characters(blacklist_categories=["Cs", "Cc"]), min_size=8, max_size=40).map(
        "canary".__add__
    ),
    name=st.sampled_from(["TOKEN", "A", "X-Header", "API_KEY", "LOG_LEVEL"]),
    place=st.sampled_from(["remote", "command", "docker", "object", "entry"]),
)
def test_no_value_of_a_variable_or_header_is_shown(value: str, name: str, place: str) -> None:
    variables = {name: value}
    given: Any = {
        "remote": {**REMOTE, "mcp_env_vars": variables},
        "command": {**COMMAND, "mcp_env_vars": variables},
        "docker": {**COMMAND, "mcp_command": ["docker", "run", "image"], "mcp_env_vars": variables},
        "object": tc.StdioServer("x", env=variables),
        "entry": {"command": "x", "env": {name: value.replace("$", "S")}},
    }[place]
    made = parse_registration(given, name="x")
    config = restore_secrets(made.config, made.secrets)
    assert "canary" not in repr((made, config)) + json.dumps([config_to_json(made.config), config_to_json(config)])
    assert not any("canary" in word for word in config.command)


# ---- any input -------------------------------------------------------------------------------------------------------


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["mcp", "x", "uvx", "sse"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        *FORM_FIELDS,
        *EXTENSION_FIELDS,
        *OPTION_FIELDS,
        "mcpServers",
        "packages",
        "remotes",
        "server",
        "command",
        "args",
        "type",
    ]
)


@given(
    st.dictionaries(KEYS | st.text(max_size=4), JSON, max_size=6) | JSON,
    st.sampled_from(
        [{}, REMOTE, COMMAND, {"command": "x"}, {"mcpServers": {"a": {"command": "x"}}}, server(package())]
    ),
    st.dictionaries(KEYS, JSON, max_size=2),
)
@example({"mcp_command": ["docker", "run", "--"]}, COMMAND, {})
@example({"url": "http://[::1"}, {}, {})
@example({"mcp_server_url": "http://[::1]:x"}, REMOTE, {})
@example({"\ud800": 1}, COMMAND, {})
@example({"name": "\ud800"}, COMMAND, {})
def test_any_json_is_read_or_refused_with_a_config_error(
    given: Any, base: dict[str, Any], more: dict[str, Any]
) -> None:
    whole = {**base, **given} if isinstance(given, dict) else given
    try:
        made = parse_registration(whole, name=None if "name" in base else "x", more=more, environ={})
    except ConfigError as exc:
        str(exc).encode()
        return
    text = json.dumps(config_to_json(made.config))
    assert config_from_json(json.loads(text)) == made.config
