"""`toolyard doctor`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ..names import make as whole_name
from ..settings import ServerEntry, Settings
from .checkup.entry import examine_files
from .checkup.findings import Checkup, Finding, Verdict, worst
from .checkup.offers import few, idle_patterns, same_names
from .checkup.walk import examine, time_to_connect
from .exits import Exit
from .options import TIMEOUT, Config, Json, Servers, Timeout
from .screen import cell, err, is_terminal, note, out, plain, show_json, show_table
from .target import choose, settings_files

if TYPE_CHECKING:
    from rich.text import Text

_MARKS: Final = {
    Verdict.FINE: ("✓", "green"),
    Verdict.SKIPPED: ("-", "dim"),
    Verdict.WARNING: ("!", "bold yellow"),
    Verdict.BROKEN: ("✗", "bold red"),
}
_KINDS: Final = (
    (Verdict.FINE, "well"),
    (Verdict.SKIPPED, "disabled"),
    (Verdict.WARNING, "with warnings"),
    (Verdict.BROKEN, "broken"),
)
NARROW: Final = 70
"""Columns of a terminal below which a table would leave no room for what was found."""


EXAMPLES: Final = """
toolyard doctor
toolyard doctor fs --json
toolyard doctor -- npx -y some-server
"""


async def command(
    ctx: typer.Context,
    servers: Servers = None,
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings count: leave with 1 for them too.")] = False,
    config: Config = None,
    as_json: Json = False,
    timeout: Timeout = TIMEOUT,
) -> int:
    """Go through every server's start step by step: what is well, how long it took, and a fix for what is not.

    Every server is started side by side, and ended again. Leaves with 1 if something is broken.
    """
    settings = choose(servers or [], config, ctx.obj.command).settings
    is_ad_hoc = bool(settings.entries) and all(entry.source is None for entry in settings.entries)
    files = _examined_files(settings, [] if is_ad_hoc else settings_files(config))
    checkups = await _examined(settings, timeout, start_disabled=bool(servers))
    for each in files if not servers else ():
        _examine_rules(each, settings, checkups)
    everything = [*files, *checkups]
    if as_json:
        show_json(_as_json(files, checkups))
    else:
        _show(everything)
        _summarise(checkups)
    verdict = worst(each.verdict for each in everything)
    return Exit.FAILED if verdict is Verdict.BROKEN or (strict and verdict is Verdict.WARNING) else Exit.OK


def _examined_files(settings: Settings, paths: Sequence[Path]) -> list[Checkup]:
    if not paths:
        return []
    checkup = Checkup()
    examine_files(checkup, settings, paths)
    return [checkup]


def _examine_rules(checkup: Checkup, settings: Settings, checkups: Sequence[Checkup]) -> None:
    """Patterns of [hub] that fit no tool, if all tools are known."""
    if any("tools" not in each.facts for each in checkups):
        return
    tools = [whole_name(each.server, tool) for each in checkups for tool in each.facts.get("tool_names", ())]
    for key, pattern in idle_patterns(settings.defaults, tools):
        checkup.warn("rules", f"{key} of [hub]: {pattern} fits no tool", "correct it: toolyard tools shows the names")


async def _examined(settings: Settings, timeout: float | None, *, start_disabled: bool) -> list[Checkup]:
    """All side by side, each told on the terminal while it goes."""
    patience = time_to_connect(settings.defaults.get("connect_timeout"))
    with _progress([entry.name for entry in settings.entries]) as tell:

        async def one(entry: ServerEntry) -> Checkup:
            start = start_disabled or not entry.disabled
            checkup = await examine(
                entry, timeout=timeout, start=start, patience=patience, on_step=lambda step: tell(entry.name, step)
            )
            tell(entry.name, "done")
            return checkup

        return await asyncio.gather(*map(one, settings.entries))


@contextmanager
def _progress(names: Sequence[str]) -> Iterator[Callable[[str, str], None]]:
    """A line for each server with the step that it is at, where a person looks."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415  # slow

    shown = TextColumn("{task.fields[server]}", style="bold", markup=False)
    step_at = TextColumn("{task.description}", style="dim", markup=False)
    with Progress(SpinnerColumn(), shown, step_at, TimeElapsedColumn(), console=err(), transient=True) as progress:
        tasks = {name: progress.add_task("", total=1, server=name) for name in names}

        def tell(name: str, step: str) -> None:
            progress.update(tasks[name], description=step, completed=int(step == "done"))

        yield tell


