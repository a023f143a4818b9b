"""A reading beside a commit that shows in part is as of the head that it tells, and no damage."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.documents import REF, means, opened
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
from perdure.kernel.documents.records import store_head_key
from perdure.kernel.documents.rows import DeleteRow, InsertRow, PutRow, UpdateRow
from perdure.kernel.documents.tables import Table
from perdure.kernel.documents.writes import ChangeDocument, CreateDocument, RetireDocument
from perdure.kernel.ids import DocumentId, Seq
from perdure.kernel.view import Key, Reads, Stored, View
from perdure.runtime.documents.follow.page import followed_page
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
}


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
        for by in ("ann", "eve")
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


async def told(store: Settling, look: Callable[[View], Any]) -> tuple[Seq, Any]:
    """Return what another process reads that has seen nothing yet, and of which commit."""
    other = await OpenStore.open(means(store, prefix="v"), REF)
    head, found = await other.look_with_head(look)
    return head.seq, found


@pytest.mark.parametrize("name", COMMITS)
@pytest.mark.parametrize("kind", LOOKS)
async def test_a_reading_is_as_of_its_head_whatever_of_the_last_commit_does_not_show(kind, name):
    async with written(name) as (store, before):
        right = await told(store, LOOKS[kind])
        count = store.hide_since(before, None)

        for which in (None, *range(count)):
            store.hide_since(before, which)
            assert await told(store, LOOKS[kind]) == right, which


@pytest.mark.parametrize("name", ["created", "changed", "retired", "retired for good", "replaced"])
@pytest.mark.parametrize("key", ["rewound", "none", "new"])
async def test_a_page_of_what_is_followed_begins_as_of_the_commit_that_it_tells(key, name):
    async with written(name) as (store, before):
        right = await followed_page(means(store), REF, at(key), None)
        count = store.hide_since(before, None)

        for which in (None, *range(count)):
            store.hide_since(before, which)
            assert await followed_page(means(store), REF, at(key), None) == right, which
