"""Document stores that are not at rest keep their storage where it is, and are named."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from tests.support.documents import LINEAGE, NOW, REF
from tests.support.moving_stores import ARRIVED, HERE, THERE, End, lived, mover
from tests.support.running_jobs import NAME, Result, app_with

from perdure.authority.memory import MemoryStore
from perdure.kernel.commit import Commit
from perdure.kernel.documents.commit import TakeOwner
from perdure.kernel.documents.importing import BeginImport
from perdure.kernel.documents.jobs.take import TakeJob
from perdure.kernel.documents.log import LogPlace
from perdure.kernel.documents.moving import FindStoreHead
from perdure.kernel.documents.replica import ApplyLogged
from perdure.kernel.errors import NotEmpty, NotQuiescent, WorldMoving
from perdure.kernel.ids import Holder, Instant
from perdure.kernel.view import Reads, View
from perdure.runtime.documents.jobs.hand import JobCrew
from perdure.runtime.documents.jobs.jobs import Jobs
from perdure.runtime.documents.log import read_log
from perdure.runtime.documents.replica import create_replica

pytestmark = [pytest.mark.lifecycle, pytest.mark.stores]

LEASE_MS = 30_000


async def importing(here: End) -> None:
    ref = here.ref("arriving")
    await here.authority.execute(BeginImport(ref, LINEAGE, "0" * 64))


async def held(here: End) -> None:
    take = TakeOwner(REF, "notes", Holder("somebody"), lease_ms=LEASE_MS)
    await here.authority.execute(take)


async def worked_on(here: End) -> None:
    async def reads(run):
        return Result(count=1)

    app = app_with(reads)
    jobs = Jobs(JobCrew(means=here.means), HERE, app)
    await jobs.start("notes", NAME, {"path": "a"}, job_id="j")
    declared = app.job_named(NAME)
    take = TakeJob(
        REF,
        jobs.address(NAME, "j"),
        here.means.new_token(),
        version=declared.version,
        fingerprint=declared.fingerprint,
        resume=declared.resume,
        holder=Holder("somebody"),
        lease_ms=LEASE_MS,
    )
    await here.authority.execute(take)


@pytest.mark.parametrize(
    ("unrest", "why"),
    [
        (importing, "'arriving' importing: end the import, or discard it"),
        (held, f"'notes' whose owner 'notes' is held for {LEASE_MS} ms more"),
        (worked_on, f"'notes' whose job {NAME}/j is worked on for {LEASE_MS} ms more"),
    ],
)
async def test_a_store_that_is_not_at_rest_is_named_and_nothing_has_changed(unrest, why):
    records, empty = MemoryStore(), MemoryStore()
    here, there = End(HERE, records), End(THERE, empty)
    await lived(here, commits=2)
    await unrest(here)
    before = dict(records._records)

    with pytest.raises(NotQuiescent, match=why):
        await mover(here, there).move()

    assert (records._records, empty._records) == (before, {})


async def test_a_claim_of_a_wrong_clock_keeps_no_storage_where_it_is():
    records = MemoryStore()
    await End(HERE, records).made()
    await worked_on(End(HERE, records, now=lambda: Instant(NOW + 365 * 86_400_000)))

    await mover(End(HERE, records), End(THERE)).move()

    assert (await End(HERE, records).authority.execute(FindStoreHead(REF))).status == "moved"


class Overtaken:
    """A store in whose storage something happens as soon as a migration has reserved it."""

    def __init__(self, records: MemoryStore, unrest: Callable[[End], Awaitable[None]]) -> None:
        self._records = records
        self._unrest: Callable[[End], Awaitable[None]] | None = unrest

    async def load(self, reads: Reads) -> View:
        return await self._records.load(reads)

    async def commit(self, commit: Commit) -> None:
        await self._records.commit(commit)
        reserved = any(action.key.sort == "floor" for action in commit.actions)
        if reserved and self._unrest is not None:
            unrest, self._unrest = self._unrest, None
            await unrest(End(HERE, self._records))

    async def close(self) -> None:
        await self._records.close()


@pytest.mark.parametrize("unrest", [held, worked_on])
async def test_what_comes_in_before_a_store_is_stilled_frees_them_all(unrest):
    records = MemoryStore()
    here = End(HERE, records)
    await lived(here, commits=2)
    await here.made("another")

    with pytest.raises(NotQuiescent, match="'notes' whose"):
        await mover(End(HERE, Overtaken(records, unrest)), End(THERE)).move()

    for name in ("notes", "another"):
        assert (await here.authority.execute(FindStoreHead(here.ref(name)))).status == "open"
    assert (await here.made("more")).seq == 0


async def test_no_import_begins_in_a_storage_that_is_being_moved():
    records = MemoryStore()
    here = End(HERE, records)
    await here.made("arriving")

    with pytest.raises(WorldMoving):
        await mover(End(HERE, Overtaken(records, importing)), End(THERE)).move()


async def test_a_destination_with_a_document_store_is_not_empty():
    here, there = End(HERE), End(THERE)
    await lived(here, commits=2)
    await there.made("other")

    with pytest.raises(NotEmpty, match="a document store"):
        await mover(here, there).move()

    assert (await here.authority.execute(FindStoreHead(REF))).status == "open"


async def test_a_diverged_replica_arrives_as_diverged_as_it_was():
    source, here, there = End(HERE), End(HERE), End(THERE)
    await lived(source, commits=2)
    await create_replica(here.means, REF, LINEAGE)
    entry = (await read_log(source.authority, REF, LogPlace(), pause=source.means.pause)).entries[0]
    await here.authority.execute(ApplyLogged(REF, replace(entry, previous="0" * 64)))
    before = await here.authority.execute(FindStoreHead(REF))

    await mover(here, there).move()

    arrived = await there.authority.execute(FindStoreHead(ARRIVED))
    assert before.diverged is not None
    assert (arrived.diverged, arrived.follows) == (before.diverged, True)
