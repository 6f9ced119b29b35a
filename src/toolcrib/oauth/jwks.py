"""The public keys of an issuer (RFC 7517), which are fetched from the `jwks_uri` of its metadata.

Needs joserfc (the extra `oauth`). A request with a known key never waits for the issuer: keys are renewed in the
background. A request with an unknown key waits, but all of them together cause few requests to the issuer.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key
from joserfc.jws import JWSRegistry

from ..config import mask_urls
from ..errors import AuthError, ConnectError
from .http import JSON_HEADERS, Fetch, Headers, check_available, open_fetch, read_object
from .well_known import fetch_server_metadata

log = logging.getLogger("toolcrib.oauth")

MAX_KEYS: Final = 100
"""Keys of a key set that are read."""
MIN_FRESH_SECONDS: Final = 300.0
MAX_KEPT_SECONDS: Final = 24 * 3600.0
"""Seconds for which keys are used while the issuer cannot be reached."""
RENEWAL_SECONDS: Final = 3600.0
"""Seconds before the end of the life of keys at which their renewal begins at the latest."""
UNKNOWN_KEY_SECONDS: Final = 30.0
"""Seconds between two requests for keys that are not in the key set."""
RETRY_SECONDS: Final = 5.0
"""Seconds between two requests while no key is known."""
MAX_UNKNOWN: Final = 1_000
"""Ids of unknown keys that are remembered, each for `UNKNOWN_KEY_MEMORY_SECONDS`; they cause no further requests."""
UNKNOWN_KEY_MEMORY_SECONDS: Final = 60.0
FETCH_TIMEOUT: Final = 15.0
"""Seconds for all requests of one renewal."""
RSA_BYTES: Final = range(256, 2049)
"""Sizes of RSA keys that are accepted: at least 2,048 bits; larger ones than 16,384 bits would take too long."""
_MAX_AGE: Final = re.compile(r"(?:^|[,\s])max-age\s*=\s*\"?(\d{1,9})", re.IGNORECASE)
_NO_CACHE: Final = re.compile(r"(?:^|[,\s])no-(?:store|cache)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key with which an issuer's signatures are checked."""

    key: Key
    id: str
    """"" if it has none."""
    algorithm: str | None = None
    """The only algorithm that the issuer uses it with, if it states one."""

    def fits(self, algorithm: str) -> bool:
        """Return whether the key may be used with this algorithm."""
        if self.algorithm not in (None, algorithm):
            return False
        try:
            JWSRegistry.algorithms[algorithm].check_key(self.key)
        except JoseError:
            return False
        return True


def read_keys(document: Mapping[str, Any]) -> list[PublicKey]:
    """Return the keys of a key set that can be used to check signatures; all others are skipped."""
    items = document.get("keys")
    found = [_read_key(item) for item in items[:MAX_KEYS]] if isinstance(items, list) else []
    return [key for key in found if key is not None]


def _read_key(item: Any) -> PublicKey | None:
    if not isinstance(item, dict) or item.get("kty") not in ("RSA", "EC", "OKP") or "d" in item:
        return None
    id, algorithm, operations = item.get("kid", ""), item.get("alg"), item.get("key_ops", ["verify"])
    usable = item.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations
    if not usable or not isinstance(id, str) or not isinstance(algorithm, str | None):
        return None
    try:
        if item["kty"] == "RSA" and _size(item["n"]) not in RSA_BYTES:
            return None
        # Without certificates, of which nothing is checked or used.
        key = JWKRegistry.import_key({name: value for name, value in item.items() if not name.startswith("x5")})
        _ = key.public_key  # loads the key
    except Exception as exc:  # noqa: BLE001  # whatever a key contains, the others are used
        log.debug("skipped an unusable key of a key set: %r", exc)
        return None
    return PublicKey(key, id, algorithm)


def _size(number: str) -> int:
    return len(base64.urlsafe_b64decode(number + "=" * (-len(number) % 4)).lstrip(b"\0"))


def seconds_fresh(headers: Headers) -> float:
    """Return the seconds for which a response may be cached by its headers, between 5 minutes and 24 hours."""
    values = {name.lower(): value for name, value in headers}
    control = values.get("cache-control", "")
    seconds = 0.0
    if _NO_CACHE.search(control):
        pass
    elif (stated := _MAX_AGE.search(control)) is not None:
        age = values.get("age", "")
        seconds = float(stated[1]) - (float(age) if re.fullmatch(r"[0-9]{1,9}", age) else 0)
    elif "expires" in values:
        try:
            seconds = parsedate_to_datetime(values["expires"]).timestamp() - time.time()
        except (ValueError, OverflowError):
            seconds = 0.0
    return min(max(seconds, MIN_FRESH_SECONDS), MAX_KEPT_SECONDS)


