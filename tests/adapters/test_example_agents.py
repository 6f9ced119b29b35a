"""The example agents run as programs, with a real tool server and a local server that speaks the provider's API."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.model_server import ModelServer, Turn, answer_messages, answer_responses, serve

ROOT = Path(__file__).parents[2]
AGENTS: dict[str, Any] = {
    "anthropic_agent.py": ("/v1/messages", answer_messages, "ANTHROPIC", ""),
    "openai_agent.py": ("/v1/responses", answer_responses, "OPENAI", "/v1"),
}
TURNS: list[Turn] = [
    [("mcp__demo__add", {"a": 20, "b": 22}), ("mcp__demo__fail", {"reason": "the disk is full"})],
    [("mcp__demo__add", {"a": "many", "b": 1}), ("mcp__demo__echo", {"text": "x" * 60_000})],
    [("read_more", {"handle": "unknown"})],
    "It is 42.",
]


async def run_agent(program: str, turns: list[Turn], **variables: str) -> tuple[int, str, str, ModelServer]:
    path, answer, prefix, base = AGENTS[program]
    async with serve(path, answer, turns) as model:
        env = {**os.environ, f"{prefix}_API_KEY": "key-of-the-test", f"{prefix}_BASE_URL": model.url + base}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", f"examples/{program}", "How much is 20 plus 22?"),
            cwd=ROOT,
            env={**env, **variables},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), 60)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode(), model


def outputs(program: str, body: dict[str, Any]) -> list[tuple[str, bool]]:
    """Return the text of each result in a request, and whether it is an error."""
    if program == "openai_agent.py":
        texts = [item["output"] for item in body["input"] if item.get("type") == "function_call_output"]
        return [(text, text.startswith("Error")) for text in texts]
    blocks = [b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"]]
    found = [block for block in blocks if block["type"] == "tool_result"]
    return [(block["content"][0]["text"], block.get("is_error", False)) for block in found]


@pytest.mark.parametrize("program", AGENTS)
async def test_an_agent_uses_tools_until_it_knows_the_answer(program: str) -> None:
    code, out, err, model = await run_agent(program, TURNS)
    assert model.problem is None and (code, err, model.turns) == (0, "", [])
    assert out.splitlines()[-1] == "It is 42." and out.count("mcp__demo__add") == 2
    assert len(model.requests) == 4
    added, failed, wrong, long, read = outputs(program, model.requests[-1])
    assert json.loads(added[0]) == {"sum": 42} and not added[1]
    assert "the disk is full" in failed[0] and failed[1]
    assert wrong[1] and "many" in wrong[0]
    assert 30_000 < len(long[0]) < 40_000 and "Read on with read_more" in long[0] and not long[1]
    assert read[1] and "no longer kept" in read[0]


@pytest.mark.parametrize("program", AGENTS)
async def test_an_error_of_the_api_ends_the_agent_with_its_text(program: str) -> None:
    prefix = AGENTS[program][2]
    code, out, err, _ = await run_agent(program, ["never"], **{f"{prefix}_API_KEY": "wrong"})
    assert (code, out) == (1, "") and "the model API answered 400" in err


@pytest.mark.parametrize("program", AGENTS)
def test_an_example_has_less_than_60_lines(program: str) -> None:
    assert len((ROOT / "examples" / program).read_text().splitlines()) < 60
