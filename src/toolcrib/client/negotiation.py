"""Finds out which era a server supports, once per connection; the version is remembered for the next one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ..errors import ConnectError, ProtocolError, RemoteError
from ..protocol import versions
from ..protocol.metadata import stamp, with_meta
from ..protocol.sanitize import one_line
from ..protocol.versions import Era
from ..transports.channel import Channel, RequestOptions, mask_of
from ..types import ServerInfo, Wire

PROBE_SECONDS = 10.0
"""Seconds without an answer to `server/discover` after which `initialize` is sent too."""

MODES = ("auto", "legacy", *versions.MODERN_VERSIONS)


@dataclass(frozen=True, slots=True)
class Identity:
    """The client's name, version, capabilities and log level, as sent to the server."""

    info: Wire
    capabilities: Wire
    log_level: str | None = None


@dataclass(frozen=True, slots=True)
class Agreement:
    """The result of the negotiation: version, era, server information, and the `_meta` stamp of every request."""

    version: str
    era: Era
    server: ServerInfo
    stamp: Wire | None
    handshake: bool
    """Whether `initialize` was answered, so that `initialized` must follow."""


async def negotiate(
    channel: Channel, identity: Identity, *, mode: str, remembered: str | None, patience: float | None = None
) -> Agreement:
    """Agree with the server on a version. `remembered` is the version of the previous connection."""
    if mode == "legacy":
        return await _initialize(channel, identity)
    if mode == "auto" and remembered is not None and remembered not in versions.MODERN_VERSIONS:
        try:
            return await _initialize(channel, identity)
        except RemoteError:  # the server has changed
            return await _probe(channel, identity, patience)
    if mode == "auto":
        return await _probe(channel, identity, patience)
    return await _discover(channel, identity, mode)


async def _probe(channel: Channel, identity: Identity, patience: float | None) -> Agreement:
    discovery = asyncio.create_task(_discover(channel, identity, versions.MODERN_VERSIONS[0]))
    try:
        limit = PROBE_SECONDS if patience is None else min(PROBE_SECONDS, patience)
        done, _ = await asyncio.wait([discovery], timeout=limit)
        if not done:  # slow, or a legacy server that ignores unknown requests: send both
            return await _decide(discovery, asyncio.create_task(_initialize(channel, identity)), limit)
        try:
            return discovery.result()
        except (RemoteError, ProtocolError) as exc:
            if exc.status is not None and exc.status >= 500:  # a temporary failure says nothing about the era
                raise
            return await _initialize(channel, identity)  # a modern server would not answer like this
    finally:
        await _dismiss(discovery)


async def _decide(discovery: asyncio.Task[Agreement], handshake: asyncio.Task[Agreement], patience: float) -> Agreement:
    """Decide which era to use after both `server/discover` and `initialize` were sent to a slow server.

    A modern server rejects `initialize`, a legacy one `server/discover`, so a rejection decides nothing while the other
    request is pending. A server that supports both eras answers `server/discover` and switches to legacy when it reads
    `initialize`, so an answered `initialize` takes precedence.
    """
    try:
        await asyncio.wait({discovery, handshake}, return_when=asyncio.FIRST_COMPLETED)
        if discovery.done() and not _is_refused(discovery):
            done, _ = await asyncio.wait([handshake], timeout=patience)
            if not done:
                return discovery.result()
        else:
            await asyncio.wait([handshake])
        if not _is_refused(handshake):
            return handshake.result()
        await asyncio.wait([discovery])
        return (handshake if _is_refused(discovery) else discovery).result()
    finally:
        await _dismiss(handshake)


def _is_refused(request: asyncio.Task[Agreement]) -> bool:
    return isinstance(request.exception(), RemoteError | ProtocolError)


async def _dismiss(task: asyncio.Task[Agreement]) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # the event loop has ended before this coroutine: nothing can be awaited
        return
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _discover(channel: Channel, identity: Identity, version: str, *, again: bool = False) -> Agreement:
    mark = stamp(version, identity.info, identity.capabilities, identity.log_level)
    try:
        answer = await channel.request("server/discover", with_meta(None, mark), options=RequestOptions())
        offered = answer.get("supportedVersions")
        if not isinstance(offered, list):
            raise ProtocolError("server/discover: expected supportedVersions in the answer")
        chosen = versions.choose(offered)
    except RemoteError as exc:
        if exc.code not in versions.MODERN_ERRORS:
            raise
        supported = exc.data.get("supported") if isinstance(exc.data, dict) else None
        offered = supported if isinstance(supported, list) else []
        chosen = versions.choose(offered)
        # Ask again, once, with a version that the server offers, even the same one: it may have just been updated.
        if chosen is None or again:
            raise _no_common_version(channel, offered, exc) from exc
        if chosen in versions.MODERN_VERSIONS:
            return await _discover(channel, identity, chosen, again=True)
        answer = {}
    if chosen is None:
        raise _no_common_version(channel, offered)
    if chosen not in versions.MODERN_VERSIONS:
        return await _initialize(channel, identity)
    return Agreement(
        version=chosen,
        era=versions.MODERN,
        server=versions.server_info(chosen, answer),
        stamp=stamp(chosen, identity.info, identity.capabilities, identity.log_level),
        handshake=False,
    )


async def _initialize(channel: Channel, identity: Identity) -> Agreement:
    params = {
        "protocolVersion": versions.LEGACY_VERSIONS[0],
        "capabilities": identity.capabilities,
        "clientInfo": identity.info,
    }
    answer = await channel.request("initialize", params, options=RequestOptions())
    version = answer.get("protocolVersion")
    if version not in versions.LEGACY_VERSIONS:
        raise _no_common_version(channel, [version])
    return Agreement(version, versions.LEGACY, versions.server_info(version, answer), None, handshake=True)


def _no_common_version(channel: Channel, offered: object, cause: RemoteError | None = None) -> ConnectError:
    ours = ", ".join((*versions.MODERN_VERSIONS, *versions.LEGACY_VERSIONS))
    theirs = one_line(str(offered), mask=mask_of(channel))
    reason = f" ({one_line(cause.message)})" if cause is not None else ""
    return ConnectError(
        f"no common protocol revision: the server supports {theirs}{reason}, this client {ours}; update one of them",
        permanent=True,
    )
