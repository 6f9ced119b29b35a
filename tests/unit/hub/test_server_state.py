"""The state of a server, its spec, and the state of a managed server before its first start."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.catalog.tokens import estimate_tokens
from toolcrib.config import HttpServer, StdioServer
from toolcrib.errors import ConfigError
from toolcrib.hub.hub import Hub
from toolcrib.hub.managed_server import ManagedServer
from toolcrib.hub.server_options import for_all, spec_for, spec_without
from toolcrib.hub.server_state import ServerState
from toolcrib.policy.filters import static_filter
from toolcrib.types import ConnectionState, ConnectionStatus, ReconnectPolicy, Tool

PROGRAM = StdioServer("program")


def test_a_state_is_a_value_with_what_follows_from_it() -> None:
    tool = Tool("mcp__s__t", description="something")
    state = ServerState("s", PROGRAM, ConnectionStatus(ConnectionState.DEGRADED, "slow", 5.0), tools=(tool, tool))
    assert state.connected and state.since == 5.0
    assert state.tokens == 2 * estimate_tokens(tool)
    assert not ServerState("s", PROGRAM, ConnectionStatus(ConnectionState.CONNECTING)).connected


@pytest.mark.parametrize(
    "given, of_all, expected",
    [
        (PROGRAM, {}, 30.0),
        (PROGRAM, {"execution_timeout": 7}, 7),
        (StdioServer("p", execution_timeout=5), {"execution_timeout": 7}, 5),
        ((StdioServer("p", execution_timeout=5), {"execution_timeout": 3}), {"execution_timeout": 7}, 3),
        ((PROGRAM, {"execution_timeout": None}), {"execution_timeout": 7}, None),
        ("http://127.0.0.1/mcp", {"execution_timeout": 7}, 7),
    ],
)
def test_options_of_one_server_override_its_config_which_overrides_the_defaults(
    given: Any, of_all: dict[str, Any], expected: Any
) -> None:
    assert spec_for("s", "s", given, of_all).settings.execution_timeout == expected


def test_disconnecting_idle_servers_is_apart_from_silence_within_a_call() -> None:
    config = StdioServer("p", idle_timeout=5)
    plan = spec_for("s", "s", config, {"disconnect_idle_after": 60, "idle_timeout": 7})
    assert (plan.disconnect_idle_after, plan.settings.idle_timeout) == (60, 5)
    plain = spec_for("s", "s", StdioServer("p"), {"idle_timeout": 7})
    assert (plain.disconnect_idle_after, plain.settings.idle_timeout) == (None, 7)


def test_the_alias_of_an_option_works_for_one_server_and_for_all() -> None:
    assert spec_for("s", "s", (StdioServer("p"), {"max_retries": 2}), {}).settings.max_attempts == 2
    assert Hub({"s": StdioServer("p")}, max_retries=2)._servers.by_name["s"].spec.settings.max_attempts == 2


def test_the_client_neither_filters_nor_cleans_because_the_hub_does() -> None:
    only = static_filter(allowed=["a"])
    plan = spec_for("s", "s", StdioServer("p", tool_filter=only, clean_arguments="always"), {})
    assert plan.tool_filter is only
    assert plan.options["tool_filter"] is None and plan.options["clean_arguments"] == "never"
    assert plan.settings.clean_arguments == "always"


def test_authorisation_for_all_is_only_for_those_behind_a_url() -> None:
    class Auth:
        async def async_auth_flow(self, request: Any) -> Any: ...

    of_all = {"auth": Auth()}
    assert spec_for("s", "s", PROGRAM, of_all).settings.auth is None
    assert spec_for("s", "s", HttpServer("http://127.0.0.1/"), of_all).settings.auth is of_all["auth"]


def test_what_is_wrong_names_the_server() -> None:
    for given in ((PROGRAM, {"execution_timeout": -1}), (PROGRAM, {"nothing": 1}), (PROGRAM, 5), {}, None, "program"):
        with pytest.raises(ConfigError) as wrong:
            spec_for("s", "s", given, {})
        assert wrong.value.server == "s"


def test_options_of_each_server_are_distinguished_from_those_of_the_hub() -> None:
    policy = ReconnectPolicy()
    given = {
        "allowed_tools": [],
        "on_error": "skip",
        "tool_filter": None,
        "reconnect": policy,
        "lifecycle": "transient",
    }
    assert for_all(given) == {"reconnect": policy, "lifecycle": "transient"}


def member(plan: Any) -> ManagedServer:
    return ManagedServer(plan, lambda *_: None, lambda event: None)


def test_a_member_that_cannot_or_must_not_be_tried_says_so() -> None:
    error = ConfigError("no TOKEN", key="env.TOKEN")
    failed = member(spec_without("s", "s", None, error))
    assert failed.status.state is ConnectionState.FAILED and failed.status.reason == "no TOKEN"
    assert failed.last_error is error and failed.server_info is None
    disabled = member(spec_without("s", "s", PROGRAM, None))
    assert disabled.status.state is ConnectionState.DISABLED and disabled.last_error is None


def test_a_member_that_was_not_started_says_so() -> None:
    fresh = member(spec_for("s", "s", PROGRAM, {}))
    assert str(fresh.status) == "disconnected (not started yet)"
    assert fresh.last_error is None and not fresh.listed


async def test_what_a_server_lists_after_its_removal_is_ignored() -> None:
    servers = Hub({"s": PROGRAM})._servers
    removed = servers.by_name["s"]
    await servers.remove(removed)
    servers.add(spec_for("s", "s", PROGRAM, {}))
    removed._publish(removed, "tools", {"tools": [Tool("t")]})
    assert servers.catalog.tools == ()
