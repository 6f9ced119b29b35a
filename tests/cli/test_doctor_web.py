"""`toolcrib doctor` on servers behind a URL: every way in which a URL can be wrong, with a fix for each."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.cli.kit import Ran, in_background, run_cli
from tests.faults.http_kit import Certificates, closed_port, make_certificates, unreachable
from tests.serving import served

math = tc.ToolServer("math", version="1.2.3")


@math.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def page(status: int, body: bytes, kind: str = "text/html", more: Mapping[str, str] | None = None) -> Any:
    """A server that gives every request the same answer."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = {"content-type": kind, "content-length": str(len(body)), **(more or {})}
        lines = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": lines})
        await send({"type": "http.response.body", "body": body})

    return app


def doctor(folder: Path, *urls: str, env: Mapping[str, str] | None = None, patience: float = 10, **more: Any) -> Ran:
    """The settings have these URLs as `web`, `web-2`, ..., all with `more`."""
    names = ["web", *(f"web-{number}" for number in range(2, len(urls) + 1))]
    servers = {name: {"url": url, **more} for name, url in zip(names, urls, strict=True)}
    file = folder / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    file.chmod(0o600)
    return run_cli("doctor", "--json", "--timeout", str(patience), cwd=folder, env=env)


def facts(ran: Ran, server: str = "web") -> dict[str, Any]:
    (checkup,) = [each for each in ran.json["servers"] if each["server"] == server]
    return dict(checkup)


def steps(ran: Ran, server: str = "web") -> dict[str, dict[str, Any]]:
    return {each["step"]: each for each in facts(ran, server)["steps"]}


@pytest.mark.parametrize("path", ["/mcp", "/elsewhere"])
def test_a_server_that_is_well_has_every_step(tmp_path: Path, path: str) -> None:
    with in_background(served(math.asgi(path=path))) as origin:
        ran = doctor(tmp_path, origin + path)
    assert ran.code == 0
    found = steps(ran)
    assert list(found) == ["settings", "address", "port", "connects", "protocol", "answers", "tools"]
    assert {each["verdict"] for each in found.values()} == {"ok"}
    assert "math 1.2.3" in found["protocol"]["text"]
    assert "1 tool," in found["tools"]["text"]


def test_a_closed_port_and_a_silent_port(tmp_path: Path) -> None:
    with in_background(unreachable()) as port:
        urls = (f"http://127.0.0.1:{closed_port()}/mcp", f"http://127.0.0.1:{port}/mcp")
        ran = doctor(tmp_path, *urls, patience=1)
    assert ran.code == 1
    assert "connection refused" in steps(ran)["port"]["text"]
    assert "start the server" in steps(ran)["port"]["fix"]
    assert "firewall" in steps(ran, "web-2")["port"]["fix"]


def test_a_host_without_an_address_is_reported(tmp_path: Path) -> None:
    ran = doctor(tmp_path, "https://no-such-host.invalid/mcp")
    assert ran.code == 1
    assert list(steps(ran)) == ["settings", "address", "host"]
    assert "no-such-host.invalid has no address" in steps(ran)["host"]["text"]
    assert "spelling" in steps(ran)["host"]["fix"]


@pytest.mark.parametrize(
    "status, challenge, fix",
    [(401, 'Bearer realm="crib"', "Bearer ${TOKEN}"), (401, "Basic", "Basic ${"), (403, "", "that allow it")],
)
def test_the_credentials_that_it_wants_are_reported(tmp_path: Path, status: int, challenge: str, fix: str) -> None:
    more = {"www-authenticate": challenge} if challenge else {}
    with in_background(served(page(status, b"no", more=more))) as origin:
        ran = doctor(tmp_path, origin + "/mcp")
    found = steps(ran)["connects"]
    assert (ran.code, found["verdict"]) == (1, "error")
    assert f"HTTP {status}" in found["text"]
    assert challenge in found["text"]
    assert fix in found["fix"]


def test_a_server_that_wants_an_oauth_sign_in_is_reported_as_such(tmp_path: Path) -> None:
    challenge = 'Bearer resource_metadata="http://127.0.0.1:9/.well-known/oauth-protected-resource"'
    with in_background(served(page(401, b"no", more={"www-authenticate": challenge}))) as origin:
        ran = doctor(tmp_path, origin + "/mcp")
    found = steps(ran)["connects"]
    assert "it requires an OAuth sign-in (HTTP 401)" in found["text"]
    assert found["fix"] == "see the step resource"  # its metadata cannot be used


