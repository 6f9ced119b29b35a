"""A sign-in that replaces an earlier one, which stays stored until the new one has succeeded."""

from __future__ import annotations

from dataclasses import replace

from .account import Account
from .token_store import MemoryTokenStore, TokenStore


class StagedSignIn:
    """A store for one sign-in, and the store that gets it at the end."""

    def __init__(self, server_url: str, kept: TokenStore) -> None:
        self.store: TokenStore = MemoryTokenStore()
        """The store for the provider that signs in."""
        self._staged = Account(server_url, "", self.store)
        self._kept = Account(server_url, "", kept)

    @classmethod
    async def begin(cls, server_url: str, kept: TokenStore) -> StagedSignIn:
        """Return a store without tokens. It has the known clients: a secret must not be sent to another issuer."""
        created = cls(server_url, kept)
        await created._staged.save(replace(await created._kept.load(), token_sets=()))
        return created

    async def commit(self) -> None:
        """Store the new sign-in in place of the earlier one of the same issuer and client."""
        staged = await self._staged.load()
        async with self._kept.lock():
            await self._kept.save((await self._kept.load()).merge(staged))
