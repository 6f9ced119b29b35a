"""A Python file with a tool server in it: running the file, and finding the server.

The server is known by what it can do (`make_channel`), not by its class: transports know nothing of servers.
"""

from __future__ import annotations

import sys
import threading
import traceback
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from .._util.suggest import suggest
from ..errors import ConfigError
from .channel import ChannelSource

_OWN: Final = str(Path(__file__).parents[1])
_loaded: dict[Path, tuple[bytes, ModuleType]] = {}
_turn = threading.RLock()  # a file may connect to another one while it is run


def load_file(file: str | Path) -> ModuleType:
    """The file as a module; it is run once in this process, and again when its text has changed.

    As with `python FILE`, its own folder is where its imports are looked for. `ConfigError` if it cannot be run.
    """
    path = Path(file).absolute()
    try:
        source = path.read_bytes()
    except OSError as exc:
        what = "there is no such file" if isinstance(exc, FileNotFoundError) else f"cannot be read: {exc.strerror}"
        raise ConfigError(f"{path}: {what}", file=str(path), key="python", expected="a Python file") from exc
    with _turn:
        known, module = _loaded.get(path, (None, None))
        if module is None or known != source:
            module = run_file(path, source)
            _loaded[path] = (source, module)
    return module


def run_file(path: Path, source: bytes) -> ModuleType:
    """Run the text of a file as a new module. The module of the same file before it is left as it is."""
    name = f"{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"  # a name that nobody imports by accident
    module = ModuleType(name)
    module.__file__ = str(path)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    before = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses and others look their module up while it is run
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102  # the user's own file
    except (Exception, SystemExit) as exc:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise _told(path, exc) from exc
    return module


def own_frames(exc: BaseException) -> str:
    """The traceback as the author of the file wants it: without the frames of ours and of the import machinery."""
    told = traceback.TracebackException.from_exception(exc)
    told.stack = traceback.StackSummary.from_list([frame for frame in told.stack if not _is_machinery(frame.filename)])
    return "".join(told.format(chain=False)).rstrip()


def _is_machinery(filename: str) -> bool:
    return filename.startswith((_OWN, "<frozen importlib"))


def _told(path: Path, exc: BaseException) -> ConfigError:
    """What went wrong in one line, with the place in the user's own files that is nearest to it."""
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
    """The tool servers of a module, each by the first name that it has there."""
    found: dict[int, tuple[str, Any]] = {}
    for name, value in vars(module).items():
        # By its class: some objects answer to every name, and some raise.
        if callable(getattr(type(value), "make_channel", None)):
            found.setdefault(id(value), (name, value))
    return dict(found.values())


def server_in(module: ModuleType, variable: str | None = None) -> ChannelSource:
    """The one tool server of a module, or the one of that name; `ConfigError` if it cannot be told which."""
    file, servers = str(module.__file__), servers_in(module)
    if variable is not None:
        value = vars(module).get(variable)
        if callable(getattr(type(value), "make_channel", None)):
            return cast("ChannelSource", value)
        what = "there is none of that name" if variable not in vars(module) else f"it is a {type(value).__name__}"
        raise _unclear(f"{file}: {variable} is no ToolServer: {what}{_known(servers, variable)}", file)
    if len(servers) == 1:
        return next(iter(servers.values()))
    if servers:
        raise _unclear(
            f"{file}: it has several ToolServers: name one, {file}:{next(iter(servers))}{_known(servers)}", file
        )
    raise _unclear(f"{file}: there is no ToolServer in it, such as `server = toolcrib.ToolServer('name')`", file)


def _known(servers: dict[str, ChannelSource], near: str = "") -> str:
    return suggest(near, servers) or (f"; the file has {', '.join(servers)}" if servers else "")


def _unclear(message: str, file: str) -> ConfigError:
    return ConfigError(message, file=file, key="python", expected="FILE, or FILE:NAME of a ToolServer in it")
