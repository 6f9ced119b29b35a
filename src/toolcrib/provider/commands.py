"""Builds the command lines of sources from a runtime and words, and checks the flags of docker. Pure functions.

No shell is involved: each word is one argument. Values of variables are never part of a command; docker gets names.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from ..config import Expanded, mask_urls, names_a_secret, wrong
from ..config.launchers import parse_command
from ..config.masking import secret_arguments
from .fields import MAX_ITEMS, field_error, is_text
from .source_config import PackageInfo
from .stored_config import has_placeholder

RUNTIMES: Final = ("uvx", "npx", "python", "node", "docker", "dnx")
"""The runtimes that a hint or a manifest may name."""
CONTAINER_RUNTIMES: Final = ("docker", "podman")
REGISTRIES: Final[Mapping[str, str]] = {"PyPI": "pypi", "npm": "npm", "docker": "oci", "jsr": "jsr"}
"""The registries of packages by the names that the parser of command lines uses."""

_IMAGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")
_NETWORK: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
"""A name that `-e` may pass on; podman reads `NAME*` as a pattern, and `NAME=VALUE` is a value in the arguments."""
_SHORT_SWITCHES: Final = frozenset("itdPq")
"""The one-letter flags of `docker run` that take no value."""
_LONG_SWITCHES: Final = frozenset(
    {
        *("--rm", "--init", "--interactive", "--tty", "--detach", "--privileged", "--read-only", "--no-healthcheck"),
        *("--oom-kill-disable", "--publish-all", "--quiet", "--sig-proxy", "--disable-content-trust"),
        *("--use-api-socket", "--help"),
    }
)
_SWITCHES: Final = _LONG_SWITCHES | {f"-{letter}" for letter in _SHORT_SWITCHES}
_SYNONYMS: Final[Mapping[str, str]] = {
    "--interactive": "-i",
    "--env": "-e",
    "--net": "--network",
    "--volume": "-v",
    "--tty": "-t",
    "--detach": "-d",
    "--user": "-u",
    "--publish": "-p",
    "--publish-all": "-P",
    "--workdir": "-w",
    "--hostname": "-h",
    "--label": "-l",
    "--memory": "-m",
    "--attach": "-a",
    "--cpu-shares": "-c",
    "--quiet": "-q",
}
_ASSIGNMENT: Final = re.compile(r"-{0,2}([\w-]+)(?:=|:\s*)(?=.)")
_ALLOWED_FLAGS: Final = frozenset({"-i", "--rm", "-e", "--network"})
_ALLOWED_TEXT: Final = "-i, --rm, -e NAME and --network"


def split_command(value: Any, key: str = "mcp_command") -> tuple[str, ...]:
    """Return the words of a command: a list as it is, a string split as a shell would, but without a shell."""
    expected = "a non-empty list of strings, or a string such as 'uvx server --port 1'"
    if isinstance(value, str) and is_text(value):
        try:
            words = shlex.split(value)
        except ValueError:
            words = None
        if words is None:
            raise field_error(key, "a string with balanced quotes", "Or give a list of words")
    elif isinstance(value, list | tuple) and len(value) <= MAX_ITEMS:
        words = list(value)
        for at, word in enumerate(words):
            if not is_text(word):
                raise wrong(f"{key}[{at}]", "a string without NUL", word)
    else:
        raise wrong(key, expected, value)
    if not words or not words[0].strip():
        raise field_error(key, expected, got="an empty command")
    return tuple(words)


def build_command(
    runtime: str,
    words: Sequence[str],
    *,
    runtime_arguments: Sequence[str] = (),
    version: str | None = None,
    allow_docker_flags: Collection[str] = (),
    key: str = "mcp_command",
    runtime_key: str = "mcp_runtime_hint",
) -> tuple[str, ...]:
    """Return the command line that runs `words` with a runtime; without a runtime, `words` is the whole command line.

    Words that begin with the runtime's own name are accepted too. `words` of the runtimes:

    - `uvx`, `npx`, `dnx`: a package and its arguments. npx and dnx get the flag that answers their question with yes.
    - `python`: a file and its arguments, `-m MODULE`, or the name of a module.
    - `node`: a file and its arguments.
    - `docker`: flags, an image and its arguments. It gets `run -i --rm`; other flags than `-e NAME` and `--network`
      are refused unless `allow_docker_flags` names them. `add_docker_variables` adds the names of variables.

    Args:
        runtime: One of `RUNTIMES`, or an empty string.
        words: The words after the runtime.
        runtime_arguments: Further arguments of the runtime itself.
        version: The exact version of the package or image.
        allow_docker_flags: Names of docker's flags that the operator allows, such as `-v`.
        key: The field with the words, for errors.
        runtime_key: The field with the runtime, for errors.
    """
    given = list(words)
    if not given or not given[0].strip():
        raise field_error(key, "a non-empty command", got="an empty one")
    if runtime == "":
        return _complete(given, allow_docker_flags, key)
    if runtime not in RUNTIMES:
        raise field_error(runtime_key, f"one of {', '.join(RUNTIMES)}", got="another runtime")
    if given[0] == runtime and len(given) > 1:
        given = given[1:]
    if runtime == "docker":
        return _docker(["docker", "run", *runtime_arguments, *given], allow_docker_flags, key, version)
    return (runtime, *_BUILDERS[runtime]([*runtime_arguments], given, version, key))


def _uvx(flags: list[str], words: list[str], version: str | None, key: str) -> list[str]:  # noqa: ARG001  # one signature
    return [*flags, *_pinned(words, version)]


def _npx(flags: list[str], words: list[str], version: str | None, key: str) -> list[str]:  # noqa: ARG001  # one signature
    yes = [] if {"-y", "--yes"} & {*flags, *_leading_flags(words)} else ["-y"]
    return [*yes, *flags, *_pinned(words, version)]


def _dnx(flags: list[str], words: list[str], version: str | None, key: str) -> list[str]:  # noqa: ARG001  # one signature
    package, *rest = _pinned(words, version)
    yes = [] if {"-y", "--yes"} & {*flags} else ["--yes"]
    return [package, *yes, *flags, *(["--", *rest] if rest else [])]


def _python(flags: list[str], words: list[str], version: str | None, key: str) -> list[str]:  # noqa: ARG001  # one signature
    first = words[0]
    if first.startswith("-") or first.endswith((".py", ".pyz")) or "/" in first or "\\" in first:
        return [*flags, *words]
    if not _MODULE.fullmatch(first):
        raise field_error(key, "a Python file, -m MODULE, or the name of a module", "Use the runtime uvx for a package")
    return [*flags, "-m", *words]


def _node(flags: list[str], words: list[str], version: str | None, key: str) -> list[str]:  # noqa: ARG001  # one signature
    return [*flags, *words]


_BUILDERS: Final = {"uvx": _uvx, "npx": _npx, "dnx": _dnx, "python": _python, "node": _node}


def _leading_flags(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        if not word.startswith("-"):
            return
        yield word


def _pinned(words: list[str], version: str | None) -> list[str]:
    """Return the words with the version added to the package, the first word, unless it has one."""
    package = words[0]
    if version is None or "@" in package[1:] or "==" in package:
        return words
    return [f"{package}@{version}", *words[1:]]


def _complete(words: list[str], allow_docker_flags: Collection[str], key: str) -> tuple[str, ...]:
    launch = parse_command(words[0], words[1:])
    if program_name(words[0]) in CONTAINER_RUNTIMES:
        return _docker(words, allow_docker_flags, key, None)
    if launch.kind in CONTAINER_RUNTIMES:
        raise field_error(key, f"{launch.kind} as the first word, so that its flags can be checked", got="a wrapper")
    return tuple(words)


def program_name(word: str) -> str:
    """Return the name of a program without its folder and suffix."""
    return re.sub(r"\.(exe|cmd|bat)$", "", re.split(r"[/\\]", word)[-1], flags=re.IGNORECASE).lower()


# ---- docker ------------------------------------------------------------------------------------------------------


def _docker(words: list[str], allowed: Collection[str], key: str, version: str | None) -> tuple[str, ...]:
    """Return `docker run -i --rm FLAGS IMAGE ARGUMENTS`, with every flag checked and written in one form."""
    program, rest = words[0], words[1:]
    if rest[:2] == ["container", "run"]:
        rest = rest[1:]
    if rest[:1] != ["run"]:
        raise field_error(key, f"`{program_name(program)} run ...`", "Flags before `run` are not supported")
    rest = rest[1:]
    if rest[:1] == ["run"]:  # a manifest with the runtime docker whose command begins with `run`
        rest = rest[1:]
    permitted = _ALLOWED_FLAGS | {_SYNONYMS.get(name, name) for name in allowed}
    flags: list[str] = []
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        for name, value in _parse_flag(word, rest, key):
            flags += _checked_flag(name, value, permitted, key)
    if not rest or not _IMAGE.fullmatch(rest[0]):
        raise field_error(key, "an image after the flags of docker", "Such as ghcr.io/owner/server:1.0")
    image, *arguments = rest
    if version is not None and "@" not in image and ":" not in image.rpartition("/")[2]:
        image = f"{image}:{version}"
    return (program, "run", "-i", "--rm", *flags, image, *arguments)


def _parse_flag(word: str, rest: list[str], key: str) -> Iterator[tuple[str, str | None]]:
    """Yield the flags in a word as docker reads it; values that are separate words are taken from `rest`."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        if equals:
            yield name, value
        else:
            yield name, None if name in _LONG_SWITCHES else _next_word(name, rest, key)
        return
    letters = word[1:]
    while letters:
        name, letters = f"-{letters[0]}", letters[1:]
        if letters.startswith("="):
            yield name, letters[1:]
            return
        if name[1] in _SHORT_SWITCHES:
            yield name, None
            continue
        yield name, letters or _next_word(name, rest, key)
        return


