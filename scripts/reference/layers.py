"""The picture of the layers, drawn from the contract that import-linter checks."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from . import svg

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs/pictures/layers.svg"

WIDTH = 1000
MARGIN = 16
ROW = 44
GAP = 10
SUMMARIES = {
    "__main__": "python -m toolcrib",
    "cli": "the command line",
    "gateway": "one endpoint for many sources",
    "provider": "sources, inventory",
    "adapters": "agent frameworks",
    "testing": "for users' tests",
    "diagnostics": "finds causes, suggests fixes",
    "sync": "the same without an event loop",
    "hub": "many servers as one",
    "bridge": "translates between revisions",
    "upstreams": "connections behind a bridge",
    "client": "one server: calls, retries, sessions",
    "server": "functions as tools, endpoints",
    "catalog": "routes, search, token estimates",
    "transports": "stdio, HTTP, SSE, in memory",
    "oauth": "tokens",
    "policy": "pure decisions",
    "settings": "settings files",
    "config": "server configurations",
    "protocol": "MCP without I/O",
    "events": "what listeners receive",
    "types": "frozen values",
    "tool_names": "qualified names",
    "errors": "the exceptions",
    "defaults": "default values",
    "_util": "shared mechanisms",
    "_version": "",
}


@dataclass(frozen=True)
class Package:
    """A package of a layer; `exists` is False for one that is planned."""

    name: str
    exists: bool


def layers() -> list[list[Package]]:
    """Return the layers of the contract, the highest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    contract = next(each for each in contracts if each["id"] == "layers")
    folder = ROOT / "src" / contract["containers"][0]
    return [[_package(folder, name) for name in layer.split("|")] for layer in contract["layers"]]


def _package(folder: Path, name: str) -> Package:
    name = name.strip().strip("()")
    return Package(name, (folder / name).is_dir() or (folder / f"{name}.py").is_file())


def picture() -> str:
    """Return the picture as SVG."""
    rows = layers()
    height = 2 * MARGIN + len(rows) * (ROW + GAP) - GAP
    parts = []
    for index, row in enumerate(rows):
        top = MARGIN + index * (ROW + GAP)
        width = (WIDTH - 2 * MARGIN - GAP * (len(row) - 1)) / len(row)
        for place, package in enumerate(row):
            summary = SUMMARIES[package.name]
            summary = summary if package.exists else f"planned: {summary}"
            left = MARGIN + place * (width + GAP)
            parts += svg.Box(package.name, left, top, width, ROW, summary, planned=not package.exists).draw()
    title = "The layers of the package: each imports only from the layers below it"
    return svg.document(title, WIDTH, height, parts)
