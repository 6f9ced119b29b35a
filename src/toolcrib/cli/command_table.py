"""Every command: its arguments, options, help and examples. The code of each command is in `commands`.

Imports nothing slow, so that the help of a command and the completion of its options are quick.
Longer than 400 lines: it is one table, and the texts that users read about commands are best reviewed together.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from .lazy_command import LazyCommand
from .shared_options import (
    CONFIG,
    DRY_RUN,
    FILE,
    JSON,
    LONG,
    REPLACE,
    SERVE,
    SERVERS,
    TIMEOUT,
    USER,
    WRITTEN,
    argument,
    config,
    flag,
    option,
    words,
)
from .shell_completion import complete_server_names

_SIGN_IN_SERVER: Final = argument(
    "server", "SERVER", "A name from the settings, or a URL.", shell_complete=complete_server_names
)

_USE_SERVERS: Final = (
    LazyCommand(
        "servers",
        "Show the servers: status, era, what they offer, how long they took to start.",
        """
        Show the servers: status, era of the protocol, what they offer, how long they took to start, the last error.

        The number of tools includes those that rules hide; a line below the table says how many these are. Token counts
        estimate how much of a model's context the tools of a server take. Piped, each server is one line, with its
        error at the end, separated by tabs. The exit code is that of the first server that could not be started, else
        0.
        """,
        (SERVERS, CONFIG, JSON, TIMEOUT),
    ),
    LazyCommand(
        "tools",
        "List the tools, or search them; --schema shows their arguments.",
        """
        List the tools, or search them; --schema shows their arguments.

        Token counts estimate how much of a model's context each tool takes. Piped, each tool is one line: name, tokens,
        description, and with --schema the schema of its arguments, separated by tabs.
        """,
        (
            SERVERS,
            option("--search", "-s", metavar="WORDS", default="", help="Show only matching tools, best match first."),
            option(
                "--limit",
                metavar="N",
                type=click.IntRange(1),
                default=10,
                help="Show at most N results of a search.",
            ),
            flag("--schema", help="Also show the arguments of each tool."),
            CONFIG,
            LONG,
            JSON,
            TIMEOUT,
        ),
        examples="""
toolcrib tools
toolcrib tools fs --search "read a file"
toolcrib tools https://example.com/mcp --schema
toolcrib tools -- npx -y @modelcontextprotocol/server-everything
""",
    ),
    LazyCommand(
        "call",
        "Call a tool with key=value arguments, typed by its schema.",
        """
        Call a tool with KEY=VALUE arguments, typed by its schema.

        During the call, progress and the logs of the server are shown on stderr. If the server asks for input, you are
        prompted at the terminal; without a terminal the request is declined. Ctrl-C cancels the call on the server.
        """,
        (
            words(
                "[SERVER] NAME [KEY=VALUE]... [-]",
                "The tool: its qualified name, or its own if only one server has it. KEY=VALUE is typed by the tool's "
                "schema; KEY:=JSON is JSON, KEY=@FILE the content of a file; A.B=1 sets a field of an object, and a "
                "KEY given twice makes an array. - reads all arguments as JSON from standard input.",
            ),
            option(
                "--args", "given", metavar="JSON|@FILE", default="", help="All arguments as one JSON object, or @FILE."
            ),
            flag("--json", "as_json", help="Print the whole result as JSON, and save nothing."),
            option(
                "--output",
                "-o",
                metavar="DIR|FILE",
                type=FILE,
                default=Path(),
                help="The folder in which images, audio and other files are saved; or the file, if there is only one.",
            ),
            flag("--yes", "-y", help="Approve the call, if it needs approval."),
            option("--check/--no-check", default=True, help="Check the arguments before the call."),
            CONFIG,
            TIMEOUT,
        ),
        examples="""
toolcrib call mcp__fs__read_file path=notes.txt
toolcrib call search query="red shoes" limit=3 filters.colour=red tags=new tags=sale
toolcrib call add --args '{"a": 2, "b": 3}' -- python3 server.py
echo '{"a": 2, "b": 3}' | toolcrib call https://example.com/mcp add -
""",
    ),
    LazyCommand(
        "resources",
        "List the resources and templates.",
        """
        List the resources and templates. A template is a URI with {variables}: fill them in and read it.

        Piped, each is one line: URI, server, MIME type, name, description, separated by tabs.
        """,
        (SERVERS, CONFIG, LONG, JSON, TIMEOUT),
    ),
    LazyCommand(
        "read",
        "Read a resource.",
        "Read a resource. Text is printed, without control characters; binary data is saved in this folder.",
        (
            words("[SERVER] URI", "The resource, after its server if the URI alone does not identify it."),
            option(
                "--output",
                "-o",
                metavar="FILE",
                type=FILE,
                help="Write the content to FILE, unchanged; - is standard output.",
            ),
            CONFIG,
            JSON,
            TIMEOUT,
        ),
        examples="""
