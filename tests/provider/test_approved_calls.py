"""Under a review policy a call is sent only over a connection that lists the tool as it was approved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.provider.kit import SmallSource, value_of
from tests.unit.kit import eventually
from toolcrib.errors import AccessDenied, CallTimeout, RemoteError, ToolNotFound
from toolcrib.provider.inventory import ToolState
from toolcrib.provider.provider import Provider

APPROVED = {"name": "echo", "description": "Return the text.", "inputSchema": {"type": "object"}}
REWORDED = {**APPROVED, "description": "Return this text."}
BREAKING = {**APPROVED, "inputSchema": {"type": "object", "required": ["password"]}}


@pytest.mark.parametrize("lifecycle", ["transient", "singleton"])
async def test_a_new_process_with_a_changed_tool_gets_no_call(tmp_path: Path, lifecycle: str) -> None:
    small = SmallSource(tmp_path, tools=[APPROVED])
    async with Provider("sqlite://") as provider:
        await provider.register(small.form(review="review_changes", mcp_lifecycle_mode=lifecycle))
        assert value_of(await provider.execute("small", "echo", {"text": "x"}, principal="a")) == "x"
        small.change(tools=[BREAKING])
        result = await provider.execute("small", "echo", {"text": "x"}, principal="b")  # a process of its own
        assert isinstance(result.exception, AccessDenied), result
        assert result.exception.sent is False
        await eventually(lambda: provider.get_tool("small", "echo").state is ToolState.WITHHELD)  # it is refreshed
        await provider.approve("small", "echo")
        assert value_of(await provider.execute("small", "echo", {"password": "", "text": "y"}, principal="c")) == "y"


async def test_a_new_text_waits_for_a_review_and_the_tool_is_called_meanwhile(tmp_path: Path) -> None:
    small = SmallSource(tmp_path, tools=[APPROVED])
    async with Provider("sqlite://") as provider:
        await provider.register(small.form(review="review_changes"))
        small.change(tools=[REWORDED])
        assert value_of(await provider.execute("small", "echo", {"text": "x"})) == "x"
        item = await eventually(lambda: next(iter(provider.review("small")), None))
        assert item.after["description"] == REWORDED["description"]
        assert provider.get_tool("small", "echo").description == APPROVED["description"]
        assert value_of(await provider.execute("small", "echo", {"text": "x"})) == "x"


@pytest.mark.parametrize(
    "facts, error",
    [({"tools": ["other"]}, ToolNotFound), ({"refuse": ["tools/list"]}, RemoteError)],
    ids=["not listed", "list refused"],
)
async def test_a_tool_that_cannot_be_checked_is_not_called(
    tmp_path: Path, facts: dict[str, Any], error: type[Exception]
) -> None:
    small = SmallSource(tmp_path, tools=[APPROVED])
    async with Provider("sqlite://") as provider:
        await provider.register(small.form(review="review_changes"))
        small.change(**facts)
        result = await provider.execute("small", "echo")
        assert isinstance(result.exception, error)
        assert result.exception.sent is False
        assert result.metadata is not None
        assert result.metadata["sent"] is False


async def test_a_source_that_follows_changes_is_not_listed_again_for_a_call(tmp_path: Path) -> None:
    small = SmallSource(tmp_path, tools=[APPROVED])
    async with Provider("sqlite://") as provider:
        await provider.register(small.form())
        small.change(refuse=["tools/list"])
        assert value_of(await provider.execute("small", "echo", {"text": "x"})) == "x"


async def test_the_deadline_covers_the_check(tmp_path: Path) -> None:
    small = SmallSource(tmp_path, tools=[APPROVED])
    async with Provider("sqlite://") as provider:
        await provider.register(small.form(review="review_changes"))
        small.change(start="hang")
        result = await provider.execute("small", "echo", timeout=0.2)
        assert isinstance(result.exception, CallTimeout)
        assert result.exception.sent is False
