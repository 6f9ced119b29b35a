"""Parses the command line of a server: its launcher, its package, and a name for the server. Pure functions."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final
from urllib.parse import urlsplit

from ..tool_names import slug

# ---- options that take a value, by launcher --------------------------------------------------------------------

_NPM_OPTIONS: Final = frozenset(
    {"-p", "--package", "-c", "--call", "--registry", "--cache", "--prefix", "--userconfig", "-w", "--workspace"}
)
_UV_OPTIONS: Final = frozenset(
    {
        *("--from", "--with", "-w", "--with-editable", "--with-requirements", "-p", "--python", "--index", "-f"),
        *("--index-url", "-i", "--extra-index-url", "--default-index", "--find-links", "--directory", "--project"),
        *("--cache-dir", "--config-file", "--color", "--resolution", "--prerelease", "--exclude-newer", "--link-mode"),
        *("--env-file", "--refresh-package", "--reinstall-package", "-P", "--upgrade-package", "-c", "--constraints"),
        *("--overrides", "--build-constraints", "--allow-insecure-host", "--python-platform", "--torch-backend"),
        *("--extra", "--group", "--only-group", "--no-group", "--package", "-C", "--config-setting", "--fork-strategy"),
        *("--index-strategy", "--keyring-provider", "--no-build-package", "--no-binary-package"),
    }
)
_PIPX_OPTIONS: Final = frozenset({"--spec", "--python", "--index-url", "-i", "--pip-args", "--with", "--backend"})
_DOCKER_FLAGS: Final = re.compile(
    r"-[itdPq]+|--(rm|init|interactive|tty|detach|privileged|read-only|no-healthcheck|oom-kill-disable|publish-all|"
    r"quiet|sig-proxy|disable-content-trust|use-api-socket|debug|tls|tlsverify)"
)
_PYTHON_OPTIONS: Final = frozenset({"-c", "-W", "-X", "--check-hash-based-pycs"})
_NODE_OPTIONS: Final = frozenset({"-r", "--require", "--import", "--loader", "-C", "--conditions", "-e", "--eval"})
_ENV_OPTIONS: Final = frozenset({"-u", "--unset", "-C", "--chdir", "-S", "--split-string"})

_EXACT_NPM: Final = re.compile(r"v?\d+\.\d+\.\d+([-+].*)?")
_EXACT_PYPI: Final = re.compile(r"\d[\w.!+-]*")
_PYPI: Final = re.compile(r"([A-Za-z0-9][\w.-]*)(\[[^\]]*\])?\s*(@|===?|[<>~!]=?)?\s*(.*)", re.ASCII)
_ELSEWHERE: Final = re.compile(r"[./~]|\w+:|git\+|[\w-]+/[\w.-]+$")
_SAYS_NOTHING: Final = frozenset(
    {"index", "main", "__main__", "server", "app", "cli", "run", "start", "mcp", "stdio", "mcp_server", "mcp-server"}
)
"""Names of files and modules that are too common to identify a server."""
_UNNAMED_FOLDERS: Final = frozenset(
    {"", ".", "..", "/", "dist", "build", "src", "lib", "out", "bin", "target", "release", "debug", "scripts", "cjs"}
)
_OF_NO_SERVER: Final = frozenset({"mcp", "sse", "api", "http", "stream", "message", "messages"})
"""Words in the path of a URL that do not identify a server."""
_WORD_OF_PATH: Final = re.compile(r"[A-Za-z][A-Za-z_-]{0,24}")
"""A part of a path that can be shown; parts with digits may be secrets."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package that a launcher fetches. `version` is None unless the command pins one exact version."""

    registry: str
    name: str
    version: str | None
    spelled: str
    """The package as written in the command."""
    form: str
    """The package with a version, as a format string with `{version}`."""

    def pinned(self, version: str) -> str:
        """Return the package as written in a command with this version."""
        return self.form.format(version=version)


