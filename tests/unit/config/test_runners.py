from __future__ import annotations

import pytest

from toolcrib.config import may_download


@pytest.mark.parametrize(
    "line",
    [
        "npx -y some-server",
        "/usr/local/bin/npx some-server",
        "pnpx some-server",
        "bunx some-server",
        "bun x some-server",
        "uvx --python 3.12 some-server",
        "uv run server.py",
        "uv --directory /srv/app run server.py",
        "uv tool run some-server",
        "npm exec -- some-server",
        "npm --yes x some-server",
        "pnpm dlx some-server",
        "yarn dlx some-server",
        "pipx run some-server",
        "docker run -i --rm ghcr.io/some/server",
        "podman run -i some/server",
        "env npx some-server",
        "/usr/bin/env -i TOKEN=1 npx some-server",
    ],
)
def test_a_package_runner_may_download(line: str) -> None:
    command, *args = line.split()
    assert may_download(command, args)


@pytest.mark.parametrize(
    "line",
    [
        "python3 server.py",
        "node dist/index.js",
        "npm start",
        "npm start -- exec",
        "pnpm start",
        "yarn start",
        "bun server.ts",
        "uv --version",
        "./npx-server",
        "env TOKEN=1 python3 npx.py",
        "env",
    ],
)
def test_any_other_command_does_not(line: str) -> None:
    command, *args = line.split()
    assert not may_download(command, args)
