"""crewAI's MCP module, sentence by sentence: configs, filters, identifiers, argument cleaning, secrets, serialisation.

Where that document writes `MCPServerStdio::new(...).with_args(...)`, Toolcrib writes `StdioServer(..., args)`.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from typing import Any

import pytest

import toolcrib as tc
from toolcrib import clean_tool_arguments, server_from_dict, server_from_json
from toolcrib.policy.filters import allows

CONFIGS: list[Any] = [
    tc.StdioServer("python"),
    tc.HttpServer("https://example.com"),
    tc.SseServer("https://example.com/sse"),
]
KINDS = ["stdio", "http", "sse"]


# ---- "TransportType": stdio, http (non-streaming), streamable_http, sse


def test_transport_types_display_as_their_value() -> None:
    shown = {kind: (str(kind), kind.value) for kind in tc.TransportType}
    expected = {
        tc.TransportType.STDIO: ("stdio", "stdio"),
        tc.TransportType.HTTP: ("http", "http"),
        tc.TransportType.STREAMABLE_HTTP: ("streamable_http", "streamable_http"),
        tc.TransportType.SSE: ("sse", "sse"),
    }
    assert shown.items() >= expected.items()  # a Python file is one more way, specific to Toolcrib


@pytest.mark.parametrize("kind", tc.TransportType)
def test_transport_types_are_parsed_whatever_their_case(kind: tc.TransportType) -> None:
    for text in (kind.value, kind.value.upper(), kind.value.title()):
        assert tc.TransportType.parse(text) is kind


def test_an_invalid_transport_type_is_reported_with_the_choices() -> None:
    with pytest.raises(tc.ConfigError, match="stdio, http, streamable_http, sse"):
        tc.TransportType.parse("websocket")


# ---- "Concrete transports" and "Server identification"


def test_a_stdio_server_has_transport_type_and_identifier() -> None:
    server = tc.StdioServer("python", ["server.py"])
    assert server.transport_type is tc.TransportType.STDIO
    assert server.server_identifier == "stdio:python:server.py"


def test_further_arguments_are_joined_to_the_identifier_the_same_way() -> None:
    assert tc.StdioServer("python", ["-m", "mcp_server"]).server_identifier == "stdio:python:-m:mcp_server"
    assert tc.StdioServer("python").server_identifier == "stdio:python"


def test_an_http_server_is_streamable_by_default_and_plain_http_if_asked() -> None:
    url = "https://api.example.com/mcp"
    assert tc.HttpServer(url).streamable is True
    assert tc.HttpServer(url, streamable=False).transport_type is tc.TransportType.HTTP
    assert tc.HttpServer(url, streamable=True).transport_type is tc.TransportType.STREAMABLE_HTTP


def test_an_http_server_is_identified_by_its_url() -> None:
    assert tc.HttpServer("https://example.com/mcp").server_identifier == "http:https://example.com/mcp"
    plain = tc.HttpServer("https://example.com/mcp", streamable=False)
    assert plain.server_identifier == "http:https://example.com/mcp"


def test_an_sse_server_has_transport_type_and_identifier() -> None:
    server = tc.SseServer("https://api.example.com/sse")
    assert server.transport_type is tc.TransportType.SSE
    assert server.server_identifier == "sse:https://api.example.com/sse"


@pytest.mark.parametrize("kind", [tc.HttpServer, tc.SseServer])
@pytest.mark.parametrize(
    "one,other",
    [
        ("https://example.com/mcp?team=red", "https://example.com/mcp?team=blue"),
        ("https://ann:x@example.com/mcp", "https://bob:x@example.com/mcp"),
        ("https://ann:x@example.com/mcp", "https://ann:y@example.com/mcp"),
        ("https://example.com/mcp#a", "https://example.com/mcp#b"),
    ],
)
def test_the_identifier_is_unique_without_showing_a_secret(kind: Any, one: str, other: str) -> None:
    """Each server config provides a unique identifier used for caching and logging."""
    assert kind(one).server_identifier == kind(one).server_identifier != kind(other).server_identifier
    for url in (one, other):
        shown = kind(url).server_identifier
        assert "<masked>" in shown and not any(word in shown for word in ("red", "blue", "ann", "bob"))
        assert tc.Client(kind(url)).name == shown


def test_arguments_with_secrets_in_urls_make_different_identifiers() -> None:
    one, other = (tc.StdioServer("mcp-remote", [f"https://example.com/mcp?key={key}"]) for key in ("a", "b"))
    assert one.server_identifier != other.server_identifier


def test_the_hash_in_an_identifier_cannot_be_computed_from_a_guess() -> None:
    """Otherwise a short password in a URL could be found in a log by trying. Another process has another hash."""
    code = "import toolcrib; print(toolcrib.HttpServer('https://example.com/mcp?pin=1234').server_identifier)"
    shown = {subprocess.check_output([sys.executable, "-c", code], text=True) for _ in range(2)}
    assert len(shown) == 2
    assert all(text.startswith("http:https://example.com/mcp?pin=<masked> #") for text in shown)


# ---- "Constants"


def test_the_constants_have_names() -> None:
    """MCP_CONNECTION_TIMEOUT, MCP_TOOL_EXECUTION_TIMEOUT, MCP_DISCOVERY_TIMEOUT 30; MCP_MAX_RETRIES 3; CACHE_TTL 300.

    That a client uses them is tested in test_000_crewai_client.py and test_000_crewai_retry_and_cache.py.
    """
    assert tc.defaults.CONNECT_TIMEOUT == tc.defaults.EXECUTION_TIMEOUT == tc.defaults.DISCOVERY_TIMEOUT == 30
    assert (tc.defaults.MAX_ATTEMPTS, tc.defaults.CACHE_TTL_SECONDS) == (3, 300)
    settings = tc.Client(tc.StdioServer("python"))._settings
    assert settings.connect_timeout is tc.defaults.CONNECT_TIMEOUT
    assert settings.execution_timeout is tc.defaults.EXECUTION_TIMEOUT
    assert settings.discovery_timeout is tc.defaults.DISCOVERY_TIMEOUT


# ---- "Server configuration": fields and defaults


def test_the_fields_of_a_stdio_server() -> None:
    server = tc.StdioServer("npx", ["-y", "@mcp/weather-server"], env={"API_KEY": "secret123"}, cache_tools_list=True)
    assert server.command == "npx"
    assert list(server.args) == ["-y", "@mcp/weather-server"]
    assert server.env == {"API_KEY": "secret123"}
    assert server.cache_tools_list is True


def test_the_defaults_of_a_stdio_server() -> None:
    server = tc.StdioServer("python")
    assert list(server.args) == []
    assert server.env is None
    assert server.tool_filter is None
    assert server.cache_tools_list is False


@pytest.mark.parametrize("kind", [tc.HttpServer, tc.SseServer])
def test_the_fields_and_defaults_of_remote_servers(kind: Any) -> None:
    server = kind("https://api.example.com/mcp")
    assert server.url == "https://api.example.com/mcp"
    assert server.headers is None
    assert server.tool_filter is None
    assert server.cache_tools_list is False
    headers = {"Authorization": "Bearer token123"}
    assert kind("https://api.example.com/mcp", headers=headers, cache_tools_list=True).headers == headers


@pytest.mark.parametrize("required", [{"type": "stdio"}, {"type": "http"}, {"type": "sse"}])
def test_command_and_url_are_required(required: dict[str, Any]) -> None:
    with pytest.raises(tc.ConfigError, match=r"(command|url): missing"):
        server_from_dict(required)


@pytest.mark.parametrize("server", CONFIGS, ids=KINDS)
def test_what_all_configs_have_in_common_is_asked_of_any_of_them(server: tc.ServerConfig) -> None:
    assert isinstance(server, tc.ServerConfig)
    assert server.tool_filter is None
    assert server.cache_tools_list is False
    assert server.server_identifier


# ---- "Tool filtering"


def test_a_config_carries_a_plain_function_as_its_filter() -> None:
    server = tc.StdioServer("python", tool_filter=lambda tool: str(tool.get("name")).startswith("allowed_"))
    assert allows(server.tool_filter, tc.Tool.from_wire({"name": "allowed_x"}))
    assert not allows(server.tool_filter, tc.Tool.from_wire({"name": "other"}))


def test_an_allow_list_lets_only_its_tools_through() -> None:
    only = tc.static_filter(allowed=["get_weather", "search_files"])
    assert only({"name": "get_weather"})
    assert not only({"name": "delete_files"})


def test_a_block_list_lets_all_others_through() -> None:
    without = tc.static_filter(blocked=["dangerous_tool"])
    assert without({"name": "safe_tool"})
    assert not without({"name": "dangerous_tool"})


def test_a_tool_in_both_lists_is_blocked() -> None:
    both = tc.static_filter(["tool_a", "tool_b"], ["tool_b"])
    assert [both({"name": name}) for name in ("tool_a", "tool_b", "tool_c")] == [True, False, False]


def test_a_static_filter_can_be_used_wherever_a_function_can() -> None:
    server = tc.StdioServer("python", tool_filter=tc.static_filter(["search", "calculate"]))
    assert allows(server.tool_filter, tc.Tool.from_wire({"name": "search"}))
    assert not allows(server.tool_filter, tc.Tool.from_wire({"name": "write"}))


def test_a_dynamic_filter_sees_agent_server_and_run() -> None:
    def only_admins_write(context: tc.FilterContext, tool: tc.Tool) -> bool:
        if tool.name.startswith("write_"):
            return (context.agent or {}).get("role") == "admin"
        return True

    made = tc.dynamic_filter(only_admins_write)
    admin = tc.FilterContext({"role": "admin"}, "my_server", None)
    guest = tc.FilterContext({"role": "guest"}, "my_server", None)
    write, read = (tc.Tool.from_wire({"name": name}) for name in ("write_file", "read_file"))
    assert [allows(made, write, admin), allows(made, write, guest), allows(made, read, guest)] == [True, False, True]


def test_the_context_of_a_filter_has_agent_server_name_and_an_optional_run_context() -> None:
    context = tc.FilterContext(agent={"role": "admin"}, server_name="my_server")
    assert (context.agent, context.server_name, context.run_context) == ({"role": "admin"}, "my_server", None)


# ---- "Argument cleaning"


def test_the_documents_own_example_of_cleaning() -> None:
    given = {"query": "test", "unused": None, "sources": ["web", "file"]}
    assert clean_tool_arguments(given) == {"query": "test", "sources": [{"type": "web"}, {"type": "file"}]}
    assert given == {"query": "test", "unused": None, "sources": ["web", "file"]}


@pytest.mark.parametrize(
    "given,expected",
    [
        pytest.param({"a": None, "b": 0, "c": "", "d": False}, {"b": 0, "c": "", "d": False}, id="1: nulls go"),
        pytest.param(
            {"sources": ["web", {"type": "file"}]}, {"sources": [{"type": "web"}, {"type": "file"}]}, id="2: sources"
        ),
        pytest.param(
            {"o": {"x": None, "y": 1}, "l": [None, {"x": None, "y": 1}, [None, 2]]},
            {"o": {"y": 1}, "l": [{"y": 1}, [2]]},
            id="3: nested",
        ),
        pytest.param({"o": {}, "l": [], "d": {"e": {"f": None}}, "s": []}, {}, id="4: empties go"),
    ],
)
def test_the_four_rules_of_cleaning(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert clean_tool_arguments(given) == expected


# ---- "Debug security"


@pytest.mark.parametrize("kind", [tc.HttpServer, tc.SseServer])
def test_header_values_are_masked_in_debug_output(kind: Any) -> None:
    server = kind("https://example.com", headers={"Authorization": "Bearer secret_token"})
    for text in (repr(server), str(server), f"{server}"):
        assert "https://example.com" in text
        assert "Authorization=<masked>" in text
        assert "secret_token" not in text


def test_variable_values_are_masked_in_debug_output() -> None:
    shown = repr(tc.StdioServer("npx", env={"API_KEY": "secret123"}))
    assert "API_KEY=<masked>" in shown
    assert "secret123" not in shown


# ---- "Serialization"


def test_the_documents_own_example_of_serialisation() -> None:
    server = tc.HttpServer("https://example.com/mcp", cache_tools_list=True, tool_filter=tc.static_filter(["a"]))
    again = tc.HttpServer.from_json(server.to_json())
    assert again.url == "https://example.com/mcp"
    assert again.cache_tools_list
    assert again.tool_filter is None


@pytest.mark.parametrize(
    "server,tag",
    [
        (tc.StdioServer("python", ["-m", "x"], env={"A": "b"}), "stdio"),
        (tc.HttpServer("https://example.com/mcp", headers={"A": "b"}), "streamable_http"),
        (tc.HttpServer("https://example.com/mcp", streamable=False), "http"),
        (tc.SseServer("https://example.com/sse", cache_tools_list=True), "sse"),
    ],
)
def test_any_config_is_written_with_its_type_and_read_back_by_it(server: tc.ServerConfig, tag: str) -> None:
    text = server.to_json()
    assert json.loads(text)["type"] == tag
    assert server_from_json(text) == server


@pytest.mark.parametrize("server", CONFIGS, ids=KINDS)
def test_the_filter_is_never_written(server: tc.ServerConfig) -> None:

    filtered = dataclasses.replace(server, tool_filter=lambda tool: True)
    assert filtered.to_dict() == server.to_dict()
    assert server_from_dict(filtered.to_dict()).tool_filter is None
