"""A client finds out where to sign in."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import toolcrib as tc
from tests.faults.http_kit import make_certificates
from tests.oauth.authorization_server import AuthorizationServer
from tests.oauth.person import agree
from toolcrib.oauth import http

WELL_KNOWN = "/.well-known/oauth-protected-resource"
OAUTH, OIDC = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
WAIT = 20.0


def person(**given: Any) -> tc.OAuth:
    return tc.OAuth(**{"interact": agree, "store": tc.MemoryTokenStore(), **given})


async def sign_in(server: AuthorizationServer, auth: tc.OAuth | None = None, **options: Any) -> None:
    async with tc.Client(server.url, auth=auth or person(), **options) as client:
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"


def delegate(server: AuthorizationServer, issuer: AuthorizationServer) -> None:
    """Let the server name, and accept the tokens of, this authorisation server only."""
    issuer.trusted = [server]
    server.change(authorization_servers=(issuer.issuer,))
    server.trusted = [issuer]


def paths(server: AuthorizationServer) -> list[str]:
    """Return the paths of the documents that were requested."""
    return [each.path for each in server.requests if "/.well-known/" in each.path or "metadata" in each.endpoint]


@pytest.mark.parametrize(
    "place, hint, expected",
    [
        ("path", True, [f"{WELL_KNOWN}/mcp"]),
        ("custom", True, ["/custom/resource-metadata"]),
        ("root", True, [WELL_KNOWN]),
        ("path", False, [f"{WELL_KNOWN}/mcp"]),
        ("root", False, [f"{WELL_KNOWN}/mcp", WELL_KNOWN]),
        ("path", f"{WELL_KNOWN}/gone", [f"{WELL_KNOWN}/gone", f"{WELL_KNOWN}/mcp"]),
    ],
)
async def test_the_named_resource_metadata_is_fetched_else_the_well_known_one(
    place: Any, hint: bool | str, expected: list[str]
) -> None:
    async with AuthorizationServer(resource_metadata=place, resource_metadata_hint=hint is True) as server:
        if isinstance(hint, str):
            challenge = f'Bearer resource_metadata="{server.base}{hint}"'
            server.fail_next("mcp", status=401, WWW_Authenticate=challenge)
        await sign_in(server)

    assert paths(server) == [*expected, OAUTH]


async def test_the_bearer_challenge_may_be_in_any_of_several_headers() -> None:
    async with AuthorizationServer(resource_metadata="custom", resource_metadata_hint=False) as server:
        bearer = f'Bearer resource_metadata="{server.base}/custom/resource-metadata", scope="mcp:write"'
        server.fail_next("mcp", status=401, WWW_Authenticate=("Basic realm=x", bearer, "Negotiate"))
        await sign_in(server)

    assert server.seen("authorize")[0].params["scope"] == "mcp:write"


@pytest.mark.parametrize("endpoint", ["resource_metadata", "metadata"])
@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_server_that_is_not_available_is_not_one_without_metadata(endpoint: str, status: int) -> None:
    async with AuthorizationServer() as server:
        auth = person()
        server.fail_next(endpoint, times=1000, status=status)
        with pytest.raises(tc.ConnectError):
            await sign_in(server, auth)
        assert not server.counters["authorize"] + server.counters["register"]

        server.fail_next(endpoint, times=0)
        await sign_in(server, auth)


@pytest.mark.parametrize(
    "endpoints, behaviour, sign_ins",
    [
        (["resource_metadata"], {"refresh_tokens": "none"}, 2),
        (["metadata"], {"refresh_tokens": "none"}, 2),
        (["token", "resource_metadata"], {}, 1),
        (["token"], {"resource_metadata": "none"}, 1),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
async def test_stored_credentials_stay_while_endpoints_are_not_available(
    endpoints: list[str], behaviour: dict[str, Any], sign_ins: int, status: int
) -> None:
    async with AuthorizationServer(**behaviour) as server:
        store = tc.MemoryTokenStore()
        await sign_in(server, person(store=store))
        before = json.loads(await store.load(server.url) or "")
        server.expire_tokens()
        for endpoint in endpoints:
            server.fail_next(endpoint, times=1000, status=status)
        with pytest.raises(tc.ConnectError):
            await sign_in(server, person(store=store))
        after = json.loads(await store.load(server.url) or "")

        for endpoint in endpoints:
            server.fail_next(endpoint, times=0)
        await sign_in(server, person(store=store))

    assert before["token_sets"] and before["clients"] and before["issuer"]
    assert after == before
    assert server.counters["authorize"] == sign_ins


@pytest.mark.parametrize("status, error", [(429, tc.ConnectError), (503, tc.ConnectError), (200, tc.AuthError)])
async def test_default_endpoints_are_not_used_while_the_metadata_cannot_be_read(
    status: int, error: type[tc.ToolcribError]
) -> None:
    async with AuthorizationServer(resource_metadata="none", requires_resource=False) as server:
        server.fail_next("metadata", times=1000, status=status)  # with 200 too, the body is not JSON
        with pytest.raises(error):
            await sign_in(server, mode="legacy")

    assert server.counters["metadata"]
    assert not server.counters["authorize"] + server.counters["register"] + server.counters["token"]


@pytest.mark.parametrize(
    "resource, accepted",
    [
        ("{base}", True),
        ("{base}/", True),
        ("{base}/mc", False),
        ("{base}/mcp/more", False),
        ("https://attacker.example/mcp", False),
    ],
)
async def test_the_resource_must_be_the_server_or_a_parent_of_it(resource: str, accepted: bool) -> None:
    async with AuthorizationServer(resource=resource) as server:
        if accepted:
            await sign_in(server)
        else:
            with pytest.raises(tc.AuthError, match="or a parent of it, got"):
                await sign_in(server)
            assert paths(server) == [f"{WELL_KNOWN}/mcp"]


@pytest.mark.parametrize(
    "behaviour, expected",
    [
        ({"server_metadata": "oidc"}, [OAUTH, OIDC]),
        ({"issuer_path": "/tenant1"}, [f"{OAUTH}/tenant1"]),
        (
            {"issuer_path": "/tenant1", "server_metadata": "oidc", "oidc_place": "inserted"},
            [f"{OAUTH}/tenant1", f"{OIDC}/tenant1"],
        ),
        (
            {"issuer_path": "/tenant1", "server_metadata": "oidc"},
            [f"{OAUTH}/tenant1", f"{OIDC}/tenant1", f"/tenant1{OIDC}"],
        ),
    ],
)
async def test_metadata_of_the_issuer_is_looked_for_in_order(behaviour: dict[str, Any], expected: list[str]) -> None:
    async with AuthorizationServer(**behaviour) as server:
        await sign_in(server)

    assert paths(server)[1:] == expected


async def test_metadata_of_another_issuer_is_not_used() -> None:
    async with AuthorizationServer(claimed_issuer="{base}/", server_metadata="both") as server:
        with pytest.raises(tc.AuthError) as caught:
            await sign_in(server)

    assert f"expected the issuer {server.issuer}, got {server.issuer}/" in str(caught.value)
    assert paths(server)[1:] == [OAUTH, OIDC]
    assert not server.counters["register"] + server.counters["authorize"] + server.counters["token"]


@pytest.mark.parametrize(
    "changes, mode",
    [
        ({}, "auto"),
        ({"metadata_changes": {"code_challenge_methods_supported": ["plain"]}}, "auto"),
        ({"resource_metadata": "none", "requires_resource": False}, "legacy"),
    ],
)
async def test_a_server_without_pkce_is_refused_unless_the_user_knows_better(
    changes: dict[str, Any], mode: str
) -> None:
    async with AuthorizationServer(pkce="none", **changes) as server:
        with pytest.raises(tc.AuthError, match=r"OAuth\(assume_pkce=True\)"):
            await sign_in(server, mode=mode)
        assert not server.counters["register"] + server.counters["authorize"]

        await sign_in(server, person(assume_pkce=True), mode=mode)


async def test_pkce_may_be_stated_in_the_other_document() -> None:
    async with AuthorizationServer(server_metadata="both", pkce="oidc") as server:
        await sign_in(server)

    assert paths(server)[1:] == [OAUTH, OIDC]


@pytest.mark.parametrize(
    "name", ["authorization_endpoint", "token_endpoint", "registration_endpoint", "jwks_uri", "revocation_endpoint"]
)
async def test_endpoints_without_tls_on_other_machines_are_refused(name: str) -> None:
    async with AuthorizationServer(metadata_changes={name: "http://login.example/x"}) as server:
        with pytest.raises(tc.AuthError, match=f"{name}: expected an https URL"):
            await sign_in(server)
        assert not server.counters["register"]


async def test_an_issuer_without_tls_on_another_machine_is_refused() -> None:
    async with AuthorizationServer(authorization_servers=("http://login.example",)) as server:
        with pytest.raises(tc.AuthError, match="issuer: expected an https URL"):
            await sign_in(server)


@pytest.mark.parametrize(
    "answer, problem",
    [
        ("redirect_away", "publishes no metadata"),
        ("huge", "at most 262,144 bytes"),
        ("not_json", "expected a JSON object"),
        ("deep", "expected a JSON object"),
        ("array", "expected a JSON object"),
    ],
)
async def test_metadata_that_cannot_be_used_is_an_error(answer: Any, problem: str) -> None:
    async with AuthorizationServer(metadata_answer=answer) as server:
        with pytest.raises(tc.AuthError, match=problem):
            await sign_in(server)

    assert not [each for each in server.requests if each.path.startswith("/moved/")]
    assert not server.counters["register"] + server.counters["token"]


async def test_resource_metadata_that_is_not_json_is_not_the_same_as_none() -> None:
    async with AuthorizationServer() as server:
        server.fail_next("resource_metadata", times=9, status=200)
        with pytest.raises(tc.AuthError, match=r"resource metadata at .*: expected a JSON object"):
            await sign_in(server, mode="legacy")

    assert paths(server) == [f"{WELL_KNOWN}/mcp"]
    assert not server.counters["register"] + server.counters["authorize"]


@pytest.mark.parametrize("endpoint", ["resource_metadata", "metadata", "register", "token"])
async def test_an_answer_with_a_content_encoding_that_is_not_supported_is_an_error(endpoint: str) -> None:
    async with AuthorizationServer() as server, asyncio.timeout(WAIT):
        server.fail_next(endpoint, times=1000, status=200, Content_Encoding="br")
        with pytest.raises(tc.AuthError, match="Content-Encoding"):
            await sign_in(server)


@pytest.mark.parametrize("kibibytes, accepted", [(250, True), (257, False)])
async def test_metadata_has_at_most_256_kib(kibibytes: int, accepted: bool) -> None:
    async with AuthorizationServer(metadata_changes={"padding": "x" * kibibytes * 1024}) as server:
        if accepted:
            await sign_in(server)
        else:
            with pytest.raises(tc.AuthError, match="at most 262,144 bytes"):
                await sign_in(server)

    assert server.counters["register"] == int(accepted)


async def test_a_request_without_an_answer_ends_after_30_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert http.REQUEST_TIMEOUT == 30.0
    monkeypatch.setattr(http, "REQUEST_TIMEOUT", 0.05)
    async with AuthorizationServer() as server, asyncio.timeout(WAIT):
        server.hold("metadata")
        with pytest.raises(tc.ConnectError, match="oauth-authorization-server"):
            await sign_in(server)

    assert not server.counters["register"]


async def test_an_authorisation_makes_at_most_50_requests() -> None:
    async with AuthorizationServer() as server:
        server.change(authorization_servers=tuple(f"{{base}}/{n}" for n in range(100)))
        with pytest.raises(tc.AuthError, match="more than 50 requests"):
            await sign_in(server)

    assert len([each for each in server.requests if each.endpoint != "mcp"]) == 50


async def test_metadata_may_redirect_to_the_same_origin() -> None:
    async with AuthorizationServer(metadata_answer="redirect") as server:
        await sign_in(server)


async def test_metadata_that_redirects_to_itself_is_given_up() -> None:
    async with AuthorizationServer() as server:
        server.fail_next("metadata", times=1000, status=302, Location=OAUTH)
        with pytest.raises(tc.AuthError, match="publishes no metadata"):
            await sign_in(server)

    assert paths(server)[1:] == [OAUTH] * http.MAX_REDIRECTS + [OIDC]


@pytest.mark.parametrize("endpoint", ["register", "token"])
async def test_redirects_of_posts_are_not_followed(endpoint: str) -> None:
    async with AuthorizationServer() as server:
        server.fail_next(endpoint, times=9, status=307, Location="/stolen")
        with pytest.raises(tc.AuthError):
            await sign_in(server)

    assert not [each for each in server.requests if each.path == "/stolen"]


async def test_nothing_of_the_server_goes_to_the_authorisation_server() -> None:
    async with AuthorizationServer() as other, AuthorizationServer() as server:
        server.change(authorization_servers=(other.issuer,))
        server.trusted.append(other)
        other.trusted.append(server)
        config = tc.HttpServer(server.url, headers={"X-Key": "CANARY", "Cookie": "session=CANARY"})
        async with tc.Client(config, auth=person()) as client:
            await client.call_tool("echo", {"text": "hi"})

    assert "CANARY" in str(server.seen("mcp"))
    assert "CANARY" not in str(other.requests) + str(server.seen("resource_metadata"))
    tokens = {each.header("authorization") for each in server.seen("mcp")} - {None}
    assert len(tokens) == 1
    assert not [each for each in other.requests if each.header("authorization") in tokens or each.header("cookie")]
    assert not {"code", "refresh_token", "code_verifier"} & {name for each in server.requests for name in each.params}


async def test_cookies_are_not_carried_between_the_server_and_the_authorisation_server() -> None:
    async with AuthorizationServer() as server:  # both have the same origin
        server.fail_next("mcp", status=401, WWW_Authenticate="Bearer", Set_Cookie="of=the-server; Path=/")
        server.fail_next("metadata", status=302, Location="/moved/oauth", Set_Cookie="of=the-issuer; Path=/")
        await sign_in(server)

    assert {each.header("cookie") for each in server.seen("mcp")} == {None, "of=the-server"}
    others = [each for each in server.requests if each.endpoint != "mcp"]
    assert {"register", "token"} <= {each.endpoint for each in others}
    assert not [each for each in others if each.endpoint != "authorize" and each.header("cookie")]


async def test_the_client_certificate_is_not_shown_to_the_authorisation_server(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    context = certificates.server_context(wants_client=True)
    context.verify_mode = ssl.CERT_OPTIONAL
    shown: dict[str, bool] = {}

    async def refuse(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        shown[request.path] = bool(request.transport.get_extra_info("peercert"))
        hint = f'Bearer resource_metadata="https://{request.host}/metadata"'
        is_mcp = request.path == "/mcp"
        return web.Response(status=401 if is_mcp else 404, headers={"WWW-Authenticate": hint} if is_mcp else {})

    runner = web.ServerRunner(web.Server(refuse))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        config = tc.HttpServer(
            f"https://127.0.0.1:{runner.addresses[0][1]}/mcp",
            ca=certificates.path("ca.pem"),
            client_cert=(certificates.path("client.pem"), certificates.path("client.key")),
        )
        with pytest.raises(tc.AuthError):
            await tc.Client(config, auth=person(), mode="legacy").connect()
    finally:
        await runner.cleanup()

    assert shown.pop("/mcp") is True
    assert {"/metadata", OAUTH, "/register"} <= shown.keys()
    assert not any(shown.values())


async def test_the_first_issuer_whose_metadata_fits_is_taken() -> None:
    async with AuthorizationServer() as server:
        server.change(authorization_servers=("{base}/nothing", "{base}"))
        await sign_in(server)


@pytest.mark.parametrize("lacking", ["code_challenge_methods_supported", "authorization_endpoint", "token_endpoint"])
async def test_an_issuer_whose_metadata_cannot_be_used_leaves_the_choice_to_the_next(lacking: str) -> None:
    async with AuthorizationServer(metadata_changes={lacking: None}) as first, AuthorizationServer() as server:
        server.change(authorization_servers=(first.issuer, server.issuer))
        await sign_in(server)

        server.change(authorization_servers=(first.issuer,))
        with pytest.raises(tc.AuthError, match=lacking):
            await sign_in(server)

    assert first.counters["metadata"] == 2
    assert not first.counters["register"] + first.counters["authorize"]


async def test_the_issuer_of_stored_credentials_is_preferred() -> None:
    async with AuthorizationServer() as first, AuthorizationServer() as server:
        server.trusted.append(first)
        first.trusted.append(server)
        auth = person()
        await sign_in(server, auth)
        server.change(authorization_servers=(first.issuer, server.issuer), refresh_tokens="none")
        server.revoke_all()
        await sign_in(server, auth)

    assert server.counters["authorize"] == 2
    assert not first.requests


async def test_an_issuer_that_is_not_available_leaves_the_choice_to_the_next_unless_it_is_the_known_one() -> None:
    async with AuthorizationServer() as first, AuthorizationServer() as server:
        server.trusted, first.trusted = [first], [server]
        server.change(authorization_servers=(first.issuer, server.issuer))
        first.fail_next("metadata", times=1000)
        await sign_in(server)
        assert (first.counters["authorize"], server.counters["authorize"]) == (0, 1)

        first.fail_next("metadata", times=0)
        auth = person()
        await sign_in(server, auth)
        first.revoke_all()
        first.fail_next("metadata", times=1000)
        with pytest.raises(tc.ConnectError):
            await sign_in(server, auth)

    assert (first.counters["authorize"], server.counters["authorize"]) == (1, 1)


async def test_a_server_that_names_no_issuer_needs_a_configured_one() -> None:
    async with AuthorizationServer(authorization_servers=()) as server:
        with pytest.raises(tc.AuthError, match=r"expected authorization_servers, got none\. Set issuer="):
            await sign_in(server)
        await sign_in(server, person(issuer=server.issuer))


async def test_a_configured_issuer_chooses_and_must_be_offered() -> None:
    async with AuthorizationServer() as other, AuthorizationServer() as server:
        server.trusted.append(other)
        other.trusted.append(server)
        server.change(authorization_servers=(server.issuer, other.issuer))
        await sign_in(server, person(issuer=other.issuer))
        with pytest.raises(tc.AuthError, match="issuer: expected one of those that the server names"):
            await sign_in(server, person(issuer="https://login.example"))

    assert (server.counters["authorize"], other.counters["authorize"]) == (0, 1)


async def test_a_new_authorisation_server_gets_nothing_of_the_old_one() -> None:
    async with AuthorizationServer() as new, AuthorizationServer() as server:
        store, new.trusted = tc.MemoryTokenStore(), [server]
        await sign_in(server, person(store=store))
        old = server.seen("token")[0].params["client_id"]
        server.change(authorization_servers=(new.issuer,))
        server.trusted.append(new)
        server.revoke_all()
        await sign_in(server, person(store=store))
        text = await store.load(server.url)

    assert new.counters["register"] == new.counters["authorize"] == 1
    assert old not in str(new.requests)
    assert text is not None
    assert old in text  # it stays stored under its issuer


async def test_tokens_of_a_former_authorisation_server_stay_stored_and_are_not_used() -> None:
    async with AuthorizationServer() as old, AuthorizationServer() as new, AuthorizationServer() as server:
        store = tc.MemoryTokenStore()
        for each in (old, new):
            delegate(server, each)
            await sign_in(server, person(store=store))
        token = (old.counters["token"], set(old.tokens.access))
        server.requests.clear()
        new.expire_tokens()
        await sign_in(server, person(store=store))
        stored = json.loads(await store.load(server.url) or "")

    assert {each["issuer"] for each in stored["token_sets"]} == {old.issuer, new.issuer}
    assert {each["issuer"] for each in stored["clients"]} == {old.issuer, new.issuer}
    assert stored["token_sets"][0]["issuer"] == new.issuer
    assert (old.counters["token"], set(old.tokens.access)) == token
    assert not [each for each in server.seen("mcp") if (each.header("authorization") or "")[7:] in token[1]]
    assert not set(old.presentations) & set(new.presentations)


async def test_tokens_of_a_former_authorisation_server_are_not_used_after_those_of_the_new_one_were_revoked() -> None:
    async with AuthorizationServer() as old, AuthorizationServer() as new, AuthorizationServer() as server:
        store = tc.MemoryTokenStore()
        for each in (old, new):
            delegate(server, each)
            await sign_in(server, person(store=store))
        before = old.counters["token"]
        server.requests.clear()
        new.revoke_all()
        await sign_in(server, person(store=store))

    assert new.counters["authorize"] == 2
    assert old.counters["token"] == before
    assert not [each for each in server.seen("mcp") if (each.header("authorization") or "")[7:] in old.tokens.access]


@pytest.mark.parametrize("end, place", [("gone", "path"), ("empty", "path"), ("gone", "custom")])
async def test_a_former_authorisation_server_that_is_gone_does_not_prevent_a_sign_in_at_the_new_one(
    end: str, place: Any
) -> None:
    async with AuthorizationServer() as new, AuthorizationServer(resource_metadata=place) as server:
        store = tc.MemoryTokenStore()
        async with AuthorizationServer() as old:
            old.trusted = new.trusted = [server]
            server.change(authorization_servers=(old.issuer,))
            server.trusted = [old]
            await sign_in(server, person(store=store))
            server.change(authorization_servers=(new.issuer,))
            server.trusted = [new]
            if end == "empty":
                old.fail_next("token", times=100, status=404)
                await sign_in(server, person(store=store))
        if end == "gone":
            await sign_in(server, person(store=store))

    assert new.counters["authorize"] == 1


async def test_the_secret_of_a_client_goes_only_to_the_configured_issuer() -> None:
    methods = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    async with (
        AuthorizationServer(metadata_changes=methods) as old,
        AuthorizationServer(metadata_changes=methods) as new,
        AuthorizationServer() as server,
    ):
        store, server.trusted = tc.MemoryTokenStore(), [old, new]
        server.change(authorization_servers=(old.issuer, new.issuer))
        for each, secret in ((old, "first"), (new, "second")):
            each.trusted = [server]
            each.add_client("mine", "client_secret_post", secret=secret, redirect_uris=("http://127.0.0.1/callback",))
        await sign_in(server, person(store=store, issuer=old.issuer, client_id="mine", client_secret="first"))
        old.expire_tokens()
        auth = person(store=store, issuer=new.issuer, client_id="mine", client_secret="second")
        await sign_in(server, auth)
        with pytest.raises(
            tc.AuthError, match="the server did not revoke the tokens"
        ):  # of the client of the old issuer
            await auth.logout(server.url)

    assert "second" in str(new.seen("token")) and "second" in str(new.seen("revoke"))
    assert "second" not in str(old.requests)


async def test_a_client_metadata_document_is_the_client_at_each_authorisation_server() -> None:
    document = "https://app.example/client.json"
    async with AuthorizationServer(client_metadata_documents=True) as new, AuthorizationServer() as server:
        store, new.trusted = tc.MemoryTokenStore(), [server]
        server.change(client_metadata_documents=True)
        await sign_in(server, person(store=store, client_metadata_url=document))
        server.change(authorization_servers=(new.issuer,))
        server.trusted.append(new)
        server.revoke_all()
        await sign_in(server, person(store=store, client_metadata_url=document))

    for each in (server, new):
        assert [request.params["client_id"] for request in each.seen("authorize")] == [document]
        assert not each.counters["register"]


async def test_a_configured_client_is_not_shown_to_another_authorisation_server() -> None:
    async with AuthorizationServer() as new, AuthorizationServer() as server:
        server.add_client("mine", "client_secret_basic", secret="s", redirect_uris=("http://127.0.0.1/callback",))
        auth = person(client_id="mine", client_secret="s")
        await sign_in(server, auth)
        server.change(authorization_servers=(new.issuer,))
        server.revoke_all()
        with pytest.raises(tc.AuthError, match="client_id: bound to the issuer"):
            await sign_in(server, auth)

    assert not new.counters["authorize"] + new.counters["token"]


async def test_a_configured_client_stays_bound_to_its_issuer_when_the_registered_one_is_forgotten() -> None:
    async with AuthorizationServer() as new, AuthorizationServer() as server:
        for each in (server, new):
            each.add_client("mine", "client_secret_basic", secret="s", redirect_uris=("http://127.0.0.1/callback",))
        store, mine = tc.MemoryTokenStore(), {"client_id": "mine", "client_secret": "s"}
        await sign_in(server, person(store=store))
        await sign_in(server, person(store=store, **mine))
        server.prune_clients()
        server.expire_tokens()
        await sign_in(server, person(store=store))
        server.change(authorization_servers=(new.issuer,))
        server.revoke_all()
        with pytest.raises(tc.AuthError, match="client_id: bound to the issuer"):
            await sign_in(server, person(store=store, **mine))

    assert server.counters["register"] == 2
    assert not new.counters["authorize"] + new.counters["token"]


@pytest.mark.parametrize("documents", ["oauth", "none"])
async def test_servers_of_the_first_revision_have_their_authorisation_server_at_the_origin(documents: Any) -> None:
    behaviour = {"resource_metadata": "none", "requires_resource": False, "server_metadata": documents}
    async with AuthorizationServer(**behaviour, iss="absent") as server:
        server.change(iss_advertised=False)
        await sign_in(server, mode="legacy")

    assert server.seen("authorize")[0].params["resource"] == server.url


async def test_a_client_of_the_modern_era_needs_resource_metadata_for_its_first_sign_in() -> None:
    async with AuthorizationServer(resource_metadata="none", requires_resource=False) as server:
        with pytest.raises(tc.AuthError, match="publishes no resource metadata"):
            await sign_in(server, mode="2026-07-28")

    assert not server.seen("metadata")


@pytest.mark.parametrize("mode", ["auto", "2026-07-28"])
async def test_modern_servers_need_resource_metadata(mode: str) -> None:
    async with (
        AuthorizationServer(refresh_tokens="none") as server,
        tc.Client(server.url, auth=person(), mode=mode) as client,
    ):
        server.change(resource_metadata="none")
        server.revoke_all()
        server.requests.clear()
        with pytest.raises(tc.AuthError, match="publishes no resource metadata"):
            await client.call_tool("echo", {"text": "hi"})

    assert not server.seen("metadata")


async def test_a_server_that_never_had_resource_metadata_needs_none_for_a_later_sign_in() -> None:
    async with (
        AuthorizationServer(resource_metadata="none") as server,
        tc.Client(server.url, auth=person()) as client,
    ):
        server.revoke_all()
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"

    assert server.counters["authorize"] == 2
