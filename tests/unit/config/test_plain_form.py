"""Server configs to JSON and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.config.canary import URL, rotating_token
from toolcrib.config import (
    HttpServer,
    PythonServer,
    ServerConfig,
    SseServer,
    StdioServer,
    server_from_dict,
    server_from_json,
)
from toolcrib.errors import ConfigError
from toolcrib.policy.filters import static_filter
from toolcrib.types import ReconnectPolicy

names = st.text(st.sampled_from("abcXYZ_-"), min_size=1, max_size=6)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cc", "Cs"]), max_size=8)
timeouts = st.none() | st.floats(0.001, 1e6) | st.integers(1, 1000)
common: dict[str, st.SearchStrategy[Any]] = {
    "cache_tools_list": st.booleans(),
    "connect_timeout": timeouts,
    "discovery_timeout": timeouts,
    "execution_timeout": timeouts,
    "idle_timeout": timeouts,
    "max_attempts": st.integers(1, 9),
    "reconnect": st.builds(
        ReconnectPolicy, st.floats(0, 9), st.floats(0, 9), st.none() | st.integers(0, 9), st.floats(0, 1)
    ),
    "max_in_flight": st.none() | st.integers(1, 99),
    "lifecycle": st.sampled_from(["singleton", "transient"]),
    "retry_safe": st.booleans() | st.frozensets(names),
    "trusted": st.booleans(),
    "clean_arguments": st.sampled_from(["schema", "always", "never"]),
}
web: dict[str, st.SearchStrategy[Any]] = {
    **common,
    "headers": st.none() | st.dictionaries(names, texts),
    "ca": st.none() | st.just("/ca.pem"),
    "client_cert": st.none() | st.just("/c.pem") | st.just(("/c.pem", "/k.pem")),
    "proxy": st.none() | st.just("http://proxy:3128"),
    "verify": st.booleans(),
}
urls = st.sampled_from([URL, "http://localhost:1/x?y=z"])


def _built(kind: Any, required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(required, optional=optional).map(lambda values: kind(**values))


stdio_servers = _built(
    StdioServer,
    {"command": texts.filter(bool)},
    {
        **common,
        "args": st.lists(texts),
        "env": st.none() | st.dictionaries(names, texts),
        "cwd": st.none() | st.just("/x"),
    },
)
servers = (
    stdio_servers
    | _built(HttpServer, {"url": urls}, {**web, "streamable": st.booleans()})
    | _built(SseServer, {"url": urls}, web)
    | _built(PythonServer, {"python": texts.filter(bool)}, common)
)


@given(servers)
def test_every_config_comes_back_from_its_json(server: ServerConfig) -> None:
    assert server_from_json(server.to_json()) == server
    assert type(server).from_json(server.to_json().encode()) == server
    assert server_from_dict(server.to_dict()) == server
    assert server.to_dict()["type"] == server.transport_type.value


def test_the_plain_form_leaves_out_defaults_filter_and_functions() -> None:
    server = HttpServer(
        URL,
        headers={"X-Team": "a", "Authorization": rotating_token},
        tool_filter=static_filter(["a"]),
        streamable=False,
    )
    assert server.to_dict() == {"type": "http", "url": URL, "headers": {"X-Team": "a"}, "streamable": False}
    again = server_from_dict(server.to_dict())
    assert again.tool_filter is None
    assert StdioServer("python").to_json() == '{"type": "stdio", "command": "python", "args": []}'


def test_claudes_programs_know_one_word_for_http() -> None:
    assert HttpServer(URL).to_dict(format="claude") == {"type": "http", "url": URL}
    assert HttpServer(URL).to_dict() == {"type": "streamable_http", "url": URL}
    plain = HttpServer(URL, streamable=False)
    assert plain.to_dict(format="claude") == plain.to_dict() == {"type": "http", "url": URL, "streamable": False}


@given(servers)
def test_every_config_comes_back_from_claudes_form_too(server: ServerConfig) -> None:
    assert server_from_json(server.to_json(format="claude")) == server


@pytest.mark.parametrize("format", ["cursor", "", "Claude", 7])
def test_an_unknown_format_is_refused(format: Any) -> None:
    with pytest.raises(ConfigError, match="format: expected claude"):
        StdioServer("python").to_dict(format=format)


def test_the_plain_form_is_the_callers_to_change() -> None:
    server = StdioServer("python", ["a"], env={"A": "b"})
    plain = server.to_dict()
    plain["args"].append("b")
    plain["env"]["A"] = "c"
    assert server == StdioServer("python", ["a"], env={"A": "b"})


@pytest.mark.parametrize("tag", ["http", "HTTP", "streamable_http", "streamable-http"])
def test_both_names_of_http_mean_a_server_that_streams_unless_it_says_otherwise(tag: str) -> None:
    assert server_from_dict({"type": tag, "url": URL}) == HttpServer(URL)


def test_a_type_and_a_field_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        server_from_dict({"type": "streamable_http", "url": URL, "streamable": False})
    assert caught.value.key == "streamable"


def test_reading_as_one_kind_needs_no_type_but_minds_a_wrong_one() -> None:
    assert StdioServer.from_dict({"command": "python"}) == StdioServer("python")
    with pytest.raises(ConfigError) as caught:
        StdioServer.from_dict({"type": "sse", "command": "python"})
    assert (caught.value.key, caught.value.expected) == ("type", "stdio")


@pytest.mark.parametrize(
    "field,nearest", [("comand", "command"), ("cacheToolsList", "cache_tools_list"), ("arg", "args")]
)
def test_an_unknown_field_is_named_with_the_nearest_known_one(field: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"{field}: unknown setting; did you mean {nearest!r}") as caught:
        server_from_dict({"type": "stdio", "command": "python", field: "x"})
    assert caught.value.key == field
    assert nearest in str(caught.value.expected)


@pytest.mark.parametrize("field", ["\x1b[31m", "", 7, "zzz" * 100])
def test_an_odd_field_is_named_in_plain_characters(field: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        server_from_dict({"type": "stdio", "command": "python", field: "x"})
    assert str(caught.value).isprintable()
    assert len(str(caught.value.key)) <= 60


@pytest.mark.parametrize(
    "values,key",
    [({}, "type"), ({"type": "stdio"}, "command"), ({"type": "sse"}, "url"), ({"type": "python"}, "python")],
)
def test_a_missing_field_is_named(values: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}: missing") as caught:
        server_from_dict(values)
    assert caught.value.key == key


@pytest.mark.parametrize("values", [None, [], "stdio", 7])
def test_a_non_object_is_refused(values: Any) -> None:
    with pytest.raises(ConfigError):
        server_from_dict(values)
    with pytest.raises(ConfigError):
        server_from_json(json.dumps(values))
