"""Promises under rivals that really run at the same time."""

from __future__ import annotations

import asyncio

from perdure.authority.store import RevisionConflict, Store
from perdure.authority.testing.records import (
    HERE,
    Add,
    Counter,
    Look,
    Move,
    Tell,
    counter,
    note,
    put,
    version,
)
from perdure.authority.testing.registry import Opener, authority, race
from perdure.kernel.commit import Commit, Put
from perdure.kernel.ids import Token
from perdure.kernel.view import Range, Reads, Stored, View


@race
async def of_many_creators_of_one_record_exactly_one_wins(open_store: Opener) -> None:
    stores = [await open_store() for _ in range(4)]

    for number in range(5):
        won = await asyncio.gather(
            *(
                _won(store, put(f"{number}", token.encode(), by=token))
                for store in stores
                for token in (f"{number}-{id(store)}-{n}" for n in range(4))
            )
        )
        assert won.count(True) == 1


@race
async def of_many_pairs_none_is_mixed(open_store: Opener) -> None:
    stores = [await open_store() for _ in range(4)]

    await asyncio.gather(
        *(
            _won(
                store,
                Commit(
                    Token(f"{number}-{place}"),
                    (
                        Put(note(f"{number}a"), None, b"%d" % place),
                        Put(note(f"{number}b"), None, b"%d" % place),
                    ),
                ),
            )
            for number in range(8)
            for place, store in enumerate(stores)
        )
    )

    for number in range(8):
        keys = (note(f"{number}a"), note(f"{number}b"))
        first, second = (await stores[0].load(Reads(keys=keys))).stored.values()
        assert first is not None
        assert first == second


@race
async def one_token_sent_from_everywhere_happens_once(open_store: Opener) -> None:
    stores = [await open_store() for _ in range(4)]
    await stores[0].commit(put("a", b"one", by="t1"))
    commit = Commit(
        Token("t2"), (Put(note("a"), version("t1"), b"two"), Put(note("b"), None, b"b"))
    )

    won = await asyncio.gather(*(_won(store, commit) for store in stores * 4))

    assert won == [True] * 16
    view = await stores[1].load(Reads(keys=(note("a"),)))
    assert view.stored[note("a")] == Stored(version("t2", 2), b"two")


@race
async def no_increment_is_lost_between_authorities(open_store: Opener) -> None:
    engines = [
        authority(await open_store(), f"engine-{number}", tries_max=200) for number in range(4)
    ]

    replies = await asyncio.gather(*(engine.execute(Add()) for _ in range(5) for engine in engines))

    assert sorted(replies) == list(range(1, 21))
    assert await engines[0].execute(Look(("c",))) == (20,)


@race
async def one_id_told_from_everywhere_is_counted_once(open_store: Opener) -> None:
    engines = [
        authority(await open_store(), f"engine-{number}", tries_max=200) for number in range(4)
    ]

    replies = await asyncio.gather(
        *(engine.execute(Tell("id", "text")) for _ in range(3) for engine in engines)
    )

    assert replies == [1] * 12
    assert await engines[0].execute(Look(("told",))) == (1,)


@race
async def moves_keep_the_sum_in_every_snapshot(open_store: Opener) -> None:
    engines = [
        authority(await open_store(), f"engine-{number}", tries_max=200) for number in range(3)
    ]
    names = ("a", "b", "c")
    for name in names:
        await engines[0].execute(Add(name, 100))
    reader = authority(await open_store(), "reader", tries_max=200)

    async def watched() -> list[int]:
        return [sum(await reader.execute(Look(names, snapshot=True))) for _ in range(10)]

    sums, *_ = await asyncio.gather(
        watched(),
        *(
            engine.execute(Move(names[place], names[(place + 1) % 3], number))
            for place, engine in enumerate(engines)
            for number in range(1, 6)
        ),
    )

    assert sums == [300] * 10
    view = await reader.view(Reads(keys=tuple(counter(name) for name in names), snapshot=True))
    found = [view.get(counter(name)) for name in names]
    assert sum(each.count for each in found if each is not None) == 300


@race
async def a_load_that_says_it_is_of_one_moment_is(open_store: Opener) -> None:
    engines = [
        authority(await open_store(), f"engine-{number}", tries_max=200) for number in range(3)
    ]
    names = ("a", "b", "c")
    for name in names:
        await engines[0].execute(Add(name, 100))
    reader = authority(await open_store(), "reader")
    behind = Range(HERE, "counter/a\0", "counter/z", Counter)
    everything = Reads(peeks=(counter("a"),), ranges=(behind,))

    async def watched() -> list[int]:
        views = [await reader.view(everything) for _ in range(10)]
        return [_sum(view, behind) for view in views if view.is_snapshot]

    watching = asyncio.create_task(watched())
    await asyncio.gather(
        *(
            engine.execute(Move(names[place], names[(place + 1) % 3], number))
            for place, engine in enumerate(engines)
            for number in range(1, 6)
        ),
    )

    assert set(await watching) <= {300}


def _sum(view: View, behind: Range[Counter]) -> int:
    first = view.peek(counter("a"))
    return (first.count if first else 0) + sum(each.count for each in view.find(behind))


async def _won(store: Store, commit: Commit) -> bool:
    try:
        await store.commit(commit)
    except RevisionConflict:
        return False
    return True
