"""Scans of conversations at their bounds, and ids and limits that are none."""

from __future__ import annotations

from typing import Any

import pytest
from pi_durable.errors import StorageRequestError
from tests.support.conversing import (
    SESSION,
    base,
    change,
    conversation,
    copy,
    create,
    entry,
    latest,
    of_session,
    retire,
    scope_of,
    task,
)
from tests.support.documents import opened

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.errors import CopyRefused, UnknownDocument
from perdure.kernel.documents.places import SAFE_INTEGER_MAX
from perdure.kernel.errors import Corrupt, InvalidValue
from perdure.runtime.documents.conversations import ConversationStorage
from perdure.runtime.documents.pi_durable import PiStorage

pytestmark = pytest.mark.stores


async def test_a_scan_that_passes_over_many_loads_little_at_a_time_and_not_often() -> None:
    records = MemoryStore()
    async with opened(records) as store:
        storage = await ConversationStorage.open(store, "pi")
        for first in range(2, 1_502, 10):
            await storage.commit([task(first + each) for each in range(10)])
        await storage.commit([task(2_000, kind="rare")])
        for each in range(300):
            await storage.commit([create(latest(3_000 + each), base(1))])
            await storage.commit([retire(3_000 + each)])
        await storage.commit([create(latest(4_000), base(1))])
        loads = records.loads

        found = await storage.scan_tasks({"status": "pending", "kind": "rare"}, 1)
        documents = await storage.scan_documents(latest(4_000)["scope"], 1)

        assert [each["id"] for each in found["items"]] == [2_000]
        assert [each["id"] for each in documents["items"]] == [4_000]
        assert records.loads - loads < 60


async def test_nothing_is_behind_the_greatest_id() -> None:
    async with opened() as store:
        storage = await ConversationStorage.open(store, "pi")
        await storage.commit([task(2), task(3), task(SAFE_INTEGER_MAX, kind="rare")])
        behind = {"after": SAFE_INTEGER_MAX, "order": "ascending"}

        found = await storage.scan_tasks({"status": "pending", "kind": "rare"}, 2)

        assert [each["id"] for each in found["items"]] == [SAFE_INTEGER_MAX]
        assert await storage.scan_tasks({}, 2, behind) == {"items": []}


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "2", None, 1_001])
async def test_a_limit_that_is_none_is_refused(limit: Any) -> None:
    async with opened() as store:
        storage = await ConversationStorage.open(store, "pi")
        await storage.commit([conversation(1), entry(2)])

        for scan in (
            storage.scan_conversations({}, limit),
            storage.scan_entries({"conversationId": 1}, limit),
            storage.scan_tasks({}, limit),
            storage.scan_submissions({}, limit),
            storage.scan_documents({"kind": "session"}, limit),
        ):
            with pytest.raises(InvalidValue):
                await scan


@pytest.mark.parametrize("id", [0, -1, SAFE_INTEGER_MAX + 1, True, 1.5, "2", None])
async def test_an_id_that_is_none_is_refused_and_takes_no_ids_away(id: Any) -> None:
    async with opened() as store:
        storage = await ConversationStorage.open(store, "pi")
        await storage.commit([conversation(1), create(of_session(2), base(1))])

        for write in (
            conversation(id),
            entry(id),
            task(id),
            create(of_session(id, "other"), base(1)),
            copy(of_session(id, "other"), 2),
            copy(of_session(9, "other"), id),
            change(id, base(2)),
            retire(id),
        ):
            with pytest.raises(InvalidValue):
                await storage.commit([write])

        assert storage.mint() == 3
        assert store.seq == 2


async def test_documents_of_others_are_not_there_for_an_owner() -> None:
    async with opened() as store:
        mine = await ConversationStorage.open(store, "mine")
        yours = await ConversationStorage.open(store, "yours")
        await mine.commit([create(of_session(2), base(1))])

        for write, refusal in (
            (change(2, base(2)), UnknownDocument),
            (retire(2), UnknownDocument),
            (copy(of_session(3), 2), CopyRefused),
        ):
            with pytest.raises(refusal):
                await yours.commit([write])
        assert await yours.document(2) is None
        assert (await mine.document(2) or {})["value"] == 1


