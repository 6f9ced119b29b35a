"""From a server argument to a channel, or to a helpful error."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import toolcrib as tc
from tests.unit.transports.links import Bench
from toolcrib import sync
from toolcrib.config import HttpServer, PythonServer, SseServer, StdioServer
from toolcrib.errors import ConfigError
from toolcrib.transports.channel import ChannelSource, Counters
from toolcrib.transports.factory import older_way, open_channel, target_of
from toolcrib.transports.http.channel import HttpChannel
from toolcrib.transports.jsonrpc_stream import StreamChannel

CONFIGS = [
    StdioServer("cat"),
    HttpServer("https://x.example"),
    SseServer("https://x.example/sse"),
    PythonServer("tools.py"),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config).__name__)
def test_a_config_is_a_target(config: Any) -> None:
    assert target_of(config) is config


@pytest.mark.parametrize("url", ["http://localhost:1/mcp", "https://x.example/mcp?a=1"])
def test_a_string_is_a_url(url: str) -> None:
    assert target_of(url) == HttpServer(url)


@pytest.mark.parametrize("text", ["python server.py", "server.py", "ftp://x", "", "HTTPX", ".mcp.json"])
def test_any_other_string_raises_an_error_with_the_alternatives(text: str) -> None:
    with pytest.raises(ConfigError, match=r"StdioServer\(command, args\)") as caught:
        target_of(text)
    assert caught.value.key == "server"
    assert "Hub.from_config" in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [{"mcpServers": {}}, MappingProxyType({"command": "x"}), Path(".mcp.json")],
    ids=lambda given: type(given).__name__,
)
def test_a_dict_or_a_path_is_sent_to_the_hub(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"Hub\.from_config") as caught:
        target_of(given)
    assert type(given).__name__ in str(caught.value)
    assert caught.value.key == "server"


@pytest.mark.parametrize("given", [None, 7, ["python", "server.py"], b"http://x"], ids=repr)
def test_a_non_server_raises_an_error_that_lists_what_is_accepted(given: Any) -> None:
    with pytest.raises(ConfigError, match=type(given).__name__) as caught:
        target_of(given)
    assert "StdioServer" in (caught.value.expected or "")


def test_a_secret_in_a_wrong_server_is_not_repeated() -> None:
    for given in ({"env": {"KEY": "s3cret"}}, "s3cret --token s3cret", ["s3cret"]):
        with pytest.raises(ConfigError) as caught:
            target_of(given)
        assert "s3cret" not in str(caught.value) + repr(caught.value) + str(vars(caught.value))


class Source:
    """A source of channels."""

    def __init__(self) -> None:
        self.made: list[StreamChannel] = []

    def make_channel(self) -> StreamChannel:
        self.made.append(Bench().channel)
        return self.made[-1]


async def test_a_source_of_channels_gives_its_own() -> None:
    source = Source()
    assert isinstance(source, ChannelSource)
    assert target_of(source) is source
    assert open_channel(source, Counters(), None) is source.made[0]


async def test_a_callable_is_a_transport() -> None:
    def transport() -> None: ...

    assert target_of(transport) is transport
    assert isinstance(open_channel(transport, Counters(), None), StreamChannel)


async def test_the_counters_of_a_channel_are_the_connections() -> None:
    counters = Counters()
    channel = open_channel(StdioServer("cat"), counters, None)
    assert isinstance(channel, StreamChannel)
    assert channel.counters is counters


@pytest.mark.parametrize("client", [tc.Client, sync.Client])
def test_a_client_says_the_same_when_it_is_made(client: Any) -> None:
    with pytest.raises(ConfigError, match=r"Hub\.from_config"):
        client({"mcpServers": {}})


@pytest.mark.parametrize("config, kind", [(CONFIGS[1], HttpChannel), (CONFIGS[2], StreamChannel)])
async def test_a_server_behind_a_url_gets_a_channel_over_http(config: Any, kind: type) -> None:
    assert isinstance(open_channel(config, Counters(), None), kind)


def test_the_older_way_to_a_server_keeps_everything_that_was_said_of_it() -> None:
    given = HttpServer("https://x.example/mcp", headers={"X-Key": "k"}, verify=False, max_attempts=7, trusted=True)
    assert older_way(given) == SseServer(
        "https://x.example/mcp", headers={"X-Key": "k"}, verify=False, max_attempts=7, trusted=True
    )


@pytest.mark.parametrize("config", [HttpServer("https://x.example", streamable=False), CONFIGS[0], *CONFIGS[2:]])
def test_others_have_no_older_way(config: Any) -> None:
    assert older_way(config) is None
