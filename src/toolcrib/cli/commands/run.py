"""`toolcrib run`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final

import typer

from ...config import PythonServer
from ...errors import ConfigError
from ...server.components.tools import ToolFunction
from ...server.server import ToolServer
from ...server.serving.run import run_to_end, serve
from ...transports.python_file import load_file, own_frames, server_in, servers_in
from ..console import note
from ..reload import Reloading
from ..serve_options import (
    AllowRemote,
    Host,
    Http,
    Port,
    Transport,
    UrlPath,
    Way,
    announce,
    as_options,
    way_of,
    with_plain_logging,
)

EXAMPLES: Final = """
toolcrib run tools.py
toolcrib run tools.py:server --http --port 9000 --reload
"""


def command(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE[:NAME]", help="A Python file; NAME if it has several servers.")],
    transport: Way = Transport.STDIO,
    http: Http = False,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    path: UrlPath = None,
    allow_remote: AllowRemote = False,
    reload: Annotated[bool, typer.Option("--reload", help="Take over changes of the file and its modules.")] = False,
) -> None:
    """Serve the tools of a Python file: its ToolServer, or else the functions that are decorated with @tool.

    The file is run as with `python FILE`, but what stands under `if __name__ == "__main__"` is not. With --reload the
    clients stay connected; code that cannot be run leaves the code before it at work.
    """
    way = way_of(ctx, http, transport)
    asked = PythonServer(file)
    source = Path(asked.file)
    with_plain_logging(ctx.obj.debug)
    _as_a_program(source)
    with _told_shortly():
        server = tool_server(load_file(source), asked.variable)
    options: dict[str, Any] = {"host": host, "port": port, "path": path, "allow_remote": allow_remote}
    with as_options():
        if reload:
            reloading = Reloading(server, source, lambda module: tool_server(module, asked.variable))
            serving = reloading.serve(way.value, **options)
        else:
            serving = serve(server, way.value, auth=server.auth, **options)
        run_to_end(announce(server.name, way, serving))


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
