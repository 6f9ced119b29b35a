"""The project itself: layers, sizes, scripts, and what must never be in a file of the project."""

from __future__ import annotations

import graphlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import grimp

from scripts.reference import layers

ROOT = Path(__file__).parents[2]
MADE_BY_SCRIPTS = {".git", ".venv", ".tools", ".peers", ".pythons", "node_modules", "__pycache__", "build", "dist"}
SCRIPTS = sorted(path for path in (ROOT / "scripts").iterdir() if path.is_file())


def project_files() -> Iterator[Path]:
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [f for f in folders if f not in MADE_BY_SCRIPTS and not f.endswith(("_cache", ".egg-info"))]
        folders[:] = [f for f in folders if f != ".hypothesis"]
        # In a worktree .git is a file that names the repository's folder.
        yield from (Path(folder, name) for name in files if not name.endswith((".pyc", ".png")) and name != ".git")


def test_the_linter_would_notice_a_module_without_a_layer(tmp_path: Path) -> None:
    """The layers are exhaustive: proved on a copy with one module more."""
    package = tmp_path / "toolcrib"
    package.mkdir()
    existing = [each.name for layer in layers.layers() for each in layer if each.exists]
    for name in ("__init__", *existing, "stranger"):
        (package / f"{name}.py").touch()
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    linter = Path(sys.executable).with_name("lint-imports")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [linter, "--no-cache", "--contract", "layers"]
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100)
    assert ran.returncode != 0
    assert "stranger" in ran.stdout


WITH_CYCLES = ("hub",)
"""Packages whose modules still import each other in circles."""


def test_no_module_is_in_an_import_cycle() -> None:
    """Imports inside functions and under TYPE_CHECKING count too."""
    graph = grimp.build_graph("toolcrib", exclude_type_checking_imports=False)
    imports = {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    for package in (f"toolcrib.{name}." for name in WITH_CYCLES):
        for module in (each for each in imports if each.startswith(package)):
            imports[module] = {each for each in imports[module] if not each.startswith(package)}
    assert len(imports) > 200
    graphlib.TopologicalSorter(imports).prepare()  # raises CycleError, which names the modules


def test_a_file_of_more_than_400_lines_says_why_it_is_whole() -> None:
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "src").rglob("*.py")}
    long = [name for name, text in texts.items() if text.count("\n") > 400 and "Longer than 400 lines:" not in text]
    assert texts and long == []


def test_every_script_is_valid_and_can_be_started() -> None:
    for script in SCRIPTS:
        sourced = script.name.startswith("_")
        assert os.access(script, os.X_OK) != sourced, script
        first = script.read_text().splitlines()[0]
        assert first.startswith("#!") != sourced, script
        if "python" not in first:
            checked = subprocess.run(["bash", "-n", script], capture_output=True, text=True)
            assert checked.returncode == 0, checked.stderr


def test_what_ci_runs_are_the_scripts_that_people_run() -> None:
    ci = ROOT / ".ci/run"
    assert os.access(ci, os.X_OK)
    commands = [line for line in ci.read_text().splitlines() if line and not line.startswith("#")]
    assert commands[-2:] == ["bash scripts/check", "bash scripts/test --all"]


def test_the_lock_files_name_no_host_but_the_public_default() -> None:
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    registries = {package["source"].get("registry") for package in lock["package"]} - {None}
    assert registries == {"https://pypi.org/simple"}
    files = [f for package in lock["package"] for f in (*package.get("wheels", ()), package.get("sdist", {}))]
    hosts = {re.sub(r"(https?://[^/]*).*", r"\1", f["url"]) for f in files if "url" in f}
    assert hosts == {"https://files.pythonhosted.org"}
    assert '"resolved"' not in (ROOT / "tests/peers/npm/package-lock.json").read_text()


# Written in pieces, so that this file does not find itself.
NEVER = {
    "a home directory": re.compile(r"/(?:root|home/\w+|Users/\w+|work)/" + r"[\w.]"),
    "a private key": re.compile("-----BEGIN [A-Z ]*PRIVATE " + "KEY-----"),
    "a token": re.compile(r"\b(?:ghp_|github_pat_|sk-ant-|xox[bp]-|AKIA)" + r"[A-Za-z0-9_-]{16,}"),
}


def test_no_file_contains_a_home_directory_a_private_key_or_a_token() -> None:
    found = []
    for path in project_files():
        text = path.read_text(errors="replace")
        found += [
            f"{path.relative_to(ROOT)}: {what}: {m[0]}" for what, kind in NEVER.items() if (m := kind.search(text))
        ]
    assert found == []
