"""Shell completion: the scripts are shown and installed, and a real shell completes with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.kit import environment, run_cli

INSTALLED = {
    "bash": (".bash_completions/toolcrib.sh", ".bashrc"),
    "zsh": (".zfunc/_toolcrib", ".zshrc"),
    "fish": (".config/fish/completions/toolcrib.fish", None),
}


@pytest.mark.parametrize("shell", INSTALLED)
def test_the_script_that_is_shown_is_the_one_that_is_installed(shell: str, tmp_path: Path) -> None:
    shown = run_cli("--show-completion", shell, cwd=tmp_path)
    installed = run_cli("--install-completion", shell, cwd=tmp_path)
    script = tmp_path / INSTALLED[shell][0]
    assert shown.code == installed.code == 0 and "_TOOLCRIB_COMPLETE" in shown.out
    assert script.read_text() == shown.out and str(script) in installed.out


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize("before", ["", "alias x=y\n", "alias x=y", "\xff"])
def test_the_startup_file_gets_one_line_however_often_it_is_installed(shell: str, before: str, tmp_path: Path) -> None:
    startup = tmp_path / str(INSTALLED[shell][1])
    startup.write_bytes(before.encode("latin-1"))
    for _ in range(2):
        assert run_cli("--install-completion", shell, cwd=tmp_path).code == 0
    lines = startup.read_bytes().splitlines()
    assert lines[:-1] == before.encode("latin-1").splitlines() and lines[-1]


def test_without_a_name_it_is_the_login_shell(tmp_path: Path) -> None:
    named = run_cli("--show-completion", "fish", cwd=tmp_path)
    assert run_cli("--show-completion", cwd=tmp_path, env={"SHELL": "/usr/bin/fish"}) == named


@pytest.mark.parametrize(
    "words, env, message",
    [
        (("--show-completion",), {"SHELL": "/bin/tcsh"}, "'tcsh' is not supported; expected one of bash, zsh, fish"),
        (("--install-completion",), {"SHELL": ""}, "$SHELL is not set; expected one of bash, zsh, fish"),
        (("--install-completion", "ksh"), {}, "'ksh' is not supported; expected one of bash, zsh, fish"),
    ],
)
def test_other_shells_are_rejected(words: tuple[str, ...], env: dict[str, str], message: str, tmp_path: Path) -> None:
    ran = run_cli(*words, cwd=tmp_path, env=env)
    assert ran.code == 2 and message in ran.err and list(tmp_path.iterdir()) == []


def test_bash_completes_with_the_installed_script(tmp_path: Path) -> None:
    assert run_cli("--install-completion", "bash", cwd=tmp_path).code == 0
    command = tmp_path / "toolcrib"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m toolcrib "$@"\n')
    command.chmod(0o700)
    program = """
    source ~/.bashrc
    COMP_WORDS=(toolcrib re) COMP_CWORD=1
    _toolcrib_completion toolcrib
    printf '%s\\n' "${COMPREPLY[@]}"
    """
    env = environment(tmp_path)
    env["PATH"] = f"{tmp_path}:{env['PATH']}"
    done = subprocess.run(["bash", "--norc", "-c", program], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.split() == ["resources", "read", "remove"], done
