"""Every write of rows does what it says, or is refused and leaves every record as it was."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.support.documents import REF
from tests.support.store_rows import EDITS, desk, edit, refuses

from perdure.kernel.documents.content import LEVELS_MAX, base
from perdure.kernel.documents.errors import (
    RowAbsent,
    RowExists,
    TableDiffers,
    TableMigrating,
    UnknownTable,
)
from perdure.kernel.documents.places import SAFE_INTEGER_MAX, Address
from perdure.kernel.documents.records import Document, document_key
from perdure.kernel.documents.rows import (
    DeleteRow,
    DeleteWhere,
    InsertRow,
    PutRow,
    UpdateRow,
    UpdateWhere,
)
from perdure.kernel.documents.tables import Table
from perdure.kernel.documents.writes import CreateDocument
from perdure.kernel.errors import (
    InvalidValue,
    MissingField,
    PerdureError,
    TooLarge,
    UnknownField,
    WrongType,
)
from perdure.kernel.ids import DocumentId

pytestmark = pytest.mark.stores


def test_an_inserted_row_is_there_with_its_places_in_every_index():
    at = desk(edit(1), edit(2, "eve", done=True))

    assert at.values(EDITS) == [edit(1), edit(2, "eve", done=True)]
    assert at.index_is_whole(EDITS)
    assert len(at.index(EDITS)) == 3


def test_a_row_is_not_inserted_twice():
    at = desk(edit(1))

    refuses(at, RowExists, InsertRow(EDITS, edit(1)))
    refuses(at, RowExists, InsertRow(EDITS, edit(2)), InsertRow(EDITS, edit(2)))


def test_a_row_is_put_over_another_which_leaves_its_places():
    at = desk(edit(1))

    at.commit(PutRow(EDITS, edit(1, "eve")), PutRow(EDITS, edit(2)))

    assert at.values(EDITS) == [edit(1, "eve"), edit(2)]
    assert at.index_is_whole(EDITS)


def test_columns_of_a_row_are_changed_and_the_rest_stays():
    at = desk(edit(1))

    at.commit(UpdateRow(EDITS, (1,), {"by": "eve", "done": True, "text": None}))

    assert at.values(EDITS) == [edit(1, "eve", done=True, text=None)]
    assert at.index_is_whole(EDITS)


def test_a_deleted_row_leaves_nothing():
    at = desk(edit(1), edit(2, done=True))

    at.commit(DeleteRow(EDITS, (1,)), DeleteRow(EDITS, (2,)))

    assert (at.values(EDITS), at.index(EDITS)) == ([], {})


def test_what_is_not_there_is_neither_changed_nor_deleted():
    at = desk(edit(1))

    refuses(at, RowAbsent, UpdateRow(EDITS, (2,), {"by": "eve"}))
    refuses(at, RowAbsent, DeleteRow(EDITS, (2,)))
    refuses(at, RowAbsent, DeleteRow(EDITS, (1,)), UpdateRow(EDITS, (1,), {"by": "eve"}))


def test_a_row_lives_and_dies_and_lives_within_one_commit():
    at = desk(edit(1))

    at.commit(
        DeleteRow(EDITS, (1,)),
        InsertRow(EDITS, edit(1, "eve")),
        InsertRow(EDITS, edit(2)),
        UpdateRow(EDITS, (2,), {"by": "bob"}),
        DeleteRow(EDITS, (2,)),
        PutRow(EDITS, edit(3)),
        DeleteRow(EDITS, (3,)),
        InsertRow(EDITS, edit(3, "zoe")),
    )

    assert at.values(EDITS) == [edit(1, "eve"), edit(3, "zoe")]
    assert at.index_is_whole(EDITS)


def test_a_stamp_takes_the_seq_of_its_commit_and_the_log_tells_it():
    at = desk()

    reply = at.commit(
        InsertRow(EDITS, edit(1), stamps=("seq",)), PutRow(EDITS, edit(2), stamps=("seq",))
    )

    assert [row["seq"] for row in at.values(EDITS)] == [reply.seq, reply.seq]
    assert [told["row"]["seq"] for told in at.last()] == [reply.seq, reply.seq]


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"id": 1}, MissingField),
        (edit(1) | {"more": 1}, UnknownField),
        (edit("1"), WrongType),  # type: ignore[arg-type]
        (edit(id=True), WrongType),
        (edit(1.0), WrongType),  # type: ignore[arg-type]
        (edit(None), WrongType),  # type: ignore[arg-type]
        (edit(SAFE_INTEGER_MAX + 1), WrongType),
        (edit(1, by=7), WrongType),  # type: ignore[arg-type]
        (edit(1, done=1), WrongType),
        (edit(1, size="1"), WrongType),
        (edit(1, size=math.nan), WrongType),
        (edit(1, size=math.inf), WrongType),
        (edit(1, size=-(10**400)), WrongType),
        (edit(1, size=10**5_000), WrongType),
        (edit(10**5_000), WrongType),
        (edit(1, text=10**5_000), InvalidValue),
        (edit(1, size=True), WrongType),
        (edit(1, text=math.nan), InvalidValue),
        (edit(1, text=b"bytes"), InvalidValue),
        (edit(1, text={1: object()}), InvalidValue),
    ],
)
def test_a_row_that_is_none_of_the_table_is_refused(row: dict[str, Any], kind: type[PerdureError]):
    at = desk()

    refuses(at, kind, InsertRow(EDITS, row))
    refuses(at, kind, PutRow(EDITS, row))


def test_a_change_keeps_the_key_and_the_columns():
    at = desk(edit(1))

    refuses(at, InvalidValue, UpdateRow(EDITS, (1,), {"id": 2}))
    refuses(at, UnknownField, UpdateRow(EDITS, (1,), {"more": 2}))
    refuses(at, WrongType, UpdateRow(EDITS, (1,), {"done": "yes"}))


def test_columns_beside_the_key_may_hold_nothing_and_are_then_in_no_index():
    at = desk(edit(1, by=None), edit(2, by=""), edit(3, done=True))  # type: ignore[arg-type]

    assert at.index_is_whole(EDITS)
    assert sorted({key for (key,) in at.index(EDITS).values()}) == [3]

    at.commit(UpdateRow(EDITS, (1,), {"by": "ann"}), UpdateRow(EDITS, (3,), {"by": None}))

    assert at.index_is_whole(EDITS)
    assert sorted({key for (key,) in at.index(EDITS).values()}) == [1]


def test_writes_of_rows_are_told_in_the_order_they_were_applied():
    at = desk(edit(1), edit(2))

    at.commit(
        UpdateRow(EDITS, (1,), {"by": "eve"}),
        DeleteRow(EDITS, (2,)),
        UpdateWhere(EDITS, {"by": "eve"}, {"done": True}),
        PutRow(EDITS, edit(2)),
        DeleteWhere(EDITS, {"done": True}),
    )

    assert at.last() == [
        {"w": "row.update", "table": "notes:edits", "key": [1], "changes": {"by": "eve"}},
        {"w": "row.delete", "table": "notes:edits", "key": [2]},
        {
            "w": "rows.update",
            "table": "notes:edits",
            "where": {"by": "eve"},
            "changes": {"done": True},
            "count": 1,
        },
        {"w": "row.put", "table": "notes:edits", "row": edit(2)},
        {"w": "rows.delete", "table": "notes:edits", "where": {"done": True}, "count": 1},
    ]


def test_rows_of_a_table_that_was_not_declared_or_is_another_are_refused():
    at = desk(edit(1))
    older = Table("notes", "edits", EDITS.columns, EDITS.key, EDITS.indexes)
    newer = Table("notes", "edits", EDITS.columns, EDITS.key, EDITS.indexes, version=2)
    other = Table("notes", "edits", {**EDITS.columns, "more": "int"}, EDITS.key, EDITS.indexes)

    refuses(
        at, UnknownTable, InsertRow(Table("notes", "lost", {"id": "int"}, ("id",), {}), {"id": 1})
    )
    refuses(at, TableDiffers, InsertRow(other, edit(2, more=1)))
    refuses(at, TableMigrating, InsertRow(newer, edit(2)))
    at.commit(InsertRow(older, edit(2)))


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_a_row_is_nested_as_deep_as_every_reader_follows():
    at = desk(edit(1, text=nested(LEVELS_MAX - 1)))  # the row itself is one more
    too_deep = nested(LEVELS_MAX)

    assert at.last()[0]["row"] == edit(1, text=nested(LEVELS_MAX - 1))
    for write in (
        InsertRow(EDITS, edit(2, text=too_deep)),
        PutRow(EDITS, edit(1, text=nested(900))),
        UpdateRow(EDITS, (1,), {"text": too_deep}),
        UpdateWhere(EDITS, {"id": 1}, {"text": too_deep}),
        DeleteWhere(EDITS, {"text": nested(LEVELS_MAX + 1)}),
    ):
        refuses(at, TooLarge, write)


def test_meta_is_nested_as_deep_as_every_reader_follows():
    address = Address("notes", "pages", "page")
    deep = CreateDocument(address, "none", base(1, {}), meta=nested(LEVELS_MAX))

    assert deep.checked() is deep
    with pytest.raises(TooLarge):
        CreateDocument(address, "none", base(1, {}), meta=nested(LEVELS_MAX + 1)).checked()


def test_what_a_write_was_made_of_may_be_changed_before_it_is_committed():
    at = desk(edit(1), edit(2), edit(3, "eve"))
    text: dict[str, Any] = {"n": [9]}
    inserted, put = edit(4, text=text), edit(1, text=text)
    changes, condition = {"text": text}, {"text": {"n": 3}}
    writes = [
        InsertRow(EDITS, inserted),
        PutRow(EDITS, put),
        UpdateRow(EDITS, (2,), changes),
        UpdateWhere(EDITS, condition, changes),
        DeleteWhere(EDITS, condition),
    ]

    for row in (inserted, put, changes):
        row["by"] = "mallory"
    text["n"].append(10)
    condition["text"]["n"] = 1
    at.commit(*writes)

    kept = {"n": [9]}
    assert at.values(EDITS) == [
        edit(1, text=kept),
        edit(2, text=kept),
        edit(3, "eve", text=kept),
        edit(4, text=kept),
    ]


def test_what_is_kept_with_a_document_may_be_changed_before_it_is_committed():
    meta: dict[str, Any] = {"tags": ["one"]}
    created = CreateDocument(Address("notes", "n", "k"), "latest", base(1, 1), meta=meta).checked()

    meta["tags"].append(object())
    at = desk()
    at.commit(created)

    document: Document = at.fake.held(document_key(REF.partition, DocumentId(2)))
    assert document.meta == {"tags": ["one"]}
