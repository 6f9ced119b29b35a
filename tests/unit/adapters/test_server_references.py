"""Servers as an agent's list names them; tests/frameworks/drivers/crewai.py has the real configs of crewAI."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import toolcrib as tc
from toolcrib.adapters.server_references import NamedTools, read_server, read_servers
from toolcrib.policy.filters import DynamicFilter
from toolcrib.types import FilterContext, Tool


def config_of_crewai(**fields: Any) -> SimpleNamespace:
    return SimpleNamespace(**{"tool_filter": None, "cache_tools_list": False, **fields})


def test_configs_of_toolcrib_and_tool_servers_stay_as_they_are() -> None:
    given = [tc.StdioServer("node", ["server.js"]), tc.SseServer("https://old.example.com/sse"), tc.ToolServer("lab")]
    servers = read_servers(given)
    assert servers == {"server": given[0], "old_example_com": given[1], "lab": given[2]}


def test_fields_tell_the_configs_of_crewai_apart() -> None:
    stdio = config_of_crewai(command="uvx", args=["mcp-server-time"], env={"TZ": "UTC"}, cache_tools_list=True)
    http = config_of_crewai(url="https://a.example.com/mcp", headers={"X-Key": "k"}, streamable=False)
    sse = config_of_crewai(url="https://b.example.com/sse", headers=None)
    assert read_server(stdio) == tc.StdioServer("uvx", ["mcp-server-time"], env={"TZ": "UTC"}, cache_tools_list=True)
    assert read_server(http) == tc.HttpServer("https://a.example.com/mcp", headers={"X-Key": "k"}, streamable=False)
    assert read_server(sse) == tc.SseServer("https://b.example.com/sse")


def test_dicts_are_read_as_settings_files_have_them() -> None:
    assert read_server({"command": "node", "args": ["x.js"]}) == tc.StdioServer("node", ["x.js"])
    assert read_server({"url": "https://example.com/mcp"}) == tc.HttpServer("https://example.com/mcp")
    assert read_server({"type": "sse", "url": "https://example.com/sse"}) == tc.SseServer("https://example.com/sse")


def test_urls_that_name_tools_become_one_server_with_these_tools() -> None:
    url = "https://example.com/mcp"
    (server,) = read_servers([f"{url}#search", f"{url}#get_weather"]).values()
    assert isinstance(server, tc.HttpServer) and server.url == url
    assert server.tool_filter is not None
    allowed = [name for name in ("search", "getWeather", "delete") if server.tool_filter(Tool(name))]
    assert allowed == ["search", "getWeather"]
    (server,) = read_servers([f"{url}#search", url]).values()
    assert isinstance(server, tc.HttpServer) and server.tool_filter is None


def test_the_filter_of_a_url_reads_the_own_name_of_a_tool() -> None:
    assert NamedTools(frozenset({"search"}))(Tool("mcp__web__search", original_name="search"))


@pytest.mark.parametrize("text", ["notion", "crewai-amp:notion#search", "", "server.py"])
def test_other_texts_are_rejected(text: str) -> None:
    with pytest.raises(tc.ConfigError, match="expected a server config, a ToolServer, or an http:// or https:// URL"):
        read_servers([text])


def test_a_filter_with_two_parameters_gets_the_context() -> None:
    def only_admins(context: Any, tool: Any) -> bool:
        return bool(context.agent["role"] == "admin" and tool["name"].startswith("write_"))

    server = read_server(config_of_crewai(command="x", args=[], env=None, tool_filter=only_admins))
    assert isinstance(server, tc.StdioServer) and isinstance(server.tool_filter, DynamicFilter)
    assert server.tool_filter(FilterContext({"role": "admin"}), Tool("write_file"))
    assert not server.tool_filter(FilterContext({"role": "guest"}), Tool("write_file"))


def test_a_filter_with_one_parameter_gets_the_tool() -> None:
    def short(tool: Any, limit: int = 4) -> bool:
        return len(tool["name"]) <= limit

    server = read_server(config_of_crewai(url="https://example.com", headers=None, tool_filter=short))
    assert isinstance(server, tc.SseServer) and server.tool_filter is short


@pytest.mark.parametrize(
    "config, name",
    [
        (tc.StdioServer("npx", ["-y", "@mcp/weather-server@1.2.3", "/data"]), "weather-server"),
        (tc.StdioServer("python", ["-m", "my_mcp_server"]), "my_mcp_server"),
        (tc.StdioServer("/usr/bin/tools"), "tools"),
        (tc.StdioServer("tools", ["--api-key", "hunter2-secret-value"]), "tools"),
        (tc.HttpServer("https://user:password@api.example.com:8443/mcp?key=1"), "api_example_com"),
        (lambda: None, "server"),
    ],
)
def test_names_are_short_and_hold_no_secret(config: Any, name: str) -> None:
    assert list(read_servers([config, config])) == [name, f"{name}-2"]


def test_a_mapping_names_the_servers() -> None:
    assert read_servers({"web": "https://example.com/mcp"}) == {"web": tc.HttpServer("https://example.com/mcp")}
