"""`toolcrib doctor`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...diagnostics.report import Finding, ServerReport, Verdict, worst
from ...diagnostics.runner import examine, time_to_connect
from ...diagnostics.settings_entry import examine_files
from ...diagnostics.tools import few, idle_patterns, same_names
from ...hub.start_queue import StartQueue
from ...settings import ServerEntry, Settings
from ...tool_names import make as whole_name
from ..console import (
    cell,
    cell_width,
    err,
    is_terminal,
    narrowed,
    note,
    out,
    plain,
    show_json,
    show_table,
    wrapped,
)
from ..exit_codes import Exit
from ..lazy_command import Invocation
from ..startup_progress import DETAIL_AFTER_SECONDS, StartupProgress
from ..target import choose, settings_files

if TYPE_CHECKING:
    from rich.text import Text

_MARKS: Final = {
    Verdict.FINE: ("✓", "green"),
    Verdict.SKIPPED: ("-", "dim"),
    Verdict.WARNING: ("!", "bold yellow"),
    Verdict.BROKEN: ("✗", "bold red"),
}
_KINDS: Final = (
    (Verdict.FINE, "ok"),
    (Verdict.SKIPPED, "disabled"),
    (Verdict.WARNING, "with warnings"),
    (Verdict.BROKEN, "broken"),
)
MIN_FINDING_COLUMNS: Final = 40
"""Columns of a terminal that a table must leave for findings."""
_GAPS: Final = 15
"""Columns of a terminal that the gaps of the five columns of the table take."""


async def command(
    invocation: Invocation,
    servers: Sequence[str],
    strict: bool,
    config: Path | None,
    as_json: bool,
    timeout: float | None,
) -> int:
    """Diagnose every server step by step."""
    settings = choose(servers, config, invocation.command).settings
    is_ad_hoc = bool(settings.entries) and all(entry.source is None for entry in settings.entries)
    files = _examined_files(settings, [] if is_ad_hoc else settings_files(config))
    reports = await _examined(settings, timeout, invocation, start_disabled=bool(servers))
    for each in files if not servers else ():
        _examine_rules(each, settings, reports)
    everything = [*files, *reports]
    if as_json:
        show_json(_as_json(files, reports))
    else:
        _show(everything)
        _summarise(reports)
    verdict = worst(each.verdict for each in everything)
    return Exit.FAILED if verdict is Verdict.BROKEN or (strict and verdict is Verdict.WARNING) else Exit.OK


def _examined_files(settings: Settings, paths: Sequence[Path]) -> list[ServerReport]:
    if not paths:
        return []
    report = ServerReport()
    examine_files(report, settings, paths)
    return [report]


def _examine_rules(report: ServerReport, settings: Settings, reports: Sequence[ServerReport]) -> None:
    """Warn about patterns of [hub] that match no tool, if the tools of all servers are known."""
    if any("tools" not in each.facts for each in reports):
        return
    tools = [whole_name(each.server, tool) for each in reports for tool in each.facts.get("tool_names", ())]
    for key, pattern in idle_patterns(settings.defaults, tools):
        report.warn(
            "rules", f"{key} of [hub]: {pattern} matches no tool", "correct it: `toolcrib tools` lists the names"
        )


async def _examined(
    settings: Settings, timeout: float | None, invocation: Invocation, *, start_disabled: bool
) -> list[ServerReport]:
    """Examine all entries, a few at a time as a hub starts them: all at once they would slow each other down."""
    starts = StartQueue()
    default_timeout = time_to_connect(settings.defaults.get("connect_timeout"))
    startup = StartupProgress(settings.entries)
    with _progress([entry.name for entry in settings.entries], startup) as tell:

        async def one(entry: ServerEntry) -> ServerReport:
            start = start_disabled or not entry.disabled
            async with starts.slot(entry.name):
                report = await examine(
                    entry,
                    timeout=timeout,
                    start=start,
                    default_timeout=default_timeout,
                    login=invocation.login(entry.name),
                    on_step=lambda step: tell(entry.name, step),
                    on_stderr=partial(startup.hear, entry.name),
                )
            tell(entry.name, "done")
            return report

        return await asyncio.gather(*map(one, settings.entries))


@contextmanager
def _progress(names: Sequence[str], startup: StartupProgress) -> Iterator[Callable[[str, str], None]]:
    """Show each server and its current step on a terminal; yields the function that sets the step."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.progress import Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn  # noqa: PLC0415  # slow
    from rich.text import Text  # noqa: PLC0415

    class Step(TextColumn):
        """The current step of a server; after a while also its last line on stderr."""

        def render(self, task: Task) -> Text:
            is_long = not task.finished and (task.elapsed or 0) >= DETAIL_AFTER_SECONDS
            detail = startup.detail(task.fields["server"]) if is_long else ""
            text = Text(task.description, "dim", no_wrap=False, overflow="fold")
            return text.append(f"  {detail}" if detail else "")

    class Narrow(Progress):
        def get_renderables(self) -> Iterator[Any]:
            yield from map(narrowed, super().get_renderables())

    shown = TextColumn("{task.fields[server]}", style="bold", markup=False)
    with Narrow(SpinnerColumn(), shown, TimeElapsedColumn(), Step(""), console=err(), transient=True) as progress:
        tasks = {name: progress.add_task("", total=1, server=name) for name in names}

        def tell(name: str, step: str) -> None:
            progress.update(tasks[name], description=step, completed=int(step == "done"))

        yield tell


