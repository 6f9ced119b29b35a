"""`toolcrib init`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ...settings.documents import Document
from ...settings.edit import edit
from ..console import note, say
from ..exit_codes import CliError
from ..lazy_command import Invocation
from ..target import own_settings

PLAIN: Final = """\
{
  "mcpServers": {}
}
"""

COMMENTED: Final = """\
# The servers of `toolcrib`: `toolcrib add` and `toolcrib remove` edit this file and keep the rest unchanged.
# Uncomment what you need; then `toolcrib tools` lists the tools, and `toolcrib doctor` checks the servers.

# A program on this machine. This one needs Node.js, and has one of everything that a server can offer.
# [servers.everything]
# command = "npx"
# args = ["-y", "@modelcontextprotocol/server-everything"]
# env = { API_KEY = "${API_KEY}" }      # ${NAME} is a variable of your environment; ${NAME:-default} has a default
# cwd = "${HOME}"

# Functions of a Python file, run in this process: `tools.py` has a `ToolServer`. The path is relative to this file.
# [servers.mine]
# python = "tools.py"

# A remote server.
# [servers.remote]
# url = "https://example.com/mcp"       # type = "sse" for HTTP+SSE
# headers = { Authorization = "Bearer ${API_TOKEN}" }

# Options of every server; values shown are the defaults unless noted.
# disabled = false                      # true: keep the entry, but do not use it
# allowed_tools = ["read_file"]         # an example: only these tools, by the server's own names
# blocked_tools = ["delete_file"]       # an example: all tools but these
# connect_timeout = 30                  # seconds to start; 120 for npx, uvx and others that download; "none": no limit
# discovery_timeout = 30                # seconds for a list of tools, resources or prompts
# execution_timeout = 30                # seconds for a call
# idle_timeout = "none"                 # seconds without progress after which a call times out
# max_attempts = 3                      # attempts in total, if it is safe to repeat a request; 1: no retries
# lifecycle = "singleton"               # "transient": a new connection, and process, for every call

# Options for all servers together.
# [hub]
# allowed_tools = ["mcp__*"]            # patterns of qualified names, mcp__SERVER__TOOL: all others need approval
# disallowed_tools = ["mcp__*__delete_*"]   # an example: never these
# require_approval = { "mcp__*__write_*" = "always" }   # an example: ask me first
# on_error = "skip"                     # "raise": fail if a server cannot be started
# start = "eager"                       # "lazy": start a server when it is first used
# disconnect_idle_after = "none"        # seconds without a call after which a server stops; the next call starts it
"""


def command(_invocation: Invocation, config: Path | None, as_json: bool, user: bool, force: bool) -> None:
    """Write a settings file to start from."""
    path = _chosen(config, as_json, user)
    text = COMMENTED if path.suffix.lower() == ".toml" else PLAIN

    def fill(_: Document) -> str:
        if path.exists() and not force:
            raise CliError(f"{path} already exists", hint="--force overwrites it; `toolcrib add` adds a server to it")
        return text

    if user:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    edit(path, fill, private=user)
    say(f"wrote {path}")
    note("next: toolcrib add fs -- npx -y @modelcontextprotocol/server-filesystem .")
    note("      toolcrib import     imports the servers of other programs")
    note("      toolcrib tools      lists the tools; toolcrib doctor diagnoses problems")


def _chosen(config: Path | None, as_json: bool, user: bool) -> Path:
    if sum((config is not None, as_json, user)) > 1:
        raise CliError("--config, --json and --user name different files", hint="give one of them")
    if user:
        return own_settings()
    return config or Path(".mcp.json" if as_json else "toolcrib.toml")
