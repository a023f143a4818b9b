"""A replica is what its source was after one of its commits, or says that it is not."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.support.documents import LINEAGE, NOW, REF, means, opened
from tests.support.exporting import BytesSource, bytes_of
from tests.support.following import frames, host
from tests.support.histories import ITEMS, Past
from tests.support.replicas import REPLICA, ROW, entries_of, pair, tampered

from perdure.authority.memory import MemoryStore
from perdure.kernel.canonical import strict
from perdure.kernel.documents.commit import DocumentsRequest, TakeOwner
from perdure.kernel.documents.errors import (
    FollowsSource,
    LogTrimmed,
    NotAFollower,
    StaleCursor,
    StillBound,
    StoreDiverged,
)
from perdure.kernel.documents.followed import TableView
from perdure.kernel.documents.log import LogPage, LogPlace
from perdure.kernel.documents.records import store_head_key
from perdure.kernel.documents.replica import sent_entry, spelled_entry
from perdure.kernel.documents.rows import InsertRow
from perdure.kernel.errors import (
    Corrupt,
    LineageChanged,
    NewerWriter,
    StoreUnavailable,
)
from perdure.kernel.ids import Epoch, Holder, Instant, Lineage, Seq
from perdure.kernel.view import Decision, Reads
from perdure.runtime.documents.follow.views import follow_view
from perdure.runtime.documents.importing import import_store
from perdure.runtime.documents.replica import (
    Lag,
    StoreLog,
    apply_batch,
    catch_up,
    create_replica,
    follow_as_replica,
    promote,
)
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.tables import prepared

pytestmark = pytest.mark.stores


async def test_commits_of_the_source_are_applied_with_all_that_they_were() -> None:
    async with pair() as (source, replica):
        entries = await entries_of(source)

        assert await apply_batch(replica, entries) == source.seq

        assert await bytes_of(replica.means, REPLICA) == await bytes_of(source.means, REF)
        assert [each.body() for each in await entries_of(replica)] == [
            each.body() for each in entries
        ]


async def test_a_replica_takes_no_commits_of_its_own() -> None:
    async with pair() as (source, replica):
        await apply_batch(replica, await entries_of(source))
        before = await bytes_of(replica.means, REPLICA)

        with pytest.raises(FollowsSource):
            await replica.commit([InsertRow(ITEMS, {**ROW, "number": 2})])
        with pytest.raises(FollowsSource):
            await prepared(replica, (ITEMS,))
        taken = TakeOwner(REPLICA, "notes", Holder("h"), 1_000)
        with pytest.raises(FollowsSource):
            await replica.means.authority.execute(taken)

        assert await bytes_of(replica.means, REPLICA) == before


async def test_commits_that_do_not_follow_are_refused_and_change_nothing() -> None:
    async with pair() as (source, replica):
        for number in range(2, 5):
            await source.commit([InsertRow(ITEMS, {**ROW, "number": number})])
        entries = await entries_of(source)
        await apply_batch(replica, entries[:2])

        for wrong in (entries[3:], entries[:1], [entries[2], entries[4]], entries[2:0:-1]):
            with pytest.raises(NotAFollower):
                await apply_batch(replica, wrong)
        tampered = replace(entries[2], writes=b"[]")
        with pytest.raises(NotAFollower):
            await apply_batch(replica, [tampered, entries[3]])

        assert await apply_batch(replica, []) == 2
        assert await apply_batch(replica, entries[2:]) == 5


async def test_the_last_commit_again_changes_nothing() -> None:
    async with pair() as (source, replica):
        entries = await entries_of(source)
        await apply_batch(replica, entries)

        assert await apply_batch(replica, entries[-1:]) == source.seq


async def test_a_store_of_its_own_takes_no_commits_of_another() -> None:
    async with pair() as (source, _), opened(ref=REPLICA) as other:
        with pytest.raises(NotAFollower):
            await apply_batch(other, await entries_of(source))


async def test_nothing_is_applied_while_a_part_of_the_replica_is_in_hand() -> None:
    async with pair() as (source, replica):
        entries = await entries_of(source)
        with replica.bound("notes:items"), pytest.raises(StillBound):
            await apply_batch(replica, entries)

        assert await apply_batch(replica, entries) == source.seq


async def test_nothing_is_applied_while_an_owner_is_held() -> None:
    async with opened() as source, opened(ref=REPLICA) as other:
        await source.commit([])
        taken = TakeOwner(REPLICA, "notes", Holder("h"), 1_000)
        await other.means.authority.execute(taken)
        await become_replica(other)

        with pytest.raises(StillBound):
            await apply_batch(other, await entries_of(source))


async def become_replica(store: OpenStore) -> None:
    """Make a store with its grips a replica, as no request does."""

    class Follow(DocumentsRequest):
        def reads(self) -> Reads:
            return Reads(keys=(store_head_key(self.stream),))

        def decide(self, view: Any, now: Instant) -> Decision[None]:
            head = view.get(store_head_key(self.stream))
            return Decision(None, (replace(head, follows=True),))

    await store.means.authority.execute(Follow(store.ref))


async def test_a_write_of_a_newer_version_leaves_the_replica_to_a_newer_one() -> None:
    async with pair() as (source, replica):
        entries = await entries_of(source)
        await apply_batch(replica, entries[:1])

        def newer(writes: list[dict[str, Any]]) -> None:
            writes[0]["w"] = "row.embroider"

        with pytest.raises(NewerWriter):
            await apply_batch(replica, [tampered(entries[1], newer)])

        assert await apply_batch(replica, entries[1:]) == source.seq


async def test_a_commit_comes_over_a_wire_as_it_was_or_is_refused() -> None:
    async with pair() as (source, _):
        for entry in await entries_of(source):
            spelled = spelled_entry(entry)
            assert sent_entry(REPLICA.partition, spelled).body() == entry.body()
            damaged = {**strict(spelled), "at": 5}
            with pytest.raises(Corrupt):
                sent_entry(REPLICA.partition, damaged)
        with pytest.raises(Corrupt):
            sent_entry(REPLICA.partition, b"{}")


async def test_a_promoted_replica_is_a_store_that_no_grip_of_the_source_reaches() -> None:
    async with pair() as (source, replica):
        taken = TakeOwner(REF, "notes", Holder("h"), 60_000)
        grip, _ = await source.means.authority.execute(taken)
        lag = await catch_up(StoreLog(source.means, REF), replica)

        head = await promote(replica.means, REPLICA)

        assert lag.commits == 0
        assert head.epoch > grip.epoch
        assert (await promote(replica.means, REPLICA)).epoch == head.epoch
        await prepared(replica, (ITEMS,))
        reply = await replica.commit([InsertRow(ITEMS, {**ROW, "number": 7})])
        assert reply.seq == source.seq + 1
        with pytest.raises(NotAFollower):
            await apply_batch(replica, await entries_of(source))


async def test_a_replica_begins_with_an_export_where_the_log_of_the_source_was_cut() -> None:
    async with pair() as (source, replica):
        data = await bytes_of(source.means, REF)
        with_ = means(prefix="copy")
        await import_store(with_, REPLICA, BytesSource(data), lineage=LINEAGE, follows=True)
        copy = await OpenStore.open(with_, REPLICA)
        await source.commit([InsertRow(ITEMS, {**ROW, "number": 2})])
        cut = Cut(StoreLog(source.means, REF), Seq(3))

        lag = await catch_up(cut, copy)

        assert lag.seq == source.seq
        assert await bytes_of(with_, REPLICA) == await bytes_of(source.means, REF)
        with pytest.raises(LogTrimmed, match="import a new export"):
            await catch_up(cut, replica)


class Cut:
    """The log of a source from one commit on."""

    def __init__(self, log: StoreLog, log_from: Seq) -> None:
        self._log = log
        self._from = log_from

    async def read(self, place: LogPlace) -> LogPage:
        if place.seq + 1 < self._from:
            raise LogTrimmed(
                expected=f"a log that has commit {place.seq + 1}",
                found=f"one that begins at {self._from}",
            )
        return await self._log.read(place)


async def test_a_store_that_is_no_replica_is_not_told_to_be_at_its_source() -> None:
    async with pair() as (source, replica):
        await catch_up(StoreLog(source.means, REF), replica)
        await promote(replica.means, REPLICA)

        with pytest.raises(NotAFollower):
            await catch_up(StoreLog(source.means, REF), replica)


async def test_a_source_that_went_another_way_is_found_though_nothing_is_behind() -> None:
    async with pair() as (source, replica), opened() as restored:
        await catch_up(StoreLog(source.means, REF), replica)
        await prepared(restored, (ITEMS,))
        await restored.commit([InsertRow(ITEMS, {**ROW, "number": 9})])
        assert restored.seq == replica.seq

        with pytest.raises(StaleCursor):
            await catch_up(StoreLog(restored.means, REF), replica)


async def test_another_store_is_not_followed() -> None:
    async with pair() as (source, _):
        with_ = means(prefix="other")
        await create_replica(with_, REPLICA, Lineage("anotheranotheranother0"))
        other = await OpenStore.open(with_, REPLICA)

        with pytest.raises(LineageChanged):
            await catch_up(StoreLog(source.means, REF), other)


async def test_a_source_that_went_back_behind_its_replica_is_not_followed() -> None:
    async with pair() as (source, replica), opened() as restored:
        await catch_up(StoreLog(source.means, REF), replica)

        with pytest.raises(StaleCursor):
            await catch_up(StoreLog(restored.means, REF), replica)


class Moody:
    """A log that does not answer every time."""

    def __init__(self, log: StoreLog, silent: set[int]) -> None:
        self._log = log
        self._silent = silent
        self.readings = 0

    async def read(self, place: LogPlace) -> LogPage:
        self.readings += 1
        if self.readings in self._silent:
            raise StoreUnavailable(expected="an answer", found="none")
        return await self._log.read(place)


async def test_a_replica_follows_a_live_store_and_tells_how_far_it_is_behind() -> None:
    async with pair() as (source, replica):
        log = Moody(StoreLog(source.means, REF, limit=2), {3, 4})
        past = Past(source, 8)
        await past.begin()
        seen: list[Lag] = []

        async def writes() -> None:
            for _ in range(10):
                await past.go_on(3)
                await asyncio.sleep(0)
            await past.end()

        writing = asyncio.create_task(writes())
        later = later_than(replica, NOW + 5_000)

        last = await follow_as_replica(
            log,
            later,
            saw=seen.append,
            is_over=lambda: writing.done() and bool(seen) and seen[-1].seq == source.seq,
            idle_seconds=0,
        )

        await writing
        assert last is not None
        assert (last.seq, last.commits, last.ms) == (source.seq, 0, 0)
        behind = [each for each in seen if each.commits and each.waits_for is None]
        assert behind
        assert all(each.ms == 5_000 for each in behind)
        assert [each.seq for each in seen] == sorted(each.seq for each in seen)
        assert sum(each.waits_for is not None for each in seen) == 2
        assert await bytes_of(replica.means, REPLICA) == await bytes_of(source.means, REF)


def later_than(replica: OpenStore, now: int) -> OpenStore:
    """Return the replica with a clock of its own."""
    object.__setattr__(replica.means, "now", lambda: Instant(now))
    return replica


async def test_a_replica_goes_on_after_a_restart_of_either_side() -> None:
    sources, replicas = MemoryStore(), MemoryStore()
    for number in range(1, 4):
        async with opened(sources.reopened(), prefix=f"s{number}") as source:
            await prepared(source, (ITEMS,))
            await source.commit([InsertRow(ITEMS, {**ROW, "number": number})])
            with_ = means(replicas.reopened(), prefix=f"r{number}")
            await create_replica(with_, REPLICA, LINEAGE)
            replica = await OpenStore.open(with_, REPLICA)

            await catch_up(StoreLog(source.means, REF), replica)

            assert await bytes_of(with_, REPLICA) == await bytes_of(source.means, REF)


async def test_the_epoch_of_the_source_is_the_least_of_the_replica() -> None:
    async with pair() as (source, replica):
        await apply_batch(replica, await entries_of(source), epoch=Epoch(7))

        assert (await promote(replica.means, REPLICA)).epoch == 8


async def test_who_follows_a_replica_is_told_of_each_commit_that_is_applied_to_it() -> None:
    async with pair() as (source, replica):
        declared, inserted = await entries_of(source)
        await apply_batch(replica, [declared])
        followed = host()
        rows = follow_view(followed, replica, TableView(ITEMS))
        await followed.activate()
        watch = rows.watch()

        await source.commit([InsertRow(ITEMS, {**ROW, "number": 2})])
        *_, last = await entries_of(source)
        await apply_batch(replica, [inserted, last])
        told = await frames(watch)
        diverged = tampered(last, lambda _: None, seq=Seq(4), previous="0" * 64)
        with pytest.raises(StoreDiverged):
            await apply_batch(replica, [diverged])

        assert [(each.seq, len(each.value)) for each in told] == [(2, 1), (3, 2)]
        assert not followed.is_live
