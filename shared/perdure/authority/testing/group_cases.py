"""Promises of coalescing: callers that wait for one stream share commits, not fates."""

from __future__ import annotations

import asyncio

from perdure.authority.testing.records import (
    ELSEWHERE,
    Add,
    Collect,
    Look,
    Move,
    Tell,
    Write,
    noise,
)
from perdure.authority.testing.registry import Opener, authority, promise
from perdure.authority.testing.wrappers import CountingStore
from perdure.kernel import limits
from perdure.kernel.commit import Put
from perdure.kernel.errors import Conflict, NotFound, TooLarge


@promise
async def callers_of_one_stream_share_a_commit_and_see_each_other(open_store: Opener) -> None:
    store = CountingStore(await open_store())
    engine = authority(store)

    replies = await asyncio.gather(*(engine.execute(Add()) for _ in range(20)))

    assert replies == list(range(1, 21))
    assert len(store.commits) == 1
    assert await engine.execute(Look(("c",))) == (20,)


@promise
async def a_refused_request_does_not_fail_its_neighbours(open_store: Opener) -> None:
    engine = authority(await open_store())

    replies = await asyncio.gather(
        engine.execute(Tell("a", "text")),
        engine.execute(Tell("a", "other text")),
        engine.execute(Move("none", "c", 1)),
        engine.execute(Tell("a", "text")),
        engine.execute(Tell("b", "text")),
        return_exceptions=True,
    )

    assert [replies[0], replies[3], replies[4]] == [1, 1, 2]
    assert isinstance(replies[1], Conflict)
    assert isinstance(replies[2], NotFound)


@promise
async def a_request_that_is_too_large_does_not_fail_its_neighbours(open_store: Opener) -> None:
    store = CountingStore(await open_store())
    engine = authority(store)
    many = Write(tuple((f"{number}", "x") for number in range(101)))

    *replies, refused = await asyncio.gather(
        *(engine.execute(Add()) for _ in range(3)), engine.execute(many), return_exceptions=True
    )

    assert replies == [1, 2, 3]
    assert isinstance(refused, TooLarge)


@promise
async def a_group_is_cut_before_a_commit_has_too_many_records(open_store: Opener) -> None:
    store = CountingStore(await open_store())
    engine = authority(store)

    replies = await asyncio.gather(*(engine.execute(Tell(f"{n}", "x")) for n in range(150)))

    assert replies == list(range(1, 151))
    assert len(store.commits) == 2
    assert max(len(commit.actions) for commit in store.commits) == limits.COMMIT_ACTIONS_MAX


@promise
async def a_group_is_cut_before_a_commit_has_too_many_bytes(open_store: Opener) -> None:
    store = CountingStore(await open_store())
    engine = authority(store)

    await asyncio.gather(*(engine.execute(Write(((f"{n}", noise(70_000)),))) for n in range(90)))

    sizes = [
        sum(len(action.body) for action in commit.actions if isinstance(action, Put))
        for commit in store.commits
    ]
    assert len(sizes) == 2
    assert max(sizes) <= limits.COMMIT_BYTES_MAX < sum(sizes)


@promise
async def a_request_with_a_range_is_decided_alone_and_in_turn(open_store: Opener) -> None:
    engine = authority(await open_store())

    _, before, _, after = await asyncio.gather(
        engine.execute(Write((("a", "one"),))),
        engine.execute(Collect()),
        engine.execute(Write((("b", "two"),))),
        engine.execute(Collect()),
    )

    assert (before, after) == ("one", "two")


@promise
async def a_range_that_was_not_announced_is_read_in_turn_too(open_store: Opener) -> None:
    engine = authority(await open_store())

    _, found, _, left = await asyncio.gather(
        engine.execute(Write((("a", "one"),))),
        engine.execute(Collect(unannounced=True)),
        engine.execute(Add()),
        engine.execute(Collect()),
    )

    assert (found, left) == ("one", "")


@promise
async def a_caller_that_goes_away_takes_nothing_back_from_others(open_store: Opener) -> None:
    engine = authority(await open_store())
    tasks = [asyncio.create_task(engine.execute(Add())) for _ in range(5)]
    await asyncio.sleep(0)

    tasks[0].cancel()
    tasks[3].cancel()
    replies = await asyncio.gather(*tasks, return_exceptions=True)

    told = [reply for reply in replies if isinstance(reply, int)]
    assert len(told) == 3
    (total,) = await engine.execute(Look(("c",)))
    assert total in {3, 4, 5}
    assert max(told) <= total


@promise
async def streams_do_not_mix(open_store: Opener) -> None:
    store = CountingStore(await open_store())
    engine = authority(store)

    replies = await asyncio.gather(
        *(engine.execute(Add()) for _ in range(3)),
        *(engine.execute(Add(stream=ELSEWHERE)) for _ in range(3)),
    )

    assert replies == [1, 2, 3, 1, 2, 3]
    assert len(store.commits) == 2
