"""Conversations of several owners in one store: names, ids, orders of scans, copies, texts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pi_durable.errors import StorageRequestError
from tests.support.conversing import (
    base,
    change,
    conversation,
    copy,
    create,
    delta,
    entry,
    of_session,
    rewindable,
    scope_of,
    task,
)
from tests.support.documents import opened

from perdure.authority.memory import MemoryStore
from perdure.authority.sqlite import SqliteStore
from perdure.kernel.documents.conversation import conversation_tables
from perdure.kernel.documents.errors import (
    CopyRefused,
    IdsExhausted,
    IdTaken,
    NameBound,
    OtherOrder,
    OwnerHeld,
    StoreClosed,
)
from perdure.kernel.documents.places import SAFE_INTEGER_MAX
from perdure.kernel.documents.rows import InsertRow
from perdure.kernel.errors import InvalidValue, StaleWriter
from perdure.runtime.documents.conversations import ConversationStorage
from perdure.runtime.documents.pi_durable import PiStorage

pytestmark = pytest.mark.stores


async def test_two_owners_of_one_store_see_nothing_of_each_other() -> None:
    async with opened() as store:
        mine = await ConversationStorage.open(store, "mine")
        yours = await ConversationStorage.open(store, "yours")

        await mine.commit([conversation(1), entry(mine.mint()), create(of_session(9), base(1))])
        await yours.commit([conversation(1)])

        assert (await mine.scan_entries({"conversationId": 1}, 10))["items"]
        assert not (await yours.scan_entries({"conversationId": 1}, 10))["items"]
        address: dict[str, Any] = {"kind": "notes", "scope": {"kind": "session"}}
        assert await mine.find_document(address) is not None
        assert await yours.find_document(address) is None


async def test_ids_of_all_owners_come_from_one_place() -> None:
    async with opened() as store:
        mine = await ConversationStorage.open(store, "mine")
        yours = await ConversationStorage.open(store, "yours")

        ids = [storage.mint() for storage in (mine, yours, mine, yours)]

        assert ids == [2, 3, 4, 5]


async def test_an_owner_is_in_one_hand_until_that_is_closed() -> None:
    async with opened() as store:
        first = await ConversationStorage.open(store, "pi")

        with pytest.raises(NameBound):
            await ConversationStorage.open(store, "pi")
        for name in ("pi/session", "pi/conversation:7", "pi/anything"):
            with pytest.raises(NameBound):
                store.bind(name)
        store.release(store.bind("other/session"))

        await first.close()
        again = await ConversationStorage.open(store, "pi")
        with pytest.raises(StoreClosed):
            await first.commit([conversation(1)])
        await again.commit([conversation(1)])


async def test_who_opens_an_owner_elsewhere_has_it_and_who_had_it_writes_nothing_more() -> None:
    records = MemoryStore()
    async with opened(records, prefix="a") as here, opened(records, prefix="b") as there:
        before = await ConversationStorage.open(here, "mine")
        await before.commit([conversation(1)])

        now = await ConversationStorage.open(there, "mine")
        written = dict(records._records)
        with pytest.raises(StaleWriter):
            await before.commit([entry(before.mint())])
        unchanged = records._records == written
        await now.commit([entry(now.mint())])

        assert unchanged
        assert len((await now.scan_entries({"conversationId": 1}, 10))["items"]) == 1
        await before.close()
        await now.commit([entry(now.mint())])


async def test_a_lease_keeps_others_waiting_until_it_is_over_or_let_go_of() -> None:
    records = MemoryStore()
    async with opened(records, prefix="a") as here, opened(records, prefix="b") as there:
        first = await ConversationStorage.open(here, "mine", lease_ms=60_000)

        with pytest.raises(OwnerHeld):
            await ConversationStorage.open(there, "mine")
        await first.close()

        await ConversationStorage.open(there, "mine")


async def test_an_owner_with_a_namespace_in_hand_is_not_taken_whole() -> None:
    async with opened() as store:
        with store.bound("pi/session"), pytest.raises(NameBound):
            await ConversationStorage.open(store, "pi")

        assert not store.is_bound
        await ConversationStorage.open(store, "pi")


async def test_opening_gives_no_id_that_a_record_has_already() -> None:
    records = MemoryStore()
    async with opened(records) as store:
        storage = await ConversationStorage.open(store, "pi")
        await storage.close()
        # As a replica has it: the row is there, and this store's allocator never saw its id.
        ids = conversation_tables("pi").record_ids
        await store.commit([InsertRow(ids, {"id": 500, "type": "task", "place": 0})])

    async with opened(records.reopened(), prefix="again") as store:
        storage = await ConversationStorage.open(store, "pi")

        assert storage.mint() == 501


async def test_the_last_id_may_be_named_and_none_is_given_after_it(tmp_path: Path) -> None:
    async with opened(await SqliteStore.open(tmp_path / "store.db")) as store:
        storage = await ConversationStorage.open(store, "pi")
        await storage.commit([conversation(1), entry(SAFE_INTEGER_MAX)])
        with pytest.raises(IdsExhausted):
            storage.mint()

    async with opened(await SqliteStore.open(tmp_path / "store.db")) as store:
        storage = await ConversationStorage.open(store, "pi")
        with pytest.raises(IdsExhausted):
            storage.mint()
        assert await storage.entry(SAFE_INTEGER_MAX) is not None


async def test_a_minted_id_that_has_been_used_is_refused_and_nothing_more() -> None:
    async with opened() as store:
        storage = await ConversationStorage.open(store, "pi")
        id = storage.mint()
        await storage.commit([conversation(1), entry(id)])

        with pytest.raises(IdTaken):
            await storage.commit([task(id)])

        await storage.commit([task(storage.mint())])


@pytest.mark.parametrize(
    "write",
    [
        {},
        {"type": 7, "value": {"id": 99}},
        {"type": "entry"},
        {"type": "entry", "value": {"id": 99}},
        {"type": "task", "value": {"id": 99, "conversationId": 1, "state": "pending"}},
        {"type": "document.create", "record": {"id": 99}, "content": {}},
        {"type": "document.copy", "record": {"id": 99}},
        {"type": "document.change", "id": 99},
        {"type": "document.other", "record": {"id": 99}},
        {"type": "other", "value": {"id": 99}},
    ],
)
async def test_a_write_that_lacks_something_is_refused_and_nothing_changes(write: Any) -> None:
    async with opened() as store:
        storage = await ConversationStorage.open(store, "pi")
        await storage.commit([conversation(1)])
        seq = store.seq

        with pytest.raises(InvalidValue):
            await storage.commit([entry(storage.mint()), write])

        assert await storage.commit([entry(storage.mint())]) == seq + 1


async def test_a_cursor_carries_its_order() -> None:
    async with opened() as store:
        storage = await PiStorage.open(store)
        numbers = range(2, 8)
        await storage.commit([conversation(1), *(entry(id) for id in numbers)], None)
        query = {"conversationId": 1}
        first = await storage.scan_entries({**query, "order": "ascending"}, 2, None, None)

        second = await storage.scan_entries(query, 2, first["next"], None)

        assert [each["id"] for each in second["items"]] == [4, 5]
        other = {**query, "order": "descending"}
        with pytest.raises(StorageRequestError, match="other_order"):
            await storage.scan_entries(other, 2, first["next"], None)
        with pytest.raises(OtherOrder):
            await storage.storage.scan_entries(other, 2, first["next"])
        await storage.commit([entry(8)], None)
        third = await storage.scan_entries(query, 9, second["next"], None)
        assert [each["id"] for each in third["items"]] == [6, 7, 8]


@pytest.mark.parametrize("order", [None, "descending"])
async def test_a_copy_is_what_its_source_was_before_the_commit(order: str | None) -> None:
    async with opened() as store:
        storage = await ConversationStorage.open(store, "pi")
        await storage.commit([conversation(1), conversation(2)])
        await storage.commit([create(rewindable(3), base({"n": 1}))])
        writes = [copy(rewindable(4, conversation=2), 3), change(3, delta(["s", ["n"], 2]))]

        with pytest.raises(CopyRefused, match="changed in the copy batch"):
            await storage.commit(writes if order is None else writes[::-1])
        assert await storage.document(4) is None
        untouched = await storage.document(3)
        await storage.commit(writes[:1])
        await storage.commit(writes[1:])

        copied, changed = await storage.document(4), await storage.document(3)
        assert untouched is not None
        assert copied is not None
        assert changed is not None
        assert (untouched["value"], copied["value"], changed["value"]) == (
            {"n": 1},
            {"n": 1},
            {"n": 2},
        )


async def test_texts_that_no_encoding_takes_are_kept_apart() -> None:
    async with opened() as store:
        storage = await ConversationStorage.open(store, "pi")
        await storage.commit([conversation(1)])
        await storage.commit(
            [
                task(2, kind="\ud800"),
                task(3, kind="\ud801"),
                create(rewindable(4, "\ud800", key="\udc00"), base({})),
                create(rewindable(5, "\ud801", key="\udc00"), base({})),
            ]
        )

        tasks = await storage.scan_tasks({"kind": "\ud801"}, 10)
        documents = await storage.scan_documents(scope_of(1), 10, kind="\ud800")
        found = await storage.find_document(
            {"kind": "\ud801", "scope": scope_of(1), "key": "\udc00"}
        )

        assert [each["id"] for each in tasks["items"]] == [3]
        assert [each["id"] for each in documents["items"]] == [4]
        assert found is not None
        assert found["id"] == 5
        assert found["kind"] == "\ud801"


async def test_a_text_is_cut_by_units_of_sixteen_bits() -> None:
    async with opened() as store:
        storage = await ConversationStorage.open(store, "pi")
        await storage.commit([conversation(1), create(rewindable(2), base({"text": "😀x"}))])

        await storage.commit([change(2, delta(["t", ["text"], 2]))])

        loaded = await storage.document(2)
        assert loaded is not None
        assert loaded["value"] == {"text": "x"}


async def test_what_comes_out_is_the_callers_own() -> None:
    async with opened() as store:
        storage = await ConversationStorage.open(store, "pi")
        data = {"list": [1]}
        await storage.commit([conversation(1), entry(2, data=data)])

        data["list"].append(2)
        first = await storage.entry(2)
        assert first is not None
        first["entry"]["data"]["list"].append(3)

        again = await storage.entry(2)
        assert again is not None
        assert again["entry"]["data"] == {"list": [1]}


async def test_what_is_committed_is_what_it_was_when_that_was_asked() -> None:
    async with opened() as store:
        storage = await ConversationStorage.open(store, "pi")
        before = asyncio.create_task(storage.commit([conversation(1)]))
        write = task(2, "pending")
        committing = asyncio.create_task(storage.commit([write]))
        await asyncio.sleep(0)

        write["value"]["state"]["status"] = "running"
        await asyncio.gather(before, committing)

        (found,) = (await storage.scan_tasks({"status": "pending"}, 10))["items"]
        assert found["state"]["status"] == "pending"
