"""A log that is replayed into an empty store makes the same store, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.documents import LINEAGE, REF, means, opened
from tests.support.exporting import BytesSource, bytes_of, parts_of
from tests.support.histories import ITEMS, MOVED, Past, sized

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.errors import MigrationFailed
from perdure.kernel.documents.log import LogPlace
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.rows import InsertRow, UpdateRow
from perdure.kernel.ids import DocumentStoreId
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
