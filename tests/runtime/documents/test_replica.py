"""A replica is what its source was after one of its commits, or says that it is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.support.documents import LINEAGE, NOW, REF, means, opened
from tests.support.exporting import BytesSource, bytes_of
from tests.support.histories import ITEMS, Past

from perdure.authority.memory import MemoryStore
from perdure.kernel.canonical import canonical, strict
from perdure.kernel.documents.commit import DocumentsRequest, TakeOwner
from perdure.kernel.documents.content import base
from perdure.kernel.documents.create import DescribeDocumentStore
from perdure.kernel.documents.errors import (
    FollowsSource,
    LogTrimmed,
    NotAFollower,
    StaleCursor,
    StillBound,
    StoreDiverged,
)
from perdure.kernel.documents.log import LogPage, LogPlace
from perdure.kernel.documents.places import Address, DocumentStoreRef
from perdure.kernel.documents.records import Logged, store_head_key
from perdure.kernel.documents.replica import sent_entry, spelled_entry
from perdure.kernel.documents.rows import DeleteWhere, InsertRow, UpdateWhere
from perdure.kernel.documents.writes import ChangeDocument, CreateDocument
from perdure.kernel.errors import (
    Corrupt,
    LineageChanged,
    NewerWriter,
    StoreUnavailable,
)
from perdure.kernel.ids import DocumentId, DocumentStoreId, Epoch, Holder, Instant, Lineage, Seq
from perdure.kernel.record import Record
from perdure.kernel.view import Decision, Range, Reads
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

REPLICA = DocumentStoreRef(REF.storage, DocumentStoreId("replica"))
ROW = {"shelf": "a", "number": 1, "color": "red", "more": None}


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[OpenStore, OpenStore]]:
    """Open a store with two commits and an empty replica, each on records of its own."""
    with_ = means(prefix="r")
    await create_replica(with_, REPLICA, LINEAGE)
    replica = await OpenStore.open(with_, REPLICA)
    async with opened() as source:
        await prepared(source, (ITEMS,))
        await source.commit([InsertRow(ITEMS, ROW)])
        yield source, replica
    await with_.authority.close()


async def entries_of(source: OpenStore) -> list[Logged]:
    page = await StoreLog(source.means, source.ref, limit=1_000).read(LogPlace())
    return list(page.entries)


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


Damage = Callable[[list[dict[str, Any]]], None]


def tampered(entry: Logged, damage: Damage, **fields: Any) -> Logged:
    """Return an entry whose writes say something else."""
    writes = entry.told()
    damage(writes)
    return replace(entry, writes=canonical(writes), **fields)


def count(writes: list[dict[str, Any]]) -> None:
    writes[0]["count"] += 1


def where(writes: list[dict[str, Any]]) -> None:
    writes[0]["where"] = {"color": "green"}


def twice(writes: list[dict[str, Any]]) -> None:
    writes.append(writes[0])


def column(writes: list[dict[str, Any]]) -> None:
    writes[0]["row"]["surprise"] = 1


def table(writes: list[dict[str, Any]]) -> None:
    writes[0]["table"] = "notes:absent"


def missing(writes: list[dict[str, Any]]) -> None:
    del writes[0]["row"]


def no_write(writes: list[Any]) -> None:
    writes[0] = 5


def id_of_another(writes: list[dict[str, Any]]) -> None:
    writes[0]["id"] = 2


def retired(writes: list[dict[str, Any]]) -> None:
    writes[0] = {"w": "document.retire", "id": 99}


def same_address(writes: list[dict[str, Any]]) -> None:
    writes.append({**writes[0], "id": writes[0]["id"] + 1})


def version(writes: list[dict[str, Any]]) -> None:
    writes[0]["content"]["version"] = 7
    writes[0]["content"]["kind"] = "delta"
    writes[0]["content"]["ops"] = []
    del writes[0]["content"]["value"]


def inapplicable(writes: list[dict[str, Any]]) -> None:
    writes[0]["content"] = {"kind": "delta", "version": 1, "ops": [["a", ["no"], "x"]]}


def more_than_it_does(writes: list[dict[str, Any]]) -> None:
    writes[0]["surprise"] = True


PAPER = Address("notes", "papers", "one")
LAST: dict[str, tuple[Any, list[Damage]]] = {
    "update": (UpdateWhere(ITEMS, {"color": "red"}, {"more": 1}), [count, where]),
    "delete": (DeleteWhere(ITEMS, {"color": "red"}), [count, where]),
    "insert": (
        InsertRow(ITEMS, {**ROW, "number": 2}),
        [twice, column, table, missing, no_write, more_than_it_does],
    ),
    "create": (
        CreateDocument(Address("notes", "papers", "two"), "latest", base(1, {})),
        [id_of_another, same_address, version, more_than_it_does],
    ),
    "change": (
        ChangeDocument(DocumentId(2), base(1, {})),
        [retired, version, inapplicable, twice],
    ),
}
CASES = [(name, damage) for name, (_, damages) in LAST.items() for damage in damages]


@pytest.mark.parametrize(
    ("name", "damage"), CASES, ids=[f"{name}-{damage.__name__}" for name, damage in CASES]
)
async def test_a_commit_that_does_not_fit_is_not_applied_and_the_replica_is_diverged_for_good(
    name: str, damage: Damage
) -> None:
    async with pair() as (source, replica):
        await source.commit([CreateDocument(PAPER, "rewindable", base(1, {}))])
        await source.commit([LAST[name][0]])
        *before, last = await entries_of(source)
        await apply_batch(replica, before)
        was = await records_of(replica)

        with pytest.raises(StoreDiverged):
            await apply_batch(replica, [tampered(last, damage)])

        again = await OpenStore.open(means_on(replica), REPLICA)
        for commits in ([last], [tampered(last, damage)]):
            with pytest.raises(StoreDiverged):
                await apply_batch(again, commits)
        with pytest.raises(StoreDiverged):
            await again.commit([])
        with pytest.raises(StoreDiverged):
            await promote(again.means, REPLICA)
        info = await again.means.authority.execute(DescribeDocumentStore(REPLICA))
        assert info.diverged is not None
        assert info.seq == 3
        assert await records_of(again) == was


async def records_of(store: OpenStore) -> dict[str, bytes]:
    """Return every record of a store but its head."""
    wanted = Range(store.ref.partition, " ", "~", Record)
    view = await store.means.authority.view(Reads(ranges=(wanted,)))
    bodies = {key.sort: found.body for key, found in view.stored.items() if found is not None}
    return {sort: body for sort, body in bodies.items() if sort != "head"}


def means_on(store: OpenStore) -> Any:
    """Return what works on the same records as a store does, as another process."""
    authority: Any = store.means.authority
    return means(authority._store, prefix="again")


async def test_a_value_that_fits_but_is_another_is_found_with_the_next_commit() -> None:
    async with pair() as (source, replica):
        await source.commit([InsertRow(ITEMS, {**ROW, "number": 2})])
        entries = await entries_of(source)

        def another(writes: list[dict[str, Any]]) -> None:
            writes[0]["row"]["color"] = "blue"

        await apply_batch(replica, [entries[0], tampered_chain(entries[0], entries[1], another)])

        with pytest.raises(StoreDiverged):
            await apply_batch(replica, entries[2:])


def tampered_chain(before: Logged, entry: Logged, damage: Damage) -> Logged:
    return tampered(entry, damage, previous=before.digest)


@pytest.mark.parametrize(
    "fields", [{"previous": "0" * 64}, {"next_id": 1}], ids=["digest", "next_id"]
)
async def test_another_chain_and_ids_that_are_taken_are_diverged(fields: dict[str, Any]) -> None:
    async with pair() as (source, replica):
        entries = await entries_of(source)
        await apply_batch(replica, entries[:1])

        with pytest.raises(StoreDiverged):
            await apply_batch(replica, [replace(entries[1], **fields)])


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
