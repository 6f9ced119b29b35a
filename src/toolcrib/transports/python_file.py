"""Python files that define a tool server: runs the file and finds the server.

A server is recognised by its method `make_channel`, not by its class: this package must not import servers.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from hashlib import sha256
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from .._util.suggest import suggest
from ..errors import ConfigError
from .channel import ChannelSource

_OWN: Final = str(Path(__file__).parents[1])
_MAX_SCANNED: Final = 1_000  # entries of a folder that are searched for a similar name
_loaded: dict[Path, tuple[bytes, ModuleType]] = {}
_lock = threading.RLock()  # reentrant: a file may connect to another one while it runs


def load_file(file: str | Path) -> ModuleType:
    """Return the file as a module. It is run once per process, and again when its text has changed.

    As with `python FILE`, its directory is searched for imports. Raises `ConfigError` if it cannot be run.
    """
    path = Path(file).absolute()
    try:
        source = path.read_bytes()
    except OSError as exc:
        missing = isinstance(exc, FileNotFoundError)
        message = describe_missing_file(path) if missing else f"{path}: cannot be read: {exc.strerror}"
        raise ConfigError(message, file=str(path), key="python", expected="a Python file") from exc
    with _lock:
        known, module = _loaded.get(path, (None, None))
        if module is None or known != source:
            module = run_file(path, source)
            _loaded[path] = (source, module)
    return module


def describe_missing_file(file: Path) -> str:
    """Return the error for a file that does not exist: its folder, and a file there with a similar name."""
    folder = file.absolute().parent
    try:
        with os.scandir(folder) as found:
            names = [each.name for each in islice(found, _MAX_SCANNED) if each.name.endswith(".py")]
    except FileNotFoundError:
        return f"{file.name}: file not found: there is no folder {folder}"
    except OSError as exc:
        return f"{file.name}: file not found: cannot read {folder}: {exc.strerror}"
    return f"{file.name}: file not found in {folder}{suggest(file.name, names)}"


def run_file(path: Path, source: bytes) -> ModuleType:
    """Run the text of a file as a new module. An earlier module of the same file is not changed."""
    name = f"{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"  # cannot be imported by accident
    module = ModuleType(name)
    module.__file__ = str(path)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    before = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses, among others, look up their module while it runs
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102  # the user's own file
    except (Exception, SystemExit) as exc:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise _run_error(path, exc) from exc
    return module


def own_frames(exc: BaseException) -> str:
    """Return the traceback without the frames of this library and of the import machinery."""
    summary = traceback.TracebackException.from_exception(exc)
    frames = [frame for frame in summary.stack if not _is_machinery(frame.filename)]
    summary.stack = traceback.StackSummary.from_list(frames)
    return "".join(summary.format(chain=False)).rstrip()


def _is_machinery(filename: str) -> bool:
    return filename.startswith((_OWN, "<frozen importlib"))


def _run_error(path: Path, exc: BaseException) -> ConfigError:
    """Return the error in one line, with the nearest place in the user's own files."""
    file, line = str(path), None
    if isinstance(exc, SyntaxError) and exc.filename is not None:
        file, line, what = exc.filename, exc.lineno, f"SyntaxError: {exc.msg}"
    else:
        folder = str(path.parent)
        for frame in traceback.extract_tb(exc.__traceback__):
            if frame.filename.startswith(folder) and not _is_machinery(frame.filename):
                file, line = frame.filename, frame.lineno
        what = f"{type(exc).__name__}: {exc}"
    place = file if line is None else f"{file}:{line}"
    return ConfigError(f"{place}: {what}", file=file, line=line, key="python", expected="a Python file that can be run")


def servers_in(module: ModuleType) -> dict[str, ChannelSource]:
    """Return the tool servers of a module, each by the first variable that holds it."""
    found: dict[int, tuple[str, Any]] = {}
    for name, value in vars(module).items():
        # Look at the class: some objects have every attribute, and some raise.
        if callable(getattr(type(value), "make_channel", None)):
            found.setdefault(id(value), (name, value))
    return dict(found.values())


def server_in(module: ModuleType, variable: str | None = None) -> ChannelSource:
    """Return the only tool server of a module, or the one in `variable`; raises `ConfigError` if there is none."""
    file, servers = str(module.__file__), servers_in(module)
    if variable is not None:
        value = vars(module).get(variable)
        if callable(getattr(type(value), "make_channel", None)):
            return cast("ChannelSource", value)
        defined = variable in vars(module)
        what = f"expected a ToolServer, got {type(value).__name__}" if defined else "variable not found"
        raise _no_server(f"{file}: {variable}: {what}{_hint(servers, variable)}", file)
    if len(servers) == 1:
        return next(iter(servers.values()))
    if servers:
        raise _no_server(
            f"{file}: expected one ToolServer, got several. Name one: {file}:{next(iter(servers))}{_hint(servers)}",
            file,
        )
    raise _no_server(f"{file}: no ToolServer found; define one: `server = toolcrib.ToolServer('name')`", file)


def _hint(servers: dict[str, ChannelSource], near: str = "") -> str:
    return suggest(near, servers) or (f"; the file has {', '.join(servers)}" if servers else "")


def _no_server(message: str, file: str) -> ConfigError:
    return ConfigError(message, file=file, key="python", expected="FILE, or FILE:NAME of a ToolServer in it")