@dataclass(frozen=True, slots=True)
class Launch:
    """A parsed command line, such as `uvx --python 3.12 server --port 1`."""

    launcher: tuple[str, ...]
    """The words of the launcher without wrappers such as `env`: `uvx`, `uv tool run`; empty without a launcher."""
    options: tuple[tuple[str, str], ...]
    """The options of the launcher, each with its value: `("--python", "3.12")`."""
    program: str
    """The package, image, module or file that is launched, as written."""
    rest: tuple[str, ...]
    """The program's own arguments."""
    package: Package | None = None
    """The package that the launcher fetches, None if it fetches none."""

    @property
    def kind(self) -> str:
        """The launcher's name, also `uvx` for `uv tool run`; empty without a launcher."""
        return _TWINS.get(self.launcher, self.launcher[0]) if self.launcher else ""

    def option(self, *names: str) -> str:
        """Return the value of the last option with one of these names; empty if there is none."""
        return next((value for name, value in reversed(self.options) if name in names), "")

    def with_option(self, name: str, value: str, *, instead_of: Collection[str] = ()) -> str:
        """Return the command line with this option, without `instead_of` options and the program's arguments."""
        kept = [word for key, given in self.options if key not in instead_of for word in (key, given) if word]
        more = " ..." if self.rest else ""
        return shlex.join([*self.launcher, name, value, *kept, self.program]) + more


def parse_command(command: str, args: Sequence[str]) -> Launch:
    """Parse the command line of a server."""
    words = _unwrapped([command, *args])
    base = _base(words[0])
    for launcher in _LAUNCHERS.get(base, ()):
        options, found = _launched(words[1:], launcher)
        if found is None:
            continue
        launched = (base, *launcher.words)
        program, *rest = found or [""]
        if launcher.module and (module := dict(options).get(launcher.module)):
            return Launch(launched, tuple(options), module, tuple(found))
        package = launcher.package(dict(options), program) if launcher.package is not None else None
        return Launch(launched, tuple(options), program, tuple(rest), package)
    return Launch((), (), words[0], tuple(words[1:]))


def package_of(command: str, args: Sequence[str]) -> Package | None:
    """Return the package that a command line fetches and starts; None if it starts an installed program."""
    return parse_command(command, args).package


def name_of_command(command: str, args: Sequence[str], folder: str = "") -> str:
    """Return a name for a server with this command line; `folder` is the folder of relative paths."""
    launch = parse_command(command, args)
    if launch.kind in ("docker", "podman"):
        return slug(launch.package.name.rpartition("/")[2] if launch.package else launch.kind)
    directory = launch.option("--directory", "--project")
    if launch.kind in ("uv", "poetry") and _base(launch.program) in _LAUNCHERS:  # `uv run python server.py`
        return name_of_command(launch.program, launch.rest, directory or folder)
    program = launch.program or launch.option("--from", "--package", "-p", "--spec")
    if not program or (launch.option("-c", "-e", "--eval") and launch.kind in ("python", "node")):  # code, not a file
        return slug(_base(command))
    if launch.option("-m") == program:
        words = program.split(".")
        return slug(next((word for word in reversed(words) if word not in _SAYS_NOTHING), words[0]))
    if launch.kind in _PACKAGE_LAUNCHERS or re.match(r"(npm|jsr):", program):
        return slug(_name_of_package(program))
    return slug(_name_of_file(program, directory, folder))


def name_of_url(url: str) -> str:
    """Return a name for a server at this URL: its host, with an unusual port and the distinctive words of the path."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "server"
    usual = {"http": 80, "https": 443}.get(parts.scheme.lower())
    words = [word for word in parts.path.split("/") if _WORD_OF_PATH.fullmatch(word)]
    distinctive = [word for word in words if word.lower() not in _OF_NO_SERVER][:2]
    return slug("-".join([host, *([str(port)] if port not in (None, usual) else []), *distinctive]))


# ---- names -----------------------------------------------------------------------------------------------------


def _name_of_package(spelled: str) -> str:
    """Return the last part of a package's name: `name` of `@scope/name@1` or `git+https://host/name.git@v1`."""
    plain = re.sub(r"^(npm|jsr|github|gitlab|file):", "", spelled)
    if "://" in plain or plain.startswith((".", "/", "~")):
        path = re.sub(r"#.*|(?<!/)@[^@/]*$", "", plain.partition("://")[2] or plain).rstrip("/")
        return re.sub(r"\.(git|tgz|whl|tar\.gz)$", "", path.rpartition("/")[2])
    plain = re.sub(r"#.*", "", plain)
    name = re.sub(r"(?<=.)@[^/]*$|\s*[\[=<>~!;].*$", "", plain)
    return name.rpartition("/")[2]


