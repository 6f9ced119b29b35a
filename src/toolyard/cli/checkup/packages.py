"""Which package a command starts, in which version, and how it would be pinned: pure, but for the look into caches.

Without a version the next start may run other code than the last one did, and offer other tools.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_NPM_OPTIONS: Final = frozenset(
    {"-p", "--package", "-c", "--call", "--registry", "--cache", "--prefix", "--userconfig", "-w", "--workspace"}
)
_UV_OPTIONS: Final = frozenset(
    {
        *("--from", "--with", "-w", "--with-editable", "--with-requirements", "-p", "--python", "--index", "-f"),
        *("--index-url", "-i", "--extra-index-url", "--default-index", "--find-links", "--directory", "--project"),
        *("--cache-dir", "--config-file", "--color", "--resolution", "--prerelease", "--exclude-newer", "--link-mode"),
        *("--env-file", "--refresh-package", "--reinstall-package", "-P", "--upgrade-package", "-c", "--constraints"),
    }
)
_PIPX_OPTIONS: Final = frozenset({"--spec", "--python", "--index-url", "-i", "--pip-args", "--with", "--backend"})
_DOCKER_FLAGS: Final = re.compile(
    r"-[itdPq]+|--(rm|init|interactive|tty|detach|privileged|read-only|no-healthcheck|oom-kill-disable|publish-all|"
    r"quiet|sig-proxy|disable-content-trust|use-api-socket)"
)
_EXACT_NPM: Final = re.compile(r"v?\d+\.\d+\.\d+([-+].*)?")
_EXACT_PYPI: Final = re.compile(r"\d[\w.!+-]*")
_PYPI: Final = re.compile(r"([A-Za-z0-9][\w.-]*)(\[[^\]]*\])?\s*(@|===?|[<>~!]=?)?\s*(.*)", re.ASCII)
_ELSEWHERE: Final = re.compile(r"[./~]|\w+:|git\+|[\w-]+/[\w.-]+$")


@dataclass(frozen=True, slots=True)
class Package:
    """A package that a launcher fetches. `version` is None unless it is one and the same each time."""

    registry: str
    name: str
    version: str | None
    spelled: str
    """As it stands in the command."""
    form: str
    """How it is spelled with a version: `{version}` stands for it."""

    def pinned(self, version: str) -> str:
        """The same in this version."""
        return self.form.format(version=version)


def package_of(command: str, args: Sequence[str]) -> Package | None:
    """What a command line fetches and starts; None if it starts what is installed."""
    launcher = Path(command).name.removesuffix(".cmd").removesuffix(".exe")
    for words, find in _LAUNCHERS.get(launcher, ()):
        if tuple(args[: len(words)]) == words:
            return find(list(args[len(words) :]))
    return None


def _taken_apart(args: list[str], takes_value: Callable[[str], bool]) -> tuple[dict[str, str], str]:
    """The options before the first word that is none, and that word."""
    options: dict[str, str] = {}
    words = iter(args)
    for word in words:
        if word == "--":
            return options, next(words, "")
        if not word.startswith("-") or word == "-":
            return options, word
        name, equals, value = word.partition("=")
        options[name] = value if equals or not takes_value(name) else next(words, "")
    return options, ""


def _npm(args: list[str]) -> Package | None:
    options, first = _taken_apart(args, _NPM_OPTIONS.__contains__)
    spelled = options.get("--package") or options.get("-p") or first
    if not spelled or (_ELSEWHERE.match(spelled) and not spelled.startswith("@")):
        return None
    at = spelled.find("@", 1)
    name, version = (spelled, "") if at < 0 else (spelled[:at], spelled[at + 1 :])
    exact = version if _EXACT_NPM.fullmatch(version) else None
    return Package("npm", name, exact, spelled, name.replace("{", "{{") + "@{version}")


def _uv(args: list[str]) -> Package | None:
    options, first = _taken_apart(args, _UV_OPTIONS.__contains__)
    if "--from" in options:
        return _pypi(options["--from"], "{base}=={version}")
    return _pypi(first, "{base}@{version}")


def _pipx(args: list[str]) -> Package | None:
    options, first = _taken_apart(args, _PIPX_OPTIONS.__contains__)
    spelled = options.get("--spec", first)
    return _pypi(spelled, "{base}=={version}" if "--spec" in options else "--spec {base}=={version} {base}")


def _pypi(spelled: str, form: str) -> Package | None:
    found = _PYPI.fullmatch(spelled)
    if found is None or _ELSEWHERE.match(spelled) or found[4].startswith(("git+", "http", "file:")):
        return None
    base = found[1] + (found[2] or "")
    exact = found[4] if found[3] in ("@", "==", "===") and _EXACT_PYPI.fullmatch(found[4]) else None
    return Package("PyPI", found[1], exact, spelled, form.replace("{base}", base))


def _docker(args: list[str]) -> Package | None:
    _, image = _taken_apart(args, lambda name: _DOCKER_FLAGS.fullmatch(name) is None)
    if not image:
        return None
    name, _, digest = image.partition("@")
    path, slash, last = name.rpartition("/")
    base, _, tag = last.partition(":")
    exact = digest or (tag if tag != "latest" and any(c.isdigit() for c in tag) else None)
    return Package("docker", path + slash + base, exact, image, f"{path}{slash}{base}:{{version}}")


def _deno(args: list[str]) -> Package | None:
    word = next((word for word in args if word.startswith(("npm:", "jsr:"))), "")
    registry, _, spelled = word.partition(":")
    found = _npm([spelled]) if spelled else None
    return found and Package(registry, found.name, found.version, word, f"{registry}:{found.form}")


_Finder = Callable[[list[str]], Package | None]
_LAUNCHERS: Final[Mapping[str, tuple[tuple[tuple[str, ...], _Finder], ...]]] = {
    "npx": (((), _npm),),
    "bunx": (((), _npm),),
    "pnpx": (((), _npm),),
    "npm": ((("exec",), _npm), (("x",), _npm)),
    "pnpm": ((("dlx",), _npm),),
    "yarn": ((("dlx",), _npm),),
    "bun": ((("x",), _npm),),
    "uvx": (((), _uv),),
    "uv": ((("tool", "run"), _uv),),
    "pipx": ((("run",), _pipx),),
    "deno": ((("run",), _deno),),
    "docker": ((("run",), _docker), (("container", "run"), _docker)),
    "podman": ((("run",), _docker),),
}


def fetched_version(package: Package, environ: Mapping[str, str]) -> str | None:
    """The version that the launcher has fetched, if it is in the usual cache; the newest if there are several."""
    found = [*_fetched(package, Path(environ.get("HOME") or Path.home()), environ)]
    return max(found)[1] if found else None


def _fetched(package: Package, home: Path, environ: Mapping[str, str]) -> Iterator[tuple[float, str]]:
    if package.registry == "npm":
        cache = Path(environ.get("npm_config_cache") or home / ".npm")
        for file in cache.glob(f"_npx/*/node_modules/{package.name}/package.json"):
            try:
                version = json.loads(file.read_bytes()).get("version")
            except (OSError, ValueError, AttributeError):
                continue
            if isinstance(version, str) and _EXACT_NPM.fullmatch(version):
                yield file.stat().st_mtime, version
    elif package.registry == "PyPI":
        cache = Path(environ.get("UV_CACHE_DIR") or Path(environ.get("XDG_CACHE_HOME") or home / ".cache") / "uv")
        stem = re.sub(r"[-_.]+", "_", package.name).lower()
        for folder in cache.glob(f"archive-v0/*/{stem}-*.dist-info"):
            yield os.stat(folder).st_mtime, folder.name.removeprefix(f"{stem}-").removesuffix(".dist-info")
