"""A table that is on its way to another version gets there, whoever dies in between."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support import stores
from tests.support.documents import LINEAGE, REF, means, opened

from perdure.authority.memory import Crashed, Fault, FaultPlan, MemoryStore
from perdure.authority.packing import unpacked
from perdure.authority.store import Store
from perdure.kernel.documents.create import CreateDocumentStore
from perdure.kernel.documents.errors import (
    MigrationFailed,
    NewerTable,
    TableMigrating,
)
from perdure.kernel.documents.log import LogPlace, ReadLog
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.read import RowScan, load_row, scan_start
from perdure.kernel.documents.replica import ApplyLogged
from perdure.kernel.documents.rows import DeleteWhere, InsertRow, PutRow
from perdure.kernel.documents.tables import Table
from perdure.kernel.errors import Unavailable
from perdure.kernel.ids import DocumentStoreId
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.tables import prepared

pytestmark = pytest.mark.stores

OLD = Table(
    "notes", "pages", {"id": "int", "by": "str", "size": "int"}, ("id",),
    {"by_author": ("by",), "by_size": ("size",)},
).checked()  # fmt: skip
NEW = Table(
    "notes", "pages", {"id": "int", "author": "str", "size": "int"}, ("id",),
    {"by_author": ("author",), "by_both": ("author", "size")}, version=2,
).checked()  # fmt: skip
ROWS = 45
COMMITS = 5
"""Of a migration of so many rows: altered, three chunks, ended."""

REPLICA = DocumentStoreRef(REF.storage, DocumentStoreId("replica"))


def old(id: int) -> dict[str, Any]:
    return {"id": id, "by": ("ann", "eve", "")[id % 3], "size": id}


def renamed(row: dict[str, Any], version: int) -> dict[str, Any]:
    assert version == OLD.version
    return {"id": row["id"], "author": row["by"], "size": row["size"] + 100}


MOVED = [renamed(old(id), 1) for id in range(ROWS)]
MIGRATIONS = {"pages": renamed}


async def filled(records: Store, count: int = ROWS) -> None:
    async with opened(records, prefix="old") as store:
        await prepared(store, [OLD])
        await store.commit([PutRow(OLD, old(id)) for id in range(min(count, 25))])
        await store.commit([PutRow(OLD, old(id)) for id in range(25, count)])


async def values(store: OpenStore, table: Table = NEW, index: str | None = None) -> list[Any]:
    scan = RowScan(table) if index is None else RowScan(table, ("ann",), index)
    start = scan_start(None, None, "ascending")
    rows = await store.read(lambda view: scan.page(view, store.ref.partition, start, 1_000))
    return [row.value for row in rows]


async def check_moved(store: OpenStore) -> None:
    """Hold every row and every index to what the migration makes of the rows that were there."""
    assert await values(store) == MOVED
    assert await values(store, index="by_author") == [
        row for row in MOVED if row["author"] == "ann"
    ]


def bodies(records: MemoryStore, ref: DocumentStoreRef) -> dict[str, Any]:
    """Return what lies in a store beside its head, byte by byte."""
    found = records._records.items()
    return {
        key.sort: unpacked(stored.body)
        for key, stored in found
        if key.partition == ref.partition and key.sort != "head"
    }


@pytest.mark.parametrize("commit", range(1, COMMITS + 1))
@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_whoever_dies_at_any_commit_of_a_migration_is_gone_on_with(commit: int, fault: Fault):
    async def die_and_go_on() -> None:
        records = MemoryStore()
        await filled(records.reopened())
        dying = records.reopened(FaultPlan({commit: fault}))
        async with opened(dying, prefix="dies") as store:
            with pytest.raises(Crashed):
                await prepared(store, [NEW], MIGRATIONS)
        async with opened(records.reopened(), prefix="next") as store:
            await prepared(store, [NEW], MIGRATIONS)

            await check_moved(store)
            assert not [sort for sort in bodies(records, REF) if "/by_size/" in sort]

    asyncio.run(die_and_go_on())


@pytest.mark.parametrize("commit", range(1, COMMITS + 1))
@pytest.mark.parametrize(
    "fault", [Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.DUPLICATE, Fault.CONFLICT]
)
def test_a_lost_answer_moves_each_row_once(commit: int, fault: Fault):
    async def lose() -> None:
        records = MemoryStore()
        await filled(records.reopened())
        losing = records.reopened(FaultPlan({commit: fault}))
        async with opened(losing, prefix="loses") as store:
            await prepared(store, [NEW], MIGRATIONS)

            await check_moved(store)

    asyncio.run(lose())


@pytest.mark.parametrize("commit", range(1, COMMITS + 1))
def test_what_a_busy_store_has_refused_is_asked_for_again_by_opening_again(commit: int):
    async def refuse() -> None:
        records = MemoryStore()
        await filled(records.reopened())
        busy = records.reopened(FaultPlan({commit: Fault.THROTTLE}))
        async with opened(busy, prefix="busy") as store:
            with pytest.raises(Unavailable):
                await prepared(store, [NEW], MIGRATIONS)
            await prepared(store, [NEW], MIGRATIONS)

            await check_moved(store)

    asyncio.run(refuse())


@pytest.mark.parametrize("spoilt", [0, 20, 44])
def test_a_migration_that_raises_leaves_earlier_chunks_and_a_table_on_its_way(spoilt: int):
    def raises(row: dict[str, Any], version: int) -> dict[str, Any]:
        if row["id"] == spoilt:
            raise LookupError("no such thing")
        return renamed(row, version)

    async def spoil() -> None:
        records = MemoryStore()
        await filled(records.reopened())
        async with opened(records.reopened(), prefix="raises") as store:
            with pytest.raises(MigrationFailed, match="no such thing"):
                await prepared(store, [NEW], {"pages": raises})
            half = bodies(records, REF)
            with pytest.raises(MigrationFailed):
                await prepared(store, [NEW], {"pages": raises})
            assert bodies(records, REF) == half
        async with opened(records.reopened(), prefix="old again") as store:
            with pytest.raises(NewerTable):
                await prepared(store, [OLD])
        async with opened(records.reopened(), prefix="mended") as store:
            await prepared(store, [NEW], MIGRATIONS)
            await check_moved(store)

    asyncio.run(spoil())


@pytest.mark.parametrize("chunks", range(4))
def test_a_replica_that_reads_the_log_has_the_same_records_at_every_split(chunks: int):
    async def replicate() -> None:
        records = MemoryStore()
        await filled(records.reopened())
        dying = records.reopened(FaultPlan({chunks + 2: Fault.CRASH_BEFORE}))
        async with opened(dying, prefix="dies") as store:
            with pytest.raises(Crashed):
                await prepared(store, [NEW], MIGRATIONS)
        with_ = means(records.reopened(), prefix="replica")
        await with_.authority.execute(CreateDocumentStore(REPLICA, LINEAGE, follows=True))

        await follow(with_)
        assert bodies(records, REPLICA) == bodies(records, REF)

        async with opened(records.reopened(), prefix="next") as store:
            await prepared(store, [NEW], MIGRATIONS)
            await store.commit([InsertRow(NEW, {**MOVED[0], "id": ROWS})])
            await store.reserve(7)
        await follow(with_)
        assert bodies(records, REPLICA) == bodies(records, REF)

    async def follow(with_: Any) -> None:
        page = await with_.authority.execute(ReadLog(REF, LogPlace(), 1_000))
        for entry in page.entries[len(done) :]:
            applied = await with_.authority.execute(ApplyLogged(REPLICA, entry_for(entry)))
            assert applied.diverged is None
            done.append(entry.seq)

    def entry_for(entry: Any) -> Any:
        return entry.read(REPLICA.partition, entry.key.sort, entry.body())

    done: list[int] = []
    asyncio.run(replicate())


def test_another_handle_that_was_prepared_before_is_refused_and_nothing_is_written():
    async def rival() -> None:
        records = MemoryStore()
        await filled(records.reopened())
        async with opened(records.reopened(), prefix="a") as first:
            await prepared(first, [OLD])
            async with opened(records.reopened(), prefix="b") as second:
                await prepared(second, [NEW], MIGRATIONS)
                before = bodies(records, REF)

                with pytest.raises(NewerTable, match="version 1 or older; found version 2"):
                    await first.commit([PutRow(OLD, old(1))])
                with pytest.raises(NewerTable):
                    await values(first, OLD)
                with pytest.raises(NewerTable):
                    await first.commit([DeleteWhere(OLD, {})])

                assert bodies(records, REF) == before
                await check_moved(second)

    asyncio.run(rival())


def test_a_handle_whose_own_tables_are_as_they_were_goes_on():
    other = Table("other", "things", {"id": "int"}, ("id",), {}).checked()

    async def beside() -> None:
        records = MemoryStore()
        await filled(records.reopened())
        async with opened(records.reopened(), prefix="a") as first:
            await prepared(first, [other])
            async with opened(records.reopened(), prefix="b") as second:
                await prepared(second, [NEW], MIGRATIONS)

            await first.commit([InsertRow(other, {"id": 1})])

            assert [row["id"] for row in await values(first, other)] == [1]

    asyncio.run(beside())


def test_a_table_that_was_not_prepared_by_this_handle_is_held_to_what_the_store_has():
    async def unprepared() -> None:
        records = MemoryStore()
        await filled(records.reopened())
        async with opened(records.reopened(), prefix="a") as store:
            await store.commit([PutRow(OLD, old(1))])
            await prepared(store, [NEW], MIGRATIONS)
            with pytest.raises(NewerTable):
                await store.commit([PutRow(OLD, old(1))])
            await store.commit([PutRow(NEW, MOVED[1])])

            await check_moved(store)

    asyncio.run(unprepared())


def test_two_that_migrate_at_once_move_each_row_once():
    async def both() -> None:
        records = MemoryStore()
        await filled(records.reopened())
        async with (
            opened(records.reopened(), prefix="a") as first,
            opened(records.reopened(), prefix="b") as second,
        ):
            await asyncio.gather(
                prepared(first, [NEW], MIGRATIONS), prepared(second, [NEW], MIGRATIONS)
            )
            await check_moved(first)
            await check_moved(second)

    asyncio.run(both())


def test_columns_that_change_need_a_migration_and_indexes_that_change_need_none():
    bare = Table("notes", "pages", OLD.columns, OLD.key, {"by_both": ("by", "size")}, version=2)

    async def migrate() -> None:
        records = MemoryStore()
        await filled(records.reopened())
        async with opened(records.reopened(), prefix="a") as store:
            before = bodies(records, REF)
            with pytest.raises(TableMigrating, match="a migration of notes:pages"):
                await prepared(store, [NEW])
            assert bodies(records, REF) == before

            await prepared(store, [bare.checked()])

            assert await values(store, bare) == [old(id) for id in range(ROWS)]
            named = {sort.split("/")[2] for sort in bodies(records, REF) if "index/" in sort}
            assert named == {"by_both"}

    asyncio.run(migrate())


def test_an_empty_table_moves_in_two_commits():
    async def migrate() -> None:
        async with opened() as store:
            await prepared(store, [OLD])
            await prepared(store, [NEW], MIGRATIONS)
            await store.commit([InsertRow(NEW, MOVED[1])])

            assert await values(store) == [MOVED[1]]
            assert store.seq == 4

    asyncio.run(migrate())


@pytest.mark.slow
def test_a_move_whose_outcome_nobody_knows_fails_nothing_that_is_not_asked_again():
    async def unknown() -> None:
        records = MemoryStore()
        await filled(records.reopened())
        losing = records.reopened(FaultPlan(dict.fromkeys(range(1, 40), Fault.LOST_BEFORE)))
        async with opened(losing, prefix="loses") as store:
            with pytest.raises(Unavailable):
                await prepared(store, [NEW], MIGRATIONS)
            losing.plan = FaultPlan()
            await prepared(store, [NEW], MIGRATIONS)

            await check_moved(store)

    asyncio.run(unknown())


def test_sqlite_moves_a_table_and_finds_it_moved(tmp_path: Path):
    async def migrate() -> None:
        async with stores.sqlite(tmp_path) as opener:
            await filled(await opener())
            async with opened(await opener(), prefix="a") as store:
                await prepared(store, [NEW], MIGRATIONS)
            async with opened(await opener(), prefix="b") as store:
                await prepared(store, [NEW], MIGRATIONS)
                row = await store.read(lambda view: load_row(view, REF.partition, NEW, (44,)))

                await check_moved(store)
                assert row is not None
                assert row.version == 2

    asyncio.run(migrate())
