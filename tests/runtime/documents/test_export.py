"""An export is a store as of one commit, the same bytes wherever the store is, and whole or not there."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from tests.support import stores
from tests.support.documents import LINEAGE, REF, means, opened
from tests.support.exporting import bytes_of, export_of, parts_of
from tests.support.histories import ITEMS, Past
from tests.support.steps import Died, SteppedObjects, Steps

from perdure.authority.memory import MemoryStore
from perdure.authority.store import Store
from perdure.kernel.commit import Commit, Put, Remove
from perdure.kernel.documents.content import base, delta
from perdure.kernel.documents.errors import DigestDiffers, ExportTruncated
from perdure.kernel.documents.log import LogPlace
from perdure.kernel.documents.places import Address, DocumentStoreRef
from perdure.kernel.documents.records import HISTORIES, History, Revision, revision_key
from perdure.kernel.documents.rows import DeleteRow, DeleteWhere, PutRow, UpdateWhere
from perdure.kernel.documents.writes import ChangeDocument, CreateDocument, RetireDocument
from perdure.kernel.errors import Conflict, Contended, Corrupt, NotFound
from perdure.kernel.ids import DocumentId, DocumentStoreId, Seq, Token
from perdure.kernel.view import Key, Reads, View
from perdure.lake.objects import LocalObjects, ObjectStore
from perdure.lake.s3 import S3Objects
from perdure.runtime.documents import collect, export, export_files
from perdure.runtime.documents.export import (
    Progress,
    export_to_file,
    export_to_objects,
)
from perdure.runtime.documents.export_files import ObjectsSource, Source
from perdure.runtime.documents.replica import StoreLog, apply_batch, create_replica
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.tables import prepared

pytestmark = pytest.mark.stores

REPLICA = DocumentStoreRef(REF.storage, DocumentStoreId("replica"))


def names_in(directory: Path) -> list[str]:
    """Return what is in a directory."""
    return [each.name for each in directory.iterdir()]


async def read(source: Source) -> bytes:
    """Return all bytes of an export."""
    return b"".join([chunk async for chunk in source.chunks()])


async def exported_from(opener: Any, seed: int) -> bytes:
    """Return the export of a store with a past, on any store."""
    async with opener as open_one, opened(await open_one()) as source:
        past = Past(source, seed)
        await past.begin()
        await past.go_on(25)
        return await bytes_of(source.means, REF)


async def test_the_same_history_is_the_same_bytes_in_memory_and_in_a_file(tmp_path: Path) -> None:
    in_memory = await exported_from(stores.memory(), 3)

    assert await exported_from(stores.sqlite(tmp_path), 3) == in_memory
    assert len(parts_of(in_memory)) > 20


@pytest.mark.slow
async def test_the_same_history_is_the_same_bytes_in_dynamodb() -> None:
    in_memory = await exported_from(stores.memory(), 4)

    assert await exported_from(stores.dynamodb_moto(), 4) == in_memory


async def test_what_a_history_keeps_is_what_is_exported() -> None:
    async with opened() as store:
        ids = {}
        for history in HISTORIES:
            for name in ("lives", "ended"):
                ids[history, name] = await with_contents(store, history, name)
        parts = parts_of(await bytes_of(store.means, REF))

    def kept(history: History, name: str) -> list[str] | None:
        own = [each for each in parts if each.get("id") == ids[history, name]]
        return [each["content"]["kind"] for each in own[1:]] if own else None

    assert kept("none", "lives") == kept("latest", "lives") == ["base", "delta"]
    assert kept("none", "ended") is None
    assert kept("latest", "ended") == []
    whole = ["base", "delta", "base", "delta"]
    assert kept("rewindable", "lives") == kept("rewindable", "ended") == whole


async def with_contents(store: OpenStore, history: History, name: str) -> int:
    address = Address("notes", name, history)
    reply = await store.commit([CreateDocument(address, history, base(1, {"n": 0}))])
    id = DocumentId(reply.ids[0])
    for content in (delta(1, [["s", ["n"], 1]]), base(2, {"n": 2}), delta(2, [["s", ["n"], 3]])):
        await store.commit([ChangeDocument(id, content)])
    if name == "ended":
        await store.commit([RetireDocument(id)])
    return id


class Meddling:
    """An authority in whose reading somebody else commits."""

    def __init__(self, inner: Any, meddle: Any, *, first: bool = False) -> None:
        self._inner = inner
        self._meddle = meddle
        self._first = first

    async def execute(self, request: Any) -> Any:
        return await self._inner.execute(request)

    async def view(self, reads: Reads) -> View:
        if self._first:
            await self._meddle()
        view: View = await self._inner.view(reads)
        if not self._first:
            await self._meddle()
        return view


@pytest.mark.parametrize("seed", range(4))
async def test_an_export_during_commits_is_the_store_as_it_was_after_one_of_them(
    seed: int,
) -> None:
    records = MemoryStore()
    async with opened(records) as source:
        past = Past(source, seed)
        await past.begin()
        await past.go_on(40)
        began, left = source.seq, 30

        async def meddle() -> None:
            nonlocal left
            if left:
                left -= 1
                await past.go_on(1)

        busy = means(records, prefix="busy")
        object.__setattr__(busy, "authority", Meddling(busy.authority, meddle))

        data, exported = await export_of(busy, REF)

        last = exported.manifest.last_seq
        assert last > began + 8
        replica = await replica_of(records, last)
        assert await bytes_of(replica.means, REPLICA) == data


async def replica_of(records: Store, last: Seq) -> OpenStore:
    """Return a replica with the commits of a store up to one."""
    with_ = means(records, prefix="r")
    await create_replica(with_, REPLICA, LINEAGE)
    replica = await OpenStore.open(with_, REPLICA)
    log = StoreLog(with_, REF, limit=1_000)
    page = await log.read(LogPlace())
    entries = [each for each in page.entries if each.seq <= last]
    await apply_batch(replica, entries, epoch=page.head.epoch)
    return replica


async def test_rows_that_are_changed_by_condition_while_they_are_read_are_as_of_one_commit() -> (
    None
):
    records = MemoryStore()
    async with opened(records) as source:
        await prepared(source, (ITEMS,))
        row = {"shelf": "a", "number": 1, "color": "red", "more": None}
        for number in range(5):
            await source.commit([PutRow(ITEMS, {**row, "number": number})])
        meddling = iter(
            (
                [UpdateWhere(ITEMS, {"color": "red"}, {"color": "blue"})],
                [DeleteRow(ITEMS, ("a", 3))],
                [PutRow(ITEMS, {**row, "number": 9})],
                [DeleteWhere(ITEMS, {"color": "red"})],
            )
        )

        async def meddle() -> None:
            for staged in meddling:
                await source.commit(staged)
                break

        busy = means(records, prefix="busy")
        object.__setattr__(busy, "authority", Meddling(busy.authority, meddle))

        rows = [each["value"] for each in parts_of(await bytes_of(busy, REF)) if "value" in each]

        assert [(each["number"], each["color"]) for each in rows] == [
            (number, "blue") for number in (0, 1, 2, 4)
        ]


async def test_a_store_that_is_never_still_is_not_exported(monkeypatch: Any) -> None:
    monkeypatch.setattr(collect, "ROUNDS_MAX", 5)
    records = MemoryStore()
    async with opened(records) as source:
        past = Past(source, 1)
        await past.begin()
        busy = means(records, prefix="busy")

        async def meddle() -> None:
            await source.commit([])

        object.__setattr__(busy, "authority", Meddling(busy.authority, meddle, first=True))

        with pytest.raises(Contended):
            await bytes_of(busy, REF)


async def test_a_document_without_its_contents_is_never_exported() -> None:
    records = MemoryStore()
    async with opened(records) as store:
        id = await with_contents(store, "rewindable", "lives")
        lost = revision_key(REF.partition, DocumentId(id), Seq(2))
        view = await records.load(Reads(keys=(lost,), peeks=()))

        seen = view.version(lost)
        assert seen is not None, "it was written"
        mark = Put(Key(REF.partition, "mark", Revision), None, b"{}")
        await records.commit(Commit(Token("lost"), (Remove(lost, seen), mark)))

        with pytest.raises(Corrupt):
            await bytes_of(store.means, REF)


async def test_a_store_that_is_not_there_is_not_exported(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        await export_to_file(means(), REF, tmp_path / "a.export")

    assert names_in(tmp_path) == []


@asynccontextmanager
async def with_past() -> AsyncIterator[OpenStore]:
    """Open a store with a past."""
    async with opened() as store:
        past = Past(store, 5)
        await past.begin()
        await past.go_on(30)
        yield store


async def test_a_file_is_the_export_and_its_digest_is_told(tmp_path: Path) -> None:
    async with with_past() as source:
        path = tmp_path / "notes.export"
        seen: list[Progress] = []

        exported = await export_to_file(source.means, REF, path, report=seen.append)

        data = path.read_bytes()
        assert data == await bytes_of(source.means, REF)
        assert exported.bytes == len(data) == seen[-1].bytes
        lines = data.splitlines(keepends=True)
        assert exported.sha256 == hashlib.sha256(b"".join(lines[:-1])).hexdigest()
        assert parts_of(data)[-1]["sha256"] == exported.sha256
        assert exported.counts.told().items() <= parts_of(data)[-1].items()
        assert [each.phase for each in seen] == sorted(each.phase for each in seen)
        assert names_in(tmp_path) == [path.name]


async def test_an_export_to_a_file_that_dies_leaves_nothing_under_its_name(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(export, "REPORT_EVERY", 5)

    def die(progress: Progress) -> None:
        if progress.phase == "writing":
            raise Died

    async with with_past() as source:
        with pytest.raises(Died):
            await export_to_file(source.means, REF, tmp_path / "notes.export", report=die)

    assert names_in(tmp_path) == []


async def test_an_export_replaces_no_file(tmp_path: Path) -> None:
    async with with_past() as source:
        path = tmp_path / "notes.export"
        path.write_bytes(b"mine")

        with pytest.raises(Conflict):
            await export_to_file(source.means, REF, path)

        assert path.read_bytes() == b"mine"
        assert names_in(tmp_path) == [path.name]


@pytest.fixture
def bucket(monkeypatch: Any) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        s3 = boto3.client("s3", region_name="us-east-1")
        s3.create_bucket(Bucket="lake")
        yield s3


@pytest.fixture(params=["local", "s3"])
def objects(request: Any, tmp_path: Path) -> ObjectStore:
    if request.param == "local":
        return LocalObjects(tmp_path / "objects")
    return S3Objects(request.getfixturevalue("bucket"), "lake", "some/prefix/")


async def test_objects_are_the_export_in_parts_and_a_list_of_them(
    objects: ObjectStore, monkeypatch: Any
) -> None:
    async with with_past() as source:
        monkeypatch.setattr(export_files, "PART_BYTES", 4_000)

        exported = await export_to_objects(source.means, REF, objects, "exports/one")

        data = await read(ObjectsSource(objects, "exports/one"))
        assert data == await bytes_of(source.means, REF)
        names = await objects.names("exports/one/")
        assert len(names) == 2 + exported.bytes // 4_000
        assert names[0] == "exports/one/export.json"


async def test_the_same_export_again_is_one_and_another_is_refused(objects: ObjectStore) -> None:
    async with with_past() as source:
        await export_to_objects(source.means, REF, objects, "exports/one")
        before = await read(ObjectsSource(objects, "exports/one"))
        await export_to_objects(source.means, REF, objects, "exports/one")
        await source.commit([])

        with pytest.raises(Conflict):
            await export_to_objects(source.means, REF, objects, "exports/one")

        assert await read(ObjectsSource(objects, "exports/one")) == before


@pytest.mark.parametrize("after", [False, True])
async def test_an_export_to_objects_that_dies_is_not_there_until_another_is_whole(
    tmp_path: Path, monkeypatch: Any, *, after: bool
) -> None:
    async with with_past() as source:
        monkeypatch.setattr(export_files, "PART_BYTES", 4_000)
        objects = LocalObjects(tmp_path / "objects")
        dying = SteppedObjects(objects, Steps(3, after=after))
        with pytest.raises(Died):
            await export_to_objects(source.means, REF, dying, "exports/one")
        with pytest.raises(NotFound):
            await read(ObjectsSource(objects, "exports/one"))
        left = await objects.names("exports/one/")
        await source.commit([])

        await export_to_objects(source.means, REF, objects, "exports/one")

        data = await read(ObjectsSource(objects, "exports/one"))
        assert data == await bytes_of(source.means, REF)
        names = await objects.names("exports/one/")
        assert len(names) == 2 + len(data) // 4_000
        assert not set(left) <= set(names)


async def test_a_part_that_is_gone_or_damaged_is_found(tmp_path: Path, monkeypatch: Any) -> None:
    async with with_past() as source:
        monkeypatch.setattr(export_files, "PART_BYTES", 4_000)
        objects = LocalObjects(tmp_path / "objects")
        await export_to_objects(source.means, REF, objects, "exports/one")
        part = (await objects.names("exports/one/part-"))[1]
        path = tmp_path / "objects" / part
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(DigestDiffers):
            await read(ObjectsSource(objects, "exports/one"))

        path.unlink()

        with pytest.raises(ExportTruncated):
            await read(ObjectsSource(objects, "exports/one"))
