"""Jobs go with their store: into an export and out of it, and into a replica that takes over."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.documents import LINEAGE, REF
from tests.support.exporting import BytesSource, bytes_of
from tests.support.running_jobs import (
    NAME,
    STORE,
    Args,
    MovedClock,
    Process,
    Result,
    app_with,
    process,
    settled,
)

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.errors import FollowsSource
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.errors import Conflict
from perdure.kernel.ids import DocumentStoreId, Instant, Lineage
from perdure.runtime.documents.importing import import_store
from perdure.runtime.documents.replica import StoreLog, catch_up, create_replica, promote
from perdure.runtime.documents.store import OpenStore

pytestmark = pytest.mark.stores

COPY = DocumentStoreRef(REF.storage, DocumentStoreId("copy"))


async def reads(run):
    """A job that stops in the middle of its first run, and ends in the second."""
    if run.state.read == 0 and run.args.path == "long":
        await run.change(lambda state: setattr(state, "read", 1))
        await asyncio.Event().wait()
    return Result(count=run.state.read)


async def source() -> Process:
    """Return a process at a store with a job that runs, one that waits and one that has ended."""
    one = await process(MemoryStore(), app=app_with(reads), clock=MovedClock())
    await one.start(job_id="ended")
    await one.jobs.run(STORE, NAME, "ended", deadline=Instant(one.clock.at + 60_000))
    await one.start(job_id="waits", due_at=Instant(one.clock.at + 3_600_000))
    await one.start(Args(path="long"))
    running = one.running()
    await settled()
    running.cancel()
    await asyncio.wait({running})
    return one


async def checked_copy(one: Process) -> None:
    """Hold the jobs of the copy to those of its source."""
    copy, jobs = str(COPY.store), one.jobs
    deadline = Instant(one.clock.at + 60_000)
    bare = await jobs.run_due(deadline=deadline)

    hinted = [await jobs.hint(copy), await jobs.hint(copy)]
    ran = await jobs.run_due(deadline=deadline)

    assert [each.ref for each in bare] == [REF]  # a copy has no hints of its own yet
    assert hinted == [2, 0]
    assert [(each.ref, each.job.job) for each in ran] == [(COPY, "j")]
    assert await jobs.outcome(copy, NAME, "j") == Result(count=1)
    assert (await jobs.start(copy, NAME, Args(), job_id="ended")).existing
    with pytest.raises(Conflict):
        await jobs.start(copy, NAME, Args(path="other"), job_id="ended")
    one.clock.at += 3_600_000
    later = await jobs.run_due(deadline=Instant(one.clock.at + 60_000))
    assert {(each.ref, each.job.job) for each in later} == {(COPY, "waits"), (REF, "waits")}


async def test_the_jobs_of_an_imported_store_go_on_there():
    one = await source()
    with_ = one.jobs.crew.means
    data = await bytes_of(with_, REF)

    await import_store(with_, COPY, BytesSource(data), lineage=Lineage("otherotherotherother00"))

    assert await bytes_of(with_, COPY) == data
    await checked_copy(one)


async def test_the_jobs_of_a_replica_go_on_there_once_it_takes_over():
    one = await source()
    with_ = one.jobs.crew.means
    await create_replica(with_, COPY, LINEAGE)
    replica = await OpenStore.open(with_, COPY)
    await catch_up(StoreLog(with_, REF, limit=100), replica)

    assert await bytes_of(with_, COPY) == await bytes_of(with_, REF)
    for refused in (
        one.jobs.start(str(COPY.store), NAME, Args(), job_id="new"),
        one.jobs.hint(str(COPY.store)),
    ):
        with pytest.raises(FollowsSource):
            await refused

    await promote(with_, COPY)
    await checked_copy(one)