def _name_of_file(spelled: str, directory: str, folder: str) -> str:
    """Return the name of a file without suffix or, if that is too common, of its folder."""
    path = PurePath(spelled)
    if path.stem.lower() not in _SAYS_NOTHING:
        return path.stem
    for parent in (path.parent, PurePath(directory)):
        if named := _named_folder(parent):
            return named
    fallback = _named_folder(PurePath(folder)) if path.stem.lower() in ("index", "main", "__main__") else ""
    return fallback or path.stem


def _named_folder(path: PurePath) -> str:
    return next((part for part in reversed(path.parts) if part.lower() not in _UNNAMED_FOLDERS), "")


# ---- parsing a command line --------------------------------------------------------------------------------------


def _base(command: str) -> str:
    """Return the name of a program: `npx` of `/usr/bin/npx` and `npx.cmd`, `python` of `python3.12`."""
    base = re.sub(r"\.(exe|cmd|bat)$", "", re.split(r"[/\\]", command)[-1], flags=re.IGNORECASE)
    return re.sub(r"^(python|pypy)[\d.]*w?$", "python", base)


def _unwrapped(words: list[str]) -> list[str]:
    """Return the command without wrappers such as `env A=1`, `cmd /c` and `sh -c`."""
    base = _base(words[0])
    if base == "env":
        _, rest = _options(words[1:], _ENV_OPTIONS.__contains__)
        while rest and "=" in rest[0]:
            rest = rest[1:]
        return _unwrapped(rest) if rest else words
    if base == "cmd" and len(words) > 2 and words[1].lower() in ("/c", "/k"):
        return _unwrapped(words[2:])
    if base in ("sh", "bash", "zsh") and len(words) > 2 and re.fullmatch(r"-[a-z]*c", words[1]):
        try:
            inner = shlex.split(words[2])
        except ValueError:
            return words
        # The last of several commands is the server: `cd /x && npx server`.
        for sign in ("&&", ";"):
            if sign in inner:
                inner = inner[len(inner) - inner[::-1].index(sign) :]
        return _unwrapped([each for each in inner if each != "exec"] or words)
    return words


