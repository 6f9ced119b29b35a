"""The page of the command line, made from its commands."""

from __future__ import annotations

import inspect
from enum import Enum
from importlib import import_module
from typing import Any

import typer

from toolcrib.cli import app, exit_codes
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
    listed = [(f"[`{name}`](#toolcrib-{name})", entry.help) for name, entry in app.COMMANDS.items()]
    return document(
        "Command line",
        HOW,
        table(("command", "what it does"), listed),
        *(part for name, entry in app.COMMANDS.items() for part in _command(name, entry)),
        "## Exit codes",
        table(("code", "when", "errors"), _exits()),
    )


def _command(name: str, entry: app.Entry) -> list[str]:
    function = import_module(f"toolcrib.cli.commands.{entry.module}").command
    own = typer.Typer(add_completion=False)
    own.command(name)(function)
    parameters = typer.main.get_command(own).params
    arguments = [_argument(each) for each in parameters if each.param_type_name == "argument"]
    usage = " ".join((f"toolcrib {name}", *(word for word, _ in arguments), "[OPTIONS]"))
    usage += " [-- COMMAND...]" if entry.starts_servers else ""
    options = [_option(each) for each in parameters if each.param_type_name == "option" and not each.hidden]
    return [
        f"## toolcrib {name}",
        inspect.getdoc(function) or "",
        f"```text\n{usage}\n```",
        table(("argument", "what it is"), [(code(word), text) for word, text in arguments]),
        table(("option", "what it does", "default"), options),
        table(("step", "is fine if"), runner.STEPS.items()) if name == "doctor" else "",
    ]


def _argument(parameter: Any) -> tuple[str, str]:
    word = parameter.metavar or parameter.name.upper()
    if not parameter.required and not word.startswith("["):
        word = f"[{word}]"
    return word, parameter.help or ""


def _option(parameter: Any) -> tuple[str, str, str]:
    names = codes((*parameter.opts, *parameter.secondary_opts))
    default = parameter.default
    value = parameter.metavar or ("" if parameter.is_flag else parameter.name.upper())
    if isinstance(default, Enum):
        value = "|".join(each.value for each in type(default))
    if default in (None, False, "") or callable(default):
        return f"{names} {value}".strip(), parameter.help or "", ""
    shown = parameter.opts[0] if default is True else getattr(default, "value", default)
    return f"{names} {value}".strip(), parameter.help or "", code(shown)


def _exits() -> list[tuple[str, str, str]]:
    texts = attribute_docs(exit_codes.Exit)
    rows = []
    for each in exit_codes.Exit:
        kinds = [kind for kind, found in exit_codes._CODES if found is each]
        rest = "every other " if ToolcribError in kinds else ""
        errors = rest + codes(kind.__name__ for kind in kinds)
        rows.append((code(each.value), texts.get(each.name, "All is well."), errors))
    return rows