toolcrib read demo://readme
toolcrib read fs file:///logo.png -o logo.png
""",
    ),
    LazyCommand(
        "prompts",
        "List the prompts and their arguments.",
        """
        List the prompts and their arguments; those in brackets are optional.

        Piped, each is one line: name, arguments, description, separated by tabs.
        """,
        (SERVERS, CONFIG, LONG, JSON, TIMEOUT),
    ),
    LazyCommand(
        "prompt",
        "Fill in a prompt.",
        "Fill in a prompt and print its messages, each with its role.",
        (
            words(
                "[SERVER] NAME [KEY=VALUE]...",
                "The prompt: its qualified name, or its own if only one server has it; KEY=@FILE is the content of a "
                "file.",
            ),
            CONFIG,
            JSON,
            TIMEOUT,
        ),
        examples="toolcrib prompt mcp__demo__greet name=Ada",
    ),
    LazyCommand(
        "explain",
        "Explain why a tool can or cannot be seen and called.",
        """
        Explain why a tool can or cannot be seen and called: the rule, status or setting that decides.

        For tools that need approval, `toolcrib call` prompts for it.
        """,
        (words("[SERVER] NAME", "Tool name (it need not exist)."), CONFIG, TIMEOUT),
    ),
    LazyCommand(
        "watch",
        "Show live what servers send: progress, logs, changes, status.",
        """
        Show live what servers send: progress, logs, changes of their lists and resources, their status.

        Runs until Ctrl-C (exit code 130) or until --for or --count is reached (0). Reconnects to servers that
        are lost; ends early only if no server can be started.
        """,
        (
            words(
                "[SERVER]... [KEY=VALUE]...",
                "Names from the settings, a URL, or FILE.py[:NAME]; or a command after --. Default: all servers of "
                "the settings. KEY=VALUE are arguments for --call.",
            ),
            option(
                "--resource", "-r", "uris", metavar="URI", multiple=True, help="Subscribe to updates of this resource."
            ),
            option("--call", metavar="NAME", default="", help="Call this tool once and watch the call."),
            option("--level", metavar="LEVEL", default="debug", help="Minimum log level to request."),
            option(
                "--poll",
                metavar="SECONDS",
                type=click.FloatRange(0.1),
                default=10.0,
                help="Seconds between two checks of servers behind a URL.",
            ),
            option(
                "--for",
                "seconds",
                metavar="SECONDS",
                type=click.FloatRange(0.001),
                help="Stop after this many seconds.",
            ),
            option("--count", "-n", metavar="N", type=click.IntRange(1), help="Stop after N lines."),
            CONFIG,
            flag("--json", "as_lines", help="Print each line as JSON, for programs."),
            TIMEOUT,
        ),
        examples="""
toolcrib watch
toolcrib watch fs --resource file:///notes.txt --for 60
toolcrib watch --call mcp__demo__slow_count steps=5
""",
    ),
)

_SIGN_IN: Final = (
    LazyCommand(
        "auth_login",
        "Sign in to a remote server, in a browser.",
        """
        Sign in to a remote server with OAuth. All commands use the sign-in from then on, and renew it by themselves.

        Opens a browser, and waits up to five minutes. Without a display, or with --no-browser, it shows an address to
        open on any machine, and reads the address that you are sent to. The tokens are kept in files that only you can
        read; `toolcrib auth logout` removes them.
        """,
        (
            _SIGN_IN_SERVER,
            flag("--no-browser", help="Show the address to open, and read the answer at the terminal."),
            option(
                "--scope",
                "-s",
                "scopes",
                metavar="SCOPE",
                multiple=True,
                help="Request this scope; may be given several times. Default: what the server asks for.",
            ),
            CONFIG,
            JSON,
            TIMEOUT,
        ),
        examples="""
