"""Processes share the tokens in a folder, and event loops those of a provider."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import toolcrib as tc
import toolcrib.sync
from tests.oauth.authorization_server import AuthorizationServer
from tests.oauth.person import agree

BOUND = 30.0
CALLS = """
import asyncio, sys, toolcrib as tc
async def main():
    oauth = tc.OAuth(interact=None, store=tc.FileTokenStore(sys.argv[2]))
    async with tc.Client(sys.argv[1], auth=oauth) as client:
        print((await client.call_tool("whoami", {})).text, flush=True)
asyncio.run(main())
"""


MANY_CALLS = """
import asyncio, sys, toolcrib as tc
async def main():
    oauth = tc.OAuth(interact=None, store=tc.FileTokenStore(sys.argv[2]))
    async with tc.Client(sys.argv[1], auth=oauth) as client:
        for _ in range(25):
            await asyncio.gather(*(client.call_tool("whoami", {}) for _ in range(4)))
            await asyncio.sleep(0.1)  # the load is spread over the life of several tokens
    print("done", flush=True)
asyncio.run(main())
"""


async def start(url: str, folder: Path, code: str = CALLS) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, url, str(folder), stdout=asyncio.subprocess.PIPE
    )


async def test_a_new_process_renews_an_expired_token_without_discovery_and_without_a_person(tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    async with asyncio.timeout(BOUND), AuthorizationServer() as server:
        async with tc.Client(server.url, auth=tc.OAuth(interact=agree, store=tc.FileTokenStore(folder))):
            pass
        before = dict(server.counters)
        server.expire_tokens()
        processes = [await start(server.url, folder) for _ in range(2)]
        assert [(await each.communicate())[0] for each in processes] == [b"alice\n"] * 2
        for endpoint in ("metadata", "resource_metadata", "register", "authorize"):
            assert server.counters[endpoint] == before[endpoint]
        assert server.counters["token"] == before["token"] + 1
        assert set(server.presentations.values()) == {1}


async def test_event_loops_with_one_provider_refresh_once(tmp_path: Path) -> None:
    async with asyncio.timeout(BOUND), AuthorizationServer() as server:
        auth = tc.OAuth(interact=agree, store=tc.FileTokenStore(tmp_path / "tokens"))
        async with tc.Client(server.url, auth=auth):
            pass
        server.expire_tokens()
        gate = server.hold("mcp")

        def call() -> str:
            with toolcrib.sync.Client(server.url, auth=auth) as client:
                return client.call_tool("whoami", {}).text

        calls = [asyncio.create_task(asyncio.to_thread(call)) for _ in range(4)]
        while gate.waiting < 4:  # all of them have sent the token that is refused
            await asyncio.sleep(0.005)
        gate.open()
        assert await asyncio.gather(*calls) == ["alice"] * 4
        assert list(server.presentations.values()) == [1]
        assert server.counters["authorize"] == 1


async def test_processes_under_load_present_each_token_once_though_one_is_killed_while_it_refreshes(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "tokens"
    async with asyncio.timeout(BOUND * 2), AuthorizationServer(access_token_seconds=1) as server:
        async with tc.Client(server.url, auth=tc.OAuth(interact=agree, store=tc.FileTokenStore(folder))):
            pass
        server.expire_tokens()
        gate = server.hold("token")  # the refresh has arrived, and is not processed yet
        killed = await start(server.url, folder, MANY_CALLS)
        await gate.reached.wait()
        others = [await start(server.url, folder, MANY_CALLS) for _ in range(3)]
        killed.kill()
        await killed.wait()
        gate.open()
        assert [(await each.communicate())[0] for each in others] == [b"done\n"] * 3

        assert set(server.presentations.values()) == {1}
        assert len(server.presentations) >= 2
        assert not any(each.is_revoked for each in server.families.values())
        assert server.counters["authorize"] == 1


async def test_a_process_that_is_killed_while_it_refreshes_leaves_the_others_working(tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    async with asyncio.timeout(BOUND), AuthorizationServer(reuse_grace_seconds=60) as server:
        async with tc.Client(server.url, auth=tc.OAuth(interact=agree, store=tc.FileTokenStore(folder))):
            pass
        server.expire_tokens()
        gate = server.hold("token-after")  # the refresh is processed, its answer is lost
        killed = await start(server.url, folder)
        await gate.reached.wait()
        killed.kill()
        await killed.wait()
        gate.open()
        other = await start(server.url, folder)
        assert (await other.communicate())[0] == b"alice\n"
        assert not any(each.is_revoked for each in server.families.values())


async def test_with_a_strict_server_a_lost_answer_is_one_clear_error(tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    async with asyncio.timeout(BOUND), AuthorizationServer() as server:
        async with tc.Client(server.url, auth=tc.OAuth(interact=agree, store=tc.FileTokenStore(folder))):
            pass
        server.expire_tokens()
        gate = server.hold("token-after")
        killed = await start(server.url, folder)
        await gate.reached.wait()
        killed.kill()
        await killed.wait()
        gate.open()
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CALLS, server.url, str(folder), stdout=-1, stderr=-1
        )
        _, words = await other.communicate()
        assert b"AuthError" in words.splitlines()[-1]
        assert b"a person must sign in" in words
