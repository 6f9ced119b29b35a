from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.provider_kit import Plugin, manifest
from tests.peers.web import WebServer, framework_server
from toolcrib.provider.provider import Provider

MakePlugin = Callable[..., Plugin]


@pytest.fixture(scope="session")
def sdk1() -> Iterator[WebServer]:
    """A server of the SDK 1.x over HTTP and SSE."""
    yield from _started(framework_server("sdk1", "sdk1"))


@pytest.fixture(scope="session")
def sdk2() -> Iterator[WebServer]:
    """A server of the SDK 2.x over HTTP and SSE."""
    yield from _started(framework_server("sdk2", "sdk2"))


def _started(server: WebServer) -> Iterator[WebServer]:
    try:
        yield server.start()
    finally:
        server.close()


# ---- the MCP Tools Provider


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store; a copy is opened sooner than a new one is created."""
    file = tmp_path_factory.mktemp("store") / "tools.db"

    async def create() -> None:
        async with Provider(file):
            pass

    asyncio.run(create())
    return file


@pytest.fixture
def store_file(empty_store: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    return Path(shutil.copy2(empty_store, folder / "tools.db"))


@pytest.fixture
async def provider(store_file: Path) -> AsyncIterator[Provider]:
    """An open provider without sources."""
    async with Provider(store_file) as opened:
        yield opened


@pytest.fixture
def make_plugin(tmp_path: Path) -> MakePlugin:
    """Return a function that makes a plugin folder with this manifest."""

    def make(content: Any = None, *, folder: str = "plugin", file: str = "plugin.json") -> Plugin:
        return Plugin(tmp_path / folder, manifest() if content is None else content, file=file)

    return make


@pytest.fixture
def plugin(make_plugin: MakePlugin) -> Plugin:
    """A plugin for Python over stdio."""
    return make_plugin()


_spawned: list[list[str]] | None = None


def _note_spawn(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen" and _spawned is not None:
        _spawned.append(list(arguments[1]))


sys.addaudithook(_note_spawn)


@pytest.fixture
def spawned() -> Iterator[list[list[str]]]:
    """The command lines of all processes that this process starts during the test."""
    global _spawned  # noqa: PLW0603  # an audit hook cannot be removed
    _spawned = commands = []
    yield commands
    _spawned = None
