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
# The servers of `toolcrib`: `toolcrib add` and `toolcrib remove` change this file and leave the rest as it is.
# Take the `#` away from what you want, then `toolcrib tools` lists what there is and `toolcrib doctor` checks it.

# A program of this machine. This one needs node, and shows everything that a server can do.
# [servers.everything]
# command = "npx"
# args = ["-y", "@modelcontextprotocol/server-everything"]
# env = { API_KEY = "${API_KEY}" }      # ${NAME} is taken from your environment, ${NAME:-default} if it is there
# cwd = "${HOME}"

# Functions of a Python file, in this very process: `tools.py` has a `ToolServer`. The path is from this file on.
# [servers.mine]
# python = "tools.py"

# A server elsewhere.
# [servers.remote]
# url = "https://example.com/mcp"       # type = "sse" for one that speaks HTTP+SSE
# headers = { Authorization = "Bearer ${API_TOKEN}" }

# Every server can have these too; the values are the defaults unless noted.
# disabled = false                      # keep it here, do not use it
# allowed_tools = ["read_file"]         # an example: only these tools, by the server's own names
# blocked_tools = ["delete_file"]       # an example: all but these
# connect_timeout = 30                  # seconds to start; 120 for npx, uvx and others that download; "none": no limit
# discovery_timeout = 30                # seconds for a list of tools, resources or prompts
# execution_timeout = 30                # seconds for a call
# idle_timeout = "none"                 # seconds of silence within a call; progress ends a silence
# max_attempts = 3                      # attempts in all, where it is safe to send a request again; 1: no retries
# lifecycle = "singleton"               # "transient": a new connection, and process, for every call

# What holds for all servers together.
# [hub]
# allowed_tools = ["mcp__*"]            # patterns of qualified names, mcp__SERVER__TOOL: all others need approval
# disallowed_tools = ["mcp__*__delete_*"]   # an example: never these
# require_approval = { "mcp__*__write_*" = "always" }   # an example: ask me first
# on_error = "skip"                     # "raise": no server is used if one cannot be started
# start = "eager"                       # "lazy": start a server when it is needed
# disconnect_idle_after = "none"        # stop a server after so many seconds without use; the next call starts it again
"""


def command(_invocation: Invocation, config: Path | None, as_json: bool, user: bool, force: bool) -> None:
    """Write a settings file to start from."""
    path = _chosen(config, as_json, user)
    text = COMMENTED if path.suffix.lower() == ".toml" else PLAIN

    def fill(_: Document) -> str:
        if path.exists() and not force:
            raise CliError(
                f"{path} is there already", hint="--force writes over it; toolcrib add puts a server into it"
            )
        return text

    if user:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    edit(path, fill, private=user)
    say(f"wrote {path}")
    note("next: toolcrib add fs -- npx -y @modelcontextprotocol/server-filesystem .")
    note("      toolcrib import     takes over the servers of other programs")
    note("      toolcrib tools      lists what there is then; toolcrib doctor tells what is wrong")


def _chosen(config: Path | None, as_json: bool, user: bool) -> Path:
    if sum((config is not None, as_json, user)) > 1:
        raise CliError("--config, --json and --user name different files", hint="give one of them")
    if user:
        return own_settings()
    return config or Path(".mcp.json" if as_json else "toolcrib.toml")
