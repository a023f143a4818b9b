"""A log that is replayed into an empty store makes the same store, byte for byte."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.documents import LINEAGE, REF, means, opened
from tests.support.exporting import BytesSource, bytes_of, parts_of
from tests.support.histories import ITEMS, MOVED, Past, sized
from tests.support.jobs import DONE, JOB

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.content import base
from perdure.kernel.documents.errors import MigrationFailed
from perdure.kernel.documents.jobs.finish import EndJob
from perdure.kernel.documents.jobs.start import StartJob
from perdure.kernel.documents.jobs.take import TakeJob, Taken
from perdure.kernel.documents.jobs.work import ChangeJobState, SettleJob, StateChange
from perdure.kernel.documents.log import LogPlace
from perdure.kernel.documents.places import Address, DocumentStoreRef
from perdure.kernel.documents.rows import InsertRow, UpdateRow
from perdure.kernel.documents.writes import CreateDocument
from perdure.kernel.ids import DocumentStoreId, Holder, JobId
from perdure.runtime.documents.importing import import_store
from perdure.runtime.documents.replica import StoreLog, catch_up, create_replica
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.tables import prepared

pytestmark = pytest.mark.stores

COPY = DocumentStoreRef(REF.storage, DocumentStoreId("copy"))
REPLICA = DocumentStoreRef(REF.storage, DocumentStoreId("replica"))


@pytest.mark.parametrize("seed", range(4))
async def test_a_replayed_log_gives_an_equal_export_whatever_was_committed(seed: int) -> None:
    records = MemoryStore()
    async with opened(records) as source:
        past = Past(source, seed)
        await past.begin()
        await past.go_on(40)
        await past.migrate()
        await past.go_on(20)
        await past.end()
        with_ = means(records, prefix="r")
        await create_replica(with_, REPLICA, LINEAGE)
        replica = await OpenStore.open(with_, REPLICA)

        lag = await catch_up(StoreLog(with_, REF, limit=7), replica)

        assert lag.seq == source.seq == replica.seq
        assert lag.commits == 0
        assert await bytes_of(with_, REPLICA) == await bytes_of(with_, REF)


async def test_a_table_that_is_on_its_way_is_exported_imported_and_replayed_there() -> None:
    records = MemoryStore()
    async with opened(records) as source:
        await prepared(source, (ITEMS,))
        row = {"shelf": "a", "number": 0, "color": "red", "more": None}
        for first in range(0, 80, 20):
            numbers = range(first, first + 20)
            await source.commit([InsertRow(ITEMS, {**row, "number": each}) for each in numbers])

        def fails_late(row: dict[str, Any], version: int) -> dict[str, Any]:
            if row["number"] == 70:
                raise ValueError("not today")
            return sized(row, version)

        with pytest.raises(MigrationFailed):
            await prepared(source, (MOVED,), {"items": fails_late})
        with_ = means(records, prefix="r")
        on_its_way = await bytes_of(with_, REF)
        copied = BytesSource(on_its_way)
        await import_store(with_, COPY, copied, lineage=LINEAGE, follows=True)
        assert await bytes_of(with_, COPY) == on_its_way
        versions = {each["version"] for each in parts_of(on_its_way) if each["part"] == "row"}
        assert versions == {1, 2}

        await prepared(source, (MOVED,), {"items": sized})
        await source.commit([UpdateRow(MOVED, ("a", 3), {"size": 9})])

        await create_replica(with_, REPLICA, LINEAGE)
        for ref in (COPY, REPLICA):
            await catch_up(StoreLog(with_, REF), await OpenStore.open(with_, ref))
            assert await bytes_of(with_, ref) == await bytes_of(with_, REF)


async def test_the_pasts_that_are_replayed_have_every_kind_of_write() -> None:
    found: set[str] = set()
    for seed in range(4):
        async with opened() as source:
            past = Past(source, seed)
            await past.begin()
            await past.go_on(40)
            await past.migrate()
            await past.go_on(20)
            await past.end()
            page = await StoreLog(source.means, REF, limit=1_000).read(LogPlace())
            found |= {told["w"] for entry in page.entries for told in entry.told()}

    assert found == {
        "ids.reserve",
        "commit.key",
        "table.declare",
        "table.alter",
        "table.moved",
        "row.move",
        "row.insert",
        "row.put",
        "row.update",
        "row.delete",
        "rows.update",
        "rows.delete",
        "document.create",
        "document.change",
        "document.retire",
    }


async def test_jobs_are_replayed_as_the_documents_that_they_are() -> None:
    records = MemoryStore()
    async with opened(records) as source:
        ended, runs = JOB, replace(JOB, job=JobId("j-2"))
        for job in (ended, runs):
            started = {"version": 1, "fingerprint": "f", "args": {}, "state": base(1, {"n": 0})}
            await source.ordered(StartJob(REF, job, source.attempt(), **started).checked())
        taking = {"version": 1, "fingerprint": "f", "resume": "rerun", "lease_ms": 1_000}
        for job in (ended, runs):
            take = TakeJob(REF, job, source.attempt(), holder=Holder("h"), **taking).checked()
            taken = await source.ordered(take)
            assert isinstance(taken, Taken)
            change = StateChange(base(1, {"n": 1}), taken.state.revision)
            grip = taken.grip
            await source.ordered(
                ChangeJobState(REF, job, source.attempt(), grip=grip, change=change)
            )
        settle = SettleJob(REF, ended, source.attempt(), grip=grip, outcome=DONE)
        await source.ordered(settle.checked())
        note = CreateDocument(Address("notes", "papers", "note"), "latest", base(1, {}))
        end = EndJob(REF, ended, source.attempt(), grip=grip, staged=(note,))
        await source.ordered(end)
        with_ = means(records, prefix="r")
        await create_replica(with_, REPLICA, LINEAGE)

        await catch_up(StoreLog(with_, REF), await OpenStore.open(with_, REPLICA))

        data = await bytes_of(with_, REPLICA)
        assert data == await bytes_of(with_, REF)
        namespaces = {each.get("namespace") for each in parts_of(data)}
        assert {"jobs", "job-states", "job-ends", "papers"} <= namespaces
