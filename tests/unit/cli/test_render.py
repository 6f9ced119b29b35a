"""Showing and saving the results of servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib import AudioContent, ImageContent, ResourceLink, TextContent, ToolResult
from toolcrib.cli.exit_codes import CliError, Exit
from toolcrib.cli.render import extension_of, save, show_block, show_piece, show_result, write_bytes
from toolcrib.types import EmbeddedResource, ResourceContents, block_from_wire


@pytest.fixture
def shown(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def show(result: ToolResult) -> str:
        show_result(result, Path(), "tool")
        return capsys.readouterr().out

    return show


def test_data_that_a_text_repeats_is_shown_once_and_readable(shown: Any) -> None:
    result = ToolResult.from_blocks([TextContent('{"sum": 3}')], data={"sum": 3})
    assert shown(result) == '{\n  "sum": 3\n}\n'


def test_a_text_that_says_something_else_than_the_data_is_shown_too(shown: Any) -> None:
    result = ToolResult.from_blocks([TextContent("three")], data={"sum": 3})
    assert shown(result) == 'three\n{\n  "sum": 3\n}\n'


def test_a_wrapped_scalar_is_shown_as_it_is(shown: Any) -> None:
    raw = {"content": [{"type": "text", "text": "hello"}], "structuredContent": {"result": "hello"}}
    assert shown(ToolResult(raw, wrapped=True)) == "hello\n"
    raw = {"content": [{"type": "text", "text": "3"}], "structuredContent": {"result": 3}}
    assert shown(ToolResult(raw, wrapped=True)) == "3\n"


def test_a_text_that_is_all_of_the_data_is_shown_as_text(shown: Any) -> None:
    result = ToolResult.from_blocks([TextContent("one\ntwo")], data={"content": "one\ntwo"})
    assert shown(result) == "one\ntwo\n"


def test_data_alone_is_shown_and_a_null_is_data_too(shown: Any) -> None:
    assert shown(ToolResult.from_blocks([], data=[1])) == "[\n  1\n]\n"
    assert shown(ToolResult.from_blocks([], data=None)) == "null\n"
    assert shown(ToolResult.from_blocks([])) == ""


def test_pictures_and_sounds_are_saved_and_named(shown: Any, tmp_path: Path) -> None:
    result = ToolResult.from_blocks([ImageContent(b"one"), ImageContent(b"two"), AudioContent(b"three", "audio/mpeg")])
    assert shown(result).splitlines() == [
        "saved tool.png (image/png, 3 bytes)",
        "saved tool-2.png (image/png, 3 bytes)",
        "saved tool.mp3 (audio/mpeg, 5 bytes)",
    ]
    saved = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert saved == {"tool.png": b"one", "tool-2.png": b"two", "tool.mp3": b"three"}


def test_nothing_is_ever_overwritten_nor_a_link_followed(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"mine")
    (tmp_path / "a-2.png").symlink_to(tmp_path / "elsewhere")
    assert save(b"new", "image/png", tmp_path, "a") == tmp_path / "a-3.png"
    assert (tmp_path / "a.png").read_bytes() == b"mine" and not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "a\x1b[31m\u202eb", "..", "", "\x00", "con\nfig", "x" * 5000, "日本"]
)
def test_no_name_of_a_server_leads_out_of_the_folder_or_onto_the_terminal(name: str, tmp_path: Path) -> None:
    path = save(b"x", "image/png", tmp_path / "out", name)
    assert path.parent == tmp_path / "out" and path.exists()
    assert path.name.isascii() and path.name.isprintable() and len(path.name) < 100


@pytest.mark.parametrize(
    "mime_type, extension",
    [
        ("image/png", ".png"),
        ("IMAGE/JPEG; q=1", ".jpg"),
        ("application/pdf", ".pdf"),
        ("no/such-type", ".bin"),
        ("../../x", ".bin"),
        ("", ".bin"),
        (None, ".bin"),
        (5, ".bin"),
    ],
)
def test_the_ending_comes_from_the_type(mime_type: Any, extension: str) -> None:
    assert extension_of(mime_type) == extension


def test_a_folder_that_cannot_be_written_to_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CliError, match="cannot save to") as caught:
        save(b"x", "image/png", tmp_path / "file" / "below", "a")
    assert caught.value.code is Exit.FAILED and "--output" in caught.value.hint
    with pytest.raises(CliError, match="cannot write"):
        write_bytes(b"x", tmp_path / "file" / "below")


def test_every_other_block_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [
        ResourceLink("file:///a\x1b[31m", "a", description="the first"),
        EmbeddedResource(ResourceContents("file:///b", text="inside")),
        EmbeddedResource(ResourceContents("file:///some/dir/c%20d.tar", "application/zip", blob=b"PK")),
        block_from_wire({"type": "strange", "x": 1}),
        block_from_wire("no block"),
    ]
    for block in blocks:
        show_block(block, tmp_path, "tool")
    out = capsys.readouterr().out
    assert "file:///a�[31m  a - the first\n" in out and "inside\n" in out
    assert f"saved {tmp_path}/c-d.zip (application/zip, 2 bytes)\n" in out and '"type": "strange"' in out


@pytest.mark.parametrize("uri", ["file:///", "http://[bad", "x:", "demo://..", ""])
def test_a_resource_without_a_name_still_gets_a_file(uri: str, tmp_path: Path) -> None:
    show_piece(ResourceContents(uri, blob=b"x"), tmp_path)
    (path,) = tmp_path.iterdir()
    assert path.suffix == ".bin"


def test_a_piece_that_does_not_decode_is_shown_as_it_came(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_piece(ResourceContents.from_wire({"uri": "a:b", "blob": "abcde"}), tmp_path)
    assert '"blob": "abcde"' in capsys.readouterr().out


@pytest.mark.parametrize("mime_type", ["text/x-python", "application/x-sh", "application/x-sharedlib", "text/html"])
def test_no_server_leaves_something_that_is_run(mime_type: str, tmp_path: Path) -> None:
    """A `conftest.py` in the current folder would be executed by the next `pytest`."""
    assert save(b"print('owned')", mime_type, tmp_path, "conftest").name in ("conftest.bin", "conftest.html")
    assert save(b"", "image/png", tmp_path, "-rf").name == "rf.png"
