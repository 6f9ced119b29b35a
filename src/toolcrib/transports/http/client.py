"""The HTTP client: pooled connections, bounded bodies, restricted redirects, and typed errors for all failures."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp import ClientResponse, hdrs
from aiohttp.payload import Payload

from ..._util.proxies import proxy_of_environment
from ...config import HttpServer, SecretMask, SseServer, mask_urls
from ...errors import ConfigError, OutcomeUnknown, ProtocolError, ToolcribError
from ...oauth.request_authorizer import Outgoing, Refusal, RequestAuthorizer
from ...protocol.decompression import Decompressor
from ...protocol.limits import MAX_MESSAGE
from ...protocol.sanitize import one_line
from . import errors, network
from .address_guard import AddressGuard
from .auth import ForeignAuthorizer, same_headers
from .auth_requests import AuthRequests
from .errors import JSON
from .network import UNRESTRICTED, Egress

log = logging.getLogger("toolcrib.transports")

KEEP_ALIVE: Final = 4.0
"""Seconds that an idle connection is kept: less than servers keep it (uvicorn: 5), or calls fail on closing sockets."""
MAX_REDIRECTS: Final = 5
MAX_CONTENT_TYPE: Final = 1_000
"""Maximum length of the Content-Type of a response."""
ERROR_BODY: Final = 64 * 1024
PIECE: Final = 64 * 1024

EVENTS: Final = "text/event-stream"
ACCEPT: Final = f"{JSON}, {EVENTS}"


class Body:
    """A request's body. `sent` is True from the moment when its last piece is handed to the operating system."""

    __slots__ = ("data", "sent", "stale", "withdrawn")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.sent = False
        self.stale = False
        self.withdrawn = False