toolcrib auth login linear
toolcrib auth login https://example.com/mcp --no-browser
toolcrib auth login github --scope repo --scope read:org
""",
        starts_servers=False,
    ),
    LazyCommand(
        "auth_logout",
        "Sign out of a remote server.",
        """
        Sign out of a remote server: revoke its tokens, if its authorisation server supports that, and remove them.

        Entries with the same URL share their sign-in; the output names those that are signed out too. The exit code is
        1 if the tokens could not be revoked; they are removed all the same.
        """,
        (_SIGN_IN_SERVER, CONFIG, JSON),
        starts_servers=False,
    ),
    LazyCommand(
        "auth_status",
        "Show the sign-ins at remote servers.",
        """
        Show the sign-ins at remote servers: where, as which client, with which scopes, and for how long.

        Lists the remote servers of the settings, and without --config also your sign-ins at other servers, by URL.
        Asks no server: it shows what is stored. Piped, each server is one line, separated by tabs; the status is
        "signed in", "expired" (a person must sign in again), "not signed in", "sign-in turned off", "has its own
        credentials" or "invalid". With --json it is `state`, and `signed_in` is true for the first of them.

        The exit code is 6 if SERVER is given and you are not signed in there, and 3 if an entry is invalid.
        """,
        (
            argument(
                "server",
                "[SERVER]",
                "A name from the settings, or a URL. Default: all remote servers of the settings, and all sign-ins.",
                required=False,
                shell_complete=complete_server_names,
            ),
            CONFIG,
            JSON,
        ),
        starts_servers=False,
    ),
)

_MANAGE_SETTINGS: Final = (
    LazyCommand(
        "init",
        "Write a commented settings file to start from.",
        "Write a commented settings file to start from: the common keys, and examples to uncomment.",
        (
            config("The file to write. Default: toolcrib.toml."),
            flag("--json", "as_json", help="Write a plain .mcp.json, which other programs read too."),
            USER,
            flag("--force", help="Overwrite an existing file."),
        ),
        starts_servers=False,
    ),
    LazyCommand(
        "add",
        "Add a server: a command after --, a URL, or mcpServers JSON on stdin.",
        """
        Add a server to the settings: a command after --, a URL, a Python file, or mcpServers JSON on stdin.

        Everything else in the file stays as it is. Without a NAME, the server is named after its command, URL or file.
        Secrets are best kept in the environment: --env 'TOKEN=${TOKEN}' writes the reference, and so does --env TOKEN.
        """,
        (
            words(
                "[NAME] [URL|FILE.py|JSON|-]",
                "The server's name; its URL, a Python file, or JSON (- reads it from stdin); or a command after --.",
                complete=False,
            ),
            option(
                "--env",
                "-e",
                metavar="K=V",
                multiple=True,
                help="A variable for the command; K alone means K=${K}.",
            ),
            option("--header", "-H", metavar="K=V", multiple=True, help="A header for the URL."),
            option(
                "--transport",
                type=click.Choice(("http", "sse")),
                help="The transport of the server behind the URL. Default: http.",
            ),
            option("--cwd", metavar="FOLDER", help="The working directory of the command."),
            WRITTEN,
            USER,
            REPLACE,
            flag("--check", help="Start the server first, and write nothing if that fails."),
            TIMEOUT,
        ),
        examples="""
toolcrib add fs -- npx -y @modelcontextprotocol/server-filesystem .
toolcrib add docs https://example.com/mcp --header 'Authorization=Bearer ${TOKEN}'
toolcrib add mine tools.py
toolcrib add < claude_desktop_config.json
""",
    ),
    LazyCommand(
        "remove",
        "Remove a server from the settings.",
        """
        Remove servers from the settings file that defines them. Everything else in it stays as it is.

        If one of the names is unknown, none is removed. If several files define a server, it is removed from the file
        that takes precedence.
        """,
        (words("NAME...", "The names of the servers, as in the file.", name="names", required=True), CONFIG, USER),
        starts_servers=False,
    ),
    LazyCommand(
        "import_",
        "Import servers from Claude, VS Code, Cursor or Gemini CLI.",
        """
        Import servers from the settings of Claude Code, Claude Desktop, VS Code, Cursor or Gemini CLI.

        First shows what it found. On a terminal it prompts for a choice; elsewhere --all or names are required, else
        nothing is imported. Variables stay variables, and secrets become variables: ${NAME} is written instead, and the
        command says which variables to set. A name that the settings already have is skipped, unless --replace is
        given.
        """,
        (
            words(
                "[SOURCE] [NAME]...",
                "The source: claude-code, claude-desktop, vscode, cursor, gemini, or a file; then names of servers.",
                complete=False,
            ),
            flag("--all", "everything", help="Import every valid, enabled server."),
            flag("--keep-secrets", help="Copy secrets as they are, to a file that only you can read."),
            WRITTEN,
            USER,
            REPLACE,
            DRY_RUN,
            JSON,
        ),
        examples="""
