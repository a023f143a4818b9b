"""Documents of a namespace, as their owner's code has them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.documents import opened

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.errors import (
    AddressTaken,
    CopyRefused,
    DocumentRetired,
    HistoryNotKept,
    IdTaken,
    NameBound,
    StoreClosed,
    UnknownDocument,
)
from perdure.kernel.errors import InvalidId, InvalidValue, OutOfRange, TooLarge
from perdure.kernel.ids import DocumentId, Seq
from perdure.runtime.documents.definitions import DocumentDefinition
from perdure.runtime.documents.documents import Documents

pytestmark = pytest.mark.stores


def sixteen(value: Any, ops: Any, deltas_since_base: int) -> bool:
    return deltas_since_base >= 16


NOTE: DocumentDefinition[Any] = DocumentDefinition(
    "note", 1, "rewindable", {"lines": []}, sixteen
).checked()
COUNTER: DocumentDefinition[Any] = DocumentDefinition(
    "counter", 1, "latest", {"n": 0}, sixteen
).checked()


def line(text: str) -> Any:
    return lambda draft: draft["lines"].append(text)


async def test_a_document_is_made_changed_read_and_ended():
    async with opened() as store, Documents.open(store, "notes", "n") as notes:
        id = await notes.create(NOTE, "k")
        first = await notes.change(NOTE, "k", line("a"))
        await notes.change(NOTE, "k", line("b"))
        found = await notes.get(NOTE, "k")

        assert await notes.retire(NOTE, "k") == id
        past = [await notes.at(Seq(seq), NOTE, "k") for seq in range(5)]

        assert first == {"lines": ["a"]}
        assert found is not None
        assert (found.id, found.key, found.value, found.created_at) == (
            id,
            "k",
            {"lines": ["a", "b"]},
            1,
        )
        assert [each and each.value["lines"] for each in past] == [
            None,
            [],
            ["a"],
            ["a", "b"],
            None,
        ]
        assert past[1] is not None
        assert past[1].retired_at == 4
        assert await notes.get(NOTE, "k") is None


async def test_a_document_that_is_not_there_is_told_by_code():
    async with opened() as store, Documents.open(store, "notes", "n") as notes:
        await notes.create(NOTE, "")

        assert await notes.get(NOTE) is None
        for call in (notes.change(NOTE, None, line("a")), notes.retire(NOTE, "k")):
            with pytest.raises(UnknownDocument, match="a note in notes/n; found none under key"):
                await call
        with pytest.raises(AddressTaken):
            await notes.create(NOTE, "")
        await notes.create(NOTE, id=DocumentId(40))
        with pytest.raises(IdTaken):
            await notes.create(NOTE, "k", id=DocumentId(40))


async def test_values_are_the_callers_own():
    given = {"lines": ["a"]}
    kept: list[Any] = []
    async with opened() as store, Documents.open(store, "notes", "n") as notes:
        await notes.create(NOTE, None, given)
        given["lines"].append("later")
        changed = await notes.change(
            NOTE, None, lambda draft: kept.append(draft) or line("b")(draft)
        )
        changed["lines"].append("later")
        kept[0]["lines"].append("later")
        read = await notes.get(NOTE)
        assert read is not None
        read.value["lines"].append("later")

        found = await notes.get(NOTE)

    assert found is not None
    assert found.value == {"lines": ["a", "b"]}
    assert NOTE.initial == {"lines": []}


async def test_an_edit_that_fails_or_changes_nothing_stores_nothing():
    async with opened() as store, Documents.open(store, "notes", "n") as notes:
        await notes.create(NOTE)

        with pytest.raises(ZeroDivisionError):
            await notes.change(NOTE, None, lambda draft: draft.clear() or 1 / 0)
        with pytest.raises(InvalidValue):
            await notes.change(NOTE, None, lambda draft: draft.update(n=float("inf")))
        assert await notes.change(NOTE, None, lambda draft: draft.update(lines=())) == {"lines": []}

        assert store.seq == 1


async def test_no_change_of_several_writers_is_lost():
    records, edits = MemoryStore(), []
    async with opened(records, prefix="a") as one, opened(records.reopened(), prefix="b") as other:
        writers = [Documents.open(store, "notes", "n") for store in (one, other)]
        await writers[0].create(COUNTER)

        def count(draft: Any) -> None:
            edits.append(draft["n"])
            draft["n"] += 1

        async def work(writer: Documents) -> None:
            for _ in range(10):
                await writer.change(COUNTER, None, count)

        await asyncio.gather(*(work(writer) for writer in writers))
        found = await writers[1].get(COUNTER)

        assert found is not None
        assert found.value == {"n": 20}
        assert len(edits) > 20, "somebody was first, now and then"


async def test_a_document_that_another_process_has_ended_takes_no_change():
    records = MemoryStore()
    async with opened(records, prefix="a") as one, opened(records.reopened(), prefix="b") as other:
        here, there = (Documents.open(store, "notes", "n") for store in (one, other))
        await here.create(NOTE)
        ending: list[asyncio.Task[DocumentId]] = []

        def slow(draft: Any) -> None:
            draft["lines"].append("late")
            ending.append(asyncio.get_running_loop().create_task(there.retire(NOTE)))

        async def change_on() -> None:
            for _ in range(100):
                await here.change(NOTE, None, slow)

        with pytest.raises((DocumentRetired, UnknownDocument)):
            await change_on()

        assert await ending[0] == 2
        for late in ending[1:]:
            with pytest.raises((DocumentRetired, UnknownDocument)):
                await late


async def test_a_copy_goes_on_by_itself():
    async with opened() as store:
        notes, fork = (Documents.open(store, "notes", name) for name in ("n", "fork"))
        async with notes, fork:
            await notes.create(NOTE, "k")
            await notes.change(NOTE, "k", line("a"))
            await notes.change(NOTE, "k", line("b"))

            await fork.copy(NOTE, "k", notes, at=Seq(2))
            await notes.change(NOTE, "k", line("c"))
            await fork.change(NOTE, "k", line("z"))

            found = [await each.get(NOTE, "k") for each in (notes, fork)]
            assert [each and each.value["lines"] for each in found] == [["a", "b", "c"], ["a", "z"]]
            with pytest.raises(AddressTaken):
                await fork.copy(NOTE, "k", notes)
            with pytest.raises(UnknownDocument):
                await fork.copy(NOTE, None, notes)


async def test_a_copy_of_a_past_that_is_not_kept_is_refused():
    async with opened() as store:
        notes, fork = (Documents.open(store, "notes", name) for name in ("n", "fork"))
        async with notes, fork:
            await notes.create(COUNTER)

            with pytest.raises(CopyRefused):
                await fork.copy(COUNTER, None, notes, at=Seq(1))
            with pytest.raises(HistoryNotKept):
                await notes.at(Seq(1), COUNTER)
            await fork.copy(COUNTER, None, notes)


@pytest.mark.parametrize("seq", [-1, 3, True, 1.0, "1", 2**60])
async def test_a_commit_that_has_not_happened_is_no_point_to_read_at(seq):
    async with opened() as store, Documents.open(store, "notes", "n") as notes:
        await notes.create(NOTE)
        await notes.change(NOTE, None, line("a"))

        with pytest.raises(OutOfRange):
            await notes.at(seq, NOTE)
        with pytest.raises(OutOfRange):
            await notes.list(at=seq)


async def test_a_namespace_is_listed_by_page_and_kind():
    async with opened() as store, Documents.open(store, "notes", "n") as notes:
        for key in ("a", "b", None):
            await notes.create(NOTE, key)
        await notes.create(COUNTER)
        await notes.retire(NOTE, "a")

        first = await notes.list(limit=2)
        rest = await notes.list(limit=2, behind=first.behind)
        counters, past = await notes.list(COUNTER), await notes.list(at=Seq(2))

        assert [each.member for each in first.documents] == ["b", None]
        assert [each.kind for each in rest.documents] == ["counter"]
        assert rest.behind is None
        assert [each.id for each in counters.documents] == [5]
        assert [each.member for each in past.documents] == ["a", "b"]
        with pytest.raises(InvalidValue):
            await notes.list(limit=0)


async def test_a_namespace_is_in_one_hand_of_a_process():
    async with opened() as store:
        notes = Documents.open(store, "notes", "n")
        with pytest.raises(NameBound):
            Documents.open(store, "notes", "n")
        async with Documents.open(store, "notes", "m"), Documents.open(store, "others", "n"):
            pass

        await notes.close()
        await notes.close()

        for call in (
            notes.get(NOTE),
            notes.create(NOTE),
            notes.change(NOTE, None, str),
            notes.list(),
        ):
            with pytest.raises(StoreClosed, match="open documents of notes/n"):
                await call
        async with Documents.open(store, "notes", "n") as again:
            await again.create(NOTE)


async def test_a_call_under_way_is_waited_for():
    async with opened() as store:
        notes = Documents.open(store, "notes", "n")
        creation = asyncio.create_task(notes.create(NOTE))
        await asyncio.sleep(0)

        await notes.close()

        assert creation.done()
        assert await creation == 2
        assert not store.is_bound


@pytest.mark.parametrize(
    ("owner", "namespace", "of"),
    [
        ("", "n", InvalidId),
        ("a/b", "n", InvalidId),
        ("o", 1, InvalidValue),
        ("o", "*", InvalidValue),
        ("o", "n" * 1_023, TooLarge),
    ],
)
async def test_an_owner_and_a_namespace_have_names(owner, namespace, of):
    async with opened() as store:
        with pytest.raises(of):
            Documents.open(store, owner, namespace)

        assert not store.is_bound
