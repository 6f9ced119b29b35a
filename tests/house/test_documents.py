"""The documents are correct: their snippets run, their names exist, and nothing public is missing."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

import toolcrib
from scripts.reference import call_path, provider_path, states
from tests.frameworks.environments import find_python
from tests.house import snippets
from toolcrib import config, provider

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "examples/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GENERATED = ROOT / "docs/reference"
# Generated pages are complete by construction: only pages written by hand can miss something.
TEXT = "\n".join(path.read_text() for path in DOCUMENTS if GENERATED not in path.parents)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def run_snippets(
    python: Path | str, document: Path, folder: Path, *packages: str, flags: tuple[str, ...] = ("-W", "error")
) -> int:
    shutil.copytree(ROOT / "examples", folder / "examples")
    command = [python, *flags, ROOT / "tests/house/snippets.py", document, *packages]
    environment = {**os.environ, "HOME": str(folder)}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    counted = re.fullmatch(r"(\d+) snippets ran\n", ran.stdout)
    assert counted, ran.stdout
    return int(counted[1])


WITH_SNIPPETS = [path for path in DOCUMENTS if snippets.runnable(path.read_text())]


def commands_in(document: Path) -> int:
    """Return the number of commands in a document. Each starts programs, which is slow."""
    return sum(
        block.body.count("\n$ ") + 1 for block in snippets.runnable(document.read_text()) if block.language == "console"
    )


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(path, id=named(path), marks=pytest.mark.slow if commands_in(path) > 3 else [])
        for path in WITH_SNIPPETS
    ],
)
def test_every_snippet_runs_and_prints_what_it_says(document: Path, tmp_path: Path) -> None:
    assert run_snippets(sys.executable, document, tmp_path) == len(snippets.runnable(document.read_text()))


TEACHING = [path for room in ("tutorials", "how-to", "coming-from") for path in (ROOT / "docs" / room).glob("*.md")]


def test_every_page_that_teaches_has_something_that_runs() -> None:
    assert TEACHING
    assert [named(document) for document in TEACHING if document not in WITH_SNIPPETS] == []


PEERS = {"mcp": ("sdk1", "sdk2"), "fastmcp": ("sdk2",)}
NIGHTLY = pytest.mark.nightly  # the older SDK: tests/peers meets its transports in every run
WITH_PEERS = [
    pytest.param(path, package, peer, id=f"{named(path)}-{package}-{peer}", marks=[] if peer == "sdk2" else NIGHTLY)
    for path in DOCUMENTS
    for package in sorted({block.needs for block in snippets.blocks(path.read_text())} & PEERS.keys())
    for peer in PEERS[package]
]


@pytest.mark.slow
@pytest.mark.parametrize("document, package, peer", WITH_PEERS)
def test_the_snippets_that_need_a_peer_run_with_it(document: Path, package: str, peer: str, tmp_path: Path) -> None:
    python = ROOT / ".peers" / peer / "bin/python"
    if not python.exists():
        pytest.skip("the peer's environment is not there: scripts/test makes it")
    count = len(snippets.runnable(document.read_text(), package))
    assert run_snippets(python, document, tmp_path, package) == count > 0


FRAMEWORKS = set(re.findall(r"^\w+", (ROOT / "tests/frameworks/packages.txt").read_text(), re.MULTILINE)) - PEERS.keys()
IN_EVERY_RUN = ("crewai", "pydantic_ai", "strands")
WITH_FRAMEWORKS = [
    pytest.param(path, name, id=f"{named(path)}-{name}", marks=[] if name in IN_EVERY_RUN else NIGHTLY)
    for path in DOCUMENTS
    for name in sorted({block.needs for block in snippets.blocks(path.read_text())} & FRAMEWORKS)
]


@pytest.mark.slow
@pytest.mark.parametrize("document, framework", WITH_FRAMEWORKS)
def test_the_snippets_that_need_a_framework_run_with_it(
    document: Path, framework: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Without `-W error`: the frameworks themselves emit warnings."""
    python = find_python(framework, pytestconfig)
    count = len(snippets.runnable(document.read_text(), framework))
    assert run_snippets(python, document, tmp_path, framework, flags=()) == count > 0


