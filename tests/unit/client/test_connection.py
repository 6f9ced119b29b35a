"""One request, one outcome: what a call is told when its server goes away under it."""

from __future__ import annotations

from typing import Any

import pytest

import toolyard as ty
from tests.unit.kit import MODERN, PlayedServer, eventually

QUESTION = {"method": "elicitation/create", "params": {"message": "?"}}
ASKS = {"resultType": "input_required", "inputRequests": {"q": QUESTION}}


async def test_a_call_whose_first_round_ran_is_neither_run_again_nor_called_unsent() -> None:
    """The server asks for input and is gone when the answer comes."""
    server = PlayedServer(server__discover=MODERN, tools__call=ASKS)

    async def answer(request: ty.ElicitRequest) -> dict[str, Any]:
        await server.end.close()
        await eventually(lambda: not client.connected)
        return {}

    client = ty.Client(server, elicitation_handler=answer)
    try:
        with pytest.raises(ty.OutcomeUnknown) as told:
            await client.call_tool("any", retry_safe=False)
        assert told.value.sent is True
        assert len(server.named("tools/call")) == 1
    finally:
        await client.close()
