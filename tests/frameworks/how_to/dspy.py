"""DSPy's `ReAct`, with its own model for tests."""

from __future__ import annotations

from typing import Any

import dspy
from dspy.utils.dummies import DummyLM

source = "sync"


def run(snippet: dict[str, Any], hub: Any, calls: list[tuple[str, dict[str, Any]]]) -> tuple[list[str], list[str]]:
    tools = snippet["dspy_tools"](hub)
    steps: list[dict[str, Any]] = [
        {"next_thought": "t", "next_tool_name": name, "next_tool_args": arguments} for name, arguments in calls
    ]
    steps.append({"next_thought": "t", "next_tool_name": "finish", "next_tool_args": {}})
    agent = dspy.ReAct("question -> answer", tools=tools)
    with dspy.context(lm=DummyLM([*steps, {"reasoning": "r", "answer": "done"}])):
        prediction = agent(question="go")
    assert prediction.answer == "done"
    answers = [str(prediction.trajectory[f"observation_{n}"]) for n in range(len(calls))]
    return [name for name in agent.tools if name != "finish"], answers
