"""Following holds what somebody still looks at, and nothing grows with the commits."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from tests.support.documents import NOW, opened
from tests.support.following import Thing, address, create, frames, host, turn, until_end

from perdure.kernel.canonical import canonical
from perdure.kernel.documents.content import delta
from perdure.kernel.documents.followed import AddressView, NamespaceView
from perdure.kernel.documents.records import Logged
from perdure.kernel.documents.writes import RetireDocument
from perdure.kernel.ids import DocumentId, Seq, Token
from perdure.runtime.documents.follow.sources import PENDING_FRAMES_MAX
from perdure.runtime.documents.follow.views import follow_view

pytestmark = pytest.mark.stores

COMMITS = 10_000
GROWTH_MAX = 2_000
"""Objects that 8,000 commits may leave behind: those of the hundred frames that wait, or of none."""


def entry_of(store, seq: int, id: int) -> Logged:
    content = delta(1, [["s", ["n"], seq]]).spelled
    told = canonical({"id": id, "w": "document.change"})
    return Logged(
        partition=store.ref.partition,
        seq=Seq(seq),
        at=NOW,
        attempt=Token(f"t-{seq}"),
        next_id=9,
        previous="",
        writes=b'[{"content":%s,%s]' % (content, told[1:]),
    )


@pytest.mark.slow
async def test_nothing_grows_with_the_commits_whether_a_watch_is_read_or_not():
    async with opened() as store:
        (id,) = (await store.commit([create("a")])).ids
        followed = host()
        note = follow_view(followed, store, AddressView(address("a")))
        listed = follow_view(followed, store, NamespaceView("app", "main"))
        size = followed.derive(lambda a, b: [a["value"]["n"], len(b)], note, listed)
        await followed.activate()
        read, unread, dropped = size.watch(), size.watch(), size.watch()
        reading = asyncio.create_task(count_of(read))
        for seq in range(2, COMMITS + 2):
            store.feed.offer(entry_of(store, seq, id))
            await asyncio.sleep(0)
            if seq == COMMITS // 5:
                before = held_objects()
                del dropped
        grown = held_objects() - before
        pending, last = unread.pending, (await frames(unread))[-1]
        followed.close()
        count = await reading

    assert grown < GROWTH_MAX
    assert count == COMMITS
    assert pending <= PENDING_FRAMES_MAX
    assert last.value == [COMMITS + 1, 1]


def held_objects() -> int:
    gc.collect()
    return len(gc.get_objects())


async def count_of(watch) -> int:
    return len([None async for _ in watch])


async def test_a_source_that_has_ended_is_let_go_of():
    async with opened() as store:
        (id,) = (await store.commit([create("a")])).ids
        followed = host()
        note = follow_view(followed, store, AddressView(address("a"), one_life=True))
        kept = follow_view(followed, store, NamespaceView("app", "main"))
        of_note = followed.derive(lambda value: value is None, note)
        await followed.activate()
        watch = of_note.watch()
        gone = [weakref.ref(each) for each in (note, of_note, watch)]

        await store.commit([RetireDocument(DocumentId(id))])
        told = await until_end(watch)
        del note, of_note, watch
        gc.collect()

        assert [frame.value for frame in told] == [True]
        assert [each() for each in gone] == [None] * 3
        assert kept.value == {}
        followed.close()


async def test_observers_are_let_go_of_when_they_are_detached():
    things = [Thing({"n": 1}), Thing({"n": 2})]
    followed = host()
    for thing in things:
        followed.follow(thing.attach)
    await followed.activate()
    observers = [weakref.ref(thing.observer) for thing in things]

    things[0].observer.failed(OSError("gone"))
    await turn()
    for thing in things:
        del thing.observer
    gc.collect()

    assert [thing.detached for thing in things] == [1, 1]
    assert [each() for each in observers] == [None, None]


async def test_a_host_that_was_closed_is_held_by_no_store():
    async with opened() as store:
        followed = host()
        note = follow_view(followed, store, AddressView(address("a")))
        await followed.activate()
        gone = [weakref.ref(followed), weakref.ref(followed.batch), weakref.ref(note)]

        followed.close()
        del followed, note
        await turn()
        gc.collect()

        assert [each() for each in gone] == [None] * 3


async def test_what_nobody_watches_or_derives_from_is_not_computed_any_more():
    thing = Thing({"n": 1})
    followed = host()
    source = followed.follow(thing.attach)
    computed = []
    derived = followed.derive(lambda value: computed.append(value["n"]), source)
    await followed.activate()

    del derived
    gc.collect()
    thing.set(2)
    await turn()

    assert computed == [1]


async def test_a_reader_that_waits_holds_its_watch():
    thing = Thing({"n": 1})
    followed = host()
    source = followed.follow(thing.attach)
    await followed.activate()
    told = asyncio.create_task(anext(source.watch()))
    await turn()
    gc.collect()

    thing.set(2)

    assert (await told).value == {"n": 2}
