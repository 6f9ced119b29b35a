"""The state of one sign-in in this process, shared by all connections and event loops."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from ..errors import AuthError
from .authorization import AuthorizationAttempt
from .http import Fetch
from .stored_sign_in import StoredSignIn, TokenSet, storage_key
from .token_store import TokenStore

MAX_SIGN_INS: Final = 3
SIGN_IN_PERIOD: Final = 600.0
"""At most `MAX_SIGN_INS` sign-ins for the same scopes in this many seconds."""
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
    pending: AuthorizationAttempt | None = None
    """An attempt whose URL was given to the program, which will pass on the answer."""
    _sign_ins: list[tuple[float, frozenset[str]]] = field(default_factory=list)
    _refused: tuple[float, str] | None = None
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
        stored = StoredSignIn.from_text(await self.store.load(self.key), self.server, self.name)
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
        await self.store.save(self.key, stored.to_text())
        self._written, self._unwritten = stored, None

    async def delete(self) -> StoredSignIn:
        """Forget everything about this account at the server; return what was stored."""
        async with self.lock():  # a renewal that runs now must not store new tokens afterwards
            stored = await self.load()
            await self.store.delete(self.key)
            self.tokens = self.pending = self._unwritten = None
        return stored

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
        if sum(each[1] == frozenset(scopes) for each in self._sign_ins) >= MAX_SIGN_INS:
            raise AuthError(
                f"{MAX_SIGN_INS} authorisations within {SIGN_IN_PERIOD / 60:.0f} minutes did not help; the server "
                "still rejects the tokens. Check the account and its permissions",
                status=401,
            )

    def begin_sign_in(self, scopes: tuple[str, ...]) -> None:
        """Count a sign-in; raises `AuthError` as `check_sign_in` does."""
        self.check_sign_in(scopes)
        self._sign_ins.append((time.monotonic(), frozenset(scopes)))

    def refuse_sign_ins(self, reason: str) -> None:
        """Block sign-ins for `REFUSAL_PAUSE` seconds, because consent was refused."""
        self._refused = (time.monotonic(), reason)