def _options(words: Sequence[str], takes_value: Callable[[str], bool]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the options before the first word that is not an option, and the words from there on."""
    options: list[tuple[str, str]] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            return options, list(words[at - 1 :])
        name, equals, value = word.partition("=")
        if not equals and takes_value(name) and at < len(words):
            value = words[at]
            at += 1
        options.append((name, value))
    return options, list(words[at:])


def _launched(words: Sequence[str], launcher: _Launcher) -> tuple[list[tuple[str, str]], list[str] | None]:
    """Return the options of a launcher, and the words from the program on; None if its subcommand is missing."""
    options: list[tuple[str, str]] = []
    rest = list(words)
    for word in launcher.words:
        more, rest = _options(rest, launcher.takes_value)
        options += more
        if not rest or rest[0] != word:
            return [], None
        rest = rest[1:]
    if launcher.module:
        for at, word in enumerate(rest):  # `python -m NAME`: all that follows belongs to the program
            if not word.startswith("-"):
                break
            if word == launcher.module and at + 1 < len(rest):
                more, _ = _options(rest[:at], launcher.takes_value)
                return [*options, *more, (word, rest[at + 1])], rest[at + 2 :]
    more, rest = _options(rest, launcher.takes_value)
    return [*options, *more], rest


# ---- packages ----------------------------------------------------------------------------------------------------


def _npm(options: Mapping[str, str], first: str) -> Package | None:
    spelled = options.get("--package") or options.get("-p") or first
    if not spelled or (_ELSEWHERE.match(spelled) and not spelled.startswith("@")):
        return None
    at = spelled.find("@", 1)
    name, version = (spelled, "") if at < 0 else (spelled[:at], spelled[at + 1 :])
    exact = version if _EXACT_NPM.fullmatch(version) else None
    return Package("npm", name, exact, spelled, name.replace("{", "{{") + "@{version}")


def _uv(options: Mapping[str, str], first: str) -> Package | None:
    if "--from" in options:
        return _pypi(options["--from"], "{base}=={version}")
    return _pypi(first, "{base}@{version}")


def _pipx(options: Mapping[str, str], first: str) -> Package | None:
    spelled = options.get("--spec", first)
    return _pypi(spelled, "{base}=={version}" if "--spec" in options else "--spec {base}=={version} {base}")


def _pypi(spelled: str, form: str) -> Package | None:
    found = _PYPI.fullmatch(spelled)
    if found is None or _ELSEWHERE.match(spelled) or found[4].startswith(("git+", "http", "file:")):
        return None
    base = found[1] + (found[2] or "")
    exact = found[4] if found[3] in ("@", "==", "===") and _EXACT_PYPI.fullmatch(found[4]) else None
    return Package("PyPI", found[1], exact, spelled, form.replace("{base}", base))


def _docker(options: Mapping[str, str], image: str) -> Package | None:  # noqa: ARG001  # same signature as the other parsers
    if not image:
        return None
    name, _, digest = image.partition("@")
    path, slash, last = name.rpartition("/")
    base, _, tag = last.partition(":")
    exact = digest or (tag if tag != "latest" and any(c.isdigit() for c in tag) else None)
    return Package("docker", path + slash + base, exact, image, f"{path}{slash}{base}:{{version}}")


def _deno(options: Mapping[str, str], word: str) -> Package | None:  # noqa: ARG001  # same signature as the other parsers
    registry, _, spelled = word.partition(":")
    found = _npm({}, spelled) if registry in ("npm", "jsr") and spelled else None
    return found and Package(registry, found.name, found.version, word, f"{registry}:{found.form}")


@dataclass(frozen=True, slots=True)
class _Launcher:
    """How one launcher is spelled."""

    words: tuple[str, ...] = ()
    """Its words behind the command: `("tool", "run")` of `uv tool run`."""
    takes_value: Callable[[str], bool] = frozenset[str]().__contains__
    package: Callable[[Mapping[str, str], str], Package | None] | None = None
    module: str = ""
    """The option that names a module instead of a file."""


_OF_NPM: Final = (_Launcher((), _NPM_OPTIONS.__contains__, _npm),)
_OF_DOCKER: Final = tuple(
    _Launcher(words, lambda name: _DOCKER_FLAGS.fullmatch(name) is None, _docker)
    for words in (("run",), ("container", "run"))
)
_OF_NODE: Final = (_Launcher((), _NODE_OPTIONS.__contains__),)
_LAUNCHERS: Final[Mapping[str, tuple[_Launcher, ...]]] = {
    "npx": _OF_NPM,
    "bunx": _OF_NPM,
    "pnpx": _OF_NPM,
    "npm": tuple(_Launcher((word,), _NPM_OPTIONS.__contains__, _npm) for word in ("exec", "x")),
    "pnpm": (_Launcher(("dlx",), _NPM_OPTIONS.__contains__, _npm),),
    "yarn": (_Launcher(("dlx",), _NPM_OPTIONS.__contains__, _npm),),
    "bun": (_Launcher(("x",), _NPM_OPTIONS.__contains__, _npm), _Launcher(("run",)), _Launcher()),
    "uvx": (_Launcher((), _UV_OPTIONS.__contains__, _uv),),
    "uv": (
        _Launcher(("tool", "run"), _UV_OPTIONS.__contains__, _uv),
        _Launcher(("run",), _UV_OPTIONS.__contains__, module="-m"),
    ),
    "pipx": (_Launcher(("run",), _PIPX_OPTIONS.__contains__, _pipx),),
    "deno": (_Launcher(("run",), frozenset({"-c", "--config", "--import-map"}).__contains__, _deno),),
    "docker": _OF_DOCKER,
    "podman": _OF_DOCKER,
    "python": (_Launcher((), _PYTHON_OPTIONS.__contains__, module="-m"),),
    "node": _OF_NODE,
    "nodejs": _OF_NODE,
    "tsx": _OF_NODE,
    "ts-node": _OF_NODE,
    "ruby": (_Launcher(),),
    "poetry": (_Launcher(("run",)),),
    "java": (_Launcher((), frozenset({"-cp", "-classpath"}).__contains__, module="-jar"),),
    **dict.fromkeys(("toolcrib", "mcp", "fastmcp"), (_Launcher(("run",)),)),
}
_TWINS: Final[Mapping[tuple[str, ...], str]] = {("uv", "tool", "run"): "uvx"}
_PACKAGE_LAUNCHERS: Final = frozenset({"npx", "bunx", "pnpx", "npm", "pnpm", "yarn", "uvx", "pipx"})
