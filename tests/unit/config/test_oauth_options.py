"""The `oauth` field of remote servers: checks, masking, and the plain form."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from toolcrib.config import HttpServer, SseServer, secrets_of, server_from_json
from toolcrib.errors import ConfigError

URL = "https://h/mcp"
SECRET = "s3cret-of-the-client"
ALL: dict[str, Any] = {
    "client_id": "me",
    "client_secret": SECRET,
    "client_metadata_url": "https://me.example/client.json",
    "scopes": ["read", "write"],
    "issuer": "https://login.example",
    "redirect_uri": "http://localhost:3118/callback",
    "resource": "api://tools",
    "assume_pkce": True,
}


@pytest.mark.parametrize("kind", [HttpServer, SseServer])
@pytest.mark.parametrize("oauth", [{}, ALL, {"resource": None}, {"scopes": []}])
def test_options_come_back_from_json_copies_and_pickles(kind: Any, oauth: dict[str, Any]) -> None:
    server = kind(URL, oauth=oauth)
    assert server.to_dict()["oauth"] == oauth
    assert server_from_json(server.to_json()) == server
    assert copy.deepcopy(server) == pickle.loads(pickle.dumps(server)) == server
    assert hash(server) == hash(kind(URL, oauth=dict(oauth)))


def test_no_options_and_default_options_differ() -> None:
    assert HttpServer(URL).oauth is None and "oauth" not in HttpServer(URL).to_dict()
    assert HttpServer(URL, oauth={}) != HttpServer(URL)


def test_scopes_are_a_list_or_text_and_none_is_the_same_as_absent() -> None:
    oauth = HttpServer(URL, oauth={"scopes": " read  write read ", "client_id": None, "resource": False}).oauth
    assert oauth is not None and dict(oauth) == {"scopes": ("read", "write"), "resource": None}


def test_the_secret_is_masked_and_the_rest_is_shown() -> None:
    server = HttpServer(URL, oauth=ALL)
    assert SECRET not in repr(server) + repr(server.oauth) + str(server.oauth)
    assert "client_id='me'" in repr(server) and "scopes=['read', 'write']" in repr(server)
    assert secrets_of(server).mask(f"invalid_client: {SECRET}") == "invalid_client: <masked>"


@pytest.mark.parametrize(
    "oauth, key",
    [
        ({"client_id": ""}, "oauth.client_id"),
        ({"client_secret": 5}, "oauth.client_secret"),
        ({"client_metadata_url": "me.json"}, "oauth.client_metadata_url"),
        ({"scopes": 5}, "oauth.scopes"),
        ({"scopes": ["a b"]}, "oauth.scopes[0]"),
        ({"scopes": ["a", 'b"']}, "oauth.scopes[1]"),
        ({"issuer": "login.example"}, "oauth.issuer"),
        ({"redirect_uri": "localhost"}, "oauth.redirect_uri"),
        ({"resource": "no uri"}, "oauth.resource"),
        ({"resource": "https://x/#part"}, "oauth.resource"),
        ({"assume_pkce": "yes"}, "oauth.assume_pkce"),
        ({"clientid": "x"}, "oauth.clientid"),
        (True, "oauth"),
        ("oauth", "oauth"),
    ],
)
def test_a_wrong_option_is_named(oauth: Any, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        HttpServer(URL, oauth=oauth)
    assert caught.value.key == key and str(caught.value).startswith(f"{key}: ")


def test_a_misspelled_option_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="did you mean 'client_id'"):
        HttpServer(URL, oauth={"clientid": "x"})
