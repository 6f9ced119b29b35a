"""The built package: the sdist builds, its wheel alone in an empty environment runs the README's snippets, and with the
extra `provider` it opens a store.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.snippets import FENCE
from tests.house.test_fresh_clone import clone

ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 300.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(TIMEOUT_SECONDS + 60)]


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


OPEN_A_STORE = """
import asyncio, sys
import toolcrib as tc
from toolcrib.provider import Provider


async def main():
    for _ in range(2):
        async with Provider("sqlite:///tools.db") as provider:
            if not provider.list_sources():
                await provider.add_source("demo", tc.StdioServer("python3", ["examples/demo_server.py"]))
            print((await provider.execute("demo", "add", {"a": 2, "b": 3})).get_text())


try:
    asyncio.run(main())
except tc.ConfigError as error:
    print(error)
"""


def test_the_wheel_alone_runs_the_readmes_python_snippets_and_with_its_extra_the_provider(tmp_path: Path) -> None:
    uv = shutil.which("uv", path=f"{os.environ['PATH']}:{ROOT}/.tools/bin")
    assert uv is not None, "uv is not on PATH; run scripts/test once, it installs uv"
    project, built, environment, folder = clone(tmp_path), tmp_path / "dist", tmp_path / "venv", tmp_path / "reader"
    run(uv, "build", "--quiet", "--out-dir", built, cwd=project)  # the sdist, and from it the wheel
    assert len(list(built.glob("*.tar.gz"))) == 1
    (wheel,) = built.glob("*.whl")
    run(uv, "venv", "--quiet", "--python", sys.executable, environment, cwd=tmp_path)
    run(uv, "pip", "install", "--quiet", "--python", environment, wheel, cwd=tmp_path)
    folder.mkdir()
    shutil.copytree(project / "examples", folder / "examples")
    shutil.copy(ROOT / "tests/house/snippets.py", folder)
    blocks = [match[0] for match in FENCE.finditer((project / "README.md").read_text())]
    chosen = [block for block in blocks if block.startswith(("```python", "```text"))]
    (folder / "README.md").write_text("\n\n".join(chosen))
    path = f"{environment / 'bin'}:{os.environ['PATH']}"
    ran = run(environment / "bin/python", "snippets.py", "README.md", cwd=folder, PATH=path)
    assert ran.splitlines()[-1] == f"{sum(block.startswith('```python') for block in chosen)} snippets ran"

    (folder / "store.py").write_text(OPEN_A_STORE)
    without = run(environment / "bin/python", "store.py", cwd=folder, PATH=path)
    assert 'pip install "toolcrib[provider]"' in without
    run(uv, "pip", "install", "--quiet", "--python", environment, f"{wheel}[provider]", cwd=tmp_path)
    assert run(environment / "bin/python", "store.py", cwd=folder, PATH=path) == '{"sum": 5}\n{"sum": 5}\n'
