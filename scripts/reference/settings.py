"""The page of settings files: the tables that the reader of the files uses."""

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
The guide, with examples and errors: [Settings files](../settings.md); short answers:
[how-to](../how-to/settings-files.md). Reading settings starts nothing.
"""


def page() -> str:
    """Return the page: formats, places, keys, options, limits."""
    return document(
        "Settings formats",
        HOW,
        "## Formats\nThe name and the folder of a file determine its format; `format=` sets it for other files.",
        table(
            ("format", "files", "servers under", "a `url` alone means", "also"), map(_format, formats.FORMATS.values())
        ),
        "## Where `discover_settings` looks\nIn `merge(*discover_settings())`, later files take precedence.",
        table(("scope", "file"), _places()),
        "## Keys of a server",
        table(("key", "server", "expected"), _keys()),
        "### Other keys",
        table(("key", "meaning"), _spellings()),
        f"Informative keys without effect: {codes(sorted(keys.SILENT))}.",
        f"Variables are replaced in {codes(keys.EXPANDED)}.",
        f'`"none"` means no time-out or no limit in {codes(sorted(keys.NULLABLE))}.',
        "## Options of the hub\nUnder `[hub]` in TOML, `hub` in JSON.",
        table(("option", "expected"), [(code(key), _expected(key, check)) for key, check in hub_table.OPTIONS.items()]),
        "## Limits",
        table(("what", "limit"), _limits()),
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
        "other settings in the same file": kind.mixed,
    }
    notes = ", ".join(text for text, applies in also.items() if applies)
    return code(kind.name), files, under, "SSE" if kind.url_is_sse else "HTTP", notes


def _places() -> list[tuple[str, str]]:
    home = Path("~")
    machine = dict.fromkeys(
        path for platform in ("linux", "darwin") for path in discover._of_person(home, {}, platform)
    )
    rows = [("user", code(path)) for path in machine]
    rows += [("project", code(path)) for path in discover._of_project(Path())]
    return [*rows, ("project", code("toolcrib.toml"))]


def _keys() -> list[tuple[str, str, str]]:
    owners: dict[str, list[str]] = {}
    kinds = get_args(ServerConfig)
    for kind in kinds:
        for field in fields(kind):
            owners.setdefault(field.name, []).append(kind.__name__.removesuffix("Server"))
    del owners["tool_filter"]  # a function cannot be written in a file
    whose = {key: "all" if len(of) == len(kinds) else ", ".join(of) for key, of in owners.items()}
    return [(code(key), of, _expected(key, CHECKS[key])) for key, of in whose.items()]


def _expected(key: str, check: Callable[[str, Any], Any]) -> str:
    """Return the text of the check's own error for an impossible value."""
    try:
        check(key, object())
    except ConfigError as error:
        return error.expected or ""
    raise AssertionError(f"{key} accepts any value")


def _spellings() -> list[tuple[str, str]]:
    tables: Mapping[str, tuple[str, ...]] = {
        "`url`": keys.URLS[:1] + keys.URLS[2:],
        "the transport: `stdio`, `http`, `streamable-http`, `sse` ...": keys.KINDS,
        "the only tools to allow": keys.ALLOWED,
        "tools to hide; takes precedence": keys.BLOCKED,
        "whether the server is turned off": keys.FLAGS,
    }
    rows = [(codes(names), meaning) for meaning, names in tables.items()]
    return [*rows, *((code(key), f"without effect: {why}") for key, why in keys.WITHOUT_EFFECT.items())]


def _limits() -> list[tuple[str, str]]:
    return [
        ("bytes of a file", f"{documents.MAX_BYTES:,}"),
        ("levels of a file", f"{documents.MAX_DEPTH:,}"),
        ("servers of a file", f"{formats.MAX_SERVERS:,}"),
        ("warnings about a file", f"{entries.MAX_WARNINGS:,}"),
        ("nesting of variables", f"{variables.MAX_NESTING:,}"),
        ("characters of a text after replacing its variables", f"{variables.MAX_TEXT:,}"),
    ]