def test_no_python_is_shown_that_is_not_run() -> None:
    """Only blocks marked `theirs`, which need other packages, are not run."""
    for document in DOCUMENTS:
        needs = {block.needs for block in snippets.blocks(document.read_text()) if block.language == "python"}
        assert needs <= {"", *PEERS, *FRAMEWORKS, "theirs"}, document


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


def test_a_command_that_shows_something_else_is_found(tmp_path: Path) -> None:
    document = tmp_path / "wrong.md"
    document.write_text("```console\n$ echo one; false\none\n$ echo $? two\n1 three\n```\n")
    with pytest.raises(AssertionError, match=r"wrong.md:4: expected\n1 three\n"):
        snippets.run(document)


def test_dots_match_a_part_of_a_line_or_whole_lines() -> None:
    assert snippets.looks_like("a ... c\n...\nz", "a b c\n1\n2\nz\n")
    assert snippets.looks_like("...\nz", "z")
    assert not snippets.looks_like("a ... c\nz", "a b c\n1\nz\n")
    assert not snippets.looks_like("a\n", "a\nb\n")


def test_a_block_with_a_files_name_is_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    document = tmp_path / "page.md"
    document.write_text("```python\n# one.py\nprint(1)\n```\n\n```console\n$ python one.py\n1\n```\n")
    assert snippets.run(document) == 1
    assert Path("one.py").read_text() == "# one.py\nprint(1)\n"


def undocumented(names: Iterable[str]) -> list[str]:
    return [name for name in names if not re.search(rf"`{name}(=[^`]*)?`", TEXT)]


def test_every_option_of_the_client_is_documented() -> None:
    assert undocumented(toolcrib.ClientOptions.__annotations__) == []


def test_every_field_of_a_server_config_is_documented() -> None:
    for server in (config.StdioServer, config.HttpServer, config.SseServer):
        assert undocumented(inspect.signature(server).parameters) == [], server


MARKDOWN = sorted({*DOCUMENTS, *ROOT.glob("*.md")})
LINK = re.compile(
    r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)]+))?\)|<(?:img|a)\b[^>]*?(?:src|href)=\"(?!https?:)([^\"#]+)"
)


