"""A reading beside a commit that shows in part is as of the head that it tells, and no damage."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.documents import REF, means, opened
from tests.support.following import host
from tests.support.half_shown import HalfShown

from perdure.kernel.documents.content import base, delta
from perdure.kernel.documents.followed import AddressView, NamespaceView, TableView
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.read import (
    DocumentScan,
    RowScan,
    ScanStart,
    find_document,
    load_document,
    load_row,
)
from perdure.kernel.documents.records import StoreHead, document_key, row_key, store_head_key
from perdure.kernel.documents.rows import (
    DeleteRow,
    DeleteWhere,
    InsertRow,
    PutRow,
    UpdateRow,
    UpdateWhere,
)
from perdure.kernel.documents.tables import Table
from perdure.kernel.documents.writes import ChangeDocument, CreateDocument, RetireDocument
from perdure.kernel.errors import Corrupt, StoreRefused
from perdure.kernel.ids import DocumentId, Seq
from perdure.kernel.view import Key, Reads, Stored, View
from perdure.runtime.documents.follow.page import followed_page
from perdure.runtime.documents.follow.views import follow_view
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.tables import prepared

pytestmark = pytest.mark.stores

LINES = Table("notes", "lines", {"id": "int", "by": "str"}, ("id",), {"by": ("by",)}).checked()
ASCENDING = ScanStart("ascending", None)


class Settling(HalfShown):
    """Shows nothing of a record that was hidden until a snapshot names it, as DynamoDB waits."""

    def __init__(self) -> None:
        super().__init__()
        self.snapshots = 0

    def before(self) -> dict[Key[Any], Stored | None]:
        return dict(self._records)

    def hide_since(self, before: dict[Key[Any], Stored | None], which: int | None) -> int:
        """Hide what was written since, all or one of it, but the head; return of how many."""
        head = store_head_key(REF.partition)
        written = sorted(
            (
                key
                for key in before.keys() | self._records.keys()
                if key != head and before.get(key) != self._records.get(key)
            ),
            key=lambda key: key.sort,
        )
        hidden = written if which is None else written[which : which + 1]
        self.instead = {key: before.get(key) for key in hidden}
        return len(written)

    async def load(self, reads: Reads) -> View:
        if reads.snapshot:
            self.snapshots += 1
            for key in (*reads.keys, *reads.peeks):
                self.instead.pop(key, None)
        view = await super().load(reads)
        view.is_snapshot = reads.snapshot and not reads.ranges
        if not reads.ranges or not self.instead:
            return view
        return self._with_removed(view, reads)

    def _with_removed(self, view: View, reads: Reads) -> View:
        """Show in ranges what the commit has taken away, which does not show yet."""
        found = {each: list(view.keys_of(each)) for each in reads.ranges}
        stored = dict(view.stored)
        for each in reads.ranges:
            gone = [
                Key(key.partition, key.sort, each.of)
                for key, was in self.instead.items()
                if was is not None and key not in self._records
                if key.partition == each.partition and each.first <= key.sort < each.last
            ]
            stored |= {key: self.instead[key] for key in gone}
            keys = sorted({*found[each], *gone}, key=lambda key: key.sort)
            found[each] = (keys[::-1] if each.descending else keys)[: each.limit]
        return View(stored, found, view.named)


def at(key: str) -> Address:
    return Address("notes", "desk", "page", key)


COMMITS: dict[str, list[Any]] = {
    "created": [CreateDocument(at("new"), "none", base(1, {"t": "new"}))],
    "changed": [ChangeDocument(DocumentId(2), base(1, {"t": "b"}))],
    "edited": [ChangeDocument(DocumentId(2), delta(1, [["s", ["t"], "b"]]))],
    "retired": [RetireDocument(DocumentId(2))],
    "retired for good": [RetireDocument(DocumentId(3))],
    "replaced": [
        RetireDocument(DocumentId(3)),
        CreateDocument(at("none"), "latest", base(1, {"t": "next"})),
    ],
    "inserted": [InsertRow(LINES, {"id": 3, "by": "ann"})],
    "put": [PutRow(LINES, {"id": 1, "by": "eve"})],
    "updated": [UpdateRow(LINES, (2,), {"by": "ann"})],
    "deleted": [DeleteRow(LINES, (1,))],
    "updated by condition": [UpdateWhere(LINES, {"by": "ann"}, {"by": "bob"})],
    "deleted by condition": [DeleteWhere(LINES, {"by": "ann"})],
}

LATER = {"created": [CreateDocument(at("later"), "none", base(1, {"t": "new"}))]}
"""What is committed where that was before."""

UNTOLD = {("index", "updated by condition")}
"""What may not show yet, as ADR 40 says: new places in an index of rows that no log names."""


def _value(view: View, id: int) -> Any:
    loaded = load_document(view, REF.partition, DocumentId(id))
    return None if loaded is None else loaded.value


def _at_address(view: View, key: str) -> Any:
    document = find_document(view, REF.partition, at(key))
    return None if document is None else (document.id, _value(view, document.id))


LOOKS: dict[str, Callable[[View], Any]] = {
    "by id": lambda view: [_value(view, id) for id in (2, 3, 4)],
    "by address": lambda view: [_at_address(view, key) for key in ("rewound", "none", "new")],
    "namespace": lambda view: [
        each.id for each in DocumentScan("notes", "desk").page(view, REF.partition, None, 10)[0]
    ],
    "row": lambda view: [
        row and row.value
        for row in (load_row(view, REF.partition, LINES, (id,)) for id in (1, 2, 3))
    ],
    "rows": lambda view: [
        row.value for row in RowScan(LINES).page(view, REF.partition, ASCENDING, 10)
    ],
    "index": lambda view: [
        [row.value for row in RowScan(LINES, (by,), "by").page(view, REF.partition, ASCENDING, 10)]
        for by in ("ann", "eve", "bob")
    ],
    "address view": lambda view: AddressView(at("rewound")).look(view, REF.partition),
    "other address view": lambda view: AddressView(at("none")).look(view, REF.partition),
    "namespace view": lambda view: NamespaceView("notes", "desk").look(view, REF.partition),
    "table view": lambda view: TableView(LINES).look(view, REF.partition),
}


@asynccontextmanager
async def written(name: str) -> AsyncIterator[tuple[Settling, dict[Key[Any], Stored | None]]]:
    """Write a store and one commit more, and give what was there before that."""
    store = Settling()
    async with opened(store) as writer:
        await prepared(writer, [LINES])
        await writer.commit(
            [
                CreateDocument(at("rewound"), "rewindable", base(1, {"t": "a"})),
                CreateDocument(at("none"), "none", base(1, {"t": "x"})),
                InsertRow(LINES, {"id": 1, "by": "ann"}),
                InsertRow(LINES, {"id": 2, "by": "eve"}),
            ]
        )
        before = store.before()
        await writer.commit(COMMITS[name])
        yield store, before


async def told(
    store: Settling, look: Callable[[View], Any], known: StoreHead | None = None
) -> tuple[Seq, Any]:
    """Return what another process reads that has seen one commit whole, or none, and of which."""
    other = await OpenStore.open(means(store, prefix="v"), REF)
    if known is not None:
        other.means.whole.note(REF.partition, known.seq, known.digest)
    head, found = await other.look_with_head(look)
    return head.seq, found


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in LOOKS for name in COMMITS if (kind, name) not in UNTOLD],
)
async def test_a_reading_is_as_of_its_head_whatever_of_the_last_commit_does_not_show(kind, name):
    async with written(name) as (store, before):
        right = await told(store, LOOKS[kind])
        count = store.hide_since(before, None)

        for which in (None, *range(count)):
            store.hide_since(before, which)
            assert await told(store, LOOKS[kind]) == right, which


@pytest.mark.parametrize("name", COMMITS)
@pytest.mark.parametrize("kind", ["by address", "namespace", "rows", "table view"])
async def test_a_commit_of_which_the_head_shows_last_is_not_told_as_the_one_before(kind, name):
    async with written("created") as (store, _):
        writer = await OpenStore.open(means(store, prefix="w"), REF)
        head, _ = await writer.look_with_head(lambda _: None)
        before = store.before()
        await writer.commit(
            [PutRow(LINES, {"id": 7, "by": "zoe"}), *LATER.get(name, COMMITS[name])]
        )
        right = await told(store, LOOKS[kind])

        for which in (None, *range(store.hide_since(before, None))):
            store.hide_since(before, which)
            store.instead = {} if which is None else store.instead
            store.instead[store_head_key(REF.partition)] = before[store_head_key(REF.partition)]
            assert await told(store, LOOKS[kind], head) == right, which


@pytest.mark.parametrize("kind", ["address view", "other address view", "namespace view"])
@pytest.mark.parametrize("name", ["created", "changed", "retired", "retired for good"])
async def test_who_follows_from_beside_the_last_commit_has_its_base_for_good(name, kind):
    views = {
        "address view": AddressView(at("rewound")),
        "other address view": AddressView(at("none")),
        "namespace view": NamespaceView("notes", "desk"),
    }
    async with written(name) as (store, before):
        _, right = await told(store, LOOKS[kind])
        store.hide_since(before, None)
        other = await OpenStore.open(means(store, prefix="v"), REF)
        followed = host()
        source = follow_view(followed, other, views[kind])
        await followed.activate()

        assert source.value == right
        followed.close()


async def test_a_few_records_are_read_as_one_snapshot_without_a_second_look_at_the_head():
    async with written("put") as (store, _):
        other = await OpenStore.open(means(store, prefix="v"), REF)
        store.loads = 0

        await other.look(lambda view: load_row(view, REF.partition, LINES, (1,)))

        assert (store.loads, store.snapshots) == (2, 1)


async def test_the_last_commit_is_looked_at_once_and_by_its_writer_never():
    async with written("put") as (store, _):
        look = LOOKS["table view"]
        writer, other = [await OpenStore.open(means(store, prefix=each), REF) for each in "vw"]
        await writer.commit(COMMITS["updated"])
        store.loads = store.snapshots = 0

        await writer.look(look)
        assert (store.loads, store.snapshots) == (3, 1)
        await other.look(look)
        assert (store.loads, store.snapshots) == (3 + 7, 1 + 5)
        await other.look(look)
        assert (store.loads, store.snapshots) == (10 + 3, 6 + 1)


async def test_a_commit_that_comes_while_the_last_is_looked_at_is_looked_at_instead():
    async with written("updated") as (store, _):
        writer, other = [await OpenStore.open(means(store, prefix=each), REF) for each in "vw"]
        authority, snapshots = other.means.authority, 0
        view = authority.view

        async def overtaken(reads: Reads) -> View:
            nonlocal snapshots
            snapshots += reads.snapshot
            if reads.snapshot and snapshots == 2:
                await writer.commit([PutRow(LINES, {"id": 9, "by": "zoe"})])
            return await view(reads)

        authority.view = overtaken  # type: ignore[method-assign]
        head, found = await other.look_with_head(LOOKS["table view"])

        assert head.seq == writer.seq
        assert [row["id"] for row in found.values()] == [1, 2, 9]


async def test_a_document_that_is_lost_is_damage_whatever_shows():
    async with written("created") as (store, _):
        store.lose(document_key(REF.partition, DocumentId(2)))

        with pytest.raises(Corrupt):
            await told(store, LOOKS["namespace"])


class Small(Settling):
    """Takes no snapshot of so many records, which have 4 MB together."""

    async def load(self, reads: Reads) -> View:
        if reads.snapshot and len(reads.peeks) > 60:
            raise StoreRefused(expected="a request that DynamoDB accepts", found="4 MB and more")
        return await super().load(reads)


@pytest.mark.parametrize("count", [80, 120])
async def test_more_than_a_snapshot_may_hold_is_read_piece_by_piece_behind_the_last_commit(count):
    store = Small()
    async with opened(store) as writer:
        await prepared(writer, [LINES])
        before = store.before()
        await writer.commit([InsertRow(LINES, {"id": 1, "by": "ann"})])
        store.hide_since(before, None)
        keys = [row_key(REF.partition, LINES.full_name, (id,)) for id in range(count)]

        def look(view: View) -> list[Any]:
            view.require(peeks=keys)
            return [row.value["id"] for row in map(view.peek, keys) if row is not None]

        assert (await told(store, look))[1] == [1]


@pytest.mark.parametrize("name", ["created", "changed", "retired", "retired for good", "replaced"])
@pytest.mark.parametrize("key", ["rewound", "none", "new"])
async def test_a_page_of_what_is_followed_begins_as_of_the_commit_that_it_tells(key, name):
    async with written(name) as (store, before):
        right = await followed_page(means(store), REF, at(key), None)
        count = store.hide_since(before, None)

        for which in (None, *range(count)):
            store.hide_since(before, which)
            assert await followed_page(means(store), REF, at(key), None) == right, which
