"""Changes that come over a wire: a document that is only ever edited is written whole now and then."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
from tests.support.documents import REF, means
from tests.support.exporting import bytes_of

from perdure.kernel.documents.content import CONTENT_BYTES_MAX
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.documents.wire import WIRE_DELTAS_MAX
from perdure.kernel.ids import DocumentStoreId
from perdure.runtime.documents.replica import StoreLog, catch_up, create_replica
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.stores import DocumentStores

pytestmark = pytest.mark.stores

CREATE = {"write": "document.create", "owner": "notes", "namespace": "desk", "kind": "note"}
REPLICA = DocumentStoreRef(REF.storage, DocumentStoreId("replica"))


@asynccontextmanager
async def opened():
    with_ = means()
    found = DocumentStores(with_, REF.storage)
    await found.create(REF.store)
    yield found
    await with_.authority.close()


async def edited(stores, *ops, id=2):
    await stores.commit(REF.store, [{"write": "document.change", "id": id, "ops": list(ops)}])
    return await stores.document(REF.store, id)


@pytest.mark.parametrize("history", ["none", "latest", "rewindable"])
async def test_a_document_that_is_only_edited_has_few_deltas(history):
    async with opened() as stores:
        await stores.commit(REF.store, [{**CREATE, "history": history, "value": {"said": ""}}])

        told = [await edited(stores, ["a", ["said"], "x"]) for _ in range(3 * WIRE_DELTAS_MAX)]

        assert [len(each.value["said"]) for each in told] == list(range(1, len(told) + 1))
        deltas = [each.deltas for each in told]
        assert max(deltas) == WIRE_DELTAS_MAX
        assert deltas.count(0) == 2
        if history == "rewindable":
            past = await stores.document(REF.store, 2, at=50)
            assert len(past.value["said"]) == 49


async def test_what_is_written_whole_is_so_in_the_log_of_a_replica():
    async with opened() as stores:
        await stores.commit(REF.store, [{**CREATE, "value": {"said": ""}}])
        for _ in range(WIRE_DELTAS_MAX + 5):
            await edited(stores, ["a", ["said"], "x"])
        with_ = means(prefix="r")
        info = await stores.describe(REF.store)
        await create_replica(with_, REPLICA, info.lineage)
        replica = await OpenStore.open(with_, REPLICA)

        await catch_up(StoreLog(stores.means, REF), replica)

        assert await bytes_of(with_, REPLICA) == await bytes_of(stores.means, REF)
        await with_.authority.close()


@pytest.mark.slow
async def test_what_cannot_be_written_whole_is_kept_as_it_comes():
    async with opened() as stores:
        half = "x" * (CONTENT_BYTES_MAX // 2)
        await stores.commit(REF.store, [{**CREATE, "value": {"said": half}}])

        for _ in range(2):
            await edited(stores, ["a", ["said"], half])
        for _ in range(WIRE_DELTAS_MAX):
            told = await edited(stores, ["s", ["n"], 1])

        assert told.deltas == WIRE_DELTAS_MAX + 2
