"""`hub.resources` and queries, over real servers: in this process, as child processes, and odd ones."""

from __future__ import annotations

import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.hub.kit import DEMO, Hub, echo_server, math_server, played
from tests.interaction.kit import Place
from tests.unit.kit import LEGACY, SILENCE, PlayedServer, eventually
from toolcrib.events import ResourcesChanged
from toolcrib.hub.resources import BinaryResource, ResourceQuery

PICTURE = b"\x89PNG\r\n\x1a\n\x00\xff"


def files() -> tc.ToolServer:
    server = tc.ToolServer("files")

    @server.resource("file:///docs/a.txt", name="a", mime_type="text/plain")
    def a() -> str:
        return "alpha\n\u00e9"

    @server.resource("file:///docs/deep/er/b.md", name="b", mime_type="text/markdown")
    def b() -> str:
        return ""

    @server.resource("file:///pictures/c.png", name="c", mime_type="image/png")
    def c() -> bytes:
        return PICTURE

    @server.resource("https://example.com/d", name="d", mime_type="text/plain")
    def d() -> str:
        return "far away"

    return server


def uris(resources: list[tc.Resource]) -> list[str]:
    return [resource.uri.rpartition("/")[2] for resource in resources]


def reading(*pieces: dict[str, Any]) -> PlayedServer:
    """A server whose one resource has these pieces."""
    handshake = {**LEGACY, "capabilities": {"resources": {}}}
    return PlayedServer(
        initialize=handshake, resources__list={"resources": []}, resources__read={"contents": list(pieces)}
    )


# ---- lists ---------------------------------------------------------------------------------------------------


async def test_the_tour_of_resources() -> None:
    async with Hub({"fs": files(), "math": math_server()}) as hub:
        everything = await hub.resources.list_all()
        assert [(each.server, each.name) for each in everything] == [
            ("fs", "a"), ("fs", "b"), ("fs", "c"), ("fs", "d"), ("math", "config"),
        ]  # fmt: skip
        assert [each.server for each in await hub.resources.list_from_server("math")] == ["math"]
        assert await hub.resources.read_text("fs", "file:///docs/a.txt") == "alpha\n\u00e9"
        assert uris(await hub.resources.find_by_pattern("file://*")) == ["a.txt", "b.md", "c.png"]
        query = ResourceQuery().server("fs").pattern("file://*").mime_type("text/plain")
        assert uris(await query.execute(hub.resources)) == ["a.txt"]


@pytest.mark.parametrize(
    "pattern, found",
    [
        ("*", ["a.txt", "b.md", "c.png", "d", "app"]),
        ("file:///docs/*", ["a.txt", "b.md"]),
        ("*://*/b.md", ["b.md"]),
        ("config://app", ["app"]),
        ("config://", []),
    ],
)
async def test_a_pattern_looks_through_all_servers(pattern: str, found: list[str]) -> None:
    async with Hub({"fs": files(), "math": math_server()}) as hub:
        assert uris(await hub.resources.find_by_pattern(pattern)) == found


async def test_a_query_of_a_server_by_its_display_name() -> None:
    async with Hub({"My files!": files(), "math": math_server()}) as hub:
        (state, _) = hub.list_servers()
        assert state.name != "My files!"
        for name in ("My files!", state.name):
            assert uris(await ResourceQuery().server(name).name("a").execute(hub.resources)) == ["a.txt"]
            assert len(await hub.resources.list_from_server(name)) == 4
            assert await hub.resources.read_text(name, "https://example.com/d") == "far away"


async def test_lists_and_queries_ask_no_server_again() -> None:
    server = reading()
    server.answers["resources/list"] = {"resources": [{"uri": "a:", "name": "a"}]}
    async with Hub({"s": server}) as hub:
        for _ in range(10):
            assert len(await hub.resources.list_all()) == 1
            assert len(await hub.resources.find_by_pattern("*")) == 1
        assert len(server.named("resources/list")) == 1


async def test_what_a_server_adds_is_found() -> None:
    server = files()
    async with Hub({"fs": server}) as hub:
        heard: list[ResourcesChanged] = []
        hub.on(ResourcesChanged, heard.append)
        server.add_resource(lambda: "new", uri="file:///new.txt", name="new")
        await eventually(lambda: heard)
        assert uris(await hub.resources.find_by_pattern("*new*")) == ["new.txt"]


async def test_one_dead_server_takes_no_other_servers_resources_away(tmp_path: Path) -> None:
    dead = tc.StdioServer(str(tmp_path / "nothing"))
    async with Hub({"dead": dead, "fs": files()}) as hub:
        assert len(await hub.resources.list_all()) == 4
        assert await hub.resources.list_from_server("dead") == []
        with pytest.raises(tc.StartError):
            await hub.resources.read_text("dead", "file:///a")


# ---- reading -------------------------------------------------------------------------------------------------


async def test_text_of_a_blob_is_an_error_that_says_what_to_do() -> None:
    async with Hub({"fs": files()}) as hub:
        with pytest.raises(BinaryResource, match="read_bytes") as told:
            await hub.resources.read_text("fs", "file:///pictures/c.png")
        assert isinstance(told.value, tc.ToolcribError)
        assert (told.value.server, told.value.uri, told.value.mime_type) == (
            "fs",
            "file:///pictures/c.png",
            "image/png",
        )
        assert await hub.resources.read_bytes("fs", "file:///pictures/c.png") == PICTURE