def links(document: Path) -> list[tuple[Path, str]]:
    """Return the file and the anchor of every relative link and image, except in code."""
    prose = re.sub(r"^```.*?^```$|`[^`\n]+`", "``", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    found = [(match[1] or match[3] or "", match[2] or "") for match in LINK.finditer(prose)]
    return [(document.parent / target if target else document, anchor) for target, anchor in found]


@pytest.mark.parametrize("document", [pytest.param(path, id=named(path)) for path in MARKDOWN])
def test_every_relative_link_leads_to_a_file_and_to_a_heading(document: Path) -> None:
    broken = [
        f"{target}#{anchor}"
        for target, anchor in links(document)
        if not target.exists() or (anchor and anchor not in anchors(target.read_text()))
    ]
    assert broken == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One two\n[a](#one-two) [b](#one two) [c](gone.md) ![d](gone.svg) `[e](code.md)` [f](https://example.com)\n"
    )
    found = [(target.name, anchor) for target, anchor in links(page)]
    assert found == [("page.md", "one-two"), ("page.md", "one two"), ("gone.md", ""), ("gone.svg", "")]
    assert anchors(page.read_text()) == {"one-two"}


PACKAGE = ROOT / "src/toolcrib"


def test_every_file_that_the_architecture_names_exists() -> None:
    """In a row of the table of packages, names are relative to the package of that row."""
    missing, count = [], 0
    for line in (ROOT / "ARCHITECTURE.md").read_text().splitlines():
        row = re.match(r"\| `(\w[\w/]*)/`", line)
        folder = PACKAGE / row[1] if row else PACKAGE
        for name in re.findall(r"`(\w[\w/]*(?:\.py|/))`", line):
            count += 1
            if not (folder / name).exists() and not (PACKAGE / name).exists():
                missing.append(name)
    assert count > 50 and missing == []


def test_every_frame_of_the_call_paths_exists() -> None:
    frames = re.findall(r"^ *(\w+)\.(\w+) +(\w[\w/]*\.py)", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    assert len(frames) > 10
    missing = []
    for kind, method, path in frames:
        text = (PACKAGE / path).read_text() if (PACKAGE / path).exists() else ""
        if not re.search(rf"^class {kind}\b", text, re.MULTILINE) or f"def {method}(" not in text:
            missing.append(f"{kind}.{method} in {path}")
    assert missing == []


def test_the_files_and_commands_for_newcomers_exist() -> None:
    pages = sorted((ROOT / "docs/coming-from").glob("*.md"))
    assert pages
    for page in pages:
        check_right_columns(page)


NOT_OURS = {"None", "True", "False", "Agent", "ClaudeAgentOptions", "ToolMessage"}  # of Python, and of agent frameworks


def check_right_columns(document: Path) -> None:
    """The capitalised names, and the methods of hubs, clients and servers, in the right columns of its tables exist."""
    cells = [row.rsplit(" | ", 1)[1] for row in re.findall(r"^\| .+ \|$", document.read_text(), re.MULTILINE)]
    names = {name for cell in cells for name in re.findall(r"`([A-Z][a-z]\w+)", cell)} - NOT_OURS
    assert [name for name in names if not hasattr(toolcrib, name) and name not in provider.__all__] == [], document
    homes = {
        "provider": provider.Provider,
        "hub": toolcrib.Hub,
        "client": toolcrib.Client,
        "server": toolcrib.ToolServer,
        "ctx": toolcrib.Context,
    }
    used = [
        found for cell in cells for found in re.findall(r"`(?:await )?@?(provider|hub|client|server|ctx)\.(\w+)", cell)
    ]
    missing = [f"{home}.{name}" for home, name in used if not hasattr(homes[home], name)]
    assert [name for name in missing if name != "hub.toolsets"] == [], document  # which every hub has for itself
    assert names and used, document


def test_the_picture_of_a_connection_shows_every_transition() -> None:
    text = (ROOT / "docs/pictures/states.svg").read_text()
    drawn = {
        tuple(pair.split(" → "))
        for title in re.findall(r"<title>(.* → .*)</title>", text)
        for pair in title.split(", ")
    }
    assert drawn == {(start.value, end.value) for start, ends in states.TRANSITIONS.items() for end in ends}


def test_every_method_in_the_picture_of_a_call_exists() -> None:
    path = [*call_path.frames(), *call_path.CALLBACKS]
    of_provider = call_path.frames("### Provider")
    assert len(path) > 5 and len(of_provider) > 4
    for frame in (*path, *of_provider, *provider_path.BESIDE):
        kind, method = frame.name.split(".")
        text = (PACKAGE / frame.module).read_text()
        assert re.search(rf"^class {kind}\b", text, re.MULTILINE) and f"def {method}(" in text, frame


def test_every_package_is_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    packages = [p.name + "/" * p.is_dir() for p in PACKAGE.iterdir() if p.suffix in ("", ".py")]
    known = {"__pycache__/", "__main__.py", "_version.py"}
    assert [name for name in packages if f"`{name}`" not in text and name not in known] == []


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs/README.md"
    linked = {(index.parent / target).resolve() for target in re.findall(r"\]\(([^)#]+)\)", index.read_text())}
    assert [named(path) for path in (ROOT / "docs").rglob("*.md") if path != index and path not in linked] == []


def test_every_example_is_listed() -> None:
    text = (ROOT / "examples/README.md").read_text()
    assert [path.name for path in (ROOT / "examples").glob("*.py") if f"[{path.name}](" not in text] == []


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub generates for headings; repeated ones get a number."""
    made: dict[str, int] = {}
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#+ (.+)$", prose, re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        made[anchor] = made.get(anchor, -1) + 1
        if made[anchor]:
            made[f"{anchor}-{made[anchor]}"] = 0
    return set(made)
