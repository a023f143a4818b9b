"""A reading is of one moment, and so is a refusal: what two commits show together is no answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.support.documents import means, opened

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.content import base, delta
from perdure.kernel.documents.errors import NeedsBase
from perdure.kernel.documents.followed import NamespaceView
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.records import document_key
from perdure.kernel.documents.writes import ChangeDocument, CreateDocument, RetireDocument
from perdure.kernel.errors import Contended, Corrupt
from perdure.kernel.ids import DocumentId
from perdure.kernel.view import Reads, View
from perdure.runtime.documents.store import OpenStore

pytestmark = pytest.mark.stores

HERE = Address("notes", "n", "k")
ID = DocumentId(2)
Rival = Callable[[], Awaitable[object]]


class Interrupted:
    """A store on which a rival acts just before certain loads, counted from one."""

    def __init__(
        self, records: MemoryStore, rivals: dict[int, Rival], *, is_torn: bool = False
    ) -> None:
        self.records = records
        self.rivals = rivals
        self.is_torn = is_torn
        """Only a snapshot is of one moment, as on DynamoDB."""
        self.loads = 0

    async def load(self, reads: Reads) -> View:
        self.loads += 1
        rival = self.rivals.pop(self.loads, None)
        if rival is not None:
            await rival()
        view = await self.records.load(reads)
        view.is_snapshot &= not self.is_torn or (reads.snapshot and not reads.ranges)
        return view

    async def commit(self, commit: Any) -> None:
        await self.records.commit(commit)

    async def close(self) -> None:
        await self.records.close()


async def interrupted(
    store: OpenStore, records: MemoryStore, rivals: dict[int, Rival], *, is_torn: bool = False
) -> OpenStore:
    """Open the same store again, in what stands for another process."""
    other = means(Interrupted(records.reopened(), {}), prefix="u")
    opened_again = await OpenStore.open(other, store.ref)
    slow = Interrupted(records.reopened(), rivals, is_torn=is_torn)
    opened_again.means = replace(other, authority=means(slow, prefix="v").authority)
    return opened_again


def edited(store: OpenStore) -> Rival:
    return lambda: store.commit([ChangeDocument(ID, delta(1, [["a", ["t"], "x"]]))])


def rebased(store: OpenStore) -> Rival:
    return lambda: store.commit([ChangeDocument(ID, base(1, {"t": "new"}))])


def always(rival: Rival) -> dict[int, Rival]:
    return dict.fromkeys(range(1, 200), rival)


def listing(store: OpenStore) -> Callable[[View], dict[str, Any]]:
    return lambda view: NamespaceView("notes", "n").look(view, store.ref.partition)


@pytest.mark.parametrize("load", [1, 2, 3, 4])
@pytest.mark.parametrize(("rival", "said"), [(edited, "x"), (rebased, "new")])
async def test_a_commit_into_a_reading_is_no_damage(load, rival, said):
    records = MemoryStore()
    async with opened(records) as store:
        await store.commit([CreateDocument(HERE, "latest", base(1, {"t": ""}))])
        reader = await interrupted(store, records, {load: rival(store)})

        loaded = await reader.load(ID)

        assert loaded is not None
        assert loaded.value == {"t": said}


async def test_an_end_and_a_beginning_into_a_reading_are_no_damage():
    records = MemoryStore()
    async with opened(records) as store:
        await store.commit([CreateDocument(HERE, "none", base(1, {"t": "old"}))])
        again = [RetireDocument(ID), CreateDocument(HERE, "none", base(1, {"t": "new"}))]
        reader = await interrupted(store, records, {3: lambda: store.commit(again)})

        document = await reader.find(HERE)

        assert document is not None
        assert document.id == 3


@pytest.mark.parametrize("load", [1, 2])
@pytest.mark.parametrize(("rival", "said"), [(edited, "xy"), (rebased, "newy")])
async def test_a_commit_into_a_decision_refuses_nothing(load, rival, said):
    records = MemoryStore()
    async with opened(records) as store:
        await store.commit([CreateDocument(HERE, "latest", base(1, {"t": ""}))])
        writer = await interrupted(store, records, {load: rival(store)})

        await writer.commit([ChangeDocument(ID, delta(1, [["a", ["t"], "y"]]))])

        loaded = await writer.load(ID)
        assert loaded is not None
        assert loaded.value == {"t": said}


@pytest.mark.parametrize("load", [1, 2, 3])
async def test_an_address_that_is_freed_during_a_decision_is_free(load):
    records = MemoryStore()
    async with opened(records) as store:
        await store.commit([CreateDocument(HERE, "none", base(1, {}))])
        rivals = {load: lambda: store.commit([RetireDocument(ID)])}
        writer = await interrupted(store, records, rivals)

        reply = await writer.commit([CreateDocument(HERE, "none", base(1, {}))])

        assert reply.seq == 3


async def test_a_refusal_of_one_moment_stands():
    records = MemoryStore()
    async with opened(records) as store:
        await store.commit([CreateDocument(HERE, "latest", base(1, {"t": ""}))])
        writer = await interrupted(store, records, {1: edited(store)})

        with pytest.raises(NeedsBase):
            await writer.commit([ChangeDocument(ID, delta(2, []))])

        assert store.seq == 2


async def test_damage_is_damage_however_often_it_is_read():
    records = MemoryStore()
    async with opened(records) as store:
        await store.commit([CreateDocument(HERE, "latest", base(1, {"t": ""}))])
        key = next(each for each in records._records if each.sort.startswith("rev/"))
        del records._records[key]
        records._sorts[key.partition].remove(key.sort)
        reader = await interrupted(store, records, {})

        with pytest.raises(Corrupt):
            await reader.load(ID)


async def test_who_commits_all_the_time_keeps_no_reader_out():
    records = MemoryStore()
    async with opened(records) as store:
        await store.commit([CreateDocument(HERE, "latest", base(1, {"t": ""}))])
        reader = await interrupted(store, records, always(edited(store)))

        loaded = await reader.load(ID)

        assert loaded is not None
        assert loaded.value["t"] == "x" * (store.seq - 1)


async def test_who_writes_bases_all_the_time_keeps_no_reader_out():
    records = MemoryStore()
    async with opened(records) as store:
        await store.commit([CreateDocument(HERE, "rewindable", base(1, {"t": ""}))])
        reader = await interrupted(store, records, always(rebased(store)))

        loaded = await reader.load(ID)

        assert loaded is not None
        assert loaded.document.last == store.seq


async def test_records_named_are_read_as_of_one_moment_where_only_a_snapshot_is():
    records = MemoryStore()
    async with opened(records) as store:
        await store.commit([CreateDocument(HERE, "latest", base(1, {"t": ""}))])
        reader = await interrupted(store, records, always(edited(store)), is_torn=True)

        head, document = await reader.look_with_head(
            lambda view: view.peek(document_key(store.ref.partition, ID))
        )

        assert document is not None
        assert document.last == head.seq


@pytest.mark.parametrize("is_torn", [False, True])
async def test_who_commits_all_the_time_keeps_no_refusal_back(is_torn):
    records = MemoryStore()
    async with opened(records) as store:
        await store.commit([CreateDocument(HERE, "latest", base(1, {"t": ""}))])
        writer = await interrupted(store, records, always(edited(store)), is_torn=is_torn)

        with pytest.raises(NeedsBase):
            await writer.commit([ChangeDocument(ID, delta(2, []))])


async def test_a_whole_range_is_read_beside_commits_where_a_load_is_of_one_moment():
    records = MemoryStore()
    async with opened(records) as store:
        await store.commit([CreateDocument(HERE, "latest", base(1, {"t": ""}))])
        reader = await interrupted(store, records, always(edited(store)))

        listed = await reader.read(listing(store))

        assert len(listed) == 1


async def test_a_store_that_never_rests_is_contended_where_a_range_is_read_in_parts():
    records = MemoryStore()
    async with opened(records) as store:
        await store.commit([CreateDocument(HERE, "latest", base(1, {"t": ""}))])
        reader = await interrupted(store, records, always(edited(store)), is_torn=True)

        with pytest.raises(Contended):
            await reader.read(listing(store))
