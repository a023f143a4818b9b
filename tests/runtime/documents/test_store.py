"""A handle on a store commits in turn, gives each id once, and holds what it was let to hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support import stores
from tests.support.documents import NOW, REF, opened

from perdure.authority.memory import Fault, FaultPlan, MemoryStore
from perdure.authority.packing import unpacked
from perdure.authority.store import Store
from perdure.kernel.documents.commit import HELD_OWNERS_MAX, UNSEEN_MAX, Committed
from perdure.kernel.documents.content import base
from perdure.kernel.documents.errors import (
    IdsExhausted,
    NameBound,
    OwnerHeld,
    RowExists,
    StoreClosed,
    StoreFailed,
)
from perdure.kernel.documents.log import LogPlace
from perdure.kernel.documents.places import SAFE_INTEGER_MAX, Address
from perdure.kernel.documents.records import StoreHead, store_head_key
from perdure.kernel.documents.reserve import RESERVED_MAX
from perdure.kernel.documents.rows import InsertRow, PutRow
from perdure.kernel.documents.tables import Table
from perdure.kernel.documents.writes import CreateDocument
from perdure.kernel.errors import InvalidId, OutOfRange, StaleWriter, TooLarge, Unavailable
from perdure.kernel.ids import DocumentId, Instant
from perdure.kernel.limits import LEASE_MS_MAX
from perdure.kernel.view import Reads
from perdure.runtime.documents.log import entries_behind
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.tables import prepared

pytestmark = pytest.mark.stores

LINES = Table("notes", "lines", {"id": "int", "by": "str"}, ("id",), {}).checked()
OTHERS = Table("others", "lines", {"id": "int", "by": "str"}, ("id",), {}).checked()
LEASE_MS = 1_000


def line(id: int, by: str = "ann", table: Table = LINES) -> PutRow:
    return PutRow(table, {"id": id, "by": by})


def page(id: int | None = None, owner: str = "notes") -> CreateDocument:
    named = None if id is None else DocumentId(id)
    content = base(1, {})
    return CreateDocument(
        Address(owner, "pages", "page", f"{id}"), "none", content, named
    ).checked()


def untitled(member: str) -> CreateDocument:
    return CreateDocument(Address("notes", "pages", "page", member), "none", base(1, {})).checked()


async def head_of(store: OpenStore) -> StoreHead:
    key = store_head_key(REF.partition)
    head = (await store.means.authority.view(Reads(peeks=(key,)))).peek(key)  # type: ignore[attr-defined]
    assert head is not None
    return head


def bodies(records: MemoryStore) -> dict[Any, bytes | Any]:
    return {key: unpacked(stored.body) for key, stored in records._records.items()}


async def attempts(store: OpenStore) -> list[str]:
    authority = store.means.authority
    found = entries_behind(authority, REF, LogPlace(), pause=store.means.pause, limit=1_000)
    return [entry.attempt async for entry in found]


# The queue of commits


async def test_a_writer_who_may_not_is_refused_before_anything_is_asked_of_the_store():
    records = MemoryStore()
    async with opened(records) as store:
        await prepared(store, [LINES])
        loads, commits = records.loads, records.commits

        with pytest.raises(StaleWriter):
            await store.commit([line(1)], admit=lambda: False)

        assert (records.loads, records.commits) == (loads, commits)
        await store.commit([line(1)], admit=lambda: True)


async def test_whether_a_writer_may_is_asked_when_its_turn_has_come():
    told: list[str] = []

    def may(name: str) -> bool:
        told.append(f"{name} asked")
        return True

    async with opened() as store:
        await prepared(store, [LINES])
        await asyncio.gather(
            *(
                store.commit(
                    [line(each)],
                    admit=lambda each=each: may(f"{each}"),  # type: ignore[misc]
                    adopt=lambda reply, each=each: told.append(f"{each} adopted"),  # type: ignore[misc]
                )
                for each in range(3)
            )
        )

    assert told == [f"{each} {what}" for each in range(3) for what in ("asked", "adopted")]


async def test_each_commit_is_adopted_with_its_seq_before_the_next_begins():
    adopted: list[Committed] = []
    async with opened() as store:
        await prepared(store, [LINES])

        replies = await asyncio.gather(
            *(store.commit([line(each)], adopt=adopted.append) for each in range(20))
        )

    assert adopted == replies
    assert [reply.seq for reply in adopted] == list(range(2, 22))


async def test_an_adoption_that_raises_fails_the_store_whose_commit_stands():
    def adopt(_: Committed) -> None:
        raise LookupError("not now")

    records = MemoryStore()
    async with opened(records.reopened()) as store:
        await prepared(store, [LINES])

        with pytest.raises(StoreFailed, match="not now"):
            await store.commit([line(1)], adopt=adopt)

        for call in (store.commit([line(2)]), store.reserve(1), store.find(page(1).address)):
            with pytest.raises(StoreFailed, match="opened again"):
                await call
        with pytest.raises(StoreFailed):
            store.mint()
    async with opened(records.reopened(), prefix="again") as store:
        assert store.seq == 2


async def test_a_refusal_leaves_the_store_as_it_was_and_its_queue_goes_on():
    adopted: list[Committed] = []
    records = MemoryStore()
    async with opened(records) as store:
        await prepared(store, [LINES])
        await store.commit([line(1)])
        before = bodies(records)

        row = {"id": 1, "by": "eve"}
        with pytest.raises(RowExists):
            await store.commit([line(2), InsertRow(LINES, row)], adopt=adopted.append)

        assert bodies(records) == before
        assert adopted == []
        assert (await store.commit([line(2)])).seq == 3


async def test_a_caller_that_goes_away_takes_nothing_back():
    adopted: list[Committed] = []
    async with opened() as store:
        await prepared(store, [LINES])
        going = asyncio.create_task(store.commit([line(1)], adopt=adopted.append))
        await asyncio.sleep(0)

        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        reply = await store.commit([line(2)])

        assert [each.seq for each in adopted] == [2]
        assert reply.seq == 3


async def test_a_caller_that_goes_away_before_a_refusal_is_told_of_nothing():
    async with opened() as store:
        await prepared(store, [LINES])
        await store.commit([line(1)])
        going = asyncio.create_task(store.commit([InsertRow(LINES, {"id": 1, "by": ""})]))
        await asyncio.sleep(0)

        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going

        assert (await store.commit([line(2)])).seq == 3


async def test_a_closed_store_ends_what_it_has_begun_and_takes_no_more():
    async with opened() as store:
        await prepared(store, [LINES])
        begun = [asyncio.create_task(store.commit([line(each)])) for each in range(3)]
        await asyncio.sleep(0)

        await store.close()

        assert [(await each).seq for each in begun] == [2, 3, 4]
        with pytest.raises(StoreClosed):
            await store.commit([line(9)])
        with pytest.raises(StoreClosed):
            store.mint()


# The allocator


async def test_ids_begin_behind_the_root_conversation_and_are_each_given_once():
    async with opened() as store:
        assert [store.mint() for _ in range(3)] == [2, 3, 4]
        assert (await store.commit([untitled("a")])).ids == (5,)
        assert store.mint() == 6


async def test_ids_minted_while_commits_run_are_given_to_nothing_else():
    async with opened() as store:
        minted, replies = [], []

        async def minting() -> None:
            for _ in range(60):
                minted.append(store.mint())
                await asyncio.sleep(0)

        async def creating(name: str) -> None:
            for each in range(10):
                reply = await store.commit([untitled(f"{name}{each}a"), untitled(f"{name}{each}b")])
                replies.append(reply)

        await asyncio.gather(minting(), creating("x"), creating("y"), minting())

        given = [*minted, *(id for reply in replies for id in reply.ids)]
        assert len(given) == len(set(given)) == 120 + 40
        assert store.mint() == max(given) + 1


async def test_a_refused_commit_leaves_a_gap():
    async with opened() as store:
        await store.commit([untitled("a")])

        with pytest.raises(Exception, match="incarnation"):
            await store.commit([untitled("b"), untitled("a")])

        assert (await store.commit([untitled("b")])).ids == (5,)


async def test_an_id_that_is_named_raises_what_is_given_even_if_it_is_refused():
    async with opened() as store:
        await store.commit([page(40)])
        assert store.mint() == 41

        with pytest.raises(Exception, match="already belongs"):
            await store.commit([page(90), page(40)])

        assert store.mint() == 91


async def test_an_allocator_goes_on_where_the_last_commit_left_it():
    records = MemoryStore()
    async with opened(records.reopened()) as store:
        store.mint()
        await store.commit([page(7), untitled("a")])
        lost = store.mint()
    async with opened(records.reopened(), prefix="again") as store:
        assert lost == 9
        assert store.mint() == 9


async def test_the_greatest_id_may_be_named_and_ends_the_giving_for_good():
    records = MemoryStore()
    async with opened(records.reopened()) as store:
        await store.commit([page(SAFE_INTEGER_MAX)])
        await saturated(store)
    async with opened(records.reopened(), prefix="again") as store:
        await saturated(store)


async def saturated(store: OpenStore) -> None:
    """Hold a store to giving no id, and to taking everything that names one."""
    seq = store.seq
    with pytest.raises(IdsExhausted):
        store.mint()
    with pytest.raises(IdsExhausted, match="ID space is exhausted"):
        await store.commit([untitled("new")])
    with pytest.raises(IdsExhausted):
        await store.reserve(1)
    assert (await head_of(store)).next_id == SAFE_INTEGER_MAX
    assert (await store.commit([page(1_000 + seq)])).seq == seq + 1


async def test_a_reservation_is_durable_and_in_the_log():
    records = MemoryStore()
    async with opened(records.reopened()) as store:
        assert await store.reserve(10) == range(2, 12)
        assert store.mint() == 12
    async with opened(records.reopened(), prefix="again") as store:
        assert store.mint() == 12
        assert await store.reserve(1) == range(13, 14)
        assert len(await attempts(store)) == 2


async def test_what_is_reserved_while_ids_are_minted_is_nobody_elses():
    async with opened() as store:
        reserving = [asyncio.create_task(store.reserve(5)) for _ in range(10)]
        minted = []
        while not all(task.done() for task in reserving):
            minted.append(store.mint())
            await asyncio.sleep(0)

        reserved = await asyncio.gather(*reserving)
        given = [*minted, *(id for ids in reserved for id in ids)]
        assert len(given) == len(set(given))


async def test_handles_in_two_hands_reserve_different_ids():
    records = MemoryStore()
    async with (
        opened(records.reopened(), prefix="a") as first,
        opened(records.reopened(), prefix="b") as second,
    ):
        reserved = [await each.reserve(3) for each in (first, second, first, second, second)]

    assert [ids for each in reserved for ids in each] == list(range(2, 17))


@pytest.mark.parametrize("count", [0, -1, RESERVED_MAX + 1, True, 1.0])
async def test_no_ids_and_too_many_are_not_reserved(count: Any):
    async with opened() as store:
        with pytest.raises(OutOfRange):
            await store.reserve(count)

        assert store.mint() == 2


# Bindings and grips


async def test_a_name_is_bound_once_in_a_handle_until_it_is_released():
    async with opened() as store:
        with store.bound("notes:lines", "notes/pages"):
            for name in ("notes:lines", "notes/pages"):
                with pytest.raises(NameBound):
                    store.bind("free", name)
            assert store.bind("free") == ("free",)
        store.bind("notes:lines")

        assert store.is_bound


@asynccontextmanager
async def two(records: MemoryStore, clock: list[int]) -> AsyncIterator[tuple[OpenStore, OpenStore]]:
    """Open two handles as two processes have them, with one clock."""
    async with (
        opened(records.reopened(), prefix="a") as first,
        opened(records.reopened(), prefix="b") as second,
    ):
        for each in (first, second):
            each.means.authority._now = lambda: Instant(NOW + clock[0])  # type: ignore[attr-defined]
            await prepared(each, [LINES, OTHERS])
        yield first, second


async def test_what_one_holds_no_other_writes_and_the_rest_is_free():
    records, clock = MemoryStore(), [0]
    async with two(records, clock) as (first, second):
        await first.hold("notes", LEASE_MS)
        before = bodies(records)

        for staged in ([line(1)], [untitled("a")], [line(1, table=OTHERS), line(1)]):
            with pytest.raises(OwnerHeld, match="notes"):
                await second.commit(staged)
        with pytest.raises(OwnerHeld):
            await second.hold("notes", LEASE_MS)
        assert bodies(records) == before

        await second.commit([line(1, table=OTHERS)])
        await first.commit([line(1), line(2, table=OTHERS)])


async def test_a_hold_is_renewed_by_commits_and_ends_with_its_lease():
    records, clock = MemoryStore(), [0]
    async with two(records, clock) as (first, second):
        await first.hold("notes", LEASE_MS)
        clock[0] = LEASE_MS - 1
        await first.commit([line(1)])
        clock[0] = 2 * LEASE_MS - 2
        with pytest.raises(OwnerHeld):
            await second.commit([line(2)])
        clock[0] = 2 * LEASE_MS - 1

        await second.commit([line(2)])

        with pytest.raises(StaleWriter):
            await first.commit([line(3)])


async def test_a_lease_that_is_over_still_holds_while_nobody_else_has_written():
    records, clock = MemoryStore(), [0]
    async with two(records, clock) as (first, second):
        await first.hold("notes", LEASE_MS)
        clock[0] = 5 * LEASE_MS

        await first.commit([line(1)])

        with pytest.raises(OwnerHeld):
            await second.commit([line(2)])


async def test_an_overtaken_holder_writes_nothing_until_it_holds_again():
    records, clock = MemoryStore(), [0]
    async with two(records, clock) as (first, second):
        old = await first.hold("notes", LEASE_MS)
        clock[0] = LEASE_MS
        new = await second.hold("notes", LEASE_MS)
        before = bodies(records)

        for staged in ([line(1)], [untitled("a")], [line(1, table=OTHERS), line(1)]):
            with pytest.raises(StaleWriter, match="notes"):
                await first.commit(staged)
        assert bodies(records) == before
        assert new.epoch > old.epoch

        await first.let_go("notes")
        await second.commit([line(1)])
        with pytest.raises(OwnerHeld):
            await first.commit([line(2)])
        await second.let_go("notes")
        assert (await first.hold("notes", LEASE_MS)).epoch > new.epoch
        await first.commit([line(2)])


async def test_a_holder_that_asks_again_keeps_its_epoch_and_the_longer_lease():
    records, clock = MemoryStore(), [0]
    async with two(records, clock) as (first, _):
        once = await first.hold("notes", LEASE_MS)
        again = await first.hold("notes", LEASE_MS // 2)

        (held,) = (await head_of(first)).held
        assert once.epoch == again.epoch == held.epoch
        assert held.until == NOW + LEASE_MS


async def test_several_owners_are_held_by_one_handle():
    records, clock = MemoryStore(), [0]
    async with two(records, clock) as (first, second):
        await first.hold("notes", LEASE_MS)
        await first.hold("others", LEASE_MS)
        await first.commit([line(1), line(1, table=OTHERS)])
        clock[0] = LEASE_MS
        await second.hold("others", LEASE_MS)

        await first.commit([line(2)])
        with pytest.raises(StaleWriter):
            await first.commit([line(2, table=OTHERS)])


async def test_no_more_owners_are_held_than_the_head_has_room_for():
    records, clock = MemoryStore(), [0]
    async with two(records, clock) as (first, second):
        for each in range(HELD_OWNERS_MAX):
            await first.hold(f"owner{each}", LEASE_MS)

        with pytest.raises(TooLarge):
            await second.hold("notes", LEASE_MS)
        await first.hold("owner0", LEASE_MS)
        clock[0] = LEASE_MS
        await second.hold("notes", LEASE_MS)

        assert [each.owner for each in (await head_of(first)).held] == ["notes"]


@pytest.mark.parametrize("lease_ms", [0, -1, LEASE_MS_MAX + 1, True, 1.5])
async def test_a_lease_is_as_long_as_a_process_may_live(lease_ms: Any):
    async with opened() as store:
        with pytest.raises(OutOfRange):
            await store.hold("notes", lease_ms)
        with pytest.raises(InvalidId):
            await store.hold("a/b", LEASE_MS)


# Rivals


async def rivals(first: Store, second: Store, commits: int) -> None:
    """Let two handles commit at once, and hold the log to each commit once."""
    async with opened(first, prefix="a") as one, opened(second, prefix="b") as other:
        await prepared(one, [LINES])
        await prepared(other, [LINES])
        ids: list[int] = []

        async def writing(store: OpenStore, by: str) -> None:
            for each in range(commits):
                minted = store.mint()
                reply = await store.commit(
                    [line(each if by == "a" else -each - 1, by), untitled(f"{by}{each}")],
                    adopt=lambda reply: ids.extend(reply.ids),
                )
                assert minted not in reply.ids

        await asyncio.gather(writing(one, "a"), writing(other, "b"))

        told = await attempts(one)
        assert len(told) == len(set(told)) == 1 + 2 * commits
        assert len(ids) == len(set(ids)) == 2 * commits
        assert (await head_of(one)).next_id > max(ids)


async def test_two_handles_on_one_memory_commit_everything_once():
    records = MemoryStore()
    await rivals(records.reopened(), records.reopened(), 40)


@pytest.mark.slow
async def test_two_handles_on_one_file_commit_hundreds_once(tmp_path: Path):
    async with stores.sqlite(tmp_path) as opener:
        await rivals(await opener(), await opener(), 200)


async def test_who_has_not_looked_for_long_commits_once_all_the_same():
    records = MemoryStore()
    async with (
        opened(records.reopened(), prefix="a") as first,
        opened(records.reopened(), prefix="b") as second,
    ):
        await prepared(first, [LINES])
        for _ in range(UNSEEN_MAX + 10):
            await second.commit([])

        reply = await first.commit([line(1)])

        assert reply.seq == UNSEEN_MAX + 12
        assert len(await attempts(first)) == UNSEEN_MAX + 12


async def test_a_store_that_is_busy_is_usable_when_it_is_no_more():
    records = MemoryStore()
    async with opened(records.reopened()) as store:
        await prepared(store, [LINES])
    busy = records.reopened(FaultPlan({1: Fault.THROTTLE}))
    async with opened(busy, prefix="again") as store:
        await prepared(store, [LINES])
        with pytest.raises(Unavailable):
            await store.commit([line(1)])

        assert (await store.commit([line(1)])).seq == 2
