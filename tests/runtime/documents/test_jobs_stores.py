"""A job lives the same life on every store: stopped in one process, ended in the next."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

import pytest
from tests.support import stores
from tests.support.documents import REF
from tests.support.jobs import NOTE, Look
from tests.support.running_jobs import MovedClock, Result, app_with, process

from perdure.authority import system
from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.content import base
from perdure.kernel.documents.jobs.records import JobWake
from perdure.kernel.documents.jobs.value import Done
from perdure.kernel.documents.read import find_document
from perdure.kernel.documents.writes import CreateDocument
from perdure.kernel.ids import Instant
from perdure.kernel.view import Range

pytestmark = pytest.mark.stores

KINDS = [
    "memory",
    "sqlite",
    "sqlite_reopened",
    pytest.param("dynamodb_moto", marks=pytest.mark.slow),
]


@dataclass
class PassingClock(MovedClock):
    """Time that passes by itself."""

    def now(self):
        return system.now()

    async def pause(self, seconds):
        await asyncio.sleep(seconds)


def opener_of(kind, directory):
    opener = getattr(stores, kind)
    return opener(directory) if kind.startswith("sqlite") else opener()


def reader(stops):
    async def reads(run):
        await run.change(lambda state: setattr(state, "text", "x" * 10_000), within_ms=60_000)
        while run.state.read < 3:
            await run.change(lambda state: setattr(state, "read", state.read + 1))
            if stops is not None and run.state.read == 2:
                stops.set()
                await run.stopping.wait()
                raise RuntimeError("told to stop")
        return Result(count=run.state.read)

    async def finish(ending):
        return [CreateDocument(NOTE, "none", base(1, {"length": len(ending.state.text)}))]

    return app_with(reads, finish=finish)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_job_lives_on_every_store(kind, tmp_path):
    async with opener_of(kind, tmp_path) as opener, contextlib.AsyncExitStack() as stack:
        half = asyncio.Event()
        first = await process(await opener(), app=reader(half), clock=PassingClock())
        stack.push_async_callback(first.jobs.crew.means.authority.close)
        await first.start()

        running = asyncio.create_task(first.jobs.run_due(deadline=later()))
        await half.wait()
        first.jobs.crew.closing.set()
        [stopped] = await running
        again = await process(await opener(), app=reader(None), clock=PassingClock(), prefix="q")
        stack.push_async_callback(again.jobs.crew.means.authority.close)
        [ended] = await again.jobs.run_due(deadline=later())

        authority = again.jobs.crew.means.authority
        hints = Range(REF.wake, "", "~", JobWake)
        note, left = await authority.execute(
            Look(
                REF,
                lambda view: (find_document(view, REF.partition, NOTE), view.find(hints)),
            )
        )
        assert (stopped.driven.state, ended.driven.outcome) == ("stopped", Done({"count": 3}))
        assert note is not None
        assert left == []
        assert (await again.start()).existing


class CountingStore:
    """A store that says how many records each commit names."""

    def __init__(self, inner):
        self._inner = inner
        self.actions = []

    async def load(self, reads):
        return await self._inner.load(reads)

    async def commit(self, commit):
        self.actions.append(len(commit.actions))
        await self._inner.commit(commit)

    async def close(self):
        await self._inner.close()


async def test_each_step_of_a_job_names_few_records():
    async def counts(run):
        for _ in range(2):
            await run.change(lambda state: setattr(state, "read", state.read + 1))
        return Result(count=run.state.read)

    store = CountingStore(MemoryStore())
    one = await process(store, app=app_with(counts))
    store.actions.clear()
    await one.start()
    await one.run()

    start, take, first, second, settle, end = store.actions
    assert start <= 11
    assert max(take, first, second, settle) <= 5
    assert end <= 17


def later():
    return Instant(system.now() + 60_000)
