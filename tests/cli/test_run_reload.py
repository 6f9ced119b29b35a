"""`toolcrib run --reload`: the code changes, the clients stay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import toolcrib as tc
from tests.cli.test_run import over_stdio, over_web
from toolcrib.client.subscriptions import Changes

TOOLS = """
import toolcrib as tc
import beside

server = tc.ToolServer("garden", "1.0")

@server.tool
def word() -> str:
    return beside.WORD
"""
MORE = """
@server.tool
def more() -> str:
    return "more"
"""
ASKING = """
@server.tool
async def slow(ctx: tc.Context) -> str:
    answer = await ctx.elicit("go on?")
    return f"{answer.action} in the old code"
"""


class Served:
    """A client whose server's files change under it."""

    def __init__(self, file: Path, client: tc.Client, said: list[str], changes: Changes) -> None:
        self.file = file
        self.client = client
        self.said = said
        self.changes = changes

    async def word(self) -> str:
        return (await self.client.call_tool("word")).text

    async def next_change(self) -> tc.Change:
        async with asyncio.timeout(30):
            return await anext(self.changes)

    async def until(self, word: str) -> None:
        async with asyncio.timeout(30):
            while await self.word() != word:
                await asyncio.sleep(0.02)

    async def heard(self, words: str) -> str:
        """The line on stderr that says this."""
        async with asyncio.timeout(30):
            while not (found := [line for line in self.said if words in line]):
                await asyncio.sleep(0.02)
        return found[-1]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("WORD = 'rose'\n")
    tools = tmp_path / "tools.py"
    tools.write_text(TOOLS)
    return tools


@asynccontextmanager
async def serving(file: Path, mode: str) -> AsyncIterator[Served]:
    said: list[str] = []
    server = over_stdio(file, "--reload")
    async with tc.Client(server, mode=mode, stderr_handler=said.append) as client, client.listen() as changes:
        yield Served(file, client, said, changes)
        assert client.status.state == "connected"


@pytest.fixture(params=["legacy", "auto"])
async def served(request: pytest.FixtureRequest, file: Path) -> AsyncIterator[Served]:
    async with serving(file, request.param) as each:
        yield each


async def test_the_client_is_notified_and_the_new_code_answers(served: Served) -> None:
    assert await served.word() == "rose"
    served.file.write_text(TOOLS + MORE)
    assert await served.next_change() == tc.Change("tools")
    assert [tool.name for tool in await served.client.list_tools()] == ["word", "more"]
    assert (await served.client.call_tool("more")).text == "more"
    assert await served.heard("reloaded") == "reloaded tools.py: 2 tools"


async def test_a_module_of_the_folder_is_followed_too(served: Served) -> None:
    for word in ("tulip", "daisy"):  # of one length: only the text differs
        served.file.with_name("beside.py").write_text(f"WORD = {word!r}\n")
        await served.until(word)


@pytest.mark.parametrize("broken", ["tools.py", "beside.py"])
async def test_broken_code_leaves_the_previous_version_running(served: Served, broken: str) -> None:
    place = served.file.with_name(broken)
    good = place.read_text()
    place.write_text("WORD = (\n")
    assert f"{place}:1: SyntaxError: '(' was never closed" in await served.heard("error: ")
    await served.heard("still serving the previous version")
    assert await served.word() == "rose"
    place.write_text(good)
    await served.heard("reloaded")
    assert await served.word() == "rose"


async def test_a_new_module_that_was_broken_can_be_fixed(served: Served) -> None:
    new = served.file.with_name("added.py")
    new.write_text("WORD = (\n")
    served.file.write_text(TOOLS.replace("import beside", "import added as beside"))
    await served.heard(f"{new}:1: SyntaxError")
    new.write_text("WORD = 'lily'\n")
    await served.until("lily")


async def test_a_call_in_flight_ends_in_the_code_that_it_began_in(file: Path) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def answer(_: tc.ElicitRequest) -> bool:
        asked.set()
        await go_on.wait()
        return True

    file.write_text(TOOLS + ASKING)
    async with tc.Client(over_stdio(file, "--reload"), elicitation_handler=answer) as client:
        call = asyncio.create_task(client.call_tool("slow"))
        async with asyncio.timeout(30):
            await asked.wait()
            file.write_text(TOOLS + MORE)
            while [tool.name for tool in await client.list_tools()] != ["word", "more"]:
                await asyncio.sleep(0.02)
            go_on.set()
            assert (await call).text == "accept in the old code"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_over_http_the_port_and_the_session_stay(file: Path, mode: str) -> None:
    async with over_web(file, "--http", "--reload") as (url, _), tc.Client(url, mode=mode) as client:
        assert (await client.call_tool("word")).text == "rose"
        async with client.listen() as changes, asyncio.timeout(30):
            file.write_text(TOOLS + MORE)
            assert await anext(changes) == tc.Change("tools")
            assert (await client.call_tool("more")).text == "more"


async def test_credentials_are_asked_by_the_newest_code_and_never_lost(file: Path) -> None:
    guarded = TOOLS.replace('"1.0"', '"1.0", auth=lambda headers: headers.get("x-key") == "KEY" and "me"')
    file.write_text(guarded.replace("KEY", "one"))
    async with over_web(file, "--http", "--reload") as (url, process):
        async with tc.Client(tc.HttpServer(url, headers={"x-key": "one"})) as client:
            assert (await client.call_tool("word")).text == "rose"
        file.write_text(guarded.replace("KEY", "other"))
        async with asyncio.timeout(30):
            while not await _admits(url, "other"):
                await asyncio.sleep(0.02)
        assert not await _admits(url, "one")
        file.write_text(TOOLS)
        assert process.stderr is not None
        async with asyncio.timeout(30):
            while b"`auth` was added or removed; restart to apply" not in await process.stderr.readline():
                continue
        assert not await _admits(url, "")


async def _admits(url: str, key: str) -> bool:
    try:
        async with tc.Client(tc.HttpServer(url, headers={"x-key": key})) as client:
            return (await client.call_tool("word")).text == "rose"
    except tc.AuthError:
        return False
