"""The servers of the field test: which package, how to start it, what to call, and what to expect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

PUBLISHED_BEFORE = "2026-11-15"
"""Dependencies of the servers are resolved as of this day, so that a run next month tests the same code."""

FOLDER = "<folder>"
"""Stands for the folder of the server in `args`, `env` and `arguments`."""


@dataclass(frozen=True)
class Package:
    """A package in a registry, and the command that starts it."""

    registry: Literal["PyPI", "npm"]
    name: str
    version: str
    args: tuple[str, ...] = ()
    executable: str = ""
    """Name of the program if it differs from the package's name (PyPI only)."""
    uvx_options: tuple[str, ...] = ()

    @property
    def command(self) -> list[str]:
        """Return the command line without the folder filled in."""
        pinned = f"{self.name}@{self.version}"
        if self.registry == "npm":
            return ["npx", "-y", pinned, *self.args]
        program = ["--from", pinned, self.executable] if self.executable else [pinned]
        return ["uvx", *self.uvx_options, *program, *self.args]


@dataclass(frozen=True)
class FieldServer:
    """A server that starts, and one call that it must answer."""

    name: str
    package: Package
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    returns: str = ""
    """Text that the result must contain. Empty: see `needs`."""
    needs: str = ""
    """Requirements of the call beyond the package. Without them the server's own error is accepted."""
    env: Mapping[str, str] = field(default_factory=dict)
    doctor_warns: tuple[str, ...] = ()
    """Steps of `toolcrib doctor` that end with a warning. A slow start is never counted: it depends on the machine."""


@dataclass(frozen=True)
class BrokenServer:
    """A command that does not start a server, and what `toolcrib doctor` must say about it."""

    name: str
    package: Package
    reason: str
    fix: str
    """Text that the suggested fix must contain."""
    env: Mapping[str, str] = field(default_factory=dict)


def fill_in(value: Any, folder: str) -> Any:
    """Return `value`, plain JSON types, with the folder of the server in place of `FOLDER`."""
    return json.loads(json.dumps(value).replace(FOLDER, json.dumps(folder)[1:-1]))


def _pypi(name: str, version: str, *args: str, executable: str = "", uvx_options: tuple[str, ...] = ()) -> Package:
    return Package("PyPI", name, version, args, executable, uvx_options)


def _npm(name: str, version: str, *args: str) -> Package:
    return Package("npm", name, version, args)


