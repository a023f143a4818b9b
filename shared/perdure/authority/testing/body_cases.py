"""Promises of large bodies: put first, pointed at, whole or corrupt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from perdure.authority import packing
from perdure.authority.store import Store
from perdure.authority.testing.records import (
    ELSEWHERE,
    Erase,
    Tell,
    Write,
    WriteTwins,
    noise,
    note,
    receipt,
)
from perdure.authority.testing.registry import Opener, authority, promise, raised
from perdure.authority.testing.wrappers import CountingStore, RivalStore
from perdure.kernel import limits
from perdure.kernel.commit import Commit, Put, Remove
from perdure.kernel.errors import Contended, Corrupt, OutcomeUnknown, StoreUnavailable
from perdure.kernel.ids import Token
from perdure.kernel.view import Key, Reads, View


@promise
async def bodies_of_every_size_come_back(open_store: Opener) -> None:
    engine = authority(await open_store())
    texts = {f"{size}": noise(size) for size in (0, 900, 1_100, 60_000, 100_000, 900_000)}

    for name, text in texts.items():
        await engine.execute(Write(((name, text),)))

    view = await authority(await open_store()).view(
        Reads(peeks=tuple(note(name) for name in texts))
    )
    for name, text in texts.items():
        found = view.peek(note(name))
        assert found is not None
        assert found.text == text


@promise
async def a_large_body_is_put_first_in_chunks(open_store: Opener) -> None:
    store = CountingStore(await open_store())

    await authority(store).execute(Write((("large", noise(1_000_000)),)))

    *chunks, last = store.commits
    assert len(chunks) == 3
    for chunk in chunks:
        (action,) = chunk.actions
        assert isinstance(action, Put)
        assert action.seen is None
        assert action.key.partition.startswith("body/")
        assert len(action.body) <= limits.BODY_CHUNK_BYTES
    (action,) = last.actions
    assert isinstance(action, Put)
    assert action.key == note("large")
    assert len(action.body) < 200


@promise
async def deciding_again_puts_no_body_again(open_store: Opener) -> None:
    rival = authority(await open_store(), "rival")
    store = CountingStore(await open_store())
    text = noise(100_000)

    raced = RivalStore(store, lambda: rival.execute(Write((("large", "rival's"),))))
    await authority(_AfterChunks(raced)).execute(Write((("large", text),)))

    bodies = [commit for commit in store.commits if _is_chunk(commit)]
    assert len(bodies) == 1
    assert len(store.commits) == 3
    view = await rival.view(Reads(peeks=(note("large"),)))
    found = view.peek(note("large"))
    assert found is not None
    assert found.text == text


@promise
async def a_missing_chunk_is_corruption(open_store: Opener) -> None:
    store = CountingStore(await open_store())
    await authority(store).execute(Write((("large", noise(400_000)),)))
    chunk = store.commits[0].actions[0].key
    seen = (await store.load(Reads(peeks=(chunk,)))).version(chunk)
    assert seen is not None

    await store.commit(Commit(Token("x"), (Remove(chunk, seen), Put(note("x"), None, b"\x00x"))))

    reader = authority(await open_store(), "reader")
    await raised(Corrupt, reader.view(Reads(peeks=(note("large"),))))
    await raised(Corrupt, reader.execute(Write((("large", "x"),))))


@promise
async def a_changed_chunk_is_corruption(open_store: Opener) -> None:
    store = CountingStore(await open_store())
    await authority(store).execute(Tell("id", noise(100_000)))
    (action,) = store.commits[0].actions
    assert isinstance(action, Put)
    seen = (await store.load(Reads(peeks=(action.key,)))).version(action.key)

    other = bytes([action.body[0] ^ 1]) + action.body[1:]
    await store.commit(Commit(Token("x"), (Put(action.key, seen, other),)))

    await raised(Corrupt, authority(await open_store()).view(Reads(peeks=(receipt("id"),))))


@promise
async def a_body_that_no_one_packed_is_corruption(open_store: Opener) -> None:
    store = await open_store()
    wrong = {"tag": b"\x09{}", "deflated": packing.DEFLATED + b"x", "pointer": b"\x02[1]"}
    for name, body in wrong.items():
        await store.commit(Commit(Token(name), (Put(note(name), None, body),)))

    for name in wrong:
        await raised(Corrupt, authority(store).view(Reads(peeks=(note(name),))))


@promise
async def chunks_are_emptied_with_the_body_that_is_written_over(open_store: Opener) -> None:
    store = CountingStore(await open_store())
    engine = authority(store)
    await engine.execute(Write((("large", noise(900_000)),)))
    first = _chunks_of(store)

    await engine.execute(Write((("large", noise(400_000)),)))

    second = [key for key in _chunks_of(store) if key not in first]
    assert (len(first), len(second)) == (2, 1)
    assert await _full(store, first) == []
    assert await _full(store, second) == second
    await engine.execute(Write((("large", "small"),)))
    assert await _full(store, second) == []


@promise
async def chunks_are_emptied_with_the_record_that_is_removed(open_store: Opener) -> None:
    store = CountingStore(await open_store())
    engine = authority(store)
    await engine.execute(Write((("large", noise(100_000)),)))

    await engine.execute(Erase("large"))

    assert await _full(store, _chunks_of(store)) == []


@promise
async def equal_bodies_share_no_chunks(open_store: Opener) -> None:
    store = CountingStore(await open_store())
    engine = authority(store)
    text = noise(100_000)
    twin = note("twin", ELSEWHERE)
    await engine.execute(WriteTwins("twin", text))

    await engine.execute(Erase("twin"))

    left = (await authority(store).view(Reads(peeks=(twin,)))).peek(twin)
    assert left is not None
    assert left.text == text


@promise
async def a_body_that_is_written_over_while_it_is_read_is_read_again(open_store: Opener) -> None:
    rival = authority(await open_store(), "rival")
    await rival.execute(Write((("large", noise(100_000)),)))
    text = noise(200_000)
    reader = authority(
        _Overtaken(await open_store(), lambda: rival.execute(Write((("large", text),))))
    )

    found = (await reader.view(Reads(peeks=(note("large"),)))).peek(note("large"))

    assert found is not None
    assert found.text == text


@promise
async def a_body_that_is_written_over_all_the_time_is_contended(open_store: Opener) -> None:
    rival = authority(await open_store(), "rival")
    await rival.execute(Write((("large", noise(100_000)),)))
    write = Write((("large", noise(100_000)),))
    reader = authority(_Overtaken(await open_store(), lambda: rival.execute(write), times=99))

    await raised(Contended, reader.view(Reads(peeks=(note("large"),))))


@promise
async def chunks_that_stay_full_are_in_nobodys_way(open_store: Opener) -> None:
    store = CountingStore(await open_store())
    await authority(store).execute(Write((("large", noise(100_000)),)))

    await authority(_Keeping(store)).execute(Write((("large", "small"),)))

    chunks = _chunks_of(store)
    assert await _full(store, chunks) == chunks
    left = (await authority(store).view(Reads(peeks=(note("large"),)))).peek(note("large"))
    assert left is not None
    assert left.text == "small"


@promise
async def a_commit_that_may_have_happened_lends_its_chunks_to_no_other(open_store: Opener) -> None:
    rival = authority(await open_store(), "rival")
    store = CountingStore(await open_store())
    text = noise(100_000)

    # It happens, is written over, and only then its sender hears that nobody knows.
    late = _WrittenOver(store, lambda: rival.execute(Write((("large", "rival's"),))))
    await authority(late).execute(Write((("large", text),)))

    found = (await rival.view(Reads(peeks=(note("large"),)))).peek(note("large"))
    assert found is not None
    assert found.text == text


class _Overtaken:
    """Lets a rival act between the load of records and that of their chunks."""

    def __init__(
        self, store: Store, rival: Callable[[], Awaitable[object]], *, times: int = 1
    ) -> None:
        self._store = store
        self._rival = rival
        self._left = times

    async def load(self, reads: Reads) -> View:
        if reads.peeks and reads.peeks[0].partition.startswith("body/") and self._left:
            self._left -= 1
            await self._rival()
        return await self._store.load(reads)

    async def commit(self, commit: Commit) -> None:
        await self._store.commit(commit)

    async def close(self) -> None:
        await self._store.close()


class _Keeping:
    """Empties nothing, for it is busy."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def load(self, reads: Reads) -> View:
        return await self._store.load(reads)

    async def commit(self, commit: Commit) -> None:
        if _is_chunk(commit):
            raise StoreUnavailable(expected="an answer to a commit", found="a busy store")
        await self._store.commit(commit)

    async def close(self) -> None:
        await self._store.close()


