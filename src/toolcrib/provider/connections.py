"""Connections to sources: which callers share one, with which environment it is made, and how long it is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from .._util.sealing import Sealer
from ..client.client import Client
from ..config import HttpServer, SseServer, StdioServer
from ..protocol.versions import MODERN_VERSIONS
from ..transports.spawned_http import SpawnedHttpServer
from ..types import ReconnectPolicy
from ..upstreams.places import PoolLimits
from ..upstreams.pool import LOCAL, SHARED, ConnectionPool, Lease, PooledConnection, PoolKey
from .credentials import DISCOVERY, CredentialTable
from .egress import AddressPolicy
from .environment import make_server_config, resolve_environment
from .principals import check_principal
from .snapshot import Source
from .source_config import LifecycleMode, SourceTransport
from .stored_config import restore_secrets

MAX_TARGETS: Final = 10_000
"""Prepared connections (source, principal, session) that are kept in memory."""
DISCOVERY_SCOPE: Final = "\0discovery"
"""The scope of connections that list the tools of a source with personal slots."""
NO_RECONNECT: Final = ReconnectPolicy(max_retries=0)
"""A lost connection is made again by the next call, not in the background."""

Server = StdioServer | HttpServer | SseServer | SpawnedHttpServer
Watch = Callable[[Source, Client, str | None, bool], None]
"""Called with each new connection: the source, the client, its principal (None: shared), whether it is transient."""


class _Target:
    """A prepared connection: its key in the pool, and how to open it.

    The server config is made when the connection is opened: a lease may wait, and credentials change meanwhile.
    """

    __slots__ = ("_connections", "_make_server", "_source", "key", "principal", "transient")

    def __init__(
        self,
        connections: SourceConnections,
        source: Source,
        make_server: Callable[[], Server],
        key: PoolKey,
        principal: str,
        transient: bool,
    ) -> None:
        self.key = key
        self.principal = principal
        self.transient = transient
        self._connections = connections
        self._source = source
        self._make_server = make_server

    def open(self) -> Client:
        """Return a client, which connects at its first request."""
        principal = None if self.key.scope in (SHARED, DISCOVERY_SCOPE) else self.principal
        return self._connections.make_client(self._source, self._make_server(), principal, transient=self.transient)

    async def close(self, connection: Client) -> None:
        """Close the client. When this returns, its process has ended."""
        await connection.close()


class SourceConnections:
    """Leases connections to sources."""

    def __init__(
        self,
        *,
        limits: PoolLimits,
        credentials: CredentialTable,
        sealer: Callable[[], Sealer],
        policy: AddressPolicy,
        watch: Watch,
    ) -> None:
        self._pool: ConnectionPool[Client] = ConnectionPool(limits)
        self._credentials = credentials
        self._sealer = sealer
        self._policy = policy
        self._watch = watch
        self._closed = False
        self._targets: dict[tuple[str, int, str, str | None], _Target] = {}

    def lease(
        self,
        source: Source,
        principal: str = LOCAL,
        *,
        session: str | None = None,
        environment: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Lease[Client]:
        """Return a context manager that yields a connection for this principal.

        Raises `MissingVariables` or `MissingCredential` before anything starts. `environment` holds values for one
        call, which then gets a connection of its own.
        """
        if environment:
            target = self._prepare(source, principal, session, environment)
        else:
            known = (source.id, source.generation, principal, session if source.config.per_session else None)
            found = self._targets.get(known)
            if found is None:
                if len(self._targets) >= MAX_TARGETS:
                    self._targets.clear()
                found = self._targets[known] = self._prepare(source, principal, session, None)
            target = found
        return self._lease(source, target, timeout)

    def check_environment(self, source: Source) -> None:
        """Raise `MissingVariables` if required variables that are not personal have no value."""
        self._make_server(source, dict.fromkeys(source.config.personal_slots, "?"), None)

    def lease_for_discovery(
        self, source: Source, timeout: float | None = None, *, transient: bool = False
    ) -> Lease[Client]:
        """Return a context manager that yields a connection to list what the source offers.

        A `transient` one is closed afterwards; otherwise it is kept for calls, if the source keeps connections.

        A source with personal slots is listed with the operator's own credential; raises `MissingCredential` if there
        is none.
        """
        if not source.config.personal_slots and not transient:
            return self.lease(source, timeout=timeout)

        def make_server() -> Server:
            slots = source.config.personal_slots
            return self._make_server(source, self._credentials.values_for(source.id, "", slots, DISCOVERY), None)

        make_server()  # raises before a place is taken
        key = PoolKey(source.id, source.generation, DISCOVERY_SCOPE)
        return self._lease(source, _Target(self, source, make_server, key, DISCOVERY_SCOPE, transient=True), timeout)

    def _lease(self, source: Source, target: _Target, timeout: float | None) -> Lease[Client]:
        return self._pool.lease(
            target.key,
            target,
            principal=target.principal,
            timeout=timeout,
            transient=target.transient,
            idle_seconds=source.config.idle_seconds,
        )

    def _prepare(
        self, source: Source, principal: str, session: str | None, environment: Mapping[str, str] | None
    ) -> _Target:
        check_principal(principal)
        config = source.config

        def make_server() -> Server:
            credential = self._credentials.values_for(source.id, principal, config.personal_slots)
            return self._make_server(source, credential, environment)

        make_server()  # raises before a place is taken
        transient = config.lifecycle_mode is LifecycleMode.TRANSIENT or bool(environment)
        key = PoolKey(source.id, source.generation, _scope_of(source, principal, session))
        return _Target(self, source, make_server, key, principal, transient)

    def _make_server(
        self, source: Source, credential: Mapping[str, str], environment: Mapping[str, str] | None
    ) -> Server:
        sealed = source.row.sealed
        secrets = {} if sealed is None else self._sealer().open(sealed, source.row.key_id or "", source.id)
        config = restore_secrets(source.config, secrets)
        values = resolve_environment(
            config, call=environment, credential=credential, secrets=secrets, server=source.name
        )
        return make_server_config(config, values)

    def make_client(self, source: Source, server: Server, principal: str | None, *, transient: bool) -> Client:
        """Return a client for one connection of a source."""
        options: dict[str, Any] = {"clean_arguments": "never"}  # the executor cleans them, by the stored schema
        if "reconnect" not in source.config.options:
            options["reconnect"] = NO_RECONNECT
        client = Client(server, name=source.name, _address_policy=self._policy, **options)
        self._watch(source, client, principal, transient)
        return client

    def connections(self, source: Source | None = None) -> list[PooledConnection]:
        """Return the connections that exist now."""
        return self._pool.connections(None if source is None else source.id)

    def forget(self, source_id: str, principal: str | None = None) -> None:
        """Prepare the connections of a source, or of one principal, anew: credentials or settings changed."""
        self._targets = {
            known: target
            for known, target in self._targets.items()
            if known[0] != source_id or principal not in (None, known[2])
        }

    def retire(self, source_id: str, before: int | None = None) -> None:
        """Make no new leases of older generations (None: of the source); their connections close when unused."""
        self.forget(source_id)
        self._pool.retire(source_id, before)

    async def close_source(self, source_id: str) -> None:
        """Close all connections of a source now. When this returns, none of its processes is left."""
        await self._pool.close_source(source_id)

    def retire_principal(self, source_id: str, principal: str) -> None:
        """Use the connections of one principal to a source for no new call: its credentials changed."""
        self.forget(source_id, principal)
        for scope in self._scopes_of(source_id, principal):
            self._pool.retire_scope(source_id, scope)

    async def close_principal(self, source_id: str, principal: str) -> None:
        """Close the connections of one principal to a source: its credentials were removed."""
        self.forget(source_id, principal)
        for scope in self._scopes_of(source_id, principal):
            await self._pool.close_scope(source_id, scope)

    def _scopes_of(self, source_id: str, principal: str) -> set[str]:
        own = _personal_scope(principal, None)
        scopes = {each.key.scope for each in self._pool.connections(source_id)}
        return {scope for scope in scopes if scope == own or scope.startswith(f"{own}\0")}

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        await self._pool.close()

    @property
    def closed(self) -> bool:
        """Whether the connections were closed, or are being closed, for good."""
        return self._closed


def _scope_of(source: Source, principal: str, session: str | None) -> str:
    """Return which callers share a connection: all, those of one principal, or those of one session."""
    config = source.config
    if config.personal_slots or not (config.stateless or _is_modern_http(source)):
        return _personal_scope(principal, session if config.per_session else None)
    return SHARED


def _personal_scope(principal: str, session: str | None) -> str:
    return f"of {principal}" if session is None else f"of {principal}\0{session}"


def _is_modern_http(source: Source) -> bool:
    over_http = source.config.transport_type is SourceTransport.STREAMABLE_HTTP
    return over_http and source.protocol_version in MODERN_VERSIONS
