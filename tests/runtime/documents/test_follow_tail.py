"""Following a store that others write: a look and the log behind it, without a gap."""

from __future__ import annotations

import asyncio
import dataclasses
import random

import pytest
from tests.support.documents import REF, means, opened
from tests.support.following import (
    NOTES,
    Reports,
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
from perdure.kernel.documents import log
from perdure.kernel.documents.errors import StoreDiverged
from perdure.kernel.documents.followed import AddressView, NamespaceView, TableView
from perdure.kernel.documents.records import store_head_key
from perdure.kernel.documents.rows import InsertRow, UpdateRow
from perdure.kernel.documents.writes import RetireDocument
from perdure.kernel.errors import NotFound, StoreUnavailable
from perdure.kernel.ids import DocumentId, Lineage, Seq
from perdure.kernel.view import Decision, Reads
from perdure.runtime.documents.follow.feed import Feed
from perdure.runtime.documents.follow.tail import (
    POLL_SECONDS_FIRST,
    POLL_SECONDS_MAX,
    FollowedStore,
    follow_store,
)
from perdure.runtime.documents.follow.views import follow_view
from perdure.runtime.documents.log import trim_log
from perdure.runtime.documents.tables import prepared

pytestmark = pytest.mark.stores

COMMITS = 500


class Heard:
    """A listener that remembers which commits it was told."""

    def __init__(self):
        self.seqs = []
        self.missed_at = []

    def committed(self, entry):
        self.seqs.append(entry.seq)

    def missed(self):
        self.missed_at.append(len(self.seqs))

    def failed(self, error):
        self.seqs.append(error)


def with_pauses(records, pauses=None):
    """Return means whose pauses are written down, and pass with the loop's next turn."""

    async def pause(seconds):
        if pauses is not None:
            pauses.append(seconds)
        await asyncio.sleep(0)

    return dataclasses.replace(means(records, prefix="f"), pause=pause)


async def edit(records, change):
    """Let something happen to the head that no request does."""

    class Edit:
        once = False
        stream = REF.partition

        def reads(self):
            return Reads(keys=(store_head_key(REF.partition),))

        def decide(self, view, now):
            head = view.get(store_head_key(REF.partition))
            return Decision(None, (change(head),))

    await means(records, prefix="e").authority.execute(Edit())


@pytest.mark.parametrize("seed", range(3))
async def test_a_rival_commits_while_a_follower_looks_and_reads(seed):
    records = MemoryStore()
    everything, first_note = NamespaceView("app", "main"), AddressView(address("first"))
    async with opened(records) as store, follow_store(with_pauses(records), REF) as followed:
        heard = Heard()
        own = host()
        followed.feed.listen(heard, own.batch)
        writing = asyncio.create_task(rival(store, random.Random(seed)))
        await until(lambda: store.seq >= 100)

        listed = follow_view(own, followed, everything)
        first = follow_view(own, followed, first_note)
        await own.activate()
        began = store.seq
        readers = [
            asyncio.create_task(until_end(watch)) for watch in (listed.watch(), first.watch())
        ]
        await writing
        await until(lambda: followed.feed.seq == COMMITS)
        own.close()
        told = await asyncio.gather(*readers)
        part = REF.partition
        looked = await store.read(lambda view: everything.look(view, part))
        one = await store.read(lambda view: first_note.look(view, part))

    assert 100 <= began < COMMITS, "it began while the rival wrote"
    assert heard.seqs == list(range(1, COMMITS + 1))
    assert (listed.value, first.value) == (looked, one)
    assert (told[0][-1].value, told[1][-1].value) == (looked, one)
    for each in told:
        seqs = [frame.seq for frame in each]
        assert seqs == sorted(set(seqs))
        assert 0 < len(each) <= COMMITS - began


async def rival(store, chance):
    """Commit as often as is said above: documents that come, change and go, but for the first."""
    ids = [*(await store.commit([create("first")])).ids]
    for n in range(COMMITS - 1):
        if chance.random() < 0.6:
            id = ids[0] if chance.random() < 0.2 else chance.choice(ids)
            await store.commit([set_to(id, n)])
        elif len(ids) > 20 and chance.random() < 0.5:
            id = ids.pop(chance.randrange(1, len(ids)))
            await store.commit([RetireDocument(DocumentId(id))])
        else:
            ids += (await store.commit([create(f"k{n}")])).ids
        if chance.random() < 0.3:
            await asyncio.sleep(0)


async def test_a_follower_asks_less_often_while_nothing_comes():
    records = MemoryStore()
    pauses = []
    async with opened(records) as store, follow_store(with_pauses(records, pauses), REF):
        await until(lambda: len(pauses) >= 8)
        idle = pauses[:7]
        pauses.clear()
        await store.commit([create("a")])
        await until(lambda: POLL_SECONDS_FIRST in pauses)

    assert idle[:3] == [0.1, 0.2, 0.4]
    assert idle[-1] == POLL_SECONDS_MAX


async def test_a_log_that_was_trimmed_is_one_frame_for_all_that_it_had(monkeypatch):
    monkeypatch.setattr(log, "LOG_KEPT_MIN", 5)
    records = MemoryStore()
    async with opened(records) as store:
        (first,) = (await store.commit([create("a")])).ids
        followed = await FollowedStore.open(with_pauses(records), REF)
        own = host()
        note = follow_view(own, followed, AddressView(address("a")))
        await own.activate()
        watch = note.watch()
        await store.commit([set_to(first, 1)])
        await followed.poll()
        for n in range(2, 30):
            await store.commit([set_to(first, n)])
        await trim_log(store.means.authority, REF, Seq(20))

        await followed.poll()
        await turn()
        await turn()
        await store.commit([set_to(first, 30)])
        await followed.poll()
        told = await frames(watch)
        own.close()

    assert [frame.value["value"]["n"] for frame in told] == [1, 29, 30]
    assert told[1].ops == (["r", told[1].value],)
    assert [frame.seq for frame in told] == [2, 30, 31]


async def test_a_store_that_is_not_there_is_not_followed():
    with pytest.raises(NotFound):
        await FollowedStore.open(with_pauses(MemoryStore()), REF)


async def test_a_replica_that_diverged_fails_the_attempt_until_it_is_whole_again():
    records = MemoryStore()
    reports = Reports()
    async with opened(records) as store:
        await store.commit([create("a", {"n": 1})])
        async with follow_store(with_pauses(records), REF) as followed:
            own = host(reports)
            note = follow_view(own, followed, AddressView(address("a")))
            running = asyncio.create_task(own.run())
            await until(lambda: own.is_live)

            await edit(records, lambda head: dataclasses.replace(head, diverged="a count"))
            await until(lambda: len(reports.errors) >= 2)
            value = note.value
            await edit(records, lambda head: dataclasses.replace(head, diverged=None))
            await until(lambda: own.is_live)
            own.close()
            await running

    assert value["value"] == {"n": 1}
    assert all("store_diverged" in str(each) for each in reports.errors)


async def test_a_poll_of_a_replica_that_diverged_says_so():
    records = MemoryStore()
    async with opened(records):
        followed = await FollowedStore.open(with_pauses(records), REF)
        await edit(records, lambda head: dataclasses.replace(head, diverged="a count"))

        for _ in range(2):
            with pytest.raises(StoreDiverged):
                await followed.poll()


async def test_a_store_that_does_not_answer_is_asked_again():
    records = MemoryStore()
    async with opened(records) as store:
        followed_means = with_pauses(records)
        execute = followed_means.authority.execute
        failures = iter([True] * 3)

        async def sometimes(request):
            if next(failures, False):
                raise StoreUnavailable(expected="an answer", found="none")
            return await execute(request)

        followed_means.authority.execute = sometimes
        async with follow_store(followed_means, REF) as followed:
            own = host()
            note = follow_view(own, followed, AddressView(address("a")))
            await own.activate()
            await store.commit([create("a", {"n": 7})])
            await until(lambda: note.value is not None)
            own.close()

    assert note.value["value"] == {"n": 7}
    assert next(failures, None) is None


async def test_another_history_under_the_same_id_is_looked_at_anew():
    records = MemoryStore()
    reports = Reports()
    async with opened(records) as store:
        (first,) = (await store.commit([create("a", {"n": 1})])).ids
        async with follow_store(with_pauses(records), REF) as followed:
            own = host(reports)
            note = follow_view(own, followed, AddressView(address("a")))
            running = asyncio.create_task(own.run())
            await until(lambda: own.is_live)

            await edit(records, lambda head: dataclasses.replace(head, lineage=Lineage("x" * 22)))
            await until(lambda: reports.errors and own.is_live)
            await store.commit([set_to(first, 2)])
            await until(lambda: note.value["value"] != {"n": 1})
            own.close()
            await running

    assert "lineage_changed" in str(reports.errors[0])
    assert note.value["value"] == {"n": 2}


async def test_a_handle_hears_of_others_at_once_if_its_log_is_polled():
    records = MemoryStore()
    async with opened(records) as store, opened(records, prefix="r") as rival:
        followed = await FollowedStore.open(with_pauses(records), REF, feed=store.feed)
        own = host()
        listed = follow_view(own, store, NamespaceView("app", "main"))
        await own.activate()
        watch = listed.watch()

        await rival.commit([create("a")])
        told = await followed.poll()
        await store.commit([create("b")])
        again = await followed.poll()
        await rival.commit([create("c")])
        await followed.poll()
        seqs = [frame.seq for frame in await frames(watch)]
        own.close()

    assert (told, again) == (1, 0), "what the handle has told itself is not read again"
    assert seqs == [1, 2, 3]


async def test_a_table_that_moves_to_another_version_is_followed_row_by_row():
    records = MemoryStore()
    newer = dataclasses.replace(NOTES, version=2, columns={**NOTES.columns, "more": "str"})
    async with opened(records) as store:
        await prepared(store, [NOTES])
        rows = [{"id": id, "state": "open", "size": id} for id in range(1, 8)]
        await store.commit([InsertRow(NOTES, row) for row in rows])
        followed = await FollowedStore.open(with_pauses(records), REF)
        own = host()
        table = follow_view(own, followed, TableView(NOTES))
        await own.activate()
        watch = table.watch()

        await prepared(store, [newer], {"notes": lambda row, _: {**row, "more": "x"}})
        await store.commit([UpdateRow(newer, (1,), {"size": 9})])
        while await followed.poll():
            await turn()
        looked = await store.read(lambda view: TableView(newer).look(view, REF.partition))
        told = await frames(watch)
        own.close()

    assert table.value == looked
    assert {row["more"] for row in table.value.values()} == {"x"}
    assert all(frame.ops[0][0] == "s" for frame in told), "nothing was looked at again"


async def test_a_commit_that_two_bring_is_told_once():
    async with opened(MemoryStore()) as store:
        replies = [await store.commit([create(key)]) for key in "ab"]
        feed, heard = Feed(Seq(0)), Heard()
        feed.listen(heard, host().batch)

        for reply in (replies[0], replies[0], replies[1], replies[0]):
            feed.offer(reply.entry)

    assert heard.seqs == [1, 2]
    assert feed.seq == 2


async def test_a_look_that_a_trim_came_into_is_taken_again():
    records = MemoryStore()
    async with opened(records) as store:
        (first,) = (await store.commit([create("a", {"n": 1})])).ids
        followed_means = with_pauses(records)
        followed = await FollowedStore.open(followed_means, REF)
        view = followed_means.authority.view
        heads = [Reads(peeks=(store_head_key(REF.partition),))] * 2

        async def at_its_end(reads):
            found = await view(reads)
            if heads and reads == heads[-1]:
                heads.pop()
                if not heads:  # the store has been looked at, and nobody knows it yet
                    followed.feed.restart((await store.commit([set_to(first, 2)])).seq)
            return found

        followed_means.authority.view = at_its_end
        own = host()
        note = follow_view(own, followed, AddressView(address("a")))
        await own.activate()
        value = note.value["value"]
        own.close()

    assert heads == []
    assert value == {"n": 2}
