"""A store goes from one kind of store to another, by export or by its log, and stays what it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support import stores
from tests.support.documents import LINEAGE, REF, means, opened
from tests.support.exporting import BytesSource, bytes_of, parts_of
from tests.support.half_shown import HalfShown
from tests.support.histories import ITEMS, Past
from tests.support.replicas import entries_of, pair

from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.tables import stored_table_key
from perdure.kernel.ids import DocumentStoreId
from perdure.runtime.documents.importing import import_store
from perdure.runtime.documents.replica import (
    StoreLog,
    apply_batch,
    catch_up,
    create_replica,
    promote,
)
from perdure.runtime.documents.store import OpenStore

pytestmark = pytest.mark.stores

COPY = DocumentStoreRef(REF.storage, DocumentStoreId("copy"))
REPLICA = DocumentStoreRef(REF.storage, DocumentStoreId("replica"))


async def moved(source_in: Any, target_in: Any) -> None:
    """Import and replay a past elsewhere, and let it go on there."""
    async with (
        source_in as open_source,
        target_in as open_target,
        opened(await open_source()) as source,
    ):
        past = Past(source, 21)
        await past.begin()
        await past.go_on(15)
        with_ = means(await open_target(), prefix="r")
        half = BytesSource(await bytes_of(source.means, REF))
        await import_store(with_, COPY, half, lineage=LINEAGE, follows=True)
        await create_replica(with_, REPLICA, LINEAGE)
        await past.go_on(5)
        await past.migrate()
        await past.end()

        for ref in (COPY, REPLICA):
            replica = await OpenStore.open(with_, ref)
            await catch_up(StoreLog(source.means, REF), replica)

        whole = await bytes_of(source.means, REF)
        assert await bytes_of(with_, COPY) == whole
        assert await bytes_of(with_, REPLICA) == whole
        await promote(with_, COPY)
        promoted = await OpenStore.open(with_, COPY)
        reply = await promoted.commit([])
        assert reply.seq == parts_of(whole)[0]["last_seq"] + 1


async def test_from_memory_into_a_file(tmp_path: Path) -> None:
    await moved(stores.memory(), stores.sqlite(tmp_path))


@pytest.mark.slow
async def test_from_a_file_into_dynamodb_and_out_of_it(tmp_path: Path) -> None:
    await moved(stores.sqlite(tmp_path), stores.dynamodb_moto())
    await moved(stores.dynamodb_moto(), stores.memory())


async def test_a_replica_that_shows_in_part_for_a_moment_is_not_diverged() -> None:
    async with pair() as (source, _):
        *before, last = await entries_of(source)
        records = HalfShown()
        first = means(records, prefix="f")
        await create_replica(first, REPLICA, LINEAGE)
        await apply_batch(await OpenStore.open(first, REPLICA), before)
        records.hide(stored_table_key(REPLICA.partition, ITEMS.full_name))

        async def pause(_: float) -> None:
            records.instead.clear()

        other = replace(means(records, prefix="o"), pause=pause)

        assert await apply_batch(await OpenStore.open(other, REPLICA), [last]) == last.seq
        assert records.looks
