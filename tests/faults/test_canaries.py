"""Leaks: the parent's environment must not reach the child, nor a secret any text of Toolcrib."""

from __future__ import annotations

import json
import logging
import traceback
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.kit import FAST, FaultyServer, outcome_of
from toolcrib import events
from toolcrib.errors import ToolcribError

CANARY = "c4n4ry-5e2d81"
INHERITED = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}
COERCED = {"LC_CTYPE"}  # Python itself sets it in its own process where the locale is "C"


async def test_a_canary_of_our_environment_is_absent_from_the_childs(
    faulty: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CANARY", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH_CANARY", "LD_CANARY"):
        monkeypatch.setenv(name, CANARY)
    async with tc.Client(faulty.server(env={"GIVEN": "yes"})) as client:
        text = (await client.call_tool("environ", {})).text
    environment = json.loads(text)
    assert CANARY not in text
    assert environment["GIVEN"] == "yes"
    assert environment["PATH"]
    assert set(environment) <= INHERITED | COERCED | {"GIVEN"}


async def test_what_the_config_gives_wins_over_what_is_inherited(
    faulty: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "ours")
    async with tc.Client(faulty.server(env={"TERM": "given"})) as client:
        assert json.loads((await client.call_tool("environ", {})).text)["TERM"] == "given"


def texts_of(error: BaseException) -> str:
    """Return everything that a log would show of an error, including its causes."""
    return "".join(traceback.format_exception(error)) + repr(error) + str(error)


async def test_a_secret_of_the_config_is_in_no_repr_log_event_or_traceback(
    faulty: FaultyServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []
    secret = {"API_TOKEN": CANARY}
    server = faulty.server(env=secret, first={"exit": {"code": 2}}, first_lives=1)
    client = tc.Client(server, reconnect=FAST)
    client.on(events.Event, lambda event: seen.append(repr(event)))
    outcomes: list[Any] = [await outcome_of(client.call_tool("echo", {}))]  # may fail: the first life exits
    outcomes.append(await outcome_of(client.call_tool("environ", {})))
    assert CANARY in outcomes[-1].text, "the server itself has it"
    outcomes.append(await outcome_of(client.call_tool("die", {})))
    outcomes.append(await outcome_of(client.call_tool("silent", {}, timeout=0.1)))
    seen += [repr(client), str(client), repr(client.status), str(client.status), repr(client.server_info)]
    await client.close()
    missing = tc.Client(tc.StdioServer("no-such-command-7f3a", env=secret), reconnect=FAST)
    outcomes.append(await outcome_of(missing.call_tool("echo", {})))
    seen += [repr(missing), str(missing.status)]
    await missing.close()
    seen += [repr(server), str(server), f"{server}", server.server_identifier, *caplog.messages]
    errors = [outcome for outcome in outcomes if isinstance(outcome, ToolcribError)]
    assert len(errors) >= 3
    seen += [texts_of(error) for error in errors]
    assert [text for text in seen if CANARY in text] == []
    assert "API_TOKEN" in repr(server), "the name is shown, the value is masked"
    assert "<masked>" in repr(server)


def test_a_wrong_field_is_named_and_its_secret_neighbours_are_not_shown() -> None:
    attempts: list[dict[str, Any]] = [
        {"command": "x", "env": {"API_TOKEN": CANARY, "N": 5}},
        {"command": "x", "env": {"API_TOKEN": CANARY}, "args": 7},
        {"command": "", "env": {"API_TOKEN": CANARY}},
        {"command": "x", "env": {5: CANARY}},
    ]
    for fields in attempts:
        with pytest.raises(ToolcribError) as caught:
            tc.StdioServer(**fields)
        assert CANARY not in texts_of(caught.value)
        assert isinstance(caught.value, tc.ConfigError)
        assert caught.value.key


async def test_a_dead_servers_message_does_not_show_the_secret_that_the_server_was_given(
    faulty: FaultyServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A server may print its environment, which Toolcrib cannot prevent; its own fields do not repeat it."""
    caplog.set_level(logging.DEBUG)
    client = tc.Client(
        faulty.server(env={"API_TOKEN": CANARY}, exit={"code": 1, "stderr": "bad token\n"}), reconnect=FAST
    )
    with pytest.raises(tc.StartError) as caught:
        await client.connect()
    assert CANARY not in texts_of(caught.value)
    assert all(CANARY not in message for message in caplog.messages)
    await client.close()


async def test_what_a_server_writes_reaches_our_log_without_control_characters(
    faulty: FaultyServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="toolcrib")
    async with faulty.client(banner="\x1b[31mred\x1b[0m\x07") as client:
        await client.call_tool("echo", {})
    assert all("\x1b" not in message and "\x07" not in message for message in caplog.messages)
