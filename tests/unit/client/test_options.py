"""Options: keywords override the config, which overrides defaults; errors name invalid options."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, get_type_hints

import pytest

import toolcrib as tc
from tests.unit.kit import LEGACY, PlayedServer
from toolcrib.client.options import ClientOptions, ResolvedOptions, resolve
from toolcrib.config import ALIASES
from toolcrib.errors import ConfigError
from toolcrib.policy.filters import StaticFilter
from toolcrib.types import ReconnectPolicy

NAMES = [each.name for each in fields(ResolvedOptions)]
GIVEN: dict[str, tuple[Any, Any]] = {
    "connect_timeout": (1.0, 11.0),
    "discovery_timeout": (2.0, 12.0),
    "execution_timeout": (3.0, 13.0),
    "idle_timeout": (4.0, 14.0),
    "max_attempts": (5, 15),
    "reconnect": (ReconnectPolicy(base_delay=6.0), ReconnectPolicy(base_delay=16.0)),
    "max_in_flight": (7, 17),
    "cache_tools_list": (True, False),
    "tool_filter": (StaticFilter(allowed=["a"]), StaticFilter(blocked=["b"])),
    "clean_arguments": ("never", "always"),
    "retry_safe": (frozenset({"a"}), frozenset({"b"})),
    "trusted": (True, False),
}
"""The config's value, which is not the default, and the keyword's value."""


def settings(config: object = None, /, **given: Any) -> ResolvedOptions:
    return resolve(config, "given-name", given)  # type: ignore[arg-type]


def test_the_keywords_are_exactly_the_settings() -> None:
    assert sorted(get_type_hints(ClientOptions)) == sorted([*NAMES, *ALIASES])


def test_max_retries_is_another_name_of_max_attempts() -> None:
    assert settings(max_retries=5) == settings(max_attempts=5)
    with pytest.raises(ConfigError, match="max_retries is another name of max_attempts: use only one of them"):
        settings(max_retries=5, max_attempts=5)


def test_the_defaults_are_those_of_the_documentation() -> None:
    chosen = settings()
    assert (chosen.connect_timeout, chosen.discovery_timeout, chosen.execution_timeout) == (30.0, 30.0, 30.0)
    assert (chosen.idle_timeout, chosen.max_in_flight, chosen.log_level) == (None, None, None)
    assert (chosen.max_attempts, chosen.cache_tools_list, chosen.retry_safe, chosen.trusted) == (3, False, False, False)
    assert (chosen.mode, chosen.clean_arguments, chosen.elicitation_modes) == ("auto", "schema", ("form",))
    assert chosen.reconnect == ReconnectPolicy(1.0, 30.0, 3, 0.3)
    assert chosen.name == "given-name"


@pytest.mark.parametrize("option", GIVEN)
def test_a_keyword_beats_the_config_and_the_config_beats_the_default(option: str) -> None:
    in_config, as_keyword = GIVEN[option]
    config = tc.StdioServer("server", **{option: in_config})
    assert getattr(settings(config), option) == in_config != getattr(settings(), option)
    assert getattr(settings(config, **{option: as_keyword}), option) == as_keyword != in_config


@pytest.mark.parametrize("option", ["connect_timeout", "discovery_timeout", "execution_timeout", "idle_timeout"])
def test_none_means_no_timeout_everywhere(option: str) -> None:
    assert getattr(settings(**{option: None}), option) is None
    assert getattr(settings(tc.StdioServer("server", **{option: None})), option) is None
    config = tc.StdioServer("server", **{option: 5.0})
    assert getattr(settings(config, **{option: None}), option) is None


def test_a_server_that_may_have_to_be_downloaded_gets_more_time_to_connect() -> None:
    runner = tc.StdioServer("npx", ["-y", "some-server"])
    assert settings(runner).connect_timeout == 120.0
    assert settings(runner, connect_timeout=7).connect_timeout == 7
    assert settings(runner, connect_timeout=None).connect_timeout is None
    assert settings(tc.StdioServer("npx", connect_timeout=30.0)).connect_timeout == 30.0
    assert settings(tc.StdioServer("node", ["server.js"])).connect_timeout == 30.0


def test_what_a_config_leaves_open_is_the_default() -> None:
    assert settings(tc.StdioServer("server")) == settings()


@pytest.mark.parametrize(
    "wrong, nearest",
    [
        ("conect_timeout", "connect_timeout"),
        ("max_attemps", "max_attempts"),
        ("root", "roots"),
        ("tool_filters", "tool_filter"),
    ],
)
def test_a_wrong_name_is_reported_with_the_nearest_right_one(wrong: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"{wrong!r}; did you mean {nearest!r}") as caught:
        tc.Client(lambda: None, **{wrong: 1})  # type: ignore[misc]
    assert caught.value.key == wrong
    assert nearest in (caught.value.expected or "")


def test_a_name_unlike_any_other_is_reported_with_all_valid_names() -> None:
    with pytest.raises(ConfigError) as caught:
        tc.Client(lambda: None, zzz=1)  # type: ignore[call-arg]
    assert "did you mean" not in str(caught.value)
    assert all(name in (caught.value.expected or "") for name in NAMES)


@pytest.mark.parametrize(
    "option, values",
    [
        ("connect_timeout", [0, -1, True, "5", math.nan, [5]]),
        ("discovery_timeout", [0, False, "5"]),
        ("execution_timeout", [0, -0.1, "5"]),
        ("idle_timeout", [0, "x"]),
        ("mode", ["modern", "2025-11-25", "", None]),
        ("clean_arguments", ["sometimes", True, None]),
        ("max_attempts", [0, -1, 1.5, True, None, "3"]),
        ("max_in_flight", [0, -1, 1.5, True, "3"]),
        ("log_level", ["loud", "INFO", 10]),
        ("elicitation_modes", ["form", ("voice",)]),
        ("reconnect", [None, 3, "fast"]),
        ("trusted", ["no", 1]),
        ("cache_tools_list", ["no", 1]),
        ("retry_safe", [1]),
        ("sampling_handler", ["model", 1]),
        ("elicitation_handler", [{"a": 1}]),
        ("log_handler", ["log.txt"]),
        ("progress_handler", [True]),
        ("stderr_handler", ["err.txt"]),
        ("tool_filter", ["read_file", 7]),
        ("roots", ["/srv", 7, tc.Root("file:///srv"), {"uri": "file:///srv"}]),
        ("name", ["", 7]),
    ],
)
def test_a_wrong_value_is_reported_with_its_option_and_what_was_expected(option: str, values: list[Any]) -> None:
    taken = []
    for value in values:
        try:
            tc.Client(lambda: None, **{option: value})
        except ConfigError as exc:
            found = (exc.key, bool(exc.expected), option in str(exc))
        else:
            taken.append(value)
            continue
        assert found == (option, True, True)
    assert taken == [], f"{option} was taken"


@pytest.mark.parametrize("timeout", [0, -1, "5", True, math.nan])
async def test_the_timeouts_of_one_call_are_checked_too(timeout: Any) -> None:
    async with tc.Client(PlayedServer(initialize=LEGACY, tools__call={"content": []}), mode="legacy") as client:
        for option in ("timeout", "idle_timeout"):
            for call in (client.call_tool, client.request):
                with pytest.raises(ConfigError, match=option):
                    await call("x", **{option: timeout})


class Transport:
    """A custom transport with attributes that are not options."""

    mode = "turbo"
    max_attempts = "many"
    roots = 7

    def __call__(self) -> None: ...


def test_the_attributes_of_a_custom_transport_are_not_options() -> None:
    client = tc.Client(Transport())
    assert client._settings.mode == "auto"
    assert client._settings.roots is None


def test_a_client_is_named_after_its_server_unless_it_is_given_a_name() -> None:
    server = tc.StdioServer("python", ["server.py"])
    assert tc.Client(server).name == "stdio:python:server.py"
    assert tc.Client(server, name="mine").name == "mine"
    assert tc.Client(server, name=None).name == "stdio:python:server.py"
    assert tc.Client(lambda: None).name == "custom"
