"""Contents that nobody can read any more do not stay, and are not looked at while they do."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from tests.support.document_wishes import everything
from tests.support.documents import REF, opened

from perdure.authority.memory import MemoryStore
from perdure.authority.packing import RAW
from perdure.kernel.documents.content import base, delta
from perdure.kernel.documents.leftover import DROPPED_MAX
from perdure.kernel.documents.places import Address, DocumentStoreRef
from perdure.kernel.documents.sweep import SweepContents, Swept
from perdure.kernel.documents.writes import ChangeDocument, CreateDocument, RetireDocument
from perdure.kernel.errors import NotFound
from perdure.kernel.ids import DocumentId, DocumentStoreId
from perdure.kernel.view import Stored
from perdure.runtime.documents.store import OpenStore

pytestmark = pytest.mark.stores

ID = DocumentId(2)


def address(number: int = 0) -> Address:
    return Address("notes", "n", f"k{number}")


async def grown(store: OpenStore, history: Any, deltas: int, *, documents: int = 1) -> None:
    """Create documents and give each so many deltas."""
    await store.commit([CreateDocument(address(n), history, base(1, [])) for n in range(documents)])
    for number in range(deltas):
        content = delta(1, [["p", [], number, 0, [number]]])
        ids = range(ID, ID + documents)
        await store.commit([ChangeDocument(DocumentId(n), content, trusted=True) for n in ids])


async def lying(store: OpenStore, prefix: str) -> list[str]:
    records = await store.read(everything(store.ref.partition))
    return [sort for sort in records if sort.startswith(prefix)]


async def swept(store: OpenStore) -> list[Swept]:
    """Sweep until nothing is left."""
    replies = [await store.means.authority.execute(SweepContents(store.ref))]
    while replies[-1].left:
        replies.append(await store.means.authority.execute(SweepContents(store.ref)))
    return replies


async def value(store: OpenStore, id: DocumentId = ID) -> Any:
    loaded = await store.load(id)
    return None if loaded is None else loaded.value


@pytest.mark.parametrize("history", ["none", "latest"])
async def test_five_hundred_deltas_go_in_parts(history):
    async with opened() as store:
        await grown(store, history, 500)
        assert await value(store) == list(range(500))

        await store.commit([ChangeDocument(ID, base(1, ["new"]))])

        assert await value(store) == ["new"]
        assert len(await lying(store, "rev/")) == 501 - DROPPED_MAX + 1
        await store.commit([ChangeDocument(ID, delta(1, [["p", [], 1, 0, ["er"]]]))])
        assert await value(store) == ["new", "er"]
        await store.commit([RetireDocument(ID)])
        assert len(await lying(store, "rev/")) == 501 - 2 * DROPPED_MAX + 2

        seq = store.seq
        replies = await swept(store)

        assert sum(each.dropped for each in replies) == 501 - 2 * DROPPED_MAX + 2
        assert [each.left for each in replies] == sorted({each.left for each in replies})[::-1]
        assert await lying(store, "rev/") + await lying(store, "left/") == []
        assert await swept(store) == [Swept(0, 0)]
        assert (await store.commit([CreateDocument(address(), "none", base(1, 1))])).seq == seq + 1


async def test_what_is_left_is_read_by_nobody():
    records = MemoryStore()
    async with opened(records) as store:
        await grown(store, "latest", 2 * DROPPED_MAX)
        await store.commit([ChangeDocument(ID, base(1, ["new"]))])
        newest = max(await lying(store, "rev/"))

        for key, stored in records._records.items():
            if key.sort.startswith("rev/") and key.sort < newest:
                records._records[key] = Stored(stored.version, RAW + b"damaged")

        assert await value(store) == ["new"]
        await store.commit([ChangeDocument(ID, delta(1, [["d", [0]]]))])
        assert await value(store) == []
        await store.commit([ChangeDocument(ID, base(1, "newest"))])
        await swept(store)
        assert await value(store) == "newest"
        assert len(await lying(store, "rev/")) == 1


async def test_what_a_document_of_that_id_has_left_is_not_another_ones():
    async with opened() as store:
        await grown(store, "none", 2 * DROPPED_MAX)
        await store.commit([RetireDocument(ID)])
        assert await lying(store, "left/")

        await store.commit([CreateDocument(address(), "rewindable", base(1, "mine"), ID)])

        assert await value(store) == "mine"
        await swept(store)
        assert await value(store) == "mine"
        assert len(await lying(store, "rev/")) == 1


async def test_many_tails_are_dropped_within_one_commit_of_a_store():
    async with opened() as store:
        await grown(store, "latest", DROPPED_MAX, documents=6)

        ids = [DocumentId(id) for id in range(2, 8)]
        await store.commit([ChangeDocument(id, base(1, id)) for id in ids])

        assert [await value(store, id) for id in ids] == ids
        left = len(await lying(store, "rev/")) - 6
        assert 0 < left < 6 * (DROPPED_MAX + 1)
        assert sum(each.dropped for each in await swept(store)) == left
        assert [await value(store, id) for id in ids] == ids


async def test_a_full_commit_leaves_all_of_it():
    async with opened() as store:
        await grown(store, "latest", 3)
        fillers = [CreateDocument(address(n), "latest", base(1, n)) for n in range(1, 23)]

        await store.commit([ChangeDocument(ID, base(1, "new")), *fillers])

        assert await value(store) == "new"
        assert [each.dropped for each in await swept(store)] == [4]


async def test_a_change_and_an_end_in_one_commit_leave_nothing():
    for kind, history in itertools.product((base(1, "x"), delta(1, [])), ("none", "latest")):
        async with opened() as store:
            await grown(store, history, 2)

            await store.commit([RetireDocument(ID), ChangeDocument(ID, kind)])

            assert await lying(store, "rev/") + await lying(store, "left/") == []


async def test_the_past_that_is_kept_is_not_swept():
    async with opened() as store:
        await grown(store, "rewindable", 50)
        await store.commit([ChangeDocument(ID, base(1, "new"))])
        await store.commit([RetireDocument(ID)])

        assert await swept(store) == [Swept(0, 0)]
        assert len(await lying(store, "rev/")) == 52


async def test_a_store_that_is_not_there_is_not_swept():
    async with opened() as store:
        with pytest.raises(NotFound):
            await store.means.authority.execute(
                SweepContents(DocumentStoreRef(REF.storage, DocumentStoreId("none")))
            )
