"""The page of the command line, generated from its commands."""

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
The command line needs the extra `cli`. Every command uses a settings file: `--config FILE`, or `toolcrib.toml` and
`.mcp.json` in the current folder, or the user settings in `~/.config/toolcrib`. Instead, you can name one server: a
URL, a Python file, or a command after `--`.

Tables and colours are for terminals; in a pipe the output is tab-separated, and `--json` prints JSON.
`toolcrib --install-completion` installs completion for your shell.
"""


def page() -> str:
    """Return the page: the table of commands, a section for each, and the exit codes."""
    anchors = {name: f"toolcrib-{name.replace(' ', '-')}" for name in COMMANDS}
    listed = [(f"[`{name}`](#{anchors[name]})", command.short_help) for name, command in COMMANDS.items()]
    return document(
        "Command line",
        HOW,
        table(("command", "purpose"), listed),
        *(part for name, command in COMMANDS.items() for part in _command(name, command)),
        "## Exit codes",
        table(("code", "meaning", "errors"), _exits()),
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
        table(("argument", "meaning"), [(code(word), text) for word, text in arguments]),
        table(("option", "effect", "default"), options),
        table(("step", "passes if"), runner.STEPS.items()) if name == "doctor" else "",
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
        rows.append((code(each.value), texts.get(each.name, "Success."), errors))
    return rows