class _WrittenOver:
    """Loses the answer to the first commit that counts, and lets a rival write over what it wrote."""

    def __init__(self, store: Store, rival: Callable[[], Awaitable[object]]) -> None:
        self._store = store
        self._rival = rival
        self._is_first = True

    async def load(self, reads: Reads) -> View:
        return await self._store.load(reads)

    async def commit(self, commit: Commit) -> None:
        await self._store.commit(commit)
        if self._is_first and not _is_chunk(commit):
            self._is_first = False
            await self._rival()
            raise OutcomeUnknown(expected="an answer to a commit", found="none")

    async def close(self) -> None:
        await self._store.close()


def _chunks_of(store: CountingStore) -> list[Key[Any]]:
    """Return where chunks were ever put."""
    return [
        action.key
        for commit in store.commits
        for action in commit.actions
        if isinstance(action, Put) and action.key.partition.startswith("body/") and action.body
    ]


async def _full(store: Store, keys: list[Key[Any]]) -> list[Key[Any]]:
    stored = (await store.load(Reads(peeks=tuple(keys)))).stored
    return [key for key in keys if (found := stored[key]) is not None and found.body]


class _AfterChunks:
    """Passes chunks by the rival, so that it acts before the commit that counts."""

    def __init__(self, store: RivalStore) -> None:
        self._store = store

    async def load(self, reads: Reads) -> View:
        return await self._store.load(reads)

    async def commit(self, commit: Commit) -> None:
        await (self._store.inner if _is_chunk(commit) else self._store).commit(commit)

    async def close(self) -> None:
        await self._store.close()


def _is_chunk(commit: Commit) -> bool:
    return commit.actions[0].key.partition.startswith("body/")
