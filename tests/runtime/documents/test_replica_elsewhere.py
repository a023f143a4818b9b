"""A store goes from one kind of store to another, by export or by its log, and stays what it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support import stores
from tests.support.documents import LINEAGE, REF, means, opened
from tests.support.exporting import BytesSource, bytes_of, parts_of
from tests.support.histories import Past

from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.ids import DocumentStoreId
from perdure.runtime.documents.importing import import_store
from perdure.runtime.documents.replica import StoreLog, catch_up, create_replica, promote
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
