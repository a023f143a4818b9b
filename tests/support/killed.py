"""A process that destroys the harbour and is killed at one of its commits."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import perdure
from perdure.authority.store import Store
from perdure.kernel.commit import Commit
from perdure.kernel.view import Reads, View
from perdure.runtime.app import load_app
from perdure.runtime.close import destroy

LEASE = 300
"""Milliseconds that the one who is killed holds the fence: the next one waits for it."""


class KillingStore:
    """Kills its process before or after one of its commits."""

    def __init__(self, store: Store, at: int, *, after: bool) -> None:
        self._store, self._at, self._after = store, at, after
        self._commits = 0

    async def load(self, reads: Reads) -> View:
        return await self._store.load(reads)

    async def commit(self, commit: Commit) -> None:
        self._commits += 1
        if self._commits == self._at and not self._after:
            os.kill(os.getpid(), signal.SIGKILL)
        await self._store.commit(commit)
        if self._commits >= self._at:  # the first that is not overtaken by a rival
            os.kill(os.getpid(), signal.SIGKILL)

    async def close(self) -> None:
        await self._store.close()


async def destroyed(root: Path, app: str, at: int, *, after: bool) -> None:
    """Destroy the world "harbour" as far as this process lives."""
    async with perdure.open(root.as_uri(), app=load_app(app)) as storage:
        authority: Any = storage.ticker.means.authority
        authority._store = KillingStore(authority._store, at, after=after)
        await destroy(storage.ticker.means, storage.worlds.ref("harbour"), lease_ms=LEASE)


if __name__ == "__main__":
    asyncio.run(
        destroyed(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), after=sys.argv[4] == "after")
    )
