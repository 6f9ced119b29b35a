"""A client finds out where to sign in."""

from __future__ import annotations

from typing import Any

import pytest

import toolcrib as tc
from tests.oauth.authorization_server import AuthorizationServer
from tests.oauth.person import agree

WELL_KNOWN = "/.well-known/oauth-protected-resource"
OAUTH, OIDC = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"


def person(**given: Any) -> tc.OAuth:
    return tc.OAuth(**{"interact": agree, "store": tc.MemoryTokenStore(), **given})


async def sign_in(server: AuthorizationServer, auth: tc.OAuth | None = None, **options: Any) -> None:
    async with tc.Client(server.url, auth=auth or person(), **options) as client:
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"


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
    ],
)
async def test_the_named_resource_metadata_is_fetched_else_the_well_known_one(
    place: Any, hint: bool, expected: list[str]
) -> None:
    async with AuthorizationServer(resource_metadata=place, resource_metadata_hint=hint) as server:
        await sign_in(server)

    assert paths(server) == [*expected, OAUTH]


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


@pytest.mark.parametrize("changes", [{}, {"metadata_changes": {"code_challenge_methods_supported": ["plain"]}}])
async def test_a_server_without_pkce_is_refused_unless_the_user_knows_better(changes: dict[str, Any]) -> None:
    async with AuthorizationServer(pkce="none", **changes) as server:
        with pytest.raises(tc.AuthError, match=r"OAuth\(assume_pkce=True\)"):
            await sign_in(server)
        assert not server.counters["register"] + server.counters["authorize"]

        await sign_in(server, person(assume_pkce=True))


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


@pytest.mark.parametrize("answer", ["redirect_away", "huge", "not_json", "deep", "array"])
async def test_metadata_that_cannot_be_used_is_an_error(answer: Any) -> None:
    async with AuthorizationServer(metadata_answer=answer) as server:
        with pytest.raises(tc.AuthError):
            await sign_in(server)

    assert not [each for each in server.requests if each.path.startswith("/moved/")]
    assert not server.counters["register"] + server.counters["token"]


async def test_metadata_may_redirect_to_the_same_origin() -> None:
    async with AuthorizationServer(metadata_answer="redirect") as server:
        await sign_in(server)


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


async def test_the_first_issuer_whose_metadata_fits_is_taken() -> None:
    async with AuthorizationServer() as server:
        server.change(authorization_servers=("{base}/nothing", "{base}"))
        await sign_in(server)


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


@pytest.mark.parametrize("documents", ["oauth", "none"])
async def test_servers_of_the_first_revision_have_their_authorisation_server_at_the_origin(documents: Any) -> None:
    behaviour = {"resource_metadata": "none", "requires_resource": False, "server_metadata": documents}
    async with AuthorizationServer(**behaviour, iss="absent") as server:
        server.change(iss_advertised=False)
        await sign_in(server, mode="legacy")

    assert server.seen("authorize")[0].params["resource"] == server.url


async def test_modern_servers_need_resource_metadata() -> None:
    async with (
        AuthorizationServer(refresh_tokens="none") as server,
        tc.Client(server.url, auth=person(), mode="2026-07-28") as client,
    ):
        server.change(resource_metadata="none")
        server.revoke_all()
        server.requests.clear()
        with pytest.raises(tc.AuthError, match="publishes no resource metadata"):
            await client.call_tool("echo", {"text": "hi"})

    assert not server.seen("metadata")
