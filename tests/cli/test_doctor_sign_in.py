"""`toolcrib doctor` for servers that require a sign-in: each step of the discovery, and the stored tokens."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.cli.kit import in_background, run_cli, write_settings
from tests.oauth.authorization_server import AuthorizationServer
from tests.oauth.person import agree


def doctor(folder: Path, server: AuthorizationServer, **entry: Any) -> dict[str, dict[str, Any]]:
    write_settings(folder, {"web": {"url": server.url, **entry}})
    (report,) = [each for each in run_cli("doctor", "--json", cwd=folder).json["servers"] if each["server"] == "web"]
    return {each["step"]: each for each in report["steps"]}


def test_each_step_of_the_discovery_is_shown(tmp_path: Path) -> None:
    with in_background(AuthorizationServer()) as server:
        found = doctor(tmp_path, server)

    assert found["connects"]["verdict"] == "error"
    assert found["resource"] == {
        "step": "resource",
        "verdict": "ok",
        "text": f"{server.resource}; scopes: mcp:read mcp:write",
    }
    assert found["issuer"]["text"] == f"{server.issuer}: registers clients"
    assert found["sign-in"] == {"step": "sign-in", "verdict": "skipped", "text": "no tokens are stored"}
    assert not server.counters["register"]


@pytest.mark.parametrize(
    "behaviour, entry, step, verdict, text, fix",
    [
        ({"resource": "https://other.example/mcp"}, {}, "resource", "error", "expected the resource", "operator"),
        ({"authorization_servers": ()}, {}, "resource", "error", "name no authorization_servers", "add them"),
        ({"claimed_issuer": "https://x.example"}, {}, "issuer", "error", "expected the issuer", "correct"),
        ({"server_metadata": "none"}, {}, "issuer", "error", "publishes no metadata", "correct"),
        ({"metadata_answer": "unavailable"}, {}, "issuer", "error", "not available (HTTP 503)", "try again later"),
        ({"pkce": "none"}, {}, "issuer", "error", "does not state that it supports PKCE", "assume_pkce = true"),
        ({"pkce": "none"}, {"oauth": {"assume_pkce": True}}, "issuer", "ok", "registers clients", ""),
        ({"registration": False}, {}, "issuer", "error", "registers no clients by itself", "set client_id in oauth"),
        ({"registration": False}, {"oauth": {"client_id": "a"}}, "issuer", "ok", "the client_id of the settings", ""),
    ],
)
def test_a_step_that_fails_has_a_fix(
    behaviour: dict[str, Any], entry: dict[str, Any], step: str, verdict: str, text: str, fix: str, tmp_path: Path
) -> None:
    with in_background(AuthorizationServer(**behaviour)) as server:
        found = doctor(tmp_path, server, **entry)[step]

    assert found["verdict"] == verdict
    assert text in found["text"]
    assert fix in found.get("fix", "")


async def _sign_in(url: str, folder: Path) -> None:
    async with tc.Client(url, auth=tc.OAuth(interact=agree, store=tc.FileTokenStore(folder))):
        pass


def test_a_stored_sign_in_is_used(tmp_path: Path) -> None:
    with in_background(AuthorizationServer()) as server:
        folder = tmp_path / ".config" / "toolcrib" / "tokens"
        asyncio.run(_sign_in(server.url, folder))
        found = doctor(tmp_path, server)

    assert found["connects"]["verdict"] == "ok"
    assert "resource" not in found and "sign-in" not in found
