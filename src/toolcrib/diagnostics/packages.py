"""Finds the version of a package that its launcher has fetched, in the caches of npm and uv."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from .._util.folders import cache_folder, home_folder
from ..config.launchers import Package

_EXACT_NPM: Final = re.compile(r"v?\d+\.\d+\.\d+([-+].*)?")


def fetched_version(package: Package, environ: Mapping[str, str]) -> str | None:
    """Return the version that the launcher has fetched, if it is in the usual cache; the newest of several."""
    found = [*_fetched(package, environ)]
    return max(found)[1] if found else None


def _fetched(package: Package, environ: Mapping[str, str]) -> Iterator[tuple[float, str]]:
    if package.registry == "npm":
        cache = Path(environ.get("npm_config_cache") or home_folder(environ) / ".npm")
        for file in cache.glob(f"_npx/*/node_modules/{package.name}/package.json"):
            try:
                version = json.loads(file.read_bytes()).get("version")
            except (OSError, ValueError, AttributeError):
                continue
            if isinstance(version, str) and _EXACT_NPM.fullmatch(version):
                yield file.stat().st_mtime, version
    elif package.registry == "PyPI":
        cache = Path(environ.get("UV_CACHE_DIR") or cache_folder(environ) / "uv")
        stem = re.sub(r"[-_.]+", "_", package.name).lower()
        for folder in cache.glob(f"archive-v0/*/{stem}-*.dist-info"):
            yield os.stat(folder).st_mtime, folder.name.removeprefix(f"{stem}-").removesuffix(".dist-info")
