"""Writes by condition touch the rows that fit, as their commit has left them so far."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.store_rows import EDITS, MANY, desk, edit, refuses

from perdure.kernel.documents.errors import (
    RowCountDiffers,
)
from perdure.kernel.documents.rows import (
    WHERE_ROWS_MAX,
    WHERE_SCAN_MAX,
    DeleteRow,
    DeleteWhere,
    InsertRow,
    UpdateRow,
    UpdateWhere,
)
from perdure.kernel.errors import (
    InvalidValue,
    TooLarge,
    UnknownField,
    WrongType,
)

pytestmark = pytest.mark.stores


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
