"""The tour of another SDK's client at our server, and its report.

A script of this folder runs in its peer's environment, as a module, and prints its observations as the last line:

    python -m tests.peers.clients.sdk1 ERRAND stdio|http|sse legacy|modern URL|COMMAND...
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable
from typing import Any

from tests.peers.clients.guest import Door, Guest, Opener, Refused, Wire

WITHIN = 30.0  # seconds for one scene: far more than any needs
COUNTER = "crib://counter"
UPDATED = "notifications/resources/updated"
TOOLS_CHANGED = "notifications/tools/list_changed"


def text_of(result: Wire) -> str:
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


async def refusal(doing: Awaitable[Any]) -> Any:
    """Return the error of a call, or its result if it does not fail."""
    try:
        return {"instead": await doing}
    except Refused as exc:
        return exc.wire


async def pages(guest: Guest, kind: str) -> list[list[Wire]]:
    found: list[list[Wire]] = []
    cursor: str | None = None
    while True:
        page = await guest.page(kind, cursor)
        found.append(page[{"templates": "resourceTemplates"}.get(kind, kind)])
        cursor = page.get("nextCursor")
        if cursor is None:
            return found


async def naps(guest: Guest) -> list[str]:
    log: list[str] = (await guest.call("nap_log"))["structuredContent"]["result"]
    return log


async def until_over(guest: Guest, since: int) -> list[str]:
    """Return how the nap that began after `since` ended. Each check is a round trip to the server."""
    while len(log := (await naps(guest))[since:]) < 2:
        await asyncio.sleep(0)
    return log


# --- the scenes of a tour ---------------------------------------------------------------------------------------------


async def hello(guest: Guest) -> Wire:
    return guest.hello


async def tools(guest: Guest) -> Wire:
    found = await pages(guest, "tools")
    listed = {tool["name"]: tool for page in found for tool in page}
    return {"pages": [[tool["name"] for tool in page] for page in found], "add": listed["add"], "echo": listed["echo"]}


async def bad_cursor(guest: Guest) -> Any:
    return await refusal(guest.page("tools", "no such page"))


async def results(guest: Guest) -> Wire:
    return {
        "add": await guest.call("add", {"a": 2, "b": 40}),
        "echo": await guest.call("echo", {"text": "grüße, 庭\nsecond line"}),
        "forecast": await guest.call("forecast", {"city": "Bonn"}),
        "numbers": await guest.call("numbers", {"count": 3}),
        "showcase": await guest.call("showcase"),
    }


async def failures(guest: Guest) -> Wire:
    return {
        "fail": await guest.call("fail", {"message": "boom"}),
        "wrong": await guest.call("add", {"a": "x", "b": 1}),
        "missing": await guest.call("add", {"a": 1}),
        "unknown": await refusal(guest.call("forecst", {"city": "Bonn"})),
    }


async def progress(guest: Guest) -> list[Any]:
    seen: list[Any] = []

    async def on_progress(step: float, total: float | None, message: str | None) -> None:
        seen.append([step, total, message])

    seen.append(text_of(await guest.call("count", {"steps": 3}, on_progress)))
    return seen


async def logs(guest: Guest) -> list[Wire]:
    before = len(guest.book.logged)
    await guest.call_at_level("warning", "chatter", {"words": ["a", "b", "c", "d"]})
    return guest.book.logged[before:]


async def questions(guest: Guest) -> Wire:
    book = guest.book
    seen: Wire = {"sampled": text_of(await guest.call("ask_model", {"prompt": "what is it?"}))}
    seen["sampling"] = book.sampled[-1]
    seen["accepted"] = text_of(await guest.call("ask_user", {"question": "who?"}))
    seen["asking"] = book.asked[-1]
    seen["declined"] = text_of(await guest.call("ask_user", {"question": "decline"}))
    seen["cancelled"] = text_of(await guest.call("ask_user", {"question": "cancel"}))
    seen["interview"] = text_of(await guest.call("interview"))
    seen["interviewed"] = [question["message"] for question in book.asked[-2:]]
    seen["roots"] = (await guest.call("roots")).get("structuredContent")
    return seen


async def crowd(guest: Guest) -> Wire:
    """Make many calls at once, some of which request input."""
    adding = [guest.call("add", {"a": n, "b": 1}) for n in range(16)]
    asking = [guest.call("ask_user", {"question": f"n{n}"}) for n in range(8)]
    found = [text_of(result) for result in await asyncio.gather(*adding, *asking)]
    return {"sums": found[:16], "answers": found[16:]}


async def resources(guest: Guest) -> Wire:
    return {
        "listed": [entry for page in await pages(guest, "resources") for entry in page],
        "templates": [entry for page in await pages(guest, "templates") for entry in page],
        "greeting": await guest.read("crib://greeting"),
        "logo": await guest.read("crib://logo"),
        "plot": await guest.read("crib://plot/rose%20bed"),
        "unknown": await refusal(guest.read("crib://nowhere")),
    }


async def prompts(guest: Guest) -> Wire:
    return {
        "listed": [entry for page in await pages(guest, "prompts") for entry in page],
        "explain": await guest.prompt("explain", {"topic": "bees"}),
        "missing": await refusal(guest.prompt("explain", {})),
        "unknown": await refusal(guest.prompt("explian", {"topic": "bees"})),
    }


async def completion(guest: Guest) -> Wire:
    ref = {"type": "ref/prompt", "name": "explain"}
    return {
        "topic": await guest.complete(ref, {"name": "topic", "value": "ap"}, None),
        "tone": await guest.complete(ref, {"name": "tone", "value": "k"}, {"topic": "bees"}),
    }


async def news(guest: Guest) -> Wire:
    book, seen = guest.book, Wire()
    async with guest.news(COUNTER):
        since = len(book.notifications)
        await guest.call("touch")
        seen["updated"] = (await book.next(UPDATED, since))["uri"]
        since = len(book.notifications)
        await guest.call("grow")
        await book.next(TOOLS_CHANGED, since)
        seen["grown"] = "bloom" in [tool["name"] for page in await pages(guest, "tools") for tool in page]
        since = len(book.notifications)
        await guest.call("cut")
        await book.next(TOOLS_CHANGED, since)
        seen["cut"] = "bloom" not in [tool["name"] for page in await pages(guest, "tools") for tool in page]
    async with guest.news():
        since = len(book.notifications)
        await guest.call("touch")
        await guest.call("grow")
        await book.next(TOOLS_CHANGED, since)
        seen["without_subscription"] = sorted({method for method, _ in book.notifications[since:]})
        await guest.call("cut")
    return seen


async def given_up(guest: Guest) -> list[str]:
    """Cancel a running call as this SDK does."""
    since, began = len(await naps(guest)), asyncio.Event()
    await guest.give_up("nap", {"seconds": 60}, began)
    return await until_over(guest, since)


async def ping(guest: Guest) -> Any:
    return await refusal(guest.ping()) if guest.door.is_modern else await guest.ping()


async def detached(guest: Guest) -> Wire | None:
    """The server closes the stream during the call, and the guest resumes it if the transport can."""
    if guest.door.transport != "http" or guest.door.is_modern:
        return None
    steps: list[float] = []

    async def on_progress(step: float, *_: Any) -> None:
        steps.append(step)

    before = len(guest.book.requests)
    text = text_of(await guest.call("detach", {}, on_progress))
    return {"text": text, "steps": steps, "requests": guest.book.requests[before:]}


async def after_giving_up(guest: Guest) -> int | None:
    """Return how often the guest resumes a cancelled call while it resumes three others."""
    if guest.door.transport != "http" or guest.door.is_modern:
        return None
    before = len(guest.book.requests)
    for _ in range(3):
        await guest.call("detach")
    return guest.book.requests[before:].count("GET again") - 3


async def ours_only(guest: Guest) -> Wire:
    """Use features that only our server has."""
    seen: Wire = {
        "page": text_of(await guest.call("ask_page", {"url": "https://crib.example/sign?a=1"})),
        "asking": guest.book.asked[-1],
        "refused": await refusal(guest.call("refuse")),
        "nothing": await guest.call("nothing"),
        "picture": await guest.call("picture"),
        "who": (await guest.call("who"))["structuredContent"],
        "shipped": (await guest.call("ship", {"region": "grüße", "weight": 7}))["structuredContent"],
    }
    seen["thread"] = await progress_of(guest, "count_in_a_thread", {"steps": 3})
    seen["march"] = await progress_of(guest, "march", {"steps": 3})
    return seen


async def progress_of(guest: Guest, name: str, arguments: Wire) -> list[Any]:
    steps: list[Any] = []

    async def on_progress(step: float, *_: Any) -> None:
        steps.append(step)

    text = text_of(await guest.call(name, arguments, on_progress))
    return [*steps, text]


SCENES = (
    hello, tools, bad_cursor, results, failures, progress, logs, questions, crowd, resources, prompts, completion, news,
    detached, given_up, after_giving_up, ping, ours_only,
)  # fmt: skip


# --- errands ----------------------------------------------------------------------------------------------------------


async def tour(opener: Opener, door: Door) -> Wire:
    """Run every scene; a failed scene does not hide the others."""
    seen: Wire = {}
    async with opener(door) as guest:
        for scene in SCENES:
            try:
                async with asyncio.timeout(WITHIN):
                    seen[scene.__name__] = await scene(guest)
            except Exception:  # noqa: BLE001  # whatever it was belongs into the report
                seen[scene.__name__] = {"raised": traceback.format_exc(limit=-6)}
    return seen


async def bare(opener: Opener, door: Door) -> Wire:
    """Connect a guest without handlers."""
    seen: Wire = {}
    async with opener(door, handlers=False) as guest:
        for name, arguments in (("ask_model", {"prompt": "?"}), ("ask_user", {"question": "who?"}), ("roots", {})):
            try:
                seen[name] = await guest.call(name, arguments)
            except Refused as exc:
                seen[name] = {"refused": exc.wire}
        seen["after"] = text_of(await guest.call("echo", {"text": "still here"}))
    return seen


async def say(word: str) -> None:
    """Print a line for the test that started this program, and wait for its reply."""
    print(word, flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def hear(opener: Opener, door: Door) -> Wire:
    """Change something while the guest's standalone stream is cut."""
    async with opener(door) as guest, guest.news():
        book = guest.book
        await guest.call("grow")
        await book.next(TOOLS_CHANGED, 0)
        since, before = len(book.notifications), len(book.requests)
        await say("listening")
        await guest.call("cut")
        await book.next(TOOLS_CHANGED, since)
        return {"notified": [method for method, _ in book.notifications[since:]], "requests": book.requests[before:]}


