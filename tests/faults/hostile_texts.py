"""Texts that a hostile server sends, and a detector that finds them where they must not appear.

Standard library only: `hostile_server.py` runs with `python -S`.

Each text carries a mark, `[field~text]`, which names the field of the protocol and the text, so that a finding shows
its origin.
"""

from __future__ import annotations

import re
import traceback
import unicodedata
from collections.abc import Iterable, Iterator

SECRETS = "<<secrets>>"
"""Replaced by the server with all secrets that it was given: environment, headers, query, user info."""

FORGED = "2026-01-01 00:00:00 CRITICAL forged"
"""A line that starts with this was forged by a server."""

LONG = 20_000
LONGEST_LINE = 10_000
"""Characters of a log line, status or error, however long the server's text is."""

CONTROLS = {
    "title": "\x1b]0;owned\x07",
    "clipboard": "\x1b]52;c;b3duZWQ=\x07",
    "link": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "colour": "\x1b[31mred\x1b[0m",
    "clear screen": "\x1b[2J\x1b[H",
    "device control": "\x1bP+q544e\x1b\\",
    "application command": "\x1b_G\x1b\\",
    "C1 CSI": "\x9b31m",
    "C1 OSC": "\x9d0;owned\x9c",
    "bell": "a\x07b",
    "backspace": "rm\x08\x08ls",
    "null": "a\x00b",
    "delete": "a\x7fb",
    "bidi override": "\u202egnp.exe\u202c",
    "bidi isolate": "\u2066a\u2067b\u2069",
    "bidi mark": "a\u200eb\u200fc\u061cd",
    "zero width": "a\u200bb\u200cc\u200dd\u2060e\ufefff",
    "tags": "a\U000e0001\U000e0041\U000e007fb",
    "invisible operators": "a\u2061\u2064b\u180e",
    "interlinear": "a\ufff9b\ufffbc",
}

BREAKS = {
    "LF": "\n",
    "CR": "\r",
    "CRLF": "\r\n",
    "VT": "\x0b",
    "FF": "\x0c",
    "FS": "\x1c",
    "NEL": "\x85",
    "LS": "\u2028",
    "PS": "\u2029",
}

SURROGATE = "lone surrogate"
CUTS = (80, 200, 500)
"""Lengths at which texts are shortened somewhere in the source; each goes through the middle of a secret."""