async def test_the_newest_entries_are_found_without_a_look_at_every_ancestor() -> None:
    records = MemoryStore()
    async with opened(records) as store:
        storage = await ConversationStorage.open(store, "pi")
        await storage.commit([conversation(1), entry(2)])
        for each in range(3, 63, 2):
            parent = {"conversationId": each - 2 if each > 3 else 1, "at": each - 1}
            await storage.commit([conversation(each, parent=parent), entry(each + 1, each)])
        loads = records.loads

        newest = await storage.scan_entries({"conversationId": 61}, 2)
        few = records.loads - loads
        oldest = await storage.scan_entries({"conversationId": 61, "order": "ascending"}, 2)

        assert [each["id"] for each in newest["items"]] == [62, 60]
        assert [each["id"] for each in oldest["items"]] == [2, 4]
        assert few < 10


@pytest.mark.parametrize("id", [2**53, 2**63, 0, -1])
async def test_nobody_has_an_id_that_no_store_gives(id: int) -> None:
    async with opened() as store:
        storage: Any = await PiStorage.open(store)

        assert await storage.conversation(id, None) is None
        assert await storage.task(id, None) is None
        assert await storage.submission(id, None) is None
        assert await storage.submission_by_request(id, "r", None) is None
        assert await storage.entry(id, None) is None
        for request in (
            storage.entry(id, 2, None),
            storage.find_latest_head_marker(id, None, None),
        ):
            with pytest.raises(StorageRequestError, match="Unknown conversation"):
                await request


async def test_a_question_that_cannot_be_asked_fails_itself_alone() -> None:
    async with opened() as store:
        storage: Any = await PiStorage.open(store)
        nowhere = {"kind": "k", "scope": {"kind": "conversation"}}

        with pytest.raises(StorageRequestError):
            await storage.find_document(nowhere, "current", None)

        assert await storage.commit([conversation(1)], None) == 2


@pytest.mark.parametrize("order", ["ascending", "descending"])
async def test_a_conversation_that_descends_from_itself_is_corrupt_and_read_to_an_end(
    order: str,
) -> None:
    async with opened() as store:
        storage = await ConversationStorage.open(store, "pi")
        await storage.commit(
            [
                conversation(5, parent={"conversationId": 6, "at": 9}),
                conversation(6, parent={"conversationId": 5, "at": 9}),
            ]
        )

        for reading in (
            storage.scan_entries({"conversationId": 5, "order": order}, 10),
            storage.latest_head(5),
            storage.visible_entry(5, 7),
        ):
            with pytest.raises(Corrupt):
                await reading


async def test_what_was_forked_from_nothing_sees_what_is_its_own() -> None:
    async with opened() as store:
        storage = await ConversationStorage.open(store, "pi")
        await storage.commit([conversation(5, parent={"conversationId": 4, "at": 9}), entry(6, 5)])

        for order in ("ascending", "descending"):
            page = await storage.scan_entries({"conversationId": 5, "order": order}, 10)
            assert [each["id"] for each in page["items"]] == [6]
        assert await storage.latest_head(5) is None


async def test_documents_of_conversations_alone_are_copied() -> None:
    async with opened() as store:
        storage = await ConversationStorage.open(store, "pi")
        of_task = {"id": 3, "kind": "notes", "scope": {"kind": "task", "taskId": 9}}
        await storage.commit(
            [create(of_session(2), base(1)), create(of_task, base(1)), create(latest(4), base(1))]
        )
        plain = {"id": 7, "kind": "notes", "scope": scope_of(2)}

        for write in (copy(plain, 2), copy(plain, 3), copy({**latest(7), "scope": SESSION}, 4)):
            with pytest.raises(CopyRefused, match="does not match"):
                await storage.commit([write])

        await storage.commit([copy(latest(7, conversation=2), 4)])
