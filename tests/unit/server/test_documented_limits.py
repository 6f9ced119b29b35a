"""The limits that SECURITY.md and the guide promise are those of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib.protocol import limits
from toolcrib.server import eras, quota, requests, suspended_calls
from toolcrib.server.serving import (
    asgi,
    legacy_http,
    legacy_sse,
    server_requests,
    sessions,
    sse_stream,
    stdio,
    stream_session,
)

ROOT = Path(__file__).parents[3]
SECURITY, GUIDE = ((ROOT / name).read_text() for name in ("SECURITY.md", "docs/servers.md"))
MIB = 1024 * 1024


@pytest.mark.parametrize(
    "page, promise, value, promised",
    [
        (SECURITY, "Bodies are limited to 4 MiB, a depth of 128 and 30 seconds", asgi.MAX_BODY, 4 * MIB),
        (SECURITY, "a depth of 128", limits.MAX_DEPTH, 128),
        (SECURITY, "128 and 30 seconds", asgi.BODY_TIMEOUT, 30.0),
        (SECURITY, "10,000 listens", quota.MAX_LISTENS, 10_000),
        (SECURITY, "32 MiB (of one", quota.MAX_SUBSCRIPTION_BYTES, 32 * MIB),
        (SECURITY, "1,000 and 8 MiB", quota.MAX_LISTENS_PER_PRINCIPAL, 1_000),
        (SECURITY, "1,000 and 8 MiB", quota.MAX_PRINCIPAL_BYTES, 8 * MIB),
        (SECURITY, "suspended calls to 1,000 and 64 MiB", suspended_calls.MAX_SUSPENDED, 1_000),
        (SECURITY, "suspended calls to 1,000 and 64 MiB", suspended_calls.MAX_BYTES, 64 * MIB),
        (SECURITY, "(of one principal 100)", suspended_calls.MAX_EACH, 100),
        (SECURITY, "older than ten minutes", suspended_calls.TTL, 600.0),
        (GUIDE, "one message over stdio: 16 MiB", limits.MAX_MESSAGE, 16 * MIB),
        (GUIDE, "10,000 (`max_sessions`)", sessions.MAX_SESSIONS, 10_000),
        (GUIDE, "after 30 minutes (`session_ttl`)", sessions.IDLE_TTL, 1_800.0),
        (GUIDE, "over SSE 1,000", legacy_sse.MAX_SESSIONS, 1_000),
        (GUIDE, "capabilities: 64 KiB", eras.MAX_CLIENT_INFO, 64 * 1024),
        (GUIDE, "10,000 (`max_listens`), of one principal 1,000", quota.MAX_LISTENS, 10_000),
        (GUIDE, "over stdio or SSE 256 for one client", limits.MAX_INBOUND, 256),
        (GUIDE, "5,000 URIs of at most 8,192 characters, 4 MiB", quota.MAX_SUBSCRIBED_URIS, 5_000),
        (GUIDE, "5,000 URIs of at most 8,192 characters, 4 MiB", quota.MAX_URI, 8_192),
        (GUIDE, "5,000 URIs of at most 8,192 characters, 4 MiB", quota.MAX_SUBSCRIBER_BYTES, 4 * MIB),
        (GUIDE, "256 and 64 MiB; 1,024 more wait, up to 128 MiB", stream_session.MAX_BYTES_AT_WORK, 64 * MIB),
        (GUIDE, "256 and 64 MiB; 1,024 more wait, up to 128 MiB", stream_session.MAX_WAITING, 1_024),
        (GUIDE, "256 and 64 MiB; 1,024 more wait, up to 128 MiB", stream_session.MAX_HELD_BYTES, 128 * MIB),
        (GUIDE, "over SSE 256 MiB of all clients", legacy_sse.MAX_HELD_BYTES, 256 * MIB),
        (GUIDE, "256; 256 MiB in all sessions", sessions.MAX_RUNNING, 256),
        (GUIDE, "256; 256 MiB in all sessions", legacy_http.MAX_DETACHED_BYTES, 256 * MIB),
        (GUIDE, "| requests of tools that wait for one client's answer | 256", server_requests.MAX_QUESTIONS, 256),
        (GUIDE, "| messages in one batch | 100 |", requests.MAX_BATCH, 100),
        (GUIDE, "over stdio and SSE 4 MiB", stdio.MAX_UNREAD_BYTES, 4 * MIB),
        (GUIDE, "over stdio and SSE 4 MiB", legacy_sse.MAX_UNREAD_BYTES, 4 * MIB),
        (GUIDE, "over HTTP 64 messages or 1 MiB a stream", sse_stream.BACKLOG, 64),
        (GUIDE, "its last 512 events or 1 MiB", sse_stream.KEPT_EVENTS, 512),
        (GUIDE, "its last 512 events or 1 MiB", sse_stream.KEPT_BYTES, MIB),
        (GUIDE, "the last 4,096 or 32 MiB, for 60 seconds", sessions.KEPT_STREAMS, 4_096),
        (GUIDE, "the last 4,096 or 32 MiB, for 60 seconds", sessions.KEPT_BYTES, 32 * MIB),
        (GUIDE, "the last 4,096 or 32 MiB, for 60 seconds", sessions.KEPT_SECONDS, 60.0),
    ],
)
def test_a_promised_limit_is_the_limit(page: str, promise: str, value: float, promised: float) -> None:
    assert promise in " ".join(page.split())
    assert value == promised
