"""`toolcrib run`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Unpack

from ...config import PythonServer
from ...errors import ConfigError
from ...server.components.tools import ToolFunction
from ...server.server import ToolServer
from ...server.serving.run import run_to_end, serve
from ...transports.python_file import load_file, own_frames, server_in, servers_in
from ..console import note
from ..lazy_command import Invocation
from ..reload import Reloading
from ..serve_options import (
    ServeParameters,
    announce,
    as_options,
    choose_transport,
    with_plain_logging,
)


def command(invocation: Invocation, file: str, reload: bool, **options: Unpack[ServeParameters]) -> None:
    """Serve the tools of a Python file."""
    transport, where = choose_transport(**options)
    asked = PythonServer(file)
    source = Path(asked.file)
    with_plain_logging(invocation.debug)
    _as_a_program(source)
    with _load_errors_in_short():
        server = tool_server(load_file(source), asked.variable)
    remark = "" if server.auth is not None else "without authorisation"  # stdio needs none, and prints no URL
    with as_options():
        if reload:
            reloading = Reloading(server, source, lambda module: tool_server(module, asked.variable))
            serving = reloading.serve(transport.value, remark=remark, **where)
        else:
            serving = serve(server, transport.value, auth=server.auth, remark=remark, **where)
        run_to_end(announce(server.name, transport, serving))


def tool_server(module: ModuleType, variable: str | None) -> ToolServer:
    """Return the server of a file; if it has none, a new one with its functions that are tools."""
    tools = [value for value in vars(module).values() if isinstance(value, ToolFunction)]
    if variable is None and tools and not servers_in(module):
        gathered = ToolServer(Path(str(module.__file__)).stem)
        for tool in tools:
            gathered.add_tool(tool)
        return gathered
    if variable is None and not servers_in(module):
        define = "define one, `server = toolcrib.ToolServer('name')`, or decorate functions with @toolcrib.tool"
        raise ConfigError(f"{module.__file__}: no ToolServer found; {define}")
    found = server_in(module, variable)
    if not isinstance(found, ToolServer):
        raise ConfigError(f"{module.__file__}: a {type(found).__name__} cannot be served, only a ToolServer")
    return found


def _as_a_program(source: Path) -> None:
    """Set `sys.path` and `sys.argv` as `python FILE` does.

    The folder of the file precedes installed packages, but follows the standard library, which toolcrib needs too: a
    file of tools may be called calendar.py.
    """
    installed = (at for at, folder in enumerate(sys.path) if folder.endswith("-packages"))
    sys.path.insert(next(installed, len(sys.path)), str(source.resolve().parent))
    sys.argv = [str(source)]


@contextlib.contextmanager
def _load_errors_in_short() -> Any:
    """Send what the file prints to stderr, as stdout carries the protocol; if it fails, show its own frames."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except ConfigError as exc:
        if exc.__cause__ is not None and not isinstance(exc.__cause__, OSError):
            note(own_frames(exc.__cause__))
        raise
