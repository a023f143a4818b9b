"""A process at a job dies at any one of its commits; the next one ends the job, once.

A process dies before a commit, after it, or never hears of it. Whatever it was, the job has one
outcome, its finish has written once, and nothing of it is left but its end.
"""

from __future__ import annotations

import asyncio

import pytest
from tests.support.documents import REF
from tests.support.jobs import Look
from tests.support.running_jobs import JOB, LEASE_MS, MovedClock, Result, app_with, process
from tests.support.steps import Died, SteppedStore, Steps

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.content import base
from perdure.kernel.documents.jobs.records import ENDS, JOBS, STATES
from perdure.kernel.documents.jobs.value import Done
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.read import DocumentScan
from perdure.kernel.documents.records import Revision
from perdure.kernel.documents.writes import CreateDocument
from perdure.kernel.places import after
from perdure.kernel.view import Range

pytestmark = pytest.mark.stores

COMMITS_MAX = 40
"""More than any of these lives takes: past the end, nobody dies."""


def reader():
    """Return an app whose job reads three things, one in each run but the last two."""

    async def reads(run):
        await run.change(lambda state: setattr(state, "text", state.text + "."), within_ms=2_000)
        await run.change(lambda state: setattr(state, "read", state.read + 1))
        if run.state.read < 3:
            await run.change(lambda state: setattr(state, "text", state.text + "!"), within_ms=1e9)
            await run.stopping.wait()
            raise RuntimeError("told to stop")
        return Result(count=run.state.read)

    async def finish(ending):
        note = Address("notes", "chord", "note", f"{ending.failures}")
        if ending.failures == 0:
            raise RuntimeError("not yet")
        return [CreateDocument(note, "none", base(1, {"count": ending.result.count}))]

    return app_with(reads, finish=finish)


async def lived(store, clock, prefix):
    """Let one process do what is left to do. Raises Died."""
    one = await process(store, app=reader(), clock=clock, prefix=prefix)
    await one.start()
    for _ in range(12):
        running = one.running(budget_ms=20_000)
        await clock.go(20_000)
        if (await running).state == "ended":
            return one
    raise AssertionError("the job never ends")


async def died_and_lived(when, die_at):
    store, clock, steps = MemoryStore(), MovedClock(), Steps(die_at, when=when)
    try:
        one = await lived(SteppedStore(store, steps), clock, "p")
    except (Died, BaseExceptionGroup):
        clock.at += LEASE_MS
        one = await lived(store, clock, "q")
    return one, steps


async def left(one, namespace):
    authority = one.jobs.crew.means.authority
    scan = DocumentScan("notes", namespace)
    documents, _ = await authority.execute(
        Look(REF, lambda view: scan.page(view, REF.partition, None, 100))
    )
    return documents


async def revisions(one):
    authority = one.jobs.crew.means.authority
    ranged = Range(REF.partition, "rev/", after("rev/"), Revision)
    return await authority.execute(Look(REF, lambda view: view.find(ranged)))


@pytest.mark.parametrize("when", ["before", "after", "lost"])
def test_a_job_ends_once_whoever_dies_at_it(when):
    async def story():
        taken = 0
        for die_at in range(1, COMMITS_MAX):
            one, steps = await died_and_lived(when, die_at)
            told = await one.told()
            notes = await left(one, "chord")
            ends = await left(one, ENDS)

            assert told.outcome in (Done({"count": 3}), Done({"count": 4})), die_at
            assert [each.kind for each in notes] == ["note"], die_at
            assert [each.address for each in ends] == [JOB.end], die_at
            assert (await left(one, JOBS), await left(one, STATES)) == ([], []), die_at
            assert {each.id for each in await revisions(one)} == {notes[0].id, ends[0].id}
            assert one.interrupted == []
            taken = max(taken, steps.taken)
            if steps.taken < die_at:
                break
        assert 10 < taken < COMMITS_MAX

    asyncio.run(story())
