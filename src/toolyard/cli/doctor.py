"""`toolyard doctor`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ..hub.start_queue import StartQueue
from ..names import make as whole_name
from ..settings import ServerEntry, Settings
from .checkup.entry import examine_files
from .checkup.findings import Checkup, Finding, Verdict, worst
from .checkup.offers import few, idle_patterns, same_names
from .checkup.walk import examine, time_to_connect
from .exits import Exit
from .options import TIMEOUT, Config, Json, Servers, Timeout
from .screen import cell, cell_width, err, is_terminal, narrowed, note, out, plain, show_json, show_table, wrapped
from .startup import LONG_WAIT, Startup
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
ROOM: Final = 40
"""Columns of a terminal that a table must leave for what was found."""
_GAPS: Final = 15
"""Columns of a terminal that the five columns of the table take for themselves."""


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

    Every server is started side by side, and ended again. --timeout is for all steps of a server together. The exit
    code is 1 if something is broken.
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
    """Examine all entries, a few at a time as a hub starts them: together they would slow each other down."""
    starts = StartQueue()
    patience = time_to_connect(settings.defaults.get("connect_timeout"))
    startup = Startup(settings.entries)
    with _progress([entry.name for entry in settings.entries], startup) as tell:

        async def one(entry: ServerEntry) -> Checkup:
            start = start_disabled or not entry.disabled
            async with starts.slot(entry.name):
                checkup = await examine(
                    entry,
                    timeout=timeout,
                    start=start,
                    patience=patience,
                    on_step=lambda step: tell(entry.name, step),
                    on_stderr=partial(startup.hear, entry.name),
                )
            tell(entry.name, "done")
            return checkup

        return await asyncio.gather(*map(one, settings.entries))


@contextmanager
def _progress(names: Sequence[str], startup: Startup) -> Iterator[Callable[[str, str], None]]:
    """A line for each server with the step that it is at, where a person looks."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.progress import Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn  # noqa: PLC0415  # slow
    from rich.text import Text  # noqa: PLC0415

    class Step(TextColumn):
        """The step that a server is at; after a while also what it wrote last."""

        def render(self, task: Task) -> Text:
            is_long = not task.finished and (task.elapsed or 0) >= LONG_WAIT
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
        room = _room_for_words(checkups)
        if room < ROOM or room < _longest_word(checkups):
            _show_lines(checkups)
        else:
            _show_to_a_person(checkups)
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


def _room_for_words(checkups: list[Checkup]) -> int:
    """The columns that are left for what was found beside server, mark, step and time."""
    servers = max((len(each.server or "settings") for each in checkups), default=0)
    steps = max((len(finding.step) for each in checkups for finding in each.findings), default=0)
    times = max((len(_took(finding)) for each in checkups for finding in each.findings), default=0)
    return out().width - max(servers, len("server")) - 1 - steps - max(times, len("time")) - _GAPS


def _longest_word(checkups: list[Checkup]) -> int:
    texts = (_words(finding).plain for each in checkups for finding in each.findings)
    return max((cell_width(word) for text in texts for word in text.split()), default=0)


def _show_lines(checkups: list[Checkup]) -> None:
    """The same without columns, where these would leave too little room or break words."""
    from rich.text import Text  # noqa: PLC0415  # slow; only for a terminal

    width = out().width
    for each in checkups:
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
