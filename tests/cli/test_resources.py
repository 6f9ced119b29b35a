"""`toolcrib resources` and `toolcrib read`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.kit import COMMAND, DEMO, GOODS, environment, run_cli, show_cli, write_settings

PNG = b"\x89PNG\r\n\x1a\nno picture"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_settings(tmp_path, {"demo": DEMO, "goods": GOODS})
    return tmp_path


def test_resources_and_templates_of_all_servers_are_listed(folder: Path) -> None:
    ran = run_cli("resources", cwd=folder)
    assert ["goods://text", "goods", "text/plain", "text", "Some text."] in ran.rows
    assert [row[0] for row in ran.rows] == ["demo://status", "goods://text", "goods://picture", "goods://number/{n}"]
    found = run_cli("resources", "goods", "--json", cwd=folder).json
    assert [each["server"] for each in found] == ["goods"] * 3 and found[2]["uriTemplate"] == "goods://number/{n}"


@pytest.mark.parametrize(
    "words",
    [["goods://number/7"], ["goods", "goods://number/7"]],
    ids=["by its template", "by its server"],
)
def test_the_server_of_a_resource_is_found(words: list[str], folder: Path) -> None:
    assert run_cli("read", *words, cwd=folder).out == "number 7\n"


def test_a_resource_may_look_like_a_server(folder: Path) -> None:
    for uri in ("goods://number/a.py", "https://example.com/a.py"):
        ran = run_cli("read", "goods", uri, cwd=folder)
        assert (ran.code, ran.out) == (0, "number a.py\n") if uri.startswith("goods") else ran.code == 4


def test_text_is_printed(folder: Path) -> None:
    assert run_cli("read", "goods://text", cwd=folder).out == "first\nsecond\n\n"


def test_what_is_binary_is_saved_and_named(folder: Path) -> None:
    ran = run_cli("read", "goods://picture", cwd=folder)
    assert ran.out == f"saved picture.png (image/png, {len(PNG)} bytes)\n"
    assert (folder / "picture.png").read_bytes() == PNG
    assert "picture-2.png" in run_cli("read", "goods://picture", cwd=folder).out


def test_bytes_go_where_they_are_wanted(folder: Path) -> None:
    assert run_cli("read", "goods://text", "-o", "text.txt", cwd=folder).out == ""
    assert (folder / "text.txt").read_bytes() == b"first\r\nsecond\n"
    command = [*COMMAND, "read", "goods://picture", "-o", "-"]
    done = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, check=True)
    assert done.stdout == PNG


def test_json_is_the_whole_answer(folder: Path) -> None:
    (piece,) = run_cli("read", "goods://picture", "--json", cwd=folder).json["contents"]
    assert piece["mimeType"] == "image/png" and piece["blob"]


def test_a_resource_of_an_unknown_server_is_refused_with_a_question(folder: Path) -> None:
    ran = run_cli("read", "other://x", cwd=folder)
    assert ran.code == 2
    assert ran.err == "error: 2 servers may have other://x\nhint: name the server: demo or goods\n"


def test_a_resource_that_is_not_there_is_not_found(folder: Path) -> None:
    ran = run_cli("read", "goods", "goods://none", cwd=folder)
    assert ran.code == 4 and "goods://none" in ran.err and "Traceback" not in ran.err
    assert run_cli("read", "nobody", "goods://text", cwd=folder).code == 2
    assert run_cli("read", cwd=folder).err.startswith("error: no resource given")


def test_a_person_sees_a_table(folder: Path) -> None:
    screen = show_cli("resources", "goods", cwd=folder)
    assert screen.code == 0
    assert screen.lines[1].split() == ["uri", "server", "type", "name", "what", "it", "is"]
