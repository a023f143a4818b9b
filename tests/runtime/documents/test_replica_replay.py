"""A log that is replayed into an empty store makes the same store, byte for byte."""

from __future__ import annotations

import pytest
from tests.support.documents import LINEAGE, REF, means, opened
from tests.support.exporting import bytes_of
from tests.support.histories import Past

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.ids import DocumentStoreId
from perdure.runtime.documents.replica import StoreLog, catch_up, create_replica
from perdure.runtime.documents.store import OpenStore

pytestmark = pytest.mark.stores

REPLICA = DocumentStoreRef(REF.storage, DocumentStoreId("replica"))


@pytest.mark.parametrize("seed", range(6))
async def test_a_replayed_log_gives_an_equal_export_whatever_was_committed(seed: int) -> None:
    records = MemoryStore()
    async with opened(records) as source:
        past = Past(source, seed)
        await past.begin()
        await past.go_on(60)
        await past.end()
        with_ = means(records, prefix="r")
        await create_replica(with_, REPLICA, LINEAGE)
        replica = await OpenStore.open(with_, REPLICA)

        lag = await catch_up(StoreLog(with_, REF, limit=7), replica)

        assert lag.seq == source.seq == replica.seq
        assert lag.commits == 0
        assert await bytes_of(with_, REPLICA) == await bytes_of(with_, REF)