class IssuerKeys:
    """The keys of one issuer, fetched when they are first needed and kept."""

    def __init__(
        self,
        issuer: str,
        *,
        allow_loopback: bool = False,
        fetch: Fetch | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._allow_loopback = allow_loopback
        self._fetch = fetch
        self._clock = clock
        self._keys: list[PublicKey] = []
        self._renew_at = 0.0
        self._usable_until = 0.0
        self._asked_at: float | None = None
        self._problem: str | None = None
        self._unknown: dict[str, float] = {}
        self._renewal: asyncio.Task[None] | None = None

    async def find(self, key_id: str, algorithm: str) -> list[PublicKey]:
        """Return the keys with this id that fit the algorithm; without an id, the only key that fits.

        Raises `ConnectError` if the issuer's keys cannot be fetched now.
        """
        found = self._known(key_id, algorithm)
        if found:
            if self._clock() >= self._renew_at and self._may_ask():
                self._renew()
            return found
        if self._is_renewing() or (self._may_ask() and not self._was_recently_unknown(key_id)):
            await asyncio.shield(self._renew())
            found = self._known(key_id, algorithm)
            if not found and self._problem is None:
                self._remember_unknown(key_id)
        # Without any key, no token is known to be wrong: another event loop may be fetching them.
        if not found and (self._problem is not None or self._clock() >= self._usable_until):
            problem = self._problem or "they have not been received yet"
            raise ConnectError(f"issuer {mask_urls(self._issuer)}: its keys cannot be fetched: {problem}")
        return found

    async def find_replaced(self, key_id: str, algorithm: str) -> list[PublicKey]:
        """Return the keys of `find` after asking the issuer again: it may have replaced a key under the same id.

        Empty if the issuer was asked a moment ago.
        """
        if not self._is_renewing() and not self._may_ask():
            return []
        await asyncio.shield(self._renew())
        return self._known(key_id, algorithm)

    def _known(self, key_id: str, algorithm: str) -> list[PublicKey]:
        if self._clock() >= self._usable_until:
            return []
        if key_id:
            return [key for key in self._keys if key.id == key_id and key.fits(algorithm)]
        fitting = [key for key in self._keys if key.fits(algorithm)]
        return fitting if len(fitting) == 1 else []

    # ---- when to ask the issuer ------------------------------------------------------------------------------------

    def _may_ask(self) -> bool:
        now = self._clock()
        pause = UNKNOWN_KEY_SECONDS if now < self._usable_until else RETRY_SECONDS
        return self._asked_at is None or now - self._asked_at >= pause

    def _was_recently_unknown(self, key_id: str) -> bool:
        since = self._unknown.get(key_id)
        return since is not None and self._clock() - since < UNKNOWN_KEY_MEMORY_SECONDS

    def _remember_unknown(self, key_id: str) -> None:
        self._unknown.pop(key_id, None)
        self._unknown[key_id] = self._clock()
        if len(self._unknown) > MAX_UNKNOWN:
            del self._unknown[next(iter(self._unknown))]

    # ---- asking it -------------------------------------------------------------------------------------------------

    def _is_renewing(self) -> bool:
        running = self._renewal
        return running is not None and not running.done() and running.get_loop() is asyncio.get_running_loop()

    def _renew(self) -> asyncio.Task[None]:
        """Return the task that fetches the keys, one for all requests that wait for them."""
        if self._renewal is None or not self._is_renewing():
            self._asked_at = self._clock()
            self._renewal = asyncio.get_running_loop().create_task(self._fetch_keys())
        return self._renewal

    async def _fetch_keys(self) -> None:
        try:
            async with asyncio.timeout(FETCH_TIMEOUT), open_fetch(self._fetch) as fetch:
                keys, fresh = await self._request_keys(fetch)
        except (AuthError, ConnectError) as exc:
            self._problem = exc.message
        except TimeoutError:
            self._problem = f"no complete answer within {FETCH_TIMEOUT:g} seconds"
        else:
            now = self._clock()
            self._keys, self._problem = keys, None
            self._renew_at = now + min(fresh, MAX_KEPT_SECONDS - RENEWAL_SECONDS)
            self._usable_until = now + MAX_KEPT_SECONDS
            return
        log.warning("issuer %s: its keys cannot be fetched: %s", mask_urls(self._issuer), self._problem)

    async def _request_keys(self, fetch: Fetch) -> tuple[list[PublicKey], float]:
        metadata = await fetch_server_metadata(fetch, self._issuer, allow_loopback=self._allow_loopback)
        if metadata is None or metadata.jwks_uri is None:
            raise AuthError("its metadata names no jwks_uri")
        status, headers, body = await fetch("GET", metadata.jwks_uri, JSON_HEADERS, b"")
        check_available(status, metadata.jwks_uri)
        document = read_object(body) if status == 200 else None
        keys = read_keys(document) if document is not None else []
        if not keys:
            raise AuthError(f"{mask_urls(metadata.jwks_uri)}: expected a key set with usable keys (HTTP {status})")
        return keys, seconds_fresh(headers)
