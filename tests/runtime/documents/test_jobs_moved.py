"""Jobs go with their store: into an export and out of it, and into a replica that takes over."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.support.documents import LINEAGE, REF, means
from tests.support.exporting import BytesSource, bytes_of, export_made_of, parts_of
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
from tests.support.steps import Died

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.errors import FollowsSource
from perdure.kernel.documents.importing import EndImport
from perdure.kernel.documents.jobs.hints import HintJob, JobWakes
from perdure.kernel.documents.jobs.records import JobWake
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.errors import Conflict
from perdure.kernel.ids import DocumentStoreId, Instant, Lineage
from perdure.kernel.places import WAKE_SHARDS
from perdure.kernel.view import Reads, View
from perdure.runtime.documents.importing import discard_import, import_store
from perdure.runtime.documents.replica import StoreLog, catch_up, create_replica, promote
from perdure.runtime.documents.store import OpenStore, StoreMeans
from perdure.runtime.documents.stores import DocumentStores

pytestmark = pytest.mark.stores

COPY = DocumentStoreRef(REF.storage, DocumentStoreId("copy"))


OTHER = Lineage("otherotherotherother00")


async def hints(with_: StoreMeans) -> list[JobWake]:
    """Return every hint of a job, wherever it leads."""
    asked = [JobWakes(shard, Instant(2**50)) for shard in range(WAKE_SHARDS)]
    return [each for request in asked for each in await with_.authority.execute(request)]


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

    ran = await jobs.run_due(deadline=Instant(one.clock.at + 60_000))

    assert {(each.ref, each.job.job) for each in ran} == {(REF, "j"), (COPY, "j")}
    assert await jobs.hint(copy) == 0  # nothing was missing
    await checked_outcomes(one)


async def checked_outcomes(one: Process) -> None:
    """Hold what came of the jobs of the copy to what comes of those of its source."""
    copy, jobs = str(COPY.store), one.jobs
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

    await import_store(with_, COPY, BytesSource(data), lineage=OTHER)

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

    bare = await one.jobs.run_due(deadline=Instant(one.clock.at + 60_000))
    await promote(with_, COPY)
    assert [each.ref for each in bare] == [REF]
    ran = await one.jobs.run_due(deadline=Instant(one.clock.at + 60_000))
    assert [(each.ref, each.job.job) for each in ran] == [(COPY, "j")]
    await checked_outcomes(one)


class DiesAt:
    """An authority whose process dies when it is asked for one kind of request."""

    def __init__(self, inner: Any, kind: type) -> None:
        self._inner = inner
        self._kind = kind

    async def execute(self, request: Any) -> Any:
        if isinstance(request, self._kind):
            raise Died
        return await self._inner.execute(request)

    async def view(self, reads: Reads) -> View:
        view: View = await self._inner.view(reads)
        return view


async def test_an_import_that_dies_before_its_end_has_its_jobs_found_once_it_ends():
    one = await source()
    with_ = one.jobs.crew.means
    data = await bytes_of(with_, REF)
    dies = replace(with_, authority=DiesAt(with_.authority, EndImport))
    deadline = Instant(one.clock.at + 60_000)
    with pytest.raises(Died):
        await import_store(dies, COPY, BytesSource(data), lineage=OTHER)

    half = await one.jobs.run_due(deadline=deadline)
    await import_store(with_, COPY, BytesSource(data), lineage=OTHER)
    whole = await one.jobs.run_due(deadline=deadline)

    assert [each.ref for each in half] == [REF]
    assert [(each.ref, each.error) for each in whole] == [(COPY, None)]


async def test_an_import_that_is_discarded_leaves_no_job_to_be_found():
    one = await source()
    with_ = one.jobs.crew.means
    data = await bytes_of(with_, REF)
    dies = replace(with_, authority=DiesAt(with_.authority, EndImport))
    with pytest.raises(Died):
        await import_store(dies, COPY, BytesSource(data), lineage=OTHER)

    await discard_import(with_, COPY)

    found = await one.jobs.look(go_on=lambda: True)
    assert [each.ref for each in found.due] == [REF]
    assert not [each for each in await hints(with_) if each.ref == COPY and each.at <= one.clock.at]


async def test_an_import_as_a_replica_has_no_jobs_to_be_found_before_it_is_promoted():
    one = await source()
    with_ = one.jobs.crew.means
    data = await bytes_of(with_, REF)

    await import_store(with_, COPY, BytesSource(data), lineage=OTHER, follows=True)
    before = [each for each in await hints(with_) if each.ref == COPY]
    await promote(with_, COPY)
    after = [each for each in await hints(with_) if each.ref == COPY]

    assert (before, sorted(each.job for each in after)) == ([], ["j", "waits"])


async def test_a_promotion_that_died_is_asked_for_again_and_the_jobs_are_found():
    one = await source()
    with_ = one.jobs.crew.means
    data = await bytes_of(with_, REF)
    await import_store(with_, COPY, BytesSource(data), lineage=OTHER, follows=True)
    with pytest.raises(Died):
        await promote(replace(with_, authority=DiesAt(with_.authority, HintJob)), COPY)
    before = [each for each in await hints(with_) if each.ref == COPY]

    await promote(with_, COPY)

    after = [each for each in await hints(with_) if each.ref == COPY]
    assert (before, sorted(each.job for each in after)) == ([], ["j", "waits"])


async def test_what_only_lies_where_jobs_do_keeps_no_store_from_being_imported_or_promoted():
    with_ = means()
    stores = DocumentStores(with_, REF.storage)
    await stores.create(STORE)
    stray = {"write": "document.create", "owner": "me", "namespace": "desk", "value": "no job"}
    strays = [{**stray, "kind": kind, "key": key} for kind, key in (("a", "b"), ("a b", "b/c"))]
    await stores.commit(STORE, [*strays, {**stray, "kind": "a"}])

    parts = parts_of(await bytes_of(with_, REF))
    for part in parts:
        if part["part"] == "document.create":
            part["namespace"] = "jobs"  # no store writes so any more
    data = export_made_of(parts)
    await import_store(with_, COPY, BytesSource(data), lineage=OTHER)
    other = DocumentStoreRef(REF.storage, DocumentStoreId("other"))
    await import_store(with_, other, BytesSource(data), lineage=OTHER, follows=True)
    await promote(with_, other)

    assert await bytes_of(with_, COPY) == data
    assert await hints(with_) == []
