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
    with _told_shortly():
        server = tool_server(load_file(source), asked.variable)
    with as_options():
        if reload:
            reloading = Reloading(server, source, lambda module: tool_server(module, asked.variable))
            serving = reloading.serve(transport.value, **where)
        else:
            serving = serve(server, transport.value, auth=server.auth, **where)
        run_to_end(announce(server.name, transport, serving))


def tool_server(module: ModuleType, variable: str | None) -> ToolServer:
    """The server of a file; where it has none, one of its functions that are tools."""
    tools = [value for value in vars(module).values() if isinstance(value, ToolFunction)]
    if variable is None and tools and not servers_in(module):
        gathered = ToolServer(Path(str(module.__file__)).stem)
        for tool in tools:
            gathered.add_tool(tool)
        return gathered
    found = server_in(module, variable)
    if not isinstance(found, ToolServer):
        raise ConfigError(f"{module.__file__}: a {type(found).__name__} cannot be served, only a ToolServer")
    return found


def _as_a_program(source: Path) -> None:
    """What a file finds around it when it is run by `python FILE`.

    Its folder comes before what is installed, but after Python's own modules: we need them too, and a file of tools may
    well be called calendar.py.
    """
    installed = (at for at, folder in enumerate(sys.path) if folder.endswith("-packages"))
    sys.path.insert(next(installed, len(sys.path)), str(source.resolve().parent))
    sys.argv = [str(source)]


@contextlib.contextmanager
def _told_shortly() -> Any:
    """What the file prints is no message of the protocol; where it fails, its author sees his own lines."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except ConfigError as exc:
        if exc.__cause__ is not None and not isinstance(exc.__cause__, OSError):
            note(own_frames(exc.__cause__))
        raise
