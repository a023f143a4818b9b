"""A log entry names the records that its commit has written, beside head and itself."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.documents import REF, opened

from perdure.authority.memory import MemoryStore
from perdure.kernel.documents.content import base
from perdure.kernel.documents.places import Address
from perdure.kernel.documents.records import logged_key
from perdure.kernel.documents.rows import DeleteRow, InsertRow, PutRow, UpdateRow, UpdateWhere
from perdure.kernel.documents.tables import Table
from perdure.kernel.documents.told_records import told_records
from perdure.kernel.documents.writes import ChangeDocument, CreateDocument, RetireDocument
from perdure.kernel.ids import DocumentId, Seq
from perdure.kernel.view import Key, Missing, View
from perdure.runtime.documents.store import OpenStore
from perdure.runtime.documents.tables import prepared

pytestmark = pytest.mark.stores

LINES = Table("notes", "lines", {"id": "int", "by": "str"}, ("id",), {"by": ("by",)}).checked()
PAGE = Address("notes", "desk", "page")


async def told(writer: OpenStore, seq: Seq) -> set[Key[Any]]:
    view = View({})
    entry = None
    while True:
        try:
            entry = entry or view.peek(logged_key(REF.partition, seq))
            assert entry is not None
            return set(told_records(view, REF.partition, entry))
        except Missing as missing:
            view.merge(await writer.means.authority.view(missing.reads))


@pytest.mark.parametrize(
    "staged",
    [
        [CreateDocument(Address("notes", "desk", "page", "b"), "latest", base(1, {}))],
        [ChangeDocument(DocumentId(2), base(1, {"t": 1}))],
        [InsertRow(LINES, {"id": 2, "by": "ann"}), PutRow(LINES, {"id": 3, "by": "eve"})],
        [UpdateRow(LINES, (1,), {"by": "eve"})],
    ],
)
async def test_all_that_a_commit_has_put_is_named(staged):
    store = MemoryStore()
    async with opened(store) as writer:
        await prepared(writer, [LINES])
        first = [
            CreateDocument(PAGE, "latest", base(1, {})),
            InsertRow(LINES, {"id": 1, "by": "a"}),
        ]
        await writer.commit(first)
        before = dict(store._records)
        seq = (await writer.commit(staged)).seq

        put = {key for key, each in store._records.items() if before.get(key) != each}
        beside = {logged_key(REF.partition, seq), Key(REF.partition, "head", Any)}
        assert put - beside <= await told(writer, seq)


async def test_what_a_commit_has_taken_away_is_named_by_itself_and_not_by_its_indexes():
    async with opened() as writer:
        await prepared(writer, [LINES])
        first = [CreateDocument(PAGE, "none", base(1, {})), InsertRow(LINES, {"id": 1, "by": "a"})]
        await writer.commit(first)
        gone = await writer.commit([RetireDocument(DocumentId(2)), DeleteRow(LINES, (1,))])

        sorts = {key.sort.partition("/")[0] for key in await told(writer, gone.seq)}
        assert sorts == {"doc", "table", "row"}


async def test_rows_of_a_write_by_condition_are_not_named():
    async with opened() as writer:
        await prepared(writer, [LINES])
        await writer.commit([InsertRow(LINES, {"id": 1, "by": "a"})])
        changed = await writer.commit([UpdateWhere(LINES, {"by": "a"}, {"by": "b"})])

        assert {key.sort for key in await told(writer, changed.seq)} == {"table/notes:lines"}
