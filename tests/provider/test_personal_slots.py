"""Personal slots: values that are given with one call, the list of what is stored, and lists of one principal."""

from __future__ import annotations

from pathlib import Path

import pytest

import toolcrib as tc
from tests.provider.kit import SmallSource
from tests.unit.kit import eventually
from toolcrib.provider import Provider

PLUGIN = Path(__file__).parents[2] / "examples/notes_plugin"


async def test_values_of_one_call_replace_a_missing_credential(tmp_path: Path) -> None:
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("notes", PLUGIN, personal=["NOTES_TOKEN"])
        once = await provider.execute("notes", "whoami", principal="bob", environment={"NOTES_TOKEN": "once-3333"})
        assert once.get_text() == "the account with the token ...3333"
        later = await provider.execute("notes", "whoami", principal="bob")
        assert isinstance(later.exception, tc.MissingCredential)
        await eventually(lambda: provider.connections("notes") == [])


async def test_stored_credentials_are_listed_in_the_same_order_after_a_restart(tmp_path: Path) -> None:
    principals = [f"p{number}" for number in range(8)]
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("notes", PLUGIN, personal=["NOTES_TOKEN"])
        for principal in reversed(principals):
            await provider.credentials.set("notes", "NOTES_TOKEN", f"of {principal}", principal=principal)
        assert [each.principal for each in provider.credentials.list()] == principals
    async with Provider(tmp_path / "tools.db") as provider:
        assert [each.principal for each in provider.credentials.list("notes")] == principals


async def test_personal_lists_follow_at_once_when_a_discovery_credential_is_set_or_removed(tmp_path: Path) -> None:
    small = SmallSource(tmp_path, tools=["echo"], prompts=["hello"])
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server(), personal=["TOKEN"])
        await provider.credentials.set("small", "TOKEN", "t", principal="alice")
        view = provider.view("alice")
        assert [tool.name for tool in await view.list_tools()] == ["mcp__small__echo"]
        await provider.credentials.set("small", "TOKEN", "d", principal="admin", discovery=True)
        await provider.refresh("small")
        assert [prompt.name for prompt in await view.list_prompts()] == ["mcp__small__hello"]
        await provider.credentials.remove("small", principal="admin", discovery=True)
        result = await provider.execute("small", "echo", {"text": "x"}, principal="alice")
        assert result.success, result
        assert [tool.name for tool in await view.list_tools()] == ["mcp__small__echo"]


async def test_the_error_says_how_to_review_tools_that_only_principals_list(tmp_path: Path) -> None:
    small = SmallSource(tmp_path, tools=["echo"])
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server(), personal=["TOKEN"], review="review_all")
        await provider.credentials.set("small", "TOKEN", "t", principal="alice")
        refused = (await provider.execute("small", "echo", {"text": "x"}, principal="alice")).exception
        assert isinstance(refused, tc.AccessDenied)
        with pytest.raises(tc.ToolNotFound) as raised:
            await provider.approve("small", "echo")
        for error in (refused, raised.value):
            assert "discovery=True" in str(error) and "'TOKEN'" in str(error) and "refresh('small')" in str(error)
        # What the errors say to do:
        await provider.credentials.set("small", "TOKEN", "d", principal="admin", discovery=True)
        await provider.refresh("small")
        waiting = (await provider.execute("small", "echo", {"text": "x"}, principal="alice")).exception
        assert "provider.review('small')" in str(waiting) and "discovery" not in str(waiting)
        assert [item.tool for item in provider.review("small")] == ["echo"]
        await provider.approve("small", "echo")
        assert (await provider.execute("small", "echo", {"text": "x"}, principal="alice")).success