def _next_word(name: str, rest: list[str], key: str) -> str | None:
    # A flag that is not allowed is refused by its name, whether or not a value follows.
    if not rest and _SYNONYMS.get(name, name) in _ALLOWED_FLAGS:
        raise field_error(key, f"a value after {name}", got="none")
    return rest.pop(0) if rest else None


def _checked_flag(name: str, value: str | None, permitted: Collection[str], key: str) -> list[str]:
    plain = _SYNONYMS.get(name, name)
    if plain not in permitted:
        shown = name if re.fullmatch(r"-?-[A-Za-z][A-Za-z-]{0,40}", name) else "another flag"
        advice = f"Remove {shown}, or allow it by name (allow_docker_flags)"
        raise field_error(key, f"only the docker flags {_ALLOWED_TEXT}", advice, got=shown)
    if plain in ("-i", "--rm"):
        if value not in (None, "true"):
            raise field_error(key, f"{name} without a value")
        return []
    if plain == "-e" and (value is None or not _VARIABLE.fullmatch(value)):
        advice = "Put the value into mcp_env_vars: every process on the machine can read arguments"
        raise field_error(key, "-e NAME, without a value", advice)
    if plain == "--network" and (value is None or not _NETWORK.fullmatch(value)):
        raise field_error(key, "--network with the name of a network")
    if plain in _SWITCHES:
        return [plain] if value is None else [f"{plain}={value}"]
    if value is None:
        raise field_error(key, f"a value after {plain}", got="none")
    return [plain, value]


