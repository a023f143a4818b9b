"""A table that was half-way to one version is prepared by code that declares the next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import pytest
from tests.runtime.documents.test_tables import (
    MIGRATIONS,
    MOVED,
    NEW,
    OLD,
    REPLICA,
    ROWS,
    bodies,
    filled,
    old,
    values,
)
from tests.support.documents import LINEAGE, REF, means, opened
from tests.support.exporting import (
    BytesSource,
    bytes_of,
    export_made_of,
    parts_of,
)

from perdure.authority.memory import Crashed, Fault, FaultPlan, MemoryStore
from perdure.kernel.commit import Commit
from perdure.kernel.documents.create import CreateDocumentStore
from perdure.kernel.documents.errors import (
    InvalidExport,
    MigrationFailed,
    NewerTable,
    TableMigrating,
)
from perdure.kernel.documents.log import LogPlace, ReadLog
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.records import Logged
from perdure.kernel.documents.replica import ApplyLogged
from perdure.kernel.documents.rows import PutRow
from perdure.kernel.documents.tables import Table
from perdure.kernel.ids import DocumentStoreId
from perdure.kernel.view import Reads, View
from perdure.runtime.documents.importing import import_store
from perdure.runtime.documents.store import StoreMeans
from perdure.runtime.documents.tables import prepared

pytestmark = pytest.mark.stores

THIRD = Table(
    "notes", "pages", {"id": "int", "author": "str", "pages": "json"}, ("id",),
    {"by_author": ("author",), "by_id": ("id",)}, version=3,
).checked()  # fmt: skip
COPY = DocumentStoreRef(REF.storage, DocumentStoreId("copy"))
COMMITS = 5
"""Of a migration to THIRD: altered, three chunks, ended."""


def paged(row: dict[str, Any], version: int) -> dict[str, Any]:
    """Make a row of THIRD of one of any older version."""
    was = row if version == NEW.version else {**row, "author": row["by"], "size": row["size"] + 100}
    return {"id": was["id"], "author": was["author"], "pages": [was["size"]]}


PAGED = [paged(row, 2) for row in MOVED]
TO_THIRD = {"pages": paged}


async def half_way(records: MemoryStore, chunks: int = 1) -> None:
    """Leave a table on its way to NEW, by whoever died with so many chunks moved."""
    await filled(records.reopened())
    dying = records.reopened(FaultPlan({chunks + 2: Fault.CRASH_BEFORE}))
    async with opened(dying, prefix="dies") as store:
        with pytest.raises(Crashed):
            await prepared(store, [NEW], MIGRATIONS)


async def check_paged(records: MemoryStore, ref: DocumentStoreRef = REF) -> None:
    async with opened(records.reopened(), prefix="look", ref=ref) as store:
        assert await values(store, THIRD) == PAGED
        assert await values(store, THIRD, "by_author") == [
            row for row in PAGED if row["author"] == "ann"
        ]
    named = {sort.split("/")[2] for sort in bodies(records, ref) if sort.startswith("index/")}
    assert named == {"by_author", "by_id"}


def slow(*values: Any) -> list[Any]:
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


@pytest.mark.parametrize("chunks", [1, *slow(0, 2, 3)])
@pytest.mark.parametrize("commit", range(1, COMMITS + 1))
@pytest.mark.parametrize(
    "fault",
    [Fault.CRASH_AFTER, Fault.LOST_AFTER, *slow(Fault.CRASH_BEFORE, Fault.LOST_BEFORE)],
)
def test_whoever_dies_or_hears_nothing_while_it_overtakes_is_gone_on_with(
    chunks: int, commit: int, fault: Fault
):
    async def die_and_go_on() -> None:
        records = MemoryStore()
        await half_way(records, chunks)
        dying = records.reopened(FaultPlan({commit: fault}))
        seen: dict[int, int] = {}

        def noting(row: dict[str, Any], version: int) -> dict[str, Any]:
            assert seen.setdefault(row["id"], version) == version
            return paged(row, version)

        async with opened(dying, prefix="third") as store:
            if fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
                with pytest.raises(Crashed):
                    await prepared(store, [THIRD], {"pages": noting})
            else:
                await prepared(store, [THIRD], {"pages": noting})
        async with opened(records.reopened(), prefix="next") as store:
            await prepared(store, [THIRD], {"pages": noting})

        assert sorted(seen) == list(range(ROWS))
        await check_paged(records)

    asyncio.run(die_and_go_on())


class Overtaking:
    """A store on which somebody else acts just before a certain commit, counted from one."""

    def __init__(
        self, records: MemoryStore, commit: int, act: Callable[[], Awaitable[Any]]
    ) -> None:
        self._records = records
        self._left = commit
        self._act = act

    async def load(self, reads: Reads) -> View:
        return await self._records.load(reads)

    async def commit(self, commit: Commit) -> None:
        self._left -= 1
        if self._left == 0:
            await self._act()
        await self._records.commit(commit)

    async def close(self) -> None:
        await self._records.close()


@pytest.mark.parametrize("commit", range(1, 6))
@pytest.mark.parametrize("how", ["ends", *slow("dies")])
async def test_code_of_the_version_between_that_still_runs_is_refused_and_damages_nothing(
    commit: int, how: str
) -> None:
    records = MemoryStore()
    await filled(records.reopened())

    async def overtake() -> None:
        plan = FaultPlan() if how == "ends" else FaultPlan({3: Fault.CRASH_BEFORE})
        async with opened(records.reopened(plan), prefix="third") as third:
            with nullcontext() if how == "ends" else pytest.raises(Crashed):
                await prepared(third, [THIRD], TO_THIRD)

    async with opened(Overtaking(records.reopened(), commit, overtake), prefix="second") as second:
        with pytest.raises(NewerTable, match="found version 3"):
            await prepared(second, [NEW], MIGRATIONS)
        before = bodies(records, REF)
        for table in (NEW, OLD):
            with pytest.raises(NewerTable):
                await second.commit([PutRow(table, old(1) if table is OLD else MOVED[1])])
            with pytest.raises(NewerTable):
                await prepared(second, [table], MIGRATIONS)
        assert bodies(records, REF) == before

    async with opened(records.reopened(), prefix="next") as third:
        await prepared(third, [THIRD], TO_THIRD)
    await check_paged(records)


async def test_two_that_overtake_at_once_move_each_row_once() -> None:
    records = MemoryStore()
    await half_way(records)
    async with (
        opened(records.reopened(), prefix="a") as first,
        opened(records.reopened(), prefix="b") as second,
    ):
        await asyncio.gather(
            prepared(first, [THIRD], TO_THIRD), prepared(second, [THIRD], TO_THIRD)
        )
    await check_paged(records)


class Between:
    """A store in which something happens just before rows are looked at for the first time."""

    def __init__(self, records: MemoryStore, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._records = records
        self._meanwhile: Callable[[], Awaitable[None]] | None = meanwhile

    async def load(self, reads: Reads) -> View:
        if reads.ranges and self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            await meanwhile()
        return await self._records.load(reads)

    async def commit(self, commit: Commit) -> None:
        await self._records.commit(commit)

    async def close(self) -> None:
        await self._records.close()


@pytest.mark.parametrize("chunks", [1, COMMITS])
async def test_rows_that_a_rival_has_moved_meanwhile_are_migrated_by_nobody_again(
    chunks: int,
) -> None:
    records = MemoryStore()
    await half_way(records)

    async def rival() -> None:
        faults = FaultPlan({chunks + 2: Fault.CRASH_BEFORE})
        async with opened(records.reopened(faults), prefix="b") as store:
            with suppress(Crashed):
                await prepared(store, [THIRD], TO_THIRD)

    async with opened(Between(records.reopened(), rival), prefix="a") as store:
        await prepared(store, [THIRD], TO_THIRD)

    await check_paged(records)


@pytest.mark.parametrize("chunks", [1, COMMITS])
async def test_who_finds_rows_of_a_newer_version_is_told_that_it_has_the_table(
    chunks: int,
) -> None:
    records = MemoryStore()
    await half_way(records)
    fourth = replace(THIRD, columns={**THIRD.columns, "four": "int"}, version=4).checked()

    def to_fourth(row: dict[str, Any], version: int) -> dict[str, Any]:
        return {**paged(row, version), "four": 4}

    async def rival() -> None:
        faults = FaultPlan({chunks + 2: Fault.CRASH_BEFORE})
        async with opened(records.reopened(faults), prefix="b") as store:
            with suppress(Crashed):
                await prepared(store, [fourth], {"pages": to_fourth})

    async with opened(Between(records.reopened(), rival), prefix="a") as store:
        with pytest.raises(NewerTable, match="version 4"):
            await prepared(store, [THIRD], TO_THIRD)


async def test_a_version_that_does_not_know_the_one_between_is_mended_by_one_that_does() -> None:
    records = MemoryStore()
    await half_way(records)
    async with opened(records.reopened(), prefix="ignorant") as store:
        before = bodies(records, REF)
        with pytest.raises(TableMigrating, match="none, and rows of version"):
            await prepared(store, [THIRD])
        assert bodies(records, REF) == before
        with pytest.raises(MigrationFailed, match="'by'"):
            await prepared(store, [THIRD], {"pages": lambda row, _: paged(row, OLD.version)})

    async with opened(records.reopened(), prefix="knows") as store:
        await prepared(store, [THIRD], TO_THIRD)
    await check_paged(records)


async def test_columns_that_come_back_need_a_migration_while_rows_have_those_between() -> None:
    as_once = Table("notes", "pages", OLD.columns, OLD.key, OLD.indexes, version=3).checked()
    for chunks, needs in ((0, False), (1, True)):
        records = MemoryStore()
        await half_way(records, chunks)
        async with opened(records.reopened(), prefix="back") as store:
            if needs:
                with pytest.raises(TableMigrating, match="rows of version 2"):
                    await prepared(store, [as_once])
            else:
                await prepared(store, [as_once])
                assert await values(store, as_once) == [old(id) for id in range(ROWS)]


@pytest.mark.parametrize("chunks", [2, *slow(1, 3)])
@pytest.mark.parametrize("dies_at", [3, *slow(2, 4, 5)])
async def test_a_replica_has_the_same_records_wherever_the_log_is_split(
    chunks: int, dies_at: int
) -> None:
    records = MemoryStore()
    await half_way(records, chunks)
    dying = records.reopened(FaultPlan({dies_at: Fault.CRASH_BEFORE}))
    async with opened(dying, prefix="dies") as store:
        with pytest.raises(Crashed):
            await prepared(store, [THIRD], TO_THIRD)
    with_ = means(records.reopened(), prefix="replica")
    await with_.authority.execute(CreateDocumentStore(REPLICA, LINEAGE, follows=True))

    await follow(with_, 0)
    assert bodies(records, REPLICA) == bodies(records, REF)

    async with opened(records.reopened(), prefix="next") as store:
        seen = store.seq
        await prepared(store, [THIRD], TO_THIRD)
    await follow(with_, seen)
    assert bodies(records, REPLICA) == bodies(records, REF)


async def follow(with_: StoreMeans, seen: int) -> None:
    page = await with_.authority.execute(ReadLog(REF, LogPlace(), 1_000))
    for entry in page.entries[seen:]:
        moved = Logged.read(REPLICA.partition, entry.key.sort, entry.body())
        applied = await with_.authority.execute(ApplyLogged(REPLICA, moved))
        assert applied.diverged is None


async def exported(records: MemoryStore, dies_at: int = 3) -> bytes:
    """Return the export of a store whose table was overtaken and has rows of three versions."""
    await half_way(records, 2)
    dying = records.reopened(FaultPlan({dies_at: Fault.CRASH_BEFORE}))
    async with opened(dying, prefix="dies") as store:
        with pytest.raises(Crashed):
            await prepared(store, [THIRD], TO_THIRD)
    return await bytes_of(means(records.reopened(), prefix="exports"), REF)


@pytest.mark.parametrize("dies_at", [3, *slow(2, 4, 5)])
async def test_an_import_goes_on_from_where_the_export_was(dies_at: int) -> None:
    records = MemoryStore()
    data = await exported(records, dies_at)
    with_ = means(records.reopened(), prefix="imports")

    await import_store(with_, COPY, BytesSource(data), lineage=LINEAGE)

    assert await bytes_of(with_, COPY) == data
    async with opened(records.reopened(), prefix="next", ref=COPY) as store:
        await prepared(store, [THIRD], TO_THIRD)
    await check_paged(records, COPY)


Damage = Callable[[dict[str, Any]], Any]


@pytest.mark.parametrize(
    "damage",
    [
        lambda table: table.pop("moving"),
        lambda table: table.update(overtaken=[]),
        lambda table: table.pop("overtaken"),
        lambda table: table.update(overtaken=[7]),
        lambda table: table["overtaken"][0].pop("behind"),
        lambda table: table["overtaken"][0].update(behind=None),
        lambda table: table["overtaken"][0].update(behind=table["moving"]["behind"]),
        lambda table: table["overtaken"][0].update(version=3),
        lambda table: table["overtaken"][0].update(version=1),
        lambda table: table["overtaken"][0].update(columns={"id": "str"}),
        lambda table: table["overtaken"].append(dict(table["overtaken"][0])),
        lambda table: table["moving"].update(version=1),
    ],
)
async def test_an_export_that_tells_of_no_move_that_can_be_is_refused(damage: Damage) -> None:
    records = MemoryStore()
    parts = parts_of(await exported(records))
    table = next(part for part in parts if part["part"] == "table")
    assert [part["version"] for part in parts if part["part"] == "row"][::19] == [3, 2, 1]

    damage(table)

    with_ = means(records.reopened(), prefix="imports")
    with pytest.raises(InvalidExport):
        await import_store(with_, COPY, BytesSource(export_made_of(parts)), lineage=LINEAGE)
    assert not bodies(records, COPY)
