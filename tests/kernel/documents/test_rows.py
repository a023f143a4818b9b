"""Every write of rows does what it says, or is refused and leaves every record as it was."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.support.store_desk import Desk

from perdure.kernel.documents import places
from perdure.kernel.documents.errors import (
    RowAbsent,
    RowCountDiffers,
    RowExists,
    TableMigrating,
    UnknownTable,
)
from perdure.kernel.documents.places import KEY_TEXT_BYTES_MAX, SAFE_INTEGER_MAX
from perdure.kernel.documents.rows import (
    WHERE_ROWS_MAX,
    WHERE_SCAN_MAX,
    DeleteRow,
    DeleteWhere,
    InsertRow,
    PutRow,
    UpdateRow,
    UpdateWhere,
)
from perdure.kernel.documents.step import StagedWrite
from perdure.kernel.documents.tables import Table
from perdure.kernel.errors import (
    InvalidValue,
    MissingField,
    PerdureError,
    SchemaMismatch,
    TooLarge,
    UnknownField,
    WrongType,
)

pytestmark = pytest.mark.stores

EDITS = Table(
    "notes",
    "edits",
    {"id": "int", "by": "str", "done": "bool", "size": "float", "text": "json", "seq": "int"},
    ("id",),
    {"by_author": ("by",), "by_done": ("done", "by")},
).checked()
NAMES = Table("notes", "names", {"name": "str", "page": "int"}, ("name", "page"), {}).checked()
MANY = Table(
    "notes", "many", {"id": "int", "a": "int", "b": "int", "c": "int"}, ("id",),
    {"a": ("a",), "b": ("b",), "c": ("c",)},
).checked()  # fmt: skip


def edit(id: int, by: str = "ann", **columns: Any) -> dict[str, Any]:
    row = {"id": id, "by": by, "done": False, "size": 1.5, "text": {"n": id}, "seq": 0}
    return row | columns


def desk(*rows: dict[str, Any]) -> Desk:
    made = Desk(EDITS, NAMES, MANY)
    made.commit(*(InsertRow(EDITS, row) for row in rows))
    return made


def refuses(at: Desk, kind: type[PerdureError], *staged: StagedWrite) -> PerdureError:
    """Commit what must be refused, beside a write that is none; not a byte has changed."""
    before = at.bodies()

    with pytest.raises(kind) as refused:
        at.commit(InsertRow(EDITS, edit(1_000_000)), *staged)

    assert at.bodies() == before
    return refused.value


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


def test_a_stamp_is_a_number_beside_the_key():
    at = desk()

    refuses(at, InvalidValue, InsertRow(EDITS, edit(1), stamps=("id",)))
    refuses(at, WrongType, InsertRow(EDITS, edit(1), stamps=("by",)))
    refuses(at, UnknownField, InsertRow(EDITS, edit(1), stamps=("when",)))


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


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ((), InvalidValue),
        ((1, 2), InvalidValue),
        (("1",), WrongType),
        ((True,), WrongType),
        ((None,), WrongType),
        ((1.0,), WrongType),
    ],
)
def test_what_is_no_key_of_the_table_is_refused(key: tuple[Any, ...], kind: type[PerdureError]):
    at = desk(edit(1))

    refuses(at, kind, DeleteRow(EDITS, key))
    refuses(at, kind, UpdateRow(EDITS, key, {"by": "eve"}))


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


def test_numbers_sort_as_numbers_below_zero_too():
    ids = [0, -1, 1, -SAFE_INTEGER_MAX, SAFE_INTEGER_MAX, -10, 10, 9, -9]

    at = desk(*(edit(id) for id in ids))

    assert [row["id"] for row in at.values(EDITS)] == sorted(ids)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/",
        "a/b",
        "a/",
        "..",
        "\0",
        "\ud800",
        "\udfff x",
        "😀",
        "\u00e9",
        "e\u0301",
        '"',
        "\\u002f",
        "\n",
    ],
)
def test_any_text_is_a_key_and_comes_back_as_it_was(name: str):
    at = desk()

    at.commit(InsertRow(NAMES, {"name": name, "page": 1}))
    refuses(at, RowExists, InsertRow(NAMES, {"name": name, "page": 1}))
    found = at.rows(NAMES)
    at.commit(DeleteRow(NAMES, (name, 1)))

    assert [(row.row_key, row.value["name"]) for row in found] == [((name, 1), name)]
    assert at.rows(NAMES) == []


def test_texts_that_look_alike_are_different_keys():
    names = ["\ud800", "\ud801", "�", "\\ud800", "\u00e9", "e\u0301", "a", "a/", "a/1"]
    at = desk()

    at.commit(*(InsertRow(NAMES, {"name": name, "page": 1}) for name in names))

    assert sorted(row["name"] for row in at.values(NAMES)) == sorted(names)


def test_rows_that_begin_with_one_key_part_lie_together_whatever_it_ends_with():
    names = ["a", "a!", "a/", "a0", "ab", "a\0"]
    at = desk()

    at.commit(
        *(InsertRow(NAMES, {"name": name, "page": page}) for name in names for page in (2, 1))
    )
    found = [row.row_key for row in at.rows(NAMES)]

    assert [page for _, page in found] == [1, 2] * len(names)
    assert len({name for name, _ in found}) == len(names)


def test_a_text_that_no_key_has_room_for_is_refused():
    at = desk()
    longest = "x" * KEY_TEXT_BYTES_MAX

    at.commit(InsertRow(NAMES, {"name": longest, "page": 1}))

    refuses(at, TooLarge, InsertRow(NAMES, {"name": longest + "x", "page": 1}))
    refuses(
        at, TooLarge, InsertRow(NAMES, {"name": "é" * (KEY_TEXT_BYTES_MAX // 6 + 1), "page": 1})
    )
    refuses(at, TooLarge, DeleteRow(NAMES, (longest + "x", 1)))


def test_a_text_of_an_index_may_be_longer_than_a_key():
    at = desk(edit(1, "x" * 10_000), edit(2, "x" * 10_001))

    assert at.index_is_whole(EDITS)
    assert len(at.index(EDITS)) == 2


def test_every_row_that_fits_is_changed_and_counted_in_the_log():
    at = desk(edit(1), edit(2, "eve"), edit(3))

    at.commit(UpdateWhere(EDITS, {"by": "ann"}, {"done": True}, count=2))

    assert [row["done"] for row in at.values(EDITS)] == [True, False, True]
    assert at.index_is_whole(EDITS)
    assert at.last()[0]["count"] == 2


def test_every_row_that_fits_is_deleted():
    at = desk(edit(1), edit(2, "eve"), edit(3))

    at.commit(DeleteWhere(EDITS, {"by": "ann"}))

    assert at.values(EDITS) == [edit(2, "eve")]
    assert at.index_is_whole(EDITS)


def test_a_condition_may_be_on_json_and_on_nothing():
    at = desk(edit(1), edit(2), edit(3, text=None), edit(4, text=True), edit(5, text=1))

    at.commit(DeleteWhere(EDITS, {"text": {"n": 1}}), DeleteWhere(EDITS, {"text": None}))
    at.commit(DeleteWhere(EDITS, {"text": 1}, count=1))

    assert [row["id"] for row in at.values(EDITS)] == [2, 4]


def test_a_write_by_condition_sees_what_its_commit_has_inserted_changed_and_deleted():
    at = desk(edit(1), edit(2), edit(3), edit(4, "eve"))

    at.commit(
        DeleteRow(EDITS, (1,)),
        UpdateRow(EDITS, (2,), {"by": "eve"}),
        InsertRow(EDITS, edit(5)),
        UpdateWhere(EDITS, {"by": "ann"}, {"by": "bob"}, count=2),
        DeleteWhere(EDITS, {"by": "eve"}, count=2),
        UpdateWhere(EDITS, {"by": "ann"}, {"done": True}, count=0),
    )

    assert at.values(EDITS) == [edit(3, "bob"), edit(5, "bob")]
    assert at.index_is_whole(EDITS)


def test_other_counts_than_the_writer_knows_are_refused():
    at = desk(edit(1), edit(2, "eve"), edit(3))

    refuses(at, RowCountDiffers, UpdateWhere(EDITS, {"by": "ann"}, {"done": True}, count=4))
    refuses(at, RowCountDiffers, DeleteWhere(EDITS, {"by": "eve"}, count=0))
    refuses(
        at,
        RowCountDiffers,
        DeleteRow(EDITS, (3,)),
        UpdateWhere(EDITS, {"by": "ann"}, {"done": True}, count=3),
    )


@pytest.mark.parametrize("where", [{"more": 1}, {"done": 1}, {"text": b"bytes"}])
def test_a_condition_on_what_no_row_holds_is_refused(where: dict[str, Any]):
    at = desk(edit(1))

    refuses(at, InvalidValue, UpdateWhere(EDITS, where, {"done": True}))
    refuses(at, InvalidValue, DeleteWhere(EDITS, where))


def test_changes_by_condition_are_held_to_the_table_though_no_row_fits():
    at = desk()

    refuses(at, UnknownField, UpdateWhere(EDITS, {"by": "zoe"}, {"more": 1}))
    refuses(at, WrongType, UpdateWhere(EDITS, {"by": "zoe"}, {"done": 1}))


def test_as_many_rows_with_three_places_each_as_a_condition_may_touch_fit_one_commit():
    at = desk()
    for id in range(WHERE_ROWS_MAX):
        at.commit(InsertRow(MANY, {"id": id, "a": 1, "b": 2, "c": 3}))

    at.commit(UpdateWhere(MANY, {"a": 1}, {"a": 0, "b": 0, "c": 0}, count=WHERE_ROWS_MAX))
    assert at.index(MANY) == {}
    at.commit(InsertRow(MANY, {"id": WHERE_ROWS_MAX, "a": 0, "b": 0, "c": 0}))

    assert refuses(at, TooLarge, DeleteWhere(MANY, {"a": 0})).found == str(WHERE_ROWS_MAX + 1)


def test_a_table_that_is_too_long_to_be_looked_through_is_refused():
    at = desk()
    for first in range(0, WHERE_SCAN_MAX + 1, 90):
        ids = range(first, min(first + 90, WHERE_SCAN_MAX + 1))
        at.commit(*(InsertRow(MANY, {"id": id, "a": 0, "b": 0, "c": 0}) for id in ids))

    refuses(at, TooLarge, DeleteWhere(MANY, {"id": 5}))
    refuses(
        at, TooLarge, DeleteRow(MANY, (5,)), DeleteRow(MANY, (6,)), DeleteWhere(MANY, {"id": 7})
    )
    at.commit(DeleteRow(MANY, (5,)))
    at.commit(DeleteWhere(MANY, {"id": 6}, count=1))

    assert len(at.rows(MANY)) == WHERE_SCAN_MAX - 1


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
    refuses(at, SchemaMismatch, InsertRow(other, edit(2, more=1)))
    refuses(at, TableMigrating, InsertRow(newer, edit(2)))
    at.commit(InsertRow(older, edit(2)))


def test_a_key_is_spelled_in_no_more_than_a_store_takes():
    spelled = places.spelled_key(("é/\ud800", -1, True, 1))

    assert spelled == "\\u00e9\\u002f\\ud800/09007199254740991/1/09007199254740993/"
