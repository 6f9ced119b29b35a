"""What was found: values, a verdict each, and how to mend what is not well."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ..config import SecretMask

LINES_KEPT: Final = 50
"""Lines of a server's stderr that are kept to find out why it failed."""

QUOTED: Final = 8
"""Lines of what a server wrote that are shown."""


class Verdict(StrEnum):
    """How a step went."""

    FINE = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    BROKEN = "error"


_GRAVITY: Final = tuple(Verdict)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The gravest of them; fine if there are none."""
    return max(verdicts, key=_GRAVITY.index, default=Verdict.FINE)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table. Whatever is not well has a `fix`."""

    step: str
    verdict: Verdict
    text: str
    fix: str = ""
    seconds: float | None = None
    quoted: str = ""
    """What the server itself wrote about it."""

    def to_dict(self) -> dict[str, Any]:
        """The same for a program."""
        given: dict[str, Any] = {"step": self.step, "verdict": self.verdict.value, "text": self.text}
        if self.seconds is not None:
            given["seconds"] = round(self.seconds, 4)
        return given | {key: value for key in ("fix", "quoted") if (value := getattr(self, key))}


def nobody(_: str) -> None:
    """Whoever does not want to know."""


@dataclass(slots=True)
class ServerReport:
    """All that was found of one server, or of the settings files where `server` is empty."""

    server: str = ""
    findings: list[Finding] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    """What a program may want to know beside the verdicts."""
    secrets: SecretMask = field(default_factory=SecretMask)
    """Secrets of the server's config; no text in the report shows them."""
    on_step: Callable[[str], object] = nobody
    """Is told what is looked at next."""
    on_stderr: Callable[[str], object] = nobody
    """Is called with each line that the server writes to stderr, without its secrets."""
    stderr: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))
    """The last lines that the server wrote to stderr."""

    def fine(self, step: str, text: str, seconds: float | None = None) -> None:
        """It is as it should be."""
        self.findings.append(Finding(step, Verdict.FINE, text, seconds=seconds))

    def skip(self, step: str, text: str) -> None:
        """It was not looked at, and why."""
        self.findings.append(Finding(step, Verdict.SKIPPED, text))

    def warn(self, step: str, text: str, fix: str, seconds: float | None = None) -> None:
        """It works, and should be mended."""
        self.findings.append(Finding(step, Verdict.WARNING, text, fix, seconds))

    def broken(self, step: str, text: str, fix: str, seconds: float | None = None, quoted: str = "") -> None:
        """It does not work; `quoted` is shown by its last lines."""
        lines = [line for line in self.said(quoted).splitlines() if line.strip()]
        self.findings.append(Finding(step, Verdict.BROKEN, text, fix, seconds, "\n".join(lines[-QUOTED:])))

    def hear(self, line: str) -> None:
        """Take a line that the server wrote to stderr."""
        self.stderr.append(line)
        self.on_stderr(self.said(line))

    def said(self, text: str) -> str:
        """Return a text of the server without the secrets of its config."""
        return self.secrets.mask(text)

    @property
    def verdict(self) -> Verdict:
        """The gravest of all."""
        return worst(finding.verdict for finding in self.findings)

    def count(self, verdict: Verdict) -> int:
        """How many lines say so."""
        return sum(finding.verdict is verdict for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The same for a program."""
        return {
            "server": self.server,
            "verdict": self.verdict.value,
            **self.secrets.mask_data(self.facts),
            "steps": [finding.to_dict() for finding in self.findings],
        }
