from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.unit.server.serving.streaming import Client


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    made = Client()
    yield made
    await made.session.close()
    assert made.bench.watches == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.fixture
async def old(client: Client) -> Client:
    client.initialize(elicitation={})
    return client
