"""Another process writes of a job between two looks of this one: nothing is taken for damage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.support.running_jobs import (
    NAME,
    STORE,
    MovedClock,
    Process,
    State,
    app_with,
    process,
    settled,
)

from perdure.authority.memory import MemoryStore
from perdure.authority.store import Store
from perdure.kernel.commit import Commit
from perdure.kernel.documents.jobs.value import Aborted
from perdure.kernel.view import Reads, View

pytestmark = pytest.mark.stores


class Between:
    """A store in which something happens before the next content of a document is loaded."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.happens: Callable[[], Awaitable[object]] | None = None

    async def load(self, reads: Reads) -> View:
        happens = self.happens
        if happens is not None and any(key.sort.startswith("rev/") for key in reads.peeks):
            self.happens = None
            await happens()
        return await self._inner.load(reads)

    async def commit(self, commit: Commit) -> None:
        await self._inner.commit(commit)

    async def close(self) -> None:
        await self._inner.close()


async def looks(one: Process, clock: MovedClock) -> None:
    await clock.go(1_000)


async def tells(one: Process, clock: MovedClock) -> None:
    assert (await one.told()).abort == "aborted"


async def finds(one: Process, clock: MovedClock) -> None:
    await clock.go(60_000)
    assert (await one.jobs.look(go_on=lambda: True)).failed == ()


@pytest.mark.parametrize("does", [looks, tells, finds])
async def test_an_abort_between_two_looks_ends_a_run_in_order_and_is_no_damage(does):
    store, clock = MemoryStore(), MovedClock()
    between = Between(store.reopened())

    async def obeys(run):
        await run.change(lambda state: State(read=1))
        await run.aborted.wait()
        raise RuntimeError("I obey")

    one = await process(between, app=app_with(obeys), clock=clock)
    other = await process(store.reopened(), app=app_with(obeys), clock=clock, prefix="b")
    await one.start()
    running = one.running(budget_ms=600_000)
    await settled()

    between.happens = lambda: other.jobs.abort(STORE, NAME, "j")
    await does(one, clock)
    await clock.go(1_000)

    assert between.happens is None
    driven = await asyncio.wait_for(running, 60)
    assert (driven.state, driven.outcome.error) == ("ended", Aborted("aborted"))
