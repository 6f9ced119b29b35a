"""What the documents say is true: their snippets run, their names exist, and nothing public is left out."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import toolyard
from tests.house import snippets
from toolyard import config, errors

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXT = "\n".join(path.read_text() for path in DOCUMENTS)


def run_snippets(python: Path | str, document: Path, folder: Path, *packages: str) -> int:
    shutil.copytree(ROOT / "examples", folder / "examples")
    command = [python, "-W", "error", ROOT / "tests/house/snippets.py", document, *packages]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    counted = re.fullmatch(r"(\d+) snippets ran\n", ran.stdout)
    assert counted, ran.stdout
    return int(counted[1])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_python_snippet_runs_and_prints_what_it_says(document: Path, tmp_path: Path) -> None:
    own = [b for b in snippets.blocks(document.read_text()) if b.language == "python" and not b.needs]
    assert run_snippets(sys.executable, document, tmp_path) == len(own) > 0


@pytest.mark.parametrize("peer", ["sdk1", "sdk2"])
def test_the_snippets_that_need_the_sdk_run_with_it(peer: str, tmp_path: Path) -> None:
    python = ROOT / ".peers" / peer / "bin/python"
    if not python.exists():
        pytest.skip("the SDK's environment is not there: scripts/test makes it")
    document = ROOT / "docs/client.md"
    every = [b for b in snippets.blocks(document.read_text()) if b.language == "python"]
    assert run_snippets(python, document, tmp_path, "mcp") == len(every)


def test_the_demonstration_prints_what_the_readme_shows() -> None:
    shown = [block.body for block in snippets.blocks((ROOT / "README.md").read_text()) if block.language == "console"]
    demo = next(body for body in shown if body.startswith("$ scripts/up\n"))
    ran = subprocess.run([sys.executable, "examples/demo.py"], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert snippets.looks_like(demo.removeprefix("$ scripts/up\n"), ran.stdout), ran.stdout


def test_a_snippet_that_fails_names_the_line_of_its_document(tmp_path: Path) -> None:
    document = tmp_path / "wrong.md"
    document.write_text("# Title\n\n```python\nx = 1\nassert x == 2\n```\n")
    with pytest.raises(AssertionError) as caught:
        snippets.run(document)
    assert caught.traceback[-1].lineno + 1 == 5
    assert str(caught.traceback[-1].path) == str(document)


def test_a_snippet_that_prints_something_else_is_found(tmp_path: Path) -> None:
    document = tmp_path / "wrong.md"
    document.write_text("```python\nprint(1)\n```\n\n```text\n2\n```\n")
    with pytest.raises(AssertionError, match="expected\n2"):
        snippets.run(document)


PUBLIC_ERRORS = sorted(
    name
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, Exception) and not name.startswith("_")
)


@pytest.mark.parametrize("name", PUBLIC_ERRORS)
def test_every_error_is_documented(name: str) -> None:
    assert f"`{name}`" in TEXT


@pytest.mark.parametrize("name", sorted(toolyard.ClientOptions.__annotations__))
def test_every_option_of_the_client_is_documented(name: str) -> None:
    assert re.search(rf"`{name}(=[^`]*)?`", TEXT)


@pytest.mark.parametrize("server", [config.StdioServer, config.HttpServer, config.SseServer], ids=lambda c: c.__name__)
def test_every_field_of_a_server_config_is_documented(server: type) -> None:
    missing = [name for name in inspect.signature(server).parameters if not re.search(rf"`{name}(=[^`]*)?`", TEXT)]
    assert not missing


@pytest.mark.parametrize("document", [*DOCUMENTS, *ROOT.glob("*.md")], ids=lambda path: path.name)
def test_every_link_to_a_file_leads_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", document.read_text())
    assert [target for target in targets if not (document.parent / target).exists()] == []


def test_every_file_that_the_architecture_names_exists() -> None:
    named = set(re.findall(r"`(\w[\w/]*(?:\.py|/))`", (ROOT / "ARCHITECTURE.md").read_text()))
    assert named
    assert [name for name in named if not (ROOT / "src/toolyard" / name).exists()] == []


def test_every_room_is_on_the_map() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = [p.name + "/" * p.is_dir() for p in (ROOT / "src/toolyard").iterdir() if p.suffix in ("", ".py")]
    assert [room for room in rooms if f"`{room}`" not in text and room != "__pycache__/"] == []
