"""The files of one folder as a server; as a program over stdio: `python filesystem_server.py FOLDER`."""

from __future__ import annotations

import mimetypes
import sys
from functools import partial
from pathlib import Path

import toolcrib as tc


def read_file(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()


def write_file(path: str, text: str) -> str:
    """Write a file."""
    Path(path).write_text(text)
    return "written"


def content_of(path: Path) -> str | bytes:
    return path.read_text() if path.suffix == ".txt" else path.read_bytes()


def make_server(folder: Path) -> tc.ToolServer:
    server = tc.ToolServer("filesystem", version="1.2.3")
    server.add_tool(read_file)
    server.add_tool(write_file)
    for file in sorted(folder.absolute().iterdir()):
        mime_type = mimetypes.guess_type(file)[0]
        server.add_resource(partial(content_of, file), uri=file.as_uri(), name=file.name, mime_type=mime_type)
    return server


if __name__ == "__main__":
    make_server(Path(sys.argv[1])).run("stdio")