# ---- what is shown ---------------------------------------------------------------------------------------------


def _as_json(files: list[Checkup], checkups: list[Checkup]) -> dict[str, Any]:
    return {
        "verdict": worst(each.verdict for each in (*files, *checkups)).value,
        "files": [finding.to_dict() for each in files for finding in each.findings],
        "servers": [each.to_dict() for each in checkups],
        "tools": sum(each.facts.get("tools", 0) for each in checkups),
        "tokens": sum(each.facts.get("tokens", 0) for each in checkups),
        "same_names": _same_names(checkups),
    }


def _same_names(checkups: list[Checkup]) -> dict[str, list[str]]:
    return same_names({each.server: each.facts.get("tool_names", []) for each in checkups})


def _show(checkups: list[Checkup]) -> None:
    if is_terminal():
        show = _show_lines if out().width < NARROW else _show_to_a_person
        show(checkups)
        return
    rows = ((each.server, finding) for each in checkups for finding in each.findings)
    show_table(
        (),
        (
            (server, finding.verdict.value, finding.step, _took(finding), finding.text, finding.fix, finding.quoted)
            for server, finding in rows
        ),
    )


def _show_to_a_person(checkups: list[Checkup]) -> None:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415  # slow; only for a terminal
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for heading in ("server", "", "step"):
        table.add_column(heading, no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("what", overflow="fold")
    for each in checkups:
        for at, finding in enumerate(each.findings):
            name = Text(each.server or "settings", style="bold") if at == 0 else Text()
            mark = Text(*_MARKS[finding.verdict])
            table.add_row(name, mark, finding.step, _took(finding), _words(finding))
        table.add_section()
    out().print(table)


def _show_lines(checkups: list[Checkup]) -> None:
    """The same, where there is no room for columns."""
    from rich.padding import Padding  # noqa: PLC0415  # slow; only for a terminal
    from rich.text import Text  # noqa: PLC0415

    for each in checkups:
        out().print(each.server or "settings", style="bold")
        for finding in each.findings:
            out().print(Text(*_MARKS[finding.verdict]), finding.step, _took(finding))
            if words := _words(finding):
                out().print(Padding(words, (0, 0, 0, 2)))


def _words(finding: Finding) -> Text:
    """What was found, what the server wrote about it, and the fix, in lines of one cell."""
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


def _summarise(checkups: list[Checkup]) -> None:
    shared: dict[tuple[str, ...], list[str]] = {}
    for name, owners in _same_names(checkups).items():
        shared.setdefault(tuple(owners), []).append(name)
    for servers, names in shared.items():
        verb, whole = "is a tool" if len(names) == 1 else "are tools", f"mcp__{servers[0]}__{names[0]}"
        note(f"{few(names)} {verb} of {' and '.join(servers)}: the whole name, as {whole}, tells which")
    counted = [
        f"{count} {words}" for verdict, words in _KINDS if (count := sum(v.verdict is verdict for v in checkups))
    ]
    tools, tokens = (sum(each.facts.get(key, 0) for each in checkups) for key in ("tools", "tokens"))
    of_servers, of_tools = (
        f"{n} {what}{'' if n == 1 else 's'}" for n, what in ((len(checkups), "server"), (tools, "tool"))
    )
    note(f"{of_servers}: {', '.join(counted) or 'none'}; {of_tools}, about {tokens:,} tokens together")
