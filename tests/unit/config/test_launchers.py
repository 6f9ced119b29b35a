"""Command lines of servers as found in READMEs and settings files: what they launch, and its name."""

from __future__ import annotations

import shlex

import pytest

from toolcrib.config.launchers import name_of_command, name_of_url, parse_command


@pytest.mark.parametrize(
    "line, name",
    [
        ("docker run -i --rm -e GITHUB_PERSONAL_ACCESS_TOKEN ghcr.io/github/github-mcp-server", "github-mcp-server"),
        ("docker run -i --rm --env=A=b -v /a:/b mcp/fetch:1.2 --flag", "fetch"),
        ("docker --context remote run --rm -i mcp/time@sha256:abc", "time"),
        ("docker run", "docker"),
        ("uvx --python 3.12 mcp-server-git", "mcp-server-git"),
        ("uvx --with 'mcp<2' mcp-server-git", "mcp-server-git"),
        ("uvx --from git+https://github.com/owner/repo mcp-thing --port 1", "mcp-thing"),
        ("uvx --from mcp-server-git[all]>=1 mcp-git", "mcp-git"),
        ("uvx git+https://github.com/owner/repo.git@v1.2", "repo"),
        ("uvx mcp-server-git@latest --repository /data", "mcp-server-git"),
        ("uvx mcp-server[extra]>=1", "mcp-server"),
        ("uv tool run mcp-server-git@1.0", "mcp-server-git"),
        ("uv --directory /srv/weather run server.py", "weather"),
        ("uv run --directory /srv/weather main.py", "weather"),
        ("uv --directory /srv/weather run forecast.py", "forecast"),
        ("uv --directory /srv/weather run weather-mcp", "weather-mcp"),
        ("uv run --with mcp[cli] mcp run /srv/weather/server.py", "weather"),
        ("uv --directory /srv/weather run python main.py", "weather"),
        ("uv run server.py", "server"),
        ("uv run -m weather.server", "weather"),
        ("node /opt/foo-mcp/dist/index.js", "foo-mcp"),
        ("node --no-warnings ./packages/foo/build/src/index.js /data", "foo"),
        ("node dist/index.js", "here"),
        ("node -r dotenv/config server.js", "server"),
        ("node", "node"),
        ("env FOO=1 BAR=2 npx some-server", "some-server"),
        ("/usr/bin/env -u A -i uvx some-server", "some-server"),
        ("cmd /c npx -y @scope/pkg", "pkg"),
        ("bash -lc 'cd /srv && exec npx -y @scope/pkg@1.2.3 --flag'", "pkg"),
        ("npx -y @scope/pkg@1.2.3", "pkg"),
        ("npx -y some-server@latest", "some-server"),
        ("npx --package=@scope/pkg -- run-it", "run-it"),
        ("npx --package @scope/pkg@2", "pkg"),
        ("npx -y github:owner/repo#main", "repo"),
        ("npx ./local-server", "local-server"),
        ("npx.cmd -y tavily-mcp", "tavily-mcp"),
        ("pnpm dlx server@1.2.3", "server"),
        ("bun run /srv/thing/src/index.ts", "thing"),
        ("bun x @scope/pkg", "pkg"),
        ("pipx run --spec thing==1.0 thing-mcp", "thing-mcp"),
        ("deno run -A npm:@scope/thing@1.0.0", "thing"),
        ("deno run --allow-net /srv/thing/main.ts", "thing"),
        ("python -m foo.bar", "bar"),
        ("python3.12 -u -m foo.server --port 1", "foo"),
        ("python -m my_server", "my_server"),
        ("/usr/bin/python3 -X dev /srv/weather/server.py", "weather"),
        ("python demo_server.py", "demo_server"),
        ("python3 -u -c 'import thing; thing.run()' /data", "python"),
        ("node -e 'run()'", "node"),
        ("poetry run weather", "weather"),
        ("java -jar /opt/things/mcp-things.jar", "mcp-things"),
        ("./bin/serve", "serve"),
        ("/opt/github-mcp-server/bin/server stdio", "github-mcp-server"),
        ("github-mcp-server stdio", "github-mcp-server"),
    ],
)
def test_a_server_is_named_after_what_its_command_launches(line: str, name: str) -> None:
    command, *args = shlex.split(line)
    assert name_of_command(command, args, "/srv/here") == name


@pytest.mark.parametrize(
    "url, name",
    [
        ("https://tools.example.com/mcp", "tools-example-com"),
        ("https://tools.example.com:443/mcp", "tools-example-com"),
        ("http://localhost:8000/mcp", "localhost-8000"),
        ("http://localhost:8001/mcp", "localhost-8001"),
        ("https://host/github/mcp", "host-github"),
        ("https://host/api/v1/gitlab/sse", "host-gitlab"),
        ("https://user:pass@host/mcp?token=abc", "host"),
        ("https://host/s/Zk9sQ2x8L0a1/mcp", "host-s"),
        ("http://[::1]:8000/mcp", "1-8000"),
        ("http://[", "server"),
    ],
)
def test_urls_of_one_host_get_names_that_differ_and_show_no_secret(url: str, name: str) -> None:
    assert name_of_url(url) == name


@pytest.mark.parametrize(
    "line, expected",
    [
        ("uvx thing", "uvx --with 'mcp<2' thing"),
        ("uvx --python 3.12 thing --port 1", "uvx --with 'mcp<2' --python 3.12 thing ..."),
        ("uv tool run --from a==1 b", "uv tool run --with 'mcp<2' --from a==1 b"),
    ],
)
def test_an_option_is_added_in_front_of_the_program(line: str, expected: str) -> None:
    command, *args = shlex.split(line)
    assert parse_command(command, args).with_option("--with", "mcp<2") == expected


def test_an_option_that_is_there_already_is_replaced() -> None:
    launch = parse_command("uvx", ["-p", "3.11", "--with", "rich", "thing"])
    assert (
        launch.with_option("--python", "3.12", instead_of=["-p", "--python"]) == "uvx --python 3.12 --with rich thing"
    )
