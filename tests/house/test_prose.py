"""Code and documents are written in plain English: few marker words of the former style, none that is always wrong.

`python tests/house/prose.py PATH ...` prints the findings in some files or folders.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house import prose
from tests.house.prose import ROOT, Report

CODE = ("src", "bench", "scripts", "examples")
MAX_SHARE = 0.01
"""httpx and Starlette have 0.0 to 0.4 %."""

BAD = {
    "Nobody waits for the answer.": "Nobody",
    "A listener that somebody added.": "somebody",
    "The tool is offered to whoever connects.": "whoever",
    "Listeners are told of the change.": "told",
    "The list was mended by the server.": "mended",
    "The token travels inside of the request.": "inside of",
    "The old code stays at work.": "at work",
    "The client lets go of the session.": "lets go",
    "transport: 'x' is none; use 'http'": "is none",
    "The answer goes to who asked for it.": "to who",
    "Who asks is known by the hook.": "Who asks",
    "The context tells the name of the agent.": "tells",
    "Everything that anybody added.": "anybody",
    "Every server has a process of its own.": "of its own",
    "The client hears of the change.": "hears",
    "What the client calls itself.": "What the",
    "The name as it stands in the file.": "stands",
    "The session is not known any more.": "any more",
    "A model can read and mend it.": "mend",
    "Stop after so many seconds.": "so many",
    "Calls under way fail at once.": "under way",
    "An exception hurts the connection.": "hurts",
    "Nothing outside of the folder changes.": "outside of",
    "It is no mapping but a sequence.": "is no mapping",
    "The name of the file goes before it.": "goes before",
}
GOOD = (
    "Return the tools that the caller may see, in the order of the servers.",
    "Requests are rejected before any handler runs.",
    "Exceptions in listeners are logged and ignored.",
    "Every server runs in its own process.",
    "`None` if there is none, or if the server is None.",
    "The name stands for any tool of the server.",
    "As long as the session is open, it is no longer retried.",
    "What is the name of the tool?",
    "Who shall be greeted?",
    "The user who approves the call is recorded.",
)


def texts(report: Report) -> str:
    return "\n".join(map(str, report.findings))


@pytest.fixture(scope="module")
def code() -> Report:
    return prose.check(ROOT / folder for folder in CODE)


@pytest.fixture(scope="module")
def documents() -> Report:
    return prose.check([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])


# ---- the project ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("area", ["code", "documents"])
def test_no_text_has_a_word_that_is_always_wrong(area: str, request: pytest.FixtureRequest) -> None:
    report: Report = request.getfixturevalue(area)
    assert not report.always_wrong, "\n" + "\n".join(map(str, report.always_wrong))


@pytest.mark.parametrize("area", ["code", "documents"])
def test_few_clauses_have_a_marker(area: str, request: pytest.FixtureRequest) -> None:
    report: Report = request.getfixturevalue(area)
    assert report.clauses > 1000, "most of the texts were not read"
    assert report.share <= MAX_SHARE, f"{report.share:.2%} of {report.clauses} clauses:\n{texts(report)}"


def test_every_exception_has_a_reason_and_is_still_needed() -> None:
    for entry in prose.ALLOWED:
        assert entry.reason
        found = [clause for _, text in prose.texts(ROOT / entry.path) for _, clause in prose.clauses(text)]
        matching = [clause for clause in found if entry.clause in clause]
        assert any(marker.pattern.search(clause) for marker in prose.MARKERS for clause in matching), entry


# ---- the check itself ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["docstring", "comment", "message", "formatted", "markdown", "table", "shell"])
def test_the_check_finds_each_marker_with_file_line_and_suggestion(kind: str, tmp_path: Path) -> None:
    for bad, expected in BAD.items():
        check_one(bad, expected, kind, tmp_path)


def check_one(bad: str, expected: str, kind: str, folder: Path) -> None:
    name, source, line = {
        "docstring": ("a.py", f'def f():\n    """Do it.\n\n    {bad}\n    """\n', 4),
        "comment": ("a.py", f"x = 1\n# {bad}\ny = 2  # noqa: A001\n", 2),
        "message": ("a.py", f"raise ValueError(\n    {bad!r}\n)\n", 2),
        "formatted": ("a.py", f"log.info(f{bad + ' {name}'!r})\n", 1),
        "markdown": ("a.md", f"# Title\n\n```text\n{bad}\n```\n\nFirst.\n{bad}\n", 8),
        "table": ("a.md", f"| key | meaning |\n| --- | --- |\n| `x` | {bad} |\n", 3),
        "shell": ("a", f"#!/usr/bin/env bash\necho x\n# {bad}\n", 3),
    }[kind]
    path = folder / name
    path.write_text(source)
    report = prose.check([folder])
    (finding,) = [finding for finding in report.findings if finding.found.lstrip("(.:; ") == expected]
    assert (finding.path, finding.line) == (str(path), line)
    assert str(finding).startswith(f"{path}:{line}: ") and finding.marker.suggestion in str(finding)


def test_the_examples_of_bad_texts_cover_every_marker() -> None:
    unused = [marker for marker in prose.MARKERS if not any(marker.pattern.search(bad) for bad in BAD)]
    assert unused == []


@pytest.mark.parametrize("good", GOOD)
def test_the_check_accepts_plain_english(good: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f'"""{good}"""\n\nx = 1  # {good}\nMESSAGE = {good!r}\n')
    (tmp_path / "a.md").write_text(f"# Title\n\n{good}\n")
    report = prose.check([tmp_path])
    assert report.clauses > 2
    assert report.findings == []


def test_code_and_single_words_are_not_prose(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('told = {"told": nobody("is none")}  # type: ignore[told]\n')
    (tmp_path / "a.md").write_text("Call `nobody.told()`.\n\n```python\ntold = nobody  # told at work\n```\n")
    assert prose.check([tmp_path]).findings == []


def test_a_sentence_over_two_lines_of_comments_is_one_clause(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("# The listeners of the hub are not\n# told, since they are\n# inside\n# of it.\n")
    assert {finding.found for finding in prose.check([tmp_path]).findings} == {"told", "inside of"}