def _bodies() -> dict[str, str]:
    bodies = dict(CONTROLS)
    bodies |= {f"newline {name}": f"a{line}{FORGED}" for name, line in BREAKS.items()}
    bodies["overstrike"] = f"a\r\x1b[K{FORGED}"
    bodies[SURROGATE] = "a\ud800b\udfffc"
    bodies["long"] = "x" * LONG + f"\n{FORGED}"
    bodies["long line"] = "\x1b[31m" * (LONG // 5)
    # One of each, short enough not to be cut.
    bodies["mixed"] = "".join(
        (
            "\x1b]0;owned\x07\x9b2J\x08\x00\u202e\u2066\u200b\U000e0041\u2028\x85",
            f"\r{FORGED}\n{FORGED} {SECRETS}",
        )
    )
    bodies["secrets"] = f"given {SECRETS} given"
    bodies["secrets between controls"] = f"\x1b[31m{SECRETS}\x1b[0m\n{FORGED}"
    bodies |= {f"secret cut at {length}": f"<<pad {length}>>{SECRETS}" for length in CUTS}
    return bodies


TEXTS = _bodies()

FEW = ("mixed", SURROGATE, "long", "secret cut at 200")
"""Texts for fields that need a separate connection or process for each text."""


def text_for(field: str, name: str, secrets: Iterable[str] = ()) -> str:
    """Return the text of this name, marked with the field, with the secrets filled in."""
    text = f"[{field}~{name}]{TEXTS[name]}"
    if pad := re.search(r"<<pad (\d+)>>", text):
        # Twelve characters of the secret precede the cut.
        text = text.replace(pad[0], "x" * (int(pad[1]) - pad.start() - 12))
    return text.replace(SECRETS, " ".join(secrets))


# ---- the detector ---------------------------------------------------------------------------------------------------

FORBIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories that steer a terminal, break a line, or cannot be seen."""
MULTI_LINE = frozenset("\n\t")
_MARK = re.compile(r"\[([^~\[\]]+)~([^~\[\]]+)\]")
_WINDOW = 8
"""So many characters of a secret in a row are a leak."""
_FORGED_LINE = re.compile(r"(?m)^\s*" + re.escape(FORGED))
_SUSPECT = re.compile(r"[^\x20-\x7e]")


class Detector:
    """Collects hostile texts that reached an output: `findings` by field, place and kind."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # The beginning, the middle and the end: a text that was cut, or masked in part, has one of them left.
        starts = ((secret, at) for secret in secrets for at in (0, len(secret) // 2, len(secret) - _WINDOW))
        self._windows = {secret[at : at + _WINDOW] for secret, at in starts}
        self.findings: dict[tuple[str, str, str], tuple[set[str], str]] = {}

    def look(
        self,
        where: str,
        text: str,
        *,
        doing: str = "",
        multi_line: bool = False,
        forged: bool = True,
        data: bool = False,
        bounded: bool = True,
    ) -> None:
        """Search `text`, which was written to `where`.

        `multi_line`: newlines and tabs are allowed; `forged`: but no forged line. `data`: the caller requested it from
        the server, so it may be long and may contain what the server knows. `bounded`: no line is very long.
        """
        for kind, start in self._problems(text, multi_line, forged, data):
            if kind == "too long" and not bounded:
                continue
            excerpt = text[max(0, start - 60) : start + 60]
            marks = [*_MARK.finditer(text, 0, start + 1)] or [*_MARK.finditer(text)]
            field, name = (marks[-1][1], marks[-1][2]) if marks else (doing or "?", "?")
            names, _ = self.findings.setdefault((field, where, kind), (set(), ascii(excerpt)))
            names.add(name)

    def _problems(self, text: str, multi_line: bool, forged: bool, data: bool) -> Iterator[tuple[str, int]]:
        allowed = MULTI_LINE if multi_line else frozenset()
        for match in _SUSPECT.finditer(text):
            character = match[0]
            if character not in allowed and unicodedata.category(character) in FORBIDDEN:
                yield "newline" if character in "\n\t" else "control character", match.start()
                break
        if forged and (line := _FORGED_LINE.search(text)):
            yield "forged line", line.start()
        if not data:
            if len(text) > LONGEST_LINE and max(map(len, text.splitlines())) > LONGEST_LINE:
                yield "too long", 0
            for window in self._windows:
                if (at := text.find(window)) >= 0:
                    yield "secret", at
                    break

    def look_at_error(self, where: str, error: BaseException | None, *, doing: str = "") -> None:
        """Search an exception and everything that it was raised from.

        The message of a `ToolFailed` is the tool's text, which the caller requested; only `str(error)` must be fit for
        a log.
        """
        seen: set[int] = set()
        stack = [error]
        while stack:
            each = stack.pop()
            if each is None or id(each) in seen:
                continue
            seen.add(id(each))
            name, data = f"{where}, {type(each).__name__}", type(each).__name__ == "ToolFailed"
            self.look(f"{name}, str", str(each), doing=doing, data=data)
            self.look(f"{name}, repr", repr(each), doing=doing, data=data)
            for text in () if data else _texts((each.args, getattr(each, "__notes__", ()))):
                self.look(f"{name}, args", text, doing=doing, multi_line=True, forged=False)
            for attribute in ("sample", "stderr"):
                value = str(getattr(each, attribute, ""))[-LONGEST_LINE:]  # of stderr there may be more
                self.look(f"{name}, {attribute}", value, doing=doing, multi_line=True, forged=False)
            # The text that a traceback prints; the frames are Toolcrib's.
            shown = "".join(traceback.format_exception_only(each))
            self.look(f"{name}, traceback", shown, doing=doing, multi_line=True, data=data)
            stack += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]

    def check(self) -> None:
        """Fail with a report if anything was found."""
        if self.findings:
            raise AssertionError(f"{len(self.findings)} findings:\n{self.report()}")

    def report(self) -> str:
        """Return one line per finding."""
        lines = []
        for (field, where, kind), (names, excerpt) in sorted(self.findings.items()):
            shown = ", ".join(sorted(names)[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
            lines.append(f"- {field} -> {where}: {kind} ({shown}): {excerpt}")
        return "\n".join(lines)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        yield value.decode("utf-8", "replace")
    elif isinstance(value, dict):
        for item in value.items():
            yield from _texts(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _texts(item)
