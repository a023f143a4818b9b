"""Promises of large bodies: put first, pointed at, whole or corrupt."""

from __future__ import annotations

from perdure.authority import packing
from perdure.authority.testing.records import Tell, Write, noise, note, receipt
from perdure.authority.testing.registry import Opener, authority, promise, raised
from perdure.authority.testing.wrappers import CountingStore, RivalStore
from perdure.kernel import limits
from perdure.kernel.commit import Commit, Put, Remove
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Token
from perdure.kernel.view import Reads, View


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
