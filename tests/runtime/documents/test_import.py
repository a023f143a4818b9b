"""An export becomes a store again, all of it or nothing that anybody sees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support import conversing as c
from tests.support.documents import LINEAGE, REF, means, opened
from tests.support.exporting import (
    BytesSource,
    bytes_of,
    export_of,
    made,
    parts_of,
)
from tests.support.histories import Past
from tests.support.steps import Died, SteppedStore, Steps

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.commit import CommitWrites, TakeOwner
from perdure.kernel.documents.content import base, delta
from perdure.kernel.documents.create import DescribeDocumentStore
from perdure.kernel.documents.errors import StoreImporting
from perdure.kernel.documents.log import ReadLog
from perdure.kernel.documents.places import Address, DocumentStoreRef
from perdure.kernel.documents.sweep import SweepContents
from perdure.kernel.documents.writes import ChangeDocument, CreateDocument, RetireDocument
from perdure.kernel.errors import NotEmpty, OutcomeUnknown, StaleWriter
from perdure.kernel.ids import DocumentId, DocumentStoreId, Holder, Lineage, Token
from perdure.runtime.documents.conversations import ConversationStorage
from perdure.runtime.documents.export import Progress
from perdure.runtime.documents.importing import discard_import, import_store
from perdure.runtime.documents.store import OpenStore, StoreMeans

pytestmark = pytest.mark.stores

COPY = DocumentStoreRef(REF.storage, DocumentStoreId("copy"))
OTHER = Lineage("otherotherotherother00")


@pytest.fixture(scope="module")
def exported() -> bytes:
    return asyncio.run(made(11))


async def imported(with_: StoreMeans, data: bytes, **options: Any) -> None:
    await import_store(with_, COPY, BytesSource(data), lineage=OTHER, **options)


@pytest.mark.parametrize("seed", range(4))
async def test_an_imported_store_is_exported_as_it_was(seed: int) -> None:
    data = await made(seed)
    with_ = means()

    await imported(with_, data)

    assert await bytes_of(with_, COPY) == data


async def test_an_imported_store_goes_on_with_the_history_of_its_source(exported: bytes) -> None:
    manifest = parts_of(exported)[0]
    with_ = means()

    await imported(with_, exported)

    info = await with_.authority.execute(DescribeDocumentStore(COPY))
    assert (info.lineage, info.seq) == (LINEAGE, manifest["last_seq"])
    assert (info.next_id, info.log_from) == (manifest["next_id"], manifest["last_seq"] + 1)
    assert (info.follows, info.importing, info.held) == (False, False, ())
    store = await OpenStore.open(with_, COPY)
    talk = await ConversationStorage.open(store, "pi")
    id = talk.mint()
    assert id == manifest["next_id"]
    assert await talk.commit([c.entry(id)]) == manifest["last_seq"] + 1
    assert (await talk.conversation(1)) == {"id": 1}


async def test_no_grip_of_the_source_is_one_on_what_was_imported() -> None:
    async with opened() as source:
        taken = TakeOwner(REF, "pi", Holder("h"), 60_000)
        grip, _ = await source.means.authority.execute(taken)
        data, _ = await export_of(source.means, REF)
    with_ = means()

    await imported(with_, data)

    paper = CreateDocument(Address("pi", "papers", "one"), "none", base(1, {}))
    stale = CommitWrites(COPY, (paper,), Token("late"), grip=grip)
    with pytest.raises(StaleWriter):
        await with_.authority.execute(stale)
    again, _ = await with_.authority.execute(TakeOwner(COPY, "pi", Holder("h"), 60_000))
    assert again.epoch > grip.epoch


async def test_progress_comes_to_every_byte_twice_checked_then_written(exported: bytes) -> None:
    seen: list[Progress] = []

    await imported(means(), exported, report=seen.append)

    assert [each.phase for each in seen] == sorted(each.phase for each in seen)
    ends = {each.phase: each.bytes for each in seen}
    assert ends == {"checking": len(exported), "writing": len(exported)}


async def test_a_store_that_holds_anything_takes_no_import(exported: bytes) -> None:
    async with opened(ref=COPY) as store:
        past = Past(store, 1)
        await past.begin()
        before = await bytes_of(store.means, COPY)

        with pytest.raises(NotEmpty):
            await imported(store.means, exported)

        assert await bytes_of(store.means, COPY) == before


async def test_an_empty_store_takes_an_import_and_its_lineage(exported: bytes) -> None:
    async with opened(ref=COPY) as store:
        await imported(store.means, exported)

        assert await bytes_of(store.means, COPY) == exported


class Halting:
    """A source that dies when it is read a second time, so far."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        self._readings = 0

    async def chunks(self) -> AsyncIterator[bytes]:
        self._readings += 1
        yield self._data[: self._at]
        if self._readings == 2:
            raise Died
        yield self._data[self._at :]


