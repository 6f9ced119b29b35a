"""Command lines of sources: runtimes, pinned versions, and which flags of docker are allowed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolcrib.errors import ConfigError
from toolcrib.provider.commands import (
    add_docker_variables,
    advise,
    build_command,
    find_package,
    find_python,
    find_secret_words,
    split_command,
)
from toolcrib.provider.source_config import PackageInfo

RUN = ("docker", "run", "-i", "--rm")


@pytest.mark.parametrize(
    "runtime, words, expected",
    [
        ("uvx", ["mcp-server-git"], "uvx mcp-server-git"),
        ("uvx", ["uvx", "mcp-server-git", "-v"], "uvx mcp-server-git -v"),
        ("npx", ["@scope/server", "/data"], "npx -y @scope/server /data"),
        ("npx", ["-y", "server"], "npx -y server"),
        ("npx", ["npx", "--yes", "server"], "npx --yes server"),
        ("npx", ["server", "-y"], "npx -y server -y"),
        ("python", ["server.py", "--port", "1"], "python server.py --port 1"),
        ("python", ["-m", "weather.server"], "python -m weather.server"),
        ("python", ["weather.server", "-v"], "python -m weather.server -v"),
        ("python", ["src/server"], "python src/server"),
        ("node", ["index.js"], "node index.js"),
        ("docker", ["ghcr.io/o/server:1.0", "--verbose"], "docker run -i --rm ghcr.io/o/server:1.0 --verbose"),
        ("docker", ["docker", "run", "--rm", "-i", "image"], "docker run -i --rm image"),
        ("dnx", ["A.Server", "mcp"], "dnx A.Server --yes -- mcp"),
        ("", ["/usr/bin/server", "-x"], "/usr/bin/server -x"),
    ],
)
def test_a_runtime_and_words_make_a_command(runtime: str, words: list[str], expected: str) -> None:
    assert " ".join(build_command(runtime, words)) == expected


@pytest.mark.parametrize(
    "runtime, package, expected",
    [
        ("uvx", "server", "uvx server@1.2.3"),
        ("uvx", "server==1.0", "uvx server==1.0"),
        ("npx", "@scope/server", "npx -y @scope/server@1.2.3"),
        ("npx", "@scope/server@2.0.0", "npx -y @scope/server@2.0.0"),
        ("docker", "host:5000/image", "docker run -i --rm host:5000/image:1.2.3"),
        ("docker", "host:5000/image:9", "docker run -i --rm host:5000/image:9"),
        ("dnx", "A.Server", "dnx A.Server@1.2.3 --yes"),
    ],
)
def test_versions_are_pinned(runtime: str, package: str, expected: str) -> None:
    assert " ".join(build_command(runtime, [package], version="1.2.3")) == expected


@pytest.mark.parametrize("words", [[], [""], ["  "]])
def test_an_empty_command_is_refused(words: list[str]) -> None:
    with pytest.raises(ConfigError, match="mcp_command: expected a non-empty command"):
        build_command("uvx", words)


def test_an_unknown_runtime_is_refused() -> None:
    with pytest.raises(ConfigError, match="mcp_runtime_hint: expected one of uvx, npx, python, node, docker"):
        build_command("ruby", ["x"])


def test_a_package_name_is_not_a_python_module() -> None:
    with pytest.raises(ConfigError, match="Use the runtime uvx"):
        build_command("python", ["mcp-server-git"])


@pytest.mark.parametrize("value", ["uvx 'a b' --x", ["uvx", "a b", "--x"]])
def test_a_command_is_split_without_a_shell(value: object) -> None:
    assert split_command(value) == ("uvx", "a b", "--x")


def test_shell_syntax_is_not_interpreted() -> None:
    assert split_command("echo $HOME; rm -rf /") == ("echo", "$HOME;", "rm", "-rf", "/")


@pytest.mark.parametrize("value", ["", "  ", "'open", [], [""], ["a", 1], 3, {"a": 1}, None, "a\0b"])
def test_what_is_no_command_is_refused(value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        split_command(value)
    assert caught.value.key is not None
    assert caught.value.key.startswith("mcp_command")
    assert caught.value.expected


@pytest.mark.parametrize(
    "flags, expected",
    [
        (["-i"], []),
        (["--rm=true", "--interactive"], []),
        (
            ["-e", "A", "-eB", "--env", "C", "--env=D", "-ie", "E"],
            ["-e", "A", "-e", "B", "-e", "C", "-e", "D", "-e", "E"],
        ),
        (["--network", "none"], ["--network", "none"]),
        (["--net=none"], ["--network", "none"]),
        (["--"], []),
    ],
)
def test_harmless_docker_flags_are_kept_in_one_form(flags: list[str], expected: list[str]) -> None:
    assert build_command("docker", [*flags, "image", "-v", "/:/x"]) == (*RUN, *expected, "image", "-v", "/:/x")


@pytest.mark.parametrize(
    "flags, named",
    [
        (["-v", "/:/host"], "-v"),
        (["-v/:/host"], "-v"),
        (["-v=/:/host"], "-v"),
        (["-iv", "/:/host"], "-v"),
        (["-ditv/:/host"], "-d"),
        (["--volume", "/:/host"], "--volume"),
        (["--volume=/:/host"], "--volume"),
        (["--volumes-from", "other"], "--volumes-from"),
        (["--mount", "type=bind,src=/,dst=/host"], "--mount"),
        (["--mount=type=bind,src=/,dst=/host"], "--mount"),
        (["--privileged"], "--privileged"),
        (["--privileged=true"], "--privileged"),
        (["--cap-add", "ALL"], "--cap-add"),
        (["--security-opt=apparmor=unconfined"], "--security-opt"),
        (["--pid", "host"], "--pid"),
        (["--ipc=host"], "--ipc"),
        (["--device=/dev/sda"], "--device"),
        (["-u", "0"], "-u"),
        (["--user=root"], "--user"),
        (["--entrypoint", "sh"], "--entrypoint"),
        (["--env-file", "/etc/passwd"], "--env-file"),
        (["-t"], "-t"),
        (["-it"], "-t"),
        (["-p", "80:80"], "-p"),
        (["--use-api-socket"], "--use-api-socket"),
        (["--group-add=0"], "--group-add"),
        (["--tmpfs", "/x"], "--tmpfs"),
        (["-e", "A", "--rm", "--mount"], "--mount"),
    ],
)
def test_docker_flags_that_reach_the_host_are_refused_by_name(flags: list[str], named: str) -> None:
    for words in (["docker", "run", *flags, "image"], ["/usr/bin/docker", "container", "run", *flags, "image"]):
        with pytest.raises(ConfigError, match=f"got {named}\\. Remove {named}, or allow it by name"):
            build_command("", words)
    with pytest.raises(
        ConfigError, match="mcp_command: expected only the docker flags -i, --rm, -e NAME and --network"
    ):
        build_command("docker", [*flags, "image"])


@pytest.mark.parametrize(
    "words",
    [
        ["-e", "A=secret-value", "image"],
        ["-eA=secret-value", "image"],
        ["--env=A=secret-value", "image"],
        ["-e", "A*", "image"],
        ["-e"],
        ["-e", "", "image"],
        ["--rm=false", "image"],
        ["--interactive=0", "image"],
        ["--network=", "image"],
        ["--network", "--privileged", "image"],
        ["--", "-v"],
        ["--", "--privileged", "image"],
        ["-i"],
        ["-", "image"],
        ["IMAGE WITH BLANKS"],
        ["--\n"],
    ],
)
def test_docker_tricks_are_refused(words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        build_command("docker", words, allow_docker_flags=["-e", "--env"])
    assert "secret-value" not in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        ["docker", "-H", "tcp://x", "run", "image"],
        ["docker", "exec", "x"],
        ["env", "A=1", "docker", "run", "-v", "/:/x", "i"],
    ],
)
def test_docker_must_be_run_in_a_form_that_can_be_checked(words: list[str]) -> None:
    with pytest.raises(ConfigError):
        build_command("", words)


def test_the_operator_can_allow_docker_flags_by_name() -> None:
    words = ["-v", "/data:/data", "--privileged", "--mount=type=tmpfs,dst=/x", "image"]
    allowed = ["--volume", "--privileged", "--mount"]
    expected = (*RUN, "-v", "/data:/data", "--privileged", "--mount", "type=tmpfs,dst=/x", "image")
    assert build_command("docker", words, allow_docker_flags=allowed) == expected


def test_docker_gets_names_of_variables_once() -> None:
    command = build_command("docker", ["-e", "B", "image", "-e", "C"])
    assert add_docker_variables(command, ["C", "B", "A", "DOCKER_HOST"]) == (
        *(*RUN, "-e", "A", "-e", "C", "-e", "B"),
        *("image", "-e", "C"),
    )
    assert add_docker_variables(("uvx", "x"), ["A"]) == ("uvx", "x")
    with pytest.raises(ConfigError, match="mcp_env_vars: expected names of letters"):
        add_docker_variables(command, ["A=1"])


@given(
    st.lists(
        st.sampled_from(
            [
                "-e",
                "-i",
                "--rm",
                "--network",
                "none",
                "A",
                "A=canary9",
                "-eA=canary9",
                "-v",
                "/:/canary9",
                "--mount=canary9",
                "-iv/canary9",
                "--",
                "-",
                "image",
                "--env=A=canary9",
                "-ie",
            ]
        ),
        max_size=7,
    )
)
@example(["-e", "A=canary9", "image"])
def test_no_value_gets_among_the_flags_of_docker(words: list[str]) -> None:
    command, message = _attempt(words)
    assert "canary9" not in message
    at = 4
    while at < len(command) and command[at].startswith("-"):
        at += 2  # all flags that remain take a value
    assert not any("canary9" in word for word in command[: at + 1])


def _attempt(words: list[str]) -> tuple[tuple[str, ...], str]:
    try:
        return build_command("docker", words), ""
    except ConfigError as exc:
        return (), str(exc)


def test_python_is_this_one_unless_the_source_has_a_path_of_its_own(tmp_path: Path) -> None:
    assert find_python(None) == sys.executable
    assert find_python(str(tmp_path)) == sys.executable
    (tmp_path / "python3").symlink_to(sys.executable)
    assert find_python(str(tmp_path)) == "python3"
    (tmp_path / "python").symlink_to(sys.executable)
    assert find_python(str(tmp_path) + os.pathsep + "/nowhere") == "python"


@pytest.mark.parametrize(
    "command, expected",
    [
        (("uvx", "server@1.2.3"), PackageInfo("pypi", "server", "1.2.3")),
        (("npx", "-y", "@s/server"), PackageInfo("npm", "@s/server")),
        ((*RUN, "-e", "A", "image:1.0"), PackageInfo("oci", "image", "1.0")),
        (("python", "server.py"), None),
        ((), None),
    ],
)
def test_the_package_of_a_command(command: tuple[str, ...], expected: PackageInfo | None) -> None:
    assert find_package(command) == expected


def test_warnings_about_a_command() -> None:
    assert "'server' has no exact version" in next(iter(advise(("uvx", "server"))))
    assert list(advise(("uvx", "server@1.0"))) == []
    assert "--network host" in next(iter(advise((*RUN, "--network", "host", "image:1"))))
    assert "command[1]: looks like a secret" in next(iter(advise(("server", "--token=${secret:command[1]}"))))


@pytest.mark.parametrize(
    "words, found",
    [
        (["--token", "abc"], [(2, 0)]),
        (["--api-key=abc"], [(1, len("--api-key="))]),
        (["ghp_" + "0123456789abcdef"], [(1, 0)]),
        (["API_KEY=abc"], [(1, len("API_KEY="))]),
        (["--header", "Authorization: Bearer abc"], [(2, len("Authorization: "))]),
        (["postgres://u:p@host/db"], [(1, 0)]),
        (["/data", "--port", "8080", "a=b"], []),
    ],
)
def test_secrets_among_the_words_are_found(words: list[str], found: list[tuple[int, int]]) -> None:
    assert sorted(set(find_secret_words(["server", *words]))) == found
