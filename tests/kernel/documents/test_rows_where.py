"""Writes by condition touch the rows that fit, as their commit has left them so far."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from tests.support.documents import REF
from tests.support.store_desk import Desk
from tests.support.store_rows import EDITS, MANY, NAMES, desk, edit, refuses

from perdure.kernel.documents.commit import TakeOwner
from perdure.kernel.documents.errors import (
    NewerTable,
    OwnerHeld,
    RowCountDiffers,
    TableMigrating,
)
from perdure.kernel.documents.migrate import AlterTable
from perdure.kernel.documents.rows import (
    WHERE_RECORDS_MAX,
    WHERE_SCAN_MAX,
    DeleteRow,
    DeleteWhere,
    InsertRow,
    UpdateRow,
    UpdateWhere,
)
from perdure.kernel.documents.tables import Table
from perdure.kernel.errors import (
    InvalidValue,
    TooLarge,
    UnknownField,
    WrongType,
)
from perdure.kernel.ids import Holder
from perdure.kernel.limits import SORT_BYTES_MAX

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


def filled(count: int, **columns: int) -> Desk:
    """Return a store with rows of MANY."""
    at = desk()
    for first in range(0, count, 24):
        ids = range(first, min(first + 24, count))
        rows = ({"id": id, "a": 0, "b": 0, "c": 0, **columns} for id in ids)
        at.commit(*(InsertRow(MANY, row) for row in rows))
    return at


def test_rows_with_three_places_each_are_written_by_the_two_dozen():
    at = filled(25, a=1, b=2, c=3)

    found = refuses(at, TooLarge, DeleteWhere(MANY, {"a": 1})).found
    at.commit(DeleteRow(MANY, (24,)))
    at.commit(UpdateWhere(MANY, {"a": 1}, {"a": 0, "b": 0, "c": 0}, count=24))

    assert found == "100 records, of 25 rows"
    assert at.index(MANY) == {}


def test_rows_that_have_no_place_take_a_record_each():
    at = filled(WHERE_RECORDS_MAX + 1)

    found = refuses(at, TooLarge, DeleteWhere(MANY, {"a": 0})).found
    at.commit(DeleteRow(MANY, (0,)))
    at.commit(DeleteWhere(MANY, {"a": 0}, count=WHERE_RECORDS_MAX))

    assert found == "97 records, of 97 rows"
    assert at.rows(MANY) == []


def test_only_the_places_that_a_row_leaves_or_takes_are_written():
    at = filled(40, a=1, b=2, c=3)

    at.commit(UpdateWhere(MANY, {"c": 3}, {"b": 0}, count=40))

    found = refuses(at, TooLarge, UpdateWhere(MANY, {"c": 3}, {"a": 5, "b": 4})).found
    assert found == "160 records, of 40 rows"
    assert at.index_is_whole(MANY)


def test_rows_that_have_what_they_are_given_are_counted_and_not_written():
    at = filled(200)
    at.commit(*(UpdateRow(MANY, (id,), {"b": 1}) for id in range(20)))
    before = {key.sort: stored.version for key, stored in at.fake.records.items()}

    at.commit(UpdateWhere(MANY, {"a": 0}, {"a": 0, "b": 0}, count=200))

    after = {key.sort: stored.version for key, stored in at.fake.records.items()}
    rows = {row.key.sort for row in at.rows(MANY)}
    assert sorted(each for each in rows if before[each] != after[each]) == sorted(
        row.key.sort for row in at.rows(MANY)[:20]
    )
    assert at.last()[0]["count"] == 200
    assert at.index(MANY) == {}


def test_a_number_is_not_taken_for_the_truth_value_that_equals_it():
    at = desk(edit(1, text=1), edit(2, text=True))

    at.commit(UpdateWhere(EDITS, {}, {"text": True}))

    assert all(row["text"] is True for row in at.values(EDITS))  # 1 equals it


def test_rows_that_would_stay_as_they_are_are_nobody_elses_to_write_all_the_same():
    at = desk(edit(1))
    at.ask(TakeOwner(REF, "notes", Holder("somebody"), 30_000).checked())

    with pytest.raises(OwnerHeld):
        at.commit(UpdateWhere(EDITS, {}, {"by": "ann"}))
    at.commit(UpdateWhere(EDITS, {"by": "nobody"}, {"by": "ann"}))


@pytest.mark.parametrize("sizes", [(1, 1.0), (1.0, 1), (0.0, -0.0), (2**53, float(2**53))])
def test_a_number_is_the_same_however_it_is_spelled(sizes: tuple[float, float]):
    held, asked = sizes
    at = desk(edit(1, size=held), edit(2, size=None), edit(3, size=held + 2))

    at.commit(UpdateWhere(EDITS, {"size": asked}, {"done": True}, count=1))
    at.commit(DeleteWhere(EDITS, {"size": None}, count=1))

    assert [row["done"] for row in at.values(EDITS)] == [True, False]


def long() -> Desk:
    """Return a store with tables that are too long to be looked through."""
    at = desk()
    for first in range(0, WHERE_SCAN_MAX + 1, 90):
        ids = range(first, min(first + 90, WHERE_SCAN_MAX + 1))
        at.commit(*(InsertRow(MANY, {"id": id, "a": 0, "b": 0, "c": 0}) for id in ids))
        at.commit(*(InsertRow(NAMES, {"name": "much", "page": id}) for id in ids))
    return at


def test_a_table_that_is_too_long_to_be_looked_through_is_refused():
    at = long()

    refuses(at, TooLarge, DeleteWhere(MANY, {"b": 0}))
    refuses(at, TooLarge, DeleteWhere(NAMES, {"name": "much"}))
    found = refuses(
        at, TooLarge, DeleteRow(MANY, (5,)), DeleteRow(MANY, (6,)), DeleteWhere(MANY, {"b": 0})
    ).found
    at.commit(DeleteRow(MANY, (5,)))
    at.commit(UpdateWhere(MANY, {"b": 0}, {"c": 0}, count=WHERE_SCAN_MAX))

    assert found == "more"
    assert len(at.rows(MANY)) == WHERE_SCAN_MAX


def test_what_the_key_begins_with_or_an_index_has_is_found_in_a_table_of_any_length():
    at = long()
    at.commit(
        *(InsertRow(NAMES, {"name": name, "page": 1}) for name in ("few", "fewer", "fe")),
        *(UpdateRow(MANY, (id,), {"a": 1, "c": id}) for id in (0, 1, 2, 3)),
    )

    at.commit(DeleteWhere(NAMES, {"name": "few"}, count=1))
    at.commit(DeleteWhere(NAMES, {"page": 7, "name": "much"}, count=1))
    at.commit(DeleteWhere(MANY, {"id": 3, "b": 0}, count=1))
    at.commit(
        InsertRow(MANY, {"id": 5_000, "a": 1, "b": 0, "c": 9}),
        UpdateRow(MANY, (0,), {"a": 0}),
        UpdateRow(MANY, (7,), {"a": 1}),
        DeleteRow(MANY, (1,)),
        UpdateWhere(MANY, {"a": 1}, {"b": 8}, count=3),
    )

    assert [row["id"] for row in at.values(MANY) if row["b"] == 8] == [2, 7, 5_000]
    assert [row["name"] for row in at.values(NAMES) if row["name"] != "much"] == ["fe", "fewer"]
    assert at.index_is_whole(MANY)


def test_a_condition_that_no_key_can_hold_is_met_by_no_row():
    at = desk()
    at.commit(InsertRow(NAMES, {"name": "x", "page": 1}))

    at.commit(DeleteWhere(NAMES, {"name": "x" * 500}, count=0))


def test_a_condition_that_is_longer_than_any_key_is_met_by_no_row():
    texts: dict[str, Any] = {f"c{n}": "str" for n in range(6)}
    numbers: dict[str, Any] = {f"n{n}": "int" for n in range(60)}
    wide = Table("notes", "wide", texts | numbers, tuple(texts), {"most": tuple(numbers)}).checked()
    at = Desk(wide)
    at.commit(InsertRow(wide, dict.fromkeys(texts, "") | dict.fromkeys(numbers, 0)))

    for where, count in (
        (dict.fromkeys(texts, "x" * 250), 0),
        ({"c1": "x"}, 0),
        (dict.fromkeys(numbers, 1), 0),
        (dict.fromkeys(texts, ""), 1),
    ):
        write = DeleteWhere(wide, where, count)
        (looked_at,) = write.reads(REF.partition).ranges
        assert len(looked_at.last) <= SORT_BYTES_MAX
        at.commit(write)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_condition_the_same_rows_are_found_as_by_looking_at_all(seed: int):
    draw = random.Random(seed)
    at = desk(*(edit(id, draw.choice("abc"), done=draw.random() < 0.5) for id in range(8)))
    for _ in range(12):
        held: dict[str, Any] = {"id": draw.randrange(8), "by": draw.choice("abc"), "done": True}
        where = {name: value for name, value in held.items() if draw.random() < 0.5}
        changed, id = draw.choice("abc"), draw.randrange(8)
        rows = {row["id"]: row for row in at.values(EDITS)}
        rows[id] = {**rows[id], "by": changed}
        fits = [id for id, row in rows.items() if where.items() <= row.items()]

        at.commit(
            UpdateRow(EDITS, (id,), {"by": changed}),
            UpdateWhere(EDITS, where, {"size": 7.5, "done": not where}, count=len(fits)),
        )

        for id in fits:
            rows[id] = {**rows[id], "size": 7.5, "done": not where}
        assert at.values(EDITS) == list(rows.values())
        assert at.index_is_whole(EDITS)


@pytest.mark.parametrize("write", [DeleteWhere, UpdateWhere])
def test_a_table_that_is_at_another_version_is_refused_though_no_row_fits(write: Any):
    at = desk(edit(1))
    newer = replace(EDITS, version=2)
    at.ask(AlterTable(REF, newer, at.attempt()))

    with pytest.raises(NewerTable):
        at.commit(write(EDITS, {"by": "nobody"}))
    with pytest.raises(TableMigrating):
        at.commit(write(newer, {"by": "nobody"}))
