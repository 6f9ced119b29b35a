"""One word, one concept: no two modules with one stem for different things, no two classes with one name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src/toolcrib"

SAME_CONCEPT = {
    "channel": "the interface to a transport, and its implementation over HTTP",
    "client": "the client, its sync twin, and the HTTP client behind one transport",
    "client_requests": "requests of a server to its client: their values, and sending them",
    "errors": "the exceptions, and how HTTP statuses become them",
    "explain": "why a tool can be called or not: the decision, and the command",
    "hub": "the hub, and its sync twin",
    "jsonc": "the format of settings files: reading, and editing in place",
    "legacy_sse": "the HTTP+SSE transport of 2024-11-05: client side, and server side",
    "prompts": "the protocol's prompts: values, functions of a server, the command",
    "resources": "the protocol's resources: values, functions of a server, those of a hub, the command",
    "run": "serving a tool server: the library, and the command",
    "server": "an MCP server: values that describe one, and `ToolServer`",
    "servers": "the servers of a user: their configs, those of a hub, the command",
    "subscriptions": "subscriptions to changes: client side, and server side",
    "toml": "the format of settings files: reading, and editing in place",
    "tools": "the protocol's tools: values, functions of a server, their diagnosis, the command",
    "view": "what one caller may see and call: of a hub, of a provider",
}
SYNC_TWINS = {"Changes", "Client", "Hub", "HubView", "Resources"}


def modules() -> list[Path]:
    return [path for path in sorted(SOURCE.rglob("*.py")) if path.name != "__init__.py"]


def classes() -> Iterator[tuple[str, Path]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield from ((node.name, path) for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef))


def test_a_stem_is_used_twice_only_for_one_concept() -> None:
    by_stem = defaultdict(list)
    for path in modules():
        by_stem[path.stem].append(str(path.relative_to(SOURCE)))
    twice = {stem: paths for stem, paths in by_stem.items() if len(paths) > 1}
    assert {stem: paths for stem, paths in twice.items() if stem not in SAME_CONCEPT} == {}
    assert {stem for stem in SAME_CONCEPT if stem not in twice} == set(), "no longer used twice: remove them here"


def test_no_two_classes_have_one_name_but_the_sync_twins() -> None:
    by_name = defaultdict(set)
    for name, path in classes():
        by_name[name].add(path.relative_to(SOURCE).parts[0])
    twice = {name: packages for name, packages in by_name.items() if len(packages) > 1}
    assert set(twice) <= SYNC_TWINS, twice
    assert all("sync" in packages for packages in twice.values())
    names = [name for name, _ in classes()]
    assert sorted({name for name in names if names.count(name) > 1}) == sorted(twice)
