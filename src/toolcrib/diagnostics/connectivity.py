"""Checks the connection to a remote server step by step: scheme, name resolution, port, TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from typing import Final
from urllib.parse import SplitResult, urlsplit

from .._util.deadline import Deadline, Stopwatch
from .._util.net import is_loopback
from .._util.proxies import proxy_of_environment
from ..config import HttpServer, SseServer, mask_urls, secrets_of
from ..errors import ConfigError
from ..transports.http.network import tls
from .report import ServerReport

EXPIRES_SOON: Final = 14 * 24 * 3600
"""Seconds before the expiry of a certificate from which a warning is reported."""

Web = HttpServer | SseServer


async def examine_address(report: ServerReport, config: Web, deadline: Deadline) -> bool:
    """Check whether a connection to the server's URL is possible."""
    parts = urlsplit(config.url)
    _examine_scheme(report, config, parts)
    proxy = config.proxy or proxy_of_environment(config.url)
    if proxy is not None:
        report.fine("host", f"through the proxy {mask_urls(proxy)}")
        return True
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    return await _examine_host(report, host, port, deadline) and await _examine_port(
        report, config, host, port, deadline
    )


def _examine_scheme(report: ServerReport, config: Web, parts: SplitResult) -> None:
    secure = f"https://{parts.hostname}{parts.path}"
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        if not secrets_of(config).is_empty:
            text = "credentials are sent over plain http, where third parties can read them"
            report.broken("address", text, f"use {secure}, and change these credentials")
        else:
            text = "plain http: third parties can read and change the traffic"
            report.warn("address", text, f"use {secure}")
    elif parts.scheme == "https" and not config.verify:
        text = "its certificate is not verified: any server can impersonate it"
        report.warn("address", text, "remove verify = false; for a private certificate authority, set ca to its file")
    else:
        report.fine("address", mask_urls(config.url))


async def _examine_host(report: ServerReport, host: str, port: int, deadline: Deadline) -> bool:
    report.on_step("host")
    stopwatch = Stopwatch()
    try:
        async with asyncio.timeout(deadline.left()):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError:
        text = f"{host} was not resolved within {deadline.seconds:g} s"
        report.broken("host", text, "check the network connection and name resolution", stopwatch.seconds)
        return False
    except (OSError, UnicodeError) as exc:
        why = exc.strerror if isinstance(exc, OSError) and exc.strerror else "invalid host name"
        fix = "correct its spelling, or connect to the network (such as a VPN) that has it"
        report.broken("host", f"{host} has no address: {why}", fix, stopwatch.seconds)
        return False
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    if addresses != [host]:
        report.fine("host", ", ".join(addresses[:3]), stopwatch.seconds)
    return True


async def _examine_port(report: ServerReport, config: Web, host: str, port: int, deadline: Deadline) -> bool:
    report.on_step("port")
    stopwatch = Stopwatch()
    try:
        async with asyncio.timeout(deadline.left()):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        text = f"{host}:{port} did not answer within {deadline.seconds:g} s"
        fix = "check that the server runs there, and that no firewall blocks the connection"
        report.broken("port", text, fix, stopwatch.seconds)
        return False
    except OSError as exc:
        text = f"nothing listens at {host}:{port}: {_why(exc)}"
        report.broken("port", text, "start the server, or correct host and port in its url", stopwatch.seconds)
        return False
    writer.close()
    report.fine("port", f"{host}:{port} listens", stopwatch.seconds)
    return urlsplit(config.url).scheme != "https" or await _examine_tls(report, config, host, port, deadline)


async def _examine_tls(report: ServerReport, config: Web, host: str, port: int, deadline: Deadline) -> bool:
    report.on_step("tls")
    stopwatch = Stopwatch()
    try:
        context = tls(config)
        async with asyncio.timeout(deadline.left()):
            _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
    except ConfigError as exc:
        report.broken("tls", exc.message, f"use {exc.expected}", stopwatch.seconds)
        return False
    except ssl.SSLCertVerificationError as exc:
        report.broken("tls", f"not trusted: {exc.verify_message}", _trust_fix(exc, host), stopwatch.seconds)
        return False
    except OSError as exc:
        fix = f"if it speaks plain http, use http://{host}:{port}; if it requires a client certificate, set client_cert"
        report.broken("tls", f"no secure connection: {_why(exc)}", fix, stopwatch.seconds)
        return False
    certificate = writer.get_extra_info("peercert") or {}
    version = writer.get_extra_info("ssl_object").version()
    writer.close()
    left = _until_end(certificate.get("notAfter"))
    if left is not None and left < EXPIRES_SOON:
        report.warn("tls", f"its certificate expires in {left / 86400:.0f} days", "have it renewed", stopwatch.seconds)
    else:
        report.fine("tls", version or "TLS", stopwatch.seconds)
    return True


def _until_end(not_after: object) -> float | None:
    return ssl.cert_time_to_seconds(not_after) - time.time() if isinstance(not_after, str) else None


def _trust_fix(exc: ssl.SSLCertVerificationError, host: str) -> str:
    words = exc.verify_message.lower()
    if exc.verify_code in _ENDED:
        return "have the certificate renewed, or correct the clock of this machine"
    if "hostname" in words or "ip address" in words:
        return f"use a host name that the certificate is valid for, not {host}"
    return "if a private authority issued it, set ca in the settings to the authority's PEM file"


_ENDED: Final = (9, 10)
"""OpenSSL's codes for certificates that are not valid yet, or have expired."""


def _why(exc: OSError) -> str:
    if isinstance(exc, TimeoutError):
        return "no answer in time"
    if isinstance(exc, ConnectionRefusedError):
        return "connection refused"
    return exc.strerror or type(exc).__name__
