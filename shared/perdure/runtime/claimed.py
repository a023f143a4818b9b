"""Claimed data: a bucket's prefix belongs to the first authority that writes there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from perdure.kernel.canonical import canonical
from perdure.kernel.claim import NameAuthority
from perdure.kernel.errors import Conflict
from perdure.kernel.ids import StorageId, Token
from perdure.lake.objects import ObjectStore
from perdure.runtime.ports import Executes

CLAIM = "authority.json"
"""The object that names the authority of all that lies beside it."""


class ClaimedObjects:
    """Objects of one authority: before the first of them is put, the place is claimed.

    Two machines with an authority each would fence each other nowhere, and land in the same
    tables. Reading claims nothing.
    """

    def __init__(
        self,
        objects: ObjectStore,
        authority: Executes,
        storage: StorageId,
        new_token: Callable[[], Token],
    ) -> None:
        self._objects = objects
        self._authority = authority
        self._storage = storage
        self._new_token = new_token
        self._is_ours = False
        self._claims = asyncio.Lock()

    async def claim(self) -> None:
        """Claim the place, or see that it is ours. Raises Conflict if it is another's."""
        async with self._claims:
            if not self._is_ours:
                await self._claim()
                self._is_ours = True

    async def put(self, name: str, data: bytes | memoryview) -> None:
        await self.claim()
        await self._objects.put(name, data)

    async def get(self, name: str) -> bytes:
        return await self._objects.get(name)

    async def delete(self, name: str) -> None:
        await self.claim()
        await self._objects.delete(name)

    async def names(self, prefix: str) -> list[str]:
        return await self._objects.names(prefix)

    async def sizes(self, prefix: str) -> dict[str, int]:
        return await self._objects.sizes(prefix)

    async def _claim(self) -> None:
        name = await self._authority.execute(NameAuthority(self._storage, self._new_token()))
        try:
            await self._objects.put(CLAIM, canonical({"authority": name}))
        except Conflict as error:
            found = await self._objects.get(CLAIM)
            raise Conflict(
                expected=f"data of authority {name}, or of none yet",
                found=f"those of another: {found.decode(errors='replace')[:100]}",
            ) from error
