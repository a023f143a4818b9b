"""Whoever follows an open store reads its commits one by one, whatever happens beside it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support import stores
from tests.support.documents import LINEAGE, NOW, REF, opened
from tests.support.store_logs import chain

from perdure.authority.memory import MemoryStore
from perdure.authority.packing import packed
from perdure.kernel.commit import Commit, Put
from perdure.kernel.documents.errors import LogTrimmed
from perdure.kernel.documents.log import LOG_KEPT_MIN, LogPlace
from perdure.kernel.documents.records import DocumentStore, Logged
from perdure.kernel.errors import Corrupt
from perdure.kernel.ids import Seq, Token
from perdure.kernel.record import Record
from perdure.runtime.documents.log import entries_behind, read_log, trim_log
from perdure.runtime.documents.store import OpenStore

pytestmark = pytest.mark.stores


async def followed(store: OpenStore, place: LogPlace, limit: int = 3) -> list[Logged]:
    authority = store.means.authority
    found = entries_behind(authority, store.ref, place, pause=store.means.pause, limit=limit)
    return [entry async for entry in found]


async def put_all(records: MemoryStore, *many: Record) -> None:
    """Let a store be there as these commits have left it."""
    made = DocumentStore(
        partition=REF.catalog, storage=REF.storage, store=REF.store, lineage=LINEAGE, created_at=NOW
    )
    many = (made, *many)
    for first in range(0, len(many), 90):
        puts = (Put(each.key, None, packed(each.body())) for each in many[first : first + 90])
        await records.commit(Commit(Token(f"put-{first}"), tuple(puts)))


async def follows(store: OpenStore, commits: int) -> None:
    for _ in range(commits):
        await store.commit([])

    found = await followed(store, LogPlace())
    after_two = await followed(store, LogPlace(Seq(2), found[1].digest))

    assert [each.seq for each in found] == list(range(1, commits + 1))
    assert after_two == found[2:]
    assert all(each.at == NOW for each in found)


def test_every_commit_is_read_once_in_memory():
    async def follow() -> None:
        async with opened() as store:
            await follows(store, 7)

    asyncio.run(follow())


def test_every_commit_is_read_once_on_sqlite(tmp_path: Path):
    async def follow() -> None:
        async with stores.sqlite(tmp_path) as opener, opened(await opener()) as store:
            await follows(store, 7)

    asyncio.run(follow())


def test_a_long_log_is_trimmed_in_as_many_commits_as_it_takes():
    async def trim() -> None:
        records = MemoryStore()
        head, entries = chain(LOG_KEPT_MIN + 200)
        await put_all(records, head, *entries)
        async with opened(records) as store:
            trimmed = await trim_log(store.means.authority, REF, Seq(10_000))
            left = await followed(store, LogPlace(Seq(200)), limit=500)

            assert (trimmed.log_from, trimmed.removed) == (201, 200)
            assert len(left) == LOG_KEPT_MIN
            with pytest.raises(LogTrimmed):
                await followed(store, LogPlace(Seq(199)))

    asyncio.run(trim())


def test_an_entry_that_is_lost_is_damage_and_not_a_commit_that_runs():
    async def read() -> None:
        records = MemoryStore()
        head, entries = chain(3)
        await put_all(records, head, *entries[:2])
        async with opened(records) as store:
            with pytest.raises(Corrupt, match="commit 3"):
                await read_log(
                    store.means.authority, REF, LogPlace(Seq(2)), pause=lambda _: asyncio.sleep(0)
                )

    asyncio.run(read())
