"""Finds marker words of the project's former style in prose: `python tests/house/prose.py PATH ...`.

The former style hid who acts ("who is refused is refused"), used people for components ("nobody waits") and one verb
for many operations ("told"). `MARKERS` lists its words and phrases, each with what to write instead. Prose means
docstrings, comments and string constants of three or more words in Python, comments and messages in shell scripts, and
Markdown without its code.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""Paths in reports and in the allow-list are relative to this folder."""


@dataclass(frozen=True)
class Marker:
    """A pattern of the former style."""

    pattern: re.Pattern[str]
    suggestion: str
    always_wrong: bool = False
    """Whether a single occurrence fails the check; the other markers count towards the permitted share."""


def _marker(pattern: str, suggestion: str, *, always_wrong: bool = False) -> Marker:
    return Marker(re.compile(pattern), suggestion, always_wrong)


PEOPLE = "name the component: client, server, caller, task, process, listener"
OPERATION = "name the operation: raise, return, log, print, emit, send, notify, report"

MARKERS = (
    # ---- always wrong ------------------------------------------------------------------------------------------
    _marker(r"\b[Nn]obody\b", f"{PEOPLE}; or 'no caller', 'no listener', 'none of them'", always_wrong=True),
    _marker(r"\b[Ss]omebody\b", f"{PEOPLE}; or 'a user', 'another process'", always_wrong=True),
    _marker(r"\b[Ww]hoever\b", f"{PEOPLE}; or 'any client that ...'", always_wrong=True),
    _marker(r"\btold\b", f"{OPERATION}; 'told apart' is 'distinguished'", always_wrong=True),
    _marker(r"\bmended\b", "'fixed', 'repaired', 'corrected'", always_wrong=True),
    _marker(r"\binside of\b", "'inside', 'in', 'within'", always_wrong=True),
    _marker(r"\bat work\b", "'running', 'active', 'in use'", always_wrong=True),
    _marker(r"\blets? go\b", "'releases', 'closes', 'drops', 'disconnects'", always_wrong=True),
    _marker(
        r"(?<!there )\b(?:is|are|was|were) none\b", "'does not exist', 'is not a ...', 'is missing'", always_wrong=True
    ),
    # ---- rarely right ------------------------------------------------------------------------------------------
    _marker(
        r"(?:\b(?:to|of|for|by|with|from|and|all|nor|than|as)|,) who\b(?! (?:is|are|was|were) \w+ing)",
        f"{PEOPLE}; 'the user who ...' needs its noun",
    ),
    _marker(r"(?:^|[.:;(\"] ?)Who (?!may|am|are|is it)\w+(?![^.]*\?)", PEOPLE),
    _marker(r"\btells?\b", f"{OPERATION}; for texts 'says', 'describes', 'shows'"),
    _marker(r"\b(?:any|every)body\b", PEOPLE),
    _marker(r"\bof (?:ours|theirs|yours|its own|our own|one's own)\b|\bour own\b", "'its own ...', or name the owner"),
    _marker(r"\b[Hh]ears?\b|\bheard\b", "'receives', 'is notified of'"),
    _marker(
        r"(?:^|[.:;(,\"] ?)What (?:is|was|has|had|it|a|the|we|stands|comes|goes|came|of)\b(?![^.]*\?)",
        "start with a verb or with the noun that 'what' stands for: 'Return the ...', 'The settings that ...'",
    ),
    _marker(r"\bstands?\b(?! for)|\bstood\b", "'is', 'is written', 'is listed', 'remains'"),
    _marker(r"\bany more\b|\bno more\b", "'no longer', 'not ... anymore', 'at most'"),
    _marker(r"\bmends?\b", "'fix', 'repair', 'correct'"),
    _marker(r"\bso (?:many|long|much)\b(?! as)", "give the quantity: '`count` servers', 'for `seconds` seconds'"),
    _marker(r"\bunder way\b", "'in progress', 'in flight', 'pending'"),
    _marker(r"\bhurts?\b", "'affects', 'fails', 'breaks'"),
    _marker(r"\boutside of\b", "'outside'"),
    _marker(r"\b(?:is|are|was|be) no (?!longer|more)\w+", "'is not a ...', 'does not exist', 'without ...'"),
    _marker(r"\bgoes? before\b", "'precedes', 'takes precedence over'"),
)


@dataclass(frozen=True)
class Allowed:
    """A clause that may contain a marker."""

    path: str
    clause: str
    reason: str


ALLOWED: tuple[Allowed, ...] = ()


@dataclass(frozen=True)
class Finding:
    """A marker in a clause."""

    path: str
    line: int
    clause: str
    found: str
    marker: Marker

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.found!r} in {self.clause!r}: write {self.marker.suggestion}"


@dataclass
class Report:
    """The findings in some files, and the number of clauses that were checked."""

    clauses: int
    findings: list[Finding]

    @property
    def always_wrong(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.marker.always_wrong]

    @property
    def share(self) -> float:
        """The share of the clauses that contain a marker."""
        marked = {(finding.path, finding.line, finding.clause) for finding in self.findings}
        return len(marked) / max(self.clauses, 1)


# ---- texts of a file -----------------------------------------------------------------------------------------

Text = tuple[int, str]
"""The line at which a text begins, and the text."""

