"""The endpoint over HTTP: routes, and the modern era."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.kit import eventually, turns
from tests.unit.server.serving.answering import INFO, MARK, Bench
from tests.unit.server.serving.asgi_kit import In, Out, scope
from tests.unit.server.serving.site import Site, Talk, Wire, message
from toolcrib.server.serving import responses
from toolcrib.server.serving.security import RequestGuard

SERVER = {"io.modelcontextprotocol/serverInfo": INFO}
ADD = {"a": 2, "b": 3}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    yield site
    await site.app.close()
    await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()})
    assert site.bench.watches == []


# ---- routes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mounted, root, path, there",
    [
        *(
            ("/mcp", "", "/mcp", True),
            ("/mcp", "", "/mcp/", True),
            ("mcp/", "", "/mcp", True),
            ("/mcp", "", "/", False),
        ),
        *(("/mcp", "", "/mcp/x", False), ("/mcp", "", "/MCP", False), ("/mcp", "/crib", "/crib/mcp", True)),
        *(("/", "/crib", "/crib", True), ("", "", "/", True), ("/", "", "/x", False), ("/a/b", "", "/a/b", True)),
    ],
)
async def test_mcp_is_spoken_at_one_path(mounted: str, root: str, path: str, there: bool) -> None:
    site = Site(path=mounted)
    out = await site.modern("server/discover", path=path, root_path=root).over()
    assert out.status == (200 if there else 404)
    assert out.header("content-type") == ("application/json" if there else "text/plain; charset=utf-8")
    await site.app.close()


@pytest.mark.parametrize("verb", ["PUT", "PATCH", "HEAD", "OPTIONS", "X"])
async def test_other_verbs_are_answered_with_the_allowed_ones(site: Site, verb: str) -> None:
    out = await site.visit(verb).over()
    assert (out.status, out.header("allow")) == (405, "POST, GET, DELETE")


async def test_a_body_has_a_type_a_form_and_a_limit() -> None:
    site = Site(max_body=200)
    for headers, body, status, code in (
        ({"content-type": "text/plain"}, b"{}", 415, -32600),
        ({"content-encoding": "gzip"}, b"{}", 415, -32600),
        ({}, b"{", 400, -32700),
        ({}, b"5", 400, -32600),
        ({}, b"[]", 400, -32600),
        ({}, b"x" * 201, 413, -32600),
    ):
        out = await site.visit("POST", body, headers).over()
        assert (out.status, out.json["error"]["code"], "id" in out.json) == (status, code, False)
    out = await site.visit("POST", message("ping", {}), {"content-type": "Application/JSON; charset=utf-8"}).over()
    assert (out.status, out.json["id"]) == (400, 1), "without a session, but the id was read"
    await site.app.close()


async def test_the_guard_runs_before_everything() -> None:
    site = Site(guard=RequestGuard(auth=lambda headers: headers.get("x-name")))
    for verb, path in (("POST", "/mcp"), ("GET", "/mcp"), ("PUT", "/nowhere")):
        assert (await site.visit(verb, b"{", path=path).over()).status == 401
        assert (await site.visit(verb, b"{", {"host": "evil.example"}, path=path).over()).status == 421
    out = await site.call("who", headers={"x-name": "alice"}).over()
    assert out.json["result"]["content"][0]["text"].startswith("['alice', None")
    await site.app.close()


# ---- requests ------------------------------------------------------------------------------------------------


async def test_discovery_says_what_is_served(site: Site) -> None:
    out = await site.modern("server/discover", id="x").over()
    result = out.json["result"]
    assert (out.status, out.json["id"]) == (200, "x")
    assert result["supportedVersions"][0] == "2026-07-28"
    assert (result["_meta"], result["resultType"], result["ttlMs"]) == (SERVER, "complete", 0)
    assert "serverInfo" not in result


async def test_a_call_is_answered_in_its_frame(site: Site) -> None:
    out = await site.call("add", ADD, id=7).over()
    assert out.json == {
        "jsonrpc": "2.0",
        "id": 7,
        "result": {"resultType": "complete", "content": [{"type": "text", "text": "5"}], "_meta": SERVER},
    }
    listed = (await site.modern("tools/list").over()).json["result"]
    assert (listed["ttlMs"], listed["cacheScope"]) == (5, "public")


@pytest.mark.parametrize(
    "method, params, status, code",
    [
        ("tools/call", {"name": "refuse"}, 400, -32602),
        ("tools/call", {"name": "need"}, 400, -32021),
        ("tools/call", {"name": "break"}, 200, -32603),
        ("tools/call", {"name": "odd"}, 200, -32603),
        ("tools/call", {"name": "cancel"}, 200, -32603),
        ("tools/call", {"name": 5}, 400, -32602),
        ("resources/read", {"uri": "x:"}, 400, -32602),
        ("nonsense", {}, 404, -32601),
        *((method, {}, 404, -32601) for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe")),
        ("subscriptions/listen", {}, 400, -32602),
        ("subscriptions/listen", {"notifications": []}, 400, -32602),
    ],
)
async def test_an_error_has_the_status_of_its_code(
    site: Site, method: str, params: Wire, status: int, code: int
) -> None:
    headers = {"mcp-name": str(params["name"])} if "name" in params else {}
    out = await site.modern(method, params, 3, headers).over()
    assert (out.status, out.json["error"]["code"], out.json["id"]) == (status, code, 3)
    assert "4711" not in out.body.decode()


@pytest.mark.parametrize(
    "headers, code",
    [
        ({"mcp-protocol-version": None}, -32020),
        ({"mcp-protocol-version": "2025-11-25"}, -32020),
        ({"mcp-method": None}, -32020),
        ({"mcp-method": "tools/list"}, -32020),
        ({"mcp-name": None}, -32020),
        ({"mcp-name": "=?base64?YQ?="}, -32020),
        ({"mcp-param-where": "here"}, -32020),
    ],
)
async def test_what_the_headers_say_is_what_the_body_says(site: Site, headers: Wire, code: int) -> None:
    out = await site.call("add", ADD, headers=headers).over()
    assert (out.status, out.json["error"]["code"]) == (400, code)
    assert site.bench.ran == []


async def test_headers_may_say_it_with_spaces_and_in_base64(site: Site) -> None:
    said = {"mcp-method": " tools/call ", "mcp-name": "=?base64?YWRk?=", "mcp-param-where": "=?base64?w6k=?="}
    out = await site.call("add", {**ADD, "where": "é"}, headers=said).over()
    assert out.status == 200
    wrong = await site.call("add", {**ADD, "where": "e"}, headers=said).over()
    assert (wrong.status, wrong.json["error"]["code"]) == (400, -32020)


async def test_a_notification_is_taken_and_an_answer_to_nothing_is_refused(site: Site) -> None:
    notification = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"_meta": MARK, "requestId": 1}}
    assert (await site.visit("POST", notification).over()).status == 202
    answer = {"jsonrpc": "2.0", "id": 4, "result": {}}
    out = await site.visit("POST", answer, {"mcp-protocol-version": "2026-07-28"}).over()
    assert (out.status, out.json["id"]) == (400, 4)


# ---- on the way ----------------------------------------------------------------------------------------------


async def test_notifications_during_a_call_make_the_answer_a_stream_without_ids(site: Site) -> None:
    visit = site.call("talk", {"steps": "1 hold 2"})
    await visit.hears("1")
    site.bench.gate.set()
    out = await visit.over()
    assert visit.received == ["1", "2", "talked"]
    assert {id for id, _ in out.pairs} == {""}


async def test_a_question_is_the_answer_and_the_call_goes_on_with_the_next_request(site: Site) -> None:
    first = (await site.call("ask").over()).json["result"]
    assert (first["resultType"], first["_meta"]) == ("input_required", SERVER)
    more = {"requestState": first["requestState"], "inputResponses": {"well": {"action": "accept"}}}
    second = (await site.call("ask", id=2, **more).over()).json
    assert (second["id"], second["result"]["resultType"]) == (2, "complete")
    assert second["result"]["content"][0]["text"] == "{'action': 'accept'}"
    assert site.bench.ran == ["ask"]
    refused = await site.call("ask", {"x": 1}, **more).over()
    assert (refused.status, refused.json["error"]["code"]) == (400, -32602)


@pytest.mark.parametrize("steps", ["hold", "1 hold"])
async def test_a_client_that_leaves_cancels_its_call(site: Site, steps: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "SLOW_AFTER_SECONDS", 0.01)
    visit = site.call("talk", {"steps": steps})
    await eventually(lambda: site.bench.ran)
    visit.receive.left.set()
    out = await visit.over()
    await eventually(lambda: site.bench.cancelled == ["talk"])
    await eventually(lambda: out.ended)
    assert out.status == (499 if steps == "hold" else 200)


async def test_a_server_that_cancels_the_request_cancels_the_call(site: Site) -> None:
    visit = site.call("talk", {"steps": "1 hold"})
    await visit.hears("1")
    visit.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await visit.task
    await eventually(lambda: site.bench.cancelled == ["talk"])
    await eventually(lambda: visit.out.ended)


# ---- listening -----------------------------------------------------------------------------------------------


async def test_a_listener_receives_what_it_requested_until_it_leaves(site: Site) -> None:
    site.bench.early = ("notifications/tools/list_changed", {})
    visit = site.modern(
        "subscriptions/listen", {"notifications": {"toolsListChanged": True, "promptsListChanged": True}}, "s"
    )
    await eventually(lambda: len(visit.out.messages) == 2)
    acknowledged, early = visit.out.messages
    mark = {"io.modelcontextprotocol/subscriptionId": "s"}
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged", "first of all"
    assert acknowledged["params"] == {"_meta": mark, "notifications": {"toolsListChanged": True}}
    assert (early["method"], early["params"]) == ("notifications/tools/list_changed", {"_meta": mark})
    site.bench.publish("notifications/resources/updated", uri="x:")
    await eventually(lambda: len(visit.out.messages) == 3)
    assert visit.out.messages[2]["params"] == {"uri": "x:", "_meta": mark}
    visit.receive.left.set()
    await visit.over()
    assert site.bench.watches == []


async def test_a_listener_is_notified_of_the_end(site: Site) -> None:
    visit = site.modern("subscriptions/listen", {"notifications": {}}, 5)
    await eventually(lambda: visit.out.messages)
    await site.app.drain(0)
    out = await visit.over()
    mark = {**SERVER, "io.modelcontextprotocol/subscriptionId": 5}
    assert out.messages[-1] == {"jsonrpc": "2.0", "id": 5, "result": {"resultType": "complete", "_meta": mark}}
    assert out.ended


# ---- the end -------------------------------------------------------------------------------------------------


async def test_draining_gives_running_requests_their_grace_period() -> None:
    site = Site()
    visit = site.call("talk", {"steps": "hold"})
    await eventually(lambda: site.bench.ran)
    draining = asyncio.create_task(site.app.drain(60))
    await turns()
    assert not draining.done()
    site.bench.gate.set()
    await asyncio.wait_for(draining, 10)
    assert (await visit.over()).json["result"]["content"][0]["text"] == "talked"
    await site.app.close()


async def test_closing_ends_what_runs_and_what_is_parked() -> None:
    site = Site()
    visit, parked = site.call("talk", {"steps": "1 hold"}), site.call("ask")
    await visit.hears("1")
    await parked.over()
    await site.app.close()
    await visit.over()
    await eventually(lambda: sorted(site.bench.cancelled) == ["ask", "talk"])
    await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()})
    await site.app.close()


def test_an_app_serves_in_one_loop_after_the_other() -> None:
    made: list[Site] = []

    async def serve() -> Any:
        site = made[0] if made else Site(Bench())
        made[:] = [site]
        first = await site.call("ask").over()
        out = await site.call("add", ADD).over()
        session = await site.session()
        assert (await site.ask(session, "ping").over()).status == 200
        return first.json["result"]["resultType"], out.status

    for _ in range(3):
        assert asyncio.run(serve()) == ("input_required", 200)


async def test_a_lifespan_ends_what_runs() -> None:
    site, said = Site(Talk()), []
    ends = asyncio.Event()
    events: list[Any] = [{"type": "lifespan.startup"}]

    async def receive() -> Any:
        if events:
            return events.pop()
        await ends.wait()
        return {"type": "lifespan.shutdown"}

    async def send(event: Any) -> None:
        said.append(event["type"])

    living = asyncio.create_task(site.app({"type": "lifespan"}, receive, send))
    visit = site.call("talk", {"steps": "hold"})
    await eventually(lambda: site.bench.ran)
    ends.set()
    await living
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    await visit.over()
    await eventually(lambda: site.bench.cancelled == ["talk"])


async def test_a_client_that_leaves_in_mid_body_is_not_answered(site: Site) -> None:
    receive, out = In(b'{"jsonrpc"', ends=False), Out()
    receive.left.set()
    await site.app(scope(), receive, out)
    assert out.events == []
