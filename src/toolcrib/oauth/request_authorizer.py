"""The interface between HTTP connections and the providers of credentials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class Outgoing(NamedTuple):
    """A request to the MCP server, before it is sent. Some providers sign all of it."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes
    may_prompt: bool = True
    """Whether a person may be asked because of this request."""


class Refusal(NamedTuple):
    """The server's rejection of a request: 401, or 403 with a challenge."""

    status: int
    headers: list[tuple[str, str]]
    challenge: str | None = None
    """The challenges as text for errors: without secrets, and not too long."""


class RequestAuthorizer(Protocol):
    """Gets the headers that authorise the requests of one connection."""

    rounds: int
    """Number of attempts to renew the credentials."""
    max_renewals: int
    """How often the credentials are renewed for one request that is answered with 401."""

    def current(self, method: str, url: str, *, renew: bool = True) -> Mapping[str, str] | None:
        """Return the headers for a request, without waiting; None if they have to be obtained first.

        Without `renew`, no renewal is started in the background.
        """
        ...

    async def headers(self, request: Outgoing) -> Mapping[str, str]:
        """Return the headers to add to a request; empty if there are none yet."""
        ...

    async def renew(
        self, request: Outgoing, refusal: Refusal, used: Mapping[str, str], since: int, attempt: int
    ) -> Mapping[str, str]:
        """Return other headers than `used`, which the server rejected.

        `since` is the value of `rounds` when the request was sent, `attempt` counts the rejections of this request.
        """
        ...

    async def close(self) -> None:
        """End what runs in the background."""
        ...
