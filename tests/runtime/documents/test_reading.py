"""A reading is of one commit, whatever is committed while it loads, and comes to an end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import pytest
from tests.support.documents import LINEAGE, REF, opened

from perdure.authority.testing.records import Counter, counter
from perdure.kernel.caller import Allowance, Caller
from perdure.kernel.documents.content import base
from perdure.kernel.documents.errors import StoreImporting
from perdure.kernel.documents.importing import BeginImport
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.read import RowScan, ScanStart, find_document
from perdure.kernel.documents.records import StoreHead, document_key, store_head_key
from perdure.kernel.documents.reserve import ReserveIds
from perdure.kernel.documents.rows import InsertRow
from perdure.kernel.documents.tables import Table
from perdure.kernel.documents.writes import ChangeDocument, CreateDocument
from perdure.kernel.errors import NotFound, StoreRefused
from perdure.kernel.ids import DocumentId, Instant, Partition
from perdure.kernel.limits import LOAD_KEYS_MAX
from perdure.kernel.quota import quota_key
from perdure.kernel.view import Decision, Range, Reads, View
from perdure.runtime.documents.reading import executed_at_once, read_at_once
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.tables import prepared

pytestmark = pytest.mark.stores

T = TypeVar("T")

LINES = Table("notes", "lines", {"id": "int", "by": "str"}, ("id",), {"by": ("by",)}).checked()
OTHERS = Table("others", "lines", {"id": "int"}, ("id",), {}).checked()
LINES_RANGE = Range(REF.partition, "row/", "row0", Counter)
NEWER = Table("others", "lines", {"id": "int"}, ("id",), {}, version=2).checked()


class Between:
    """Loads what ``store`` has, and does something else before each load that ``when`` wants."""

    def __init__(
        self,
        store: OpenStore,
        when: Callable[[int], bool],
        act: Callable[[int], Awaitable[Any]],
        *,
        snapshots: bool = True,
    ) -> None:
        self.store = store
        self.when = when
        self.act = act
        self.snapshots = snapshots
        """A load says that it is a snapshot, as those of SQLite do."""
        self.loads = 0

    async def view(self, reads: Reads) -> View:
        self.loads += 1
        if self.when(self.loads):
            await self.act(self.loads)
        view = await self.store.means.authority.view(reads)
        view.is_snapshot &= self.snapshots
        return view


@pytest.mark.parametrize(("snapshots", "seq", "loads"), [(True, 3, 5), (False, 4, 11)])
async def test_a_reading_of_many_loads_ends_though_a_rival_commits_between_few_of_them(
    snapshots, seq, loads
):
    async with opened() as store:
        await prepared(store, [LINES])
        await store.commit([InsertRow(LINES, {"id": 1, "by": "ann"})])
        between = Between(
            store,
            lambda loads: loads % 4 == 0,
            lambda loads: store.commit([InsertRow(LINES, {"id": loads, "by": "eve"})]),
            snapshots=snapshots,
        )
        scan = RowScan(LINES, ("ann",), "by")

        head, rows = await read_at_once(
            between,
            REF,
            lambda view: scan.page(view, REF.partition, ScanStart("ascending", None), 100),
            asyncio.sleep,
        )

        assert [row.value["id"] for row in rows] == [1]
        assert (head.seq, between.loads) == (seq, loads)


class Narrow(Between):
    """Takes no snapshot of more than a few records, as DynamoDB none of more than 4 MB."""

    async def view(self, reads: Reads) -> View:
        if reads.snapshot and len(reads.peeks) > 3:
            raise StoreRefused(expected="a request that DynamoDB accepts", found="4 MB and more")
        return await super().view(reads)


@pytest.mark.parametrize("count", [5, LOAD_KEYS_MAX + 5])
async def test_a_reading_of_more_than_a_snapshot_may_hold_is_read_again_piece_by_piece(count):
    async with opened() as store:
        page = Address("notes", "pages", "page")
        await store.commit([CreateDocument(page, "none", base(1, {"t": ""}))])
        narrow = (Between if count > LOAD_KEYS_MAX else Narrow)(
            store,
            lambda loads: loads == 2,
            lambda _: store.commit([ChangeDocument(DocumentId(2), base(1, {"t": "new"}))]),
            snapshots=False,
        )
        keys = [document_key(REF.partition, DocumentId(2 + number)) for number in range(count)]

        def look(view: View) -> list[object]:
            view.require(peeks=keys)
            return [each.revision for each in map(view.peek, keys) if each is not None]

        head, found = await read_at_once(narrow, REF, look, asyncio.sleep)

        assert (head.seq, found) == (2, [2])


async def test_a_reading_into_which_an_import_comes_is_of_no_moment():
    async with opened() as store:
        begin = BeginImport(REF, LINEAGE, "0" * 64).checked()
        between = Between(
            store, lambda loads: loads == 2, lambda _: store.means.authority.execute(begin)
        )
        address = Address("notes", "pages", "page")

        with pytest.raises(StoreImporting):
            await read_at_once(
                between,
                REF,
                lambda view: find_document(view, REF.partition, address),
                asyncio.sleep,
            )


async def test_a_migration_of_this_handle_is_in_no_readers_way(monkeypatch: pytest.MonkeyPatch):
    async with opened() as store:
        await prepared(store, [LINES, OTHERS])
        look = store.look_with_head

        async def migrated_behind(looked: Callable[[View], T]) -> tuple[StoreHead, T]:
            monkeypatch.undo()
            found = await look(looked)
            await prepared(store, [NEWER])
            return found

        monkeypatch.setattr(store, "look_with_head", migrated_behind)

        assert await store.read(lambda _: "read") == "read"


@dataclass(frozen=True)
class CountOnce:
    """Count, for whoever pays, as soon as there was a commit."""

    by: Caller
    once: ClassVar[bool] = False
    stream: Partition = REF.partition

    def reads(self) -> Reads:
        return Reads(keys=(store_head_key(self.stream), counter("c", self.stream)))

    def decide(self, view: View, now: Instant) -> Decision[int]:
        head = view.get(store_head_key(self.stream))
        if head is None or head.seq == 0:
            raise NotFound(expected="a commit", found="none")
        return Decision(1, (Counter(partition=self.stream, name="c", count=1),))


async def test_what_is_decided_again_is_paid_for_all_the_same():
    async with opened() as store:
        authority = store.means.authority
        between = Between(
            store, lambda loads: loads == 1, lambda _: store.commit([ReserveIds(1).checked()])
        )
        between.execute = authority.execute
        ann = Caller("ann", "gateway", Allowance(units=5, window_ms=1_000))

        assert await executed_at_once(between, CountOnce(ann), None, asyncio.sleep) == 1

        key = quota_key(REF.partition, "ann")
        paid = (await authority.view(Reads(peeks=(key,)))).peek(key)
        assert paid is not None
        assert paid.spent == 1


async def test_a_no_to_a_store_that_has_not_moved_is_raised_where_no_load_is_of_one_moment():
    async with opened() as store:
        never = Between(store, lambda _: False, lambda _: store.close(), snapshots=False)

        def look(view: View) -> None:
            view.find(LINES_RANGE)
            raise NotFound(expected="a line", found="none")

        with pytest.raises(NotFound):
            await read_at_once(never, REF, look, asyncio.sleep)

        assert never.loads == 3


async def test_a_no_that_a_commit_came_into_is_not_raised_where_no_load_is_of_one_moment():
    async with opened() as store:
        between = Between(
            store,
            lambda loads: loads == 3,
            lambda _: store.commit([ReserveIds(1).checked()]),
            snapshots=False,
        )

        def look(view: View) -> str:
            head = view.peek(store_head_key(REF.partition))
            view.find(LINES_RANGE)
            if head is None or head.seq == 0:
                raise NotFound(expected="a commit", found="none")
            return "found"

        head, found = await read_at_once(between, REF, look, asyncio.sleep)

        assert (head.seq, found) == (1, "found")
