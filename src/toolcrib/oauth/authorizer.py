"""Adds tokens to the requests of one connection, and renews them once for all callers.

A valid token costs no lock, no await and no access to the store. Renewals and sign-ins run in tasks of their own: a
caller that is cancelled, or whose deadline passes, ends none of them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from copy import copy
from typing import Any, Final, Protocol

from .._util.cancellation import OwnCancellation
from .._util.futures import retrieve
from .._util.tasks import TaskSet, run_to_end
from ..config import mask_urls
from ..errors import AuthError, ToolcribError
from ..protocol.sanitize import one_line
from ..protocol.versions import MODERN_VERSIONS
from .account import Account
from .challenge import Challenge, parse_challenges
from .http import REQUEST_TIMEOUT
from .request_authorizer import Outgoing, Refusal
from .stored_sign_in import TokenSet

log = logging.getLogger("toolcrib.oauth")

BACKGROUND_PAUSE: Final = 10.0
"""Seconds between attempts to renew a token in the background."""
FORBIDDEN: Final = 403


class Flow(Protocol):
    """Obtains tokens: with a person, or for a program."""

    async def renew(self, used: TokenSet) -> TokenSet | None:
        """Return newer tokens than `used`; None if a new authorisation is needed."""
        ...

    async def sign_in(
        self, challenge: Challenge | None, used: TokenSet | None, *, more_scopes: bool, allow_legacy: bool
    ) -> TokenSet:
        """Return the tokens of a new authorisation."""
        ...


class Authorizer:
    """A `RequestAuthorizer` for the tokens of one account."""

    max_renewals = 3  # a token of another process, the refresh token, and a new authorisation before the third

    def __init__(self, account: Account, flow: Flow) -> None:
        self.rounds = 0
        self._account = account
        self._flow = flow
        self._tasks = TaskSet()
        self._running: dict[object, asyncio.Task[TokenSet | None]] = {}
        self._failed: tuple[object, AuthError] | None = None
        self._next_background = 0.0
        self._not_renewable: str | None = None
        """The access token whose renewal in the background was rejected; it is not tried again until it expires."""

    # ---- a token that is valid -------------------------------------------------------------------------------

    def current(
        self,
        method: str,  # noqa: ARG002  # proofs (DPoP) need both
        url: str,  # noqa: ARG002
        *,
        renew: bool = True,
    ) -> Mapping[str, str] | None:
        """Return the headers of the valid token; None if there is none yet."""
        tokens = self._account.tokens
        if tokens is None:
            return {} if self._account.is_loaded else None
        if tokens.expires_at is not None:
            now = time.time()
            if not tokens.is_valid(now):
                return None
            if renew and tokens.renew_at is not None and now >= tokens.renew_at and not tokens.is_new:
                self._renew_in_background(tokens)
        return tokens.headers

    def _renew_in_background(self, tokens: TokenSet) -> None:
        now = time.monotonic()
        if self._running or now < self._next_background or tokens.access_token == self._not_renewable:
            return
        self._next_background = now + BACKGROUND_PAUSE
        task = self._start(("renew", tokens.access_token), self._flow.renew(tokens))
        task.add_done_callback(lambda task: self._end_background(task, tokens))

    def _end_background(self, task: asyncio.Task[TokenSet | None], tokens: TokenSet) -> None:
        if not task.cancelled() and (exc := task.exception()) is not None:
            log.warning("the renewal of a token in the background failed: %s", mask_urls(str(exc)))
            if isinstance(exc, AuthError):
                self._not_renewable = tokens.access_token

    # ---- tokens that have to be obtained ---------------------------------------------------------------------

    async def headers(self, request: Outgoing) -> Mapping[str, str]:  # noqa: ARG002  # other providers sign it
        """Load the stored token, and renew it if it has expired. Empty if a sign-in is needed."""
        if not self._account.is_loaded:
            await self._join("load", self._load)
        tokens = self._account.tokens
        if tokens is None:
            return {}
        if tokens.is_valid(time.time()):
            return tokens.headers
        renewed = await self._join(("renew", tokens.access_token), lambda: self._flow.renew(tokens))
        return renewed.headers if renewed is not None else {}

    async def _load(self) -> TokenSet | None:
        await self._account.load()
        return self._account.tokens

    async def renew(
        self, request: Outgoing, refusal: Refusal, used: Mapping[str, str], since: int, attempt: int
    ) -> Mapping[str, str]:
        """Return the headers of another token than the one that the server rejected."""
        values = [value for name, value in refusal.headers if name.lower() == "www-authenticate"]
        challenge = parse_challenges(values)
        used_token = used.get("Authorization", "")
        lacking = challenge.scope if challenge is not None and refusal.status == FORBIDDEN else ()
        cause = (used_token, refusal.status, lacking, request.may_prompt)
        known = self._account.tokens
        if known is not None and known.headers["Authorization"] != used_token and known.is_valid(time.time()):
            if known.covers(lacking):
                return known.headers  # another call has renewed it
        elif self._failed is not None and self._failed[0] == cause and self.rounds > since:
            raise copy(self._failed[1])  # the same failed for another call, after this one was sent
        try:
            tokens = await self._obtain(request, refusal.status, challenge, known, attempt)
        except AuthError as exc:
            failure = copy(exc)
            failure.status = refusal.status
            failure.challenge = refusal.challenge
            self._failed = (cause, copy(failure))  # a copy, because the caller sets `tool` on it
            self.rounds += 1
            raise failure from exc.__cause__
        self.rounds += 1  # not if the caller was cancelled: the renewal is still running
        self._failed = None
        return tokens.headers

    async def _obtain(
        self, request: Outgoing, status: int, challenge: Challenge | None, known: TokenSet | None, attempt: int
    ) -> TokenSet:
        more_scopes = status == FORBIDDEN
        token = known.access_token if known is not None else None
        if known is not None and not more_scopes and (attempt == 1 or _has_aged(known)):
            # A refresh is never used to gain scopes.
            renewed = await self._join(("renew", token), lambda: self._flow.renew(known))
            if renewed is not None:
                return renewed
        is_from_sign_in = attempt > 1 and token is not None and token == self._account.signed_in_with
        if attempt == self.max_renewals or is_from_sign_in:
            raise AuthError("the server rejects new tokens too. Check the account and its permissions", status=status)
        if not request.may_prompt:
            raise AuthError("a person must sign in, and is not asked because of this request alone", status=status)
        allow_legacy = _may_be_legacy(request) or (known is not None and known.is_legacy)
        granted = await self._join(
            ("sign in", token, frozenset(challenge.scope) if challenge is not None and more_scopes else None),
            lambda: self._flow.sign_in(challenge, known, more_scopes=more_scopes, allow_legacy=allow_legacy),
        )
        assert granted is not None
        return granted

    async def _join(self, key: object, start: Callable[[], Coroutine[Any, Any, TokenSet | None]]) -> TokenSet | None:
        """Wait for the running task of this key; start it if there is none. All callers get the same outcome."""
        task = self._running.get(key)
        if task is None:
            task = self._start(key, start())
        cancellation = OwnCancellation()
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled() and not cancellation.cancelled_by_others():
                raise AuthError("the authorisation was cancelled, because the connection was closed") from None
            raise
        except ToolcribError as exc:
            raise copy(exc) from exc.__cause__
        except Exception as exc:  # noqa: BLE001
            # A function of the program, such as `interact`, may raise anything.
            words = mask_urls(str(exc))
            failure = AuthError(f"the authorisation failed: {type(exc).__name__}: {one_line(words)}")
            failure.__cause__ = exc if words == str(exc) else None
        raise failure  # outside the handler: `exc` may contain the authorisation URL

    def _start(self, key: object, work: Coroutine[Any, Any, TokenSet | None]) -> asyncio.Task[TokenSet | None]:
        task = self._tasks.create(work)
        task.add_done_callback(retrieve)
        self._running[key] = task
        task.add_done_callback(lambda _: self._running.pop(key, None))
        return task

    async def close(self) -> None:
        """Cancel renewals and sign-ins, and wait for token requests that were sent: flows complete them."""
        self._tasks.cancel()
        if self._tasks:
            # Not cancellable: the caller then closes the connections of these requests.
            await run_to_end(asyncio.wait(set(self._tasks), timeout=REQUEST_TIMEOUT))


def _has_aged(tokens: TokenSet) -> bool:
    """Return whether the token may have expired since it was obtained."""
    return not tokens.is_new or (tokens.expires_at is not None and time.time() >= tokens.expires_at)


def _may_be_legacy(request: Outgoing) -> bool:
    """Return whether the server may use the legacy protocol, which does not require resource metadata.

    The first request of a client that detects the era is `server/discover`.
    """
    headers = {name.lower(): value for name, value in request.headers.items()}
    is_modern = headers.get("mcp-protocol-version") in MODERN_VERSIONS
    return not is_modern or headers.get("mcp-method") == "server/discover"