# ---- what is shown ---------------------------------------------------------------------------------------------


def _as_json(files: list[ServerReport], reports: list[ServerReport]) -> dict[str, Any]:
    return {
        "verdict": worst(each.verdict for each in (*files, *reports)).value,
        "files": [finding.to_dict() for each in files for finding in each.findings],
        "servers": [each.to_dict() for each in reports],
        "tools": sum(each.facts.get("tools", 0) for each in reports),
        "tokens": sum(each.facts.get("tokens", 0) for each in reports),
        "same_names": _same_names(reports),
    }


def _same_names(reports: list[ServerReport]) -> dict[str, list[str]]:
    return same_names({each.server: each.facts.get("tool_names", []) for each in reports})


def _show(reports: list[ServerReport]) -> None:
    if is_terminal():
        room = _room_for_words(reports)
        if room < MIN_FINDING_COLUMNS or room < _longest_word(reports):
            _show_lines(reports)
        else:
            _show_to_a_person(reports)
        return
    rows = ((each.server, finding) for each in reports for finding in each.findings)
    show_table(
        (),
        (
            (server, finding.verdict.value, finding.step, _took(finding), finding.text, finding.fix, finding.quoted)
            for server, finding in rows
        ),
    )


def _show_to_a_person(reports: list[ServerReport]) -> None:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415  # slow; only for a terminal
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for heading in ("server", "", "step"):
        table.add_column(heading, no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("what", overflow="fold")
    for each in reports:
        for at, finding in enumerate(each.findings):
            name = Text(each.server or "settings", style="bold") if at == 0 else Text()
            mark = Text(*_MARKS[finding.verdict])
            table.add_row(name, mark, finding.step, _took(finding), _words(finding))
        table.add_section()
    out().print(table)


def _room_for_words(reports: list[ServerReport]) -> int:
    """Return the columns of the terminal that server, mark, step and time leave for findings."""
    servers = max((len(each.server or "settings") for each in reports), default=0)
    steps = max((len(finding.step) for each in reports for finding in each.findings), default=0)
    times = max((len(_took(finding)) for each in reports for finding in each.findings), default=0)
    return out().width - max(servers, len("server")) - 1 - steps - max(times, len("time")) - _GAPS


def _longest_word(reports: list[ServerReport]) -> int:
    texts = (_words(finding).plain for each in reports for finding in each.findings)
    return max((cell_width(word) for text in texts for word in text.split()), default=0)


def _show_lines(reports: list[ServerReport]) -> None:
    """Print the findings as lines, for a terminal on which a table would be too wide."""
    from rich.text import Text  # noqa: PLC0415  # slow; only for a terminal

    width = out().width
    for each in reports:
        out().print(each.server or "settings", style="bold", soft_wrap=True)
        for finding in each.findings:
            out().print(Text(*_MARKS[finding.verdict]), finding.step, _took(finding))
            for line in _words(finding).split("\n"):
                marked = "  | " if line.plain.startswith("| ") else "  "
                shown = Text(wrapped("  " + line.plain, width, marked))
                for span in line.spans:
                    shown.stylize(span.style, min(span.start + 2, len(shown)))
                if line.plain:
                    out().print(shown, soft_wrap=True)


def _words(finding: Finding) -> Text:
    """Return a finding, the server's output about it, and the fix, as the lines of one cell."""
    from rich.text import Text  # noqa: PLC0415  # slow; only for a terminal

    words = Text(cell(finding.text))
    for line in plain(finding.quoted).splitlines():
        words.append(f"\n| {cell(line)}", style="dim")
    if finding.fix:
        words.append("\nfix: ", style="bold cyan")
        words.append(cell(finding.fix), style="cyan")
    return words


def _took(finding: Finding) -> str:
    if finding.seconds is None:
        return ""
    ms = finding.seconds * 1000
    return f"{finding.seconds:.1f} s" if ms >= 1000 else f"{ms:.0f} ms" if ms >= 1 else "<1 ms"


def _summarise(reports: list[ServerReport]) -> None:
    shared: dict[tuple[str, ...], list[str]] = {}
    for name, owners in _same_names(reports).items():
        shared.setdefault(tuple(owners), []).append(name)
    for servers, names in shared.items():
        verb, whole = "is a tool" if len(names) == 1 else "are tools", f"mcp__{servers[0]}__{names[0]}"
        note(f"{few(names)} {verb} of {' and '.join(servers)}: call them by qualified names such as {whole}")
    counted = [f"{count} {words}" for verdict, words in _KINDS if (count := sum(v.verdict is verdict for v in reports))]
    tools, tokens = (sum(each.facts.get(key, 0) for each in reports) for key in ("tools", "tokens"))
    of_servers, of_tools = (
        f"{n} {what}{'' if n == 1 else 's'}" for n, what in ((len(reports), "server"), (tools, "tool"))
    )
    note(f"{of_servers}: {', '.join(counted) or 'none'}; {of_tools}, about {tokens:,} tokens together")
