"""Server configs as values: what they keep, and which transport they name."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.config.canary import URL, rotating_token
from toolcrib.config import HttpServer, PythonServer, SseServer, StdioServer, TransportType
from toolcrib.errors import ConfigError
from toolcrib.policy.filters import static_filter
from toolcrib.types import UNSET, ReconnectPolicy


def test_a_stdio_server_needs_only_a_command() -> None:
    server = StdioServer("python")
    assert (server.command, server.args, server.env, server.cwd) == ("python", (), None, None)


def test_common_options_are_at_their_defaults() -> None:
    for server in (StdioServer("python"), HttpServer(URL), SseServer(URL), PythonServer("tools.py")):
        assert server.tool_filter is None
        assert server.cache_tools_list is server.retry_safe is server.trusted is False
        assert server.lifecycle == "singleton"
        for name in ("connect", "discovery", "execution", "idle"):
            assert getattr(server, f"{name}_timeout") is UNSET
        assert server.max_attempts is server.reconnect is server.max_in_flight is server.clean_arguments is UNSET


def test_no_time_out_is_something_else_than_none_given() -> None:
    assert StdioServer("python", connect_timeout=None).connect_timeout is None
    assert StdioServer("python", connect_timeout=None) != StdioServer("python")


def test_arguments_are_kept_as_a_tuple_and_mappings_as_read_only_copies() -> None:
    args, env = ["-m", "server"], {"KEY": "value"}
    server = StdioServer("python", args, env=env)
    args.append("more")
    env["OTHER"] = "more"
    assert server.args == ("-m", "server")
    assert server.env == {"KEY": "value"}
    with pytest.raises(TypeError):
        server.env["KEY"] = "other"  # type: ignore[index]


def test_paths_are_taken_as_their_texts() -> None:
    server = StdioServer(Path("/bin/server"), [Path("/data")], cwd=Path("/srv"))  # type: ignore[arg-type, list-item]
    assert (server.command, server.args, server.cwd) == ("/bin/server", ("/data",), "/srv")
    assert HttpServer(URL, ca=Path("/ca.pem"), client_cert=("/c.pem", "/k.pem")).ca == "/ca.pem"


def test_their_own_options_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        HttpServer(URL, {"Authorization": "x"})  # type: ignore[misc]
    with pytest.raises(TypeError):
        StdioServer("python", [], {"A": "b"})  # type: ignore[misc]


def test_a_config_is_frozen_and_compares_by_value() -> None:
    one, other = (HttpServer(URL, headers={"A": "b"}, retry_safe=["x", "y"]) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != dataclasses.replace(one, headers={"A": "c"})
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.url = "http://other"  # type: ignore[misc]


def test_replace_checks_again() -> None:
    server = StdioServer("python", ["a"], env={"K": "v"}, max_attempts=2)
    assert dataclasses.replace(server, args=["b"]) == StdioServer("python", ("b",), env={"K": "v"}, max_attempts=2)
    with pytest.raises(ConfigError):
        dataclasses.replace(server, max_attempts=-1)


def test_the_names_that_are_safe_to_retry_are_a_set() -> None:
    assert StdioServer("x", retry_safe=["a", "a"]).retry_safe == frozenset({"a"})
    assert StdioServer("x", retry_safe=True).retry_safe is True


@pytest.mark.parametrize("way", [lambda s: pickle.loads(pickle.dumps(s)), copy.copy, copy.deepcopy])
def test_configs_survive_pickle_and_copy(way: Any) -> None:
    for server in (
        StdioServer("python", ["s.py"], env={"K": "v"}, tool_filter=static_filter(["a"]), connect_timeout=None),
        HttpServer(URL, headers={"A": "b", "T": rotating_token}, reconnect=ReconnectPolicy(max_retries=9)),
        SseServer(URL, retry_safe={"a"}),
    ):
        again = way(server)
        assert again == server
        assert again.idle_timeout is UNSET


# ---- transport types


@pytest.mark.parametrize("text", ["streamable_http", "STREAMABLE_HTTP", "Streamable-Http", " streamable_http "])
def test_transport_types_are_read_whatever_their_case(text: str) -> None:
    assert TransportType.parse(text) is TransportType(text) is TransportType.STREAMABLE_HTTP


@pytest.mark.parametrize("text", ["", "pigeon", "streamable http", None, 3])
def test_an_unknown_transport_type_lists_the_choices(text: Any) -> None:
    with pytest.raises(ConfigError, match="stdio, http, streamable_http, sse"):
        TransportType.parse(text)
    with pytest.raises(ValueError):
        TransportType(text)


def test_a_transport_type_is_its_text() -> None:
    assert [str(kind) for kind in TransportType] == ["stdio", "http", "streamable_http", "sse", "python"]
    assert TransportType.SSE == TransportType.SSE.value == "sse"


@pytest.mark.parametrize(
    "text, file, variable",
    [
        ("tools.py", "tools.py", None),
        ("tools.py:server", "tools.py", "server"),
        ("/a/b.py:été", "/a/b.py", "été"),
        ("odd:name.py", "odd:name.py", None),
        ("odd:name.py:server", "odd:name.py", "server"),
        ("tools.py:", "tools.py:", None),
        (":server", ":server", None),
    ],
)
def test_a_python_server_is_a_file_and_perhaps_a_name_in_it(text: str, file: str, variable: str | None) -> None:
    server = PythonServer(text)
    assert (server.file, server.variable) == (file, variable)
    assert server.server_identifier == f"python:{text}"
    assert server.transport_type is TransportType.PYTHON


def test_importing_the_config_loads_nothing_heavy() -> None:
    heavy = "{'asyncio', 'aiohttp', 'pydantic', 'orjson', 'jsonschema_rs'}"
    code = f"import toolcrib.config, sys; print(*({heavy} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""
