"""Personal slots: values that are given with one call, and the list of what is stored."""

from __future__ import annotations

from pathlib import Path

import toolcrib as tc
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