@pytest.mark.parametrize("place", ["", "/mcp"])
def test_metadata_for_oauth_are_found_though_the_challenge_does_not_name_them(tmp_path: Path, place: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == f"/.well-known/oauth-protected-resource{place}":
            body = json.dumps({"resource": "x", "authorization_servers": ["https://auth.example"]}).encode()
            await page(200, body, "application/json")(scope, receive, send)
        else:
            await page(401, b"no", more={"www-authenticate": "Bearer"})(scope, receive, send)

    with in_background(served(app)) as origin:
        ran = doctor(tmp_path, origin + "/mcp")
    found = steps(ran)["connects"]
    assert "it requires an OAuth sign-in" in found["text"]
    assert found["fix"] == "see the step resource"  # its metadata cannot be used


def test_a_credential_that_the_server_repeats_is_not_shown(tmp_path: Path) -> None:
    with in_background(served(page(400, b"unknown token do-not-show-this", "text/plain"))) as origin:
        ran = doctor(tmp_path, origin + "/mcp", headers={"Authorization": "Bearer do-not-show-this"})
    assert ran.code == 1
    assert "unknown token" in steps(ran)["connects"]["text"]
    assert "do-not-show" not in ran.out + ran.err


@pytest.mark.parametrize("status", [200, 404, 405, 501])
def test_a_page_that_is_not_an_mcp_server_is_reported(tmp_path: Path, status: int) -> None:
    with in_background(served(page(status, b"<html>Welcome</html>"))) as origin:
        ran = doctor(tmp_path, origin + "/mcp")
    assert ran.code == 1
    found = steps(ran)["connects"]
    assert "which usually ends in /mcp" in found["fix"]
    assert f"HTTP {status}" in found["text"] and "Welcome" not in found["text"]


def test_an_unhealthy_server_is_reported_as_such(tmp_path: Path) -> None:
    with in_background(served(page(500, b"oops", "text/plain"))) as origin:
        ran = doctor(tmp_path, origin + "/mcp")
    assert "ask its operator" in steps(ran)["connects"]["fix"]


def test_the_url_of_the_site_leads_to_that_of_its_server(tmp_path: Path) -> None:
    with in_background(served(math.asgi())) as origin:
        ran = doctor(tmp_path, origin + "/", origin + "/docs")
        assert ran.code == 1
        for server in ("web", "web-2"):
            assert f"an MCP server answers at {origin}/mcp" in steps(ran, server)["connects"]["fix"]


def test_a_server_of_the_other_kind_is_reported_in_both_directions(tmp_path: Path) -> None:
    with (
        in_background(served(math.asgi(path="/sse", transport="sse"))) as old,
        in_background(served(math.asgi())) as new,
    ):
        given_as_http = doctor(tmp_path, old + "/sse", old + "/", type="http")
        given_as_sse = doctor(tmp_path, new + "/mcp", type="sse")
        fine = doctor(tmp_path, old + "/sse", type="sse")
    first, second = [each for each in facts(given_as_http)["steps"] if each["step"] == "connects"]
    assert (first["verdict"], second["verdict"], facts(given_as_http)["tools"]) == ("warning", "ok", 1)
    assert "set type to sse" in first["fix"]
    assert f"{old}/sse: use that as url, with type sse" in steps(given_as_http, "web-2")["connects"]["fix"]
    assert "set type to http" in steps(given_as_sse)["connects"]["fix"]
    assert (fine.code, given_as_http.code, given_as_sse.code) == (0, 1, 1)


@pytest.mark.parametrize(
    "headers, verdict", [({}, "warning"), ({"Authorization": "Bearer ${HOME}"}, "error")], ids=["plain", "credentials"]
)
def test_plain_http_to_another_machine_is_reported(tmp_path: Path, headers: dict[str, str], verdict: str) -> None:
    ran = doctor(tmp_path, "http://no-such-host.invalid/mcp", headers=headers)
    assert steps(ran)["address"]["verdict"] == verdict
    assert "use https://no-such-host.invalid/mcp" in steps(ran)["address"]["fix"]


def test_a_proxy_takes_the_place_of_host_and_port(tmp_path: Path) -> None:
    proxy = f"http://user:do-not-show-this@127.0.0.1:{closed_port()}"
    ran = doctor(tmp_path, "https://no-such-host.invalid/mcp", env={"HTTPS_PROXY": proxy})
    assert ran.code == 1
    assert "through the proxy" in steps(ran)["host"]["text"]
    assert steps(ran)["connects"]["verdict"] == "error"
    assert "do-not-show" not in ran.out + ran.err


# ---- TLS -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@asynccontextmanager
async def tls_place(certificates: Certificates, name: str) -> AsyncIterator[int]:
    """The port of a place that speaks TLS with this certificate, and nothing more."""

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    context = certificates.server_context(name)
    async with await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    "name, ca, verdict, words",
    [
        ("server", None, "error", "set ca in the settings to the authority's PEM file"),
        ("own", None, "error", "set ca in the settings to the authority's PEM file"),
        ("other", "ca.pem", "error", "use a host name that the certificate is valid for"),
        ("server", "ca.pem", "warning", "have it renewed"),
        ("server", "gone.pem", "error", "a PEM file"),
    ],
)
def test_a_certificate_that_cannot_be_trusted_is_reported_with_the_remedy(
    tmp_path: Path, certificates: Certificates, name: str, ca: str | None, verdict: str, words: str
) -> None:
    more = {} if ca is None else {"ca": certificates.path(ca)}
    with in_background(tls_place(certificates, name)) as port:
        ran = doctor(tmp_path, f"https://127.0.0.1:{port}/mcp", **more)
    assert ran.code == 1  # that it hangs up afterwards is an error too
    found = steps(ran)["tls"]
    assert found["verdict"] == verdict
    assert words in found["fix"]


def test_https_to_a_port_that_speaks_plain_http_is_reported(tmp_path: Path) -> None:
    with in_background(served(math.asgi())) as origin:
        ran = doctor(tmp_path, origin.replace("http:", "https:") + "/mcp")
        assert f"use {origin};" in steps(ran)["tls"]["fix"]
    assert ran.code == 1


def test_a_certificate_that_is_not_verified_is_reported(tmp_path: Path) -> None:
    ran = doctor(tmp_path, "https://no-such-host.invalid/mcp", verify=False)
    assert "not verified" in steps(ran)["address"]["text"]
