"""The wall clock jumps by a day: nothing times out because of it, and nothing is kept longer."""

from __future__ import annotations

import json

import pytest

from tests.faults.kit import FaultyServer, either_era, run_python

pytestmark = pytest.mark.slow

JUMPER = """
import asyncio, json, sys, time
real, shift = time.time, 0.0
time.time = lambda: real() + shift
real_ns = time.time_ns
time.time_ns = lambda: real_ns() + int(shift * 1e9)

import toolcrib as tc
command, day = json.loads(sys.argv[1]), float(sys.argv[2])
FAST = tc.ReconnectPolicy(base_delay=0.01, max_delay=0.2)

async def main():
    global shift
    report = {}
    async with tc.Client(tc.StdioServer(command[0], command[1:]), reconnect=FAST, cache_tools_list=True) as client:
        await client.list_tools()
        slow = asyncio.create_task(client.call_tool("slow", {"nonce": "s", "seconds": 0.4}, timeout=20, idle_timeout=9))
        silent = asyncio.create_task(client.call_tool("silent", {"nonce": "q"}, timeout=0.5))
        await asyncio.sleep(0.05)
        shift += day
        start = time.monotonic()
        report["slow"] = (await slow).text
        try:
            await silent
        except tc.UnansweredTimeout:
            report["silent"] = time.monotonic() - start
        await client.list_tools()
        report["elapsed"] = (await client.call_tool("echo", {"nonce": "e"})).elapsed
        shift += day
        try:
            await client.call_tool("die", {})
        except tc.OutcomeUnknown:
            report["after"] = (await client.call_tool("echo", {"nonce": "a"}, timeout=20)).text
    print(json.dumps(report))
asyncio.run(main())
"""


@either_era
@pytest.mark.parametrize("day", [86_400.0, -86_400.0], ids=["forward", "back"])
def test_a_clock_that_jumps_a_day_ends_no_call_and_keeps_none_alive(faulty: FaultyServer, era: str, day: float) -> None:
    program = run_python(JUMPER, json.dumps(faulty.command(era=era, ttl=250_000)), str(day))
    out, err = program.communicate(timeout=60)
    assert (err, program.returncode) == ("", 0)
    report = json.loads(out)
    assert report["slow"] == "s"
    assert report["silent"] < 5
    assert 0 <= report["elapsed"] < 5
    assert report["after"] == "a"
    assert faulty.record.entries("method").count("tools/list") == 1, "what was cached for minutes did not age by a day"


STALE = """
import asyncio, json, pathlib, sys, time
real, shift = time.time, 0.0
time.time = lambda: real() + shift

import toolcrib as tc
command = json.loads(sys.argv[1])

async def main():
    global shift
    async with tc.Client(tc.StdioServer(command[0], command[1:]), cache_tools_list=True) as client:
        await client.list_tools()
        shift -= 86_400
        end = time.monotonic() + 10
        while time.monotonic() < end:
            await client.list_tools()
            await asyncio.sleep(0.02)
            if pathlib.Path(sys.argv[2]).read_text().count("tools/list") > 1:
                return print("asked again")
asyncio.run(main())
"""


def test_a_cached_list_grows_stale_though_the_clock_went_back_a_day(faulty: FaultyServer) -> None:
    program = run_python(STALE, json.dumps(faulty.command(era="modern", ttl=300)), str(faulty.record.path))
    out, err = program.communicate(timeout=60)
    assert (out, err, program.returncode) == ("asked again\n", "", 0)
