"""The page of the command line, made from its commands."""

from __future__ import annotations

import inspect

import click

from toolcrib.cli import exit_codes
from toolcrib.cli.command_table import COMMANDS
from toolcrib.cli.lazy_command import Argument, LazyCommand
from toolcrib.diagnostics import runner
from toolcrib.errors import ToolcribError

from .markdown import attribute_docs, code, codes, document, table

HOW = """
The command needs the extra `cli`. Every command works on a settings file: `--config FILE`, else `toolcrib.toml` and
`.mcp.json` of this folder, else your own. One server is also named ad hoc: a URL, a Python file, or a command after
`--`.
Tables and colours are for terminals; a pipe gets lines with tabs, and `--json` gives JSON.
`toolcrib --install-completion` completes commands in your shell.
"""


def page() -> str:
    """The table of commands, each of them, and the exit codes."""
    listed = [(f"[`{name}`](#toolcrib-{name})", command.short_help) for name, command in COMMANDS.items()]
    return document(
        "Command line",
        HOW,
        table(("command", "what it does"), listed),
        *(part for name, command in COMMANDS.items() for part in _command(name, command)),
        "## Exit codes",
        table(("code", "when", "errors"), _exits()),
    )


def _command(name: str, command: LazyCommand) -> list[str]:
    arguments = [(each.human_readable_name, each.description) for each in command.params if isinstance(each, Argument)]
    usage = " ".join((f"toolcrib {name}", *(word for word, _ in arguments), "[OPTIONS]"))
    usage += " [-- COMMAND...]" if command.starts_servers else ""
    options = [_option(each) for each in command.params if isinstance(each, click.Option)]
    return [
        f"## toolcrib {name}",
        inspect.cleandoc(command.help or ""),
        f"```text\n{usage}\n```",
        table(("argument", "what it is"), [(code(word), text) for word, text in arguments]),
        table(("option", "what it does", "default"), options),
        table(("step", "is fine if"), runner.STEPS.items()) if name == "doctor" else "",
    ]


def _option(parameter: click.Option) -> tuple[str, str, str]:
    names = codes((*parameter.opts, *parameter.secondary_opts))
    value = parameter.metavar or ""
    if isinstance(parameter.type, click.Choice) and not value:
        value = "|".join(parameter.type.choices)
    default = ""
    if parameter.show_default:
        default = code(parameter.opts[0] if parameter.default is True else parameter.default)
    return f"{names} {value}".strip(), parameter.help or "", default


def _exits() -> list[tuple[str, str, str]]:
    texts = attribute_docs(exit_codes.Exit)
    rows = []
    for each in exit_codes.Exit:
        kinds = [kind for kind, found in exit_codes._CODES if found is each]
        rest = "every other " if ToolcribError in kinds else ""
        errors = rest + codes(kind.__name__ for kind in kinds)
        rows.append((code(each.value), texts.get(each.name, "All is well."), errors))
    return rows
