"""Every id is given once by a handle, and those that are reserved by nobody else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.documents import opened
from tests.support.store_lines import (
    attempts,
    head_of,
    page,
    untitled,
)

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.errors import (
    IdsExhausted,
)
from perdure.kernel.documents.places import SAFE_INTEGER_MAX
from perdure.kernel.documents.reserve import RESERVED_MAX
from perdure.kernel.errors import OutOfRange
from perdure.runtime.documents.store import OpenStore

pytestmark = pytest.mark.stores


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