async def sleep(opener: Opener, door: Door) -> Wire:
    """Make a call during which the test may cut the connection; notify the test when the call has begun."""
    async with opener(door) as guest:
        since = len(await naps(guest))

        async def on_progress(*_: Any) -> None:
            await say("asleep")

        try:
            result: Any = await guest.call("nap", {"seconds": 60 if door.is_modern else 1}, on_progress)
        except Exception as exc:  # noqa: BLE001  # whatever it was belongs into the report
            result = {"raised": repr(exc)}
        requests = list(guest.book.requests)
        return {"result": result, "naps": await until_over(guest, since), "requests": requests}


async def leave(opener: Opener, door: Door, *, goodbye: bool = False) -> Wire:
    """One guest disconnects during a call; another one checks how that call ended."""
    async with opener(door) as witness:
        since, began = len(await naps(witness)), asyncio.Event()

        async def on_progress(*_: Any) -> None:
            began.set()

        async with opener(door, goodbye=goodbye) as guest:
            seconds = 60 if goodbye or door.is_modern else 1
            call = asyncio.ensure_future(refusal(guest.call("nap", {"seconds": seconds}, on_progress)))
            await began.wait()
        call.cancel()  # some SDKs do not end the call when its connection is closed
        await asyncio.gather(call, return_exceptions=True)
        return {"naps": await until_over(witness, since)}


async def part(opener: Opener, door: Door) -> Wire:
    """End the guest's session during a call."""
    return await leave(opener, door, goodbye=True)


ERRANDS = {errand.__name__: errand for errand in (tour, bare, hear, sleep, leave, part)}


async def _run(opener: Opener, errand: str, transport: str, era: str, *target: str) -> None:
    async with asyncio.timeout(150):
        seen = await ERRANDS[errand](opener, Door(transport, era, target))
    print(json.dumps(seen))


def run(opener: Opener) -> None:
    asyncio.run(_run(opener, *sys.argv[1:]))
