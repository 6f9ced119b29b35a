"""Values that server configs reject, without repeating a secret."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.unit.config.canary import CANARY, URL, every_text_of
from toolcrib.config import HttpServer, SseServer, StdioServer, server_from_dict, server_from_json
from toolcrib.errors import ConfigError
from toolcrib.settings.documents import Table
from toolcrib.types import UNSET, ReconnectPolicy

WRONG: list[tuple[str, dict[str, Any]]] = [
    ("command", {"command": ""}),
    ("command", {"command": None}),
    ("command", {"command": "a\0b"}),
    ("command", {"command": "a\ud800b"}),
    ("args", {"args": "server.py"}),
    ("args", {"args": b"server.py"}),
    ("args", {"args": None}),
    ("args[1]", {"args": ["a", 1]}),
    ("args[0]", {"args": ["a\0"]}),
    ("args[0]", {"args": ["\ud800"]}),
    ("env", {"env": [("A", "b")]}),
    ("env", {"env": {"A=B": "c"}}),
    ("env", {"env": {"": "c"}}),
    ("env.PORT", {"env": {"PORT": 8080}}),
    ("env.A", {"env": {"A": "\0"}}),
    ("env.A", {"env": {"A": "\udfff"}}),
    ("env", {"env": {"\ud800": "a"}}),
    ("cwd", {"cwd": ""}),
    ("cwd", {"cwd": "\ud800"}),
    ("tool_filter", {"tool_filter": ["search"]}),
    ("cache_tools_list", {"cache_tools_list": 1}),
    ("cache_tools_list", {"cache_tools_list": UNSET}),
    ("connect_timeout", {"connect_timeout": 0}),
    ("connect_timeout", {"connect_timeout": -1.0}),
    ("discovery_timeout", {"discovery_timeout": "30"}),
    ("execution_timeout", {"execution_timeout": True}),
    ("idle_timeout", {"idle_timeout": float("nan")}),
    ("idle_timeout", {"idle_timeout": float("inf")}),
    ("max_attempts", {"max_attempts": 0}),
    ("max_attempts", {"max_attempts": 1.5}),
    ("max_in_flight", {"max_in_flight": 0}),
    ("max_in_flight", {"max_in_flight": True}),
    ("reconnect", {"reconnect": 3}),
    ("reconnect.max_retries", {"reconnect": ReconnectPolicy(max_retries=-1)}),
    ("reconnect.max_retries", {"reconnect": {"max_retries": "none"}}),
    ("reconnect.jitter_factor", {"reconnect": ReconnectPolicy(jitter_factor=2)}),
    ("reconnect.base_delay", {"reconnect": {"base_delay": "1"}}),
    ("reconnect.jitter", {"reconnect": {"jitter": 0.1}}),
    ("lifecycle", {"lifecycle": "forever"}),
    ("retry_safe", {"retry_safe": "search"}),
    ("retry_safe", {"retry_safe": [1]}),
    ("trusted", {"trusted": "yes"}),
    ("clean_arguments", {"clean_arguments": True}),
]


@pytest.mark.parametrize("key,given_values", WRONG)
def test_a_wrong_field_is_named_with_what_was_expected(key: str, given_values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        StdioServer(**{"command": "python", **given_values})
    assert caught.value.key == key
    assert caught.value.expected
    assert str(caught.value).startswith(f"{key}: ")
    assert caught.value.expected in str(caught.value) or "unknown setting" in str(caught.value)


@pytest.mark.parametrize(
    "value, kind",
    [
        ({}, "object"),
        (Table(), "object"),
        ([], "list"),
        ("", "string"),
        (1.5, "number"),
        (True, "boolean"),
        (b"", "bytes"),
    ],
)
def test_what_was_given_is_called_as_in_files(value: Any, kind: str) -> None:
    with pytest.raises(ConfigError, match=rf", got (an? )?{kind} \(value hidden\)$"):
        StdioServer(value)


def test_the_name_of_a_file_that_is_not_utf_8_can_be_given() -> None:
    name = os.fsdecode(b"caf\xe9")
    assert StdioServer(name, [name], cwd=name).args == (name,)


def test_one_string_for_the_arguments_is_refused_in_words_that_help() -> None:
    with pytest.raises(ConfigError, match=r"args: expected a list of strings, one for each argument, .*'-m', 'server'"):
        StdioServer("python", "-m server")


WRONG_WEB: list[tuple[str, dict[str, Any]]] = [
    *(
        ("url", {"url": url})
        for url in ("", None, "tools.example.com/mcp", "/mcp", "ftp://x/y", "http://", "https:///p", "http://h/\ud800")
    ),
    *(
        ("url", {"url": url})
        for url in ("http://a:b", "http://a:99999", "http://[::1", "http://a b/", "http://a/\n", " http://a")
    ),
    ("headers", {"headers": [("A", "b")]}),
    ("headers", {"headers": {"A B": "c"}}),
    ("headers", {"headers": {1: "c"}}),
    ("headers.A", {"headers": {"A": 1}}),
    ("headers.A", {"headers": {"A": "b\r\nX: y"}}),
    ("headers.A", {"headers": {"A": "token\n"}}),
    ("headers.A", {"headers": {"A": "\ud800"}}),
    ("ca", {"ca": 1}),
    ("client_cert", {"client_cert": ["only-one"]}),
    ("client_cert[1]", {"client_cert": ("cert", None)}),
    ("proxy", {"proxy": "proxy:3128"}),
    ("verify", {"verify": "no"}),
]


@pytest.mark.parametrize("kind", [HttpServer, SseServer])
@pytest.mark.parametrize("key,given_values", WRONG_WEB)
def test_a_wrong_field_of_a_remote_server_is_named(kind: Any, key: str, given_values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        kind(**{"url": URL, **given_values})
    assert caught.value.key == key
    assert caught.value.expected


@pytest.mark.parametrize("url", ["http://localhost:8000/mcp", "HTTPS://X", "http://[::1]:80/", "https://u:p@h/x?y=z#f"])
def test_absolute_web_urls_are_kept_as_they_are(url: str) -> None:
    assert HttpServer(url).url == SseServer(url).url == url


SECRETS_IN_WRONG_PLACES: list[dict[str, Any]] = [
    {"type": "stdio", "command": "x", "env": {"TOKEN": [CANARY]}},
    {"type": "stdio", "command": "x", "env": {f"TOKEN={CANARY}": ""}},
    {"type": "stdio", "command": "x", "env": {"TOKEN": f"{CANARY}\0"}},
    {"type": "stdio", "command": {"x": CANARY}},
    {"type": "stdio", "command": "x", "args": f"--token={CANARY}"},
    {"type": "stdio", "command": "x", "connect_timeout": CANARY},
    {"type": "stdio", "command": "x", "lifecycle": CANARY},
    {"type": "http", "url": f"ftp://user:{CANARY}@host/"},
    {"type": "http", "url": f"http://user:{CANARY}/x@host/"},
    {"type": "http", "url": f"http://host:{CANARY}/"},
    {"type": "http", "url": f"host?token={CANARY}"},
    {"type": "http", "url": URL, "proxy": f"user:{CANARY}@proxy:1"},
    {"type": "http", "url": URL, "headers": {"Authorization": f"Bearer {CANARY}\n"}},
    {"type": "http", "url": URL, "headers": {f"Bearer {CANARY}": "Authorization"}},
    {"type": "http", "url": URL, "headers": f"Authorization: {CANARY}"},
    {"type": "sse", "url": URL, "headers": {"Authorization": CANARY}, "verify": CANARY},
    {"type": "sse", "url": f"{URL}?token={CANARY}", "headerz": CANARY},
    {"type": CANARY},
    {"type": {"x": CANARY}},
]


@pytest.mark.parametrize("values", SECRETS_IN_WRONG_PLACES)
def test_no_error_repeats_a_value_not_even_by_what_it_is_chained_to(values: dict[str, Any]) -> None:
    for read in (server_from_dict, lambda v: server_from_json(json.dumps(v))):
        with pytest.raises(ConfigError) as caught:
            read(values)
        assert CANARY not in every_text_of(caught.value)


@pytest.mark.parametrize(
    "text", [f'{{"token": "{CANARY}"', f'"{CANARY}"', f"[{CANARY}]", f"{CANARY}", '{"a": ' * 100_000]
)
def test_json_that_cannot_be_read_is_reported_without_its_text(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        server_from_json(text)
    assert CANARY not in every_text_of(caught.value)


def test_a_json_error_says_where() -> None:
    with pytest.raises(ConfigError, match="not JSON at line 2, column 5"):
        server_from_json('{"type":\n    nothing}')
    with pytest.raises(ConfigError, match="not JSON"):
        server_from_json(b"\xff\xfe\x00")
