"""Helpers of the fault tests over HTTP: servers and proxies, certificates, an authorisation provider."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import subprocess
import time
import tracemalloc
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import toolcrib as tc
from tests.faults.http_proxy import FINE, Fault, FaultProxy, ForwardProxy
from tests.faults.http_server import BadWebServer
from tests.faults.http_wire import listening
from tests.faults.kit import FAST, Ledger, Outcome, eventually

MIB = 1 << 20
OF_THE_CONFIG = {"headers", "streamable", "ca", "client_cert", "proxy", "verify", "max_connections"}
"""Keywords of `Web.client` that belong to the server's config."""


class Web:
    """The servers, proxies and clients of one test. At its end every connection must be closed and no rule broken."""

    def __init__(self) -> None:
        self.servers: list[BadWebServer] = []
        self.lines: list[FaultProxy | ForwardProxy] = []
        self.clients: list[tc.Client] = []

    async def server(self, **options: Any) -> BadWebServer:
        self.servers.append(await BadWebServer(**options).start())
        return self.servers[-1]

    async def line(self, server: BadWebServer, plan: Callable[[int], Fault] = lambda number: FINE) -> FaultProxy:
        line = FaultProxy(server.port, plan)
        self.lines.append(line)
        await line.start()
        return line

    async def proxy(self, refusal: int | None = None) -> ForwardProxy:
        proxy = ForwardProxy(refusal)
        self.lines.append(proxy)
        await proxy.start()
        return proxy

    def client(self, to: BadWebServer | FaultProxy | str, **options: Any) -> tc.Client:
        """Return a client that is not connected yet; it is closed at the end of the test at the latest."""
        url = to if isinstance(to, str) else f"{to.origin}/mcp" if isinstance(to, FaultProxy) else to.url
        config = {name: options.pop(name) for name in OF_THE_CONFIG & set(options)}
        client = tc.Client(tc.HttpServer(url, **config), **{"reconnect": FAST, **options})
        self.clients.append(client)
        return client

    async def end(self) -> None:
        try:
            await asyncio.gather(*(client.close() for client in self.clients))
            await eventually(lambda: not [*self._open()], what="all connections closed")
        finally:
            for line in self.lines:
                await line.stop()
            for server in self.servers:
                await server.stop()
        breaches = [breach for server in self.servers for breach in server.breaches]
        assert not breaches, f"the client broke the protocol: {breaches[:5]}"

    def _open(self) -> Iterator[str]:
        for server in self.servers:
            yield from (f"{server.port}: connection {number}" for number in server.connections)
        for line in self.lines:
            yield from (f"{line.port}: connection {connection.number}" for connection in line.connections)


async def calls(ledger: Ledger, client: tc.Client, count: int, tool: str = "echo", **how: Any) -> list[Outcome]:
    """Start this many calls at once."""
    return await asyncio.gather(*(ledger.call(client, tool, **how) for _ in range(count)))


async def running(server: BadWebServer, count: int) -> None:
    """Wait until this many calls are being executed."""
    await eventually(lambda: len(server.in_call) == count, what=f"{count} calls in flight; {len(server.in_call)} are")


@contextlib.contextmanager
def bounded(memory: int, within: float) -> Iterator[None]:
    """Fail if the body takes more than this much memory or time."""
    tracemalloc.start()
    start = time.monotonic()
    try:
        yield
        took = time.monotonic() - start
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < memory, f"{peak / MIB:.0f} MiB"
    assert took < within, f"{took:.1f} s"


@contextlib.asynccontextmanager
async def unreachable() -> AsyncIterator[int]:
    """Yield a port that neither accepts nor refuses connections: its queue is full, so the kernel drops packets."""
    with listening(backlog=0) as listener, contextlib.ExitStack() as stack:
        port = listener.getsockname()[1]
        for _ in range(4):
            knocking = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            knocking.setblocking(False)
            knocking.connect_ex(("127.0.0.1", port))
        yield port


def closed_port() -> int:
    """Return a closed port."""
    with listening() as listener:
        return int(listener.getsockname()[1])


# ---- TLS


@dataclass(frozen=True)
class Certificates:
    """Files of a test authority, with certificates of a server and a client, and a self-signed certificate."""

    directory: Path

    def path(self, name: str) -> str:
        return str(self.directory / name)

    def server_context(self, name: str = "server", *, wants_client: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path(f"{name}.pem"), self.path(f"{name}.key"))
        if wants_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.path("ca.pem"))
        return context

    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.path("ca.pem"))


def make_certificates(directory: Path) -> Certificates:
    """Create certificates with the openssl command: keys in a repository would expire."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True, timeout=30)

    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    own = ("req", "-x509", *new, "-days", "2")
    openssl(*own, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Crib CA", "-addext", "keyUsage=keyCertSign")
    here = "subjectAltName=IP:127.0.0.1,DNS:localhost"
    openssl(*own, "-keyout", "own.key", "-out", "own.pem", "-subj", "/CN=localhost", "-addext", here)
    names = {"server": here, "client": "subjectAltName=DNS:client", "other": "subjectAltName=DNS:other.invalid"}
    for name, alternative in names.items():
        (directory / f"{name}.ext").write_text(
            f"{alternative}\nbasicConstraints=CA:FALSE\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
        )
        openssl("req", *new, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", f"{name}.ext")
        openssl("x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.pem")
    return Certificates(directory)


# ---- authorisation


class Provider:
    """Shaped like `httpx.Auth`: adds its token to a request, and after a 401 uses the next one, if there is any."""

    requires_response_body = True

    def __init__(self, *tokens: str, seconds: float = 0.0) -> None:
        self.tokens = [*tokens]
        self.seconds = seconds
        self.refreshes = 0

    async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        if self.tokens:
            request.headers["Authorization"] = f"Bearer {self.tokens[0]}"
        response = yield request
        if response.status_code != 401:
            return
        self.refreshes += 1
        await asyncio.sleep(self.seconds)
        if len(self.tokens) < 2:
            return
        del self.tokens[0]
        request.headers["Authorization"] = f"Bearer {self.tokens[0]}"
        yield request
