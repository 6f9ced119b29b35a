"""Manifests: both formats, wrong fields by their paths, and files that must not be read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.provider.conftest import MakePlugin
from tests.unit.provider.manifests import REMOVED, changed, package, plugin, server
from toolcrib.errors import ConfigError
from toolcrib.provider.manifest import parse_server_json, read_manifest
from toolcrib.provider.manifest_values import select_entry
from toolcrib.provider.source_config import EnvironmentVariable, PackageInfo, SourceTransport

STDIO, SSE, HTTP = SourceTransport.STDIO, SourceTransport.SSE, SourceTransport.STREAMABLE_HTTP


def test_a_plugin_json_is_read(make_plugin: MakePlugin) -> None:
    folder = make_plugin(plugin())
    manifest = read_manifest(folder)
    assert (manifest.name, manifest.version, manifest.description) == (
        "@modelcontextprotocol/github",
        "1.0.0",
        "GitHub",
    )
    assert (manifest.file, manifest.folder, manifest.warnings) == (folder / "plugin.json", folder, ())
    (entry,) = manifest.entries
    assert (entry.name, entry.runtime, entry.command, entry.transport) == (
        "default",
        "uvx",
        ("mcp-server-github",),
        STDIO,
    )
    definition = EnvironmentVariable("GITHUB_TOKEN", "Personal Access Token", required=True, secret=True)
    assert [each.definition for each in entry.variables] == [definition]


def test_a_server_json_is_read(make_plugin: MakePlugin) -> None:
    variables = [
        {"name": "KEY", "isRequired": True, "isSecret": True},
        {"name": "UNITS", "default": "celsius", "choices": ["celsius", "kelvin"], "isSecret": False},
    ]
    document = server(package(environmentVariables=variables, fileSha256="a" * 64))
    (entry,) = read_manifest(make_plugin(document, file="server.json")).entries
    assert (entry.runtime, entry.command) == ("npx", ("@example/weather",))
    assert entry.package == PackageInfo("npm", "@example/weather", "1.0.2", "sha256:" + "a" * 64)
    key, units = entry.variables
    assert key.definition == EnvironmentVariable("KEY", required=True, secret=True)
    assert (units.definition.default, units.choices, units.is_public) == ("celsius", ("celsius", "kelvin"), True)


def test_comments_are_allowed_as_in_the_documents_of_the_provider(make_plugin: MakePlugin) -> None:
    text = json.dumps(plugin()).replace("{", "{ // a comment\n", 1)
    assert read_manifest(make_plugin(text)).name == "@modelcontextprotocol/github"


PLUGIN_FAULTS = [
    ("name", 3, "name"),
    ("name", "", "name"),
    ("name", REMOVED, "name"),
    ("version", 1.0, "version"),
    ("description", ["x"], "description"),
    ("packages", REMOVED, "packages"),
    ("packages", [], "packages"),
    ("packages", {}, "packages"),
    ("packages.0", "uvx", "packages[0]"),
    ("packages.0.name", 1, "packages[0].name"),
    ("packages.0.transport_type", "websocket", "packages[0].transport_type"),
    ("packages.0.transport_type", 1, "packages[0].transport_type"),
    ("packages.0.runtime", "uvxx", "packages[0].runtime"),
    ("packages.0.runtime", [], "packages[0].runtime"),
    ("packages.0.command", [], "packages[0].command"),
    ("packages.0.command", [" "], "packages[0].command"),
    ("packages.0.command", "mcp-server", "packages[0].command"),
    ("packages.0.command", ["a", 1], "packages[0].command[1]"),
    ("packages.0.command", ["a\0"], "packages[0].command[0]"),
    ("packages.0.command", REMOVED, "packages[0].command"),
    ("packages.0.environment_variables", {"A": 1}, "packages[0].environment_variables"),
    ("packages.0.environment_variables.0", None, "packages[0].environment_variables[0]"),
    ("packages.0.environment_variables.0.name", "", "packages[0].environment_variables[0].name"),
    ("packages.0.environment_variables.0.name", "A=B", "packages[0].environment_variables[0].name"),
    ("packages.0.environment_variables.0.name", REMOVED, "packages[0].environment_variables[0].name"),
    ("packages.0.environment_variables.0.required", "yes", "packages[0].environment_variables[0].required"),
    ("packages.0.environment_variables.0.secret", 1, "packages[0].environment_variables[0].secret"),
    ("packages.0.environment_variables.0.default", 1, "packages[0].environment_variables[0].default"),
    ("packages.0.environment_variables", [{"name": "A"}, {"name": "A"}], "packages[0].environment_variables"),
]


@pytest.mark.parametrize("path, value, key", PLUGIN_FAULTS)
def test_a_wrong_field_of_a_plugin_json_is_named(make_plugin: MakePlugin, path: str, value: Any, key: str) -> None:
    _assert_refused(make_plugin(changed(plugin(), path, value)), key)


SERVER = server(
    package(
        runtimeHint="npx",
        packageArguments=[{"type": "named", "name": "--port", "value": "1"}],
        environmentVariables=[{"name": "A", "choices": ["x"], "default": "x", "variables": {"v": {}}}],
    ),
    remotes=[{"type": "streamable-http", "url": "https://h/mcp", "headers": [{"name": "X-Key"}]}],
)
SERVER_FAULTS = [
    ("name", REMOVED, "name"),
    ("version", [], "version"),
    ("packages", {}, "packages"),
    ("packages.0.registryType", REMOVED, "packages[0].registryType"),
    ("packages.0.identifier", "--registry=http://evil", "packages[0].identifier"),
    ("packages.0.identifier", "git+https://evil/x", "packages[0].identifier"),
    ("packages.0.identifier", REMOVED, "packages[0].identifier"),
    ("packages.0.version", "latest", "packages[0].version"),
    ("packages.0.version", "^1.2.3", "packages[0].version"),
    ("packages.0.version", "1.x", "packages[0].version"),
    ("packages.0.version", "1.0 --evil", "packages[0].version"),
    ("packages.0.version", 1, "packages[0].version"),
    ("packages.0.fileSha256", "abc", "packages[0].fileSha256"),
    ("packages.0.runtimeHint", "docker", "packages[0].runtimeHint"),
    ("packages.0.transport", REMOVED, "packages[0].transport"),
    ("packages.0.transport.type", REMOVED, "packages[0].transport.type"),
    ("packages.0.transport.type", "pipe", "packages[0].transport.type"),
    ("packages.0.transport", {"type": "sse", "url": "http://evil.example/sse"}, "packages[0].transport.url"),
    ("packages.0.packageArguments.0.type", "other", "packages[0].packageArguments[0].type"),
    ("packages.0.packageArguments.0.name", "port", "packages[0].packageArguments[0].name"),
    ("packages.0.packageArguments.0.value", 1, "packages[0].packageArguments[0].value"),
    ("packages.0.packageArguments.0", {"type": "positional"}, "packages[0].packageArguments[0].value"),
    ("packages.0.environmentVariables.0.default", "y", "packages[0].environmentVariables[0].default"),
    ("packages.0.environmentVariables.0.isSecret", "no", "packages[0].environmentVariables[0].isSecret"),
    ("packages.0.environmentVariables.0.choices", "x", "packages[0].environmentVariables[0].choices"),
    ("packages.0.environmentVariables.0.variables.v", 1, "packages[0].environmentVariables[0].variables.v"),
    ("packages.0.environmentVariables", [{"name": "A"}, {"name": "A"}], "packages[0].environmentVariables"),
    ("remotes.0.type", "stdio", "remotes[0].type"),
    ("remotes.0.type", REMOVED, "remotes[0].type"),
    ("remotes.0.url", "", "remotes[0].url"),
    ("remotes.0.headers.0.name", "X Key", "remotes[0].headers[0].name"),
    ("remotes.0.headers", [{"name": "a"}, {"name": "A"}], "remotes[0].headers"),
    ("_meta", {"io.modelcontextprotocol.registry/official": {"status": "deleted"}},
     "_meta.io.modelcontextprotocol.registry/official.status"),
    ("_meta", [], "_meta"),
]  # fmt: skip


@pytest.mark.parametrize("path, value, key", SERVER_FAULTS)
def test_a_wrong_field_of_a_server_json_is_named(make_plugin: MakePlugin, path: str, value: Any, key: str) -> None:
    _assert_refused(make_plugin(changed(SERVER, path, value), file="server.json"), key)


def _assert_refused(folder: Path, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_manifest(folder)
    error = caught.value
    assert error.key == key
    assert error.expected
    assert str(folder) in str(error)
    assert error.file is not None


def test_errors_name_the_line(make_plugin: MakePlugin) -> None:
    folder = make_plugin(json.dumps(plugin(runtime="nmp"), indent=1))
    with pytest.raises(ConfigError, match=r"packages\[0\].runtime: expected one of .*Did you mean 'npx'") as caught:
        read_manifest(folder)
    assert caught.value.line == 9


@pytest.mark.parametrize(
    "text, line, column",
    [
        ("{\n 'a': 1}", 2, 2),
        ('{"a": 1', 1, 8),
        ("", 1, 1),
        ('{"name": "a", "name": "b"}', 1, 15),
        ("[" * 100_000, 1, 65),
    ],
)
def test_invalid_json_is_refused_with_line_and_column(
    make_plugin: MakePlugin, text: str, line: int, column: int
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_manifest(make_plugin(text))
    assert (caught.value.line, caught.value.column) == (line, column)


def test_what_is_no_manifest_is_refused(make_plugin: MakePlugin, tmp_path: Path) -> None:
    for number, text in enumerate(["[]", "3", "null", '"x"']):
        with pytest.raises(ConfigError, match="expected an object"):
            read_manifest(make_plugin(text, folder=f"p{number}"))
    big = make_plugin(json.dumps({"a": "x" * 2**20}), folder="big")
    with pytest.raises(ConfigError, match="expected at most 1048576 bytes"):
        read_manifest(big)
    (tmp_path / "binary").mkdir()
    (tmp_path / "binary" / "plugin.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="UTF-8"):
        read_manifest(tmp_path / "binary")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"mcp_plugin_dir: expected a folder with plugin.json or server.json"):
        read_manifest(tmp_path / "empty")
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "plugin.json")
    with pytest.raises(ConfigError, match="regular file"):
        read_manifest(tmp_path / "pipe")
    for wrong in ("missing", "", "a\0b", "x" * 5000):
        with pytest.raises(ConfigError) as caught:
            read_manifest(str(tmp_path / wrong) if wrong == "missing" else wrong)
        assert caught.value.key == "mcp_plugin_dir"


def test_plugin_json_wins_over_server_json_with_a_warning(make_plugin: MakePlugin) -> None:
    make_plugin(SERVER, file="server.json")
    manifest = read_manifest(make_plugin(plugin()))
    assert manifest.name == "@modelcontextprotocol/github"
    assert any("server.json is ignored" in warning for warning in manifest.warnings)


def test_warnings_about_a_missing_version_and_misspelled_fields(make_plugin: MakePlugin) -> None:
    document = changed(plugin(enviroment_variables=[]), "version", REMOVED)
    warnings = read_manifest(make_plugin(document)).warnings
    assert any(warning.startswith("version: the manifest has none") for warning in warnings)
    assert any("did you mean 'environment_variables'?" in warning for warning in warnings)


# ---- plugin_root ---------------------------------------------------------------------------------------------------


def test_manifests_below_the_root_are_read(make_plugin: MakePlugin, tmp_path: Path) -> None:
    folder = make_plugin(plugin(), folder="root/github")
    for path in (folder, "github", "./github/../github", "github/plugin.json"):
        assert read_manifest(path, plugin_root=tmp_path / "root").folder == folder
    (tmp_path / "root" / "link").symlink_to("github")
    assert read_manifest("link", plugin_root=tmp_path / "root").folder == folder
    (tmp_path / "other-root").symlink_to(tmp_path / "root")
    assert read_manifest("github", plugin_root=tmp_path / "other-root").folder == folder


def test_nothing_outside_the_root_is_read(make_plugin: MakePlugin, tmp_path: Path) -> None:
    outside = make_plugin(plugin(), folder="outside")
    make_plugin(plugin(), folder="root-2")
    root = tmp_path / "root"
    for name in ("folder", "manifest", "loop"):
        (root / name).mkdir(parents=True)
    (root / "link").symlink_to(outside)
    (root / "deep").symlink_to("link")
    (root / "manifest" / "plugin.json").symlink_to(outside / "plugin.json")
    (root / "folder" / "server.json").symlink_to("../../outside/plugin.json")
    paths = [
        "..",
        "../outside",
        "folder/../../outside",
        str(outside),
        "/",
        "/etc",
        "link",
        "deep",
        "manifest",
        "folder",
    ]
    for path in [*paths, "../root-2", "../missing", str(outside / "plugin.json"), "manifest/plugin.json"]:
        with pytest.raises(ConfigError, match="mcp_plugin_dir: expected a path below plugin_root") as caught:
            read_manifest(path, plugin_root=root)
        assert str(outside) not in str(caught.value)
    (root / "loop" / "plugin.json").symlink_to("plugin.json")
    with pytest.raises(ConfigError):
        read_manifest("loop", plugin_root=root)


# ---- which entry is taken --------------------------------------------------------------------------------------------


def entries(*names_and_transports: tuple[str, str]) -> dict[str, Any]:
    document = plugin()
    document["packages"] = [{"name": n, "transport_type": t, "command": [n or t]} for n, t in names_and_transports]
    return document


@pytest.mark.parametrize(
    "packages, requested, taken",
    [
        ([("a", "stdio"), ("default", "stdio")], None, "default"),
        ([("a", "sse"), ("b", "stdio"), ("c", "stdio")], None, "b"),
        ([("a", "sse"), ("b", "streamable_http")], None, "a"),
        ([("a", "stdio"), ("b", "sse")], SSE, "b"),
        ([("default", "stdio"), ("b", "sse")], SSE, "b"),
        ([("a", "sse"), ("default", "sse")], SSE, "default"),
        ([("a", "stdio"), ("b", "stdio")], SSE, "a"),
        ([("a", "sse"), ("default", "stdio")], HTTP, "default"),
    ],
)
def test_which_package_is_taken(
    make_plugin: MakePlugin, packages: list[tuple[str, str]], requested: SourceTransport | None, taken: str
) -> None:
    manifest = read_manifest(make_plugin(entries(*packages)))
    assert select_entry(manifest, requested).name == taken


def test_packages_come_before_remotes_unless_http_is_requested() -> None:
    remote = {"type": "streamable-http", "url": "https://h/mcp"}
    both = parse_server_json(server(package(), remotes=[remote]))
    assert not select_entry(both).is_remote
    assert not select_entry(both, STDIO).is_remote
    assert select_entry(both, HTTP).is_remote
    alone = parse_server_json(server(remotes=[remote]))
    assert select_entry(alone).is_remote
    with pytest.raises(ConfigError, match="over stdio"):
        select_entry(alone, STDIO)


def test_bundles_are_left_out() -> None:
    bundle = package(registryType="mcpb", identifier="https://h/x.mcpb", fileSha256="a" * 64)
    assert select_entry(parse_server_json(server(bundle, package()))).runtime == "npx"
    with pytest.raises(ConfigError, match=r"packages: expected .*packages\[0\]: mcpb: unpack the bundle"):
        select_entry(parse_server_json(server(bundle)))


def test_a_response_of_the_registry_is_read_and_a_deleted_server_refused() -> None:
    def response(status: str) -> dict[str, Any]:
        return {"server": SERVER, "_meta": {"io.modelcontextprotocol.registry/official": {"status": status}}}

    assert parse_server_json(response("active")).name == "io.github.example/weather"
    assert any("deprecated" in each for each in parse_server_json(response("deprecated")).warnings)
    with pytest.raises(ConfigError, match="status: expected a server that is not deleted"):
        parse_server_json(response("deleted"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.data())
def test_any_change_of_a_server_json_is_read_or_refused(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([fault[0] for fault in SERVER_FAULTS]))
    document = changed({**SERVER, "_meta": {}}, path, data.draw(JSON))
    try:
        manifest = parse_server_json(document)
    except ConfigError as exc:
        error: ConfigError | None = exc
    else:
        error = None
        assert manifest.entries
    assert error is None or error.expected
