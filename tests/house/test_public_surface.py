"""The public names of `import toolcrib`, and the cost of importing it."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import toolcrib
from toolcrib import adapters

ROOT = Path(__file__).parents[2]
HEAVY = {"pydantic", "aiohttp", "mcp", "fastmcp", "jsonschema_rs", "opentelemetry"}


def loaded_after(code: str, *, python: str = sys.executable) -> set[str]:
    """Return the modules that are loaded after this code ran in a fresh interpreter."""
    report = "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    ran = subprocess.run(
        [python, "-c", code + report], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    return set(json.loads(ran.stdout.splitlines()[-1]))


def test_every_public_name_exists_and_has_a_docstring() -> None:
    for name in toolcrib.__all__:
        value = getattr(toolcrib, name)
        if inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value):
            assert value.__doc__, f"toolcrib.{name} has no docstring"
            assert not value.__doc__.startswith(f"{name}("), f"toolcrib.{name} has only the docstring of dataclass"


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        toolcrib.no_such_name  # noqa: B018 - looking it up is the test


@pytest.mark.parametrize(
    "name, own", [("Image", "ImageContent"), ("FastMCP", "ToolServer"), ("ToolError", "ToolFailed")]
)
def test_a_name_of_another_library_is_answered_with_ours(name: str, own: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; toolcrib's name for it is '{own}'"):
        getattr(toolcrib, name)
    assert not hasattr(toolcrib, name)


def test_the_names_of_other_libraries_lead_to_public_names() -> None:
    assert set(toolcrib._FOREIGN_NAMES.values()) <= set(toolcrib.__all__)
    assert not set(toolcrib._FOREIGN_NAMES) & set(toolcrib.__all__)


def test_dir_lists_the_public_names() -> None:
    assert set(toolcrib.__all__) <= set(dir(toolcrib))


def test_public_methods_of_the_client_have_docstrings() -> None:
    methods = {n: m for n, m in inspect.getmembers(toolcrib.Client, callable) if not n.startswith("_")}
    assert methods
    assert [name for name, method in methods.items() if not method.__doc__] == []


def test_importing_toolcrib_loads_no_heavy_module() -> None:
    loaded = loaded_after("import toolcrib")
    assert "toolcrib" in loaded
    assert loaded & (HEAVY | {"asyncio", "toolcrib.client"}) == set()


def test_the_names_of_the_provider_load_no_package_of_its_extra() -> None:
    extra = {"sqlalchemy", "alembic", "aiosqlite", "asyncpg", "cryptography"}
    assert "toolcrib.provider" not in loaded_after("import toolcrib; toolcrib.Client; toolcrib.Hub")
    loaded = loaded_after("import toolcrib.provider as p; [getattr(p, name) for name in p.__all__]")
    assert "toolcrib.provider.provider" in loaded
    assert loaded & {*extra, "aiohttp", "pydantic"} == set()


FRAMEWORKS = {
    "agent_framework",
    "agents",
    "agno",
    "anthropic",
    "boto3",
    "claude_agent_sdk",
    "crewai",
    "google",
    "langchain",
    "langchain_core",
    "langgraph",
    "llama_index",
    "openai",
    "pydantic_ai",
    "strands",
}


def test_importing_the_adapters_loads_no_framework() -> None:
    assert "toolcrib.adapters" not in loaded_after("import toolcrib; toolcrib.Client; toolcrib.Hub")
    loaded = loaded_after("import toolcrib, toolcrib.adapters")
    assert loaded & (HEAVY | FRAMEWORKS | {"asyncio", "toolcrib.client"}) == set()
    loaded = loaded_after("import toolcrib.adapters as a; [getattr(a, name) for name in a.__all__]")
    assert "toolcrib.adapters.toolbox" in loaded
    assert loaded & ({*HEAVY, *FRAMEWORKS} - {"opentelemetry"}) == set()


def test_the_names_of_the_adapters_are_those_that_type_checkers_see() -> None:
    text = Path(adapters.__file__).read_text()
    typed = re.findall(r"^    from \.\w+ import (\w+) as \1$", text, re.MULTILINE)
    assert sorted(typed) == sorted(adapters.__all__)
    for name in set(adapters.__all__) - {"Target"}:  # a Literal has no docstring
        assert getattr(adapters, name).__doc__
    with pytest.raises(AttributeError, match="no_such_name"):
        adapters.no_such_name  # noqa: B018 - looking it up is the test


def test_a_call_over_stdio_loads_neither_pydantic_nor_aiohttp() -> None:
    code = """
import asyncio, sys, toolcrib
async def main():
    async with toolcrib.Client(toolcrib.StdioServer(sys.executable, ["examples/demo_server.py"])) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).data == {"sum": 3}
asyncio.run(main())
"""
    loaded = loaded_after(code)
    assert "toolcrib.client.client" in loaded
    assert loaded & {"pydantic", "aiohttp", "mcp", "fastmcp"} == set()


def seconds_to(code: str, python: Path, runs: int) -> float:
    """Return the best time of `runs` fresh interpreters, which is robust on a busy machine."""
    timed = f"import time; start = time.perf_counter(); {code}; print(time.perf_counter() - start)"
    ran = [
        subprocess.run([python, "-c", timed], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
        for _ in range(runs)
    ]
    return min(float(each.stdout) for each in ran)


@pytest.mark.slow
@pytest.mark.serial
def test_import_is_at_least_five_times_faster_than_the_sdks() -> None:
    peer = ROOT / ".peers/sdk2/bin/python"
    if not peer.exists():
        pytest.skip("the SDK's environment is not there: scripts/test makes it")
    theirs = seconds_to("import mcp", peer, 2)
    ours = seconds_to("import toolcrib", peer, 5)
    client = seconds_to("import toolcrib; toolcrib.Client; toolcrib.StdioServer", peer, 5)
    assert ours * 5 <= theirs, f"toolcrib {ours:.3f} s, mcp {theirs:.3f} s"
    assert client < theirs, f"the client's whole stdio path {client:.3f} s, mcp {theirs:.3f} s"
    assert ours <= 1.5
