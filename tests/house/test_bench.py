"""The benchmark runs, and its figures are of the right order. The figures themselves are for `scripts/bench`."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
TINY = [
    "--rounds=1",
    "--seconds=0.2",
    "--warm-up=20",
    "--lifecycles=1",
    "--imports=1",
    "--idle=5",
    "--json",
    "--sessions=50",
    "--servers=16",
    "--tools=10",
    "--provider-tools=2000",
]
HEAVY = {"pydantic", "aiohttp"}
CORE = (
    "--over",
    "stdio",
    "json",
    "direct",
    "hub",
    "provider",
    "adapters",
    "--sdk-python=not there",
    "--sdk1-python=not there",
    "--frameworks=not there",
)

pytestmark = [pytest.mark.slow, pytest.mark.serial, pytest.mark.timeout(600)]


def run_bench(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench", *TINY, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=590)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def core() -> dict[str, Any]:
    """The paths that every call takes, on a machine without the peers."""
    return run_bench(*CORE)


@pytest.fixture(scope="module")
def everything() -> dict[str, Any]:
    """All that the benchmark measures, with the peers that are there; takes minutes, so for nightly tests."""
    return run_bench("--frameworks=not there")


@pytest.fixture(scope="module")
def frameworks() -> dict[str, Any]:
    """Framework -> figures, of the agent frameworks that are there."""
    (found,) = run_bench("--over", "adapters")["adapters"]["frameworks"] or [{}]
    return found


@pytest.fixture(scope="module", params=["core", pytest.param("everything", marks=pytest.mark.nightly)])
def figures(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def stdio(figures) -> dict[str, Any]:
    return figures["ways"]["stdio, 2026-07-28"]


@pytest.fixture(scope="module")
def http(figures) -> dict[str, Any]:
    return figures["ways"]["HTTP, JSON answers, 2026-07-28"]


def of(way: dict[str, Any], metric: str) -> dict[str, float]:
    return {client: figure[metric] for client, figure in way["clients"].items()}


def test_many_calls_in_flight_are_of_the_order_of_the_raw_pipe_and_not_slower_than_the_sdk(stdio) -> None:
    rates = of(stdio, "in_flight_rate")
    assert rates["toolcrib"] >= rates["raw pipe"] / 20
    if "mcp SDK" in rates:
        assert rates["toolcrib"] >= rates["mcp SDK"] / 2


def test_a_sequential_call_is_of_the_order_of_the_raw_pipe(stdio) -> None:
    latencies = of(stdio, "sequential_p50")
    assert latencies["toolcrib"] <= latencies["raw pipe"] * 13


def test_many_calls_in_flight_over_http_are_of_the_order_of_bare_aiohttp_and_not_slower_than_the_sdk(http) -> None:
    rates = of(http, "in_flight_rate")
    assert rates["toolcrib"] >= rates["bare aiohttp"] / 13
    if "mcp SDK" in rates:
        assert rates["toolcrib"] >= rates["mcp SDK"] / 2


def test_a_call_over_http_takes_processor_time_of_the_order_of_bare_aiohttp(http) -> None:
    taken = of(http, "in_flight_cpu")
    assert taken["toolcrib"] <= taken["bare aiohttp"] * 10


def test_a_sequential_call_over_http_is_of_the_order_of_bare_aiohttp(http) -> None:
    latencies = of(http, "sequential_p50")
    assert latencies["toolcrib"] <= latencies["bare aiohttp"] * 13


@pytest.mark.nightly
@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_answers_in_event_streams_are_of_the_order_of_bare_aiohttp(everything, revision) -> None:
    rates = of(everything["ways"][f"HTTP, event streams, {revision}"], "in_flight_rate")
    assert rates["toolcrib"] >= rates["bare aiohttp"] / 20


@pytest.mark.nightly
def test_calls_with_an_oauth_provider_do_not_wait_for_each_other(everything) -> None:
    if "oauth" not in everything:
        pytest.skip("the SDK, whose provider it is, is not here")
    slow = everything["oauth"][0]["toolcrib"]["slow"]
    # 64 calls of 50 ms, one after the other, would take 64 times as long.
    assert slow["with"] <= slow["without"] * 5
    assert slow["refreshes"] == 1


def test_an_idle_connection_costs_less_than_ten_times_its_goal(figures) -> None:
    assert figures["idle"]["resident_kib"] < 2000
    assert figures["idle"]["traced_kib"] < 2000


def test_importing_the_client_takes_less_than_ten_times_its_goal(figures) -> None:
    assert figures["imports"]["toolcrib_client"] <= 1.5


def test_a_call_in_process_is_of_the_order_of_the_checked_function_and_not_slower_than_the_sdk(figures) -> None:
    (found,) = figures["direct"]
    for mode in ("auto", "legacy"):
        assert found["toolcrib"][mode] <= found["plain function, checked by pydantic"]["auto"] * 100
        if "mcp SDK" in found:
            assert found["toolcrib"][mode] <= found["mcp SDK"][mode]


@pytest.mark.nightly
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_calls_served_over_http_are_of_the_order_of_a_bare_echo_and_not_fewer_than_the_sdk_serves(
    everything, mode
) -> None:
    (figures,) = everything["served"]["rounds"][mode]
    rates = {name: figure["rate"] for name, figure in figures.items()}
    assert rates["toolcrib"] >= rates["bare ASGI echo"] / 20
    if "mcp SDK" in rates:
        assert rates["toolcrib"] >= rates["mcp SDK"] / 2
    assert figures["toolcrib"]["server_cpu"] <= figures["bare ASGI echo"]["server_cpu"] * 20


@pytest.mark.nightly
def test_a_session_of_a_server_costs_less_than_ten_times_its_goal(everything) -> None:
    for kind in ("idle", "open"):
        assert everything["sessions"]["toolcrib"][kind] < 600_000


@pytest.mark.nightly
def test_every_goal_of_a_server_is_judged(everything) -> None:
    judged = {
        goal["wanted"]
        for title, goals in everything["goals"].items()
        for goal in goals
        if re.search("in one process|served over|of a server on", title) and goal["met"] is not None
    }
    expected = {"<= 40.0 us", ">= 0.50x", "< 60.0 MB"}
    assert judged == (expected | {">= 30.00x", ">= 8.00x"} if "mcp SDK" in everything["direct"][0] else expected)


def test_a_call_through_a_hub_is_of_the_order_of_the_bare_client_and_not_slower_than_the_peers(figures) -> None:
    (found,) = figures["hub"]
    ours = found["toolcrib"]
    assert ours["call"] <= ours["bare"] * 20
    assert all(ours["call"] <= peer["call"] for peer in found.values())


def test_lists_and_searches_of_a_hub_take_less_than_ten_times_their_goals(figures) -> None:
    ours = figures["hub"][0]["toolcrib"]
    assert ours["list"] < 0.05
    assert max(ours["search"], ours["long_search"]) < 0.1


def test_the_start_of_a_hub_is_measured_with_more_and_more_figures(figures) -> None:
    starts = figures["hub"][0]["toolcrib"]["starts"]
    assert list(starts) == ["2", "4", "8", "16"]
    # A start that is quadratic takes 64 times as long for eight times as many.
    assert starts["16"] < starts["2"] * 40


def test_every_goal_of_the_hub_is_judged(figures) -> None:
    (goals,) = [goals for title, goals in figures["goals"].items() if "hub with" in title]
    judged = sorted(goal["wanted"] for goal in goals if goal["met"] is not None)
    assert judged == ["< 15.0 us", "<= 10.00 ms", "<= 10.00 ms", "<= 2.00x", "<= 5.00 ms"]


def test_a_call_of_a_registered_tool_is_of_the_order_of_the_bare_client_and_not_slower_than_the_peer(figures) -> None:
    (found,) = figures["provider"]["calls"]
    ours = found["toolcrib"]["sequential"]
    for way in ("execute", "view"):
        assert ours[way]["min_cpu"] <= ours["bare"]["min_cpu"] * 10
        assert ours[way]["wall"] <= ours["bare"]["wall"] * 20
    assert all(ours["execute"]["wall"] <= peer["sequential"]["execute"]["wall"] for peer in found.values())


def test_a_call_of_a_registered_tool_waits_for_no_statement_and_its_audit_is_written_in_batches(figures) -> None:
    (found,) = figures["provider"]["calls"]
    assert found["toolcrib"]["in_flight"]["execute"]["statements"] < 0.5
    assert found["toolcrib"]["audit"] < 0.000_5
    assert found["toolcrib"]["lease"] < 0.000_1


def test_a_provider_takes_time_in_proportion_to_its_tools(figures) -> None:
    (tools,) = figures["provider"]["tools"]
    assert list(tools) == ["250", "500", "1000", "2000"]
    for operation in ("start", "register", "refresh", "first_list"):
        # What is quadratic takes 64 times as long for eight times as many.
        assert tools["2000"][operation]["cpu"] < tools["250"][operation]["cpu"] * 40
    assert tools["2000"]["list"]["cpu"] < 0.05
    assert tools["2000"]["search"]["cpu"] < 0.1
    assert tools["2000"]["bytes_per_tool"] < 50_000


def test_every_goal_of_the_provider_is_judged(figures) -> None:
    goals = [goal for title, rows in figures["goals"].items() if "provider" in title for goal in rows]
    judged = sorted(goal["wanted"] for goal in goals if goal["met"] is not None)
    assert judged == ["< 0.100", *["< 25.0 us"] * 4, "<= 10.00 ms", *["<= 2.00x"] * 3, "<= 5.00 ms"]


@pytest.mark.parametrize("server", ["stdio", "in process"])
def test_a_call_of_a_toolbox_is_of_the_order_of_the_hub(figures, server) -> None:
    (found,) = figures["adapters"]["toolbox"]
    for pace in ("sequential", "in_flight"):
        taken = {way: figure["min_cpu"] for way, figure in found[server][pace].items()}
        assert max(taken["call"], taken["call_json"]) <= taken["hub"] * 5
        assert taken["other_loop"] <= taken["hub_other_loop"] * 5
        assert taken["sync"] <= taken["hub_sync"] * 5
    goals = figures["goals"]["toolcrib toolbox"]
    assert [goal["wanted"] for goal in goals if goal["met"] is not None] == ["< 30.0 us"] * 4


@pytest.mark.nightly
def test_a_tool_of_a_framework_is_not_slower_than_with_the_framework_s_own_client(frameworks) -> None:
    if not frameworks:
        pytest.skip("no framework is here: scripts/frameworks installs them")
    for figures in frameworks.values():
        taken = {way: figure["min_cpu"] for way, figure in figures["sequential"].items()}
        others = [cpu for way, cpu in taken.items() if way.startswith("own client")]
        assert taken["toolcrib"] <= min(others) * 1.5


@pytest.mark.nightly
def test_the_help_of_the_command_line_is_of_the_order_of_a_bare_python(everything) -> None:
    (found,) = everything["cli"]["help"]
    # A bare Python takes so little that the ratio is large on a quiet machine too.
    assert found["toolcrib"]["cpu"] <= found["bare python"]["cpu"] * 150


@pytest.mark.nightly
@pytest.mark.parametrize("task", ["tools", "call"])
def test_a_command_on_a_server_is_of_the_order_of_its_imports(everything, task) -> None:
    (found,) = everything["cli"][task]
    assert 0 < found["server's own start"]["cpu"] < found["toolcrib"]["cpu"]
    assert found["toolcrib"]["cpu"] <= found["imports of toolcrib only"]["cpu"] * 20


@pytest.mark.nightly
def test_the_command_line_is_judged_by_the_peers_and_not_slower(everything) -> None:
    if "FastMCP" not in everything["cli"]["help"][0]:
        pytest.skip("the peer is not here")
    judged = [goal["wanted"] for title, goals in everything["goals"].items() for goal in goals if "--help" in title]
    assert judged == ["", "<= 0.50x"]
    for (found,) in everything["cli"].values():
        assert found["toolcrib"]["cpu"] <= found["FastMCP"]["cpu"]


def test_a_stdio_call_loads_neither_pydantic_nor_aiohttp(stdio) -> None:
    assert not HEAVY & set(stdio["rounds"][0]["toolcrib"]["modules"])


def test_a_call_over_http_does_not_load_pydantic(http) -> None:
    loaded = set(http["rounds"][0]["toolcrib"]["modules"])
    assert "aiohttp" in loaded
    assert "pydantic" not in loaded
