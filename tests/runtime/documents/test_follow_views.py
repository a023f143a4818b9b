"""Views of an open store: one commit is one frame, without a second look at the store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.conversing import conversation
from tests.support.documents import opened
from tests.support.following import (
    NOTES,
    Reports,
    Thing,
    address,
    create,
    frames,
    host,
    set_to,
    turn,
    until,
    until_end,
)

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.content import base
from perdure.kernel.documents.followed import AddressView, NamespaceView, TableView
from perdure.kernel.documents.rows import DeleteRow, InsertRow, PutRow, UpdateRow, UpdateWhere
from perdure.kernel.documents.writes import ChangeDocument, RetireDocument
from perdure.kernel.errors import Refused, StoreUnavailable
from perdure.kernel.ids import DocumentId
from perdure.runtime.documents.conversations import ConversationStorage
from perdure.runtime.documents.follow import feed
from perdure.runtime.documents.follow.host import Observation
from perdure.runtime.documents.follow.views import follow_view
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.tables import prepared

pytestmark = pytest.mark.stores


def looks_of(store: OpenStore) -> list[Any]:
    """Return the readings of a store from now on, as they come."""
    looks: list[Any] = []
    view = store.means.authority.view

    async def counted(reads):
        looks.append(reads)
        return await view(reads)

    store.means.authority.view = counted  # type: ignore[method-assign]
    return looks


async def test_a_document_is_followed_from_one_life_to_the_next():
    async with opened() as store:
        followed = host()
        note = follow_view(followed, store, AddressView(address("a")))
        await followed.activate()
        watch = note.watch()

        (first,) = (await store.commit([create("a", {"n": 1})])).ids
        await store.commit([create("b", {"n": 9})])
        await store.commit([set_to(first, 2)])
        await store.commit([ChangeDocument(DocumentId(first), base(2, {"n": 3}))])
        await store.commit([RetireDocument(DocumentId(first))])
        await store.commit([create("a", {"n": 4})])
        told = await frames(watch)
        followed.close()

    assert [frame.seq for frame in told] == [1, 3, 4, 5, 6]
    assert [frame.value and (frame.value["version"], frame.value["value"]) for frame in told] == [
        (1, {"n": 1}),
        (1, {"n": 2}),
        (2, {"n": 3}),
        None,
        (1, {"n": 4}),
    ]
    assert told[1].ops == (["s", ["value", "n"], 2],)


async def test_one_life_of_a_document_ends_what_follows_it():
    async with opened() as store:
        (first,) = (await store.commit([create("a", {"n": 1})])).ids
        followed = host()
        note = follow_view(followed, store, AddressView(address("a"), one_life=True))
        await followed.activate()
        watch = note.watch()

        await store.commit([set_to(first, 2)])
        await store.commit([RetireDocument(DocumentId(first)), create("a", {"n": 3})])
        told = await until_end(watch)
        again = note.watch()
        left = store.feed.is_heard
        followed.close()

    assert [frame.value and frame.value["value"]["n"] for frame in told] == [2, None]
    assert await until_end(again) == []
    assert not left


async def test_a_document_that_is_not_there_has_no_life_to_follow():
    async with opened() as store:
        followed = host()
        follow_view(followed, store, AddressView(address("a"), one_life=True))

        with pytest.raises(Refused) as raised:
            await followed.activate()

        assert raised.value.code == "follow_failed"
        assert not store.feed.is_heard


async def test_one_commit_seen_by_two_views_is_one_computation_and_no_look():
    async with opened() as store:
        await prepared(store, [NOTES])
        (first,) = (await store.commit([create("a", {"n": 1})])).ids
        followed = host()
        note = follow_view(followed, store, AddressView(address("a")))
        rows = follow_view(followed, store, TableView(NOTES))
        listed = follow_view(followed, store, NamespaceView("app", "main"))
        computed = []

        def joined(a, b, c):
            computed.append(1)
            return [a["value"]["n"], len(b), c[str(first)]["revision"]]

        all_ = followed.derive(joined, note, rows, listed)
        await followed.activate()
        watches = [each.watch() for each in (note, rows, listed, all_)]
        computed.clear()
        looks = looks_of(store)

        adopted = []
        row = {"id": 1, "state": "open", "size": 3}
        await store.commit(
            [InsertRow(NOTES, row), set_to(first, 5)],
            adopt=lambda reply: adopted.append((reply.seq, all_.value)),
        )
        told = [await frames(watch) for watch in watches]
        followed.close()

    assert [len(each) for each in told] == [1, 1, 1, 1]
    assert told[3][0].value == [5, 1, 2]
    assert len(computed) == 1
    assert looks == []
    assert adopted == [(3, [1, 0, 1])], "the batch settles when the commit was adopted"


async def test_what_the_owner_marks_while_it_adopts_is_in_the_same_frame():
    async with opened() as store:
        followed = host()
        note = follow_view(followed, store, AddressView(address("a")))
        observers = []

        async def own(observer):
            observers.append(observer)
            return Observation(0, lambda: None)

        counted = followed.follow(own)
        both = followed.derive(lambda a, n: [a and a["value"]["n"], n], note, counted)
        await followed.activate()
        watch = both.watch()

        await store.commit(
            [create("a", {"n": 1})], adopt=lambda reply: observers[0].change([["r", reply.seq]])
        )
        told = await frames(watch)
        followed.close()

    assert [frame.value for frame in told] == [[1, 1]]


async def test_nonsense_that_is_told_while_a_commit_is_adopted_fails_the_host_and_not_the_store():
    async with opened() as store:
        followed = host()
        thing = Thing(0)
        followed.follow(thing.attach)
        stop = store.feed.join(followed.batch)
        await followed.activate()

        await store.commit([create("a")], adopt=lambda _: thing.observer.change(None))
        again = await store.commit([create("b")])
        stop()

    assert not followed.is_live
    assert again.seq == 2


async def test_an_adopted_commit_of_conversations_that_two_sources_see_is_one_computation():
    async with opened() as store:
        storage = await ConversationStorage.open(store, "app")
        things = Thing({"n": 0}), Thing({"n": 0})
        followed = host()
        first, second = (followed.follow(each.attach) for each in things)
        computed = []

        def total(a, b):
            computed.append(1)
            return a["n"] + b["n"]

        both = followed.derive(total, first, second)
        await followed.activate()
        leave = store.feed.join(followed.batch)
        watch = both.watch()
        computed.clear()

        def adopt(seq):
            for each in things:
                each.set(seq)

        seq = await storage.commit([conversation(1)], adopt)
        told = await frames(watch)
        leave()
        leave()
        followed.close()
        await storage.close()

    assert [frame.value for frame in told] == [2 * seq]
    assert len(computed) == 1


async def test_an_entry_that_nobody_understands_fails_the_views_and_not_the_commit(monkeypatch):
    reports = Reports()
    async with opened() as store:
        followed = host(reports)
        note = follow_view(followed, store, AddressView(address("a")))
        running = asyncio.create_task(followed.run())
        await until(lambda: followed.is_live)

        with monkeypatch.context() as patch:
            patch.setattr(AddressView, "ops", lambda *_: {}["no such thing"])
            reply = await store.commit([create("a", {"n": 1})])
        await until(lambda: reports.errors and followed.is_live)
        followed.close()
        await running

    assert reply.seq == 1
    assert "KeyError" in str(reports.errors[0])
    assert note.value["value"] == {"n": 1}


async def test_a_commit_that_is_refused_is_no_frame():
    async with opened() as store:
        await store.commit([create("a", {"n": 1})])
        followed = host()
        note = follow_view(followed, store, AddressView(address("a")))
        await followed.activate()
        watch = note.watch()

        with pytest.raises(Refused):
            await store.commit([create("a", {"n": 2})])
        followed.close()

    assert await until_end(watch) == []


async def test_commits_of_others_are_told_before_the_next_own_one():
    records = MemoryStore()
    async with opened(records) as store, opened(records, prefix="r") as rival:
        followed = host()
        listed = follow_view(followed, store, NamespaceView("app", "main"))
        await followed.activate()
        watch = listed.watch()

        await store.commit([create("a")])
        await rival.commit([create("b")])
        await rival.commit([create("c")])
        await store.commit([create("d")])
        told = await frames(watch)
        followed.close()

    assert [frame.seq for frame in told] == [1, 2, 3, 4]
    assert [each["key"] for each in told[-1].value.values()] == ["a", "b", "c", "d"]


async def test_two_hosts_follow_one_store_each_in_its_own_batch():
    async with opened() as store:
        one, other = host(), host()
        first = follow_view(one, store, AddressView(address("a")))
        second = follow_view(other, store, AddressView(address("a")))
        await one.activate()
        await other.activate()

        await store.commit([create("a", {"n": 1})])
        one.close()
        await store.commit([create("b")])
        (last,) = (await store.commit([create("c")])).ids
        await store.commit([set_to(last, 4)])
        values = first.value["value"], second.value["value"]
        other.close()

    assert values == ({"n": 1}, {"n": 1})
    assert not store.feed.is_heard


async def test_rows_of_a_state_come_and_go_with_what_they_hold():
    async with opened() as store:
        await prepared(store, [NOTES])
        followed = host()
        rows = follow_view(followed, store, TableView(NOTES, {"state": "open"}))
        await followed.activate()
        watch = rows.watch()

        async def commit(*staged):
            await store.commit(staged)
            await turn()
            await turn()
            return [row["id"] for row in rows.value.values()]

        def row(id, state="open", size=1):
            return {"id": id, "state": state, "size": size}

        seen = [
            await commit(InsertRow(NOTES, row(1)), InsertRow(NOTES, row(2, "done"))),
            await commit(UpdateRow(NOTES, (2,), {"size": 7})),
            await commit(UpdateRow(NOTES, (2,), {"state": "open"})),
            await commit(UpdateWhere(NOTES, {"state": "open"}, {"state": "done"})),
            await commit(PutRow(NOTES, row(1, "open", 2))),
            await commit(DeleteRow(NOTES, (1,))),
        ]
        told = await frames(watch)
        followed.close()

    assert seen == [[1], [1], [1, 2], [], [1], []]
    assert [len(frame.value) for frame in told] == [1, 2, 0, 1, 0]


@pytest.mark.parametrize(
    "error", [StoreUnavailable(expected="an answer", found="none"), KeyError()]
)
async def test_a_log_that_cannot_be_read_fails_the_views_and_not_the_commit(error, monkeypatch):
    records = MemoryStore()
    reports = Reports()
    async with opened(records) as store, opened(records, prefix="r") as rival:
        followed = host(reports)
        listed = follow_view(followed, store, NamespaceView("app", "main"))
        running = asyncio.create_task(followed.run())
        await turn()
        await rival.commit([create("a")])
        with monkeypatch.context() as patched:
            patched.setattr(feed, "read_log", failing(error))
            reply = await store.commit([create("b")])
        await until(lambda: reports.errors and followed.is_live)
        value = listed.value
        await store.commit([create("c")])
        followed.close()
        await running

    assert reply.seq == 2
    assert len(reports.errors) == 1
    assert [each["key"] for each in value.values()] == ["a", "b"]
    assert [each["key"] for each in listed.value.values()] == ["a", "b", "c"]


def failing(error):
    async def read_log(*_, **__):
        raise error

    return read_log