def add_docker_variables(command: Sequence[str], names: Collection[str]) -> tuple[str, ...]:
    """Return a docker command with `-e NAME` for each name that it lacks; other commands are returned unchanged.

    Names that begin with `DOCKER_` configure docker's client and are not passed to the container.
    """
    words = list(command)
    if len(words) < 4 or program_name(words[0]) not in CONTAINER_RUNTIMES or words[1:4] != ["run", "-i", "--rm"]:
        return tuple(words)
    for name in names:
        if not _VARIABLE.fullmatch(name):
            raise field_error("mcp_env_vars", "names of letters, digits, _, . and -", "Docker passes no others")
    present = set(_passed_names(words[4:]))
    added = [name for name in sorted(names) if name not in present and not name.startswith("DOCKER_")]
    return (*words[:4], *(word for name in added for word in ("-e", name)), *words[4:])


def _passed_names(words: Sequence[str]) -> Iterator[str]:
    """Yield the names after `-e` among the flags of a command that `build_command` made."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        flag = words[at]
        if flag == "-e":
            yield words[at + 1]
        at += 1 if flag.partition("=")[0] in _SWITCHES else 2


# ---- advice ------------------------------------------------------------------------------------------------------


def find_package(command: Sequence[str]) -> PackageInfo | None:
    """Return the package or image that a command fetches, None if it starts an installed program."""
    if not command:
        return None
    package = parse_command(command[0], command[1:]).package
    if package is None:
        return None
    integrity = package.version if package.version and package.version.startswith("sha256:") else None
    return PackageInfo(REGISTRIES.get(package.registry, package.registry), package.name, package.version, integrity)


def find_secret_words(command: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the position of each word of a command that contains a secret, and where in the word it begins.

    Secrets are the values of options such as `--token`, texts with the form of a token, `API_KEY=value`,
    `Authorization: value`, URLs with user info or a query, and values of variables.
    """
    for position, value in secret_arguments(command[1:]):
        yield position + 1, len(command[position + 1]) - len(value)
    for position, word in enumerate(command):
        if isinstance(word, Expanded) and position:
            yield position, 0
        elif position and (found := _ASSIGNMENT.match(word)) and names_a_secret(found[1]):
            yield position, found.end()
        elif mask_urls(word) != word:
            yield position, 0


def advise(command: Sequence[str]) -> Iterator[str]:
    """Yield warnings about a command whose secrets are replaced by placeholders.

    They are about an unpinned package, secrets among the arguments, and the network of the host.
    """
    package = find_package(command)
    if package is not None and package.version is None:
        advice = "pin an exact version, so that its tools change only when you decide it"
        yield f"command: the package {package.identifier!r} has no exact version; {advice}"
    for position, word in enumerate(command):
        if has_placeholder(word):
            advice = "every process on the machine can read it; pass it as an environment variable"
            yield f"command[{position}]: looks like a secret; {advice}"
    if command and program_name(command[0]) in CONTAINER_RUNTIMES and ("--network", "host") in pairwise(command):
        yield "command: --network host lets the container reach everything that this machine reaches"


def find_python(path: str | None) -> str:
    """Return the Python to start where a command says `python`: the one that runs this process.

    If the source sets its own `PATH`, a `python` or `python3` on that path takes precedence.
    """
    names = ("python", "python3") if path is not None else ()
    return next((name for name in names if shutil.which(name, path=path)), sys.executable)
