"""The reference file server from npm: structured results, roots, missing capabilities."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import toolcrib as tc
from tests.peers.kit import ScriptedClient, eventually
from tests.peers.test_tools import PNG


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "given").mkdir()
    (tmp_path / "given/a.txt").write_text("hello\nyard\n")
    (tmp_path / "given/a.png").write_bytes(PNG)
    (tmp_path / "rooted").mkdir()
    return tmp_path


async def test_files_are_read_written_and_listed(npm_server: Callable[..., tc.StdioServer], place: Path) -> None:
    given = place / "given"
    async with tc.Client(npm_server("filesystem", str(given))) as fs:
        assert {"read_text_file", "write_file", "list_directory"} <= {tool.name for tool in await fs.list_tools()}
        read = await fs.call_tool("read_text_file", {"path": str(given / "a.txt"), "head": 1})
        await fs.call_tool("write_file", {"path": str(given / "b.txt"), "content": "grüße"})
        listed = await fs.call_tool("list_directory", {"path": str(given)})

    assert read.text == "hello" and read.data == {"content": "hello"}
    assert (given / "b.txt").read_text() == "grüße"
    assert "[FILE] b.txt" in listed.text


@pytest.mark.slow
async def test_a_picture_comes_as_bytes(npm_server: Callable[..., tc.StdioServer], place: Path) -> None:
    async with tc.Client(npm_server("filesystem", str(place / "given"))) as fs:
        result = await fs.call_tool("read_media_file", {"path": str(place / "given/a.png")})

    assert result.content == (tc.ImageContent(PNG, "image/png"),)


@pytest.mark.slow
async def test_what_is_outside_its_directories_is_refused(
    npm_server: Callable[..., tc.StdioServer], place: Path
) -> None:
    async with tc.Client(npm_server("filesystem", str(place / "given"))) as fs:
        result = await fs.call_tool("read_text_file", {"path": "/etc/passwd"})

    assert result.is_error and "outside allowed directories" in result.text
    with pytest.raises(tc.ToolFailed):
        result.raise_for_error()


@pytest.mark.slow
async def test_capabilities_that_it_has_not_are_empty_lists(
    npm_server: Callable[..., tc.StdioServer], place: Path
) -> None:
    async with tc.Client(npm_server("filesystem", str(place / "given"))) as fs:
        assert await fs.list_resources() == []
        assert await fs.list_resource_templates() == []
        assert await fs.list_prompts() == []


async def test_the_clients_roots_replace_its_directories(
    npm_server: Callable[..., tc.StdioServer], place: Path
) -> None:
    rooted = place / "rooted"
    async with ScriptedClient(npm_server("filesystem", str(place / "given")), roots=[rooted.as_uri()]) as scripted:

        async def taken() -> bool:
            said = await scripted.client.call_tool("list_allowed_directories")
            return str(rooted) in said.text

        await eventually(taken, what="the roots were taken")
        outside = await scripted.client.call_tool("read_text_file", {"path": str(place / "given/a.txt")})

    assert scripted.roots_asked == 1
    assert outside.is_error
