"""Manifests that the tests start from, and a way to change one value in them."""

from __future__ import annotations

import copy
from typing import Any

REMOVED = object()


def plugin(**package: Any) -> dict[str, Any]:
    """Return a `plugin.json` with one package."""
    entry = {
        "name": "default",
        "transport_type": "stdio",
        "runtime": "uvx",
        "command": ["mcp-server-github"],
        "environment_variables": [
            {"name": "GITHUB_TOKEN", "description": "Personal Access Token", "required": True, "secret": True}
        ],
        **package,
    }
    return {"name": "@modelcontextprotocol/github", "version": "1.0.0", "description": "GitHub", "packages": [entry]}


def server(*packages: dict[str, Any], remotes: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Return a `server.json` of the official registry."""
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "io.github.example/weather",
        "description": "Weather",
        "version": "1.0.2",
        **({"packages": list(packages)} if packages else {}),
        **({"remotes": remotes} if remotes is not None else {}),
    }


def package(**fields: Any) -> dict[str, Any]:
    """Return a package of a `server.json`."""
    return {
        "registryType": "npm",
        "identifier": "@example/weather",
        "version": "1.0.2",
        "transport": {"type": "stdio"},
        **fields,
    }


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy of a document with one value replaced, or removed: `packages.0.runtime`."""
    copied = copy.deepcopy(document)
    place: Any = copied
    *keys, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    for key in keys:
        place = place[key]
    if value is REMOVED:
        del place[last]
    else:
        place[last] = value
    return copied
