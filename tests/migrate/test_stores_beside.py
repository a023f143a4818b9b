"""A writer at work beside a move: what it was told is committed has arrived."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
from tests.support.moving_stores import ARRIVED, HERE, THERE, End, mover
from tests.support.stores import memory, sqlite

from perdure.authority.store import Store
from perdure.kernel.commit import Commit
from perdure.kernel.documents.moving import FindStoreHead
from perdure.kernel.documents.reserve import ReserveIds
from perdure.kernel.errors import PerdureError
from perdure.kernel.view import Reads, View

pytestmark = [pytest.mark.lifecycle, pytest.mark.stores]


class Beside:
    """A store beside whose readings and commits somebody else is at work, now and then."""

    def __init__(self, records: Store, work: Callable[[], Awaitable[None]]) -> None:
        self._records, self._work = records, work
        self._numbers = itertools.count(1)

    async def load(self, reads: Reads) -> View:
        found = await self._records.load(reads)
        await self._beside()
        return found

    async def commit(self, commit: Commit) -> None:
        await self._beside()
        await self._records.commit(commit)
        await self._beside()

    async def close(self) -> None:
        await self._records.close()

    async def _beside(self) -> None:
        if next(self._numbers) % 5 == 0:  # who is first each time lets nobody still the store
            await self._work()


@pytest.mark.parametrize("kind", [memory, sqlite])
async def test_what_a_warm_handle_was_told_is_committed_has_arrived_and_nothing_else_was(
    kind, tmp_path
):
    async with AsyncExitStack() as stack:
        opened = memory() if kind is memory else sqlite(tmp_path)
        open_store = await stack.enter_async_context(opened)
        writing = End(HERE, await open_store())
        store = await writing.made()
        told: list[tuple[int, int]] = []
        refused: list[str] = []

        async def work() -> None:
            try:
                done = await store.commit([ReserveIds(1)])
            except PerdureError as error:
                refused.append(error.code)
            else:
                told.append((done.seq, done.next_id))

        await work()
        here, there = End(HERE, Beside(await open_store(), work)), End(THERE)
        await mover(here, there).move()

        head = await there.authority.execute(FindStoreHead(ARRIVED))
    assert told[-1] == (head.seq, head.next_id)
    assert [seq for seq, _ in told] == list(range(1, head.seq + 1))
    assert (refused[0], refused[-1]) == ("store_moving", "store_moved")
    assert len(told) > 3
