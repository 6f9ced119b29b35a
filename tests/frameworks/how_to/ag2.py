"""An agent of ag2, with its own model for tests."""

from __future__ import annotations

import json
from typing import Any

from ag2 import Agent
from ag2.events import ToolCallEvent
from ag2.testing import TestConfig, TrackingConfig

source = "async"


async def run(
    snippet: dict[str, Any], hub: Any, calls: list[tuple[str, dict[str, Any]]]
) -> tuple[list[str], list[str]]:
    script = [ToolCallEvent(name=name, arguments=json.dumps(arguments)) for name, arguments in calls]
    config = TrackingConfig(TestConfig(*script, "done", raise_tool_errors=False))
    tools = snippet["ag2_tools"](hub)
    reply = await Agent("assistant", config=config, tools=tools).ask("go")
    assert reply.body == "done"
    turns = config.mock.call_args_list[1:]
    answers = [str(result.result.parts) for turn in turns for result in turn.args[0].results]
    return [tool.name for tool in tools], answers
