"""The benchmark runs, and its figures are of the right order. The figures themselves are for `scripts/bench`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
TINY = ["--rounds=1", "--seconds=0.3", "--lifecycles=1", "--imports=1", "--idle=5", "--json"]
HEAVY = {"pydantic", "aiohttp"}


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    command = [sys.executable, "-m", "bench", *TINY]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_many_calls_in_flight_are_of_the_order_of_the_raw_pipe_and_not_slower_than_the_sdk(figures) -> None:
    rates = {client: figure["in_flight_rate"] for client, figure in figures["clients"].items()}
    assert rates["toolyard"] >= rates["raw pipe"] / 20
    if "mcp SDK" in rates:
        assert rates["toolyard"] >= rates["mcp SDK"] / 2


def test_a_sequential_call_is_of_the_order_of_the_raw_pipe(figures) -> None:
    latencies = {client: figure["sequential_p50"] for client, figure in figures["clients"].items()}
    assert latencies["toolyard"] <= latencies["raw pipe"] * 13


def test_an_idle_connection_costs_less_than_ten_times_its_goal(figures) -> None:
    assert figures["idle"]["resident_kib"] < 2000
    assert figures["idle"]["traced_kib"] < 2000


def test_importing_the_client_takes_less_than_ten_times_its_goal(figures) -> None:
    assert figures["imports"]["toolyard_client"] <= 1.5


def test_a_stdio_call_loads_neither_pydantic_nor_aiohttp(figures) -> None:
    assert not HEAVY & set(figures["rounds"][0]["toolyard"]["modules"])


def test_importing_the_package_and_its_client_loads_neither_pydantic_nor_aiohttp() -> None:
    program = "import sys, toolyard; toolyard.Client; toolyard.StdioServer; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stdout.split())
    assert "toolyard" in loaded
    assert not HEAVY & loaded
