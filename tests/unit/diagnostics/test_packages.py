from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from toolcrib.config.launchers import package_of
from toolcrib.diagnostics.packages import fetched_version


@pytest.mark.parametrize(
    "line, name, version",
    [
        ("npx -y @modelcontextprotocol/server-filesystem /data", "@modelcontextprotocol/server-filesystem", None),
        ("npx -y @scope/server@1.2.3 --port 1", "@scope/server", "1.2.3"),
        ("npx -y server@latest", "server", None),
        ("npx server@^1.2.0", "server", None),
        ("npx server@1", "server", None),
        ("npx --yes --package=server@2.0.0-beta.1 -- run-it", "server", "2.0.0-beta.1"),
        ("npx -p server run-it", "server", None),
        ("/usr/local/bin/npx server@1.2.3", "server", "1.2.3"),
        ("pnpm dlx server@1.2.3", "server", "1.2.3"),
        ("npm exec server", "server", None),
        ("uvx mcp-server-git --repository /data", "mcp-server-git", None),
        ("uvx mcp-server-git@2025.1.14", "mcp-server-git", "2025.1.14"),
        ("uvx mcp-server-git==2025.1.14", "mcp-server-git", "2025.1.14"),
        ("uvx --from mcp-server-git[all]>=1 mcp-server-git", "mcp-server-git", None),
        ("uvx --python 3.12 --with rich mcp-server-git@latest", "mcp-server-git", None),
        ("uv tool run mcp-server-git@1.0", "mcp-server-git", "1.0"),
        ("pipx run --spec server==1.0 server", "server", "1.0"),
        ("pipx run server", "server", None),
        ("docker run -i --rm -e TOKEN --name x mcp/github", "mcp/github", None),
        ("docker run -i --rm mcp/github:latest", "mcp/github", None),
        ("docker run -it --env=A=b ghcr.io:443/github/server:1.4 stdio", "ghcr.io:443/github/server", "1.4"),
        ("podman run mcp/github@sha256:abcdef", "mcp/github", "sha256:abcdef"),
        ("deno run -A npm:server@1.0.0", "server", "1.0.0"),
        ("deno run -A jsr:@scope/server", "@scope/server", None),
    ],
)
def test_the_package_and_its_version_are_found_in_a_command(line: str, name: str, version: str | None) -> None:
    command, *args = line.split()
    found = package_of(command, args)
    assert found is not None
    assert (found.name, found.version) == (name, version)


@pytest.mark.parametrize(
    "line",
    [
        "python server.py",
        "node build/index.js",
        "npx ./local",
        "npx github:user/repo",
        "npx -c something",
        "uvx --from git+https://example.com/repo server",
        "uvx --from ./here server",
        "uv run server.py",
        "docker compose up",
        "npx",
        "docker run",
    ],
)
def test_what_fetches_no_package_by_name_has_none(line: str) -> None:
    command, *args = line.split()
    assert package_of(command, args) is None


@pytest.mark.parametrize(
    "line, pinned",
    [
        ("npx -y @scope/server", "@scope/server@1.0"),
        ("npx -y server@latest", "server@1.0"),
        ("uvx server[extra]", "server[extra]@1.0"),
        ("uvx --from server>=0.1 run", "server==1.0"),
        ("pipx run server", "--spec server==1.0 server"),
        ("docker run -i mcp/github:latest", "mcp/github:1.0"),
        ("deno run npm:server", "npm:server@1.0"),
    ],
)
def test_the_pinned_spelling_is_that_of_the_launcher(line: str, pinned: str) -> None:
    command, *args = line.split()
    found = package_of(command, args)
    assert found is not None
    assert found.pinned("1.0") == pinned


def test_the_version_that_npx_fetched_last_is_read_from_its_cache(tmp_path: Path) -> None:
    package = package_of("npx", ["-y", "@scope/server"])
    assert package is not None
    environ = {"HOME": str(tmp_path)}
    assert fetched_version(package, environ) is None
    for age, (key, content) in enumerate((("new", {"version": "2.0.0"}), ("old", {"version": "1.0.0"}), ("odd", [1]))):
        file = tmp_path / ".npm/_npx" / key / "node_modules/@scope/server/package.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(content))
        os.utime(file, (1000 - age, 1000 - age))
    assert fetched_version(package, environ) == "2.0.0"


def test_the_version_that_uvx_fetched_is_read_from_its_cache(tmp_path: Path) -> None:
    package = package_of("uvx", ["mcp-server.git"])
    assert package is not None
    (tmp_path / "archive-v0/xyz/mcp_server_git-1.2.dist-info").mkdir(parents=True)
    (tmp_path / "archive-v0/xyz/mcp_server_git_more-3.0.dist-info").mkdir(parents=True)
    assert fetched_version(package, {"HOME": "/nonexistent", "UV_CACHE_DIR": str(tmp_path)}) == "1.2"
