"""Documents of a store: where they live, for how long, and what can be said of them afterwards."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest
from tests.support.documents import opened

from perdure.kernel.documents.content import base, delta
from perdure.kernel.documents.errors import (
    AddressTaken,
    CopyRefused,
    DeltaDoesNotApply,
    DocumentRetired,
    HistoryNotKept,
    IdsExhausted,
    IdTaken,
    NeedsBase,
    RevisionDiffers,
    UnknownDocument,
)
from perdure.kernel.documents.places import SAFE_INTEGER_MAX, Address
from perdure.kernel.documents.read import DocumentScan
from perdure.kernel.documents.records import Document, History
from perdure.kernel.documents.writes import (
    ChangeDocument,
    CopyDocument,
    CreateDocument,
    RetireDocument,
)
from perdure.kernel.errors import InvalidValue, TooLarge
from perdure.kernel.ids import DocumentId, Seq
from perdure.runtime.documents.store import OpenStore

pytestmark = pytest.mark.stores

HERE = Address("notes", "here", "page")
THERE = Address("notes", "there", "page")


def created(
    address: Address, value: Any, history: History = "rewindable", id: int | None = None
) -> CreateDocument:
    id = None if id is None else DocumentId(id)
    return CreateDocument(address, history, base(1, value), id).checked()


def set_to(id: int, value: Any, *, version: int = 1, revision: int | None = None) -> ChangeDocument:
    return ChangeDocument(DocumentId(id), base(version, value), revision)


def edited(id: int, *ops: Any, version: int = 1, revision: int | None = None) -> ChangeDocument:
    return ChangeDocument(DocumentId(id), delta(version, list(ops)), revision)


def ended(id: int, revision: int | None = None) -> RetireDocument:
    return RetireDocument(DocumentId(id), revision)


async def said(store: OpenStore, id: int, at: int | None = None) -> Any:
    loaded = await store.load(DocumentId(id), None if at is None else Seq(at))
    return None if loaded is None else loaded.value


async def found(store: OpenStore, address: Address, at: int | None = None) -> int | None:
    document = await store.find(address, None if at is None else Seq(at))
    return None if document is None else document.id


async def listed(store: OpenStore, namespace: str, at: int | None = None) -> list[int]:
    scan = DocumentScan("notes", namespace, None if at is None else Seq(at))
    documents, more = await store.read(lambda view: scan.page(view, store.ref.partition, None, 99))
    assert more is None
    return [each.id for each in documents]


async def is_refused(commit: Awaitable[Any], of: type[Exception], tale: str | None = None) -> None:
    with pytest.raises(of, match=tale):
        await commit


async def test_two_documents_change_places_in_one_commit():
    async with opened() as store:
        await store.commit([created(HERE, "a"), created(THERE, "b")])

        reply = await store.commit([created(HERE, "b"), ended(2), created(THERE, "a"), ended(3)])

        assert reply.ids == (4, 5)
        assert [await found(store, HERE, at) for at in (0, 1, 2, None)] == [None, 2, 4, 4]
        assert [await found(store, THERE, at) for at in (0, 1, 2, None)] == [None, 3, 5, 5]
        assert await said(store, 2, 1) == "a"
        assert await said(store, 2, 2) is None


@pytest.mark.parametrize("history", ["none", "latest", "rewindable"])
async def test_what_begins_and_ends_in_one_commit_has_lived_at_none(history):
    async with opened() as store:
        await store.commit([created(HERE, "before")])

        await store.commit([created(HERE, "brief", history, id=9), ended(9), created(THERE, "t")])

        for at in (0, 1, 2, None):
            assert await found(store, HERE, at) == (2 if at != 0 else None)
            assert 9 not in await listed(store, "here", at)
        assert await said(store, 9) is None
        await is_refused(
            store.commit([edited(9)]), UnknownDocument if history == "none" else DocumentRetired
        )


async def test_a_life_ends_just_where_the_next_one_begins():
    async with opened() as store:
        await store.commit([created(HERE, "old")])
        await store.commit([edited(2, ["r", "older"])])

        await store.commit([created(HERE, "new"), ended(2), edited(2, ["r", "last"])])

        assert [await found(store, HERE, at) for at in (1, 2, 3, None)] == [2, 2, 3, 3]
        assert [await said(store, 2, at) for at in (1, 2, 3)] == ["old", "older", None]
        assert [await listed(store, "here", at) for at in (0, 2, 3, None)] == [[], [2], [3], [3]]
        document = await store.find(HERE, Seq(2))
        assert document is not None
        assert (document.created_at, document.retired_at, document.revision) == (1, 3, 3)


@pytest.mark.parametrize("history", ["none", "latest", "rewindable"])
async def test_an_address_is_freed_and_taken_in_one_commit(history):
    async with opened() as store:
        await store.commit([created(HERE, "old", history)])

        await store.commit([created(HERE, "new", history), ended(2)])

        assert await found(store, HERE) == 3
        assert await said(store, 3) == "new"
        assert await listed(store, "here") == [3]


async def test_one_address_has_one_living_document():
    async with opened() as store:
        await store.commit([created(HERE, 1)])

        await is_refused(store.commit([created(HERE, 2)]), AddressTaken, "incarnation, 2")
        await is_refused(store.commit([created(THERE, 2), created(THERE, 3)]), AddressTaken)

        assert await listed(store, "there") == []


async def test_a_copy_is_of_what_was_there_before_its_commit():
    async with opened() as store:
        await store.commit([created(HERE, ["a"])])
        await store.commit([edited(2, ["p", [], 1, 0, ["b"]])])
        past, now = (
            CopyDocument(Address("notes", where, "page"), "rewindable", DocumentId(2), at)
            for where, at in (("past", Seq(1)), ("now", None))
        )

        await store.commit([past, now])
        await store.commit([edited(2, ["r", []])])

        assert [await said(store, id) for id in (2, 3, 4)] == [[], ["a"], ["a", "b"]]
        loaded = await store.load(DocumentId(4))
        assert loaded is not None
        assert loaded.deltas == 0


@pytest.mark.parametrize(
    "touch", [edited(2), set_to(2, "new"), ended(2)], ids=["delta", "base", "end"]
)
async def test_a_copy_of_what_the_same_commit_touches_is_refused(touch):
    async with opened() as store:
        await store.commit([created(HERE, "a")])
        for at in (None, Seq(1)):
            copy = CopyDocument(THERE, "rewindable", DocumentId(2), at)

            await is_refused(store.commit([copy, touch]), CopyRefused, "changed in the copy batch")

        assert await said(store, 2) == "a"
        assert store.seq == 1


@pytest.mark.parametrize(
    ("history", "copy"),
    [
        ("rewindable", CopyDocument(THERE, "rewindable", DocumentId(7))),
        ("rewindable", CopyDocument(THERE, "rewindable", DocumentId(2), Seq(2))),
        ("rewindable", CopyDocument(THERE, "latest", DocumentId(2))),
        ("rewindable", CopyDocument(THERE, "rewindable", DocumentId(2), meta={"of": "others"})),
        ("rewindable", CopyDocument(Address("notes", "x", "card"), "rewindable", DocumentId(2))),
        (
            "rewindable",
            CopyDocument(Address("notes", "x", "page", ""), "rewindable", DocumentId(2)),
        ),
        ("latest", CopyDocument(THERE, "latest", DocumentId(2), Seq(1))),
    ],
    ids=["unknown", "not yet", "history", "meta", "kind", "key", "no past"],
)
async def test_a_copy_that_is_none_is_refused(history, copy):
    async with opened() as store:
        await store.commit([created(HERE, "a", history)])

        await is_refused(store.commit([copy]), CopyRefused)

        assert store.seq == 1


async def test_ids_that_are_named_raise_those_that_are_given():
    async with opened() as store:
        first = await store.commit([created(HERE, 1), created(THERE, 2, id=50)])
        await is_refused(store.commit([created(HERE, 3, id=60)]), AddressTaken)
        second = await store.commit([created(Address("notes", "x", "y"), 4)])

        assert (first.ids, first.next_id) == ((51, 50), 52)
        assert second.ids == (61,)


async def test_an_id_belongs_to_one_document_for_ever():
    async with opened() as store:
        await store.commit([created(HERE, 1, "latest", id=7)])
        await store.commit([ended(7)])

        await is_refused(store.commit([created(THERE, 2, id=7)]), IdTaken, "already belongs")
        twice = [created(HERE, 1, "none", id=8), ended(8), created(THERE, 2, id=8)]
        await is_refused(store.commit(twice), IdTaken)


async def test_the_greatest_id_is_the_last():
    async with opened() as store:
        await store.commit([created(HERE, 1, id=SAFE_INTEGER_MAX)])

        await is_refused(store.commit([created(THERE, 2)]), IdsExhausted)
        assert await said(store, SAFE_INTEGER_MAX) == 1


async def test_deltas_are_of_the_version_of_their_base():
    async with opened() as store:
        await store.commit([created(HERE, {"v": 1})])

        await is_refused(store.commit([edited(2, version=2)]), NeedsBase, "version transition")
        await store.commit([set_to(2, {"v": 2}, version=2)])
        await store.commit([edited(2, ["s", ["w"], 3], version=2)])
        await is_refused(store.commit([edited(2, version=1)]), NeedsBase)

        loaded = [await store.load(DocumentId(2), Seq(at)) for at in (1, 2, 3)]
        assert [(each.version, each.value, each.deltas) for each in loaded if each] == [
            (1, {"v": 1}, 0),
            (2, {"v": 2}, 0),
            (2, {"v": 2, "w": 3}, 1),
        ]


async def test_a_commit_gives_a_document_one_content():
    async with opened() as store:
        await store.commit([created(HERE, 1)])

        await is_refused(store.commit([edited(2), set_to(2, 2)]), NeedsBase, "more than one")
        both = [created(THERE, 1, id=9), edited(9)]
        await is_refused(store.commit(both), NeedsBase, "more than one")
        await is_refused(store.commit(both[::-1]), UnknownDocument)


async def test_a_delta_is_held_to_what_is_there_before_it_is_taken():
    async with opened() as store:
        await store.commit([created(HERE, {"t": 1}), created(THERE, 0)])

        batch = [set_to(3, 1), edited(2, ["a", ["t"], "x"])]
        await is_refused(store.commit(batch), DeltaDoesNotApply)

        assert await said(store, 3) == 0


async def test_who_has_read_another_revision_changes_nothing():
    async with opened() as store:
        await store.commit([created(HERE, 1)])
        await store.commit([set_to(2, 2, revision=1)])

        for late in (set_to(2, 3, revision=1), edited(2, revision=3), ended(2, revision=1)):
            await is_refused(store.commit([late]), RevisionDiffers, "found revision 2")
        await store.commit([ended(2, revision=2), set_to(2, 4, revision=2)])

        assert await said(store, 2, 2) == 2
        assert await said(store, 2) is None


async def test_unknown_and_ended_documents_are_told_apart():
    async with opened() as store:
        await store.commit([created(HERE, 1, "latest"), created(THERE, 1, "none")])
        await store.commit([ended(2), ended(3)])

        for write in (edited(2), set_to(2, 1), ended(2)):
            await is_refused(store.commit([write]), DocumentRetired, "Document 2 is retired")
        for write in (edited(3), set_to(9, 1), ended(3)):
            await is_refused(store.commit([write]), UnknownDocument, "Unknown document: ")


@pytest.mark.parametrize("history", ["none", "latest"])
async def test_a_document_without_a_past_says_so(history):
    async with opened() as store:
        await store.commit([created(HERE, 1, history)])

        for at in (0, 1, 2):
            await is_refused(store.load(DocumentId(2), Seq(at)), HistoryNotKept, "does not retain")

        assert await said(store, 2) == 1
        assert await said(store, 99, 1) is None


PARTS = ["", "a", "\ud800", "\ud801", "a/b", "\x00", "\U0001f600", "null"]


async def test_every_address_is_another():
    addresses = [
        *(Address("notes", name, "k", "k") for name in PARTS),
        *(Address("notes", "n", name, "k") for name in PARTS),
        *(Address("notes", "n", "k", name) for name in PARTS),
        Address("notes", "n", "k"),
        Address("others", "n", "k"),
    ]
    async with opened() as store:
        reply = await store.commit([created(each, 1) for each in addresses[:13]])
        more = await store.commit([created(each, 1) for each in addresses[13:]])

        ids = [*reply.ids, *more.ids]
        assert [await found(store, each) for each in addresses] == ids
        documents = [await store.find(each) for each in addresses]
        assert [each.address for each in documents if each] == addresses


@pytest.mark.parametrize("part", range(4))
def test_parts_of_an_address_have_a_greatest_length(part):
    parts: list[Any] = ["o", "n", "k", "m"]
    parts[part] = "\ud800" * 170 + "xx"  # six bytes each, and two quotation marks
    created(Address(*parts), 1)

    parts[part] += "x"
    with pytest.raises(TooLarge) as raised:
        created(Address(*parts), 1)

    assert raised.value.found.startswith("1025")


@pytest.mark.parametrize(
    "parts", [(1, "n", "k"), ("o", None, "k"), ("o", "n", b"k"), ("o", "n", "k", 0)]
)
def test_parts_of_an_address_are_texts(parts):
    with pytest.raises(InvalidValue):
        created(Address(*parts), 1)


@pytest.mark.parametrize("id", [0, -1, SAFE_INTEGER_MAX + 1, True, "2"])
def test_an_id_is_one_that_every_reader_can_hold(id):
    with pytest.raises(InvalidValue):
        CopyDocument(HERE, "latest", DocumentId(2), id=id).checked()


@pytest.mark.parametrize(
    ("meta", "of"),
    [({"a": float("nan")}, InvalidValue), ({"a": {1}}, InvalidValue), ("x" * 4_095, TooLarge)],
)
def test_meta_is_a_little_json(meta, of):
    with pytest.raises(of):
        CreateDocument(HERE, "latest", base(1, 1), meta=meta).checked()


def test_a_creation_needs_a_base_and_a_history():
    with pytest.raises(NeedsBase):
        CreateDocument(HERE, "latest", delta(1, [])).checked()
    with pytest.raises(InvalidValue):
        CreateDocument(HERE, "sometimes", base(1, 1)).checked()


async def test_a_namespace_is_listed_page_by_page_as_it_was():
    async with opened() as store:
        await store.commit([created(Address("notes", "n", "k", f"{n}"), n) for n in range(5)])
        await store.commit([ended(3), created(Address("notes", "n", "other"), 9)])
        partition = store.ref.partition

        async def page(
            at: int | None, behind: int | None, kind: str | None = None
        ) -> tuple[list[int], int | None]:
            scan = DocumentScan("notes", "n", None if at is None else Seq(at), kind)
            look = lambda view: scan.page(view, partition, behind, 2)  # noqa: E731
            documents: list[Document]
            documents, more = await store.read(look)
            return [each.id for each in documents], more

        assert await page(1, None) == ([2, 3], 3)
        assert await page(1, 3) == ([4, 5], 5)
        assert await page(1, 5) == ([6], None)
        assert await page(None, None) == ([2, 4], 4)
        assert await page(2, 4) == ([5, 6], 6)
        assert await page(None, None, "other") == ([7], None)
