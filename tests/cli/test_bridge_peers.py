"""Clients and servers of other makes on both sides of a bridge: they see what they see without it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.cli.kit import COMMAND
from tests.cli.test_bridge_eras import bridged
from tests.peers.kit import (
    ENVIRONMENTS,
    FASTMCP_MODERN,
    SDK1,
    SDK2_LEGACY,
    SDK2_MODERN,
    SERVERS,
    Peer,
    ScriptedClient,
    eventually,
    present,
)
from tests.peers.visits import HTTP, OURS, STDIO, WITHIN, Report, Visitor, _environment, our_server, visit
from tests.peers.web import Servers

QUICK = {("sdk1", "legacy", "stdio"), ("sdk2", "modern", "http")}
EVERY_CHANGE = {("npm2", "modern", "stdio"), ("npm1", "legacy", "http")}
"""With the quick ones: an old and a new client of each make, and of each transport. The others come at night."""

NIGHTLY = pytest.mark.nightly

DIFFERENT = {
    "detached": "a response that ends early is one of the hop in front, and the upstream is another hop",
    "after_giving_up": "the same",
}
"""Scenes that are not about what passes."""


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    each = Servers()
    yield each
    each.close()


@pytest.fixture(scope="module")
def bridge_at_a_url() -> Iterator[str]:
    """A bridge to a process of our server."""
    command = [*COMMAND, "bridge", "--http", "--port", "0", "--", sys.executable, str(OURS), "--transport", "stdio"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield process.stderr.readline().split()[-1]
        finally:
            process.terminate()
            process.communicate(timeout=30)


def tour(visitor: Visitor, *target: str) -> Report:
    done = subprocess.run(
        visitor.command("tour", *target),
        cwd=OURS.parents[3],
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=WITHIN,
    )
    assert done.returncode == 0, done.stderr
    report: Report = json.loads(done.stdout.splitlines()[-1])
    return report


def what_passes(report: Report, visitor: Visitor) -> Report:
    """The report without what a hop in between must change: who asks, how, and by which id."""
    seen: Any = json.loads(json.dumps({scene: value for scene, value in report.items() if scene not in DIFFERENT}))
    ours = seen["ours_only"]
    del ours["who"]
    del ours["shipped"]["headers"]
    ours["asking"].pop("elicitationId", None)
    seen["questions"]["asking"].pop("mode", None)  # a form, said or unsaid
    if visitor.is_npm:  # it drops what comes in one piece with the answer
        del seen["progress"], ours["thread"], ours["march"]
    return dict(seen)


def by_tier(visitors: list[Visitor]) -> list[Any]:
    """Return the visitors as parameters, each with the mark of the tier in which it comes."""

    def marks(visitor: Visitor) -> list[pytest.MarkDecorator]:
        who = (visitor.client, visitor.era, visitor.transport)
        return [] if who in QUICK else [pytest.mark.slow if who in EVERY_CHANGE else pytest.mark.nightly]

    return [pytest.param(visitor, id=str(visitor), marks=marks(visitor)) for visitor in visitors]


@pytest.mark.parametrize("visitor", by_tier(STDIO))
def test_a_client_that_starts_programs_sees_a_remote_server_as_if_it_were_local(
    visitor: Visitor, servers: Servers
) -> None:
    url = our_server(servers, "http").url("mcp")
    through = tour(visitor, *COMMAND, "bridge", url)
    assert what_passes(through, visitor) == what_passes(visit(visitor, "tour", servers), visitor)


@pytest.mark.parametrize("visitor", by_tier(HTTP))
def test_a_client_that_knows_urls_sees_a_local_server_as_if_it_were_remote(
    visitor: Visitor, servers: Servers, bridge_at_a_url: str
) -> None:
    through = tour(visitor, bridge_at_a_url)
    assert what_passes(through, visitor) == what_passes(visit(visitor, "tour", servers), visitor)


# ---- servers of other makes ------------------------------------------------------------------------------------


def server_cases() -> list[Any]:
    """Return the servers, each with either era in front. Those that cross the eras are in every change."""
    crossing = [(SDK1, "auto"), (SDK2_MODERN, "legacy")]
    return [
        pytest.param(peer, front, id=f"{peer}-{year}-in-front", marks=[] if (peer, front) in crossing else NIGHTLY)
        for peer in (SDK1, SDK2_MODERN, SDK2_LEGACY, FASTMCP_MODERN)
        for front, year in (("legacy", 2025), ("auto", 2026))
    ]


@pytest.mark.parametrize("peer, front", server_cases())
async def test_a_server_of_another_library_answers_asks_and_notifies_through_the_bridge(peer: Peer, front: str) -> None:
    python = present(ENVIRONMENTS / peer.environment / "bin/python", f"the environment {peer.environment}")
    upstream = tc.StdioServer(str(python), [str(SERVERS / peer.script)])
    async with bridged(upstream, peer.mode) as url, ScriptedClient(url, mode=front) as scripted:
        client = scripted.client
        assert client.server_info is not None and client.server_info.name == f"{peer.framework}-crib"
        assert (await client.call_tool("add", {"a": 2, "b": 40})).text == "42"
        scripted.answers, scripted.says = lambda _: {"name": "Ada"}, lambda _: "a rose"
        assert (await client.call_tool("ask_user", {"question": "who?"})).text == "hello Ada"
        assert "a rose" in (await client.call_tool("ask_model", {"prompt": "what?"})).text
        seen: list[Any] = []
        await client.call_tool("count", {"steps": 3}, on_progress=lambda *step: seen.append(step))
        assert [step[0] for step in seen] == [1, 2, 3]
        assert (await client.read_resource("crib://greeting")).text
        with pytest.raises((tc.ResourceNotFound, tc.RemoteError), match="crib://nowhere"):
            await client.read_resource("crib://nowhere")


@pytest.mark.parametrize(
    "front",
    [pytest.param("legacy", id="2025-in-front"), pytest.param("auto", id="2026-in-front", marks=pytest.mark.slow)],
)
async def test_an_npm_server_that_wants_the_roots_gets_those_of_the_client(front: str, tmp_path: Path) -> None:
    """It asks for them as soon as it is connected, in no call's name: they come with the next one."""
    node = ENVIRONMENTS / "npm/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
    if not node.exists():
        pytest.skip("node and npm are not on this machine")
    upstream = tc.StdioServer("node", [str(node)])
    async with bridged(upstream) as url, tc.Client(url, mode=front, roots=[tmp_path.as_uri()]) as client:

        async def knows_them() -> bool:
            return str(tmp_path.resolve()) in (await client.call_tool("list_allowed_directories")).text

        await eventually(knows_them)
