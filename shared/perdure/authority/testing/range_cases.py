"""Promises of ranges: order, bounds, limits, and all of what is there."""

from __future__ import annotations

from perdure.authority.store import Store
from perdure.authority.testing.records import ELSEWHERE, HERE, Note, note, put
from perdure.authority.testing.registry import Opener, promise
from perdure.kernel.commit import Commit, Put
from perdure.kernel.ids import Token
from perdure.kernel.view import Key, Range, Reads


@promise
async def a_range_is_in_order_and_leaves_its_end_out(open_store: Opener) -> None:
    store = await open_store()
    await _written(store, "b", "d", "a", "c", "e")

    assert await _found(store, "b", "d") == ["b", "c"]
    assert await _found(store, "", "c") == ["a", "b"]
    assert await _found(store, "bb", "z") == ["c", "d", "e"]
    assert await _found(store, "c", "c") == []
    assert await _found(store, "d", "b") == []
    assert await _found(store, "f", "g") == []


@promise
async def a_range_can_be_read_from_its_end(open_store: Opener) -> None:
    store = await open_store()
    await _written(store, "a", "b", "c", "d")

    assert await _found(store, "a", "d", descending=True) == ["c", "b", "a"]
    assert await _found(store, "a", "d", descending=True, limit=2) == ["c", "b"]
    assert await _found(store, "", "z", descending=True, limit=1) == ["d"]


@promise
async def a_range_stops_at_its_limit(open_store: Opener) -> None:
    store = await open_store()
    await _written(store, *(f"{number:03d}" for number in range(60)))

    for limit in (1, 59, 60, 61):
        found = await _found(store, "", "z", limit=limit)
        assert found == [f"{number:03d}" for number in range(min(limit, 60))]


@promise
async def a_range_is_ordered_by_bytes(open_store: Opener) -> None:
    store = await open_store()
    texts = ["~", "Z", "a", "é", "\uff5a", "\U0001f600", "\uffff", "10", "9", "a/", "a0"]
    await _written(store, *texts)

    found = await _found(store, "", "\U0010ffff")

    assert found == sorted(texts, key=lambda text: text.encode())


@promise
async def a_range_is_of_one_partition(open_store: Opener) -> None:
    store = await open_store()
    await store.commit(put("a", b"here", by="t1"))
    await store.commit(put("b", b"elsewhere", by="t2", partition=ELSEWHERE))

    wanted = Range(HERE, "note/", "note0", Note)
    view = await store.load(Reads(ranges=(wanted, Range(ELSEWHERE, "note/", "note0", Note))))

    assert list(view.stored) == [note("a"), note("b", ELSEWHERE)]
    assert not view.named


@promise
async def a_range_brings_all_of_many_megabytes(open_store: Opener) -> None:
    store = await open_store()
    body = bytes(range(250)) * 600
    names = [f"{number:03d}" for number in range(24)]
    for name in names:
        await store.commit(put(name, body, by=name))

    view = await store.load(Reads(ranges=(Range(HERE, "note/", "note0", Note),)))

    assert list(view.stored) == [note(name) for name in names]
    assert all(stored is not None and stored.body == body for stored in view.stored.values())


@promise
async def a_record_named_and_in_a_range_is_one(open_store: Opener) -> None:
    store = await open_store()
    await store.commit(put("a", b"a", by="t1"))
    await store.commit(put("b", b"b", by="t2"))

    wanted = Range(HERE, "note/", "note0", Note)
    view = await store.load(Reads(keys=(note("b"),), ranges=(wanted,)))

    assert set(view.stored) == {note("a"), note("b")}
    assert list(view.named) == [note("b")]


async def _written(store: Store, *sorts: str) -> None:
    keys = [Key(HERE, sort, Note) for sort in sorts]
    await store.commit(Commit(Token("t1"), tuple(Put(key, None, b"x") for key in keys)))


async def _found(
    store: Store, first: str, last: str, *, limit: int = 1_000, descending: bool = False
) -> list[str]:
    wanted = Range(HERE, first, last, Note, limit=limit, descending=descending)
    view = await store.load(Reads(ranges=(wanted,)))
    return [key.sort for key in view.reads().peeks]