async def test_bytes_of_a_text_are_its_utf8() -> None:
    async with Hub({"fs": files()}) as hub:
        assert await hub.resources.read_bytes("fs", "file:///docs/a.txt") == "alpha\n\u00e9".encode()
        assert await hub.resources.read_bytes("fs", "file:///docs/deep/er/b.md") == b""
        assert await hub.resources.read_text("fs", "file:///docs/deep/er/b.md") == ""


async def test_read_gives_all_pieces_as_they_came() -> None:
    async with Hub({"fs": files()}) as hub:
        (piece,) = await hub.resources.read("fs", "file:///pictures/c.png")
        assert (piece.uri, piece.mime_type, piece.text, piece.blob) == (
            "file:///pictures/c.png",
            "image/png",
            None,
            PICTURE,
        )


TEXT = {"uri": "a:", "text": "x"}
BLOB = {"uri": "a:", "blob": b64encode(b"\x00").decode(), "mimeType": "x/y"}


@pytest.mark.parametrize(
    "pieces, text, data",
    [
        ([], "", b""),
        ([TEXT, TEXT], "x\nx", b"xx"),
        ([TEXT, BLOB], BinaryResource, b"x\x00"),
        ([{"uri": "a:", "blob": ""}], BinaryResource, b""),
        ([{"uri": "a:", "text": "x", "blob": None}], "x", b"x"),
        ([{"uri": "a:", "text": None, "blob": BLOB["blob"]}], BinaryResource, b"\x00"),
        ([{"uri": "a:", "blob": "a"}], BinaryResource, tc.ProtocolError),
        ([{"uri": "a:", "blob": 7}], BinaryResource, tc.ProtocolError),
        ([{"uri": "a:"}], tc.ProtocolError, tc.ProtocolError),
        ([TEXT, {"uri": "a:", "text": 7}], tc.ProtocolError, tc.ProtocolError),
        ([{**BLOB, "mimeType": {"a": 1}}], BinaryResource, b"\x00"),
    ],
)
async def test_nothing_is_left_out_silently(pieces: list[dict[str, Any]], text: Any, data: Any) -> None:
    async with Hub({"s": reading(*pieces)}) as hub:
        for read, expected in ((hub.resources.read_text, text), (hub.resources.read_bytes, data)):
            if isinstance(expected, type):
                with pytest.raises(expected, match="a:"):
                    await read("s", "a:")
            else:
                assert await read("s", "a:") == expected


async def test_missing_items_raise_errors_by_type() -> None:
    async with Hub({"files": files(), "none": echo_server()}) as hub:
        for use in (
            lambda: hub.resources.list_from_server("file"),
            lambda: hub.resources.read_text("file", "file:///docs/a.txt"),
            lambda: ResourceQuery().server("file").execute(hub.resources),
        ):
            with pytest.raises(tc.ServerNotFound, match="files"):
                await use()
        with pytest.raises(tc.ResourceNotFound):
            await hub.resources.read_bytes("files", "file:///nothing")
        assert await hub.resources.list_from_server("none") == []
        assert await ResourceQuery().server("none").execute(hub.resources) == []


@pytest.mark.parametrize("read", ["read", "read_text", "read_bytes"])
async def test_a_read_has_the_clients_options(read: str) -> None:
    server = reading()
    server.answers["resources/read"] = SILENCE
    async with Hub({"s": server}) as hub:
        with pytest.raises(tc.CallTimeout):
            await getattr(hub.resources, read)("s", "a:", timeout=0.02)


async def test_a_wrong_pattern_is_a_config_error() -> None:
    async with Hub({"fs": files()}) as hub:
        with pytest.raises(tc.ConfigError, match="pattern"):
            await hub.resources.find_by_pattern(None)  # type: ignore[arg-type]


# ---- over every way ------------------------------------------------------------------------------------------


async def test_resources_of_child_processes_and_functions_are_listed_together(tmp_path: Path) -> None:
    harness = Place("stdio", "older", tmp_path)
    servers = {
        "fs": files(),
        "demo": tc.StdioServer(sys.executable, [DEMO]),
        "crib": harness.server(page=1),
        "toolsonly": played("one"),
    }
    async with Hub(servers) as hub:
        found = await ResourceQuery().mime_type("text/plain").execute(hub.resources)
        assert [(each.server, each.uri) for each in found] == [
            ("fs", "file:///docs/a.txt"),
            ("fs", "https://example.com/d"),
            ("crib", "memo://text"),
        ]
        assert '"calls"' in await hub.resources.read_text("demo", "demo://status")
        assert await hub.resources.read_text("crib", "memo://text") == "good day\n"
        assert await hub.resources.read_bytes("crib", "memo://both") == b"good day\n\x00\xffbytes"
        for uri in ("memo://blob", "memo://both"):
            with pytest.raises(BinaryResource):
                await hub.resources.read_text("crib", uri)
        # Resources of a template are not listed, but can be read.
        assert await hub.resources.read_text("crib", "memo://people/ann") == "This is ann."
    assert harness.journal.faults == []


async def test_a_view_has_the_resources_of_its_hub() -> None:
    async with Hub({"fs": files()}) as hub:
        assert await hub.view(agent="a").resources.list_all() == await hub.resources.list_all()
        assert "Hub servers=1" in repr(hub.resources)
