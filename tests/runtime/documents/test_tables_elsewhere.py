"""A handle learns by itself what others have made of its tables, and is refused no more than it must be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.runtime.documents.test_tables import (
    MIGRATIONS,
    MOVED,
    NEW,
    OLD,
    ROWS,
    check_moved,
    filled,
    old,
    values,
)
from tests.runtime.documents.test_tables_overtaken import THIRD, TO_THIRD
from tests.support.documents import REF, opened

from perdure.authority.memory import Crashed, Fault, FaultPlan, MemoryStore
from perdure.kernel.documents.content import base
from perdure.kernel.documents.errors import MigrationFailed, NewerTable, OwnerHeld, TableMigrating
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.read import load_row
from perdure.kernel.documents.rows import DeleteWhere, InsertRow, PutRow
from perdure.kernel.documents.tables import Table
from perdure.kernel.documents.writes import ChangeDocument, CreateDocument
from perdure.kernel.errors import PerdureError, Unavailable
from perdure.kernel.ids import DocumentId
from perdure.kernel.view import View
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.stores import DocumentStores
from perdure.runtime.documents.tables import prepared

pytestmark = pytest.mark.stores

OTHER = Table("notes", "things", {"id": "int"}, ("id",), {}).checked()
HERE = Address("notes", "papers", "page")


async def migrated(records: MemoryStore, *, dies_at: int | None = None) -> None:
    """Have another process bring the table to NEW, or die at a commit of that."""
    plan = FaultPlan() if dies_at is None else FaultPlan({dies_at: Fault.CRASH_BEFORE})
    async with opened(records.reopened(plan), prefix="elsewhere") as store:
        if dies_at is None:
            await prepared(store, [NEW], MIGRATIONS)
        else:
            with pytest.raises(Crashed):
                await prepared(store, [NEW], MIGRATIONS)


@asynccontextmanager
async def handle(records: MemoryStore, *tables: Table) -> AsyncIterator[OpenStore]:
    """Open a store that has rows of OLD, with tables prepared."""
    await filled(records.reopened())
    async with opened(records.reopened(), prefix="mine") as store:
        if tables:
            await prepared(store, tables)
        yield store


async def refused(store: OpenStore, table: Table, kind: type[PerdureError], why: str) -> None:
    """Hold that every read and write of a table's rows is refused, and nothing is written."""
    with pytest.raises(kind, match=why):
        await values(store, table)
    with pytest.raises(kind, match=why):
        await values(store, table, "by_author")
    row = old(1) if table is OLD else MOVED[1]
    for staged in ([PutRow(table, row)], [DeleteWhere(table, {})]):
        seq = store.seq
        with pytest.raises(kind, match=why):
            await store.commit(staged)
        assert store.seq == seq


async def test_only_the_table_that_was_migrated_elsewhere_is_refused() -> None:
    records = MemoryStore()
    async with handle(records, OLD, OTHER) as store:
        await store.commit([CreateDocument(HERE, "latest", base(1, "old"), DocumentId(9))])
        await migrated(records)

        await refused(store, OLD, NewerTable, "found version 2")
        await store.commit([InsertRow(OTHER, {"id": 1})])
        assert await values(store, OTHER) == [{"id": 1}]
        await store.commit([ChangeDocument(DocumentId(9), base(1, "new"))])
        loaded = await store.load(DocumentId(9))
        assert loaded is not None
        assert loaded.value == "new"
        assert await store.find(HERE) is not None
        with pytest.raises(NewerTable):
            await store.commit([InsertRow(OTHER, {"id": 2}), PutRow(OLD, old(1))])
        assert await values(store, OTHER) == [{"id": 1}]


@pytest.mark.parametrize("dies_at", [2, 3, 4, 5])
async def test_a_table_that_is_on_its_way_is_refused_until_it_is_there(dies_at: int) -> None:
    records = MemoryStore()
    async with handle(records, OTHER) as store:
        with pytest.raises(MigrationFailed):
            await prepared(store, [NEW], {"pages": lambda row, _: row})
        await refused(store, NEW, TableMigrating, "on its way to 2")

        await migrated(records, dies_at=dies_at - 1)
        await refused(store, NEW, TableMigrating, "on its way to 2")
        await migrated(records)

        await check_moved(store)
        await store.commit([PutRow(NEW, MOVED[1]), InsertRow(OTHER, {"id": 1})])
        await check_moved(store)


async def test_a_handle_that_heard_nothing_of_its_own_migration_learns_that_another_ended_it() -> (
    None
):
    records = MemoryStore()
    await filled(records.reopened())
    losing = records.reopened(FaultPlan(dict.fromkeys(range(2, 40), Fault.THROTTLE)))
    async with opened(losing, prefix="mine") as store:
        with pytest.raises(Unavailable):
            await prepared(store, [NEW], MIGRATIONS)
        losing.plan = FaultPlan()
        await refused(store, NEW, TableMigrating, "on its way to 2")

        await migrated(records)

        await check_moved(store)
        await store.commit([PutRow(NEW, MOVED[1])])