_DIRECTIVE = re.compile(r"#\s*(?:noqa|type:|fmt:|ruff:|pragma:|----|!)")
_THREE_WORDS = re.compile(r"[A-Za-z',]+(?: [A-Za-z',]+){2}")
_SHELL_PROSE = re.compile(r"[A-Za-z][A-Za-z',.:;()-]*(?: [A-Za-z'(][A-Za-z',.:;()-]*){2,}")


def texts(path: Path) -> list[Text]:
    """Return the prose of a Python, Markdown or shell file."""
    source = path.read_text()
    if path.suffix == ".md":
        return markdown_texts(source)
    if path.suffix == ".py":
        return [*comments(source), *strings(source)]
    return shell_texts(source)


def comments(source: str) -> list[Text]:
    """Return the comments of a Python file; comments on successive lines are one text."""
    found: list[Text] = []
    end, alone = 0, False
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        text = re.sub(r"#\s*noqa[^#]*#?", "", token.string)
        if _DIRECTIVE.match(text):
            continue
        line, own_line = token.start[0], not token.line[: token.start[1]].strip()
        words = text.lstrip("# ")
        if found and own_line and alone and line == end + 1:
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{words}")
        else:
            found.append((line, words))
        end, alone = line, own_line
    return found


def strings(source: str) -> list[Text]:
    """Return the docstrings of a Python file and its strings of three or more words; `X` replaces formatted values."""
    found: list[Text] = []
    pending: list[tuple[ast.AST, bool]] = [(ast.parse(source), False)]
    while pending:
        node, is_docstring = pending.pop()
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "X" for part in node.values]
            found += _prose(node.lineno, "".join(map(str, parts)))
            pending += [(part.value, False) for part in node.values if isinstance(part, ast.FormattedValue)]
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                found += [(node.lineno, node.value)] if is_docstring else _prose(node.lineno, node.value)
        else:
            is_statement = isinstance(node, ast.Expr)
            pending += [(child, is_statement) for child in ast.iter_child_nodes(node)]
    return sorted(found)


def _prose(line: int, text: str) -> list[Text]:
    return [(line, text)] if _THREE_WORDS.search(text) else []


def markdown_texts(source: str) -> list[Text]:
    """Return the paragraphs of a Markdown document, without code; the cells of a table are clauses of their own."""
    blanked = re.sub(r"^```.*?^```", lambda match: "\n" * match[0].count("\n"), source, flags=re.MULTILINE | re.DOTALL)
    blanked = re.sub(r"`[^`\n]+`", "`code`", blanked).replace("|", " . ")
    line, found = 1, []
    for paragraph in re.split(r"(\n\s*\n)", blanked):
        if paragraph.strip():
            found.append((line, paragraph))
        line += paragraph.count("\n")
    return found


def shell_texts(source: str) -> list[Text]:
    """Return the comments and messages of a shell script."""
    return [(line, words) for line, text in enumerate(source.splitlines(), 1) for words in _SHELL_PROSE.findall(text)]


# ---- the check -----------------------------------------------------------------------------------------------


def clauses(text: str) -> Iterator[tuple[int, str]]:
    """Yield the clauses of a text of at least eight characters, each with the number of line ends before it."""
    start = 0
    for end in [*(match.end() for match in re.finditer(r"[.:;]\s+", text)), len(text)]:
        clause = " ".join(text[start:end].split())
        if len(clause) >= 8:
            piece = text[start:end]
            skipped = len(piece) - len(piece.lstrip())
            yield text.count("\n", 0, start + skipped), clause
        start = end


def check(paths: Iterable[Path], markers: Iterable[Marker] = MARKERS) -> Report:
    """Return the findings in files, and in all Python, Markdown and shell files of folders."""
    markers = tuple(markers)
    report = Report(0, [])
    for path in sorted({file for each in paths for file in files(each)}):
        name = str(path.resolve().relative_to(ROOT)) if path.resolve().is_relative_to(ROOT) else str(path)
        for first_line, text in texts(path):
            for offset, clause in clauses(text):
                report.clauses += 1
                report.findings += [
                    Finding(name, first_line + offset, clause, match[0].strip(), marker)
                    for marker in markers
                    if (match := marker.pattern.search(clause)) and not is_allowed(name, clause)
                ]
    return report


def is_allowed(path: str, clause: str) -> bool:
    """Return whether the allow-list has the clause for this file."""
    return any(entry.path == path and entry.clause in clause for entry in ALLOWED)


def files(path: Path) -> Iterator[Path]:
    """Yield the files with prose: `path` itself, or those of the folder."""
    if path.is_file():
        yield path
        return
    for file in path.rglob("*"):
        if file.is_file() and (file.suffix in (".py", ".md") or (not file.suffix and is_shell_script(file))):
            yield file


def is_shell_script(file: Path) -> bool:
    """Return whether the file starts with a comment, as all files of `scripts` without a suffix do."""
    return file.read_bytes()[:2] in (b"#!", b"# ")


def main(arguments: list[str]) -> int:
    """Print the findings in the given files and folders; return 1 if there are any."""
    report = check(map(Path, arguments))
    for finding in report.findings:
        print(finding)
    print(
        f"{report.clauses} clauses, {report.share:.2%} with a marker, {len(report.always_wrong)} that are always wrong"
    )
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