async def half_imported(with_: StoreMeans, data: bytes) -> None:
    source = Halting(data, len(data) - 200)
    with pytest.raises(Died):
        await import_store(with_, COPY, source, lineage=OTHER)


async def test_of_an_import_that_has_not_ended_nothing_is_seen(exported: bytes) -> None:
    with_ = means()
    await half_imported(with_, exported)

    commit = CommitWrites(COPY, (), Token("t"))
    for asked in (commit, TakeOwner(COPY, "pi", Holder("h"), 1), ReadLog(COPY)):
        with pytest.raises(StoreImporting):
            await with_.authority.execute(asked)
    with pytest.raises(StoreImporting):
        await OpenStore.open(with_, COPY)
    with pytest.raises(StoreImporting):
        await bytes_of(with_, COPY)
    info = await with_.authority.execute(DescribeDocumentStore(COPY))
    assert (info.importing, info.seq) == (True, 0)


async def test_another_export_waits_until_the_first_is_discarded(exported: bytes) -> None:
    with_ = means()
    await half_imported(with_, exported)
    other = await made(12, 5)
    with pytest.raises(StoreImporting):
        await imported(with_, other)

    await discard_import(with_, COPY)
    await imported(with_, other)

    assert await bytes_of(with_, COPY) == other
    with pytest.raises(NotEmpty):
        await discard_import(with_, COPY)


async def test_what_was_discarded_is_an_empty_store_of_its_own(exported: bytes) -> None:
    with_ = means()
    await half_imported(with_, exported)

    await discard_import(with_, COPY)

    info = await with_.authority.execute(DescribeDocumentStore(COPY))
    assert (info.lineage, info.seq, info.importing) == (OTHER, 0, False)
    assert len(parts_of(await bytes_of(with_, COPY))) == 2


@pytest.mark.parametrize("when", ["before", "after", "lost"])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
async def test_an_import_that_died_at_any_commit_goes_on_where_it_was(
    exported: bytes, at: int, when: Any
) -> None:
    records = MemoryStore()
    steps = Steps(at, when=when, of="commit")
    dying = means(SteppedStore(records, steps))
    if when == "lost":  # nobody died: the engine sends it again, and finds it there
        await imported(dying, exported)
    else:
        with pytest.raises((Died, OutcomeUnknown)):
            await imported(dying, exported)
        with_ = means(records, prefix="again")
        if at > 1 or when == "after":
            info = await with_.authority.execute(DescribeDocumentStore(COPY))
            assert info.importing or bytes(await bytes_of(with_, COPY)) == exported
        try:
            await imported(with_, exported)
        except NotEmpty:  # it had died behind its last commit
            assert when == "after"

    assert await bytes_of(means(records, prefix="last"), COPY) == exported
    assert steps.taken >= at


async def test_what_an_earlier_document_of_the_same_id_has_left_goes_into_no_copy() -> None:
    address, id = Address("notes", "pages", "page"), DocumentId(50)
    async with opened() as store:
        await store.commit([CreateDocument(address, "none", base(1, {"n": 0}), id)])
        for each in range(110):
            change = ChangeDocument(id, delta(1, [["s", ["n"], each]]), trusted=True)
            await store.commit([change])
        await store.commit([RetireDocument(id)])
        await store.commit([CreateDocument(address, "rewindable", base(1, {"n": "new"}), id)])
        swept = await store.means.authority.execute(SweepContents(REF))
        assert swept.left, "more than one sweep takes, or a commit"

        data = await bytes_of(store.means, REF)
        with_ = means(prefix="other")
        await imported(with_, data)

        contents = [each for each in parts_of(data) if each["part"] == "document.revision"]
        assert [each["content"]["value"] for each in contents] == [{"n": "new"}]
        assert await bytes_of(with_, COPY) == data