toolcrib import
toolcrib import cursor --all
toolcrib import claude-desktop github --dry-run
""",
        starts_servers=False,
    ),
    LazyCommand(
        "export",
        "Print the servers in the format of another program.",
        """
        Print the servers in the format of another program, or write them to its settings.

        Variables are not replaced: ${TOKEN} is written as that program spells it, so no secret leaves the environment.
        Options that the program does not have are reported on stderr. Paths are absolute, so that the program finds
        Python and the file from any folder. Claude Desktop starts remote servers, and servers that need variables, with
        `toolcrib bridge`.
        """,
        (
            option(
                "--for",
                "program",
                metavar="PROGRAM",
                type=click.Choice(("claude", "claude-desktop", "vscode", "cursor", "gemini")),
                required=True,
                help="claude (Claude Code), claude-desktop, vscode, cursor or gemini (Gemini CLI).",
            ),
            words("[NAME]...", "Which servers. Default: all.", name="names"),
            CONFIG,
            flag(
                "--write",
                help="Add them to that program's settings file: the one for this folder, if the program supports that.",
            ),
            option("--to", metavar="FILE", type=FILE, help="Write them to this file instead."),
            REPLACE,
        ),
        examples="""
toolcrib export --for vscode
toolcrib export --for claude --write
toolcrib export --for claude-desktop mine --write
""",
        starts_servers=False,
    ),
)

_SERVE_AND_DIAGNOSE: Final = (
    LazyCommand(
        "run",
        "Serve the tools of a Python file over stdio, HTTP or SSE.",
        """
        Serve the tools of a Python file: its ToolServer, or else the functions that are decorated with @tool.

        Runs the file as `python FILE` does, except for code under `if __name__ == "__main__"`. With --reload clients
        stay connected; while the new code fails to load, the previous code is served.
        """,
        (
            argument("file", "FILE[:NAME]", "A Python file; NAME if it has several servers."),
            *SERVE,
            flag("--reload", help="Apply changes of the file and its modules without a restart."),
        ),
        examples="""
toolcrib run tools.py
toolcrib run tools.py:server --http --port 9000 --reload
""",
        starts_servers=False,
        serves=True,
    ),
    LazyCommand(
        "bridge",
        "Offer a stdio server over HTTP, or a remote one over stdio.",
        """
        Offer a server to clients that use another transport: a remote one over stdio, a local one over HTTP.

        Both sides may speak either era of the protocol. Over HTTP each session starts its own server process; clients
        of the modern era (2026-07-28), which has no sessions, share one.
        """,
        (
            argument(
                "server",
                "[SERVER]",
                "A name from the settings, a URL, or FILE.py[:NAME]; or a command after --.",
                required=False,
                shell_complete=complete_server_names,
            ),
            *SERVE,
            option(
                "--header",
                "-H",
                metavar="NAME=VALUE",
                multiple=True,
                help="A header for the server behind the URL; ${VAR} is replaced.",
            ),
            CONFIG,
            TIMEOUT,
        ),
        examples="""
toolcrib bridge https://host/mcp                for a client that only starts programs
toolcrib bridge --http -- npx -y some-server    for a client that only speaks HTTP
""",
        serves=True,
    ),
    LazyCommand(
        "doctor",
        "Diagnose every server step by step, and suggest fixes.",
        """
        Diagnose every server step by step: show what works, how long it took, and how to fix what does not.

        The servers are started in parallel and then stopped. --timeout limits all steps of a server together. The
        exit code is 1 if something is broken.
        """,
        (SERVERS, flag("--strict", help="Also exit with 1 if there are warnings."), CONFIG, JSON, TIMEOUT),
        examples="""
toolcrib doctor
toolcrib doctor fs --json
toolcrib doctor -- npx -y some-server
""",
    ),
)

PANELS: Final[dict[str, tuple[LazyCommand, ...]]] = {
    "Use servers": _USE_SERVERS,
    "Sign in": _SIGN_IN,
    "Manage settings": _MANAGE_SETTINGS,
    "Serve and diagnose": _SERVE_AND_DIAGNOSE,
}
"""The commands under their headings in the help."""

COMMANDS: Final[dict[str, LazyCommand]] = {str(each.name): each for panel in PANELS.values() for each in panel}

GROUPS: Final = {"auth": "Sign in to remote servers, sign out, and show the sign-ins."}
"""The help of groups: the first words of commands that have two."""
