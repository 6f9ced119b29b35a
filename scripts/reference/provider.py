"""The page of `toolcrib.provider`: its names, the fields of a registration, and the table of outcomes."""

from __future__ import annotations

import toolcrib.provider
from toolcrib.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from toolcrib.provider.outcomes import OUTCOMES, RATE_LIMITED, Outcome
from toolcrib.provider.registration import EXTENSION_FIELDS, FORM_FIELDS, OPTION_FIELDS

from .api import entry
from .markdown import code, codes, document, table

HOW = """
Every name of `toolcrib.provider`, as in `from toolcrib.provider import Provider`. The guide:
[The tools provider](../provider.md). Errors: [Errors](errors.md).
"""

FIRST = ("Provider", "ExecutionResult", "ExecutionOptions", "Source", "SourceConfig", "InventoryTool", "ReviewItem")
"""Names in front of the others, which are sorted."""

FIELDS: dict[str, tuple[str, str]] = {
    "name": ("required", "the name of the source"),
    "url": ("empty", "informative: it is stored and shown, and nothing connects to it"),
    "source_type": ("required", "`mcp`"),
    "mcp_plugin_dir": ("", "the folder with `plugin.json` or `server.json`, or the path of a manifest"),
    "mcp_server_url": ("", "the URL of a remote server; a URL without a path is tried as given, then with `/mcp`"),
    "mcp_transport_type": (
        "the manifest's; `stdio` for a command; `streamable_http` for a URL",
        "`stdio`, `sse` or `streamable_http`; a URL excludes `stdio`",
    ),
    "mcp_runtime_hint": ("the manifest's", "`uvx`, `npx`, `python`, `node`, `docker` or `dnx`"),
    "mcp_lifecycle_mode": (
        "`transient` with `mcp_plugin_dir` or `mcp_command`, else `singleton`",
        "`transient`: a process for each call; `singleton`: it is kept",
    ),
    "mcp_env_vars": ("none", "variables of the process; for a URL, HTTP headers"),
    "mcp_command": ("the manifest's", "a list of words, or a string that is split without a shell"),
    "mcp_args": ("none", "words that are appended to the command"),
    "stateless": ("False", "the source keeps no state of its callers, so principals may share a connection"),
    "per_session": ("False", "each session of a caller has its own connection"),
    "review": ("`follow`", "`follow`, `review_changes` or `review_all`: what waits for a decision"),
    "validate_arguments": ("False", "for callers of a gateway: validate all arguments; `execute` always does"),
    "health_interval": ("None", "seconds between two checks of a source that is remote or runs; None: no checks"),
    "refresh_interval": ("3600", "seconds between two lists; None: only after notifications and on demand"),
    "idle_seconds": ("300", "seconds after which an unused connection is closed"),
    "pass_environment": ("none", "names of variables that are taken from the environment of this process"),
    "personal": ("none", "names of variables or headers of which each principal has its own value"),
    "inputs": ("none", "values for arguments and `{variables}` of a `server.json`"),
}


def page() -> str:
    """Return the page: names, registration fields, outcomes."""
    names = [*FIRST, *sorted(set(toolcrib.provider.__all__) - set(FIRST))]
    links = ", ".join(f"[`{name}`](#{name.lower()})" for name in names)
    assert set(FIELDS) == {*FORM_FIELDS, *EXTENSION_FIELDS}, set(FIELDS) ^ {*FORM_FIELDS, *EXTENSION_FIELDS}
    return document(
        "The tools provider",
        HOW,
        f"Also: [registration fields](#registration-fields), [outcomes](#outcomes). Names: {links}.",
        "## Registration fields",
        "One of `mcp_plugin_dir`, `mcp_server_url` and `mcp_command` is required; `mcp_command` may accompany "
        "`mcp_plugin_dir`. The fields from `stateless` on are accepted by every form of a registration.",
        table(("field", "default", "meaning"), [(code(key), *texts) for key, texts in FIELDS.items()]),
        f"Further options are those of server configs: {codes(sorted(OPTION_FIELDS))}.",
        "## Outcomes",
        "How each error appears: in `ExecutionResult.metadata['outcome']` and the audit as a code, in a problem "
        "document (RFC 9457) with a status, and to MCP clients as a tool result with `isError`, which models can read, "
        "or as a JSON-RPC error. The first row whose class matches is used. A call that succeeded has the code `ok`, "
        "a cancelled one `cancelled`.",
        table(("error", "code", "HTTP status", "MCP reply", "title"), map(_outcome, OUTCOMES)),
        "## Names",
        *(part for name in names for part in entry(name, getattr(toolcrib.provider, name))),
    )


_CODES = {INTERNAL_ERROR: "internal error", INVALID_PARAMS: "invalid params", RATE_LIMITED: "rate limited"}


def _outcome(row: Outcome) -> tuple[str, str, int, str, str]:
    reply = "a result with `isError`"
    if row.code == "remote_error":
        reply = "the server's own JSON-RPC error"
    elif row.jsonrpc is not None:
        reply = f"JSON-RPC error {row.jsonrpc} ({_CODES[row.jsonrpc]})"
    return code(row.error.__name__), code(row.code), row.status, reply, row.title