async def test_a_handle_that_had_the_older_version_is_for_the_newer_once_it_has_begun_to_move_it():
    records = MemoryStore()
    async with handle(records, OLD) as store:
        with pytest.raises(TableMigrating, match="a migration of"):
            await prepared(store, [NEW])
        assert len(await values(store, OLD)) == ROWS  # nothing has happened

        with pytest.raises(MigrationFailed):
            await prepared(store, [NEW], {"pages": lambda row, _: row})
        await refused(store, NEW, TableMigrating, "on its way to 2")
        await migrated(records)

        await check_moved(store)


async def test_a_handle_that_had_the_older_version_learns_of_the_newer_that_it_could_not_move() -> (
    None
):
    records = MemoryStore()
    async with handle(records, OLD) as store:
        await migrated(records, dies_at=3)
        with pytest.raises(TableMigrating, match="a migration of"):
            await prepared(store, [NEW])
        await refused(store, NEW, TableMigrating, "on its way to 2")

        await migrated(records)

        await check_moved(store)


async def test_whoever_may_not_move_a_table_reads_it_as_soon_as_its_holder_has() -> None:
    records = MemoryStore()
    async with handle(records) as holder:
        await holder.hold("notes", 60_000)
        async with opened(records.reopened(), prefix="waits") as store:
            with pytest.raises(OwnerHeld):
                await prepared(store, [NEW], MIGRATIONS)
            with pytest.raises(TableMigrating, match="version 1"):
                await values(store)

            await prepared(holder, [NEW], MIGRATIONS)

            await check_moved(store)


async def test_who_declares_what_rows_are_not_yet_is_told_their_version() -> None:
    records = MemoryStore()
    async with handle(records) as store:
        stores = DocumentStores(store.means, REF.storage)

        with pytest.raises(TableMigrating, match="found rows of version 1, which its owner"):
            await stores.declare(REF.store, NEW)


async def test_what_another_version_overtakes_is_refused_for_good() -> None:
    records = MemoryStore()
    async with handle(records) as store:
        await prepared(store, [NEW], MIGRATIONS)
        await check_moved(store)
        dying = records.reopened(FaultPlan({3: Fault.CRASH_BEFORE}))
        async with opened(dying, prefix="third") as third:
            with pytest.raises(Crashed):
                await prepared(third, [THIRD], TO_THIRD)
        await refused(store, NEW, NewerTable, "found version 3")

        async with opened(records.reopened(), prefix="next") as third:
            await prepared(third, [THIRD], TO_THIRD)

        await refused(store, NEW, NewerTable, "found version 3")


async def test_a_reading_that_trips_over_rows_of_another_shape_is_told_why() -> None:
    def author(view: View) -> str:
        row = load_row(view, REF.partition, NEW, (1,))
        assert row is not None
        return str(row.value["author"])

    records = MemoryStore()
    async with handle(records) as store:
        with pytest.raises(MigrationFailed):
            await prepared(store, [NEW], {"pages": lambda row, _: row})

        with pytest.raises(TableMigrating):
            await store.read(author)
        await migrated(records)

        assert await store.read(author) == MOVED[1]["author"]


async def test_a_commit_learns_that_a_table_is_there_and_does_not_ask_again() -> None:
    records = MemoryStore()
    await filled(records.reopened())
    counted = records.reopened()
    async with opened(counted, prefix="mine") as store:
        with pytest.raises(MigrationFailed):
            await prepared(store, [NEW], {"pages": lambda row, _: row})
        await migrated(records)

        loads = []
        for _ in range(3):
            before = counted.loads
            await store.commit([InsertRow(NEW, {**MOVED[1], "id": ROWS + len(loads)})])
            loads.append(counted.loads - before)

    assert loads[0] > 1
    assert loads[1:] == [0, 0]


async def test_a_change_of_tables_is_looked_at_once() -> None:
    records = MemoryStore()
    await filled(records.reopened())
    counted = records.reopened()
    async with opened(counted, prefix="mine") as store:
        await prepared(store, [OLD, OTHER])
        await values(store, OTHER)
        loads = [await loads_of(counted, store)]
        await migrated(records)
        loads += [await loads_of(counted, store) for _ in range(3)]

    usual, learns, *rest = loads
    assert learns > usual
    assert rest == [usual, usual]


async def loads_of(records: MemoryStore, store: OpenStore) -> int:
    before = records.loads
    await values(store, OTHER)
    return records.loads - before