SERVERS = (
    FieldServer(
        "time",
        _pypi("mcp-server-time", "2026.10.19"),
        "convert_time",
        {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
        returns="T21:00:00+09:00",
    ),
    FieldServer(
        "git",
        _pypi("mcp-server-git", "2026.10.19"),
        "git_log",
        {"repo_path": f"{FOLDER}/repository"},
        returns="Message: first commit",
    ),
    FieldServer(
        "fetch",
        _pypi("mcp-server-fetch", "2026.10.24"),
        "fetch",
        {"url": "https://example.com/"},
        needs="network",
    ),
    FieldServer(
        "sqlite",
        _pypi("mcp-server-sqlite", "2025.4.25", "--db-path", f"{FOLDER}/test.db", uvx_options=("--with", "mcp<2")),
        "read_query",
        {"query": "SELECT 40 + 2 AS answer"},
        returns="{'answer': 42}",
    ),
    FieldServer("arxiv", _pypi("arxiv-mcp-server", "0.8.2"), "list_papers", returns='"total_papers": 0'),
    FieldServer(
        "excel",
        _pypi("excel-mcp-server", "2.2.2", "stdio"),
        "create_workbook",
        {"path": f"{FOLDER}/book.xlsx"},
        returns="book.xlsx",
        doctor_warns=("tokens",),
    ),
    FieldServer(
        "word",
        _pypi("office-word-mcp-server", "1.1.11", executable="word_mcp_server"),
        "create_document",
        {"filename": f"{FOLDER}/letter.docx"},
        returns="created successfully",
    ),
    FieldServer(
        "basic-memory",
        _pypi("basic-memory", "0.23.2", "mcp", uvx_options=("--python", "3.12")),
        "write_note",
        {"title": "First", "content": "A note.", "directory": "notes"},
        returns="Created note",
    ),
    FieldServer(
        "calculator", _pypi("mcp-server-calculator", "0.2.1"), "calculate", {"expression": "6 * 7"}, returns="42"
    ),
    FieldServer("pdf", _pypi("pdf-mcp", "3.5.0"), "pdf_cache_stats", returns='"total_files":0'),
    FieldServer(
        "thinking",
        _npm("@modelcontextprotocol/server-sequential-thinking", "2026.8.31"),
        "sequentialthinking",
        {"thought": "One thought is enough.", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
        returns='"thoughtHistoryLength": 1',
    ),
    FieldServer(
        "filesystem",
        _npm("@modelcontextprotocol/server-filesystem", "2026.8.31", FOLDER),
        "read_text_file",
        {"path": f"{FOLDER}/hello.txt"},
        returns="hello from the field",
    ),
    FieldServer(
        "memory",
        _npm("@modelcontextprotocol/server-memory", "2026.8.31"),
        "create_entities",
        {"entities": [{"name": "field", "entityType": "test", "observations": ["it runs"]}]},
        returns="it runs",
        env={"MEMORY_FILE_PATH": f"{FOLDER}/memory.jsonl"},
    ),
    FieldServer(
        "everything",
        _npm("@modelcontextprotocol/server-everything", "2026.8.31"),
        "get-sum",
        {"a": 40, "b": 2},
        returns="42",
    ),
    FieldServer(
        "playwright",
        _npm("@playwright/mcp", "0.0.83"),
        "browser_navigate",
        {"url": "about:blank"},
        needs="Chrome",
    ),
    FieldServer(
        "context7",
        _npm("@upstash/context7-mcp", "4.1.1"),
        "resolve-library-id",
        {"libraryName": "react", "query": "how to use state"},
        needs="network",
    ),
    FieldServer(
        "notion",
        _npm("@notionhq/notion-mcp-server", "2.5.2"),
        "API-get-self",
        needs="network and key",
        doctor_warns=("tokens",),
    ),
    FieldServer(
        "firecrawl",
        _npm("firecrawl-mcp", "3.26.0"),
        "firecrawl_credit_usage",
        needs="network and key",
        env={"FIRECRAWL_API_KEY": "fc-no-key"},
        doctor_warns=("secrets", "tokens"),
    ),
    FieldServer(
        "kubernetes",
        _npm("mcp-server-kubernetes", "4.1.7"),
        "kubectl_context",
        {"operation": "list"},
        returns='"contexts": []',
    ),
    FieldServer("tavily", _npm("tavily-mcp", "0.2.22"), "tavily_search", {"query": "mcp"}, needs="network and key"),
)

BROKEN = (
    BrokenServer(
        "powerpoint",
        _pypi("office-powerpoint-mcp-server", "2.0.7", executable="ppt_mcp_server"),
        "written for mcp 1.x, started with mcp 2.x",
        fix="uvx --with 'mcp<2' --from office-powerpoint-mcp-server",
    ),
    BrokenServer(
        "memory-on-old-python",
        _pypi("basic-memory", "0.23.2", "mcp", uvx_options=("--python", "3.11")),
        "needs Python 3.12",
        fix="uvx --python 3.12 basic-memory",
    ),
    BrokenServer(
        "brave",
        _npm("@brave/brave-search-mcp-server", "2.1.4"),
        "no key",
        fix="BRAVE_API_KEY",
    ),
    BrokenServer(
        "word-by-package-name",
        _pypi("office-word-mcp-server", "1.1.11"),
        "the program has another name than the package",
        fix="uvx --from office-word-mcp-server word_mcp_server",
    ),
    BrokenServer(
        "sqlite-on-mcp-2",
        _pypi("mcp-server-sqlite", "2025.4.25"),
        "written for mcp 1.x, started with mcp 2.x",
        fix="uvx --with 'mcp<2' mcp-server-sqlite",
    ),
    BrokenServer(
        "misspelled",
        _npm("@modelcontextprotocol/server-memroy", "2026.8.31"),
        "there is no such package",
        fix="name of the npm package",
    ),
)