class _BodyPayload(Payload):
    """Writes a body piece by piece, so that it can be withdrawn in between: a server cannot run half a request."""

    _autoclose = True

    def __init__(self, body: Body, kept: network.Kept) -> None:
        super().__init__(body, content_type=JSON)
        self._size = len(body.data)
        self._kept = kept

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text."""
        return str(self._value.data, encoding, errors)

    async def write(self, writer: Any) -> None:
        """Write the body to the connection."""
        body: Body = self._value
        if self._kept.is_stale(writer.transport):
            # Only a reused connection can be stale; if a new one is dead, the server has closed it.
            body.stale = self._kept.has(writer.protocol)
            raise ConnectionResetError("the server had closed the connection")
        self._kept.keep(writer.protocol)
        transport = writer.transport
        try:
            for start in range(0, len(body.data), PIECE):
                if body.withdrawn:
                    raise ConnectionAbortedError("the request was withdrawn before it was written")
                body.sent = start + PIECE >= len(body.data)
                await writer.write(body.data[start : start + PIECE])
        except BaseException:
            # Discard the unsent data and the socket at once, even if the peer does not read.
            transport.abort()
            raise

    async def write_with_length(self, writer: Any, _length: int | None) -> None:
        """Write the body; its length is already set."""
        await self.write(writer)


class Chunks:
    """The decompressed pieces of a body. Not a generator: an unfinished generator needs a task to close it."""

    def __init__(self, response: ClientResponse, secrets: SecretMask) -> None:
        self._response = response
        self._secrets = secrets
        self._inflater = Decompressor(secrets.mask(response.headers.get(hdrs.CONTENT_ENCODING, "")))
        self._pieces: Iterator[bytes] = iter(())

    def __aiter__(self) -> Chunks:
        return self

    async def __anext__(self) -> bytes:
        while (piece := next(self._pieces, None)) is None:
            try:
                data = await self._response.content.readany()
            except (aiohttp.ClientError, OSError) as exc:
                raise _broken(self._response, exc, self._secrets) from errors.cause_of(exc, self._secrets)
            if not data:
                raise StopAsyncIteration
            self._pieces = self._inflater.feed(data)
        return piece


def _broken(response: ClientResponse, exc: Exception, secrets: SecretMask) -> OutcomeUnknown:
    return OutcomeUnknown(f"the answer broke off: {errors.words_of(exc, secrets)}", status=response.status)


def _may_renew(auth: RequestAuthorizer, response: ClientResponse, refusals: Counter[int]) -> bool:
    most = auth.max_renewals if response.status == 401 else 1
    return errors.is_refusal(response) and refusals[response.status] < most


def _authorizer_of(
    provider: Any,
    url: str,
    requests: AuthRequests,
    hold: Callable[[], AbstractContextManager[None]],
    secrets: SecretMask,
) -> RequestAuthorizer:
    if hasattr(provider, "async_auth_flow"):
        return ForeignAuthorizer(provider, requests.fetch_following, hold, secrets)
    authorizer: RequestAuthorizer = provider.connect(url, requests.fetch, hold)
    return authorizer


class HttpClient:
    """The HTTP connections to one server. `hold` pauses deadlines while a person authorises."""

    def __init__(
        self,
        server: HttpServer | SseServer,
        provider: Any,
        hold: Callable[[], AbstractContextManager[None]],
        secrets: SecretMask,
        egress: Egress = UNRESTRICTED,
    ) -> None:
        self.url = server.url
        self._secrets = secrets
        self._credentials: Mapping[str, str] = {}
        self._last_computed: Mapping[str, str] = {}
        if "@" in urlsplit(server.url).netloc and (
            provider is not None or "authorization" in map(str.lower, server.headers or ())
        ):
            raise ConfigError(
                "url: expected no user name, because other credentials are set. Remove one of them",
                key="url",
                expected="one of them",
            )
        self._fixed, self._header_functions = network.split_headers(server.headers or {})
        self._given_proxy = server.proxy
        self._is_direct = egress.direct
        self._proxy = self._proxy_for(server.url)
        self._guard: AddressGuard | None = None
        if egress.rules is not None:
            self._guard = AddressGuard(egress.rules, self._proxy if server.proxy is None else None)
        connector = aiohttp.TCPConnector(
            limit=0,
            keepalive_timeout=KEEP_ALIVE,
            ssl=network.tls(server),
            **(self._guard.connector_options() if self._guard is not None else {}),
        )
        self._http = aiohttp.ClientSession(
            connector=connector,
            # Default headers are faster, but aiohttp sends them to a proxy too: headers of the config must not be here.
            headers={"Accept": ACCEPT, **network.OWN},
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None),
            # A load balancer may bind the session to a machine by a cookie; cookies are sent only to this server.
            cookie_jar=aiohttp.CookieJar(unsafe=True),
            max_line_size=64 * 1024,
            max_field_size=64 * 1024,
        )
        self._kept = network.Kept()
        self._authorizer: RequestAuthorizer | None = None
        self._auth_requests: AuthRequests | None = None
        if provider is not None:
            self._auth_requests = AuthRequests(server, self._guard, self._proxy_for, secrets)
            self._authorizer = _authorizer_of(provider, server.url, self._auth_requests, hold, secrets)

    @property
    def sent_credentials(self) -> bool:
        """Whether the last request had credentials of an auth provider."""
        return bool(self._credentials)

    def _proxy_for(self, url: str) -> str | None:
        if self._is_direct:
            return None
        return self._given_proxy or proxy_of_environment(url)

    # ---- one exchange ----------------------------------------------------------------------------------------

    async def send(
        self,
        verb: str,
        headers: Mapping[str, str],
        body: Body | None = None,
        *,
        url: str | None = None,
        renew: bool = True,
        may_prompt: bool = True,
    ) -> ClientResponse:
        """Send a request and return the response, whose body the caller must read and release.

        Adds credentials, and renews them up to `max_renewals` times after a 401 and once after a 403. Without `renew`
        no renewal or authorisation is started: if there are no valid credentials, those of the last request are used.
        Without `may_prompt`, credentials are renewed only if that needs no person. Redirects are followed only on the
        same server.
        """
        at = url or self.url
        if self._fixed:
            headers = {**self._fixed, **headers}
        if self._header_functions:
            computed = await network.call_header_functions(self._header_functions)
            if computed != self._last_computed:
                self._last_computed = computed
                self._secrets.add_headers(computed)
            headers = {**headers, **computed}
        auth = self._authorizer
        used: Mapping[str, str] = {}
        if auth is not None:
            used = await self._credentials_for(auth, verb, at, headers, body, renew=renew, may_prompt=may_prompt)
            self._note(used)
        redirects = since = 0
        refusals: Counter[int] = Counter()
        while True:
            if auth is not None:
                since = auth.rounds
            response = await self._exchange(verb, at, network.with_credentials(headers, used), body)
            status = response.status
            if status < 300:
                return response
            if status < 400:
                at = await self._redirect_target(response, at, redirects)
                redirects += 1
            elif auth is not None and renew and _may_renew(auth, response, refusals):
                if body is not None:
                    body.sent = False  # the server rejected it
                challenge = errors.challenge_of(response, self._secrets)
                refusal = Refusal(status, list(response.headers.items()), challenge)
                await self._drain(response)
                refusals[status] += 1
                outgoing = self._outgoing(verb, at, headers, body, may_prompt)
                renewed = await auth.renew(outgoing, refusal, used, since, refusals[status])
                if not renewed or same_headers(renewed, used):
                    raise errors.auth_error(response, self._secrets)
                used = renewed
                self._note(used)
            else:
                return response

    async def _credentials_for(
        self,
        auth: RequestAuthorizer,
        verb: str,
        url: str,
        headers: Mapping[str, str],
        body: Body | None,
        *,
        renew: bool,
        may_prompt: bool,
    ) -> Mapping[str, str]:
        known = auth.current(verb, url, renew=renew)
        if known is None and renew:
            return await auth.headers(self._outgoing(verb, url, headers, body, may_prompt))
        return self._credentials if known is None else known

    def _outgoing(
        self, verb: str, url: str, headers: Mapping[str, str], body: Body | None, may_prompt: bool
    ) -> Outgoing:
        content = body.data if body is not None else b""
        return Outgoing(verb, url, {**self._http.headers, **headers}, content, may_prompt)

    def _note(self, credentials: Mapping[str, str]) -> None:
        """Mask these credentials, if they are not those of the last request."""
        if credentials != self._credentials:
            self._credentials = credentials
            self._secrets.add_headers(credentials)

    async def _exchange(self, verb: str, url: str, headers: Mapping[str, str], body: Body | None) -> ClientResponse:
        while True:
            if body is not None:
                body.sent = body.stale = False
            try:
                if self._guard is not None and self._proxy is not None:
                    await self._guard.check_proxied(url)
                response = await self._http.request(
                    verb,
                    url,
                    data=_BodyPayload(body, self._kept) if body is not None else None,
                    headers=headers,
                    allow_redirects=False,
                    proxy=self._proxy,
                )
                if len(response.headers.get(hdrs.CONTENT_TYPE, "")) > MAX_CONTENT_TYPE:
                    response.close()  # aiohttp would parse it in quadratic time
                    raise ProtocolError(
                        f"Content-Type: expected at most {MAX_CONTENT_TYPE:,} characters", status=response.status
                    )
                return response
            except (aiohttp.ClientError, OSError) as exc:
                failure = errors.of_failure(exc, self._secrets, sent=body is None or body.sent)
            # The server had closed the reused connection: nothing was written, so try another one at once.
            if body is None or not body.stale or body.withdrawn or self._http.closed:
                raise failure

    async def _redirect_target(self, response: ClientResponse, at: str, redirects: int) -> str:
        location = response.headers.get(hdrs.LOCATION, "")
        target, status = network.target_of(at, location), response.status
        await self._drain(response)
        shown = one_line(mask_urls(target), mask=self._secrets)
        if not target or status not in (307, 308) or not network.stays(at, target):
            raise ProtocolError(
                f"the server redirects to {shown or 'nowhere'} (HTTP {status}), which is not followed; "
                "if you trust the target, use its URL",
                status=status,
            )
        if redirects >= MAX_REDIRECTS:
            raise ProtocolError(f"more than {MAX_REDIRECTS} redirects, the last one to {shown}", status=status)
        if at == self.url and (status == 308 or target.rstrip("/") == at.rstrip("/")):
            self.url = target  # a permanent redirect, or only a slash: use the target for further requests
        return target

    async def _drain(self, response: ClientResponse) -> None:
        """Read the rest of a small body, so that the connection can be used again."""
        with contextlib.suppress(ToolcribError):
            await self.read(response, ERROR_BODY)
        response.release()

    # ---- reading ---------------------------------------------------------------------------------------------

    def chunks(self, response: ClientResponse) -> Chunks:
        """Return the pieces of the body as they arrive."""
        return Chunks(response, self._secrets)

    async def read(self, response: ClientResponse, limit: int = MAX_MESSAGE) -> bytes:
        """Read the whole body; raises `ProtocolError` above the limit."""
        content = response.content
        if content.is_eof() and content.total_bytes <= limit and hdrs.CONTENT_ENCODING not in response.headers:
            try:
                return content.read_nowait()  # the usual case: complete and not compressed
            except (aiohttp.ClientError, OSError) as exc:
                raise _broken(response, exc, self._secrets) from errors.cause_of(exc, self._secrets)
        pieces: list[bytes] = []
        size = 0
        async for piece in self.chunks(response):
            size += len(piece)
            if size > limit:
                response.close()
                raise ProtocolError(
                    f"an answer above the limit of {limit:,} bytes",
                    status=response.status,
                    content_type=one_line(response.content_type, mask=self._secrets),
                    sample=one_line(b"".join(pieces), mask=self._secrets, cut=True),
                )
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def refused(self, response: ClientResponse, *, in_session: bool = False) -> ToolcribError:
        """Return the error for a response with a status of 400 and above."""
        try:
            text = await self.read(response, ERROR_BODY)
        except ToolcribError as exc:
            log.debug("the body of an HTTP %d could not be read: %s", response.status, exc)
            text = b""
        return errors.of_status(response, text, self._secrets, in_session=in_session)

    async def close(self) -> None:
        """Close every connection."""
        try:
            if self._authorizer is not None:
                await self._authorizer.close()
        finally:
            if self._auth_requests is not None:
                await self._auth_requests.close()
            await self._http.close()
