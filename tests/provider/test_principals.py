"""The name of a principal gives no access to the connection of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.provider.kit import SmallSource, value_of
from toolcrib.errors import UsageError
from toolcrib.provider.provider import Provider


async def test_no_name_stands_for_a_session_of_another_principal_or_for_all(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    async with Provider("sqlite://") as provider:
        await provider.add_source("s", small.server(), per_session=True)
        own = value_of(await provider.execute("s", "see", principal="alice", session="1"))["pid"]
        for name in ("alice\x001", "", "\0discovery"):
            with pytest.raises(UsageError, match="principal: expected a name"):
                await provider.execute("s", "see", principal=name)
            with pytest.raises(UsageError, match="principal: expected a name"):
                provider.view(name)
            with pytest.raises(UsageError, match="principal: expected a name"):
                await provider.credentials.set("s", "TOKEN", "x", principal=name)
        for name in ("shared", "of alice", "local"):
            assert value_of(await provider.execute("s", "see", principal=name, session="1"))["pid"] != own
