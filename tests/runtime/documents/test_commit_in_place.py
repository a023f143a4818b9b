"""A commit of whoever is alone waits for nobody; commits that come together share a sync."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.documents import LINEAGE, means
from tests.support.store_outcomes import LINES, line

import perdure
from perdure import App
from perdure.authority.sqlite import SqliteStore
from perdure.kernel.commit import Commit
from perdure.kernel.documents.create import CreateDocumentStore
from perdure.kernel.documents.places import DocumentStoreRef
from perdure.kernel.ids import DocumentStoreId, StorageId
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.tables import prepared

pytestmark = pytest.mark.stores


@asynccontextmanager
async def handles(path: Path, count: int) -> AsyncIterator[tuple[SqliteStore, list[OpenStore]]]:
    """Open handles on as many document stores, which have begun to work on a disk that is fast."""
    records = await SqliteStore.open(path / "store.db", seconds=lambda: 0.0)
    with_ = means(records)
    found = []
    for number in range(count):
        ref = DocumentStoreRef(StorageId("memory"), DocumentStoreId(f"notes{number}"))
        await with_.authority.execute(CreateDocumentStore(ref, LINEAGE).checked())
        found.append(await OpenStore.open(with_, ref))
        await prepared(found[-1], [LINES])
        await found[-1].commit([line(1)])
    try:
        yield records, found
    finally:
        for each in found:
            await each.close()
        await with_.authority.close()


async def test_who_is_alone_commits_without_a_turn_of_the_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with handles(tmp_path, 1) as (records, (store,)):
        monkeypatch.setattr(records, "commit", None)

        replies = [await store.commit([line(number)]) for number in (2, 3)]

        assert [each.seq for each in replies] == [store.seq - 1, store.seq]


async def test_commits_of_several_handles_that_come_together_share_a_sync(tmp_path: Path) -> None:
    async with handles(tmp_path, 4) as (records, stores):
        before = records.syncs

        await asyncio.gather(*(each.commit([line(2)]) for each in stores))

        assert records.syncs == before + 1


async def test_a_caller_that_goes_away_takes_back_nothing(tmp_path: Path) -> None:
    async with handles(tmp_path, 1) as (_, (store,)):
        seq = store.seq
        going = asyncio.create_task(store.commit([line(2)]))
        await asyncio.sleep(0)

        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going

        assert (await store.commit([line(3)])).seq == seq + 2


async def test_a_storage_as_it_is_opened_commits_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bool] = []
    in_place = SqliteStore.commit_in_place

    def counted(self: SqliteStore, commit: Commit) -> bool:
        made.append(in_place(self, commit))
        return made[-1]

    monkeypatch.setattr(SqliteStore, "commit_in_place", counted)
    async with perdure.open(tmp_path.as_uri(), app=App("notes")) as storage:
        await storage.document_stores.create("notes")
        store = await storage.document_stores.open("notes")

        await prepared(store, [LINES])
        await store.commit([line(1)])
        await store.close()

    assert made
