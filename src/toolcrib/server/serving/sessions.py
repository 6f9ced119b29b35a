"""Legacy sessions over HTTP: their owners, subscriptions and streams."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict, deque
from typing import Any, Final

from ...protocol.jsonrpc import Message, RequestId
from ...protocol.limits import MAX_INBOUND
from ..handler import Peer, RequestHandler
from ..quota import SubscriptionQuota
from ..subscriptions import Notifications, SessionSubscriptions
from ..suspended_calls import TTL
from .asgi import Refused
from .responses import Reply
from .server_requests import ServerRequests
from .sse_stream import SseStream

IDLE_TTL: Final = 30 * 60.0
"""Seconds without a request after which a session is closed."""
MAX_SESSIONS: Final = 10_000
KEPT_SECONDS: Final = 60.0
KEPT_BYTES: Final = 32 * 1024 * 1024
KEPT_STREAMS: Final = 4_096
"""Limits on the finished streams of an endpoint that are kept for clients that lost their connection."""
MAX_RUNNING: Final = MAX_INBOUND
"""Running requests of one session, including those that run on without their connection."""
STANDALONE: Final = 0
PRIMED: Final = "2025-11-25"
"""The first version whose clients can read an event without a message."""


class LegacySession:
    """The session of one legacy client."""

    def __init__(self, id: str, peer: Peer, handler: RequestHandler, quota: SubscriptionQuota) -> None:
        self.id = id
        self.peer = peer
        self.used = 0.0
        self.running: dict[RequestId, Reply] = {}
        self._primes = peer.version >= PRIMED
        self.streams: dict[int, SseStream] = {STANDALONE: SseStream(STANDALONE, primes=self._primes)}
        self._notifications = Notifications(self.streams[STANDALONE].offer)
        self.subscriptions = SessionSubscriptions(handler, self._notifications.notify, quota)
        self.server_requests = ServerRequests(self._push, TTL)
        self._last_stream = STANDALONE

    @property
    def busy(self) -> bool:
        """Whether a request is running, or a client reads the standalone stream."""
        return bool(self.running) or self.streams[STANDALONE].has_reader

    # ---- streams -----------------------------------------------------------------------------------------------

    def new_stream(self) -> SseStream:
        """Return a new stream for one request."""
        self._last_stream += 1
        stream = self.streams[self._last_stream] = SseStream(self._last_stream, primes=self._primes)
        return stream

    def forget(self, stream: SseStream) -> None:
        """Discard a stream that can no longer be resumed."""
        self.streams.pop(stream.number or STANDALONE, None)

    def _push(self, message: Message | list[Message]) -> None:
        self.streams[STANDALONE].push(message)

    async def close(self) -> None:
        """Cancel the running requests, and end the subscriptions and streams."""
        for running in list(self.running.values()):
            running.stop()
        self.server_requests.close()
        self._notifications.close()
        for stream in self.streams.values():
            stream.finish()
        await self.subscriptions.close()


class LegacySessions:
    """All sessions of an endpoint, the least recently used first."""

    def __init__(
        self, idle_ttl: float = IDLE_TTL, limit: int = MAX_SESSIONS, quota: SubscriptionQuota | None = None
    ) -> None:
        self._all: OrderedDict[str, LegacySession] = OrderedDict()
        self.idle_ttl = idle_ttl
        self._limit = limit
        self._quota = SubscriptionQuota() if quota is None else quota
        self._finished: deque[tuple[float, LegacySession, SseStream]] = deque()
        self._finished_bytes = 0

    def __len__(self) -> int:
        return len(self._all)

    def all(self) -> list[LegacySession]:
        """Return all sessions."""
        return list(self._all.values())

    def open(self, peer: Peer, handler: RequestHandler) -> tuple[LegacySession, list[LegacySession]]:
        """Return a new session, and the expired or evicted sessions, which the caller must close."""
        evicted = self.expired()
        if len(self._all) >= self._limit:
            idle = next((each for each in self._all.values() if not each.busy), None)
            if idle is None:
                raise Refused(503, "too many open sessions", headers=((b"retry-after", b"30"),))
            evicted.append(self._all.pop(idle.id))
        session = LegacySession(secrets.token_urlsafe(24), peer, handler, self._quota)
        peer.session = session.id
        self._all[session.id] = session
        self.touch(session)
        return session, evicted

    def find(self, id: str, principal: Any) -> LegacySession | None:
        """Return the session with this id, or None if it does not exist, has expired, or has another principal."""
        session = self._all.get(id)
        if session is None or session.peer.principal != principal or self._is_over(session):
            return None
        session.peer = session.peer.with_principal(principal)
        self.touch(session)
        return session

    def _is_over(self, session: LegacySession) -> bool:
        return not session.busy and session.used <= asyncio.get_running_loop().time() - self.idle_ttl

    def touch(self, session: LegacySession) -> None:
        """Mark a session as just used."""
        session.used = asyncio.get_running_loop().time()
        if session.id in self._all:
            self._all.move_to_end(session.id)

    def expired(self) -> list[LegacySession]:
        """Remove and return the sessions that have been idle for too long."""
        until = asyncio.get_running_loop().time() - self.idle_ttl
        removed: list[LegacySession] = []
        for session in list(self._all.values()):
            if session.used > until:
                break
            if session.busy:
                self.touch(session)
            else:
                removed.append(self._all.pop(session.id))
        return removed

    def keep(self, session: LegacySession, stream: SseStream) -> None:
        """Keep a finished stream for a while, so that it can be resumed; discards the oldest ones above the limits."""
        now = asyncio.get_running_loop().time()
        self._finished.append((now, session, stream))
        self._finished_bytes += stream.size
        while (
            self._finished_bytes > KEPT_BYTES
            or len(self._finished) > KEPT_STREAMS
            or now - self._finished[0][0] > KEPT_SECONDS
        ):
            _, owner, old = self._finished.popleft()
            self._finished_bytes -= old.size
            owner.forget(old)
            if not self._finished:
                break

    def drop(self, session: LegacySession) -> None:
        """Remove a session."""
        self._all.pop(session.id, None)

    def clear(self) -> list[LegacySession]:
        """Remove and return all sessions."""
        every = list(self._all.values())
        self._all.clear()
        return every
