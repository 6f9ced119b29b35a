"""The results of the checks: findings, each with a verdict and, for problems, a fix."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ..config import SecretMask
from ..settings import ServerEntry

LINES_KEPT: Final = 50
"""Lines of a server's stderr that are kept for diagnosis."""

MAX_QUOTED_LINES: Final = 8
"""Lines of a server's stderr that a finding shows."""


class Verdict(StrEnum):
    """The outcome of a step."""

    FINE = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    BROKEN = "error"


_GRAVITY: Final = tuple(Verdict)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the most severe verdict; `FINE` if there are none."""
    return max(verdicts, key=_GRAVITY.index, default=Verdict.FINE)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table; every problem has a `fix`."""

    step: str
    verdict: Verdict
    text: str
    fix: str = ""
    seconds: float | None = None
    quoted: str = ""
    """The server's own output about the problem."""

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as a JSON object."""
        given: dict[str, Any] = {"step": self.step, "verdict": self.verdict.value, "text": self.text}
        if self.seconds is not None:
            given["seconds"] = round(self.seconds, 4)
        return given | {key: value for key in ("fix", "quoted") if (value := getattr(self, key))}


def ignore_text(_: str) -> None:
    """Ignore a text; the default of callbacks."""


@dataclass(slots=True)
class ServerReport:
    """All findings about one server, or about the settings files if `server` is empty."""

    server: str = ""
    findings: list[Finding] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    """Values for programs, beside the verdicts."""
    secrets: SecretMask = field(default_factory=SecretMask)
    """Secrets of the server's config; no text in the report shows them."""
    on_step: Callable[[str], object] = ignore_text
    """Called with the name of each step before it is checked."""
    on_stderr: Callable[[str], object] = ignore_text
    """Called with each line that the server writes to stderr, without its secrets."""
    timeout_place: str = "its entry"
    """Where its `connect_timeout` is set, or can be set: `file:line`, if its settings are from a file."""
    entry: ServerEntry | None = None
    """The server's entry."""
    login: str = ""
    """The command that signs in to the server."""
    stderr: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))
    """The last lines that the server wrote to stderr."""

    def fine(self, step: str, text: str, seconds: float | None = None) -> None:
        """Add a finding for a step without problems."""
        self.findings.append(Finding(step, Verdict.FINE, text, seconds=seconds))

    def skip(self, step: str, text: str) -> None:
        """Add a finding for a step that was skipped; `text` says why."""
        self.findings.append(Finding(step, Verdict.SKIPPED, text))

    def warn(self, step: str, text: str, fix: str, seconds: float | None = None) -> None:
        """Add a finding for a step that works but should be fixed."""
        self.findings.append(Finding(step, Verdict.WARNING, text, fix, seconds))

    def broken(self, step: str, text: str, fix: str, seconds: float | None = None, quoted: str = "") -> None:
        """Add a finding for a step that failed; the last lines of `quoted` are shown with it."""
        lines = [line for line in self.said(quoted).splitlines() if line.strip()]
        self.findings.append(Finding(step, Verdict.BROKEN, text, fix, seconds, "\n".join(lines[-MAX_QUOTED_LINES:])))

    def hear(self, line: str) -> None:
        """Record a line that the server wrote to stderr, and pass it to `on_stderr`."""
        self.stderr.append(line)
        self.on_stderr(self.said(line))

    def said(self, text: str) -> str:
        """Return a text of the server without the secrets of its config."""
        return self.secrets.mask(text)

    @property
    def verdict(self) -> Verdict:
        """The most severe verdict of all findings."""
        return worst(finding.verdict for finding in self.findings)

    def count(self, verdict: Verdict) -> int:
        """Return the number of findings with this verdict."""
        return sum(finding.verdict is verdict for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object, without secrets."""
        return {
            "server": self.server,
            "verdict": self.verdict.value,
            **self.secrets.mask_data(self.facts),
            "steps": [finding.to_dict() for finding in self.findings],
        }
