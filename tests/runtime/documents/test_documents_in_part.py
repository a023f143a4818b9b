"""What a running commit hides of a document is no damage of it, and a damage is told as one."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from tests.support.documents import REF, means, opened
from tests.support.half_shown import HalfShown

from perdure.kernel.documents.content import base
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.read import DocumentScan, find_document, load_document
from perdure.kernel.documents.records import document_key, revision_key, store_head_key
from perdure.kernel.documents.writes import ChangeDocument, CreateDocument
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import DocumentId, Seq
from perdure.runtime.documents.store import OpenStore

pytestmark = pytest.mark.stores

HERE = Address("notes", "desk", "note")
PAUSES = 4
ID = DocumentId(2)
DOCUMENT = document_key(REF.partition, ID)
HEAD = store_head_key(REF.partition)


def content_key(seq: int):
    return revision_key(REF.partition, ID, Seq(seq))


async def patient(records: HalfShown) -> OpenStore:
    """Open the store in another process, for which all shows once it has waited for a while."""
    other = means(records, prefix="u")
    pauses = itertools.count(1)

    async def pause(_: float) -> None:
        if next(pauses) == PAUSES:
            records.instead.clear()

    return await OpenStore.open(replace(other, pause=pause), REF)


async def created(store: OpenStore, history: str) -> None:
    await store.commit([CreateDocument(HERE, history, base(1, "old")).checked()])


@pytest.mark.parametrize("history", ["none", "latest", "rewindable"])
@pytest.mark.parametrize(
    "late",
    [(DOCUMENT,), (DOCUMENT, HEAD), (content_key(2),), (content_key(2), HEAD), (content_key(1),)],
    ids=["record", "record and head", "content", "content and head", "old content"],
)
async def test_a_change_of_which_a_part_shows_is_read_before_or_after_it(history, late):
    records = HalfShown()
    async with opened(records) as store:
        await created(store, history)
        records.hold(*late)
        await store.commit([ChangeDocument(ID, base(1, "new"))])
        reader = await patient(records)

        loaded = await reader.load(ID)

        assert loaded.value in {"old", "new"}


async def test_a_document_that_shows_behind_its_address_or_namespace_is_found():
    records = HalfShown()
    async with opened(records) as store:
        await created(store, "latest")
        records.hide(DOCUMENT)
        by_address = await (await patient(records)).find(HERE)
        records.hide(DOCUMENT)
        scan = DocumentScan("notes", "desk")
        reader = await patient(records)
        found, _ = await reader.read(lambda view: scan.page(view, REF.partition, None, 10))

        assert [by_address.id, *(each.id for each in found)] == [ID, ID]


@pytest.mark.parametrize("lost", [DOCUMENT, content_key(1)], ids=["record", "content"])
async def test_what_is_lost_is_told_as_a_damage(lost):
    records = HalfShown()
    async with opened(records) as store:
        await created(store, "latest")
        document = await store.find(HERE)
        records.lose(lost)
        reader = await patient(records)

        with pytest.raises(Corrupt):
            await reader.read(lambda view: reader_of(view, document.id))


def reader_of(view, id):
    """Return what is said at the address of a document."""
    find_document(view, REF.partition, HERE)
    return load_document(view, REF.partition, id)
