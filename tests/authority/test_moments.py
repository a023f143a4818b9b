"""Answers that write nothing rest on one moment, also where a load is many small reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from perdure.authority.memory import MemoryStore
from perdure.authority.store import Store
from perdure.authority.testing.records import Add, Look, Move
from perdure.authority.testing.registry import authority
from perdure.authority.testing.wrappers import CountingStore
from perdure.kernel.commit import Commit
from perdure.kernel.view import Reads, View


class PiecemealStore:
    """Reads record by record, unless a snapshot is asked for; a rival acts after the first."""

    def __init__(self, inner: Store, rival: Callable[[], Awaitable[object]]) -> None:
        self.inner = inner
        self.rival = rival

    async def load(self, reads: Reads) -> View:
        if reads.snapshot:
            return await self.inner.load(reads)
        view = View({})
        for key in reads.keys:
            view.merge(await self.inner.load(replace(reads, keys=(key,), peeks=(), ranges=())))
            await self.rival()
        return view

    async def commit(self, commit: Commit) -> None:
        await self.inner.commit(commit)

    async def close(self) -> None:
        await self.inner.close()


def test_a_reply_without_writes_never_mixes_two_moments():
    async def story() -> tuple[int, ...]:
        store = MemoryStore()
        rival = authority(store, "rival")
        await rival.execute(Add("a", 10))

        async def move() -> None:
            await rival.execute(Move("a", "b", 1))

        torn = authority(PiecemealStore(store, move), "torn")
        return await torn.execute(Look(("a", "b")))

    assert sum(asyncio.run(story())) == 10


def test_a_reply_that_rests_on_one_load_of_one_moment_is_not_looked_up_again():
    async def story() -> int:
        store = CountingStore(MemoryStore())
        await authority(store, "one").execute(Add("a", 10))
        before = store.loads
        await authority(store, "other").execute(Look(("a", "b")))
        return store.loads - before

    assert asyncio.run(story()) == 1
