"""Servers that do not start, or start abnormally: a prompt typed error with a useful message, and a clean state."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.kit import FAST, FaultyServer, eventually, lucky, outcome_of, succeeds
from toolcrib.client import negotiation
from toolcrib.errors import ConnectError, StartError, ToolcribError, TransportError
from toolcrib.types import ConnectionState

# The law is 100 ms after the exit; the bound leaves room for a busy machine.
SOON = 1.0


async def test_a_command_that_is_not_there_is_a_start_error_that_names_it(faulty: FaultyServer) -> None:
    client = tc.Client(tc.StdioServer("no-such-command-7f3a", ["x"]), reconnect=FAST)
    start = time.monotonic()
    with pytest.raises(StartError) as caught:
        await client.connect()
    assert time.monotonic() - start < SOON
    assert "no-such-command-7f3a" in str(caught.value)
    assert caught.value.permanent, "trying again cannot help"
    assert not caught.value.sent
    assert not client.connected
    await client.close()


async def test_a_file_that_may_not_be_executed_is_a_start_error(faulty: FaultyServer) -> None:
    plain = faulty.path("plain.txt")
    plain.write_text("not a program")
    client = tc.Client(tc.StdioServer(str(plain)), reconnect=FAST)
    with pytest.raises(StartError, match=r"plain\.txt"):
        await client.connect()
    await client.close()


async def test_a_working_directory_that_is_not_there_is_a_start_error_that_names_it(faulty: FaultyServer) -> None:
    command, *arguments = faulty.command()
    client = tc.Client(tc.StdioServer(command, arguments, cwd=str(faulty.path("nowhere"))), reconnect=FAST)
    with pytest.raises(StartError, match="nowhere"):
        await client.connect()
    await client.close()


WAITS = "import os, sys, time; print(*sys.argv[1:], file=sys.stderr, flush=True); time.sleep(1000)"


async def test_a_start_that_times_out_shows_what_the_server_wrote_to_stderr(
    faulty: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "c4n4ry-77aa01"
    words = ["visit https://x/authorize\n" * 3, f"\x1b[31mwith {secret}"]
    server = tc.StdioServer("python3", ["-S", "-c", WAITS, *words, str(faulty.record.path)], env={"TOKEN": secret})
    client = tc.Client(server, name="waits", reconnect=FAST, connect_timeout=0.7)
    with pytest.raises(ConnectError) as caught:
        await client.connect()
    await client.close()
    assert caught.value.stderr.startswith("visit https://x/authorize\n")
    assert "its stderr ends with: visit https://x/authorize" in caught.value.message
    assert "with <masked>" in caught.value.message
    assert secret not in str(vars(caught.value)) + str(caught.value)
    assert "\x1b" not in caught.value.stderr + caught.value.message
    assert "increase connect_timeout if it is slow to start" in caught.value.message
    assert "downloading" not in caught.value.message


@pytest.mark.parametrize("command, downloads", [("npx", True), ("uvx", True), ("docker", True), ("node", False)])
async def test_a_start_that_times_out_says_that_a_package_may_still_be_downloaded(
    faulty: FaultyServer, command: str, downloads: bool
) -> None:
    faulty.path(command).symlink_to("/bin/sh")
    server = tc.StdioServer(str(faulty.path(command)), ["-c", "exec sleep 1000"])
    client = tc.Client(server, name="waits", reconnect=FAST, connect_timeout=0.2)
    with pytest.raises(ConnectError) as caught:
        await client.connect()
    await client.close()
    assert ("may still be downloading" in caught.value.message) is downloads
    assert caught.value.stderr == ""


async def test_a_server_that_refuses_to_connect_shows_what_it_wrote_to_stderr(faulty: FaultyServer) -> None:
    client = faulty.client(options={"mode": "legacy"}, refused=["initialize"], stderr=0)
    with pytest.raises(ConnectError) as caught:
        await client.connect()
    await client.close()
    assert caught.value.stderr == "end of the flood\n"


def chain(error: BaseException) -> list[BaseException]:
    """Return the error, its causes and its contexts, each once."""
    found, ways = list[BaseException](), [(error, frozenset[int]())]
    while ways:
        one, before = ways.pop()
        assert id(one) not in before, "an error must not be its own cause"
        found.append(one)
        ways += [(each, before | {id(one)}) for each in (one.__cause__, one.__context__) if each is not None]
    return found


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_causes_of_a_start_error_do_not_lead_back_to_it(faulty: FaultyServer, mode: Any) -> None:
    client = faulty.client(options={"mode": mode, "max_attempts": 1}, exit={"code": 3})
    for attempt in (client.connect(), client.call_tool("echo", {}), client.list_tools()):
        with pytest.raises(StartError) as caught:
            await attempt
        assert chain(caught.value)[0] is caught.value
    await client.close()


@pytest.mark.parametrize("code", [0, 3])
async def test_a_server_that_exits_at_once_gives_its_exit_code_and_the_tail_of_stderr(
    faulty: FaultyServer, code: int
) -> None:
    client = faulty.client(exit={"code": code, "stderr": "noise\n" * 5_000 + "fatal: TOKEN_VAR is not set\n"})
    start = time.monotonic()
    with pytest.raises(StartError) as caught:
        await client.connect()
    assert time.monotonic() - start < SOON
    assert caught.value.exit_code == code
    assert "fatal: TOKEN_VAR is not set" in caught.value.stderr
    assert "TOKEN_VAR" in str(caught.value), "the message contains the reason"
    await client.close()


async def test_a_call_to_a_server_that_cannot_start_is_a_start_error_and_unsent(
    faulty: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lucky(monkeypatch)
    client = faulty.client(exit={"code": 7})
    outcome = await outcome_of(client.call_tool("echo", {}, timeout=10))
    assert isinstance(outcome, StartError)
    assert outcome.exit_code == 7
    assert not outcome.sent
    assert client.status.state in (ConnectionState.FAILED, ConnectionState.DISCONNECTED)
    await client.close()


async def test_after_a_failed_connect_the_same_client_can_connect(faulty: FaultyServer, era: str) -> None:
    client = faulty.client(era=era, first={"exit": {"code": 1}}, first_lives=5, options={"max_attempts": 1})
    with pytest.raises(StartError):
        await client.connect()
    # The breaker opens on the way; half-open comes after max_delay (0.2 s with FAST).
    assert (await succeeds(lambda: client.call_tool("echo", {"nonce": "x"}, timeout=5))).text == "x"
    assert client.connected
    await client.close()


async def test_the_breaker_opens_after_five_failures_and_spares_the_machine(
    faulty: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lucky(monkeypatch)
    policy = tc.ReconnectPolicy(base_delay=0.01, max_delay=30, max_retries=3, jitter_factor=0)
    client = tc.Client(faulty.server(exit={"code": 1}), reconnect=policy)
    for _ in range(12):
        outcome = await outcome_of(client.call_tool("echo", {}, timeout=5))
        assert isinstance(outcome, TransportError)
        assert not outcome.sent
    assert faulty.record.lives == 5
    start = time.monotonic()
    for _ in range(50):
        assert isinstance(await outcome_of(client.call_tool("echo", {}, timeout=5)), ConnectError)
    assert time.monotonic() - start < SOON, "an open breaker answers at once"
    assert faulty.record.lives == 5
    await client.close()


async def test_an_open_breaker_lets_one_trial_through_and_closes_when_it_succeeds(
    faulty: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lucky(monkeypatch)
    client = faulty.client(first={"exit": {"code": 1}}, first_lives=6)
    await succeeds(lambda: client.call_tool("echo", {"nonce": "x"}, timeout=5))
    assert faulty.record.lives == 7, "one process a trial"
    assert client.status.state is ConnectionState.CONNECTED
    await client.close()


async def test_all_waiting_callers_share_one_start(faulty: FaultyServer, era: str) -> None:
    client = faulty.client(era=era, delay=0.2)
    calls = [client.call_tool("echo", {"nonce": str(n)}) for n in range(20)]
    results = (await asyncio.gather(*(client.connect() for _ in range(20)), *calls))[20:]
    assert [result.text for result in results] == [str(n) for n in range(20)]
    await client.connect()
    await client.close()
    assert faulty.record.lives == 1


async def test_a_caller_cancelled_while_connecting_does_not_affect_other_waiting_callers(
    faulty: FaultyServer, era: str
) -> None:
    client = faulty.client(era=era, delay=0.3)
    first = asyncio.create_task(client.call_tool("echo", {"nonce": "first"}))
    beside = asyncio.create_task(client.call_tool("echo", {"nonce": "beside"}))
    await eventually(lambda: faulty.record.lives == 1)
    first.cancel()
    assert (await beside).text == "beside"
    await client.close()
    assert faulty.record.executed == {"beside": 1}
    assert faulty.record.lives == 1


async def test_a_banner_before_the_protocol_is_skipped(faulty: FaultyServer, era: str) -> None:
    banner = "Welcome to Bad Server 1.0\n\x1b[1mlistening on stdio\x1b[0m\n{not json}"
    async with faulty.client(era=era, banner=banner) as client:
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"


async def test_a_program_that_prints_and_never_speaks_the_protocol_is_reported_with_a_sample(
    faulty: FaultyServer,
) -> None:
    server = tc.StdioServer("sh", ["-c", "echo usage: thing FILE; exec cat >/dev/null"])
    client = tc.Client(server, reconnect=FAST, connect_timeout=0.5)
    with pytest.raises(ToolcribError, match="usage: thing FILE"):
        await client.connect()
    await client.close()


async def test_a_slow_start_of_a_modern_server_is_waited_for(faulty: FaultyServer) -> None:
    async with faulty.client(era="modern", delay=1.0) as client:
        assert client.server_info is not None
        assert client.server_info.protocol_version == "2026-07-28"


async def test_a_start_slower_than_the_connect_time_out_fails_in_time_and_leaves_no_process(
    faulty: FaultyServer,
) -> None:
    client = faulty.client(delay=60, options={"connect_timeout": 0.5})
    start = time.monotonic()
    with pytest.raises(ToolcribError) as caught:
        await client.connect()
    assert time.monotonic() - start < 6
    assert isinstance(caught.value, TransportError)
    assert not caught.value.sent
    await client.close()
    await eventually(lambda: not faulty.living())


async def test_a_server_of_one_era_only_is_spoken_to_in_it(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era) as client:
        assert client.server_info is not None
        assert client.server_info.protocol_version == {"legacy": "2025-11-25", "modern": "2026-07-28"}[era]
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"
    assert faulty.record.lives == 1


async def test_a_server_silent_on_discover_is_taken_for_an_older_one(
    faulty: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(negotiation, "PROBE_SECONDS", 0.3)
    async with faulty.client(silent=["server/discover"]) as client:
        assert client.server_info is not None
        assert client.server_info.protocol_version == "2025-11-25"
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_each_older_revision_is_accepted(faulty: FaultyServer, revision: str) -> None:
    async with faulty.client(era="legacy", revision=revision) as client:
        assert client.server_info is not None
        assert client.server_info.protocol_version == revision


@pytest.mark.parametrize(
    "script",
    [{"era": "legacy", "revision": "1999-01-01"}, {"era": "modern", "versions": ["2099-01-01"]}],
    ids=["initialize", "discover"],
)
async def test_an_unknown_revision_is_an_error_that_names_it(faulty: FaultyServer, script: dict[str, Any]) -> None:
    client = faulty.client(**script)
    start = time.monotonic()
    with pytest.raises(ToolcribError, match=r"1999-01-01|2099-01-01"):
        await client.connect()
    assert time.monotonic() - start < 4 * SOON
    assert not client.connected
    await client.close()


async def test_stdout_closed_at_the_start_is_an_error_at_once(faulty: FaultyServer) -> None:
    client = faulty.client(close_stdout=True)
    start = time.monotonic()
    with pytest.raises(TransportError) as caught:
        await client.connect()
    assert time.monotonic() - start < 10, "far below the connect time-out of 30 s"
    assert not caught.value.sent
    await client.close()


async def test_no_descriptor_is_left_by_failed_starts(faulty: FaultyServer) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async def fail() -> None:
        client = faulty.client(exit={"code": 1}, options={"max_attempts": 1})
        with pytest.raises(StartError):
            await client.connect()
        await client.close()

    await fail()
    before = descriptors()
    for _ in range(10):
        await fail()
    await eventually(lambda: descriptors() <= before)


async def test_a_broken_answer_to_the_first_question_does_not_say_that_the_call_was_sent(faulty: FaultyServer) -> None:
    client = faulty.client(options={"mode": "legacy", "max_attempts": 1}, wire=["odd_result"])
    outcome = await outcome_of(client.call_tool("echo", {"nonce": "n"}))
    await client.close()
    assert isinstance(outcome, ToolcribError)
    assert outcome.sent is False
    assert faulty.record.executed["n"] == 0
