"""The page of settings files: the tables by which they are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

from toolcrib.config import CHECKS, ServerConfig
from toolcrib.errors import ConfigError
from toolcrib.settings import discover, documents, entries, formats, hub_table, keys, variables

from .markdown import code, codes, document, table

HOW = """
How they are used, with examples and their errors: [Settings files](../settings.md); short answers:
[how-to](../how-to/settings-files.md). Nothing is started by reading them.
"""


def page() -> str:
    """Formats, places, keys, options, limits."""
    return document(
        "Settings formats",
        HOW,
        "## Formats\nThe file's name and folder say which one it is; `format=` says it for others.",
        table(("format", "files", "servers under", "a `url` alone is", "also"), map(_format, formats.FORMATS.values())),
        "## Where `discover_settings` looks\nThe later ones win in `merge(*discover_settings())`.",
        table(("whose", "file"), _places()),
        "## Keys of a server",
        table(("key", "of", "expected"), _keys()),
        "### Other spellings",
        table(("spelling", "is"), _spellings()),
        f"Without effect, because they are for people: {codes(sorted(keys.SILENT))}.",
        f"Variables are replaced in {codes(keys.EXPANDED)}.",
        f'`"none"` is no time-out or no limit in {codes(sorted(keys.NULLABLE))}.',
        "## Options of the hub\nUnder `[hub]` in TOML, `hub` in JSON.",
        table(("option", "expected"), [(code(key), _expected(key, check)) for key, check in hub_table.OPTIONS.items()]),
        "## Limits",
        table(("", "at most"), _limits()),
    )


def _format(kind: formats.Format) -> tuple[str, ...]:
    by_name = [name for name, owner in formats._BY_NAME.items() if owner == kind.name]
    by_folder = ["/".join(path) for path, owner in formats._BY_FOLDER.items() if owner == kind.name]
    other = {"toolcrib": "any `.toml`", "json": "any other"}.get(kind.name, "")
    files = ", ".join(filter(None, (codes((*by_name, *by_folder)), other)))
    under = codes(".".join(path) for path in kind.sections) + (", or the whole file" if kind.bare else "")
    also = {
        "options under `hub`": kind.hub,
        "`${workspaceFolder}`, `${userHome}` ...": kind.folders,
        "`timeout` in milliseconds": kind.milliseconds,
        "other settings beside them": kind.mixed,
    }
    said = ", ".join(words for words, holds in also.items() if holds)
    return code(kind.name), files, under, "SSE" if kind.url_is_sse else "HTTP", said


def _places() -> list[tuple[str, str]]:
    home = Path("~")
    machine = dict.fromkeys(
        path for platform in ("linux", "darwin") for path in discover._of_person(home, {}, platform)
    )
    rows = [("the person's", code(path)) for path in machine]
    rows += [("the project's", code(path)) for path in discover._of_project(Path())]
    return [*rows, ("the project's", code("toolcrib.toml"))]


def _keys() -> list[tuple[str, str, str]]:
    owners: dict[str, list[str]] = {}
    kinds = get_args(ServerConfig)
    for kind in kinds:
        for field in fields(kind):
            owners.setdefault(field.name, []).append(kind.__name__.removesuffix("Server"))
    del owners["tool_filter"]  # a function: no file can say it
    whose = {key: "all" if len(of) == len(kinds) else ", ".join(of) for key, of in owners.items()}
    return [(code(key), of, _expected(key, CHECKS[key])) for key, of in whose.items()]


def _expected(key: str, check: Callable[[str, Any], Any]) -> str:
    """What the check itself says, when it is given something impossible."""
    try:
        check(key, object())
    except ConfigError as error:
        return error.expected or ""
    raise AssertionError(f"{key} takes anything")


def _spellings() -> list[tuple[str, str]]:
    tables: Mapping[str, tuple[str, ...]] = {
        "`url`": keys.URLS[:1] + keys.URLS[2:],
        "the transport: `stdio`, `http`, `streamable-http`, `sse` ...": keys.KINDS,
        "the only tools to let through": keys.ALLOWED,
        "tools to hide; wins": keys.BLOCKED,
        "whether it is turned off": keys.FLAGS,
    }
    rows = [(codes(names), meaning) for meaning, names in tables.items()]
    return [*rows, *((code(key), f"without effect: {why}") for key, why in keys.WITHOUT_EFFECT.items())]


def _limits() -> list[tuple[str, str]]:
    return [
        ("bytes of a file", f"{documents.MAX_BYTES:,}"),
        ("levels of a file", f"{documents.MAX_DEPTH:,}"),
        ("servers of a file", f"{formats.MAX_SERVERS:,}"),
        ("warnings about a file", f"{entries.MAX_WARNINGS:,}"),
        ("variables inside of each other", f"{variables.MAX_NESTING:,}"),
        ("characters of a text after its variables were replaced", f"{variables.MAX_TEXT:,}"),
    ]
