"""What one has in hand no other writes, until it is let go of or its lease is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.support.documents import NOW, opened
from tests.support.store_lines import (
    LEASE_MS,
    LINES,
    OTHERS,
    bodies,
    head_of,
    line,
    untitled,
)

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.commit import HELD_OWNERS_MAX
from perdure.kernel.documents.conversation import conversation_tables
from perdure.kernel.documents.errors import (
    NameBound,
    NewerTable,
    OwnerHeld,
)
from perdure.kernel.documents.rows import InsertRow
from perdure.kernel.errors import InvalidId, OutOfRange, StaleWriter, TooLarge
from perdure.kernel.ids import Instant
from perdure.kernel.limits import LEASE_MS_MAX
from perdure.runtime.documents.conversations import ConversationStorage
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.tables import prepared

pytestmark = pytest.mark.stores


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

        left = [f"owner{each}" for each in range(2, HELD_OWNERS_MAX)]
        held = [each.owner for each in (await head_of(first)).held]
        assert held == [*left, "owner0", "notes"]  # who had waited longest has gone


@pytest.mark.parametrize("lease_ms", [-1, LEASE_MS_MAX + 1, True, 1.5])
async def test_a_lease_is_as_long_as_a_process_may_live(lease_ms: Any):
    async with opened() as store:
        with pytest.raises(OutOfRange):
            await store.hold("notes", lease_ms)
        with pytest.raises(InvalidId):
            await store.hold("a/b", LEASE_MS)


async def test_a_lease_of_a_wrong_clock_keeps_nobody_out():
    records, clock = MemoryStore(), [365 * 86_400_000]
    async with two(records, clock) as (first, second):
        await first.hold("notes", LEASE_MS_MAX)
        clock[0] = 0

        await second.hold("notes", LEASE_MS)

        await second.commit([line(1)])
        with pytest.raises(StaleWriter):
            await first.commit([line(2)])


async def test_a_holder_whose_clock_was_wrong_holds_for_its_lease_once_it_is_right():
    records, clock = MemoryStore(), [365 * 86_400_000]
    async with two(records, clock) as (first, second):
        await first.hold("notes", LEASE_MS)
        clock[0] = 0
        await first.commit([line(1)])

        with pytest.raises(OwnerHeld):
            await second.commit([line(2)])
        clock[0] = LEASE_MS
        await second.commit([line(2)])


@pytest.mark.parametrize("turns", range(1, 9))
async def test_a_caller_that_goes_away_while_it_takes_an_owner_is_not_kept_out_by_itself(
    turns: int,
):
    records = MemoryStore()
    async with two(records, [0]) as (first, second):
        taking = asyncio.create_task(first.hold("notes", LEASE_MS))
        for _ in range(turns):
            await asyncio.sleep(0)
        taking.cancel()
        await asyncio.wait({taking})

        await first.commit([line(1)])
        await first.let_go("notes")

        await second.commit([line(2)])


async def test_who_could_not_be_opened_keeps_no_owner():
    records = MemoryStore()
    async with two(records, [0]) as (first, second):
        newer = replace(conversation_tables("pi").entry_heads, version=2)
        await prepared(first, [newer])

        with pytest.raises(NewerTable):
            await ConversationStorage.open(second, "pi", lease_ms=LEASE_MS)

        await first.commit([InsertRow(newer, {"conversation_id": 1, "id": 2})])
