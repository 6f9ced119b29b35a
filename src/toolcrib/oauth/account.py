"""The state of one sign-in in this process, shared by all connections and event loops."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Final

from ..errors import AuthError, ConfigError
from .authorization import AuthorizationAttempt
from .http import Fetch
from .stored_sign_in import StoredSignIn, TokenSet, storage_key
from .token_store import TokenStore
from .well_known import ServerMetadata

MAX_SIGN_INS: Final = 3
SIGN_IN_PERIOD: Final = 600.0
"""At most `MAX_SIGN_INS` sign-ins for the same scopes in this many seconds."""
MAX_SIGN_INS_OF_ALL_SCOPES: Final = 10
"""At most so many for any scopes: a server could name other ones each time."""
MAX_PENDING: Final = 16
"""Maximum number of pending attempts; the oldest are dropped."""
REFUSAL_PAUSE: Final = 60.0
"""Seconds after a refused consent in which no person is asked again."""


@dataclass(frozen=True, slots=True)
class ConnectionContext:
    """The parts of a connection that an authorisation needs."""

    server_url: str
    fetch: Fetch
    hold: Callable[[], AbstractContextManager[None]]
    """Pauses the deadlines of calls while a person is asked."""
    on_waiting: Callable[[str | None], None]
    """Called with the issuer when a person is asked, and with None when that has ended."""
    allow_legacy: bool = True
    """Whether the server may be one without resource metadata."""


@dataclass
class Account:
    """The sign-in of one account at one server."""

    server: str
    name: str
    store: TokenStore
    choose: Callable[[StoredSignIn], TokenSet | None] = lambda stored: next(iter(stored.token_sets_of(None)), None)
    """Returns the stored token set that fits the options of the provider."""
    tokens: TokenSet | None = None
    is_loaded: bool = False
    login_command: str = ""
    """The command line with which a person can sign in for this account; "" if there is none."""
    signed_in_with: str | None = field(default=None, repr=False)
    """The access token of the last sign-in in this process."""
    refresh_error: str = ""
    """The error with which the authorisation server has ended the last sign-in; "" if it has not."""
    _pending: list[AuthorizationAttempt] = field(default_factory=list)
    """Attempts whose URLs were given to the program, which will pass on the answers."""
    _sign_ins: list[tuple[float, frozenset[str]]] = field(default_factory=list)
    _refused: tuple[float, str] | None = None
    _writes: int = 0
    """Counts the beginnings and ends of writes: a read during which it changes is repeated."""
    _written: StoredSignIn | None = None
    """What the store held when it was last read or written."""
    _unwritten: StoredSignIn | None = None
    """A newer record, which is being written or could not be written."""

    @property
    def key(self) -> str:
        """The key in the store."""
        return storage_key(self.server, self.name)

    async def load(self) -> StoredSignIn:
        """Read the store, and take over its tokens if this process has older ones."""
        while True:
            writes = self._writes
            text = await self.store.load(self.key)
            if self._writes == writes:
                break  # otherwise another task has written the store meanwhile
        stored = StoredSignIn.from_text(text, self.server, self.name)
        if self._unwritten is not None and stored == self._written:
            stored = self._unwritten  # the refresh token in the store has been used
        else:
            self._written, self._unwritten = stored, None
        current = self.choose(stored)
        if current is None or self.tokens is None or current.access_token != self.tokens.access_token:
            self.tokens = current
        self.is_loaded = True
        return stored

    async def save(self, stored: StoredSignIn) -> None:
        """Use the new tokens, then write the store: if that fails, this process still has them."""
        self.tokens, self._unwritten = self.choose(stored), stored
        self._writes += 1
        await self.store.save(self.key, stored.to_text())
        self._writes += 1
        self._written, self._unwritten = stored, None

    async def delete(self) -> StoredSignIn | None:
        """Forget everything about this account at the server; return what was stored, None if it cannot be read."""
        async with self.lock():  # a renewal that runs now must not store new tokens afterwards
            stored: StoredSignIn | None = None
            with suppress(ConfigError):
                stored = await self.load()
            await self.store.delete(self.key)
            self._writes += 1
            self.tokens = self._unwritten = None
            self.refresh_error = ""
            self._pending.clear()
        return stored

    # ---- sign-ins --------------------------------------------------------------------------------------------

    def keep_pending(self, attempt: AuthorizationAttempt) -> AuthorizationAttempt:
        """Keep an attempt whose URL is given to the program; return an earlier one for the same, if there is one."""
        usable = [each for each in self._pending if not each.is_expired]
        same = self.find_pending(attempt.metadata, attempt.scopes)
        self._pending = usable if same is not None else [*usable[1 - MAX_PENDING :], attempt]
        return same or attempt

    def find_pending(self, metadata: ServerMetadata, scopes: tuple[str, ...]) -> AuthorizationAttempt | None:
        """Return the kept attempt for these scopes."""
        return next((each for each in self._pending if each.is_for(metadata, scopes)), None)

    def take_pending(self, answer: Mapping[str, str]) -> AuthorizationAttempt | None:
        """Return the attempt that this is the answer to, which ends it; else the last one, None if there is none.

        Anyone can send an answer with another state, which must not end an attempt.
        """
        found = next((each for each in self._pending if each.matches(answer)), None)
        if found is not None:
            self._pending.remove(found)
        return found or (self._pending[-1] if self._pending else None)

    def lock(self) -> AbstractAsyncContextManager[None]:
        """Return the lock around a change of the stored sign-in, between all processes."""
        return self.store.lock(self.key)

    def lock_sign_in(self) -> AbstractAsyncContextManager[None]:
        """Return the lock to hold while a person is asked: only one process asks. It does not block renewals."""
        return self.store.lock(f"{self.key}\nsign-in")  # account names have no line breaks

    def check_sign_in(self, scopes: tuple[str, ...]) -> None:
        """Raise `AuthError` if there were too many sign-ins for these scopes, or consent was just refused."""
        now = time.monotonic()
        if self._refused is not None and now - self._refused[0] < REFUSAL_PAUSE:
            left = REFUSAL_PAUSE - (now - self._refused[0])
            raise AuthError(f"{self._refused[1]}. No new sign-in is started for {left:.0f} s", status=401)
        self._sign_ins = [each for each in self._sign_ins if now - each[0] < SIGN_IN_PERIOD]
        minutes = f"{SIGN_IN_PERIOD / 60:.0f} minutes"
        if sum(each[1] == frozenset(scopes) for each in self._sign_ins) >= MAX_SIGN_INS:
            raise AuthError(
                f"{MAX_SIGN_INS} authorisations within {minutes} did not help; the server still rejects the tokens. "
                "Check the account and its permissions",
                status=401,
            )
        if len(self._sign_ins) >= MAX_SIGN_INS_OF_ALL_SCOPES:
            count = MAX_SIGN_INS_OF_ALL_SCOPES
            raise AuthError(
                f"the server has asked for {count} authorisations within {minutes}; it may ask again later. Set "
                "scopes= to all scopes that are needed",
                status=401,
            )

    def begin_sign_in(self, scopes: tuple[str, ...]) -> None:
        """Count a sign-in; raises `AuthError` as `check_sign_in` does."""
        self.check_sign_in(scopes)
        self._sign_ins.append((time.monotonic(), frozenset(scopes)))

    def refuse_sign_ins(self, reason: str) -> None:
        """Block sign-ins for `REFUSAL_PAUSE` seconds, because consent was refused."""
        self._refused = (time.monotonic(), reason)
