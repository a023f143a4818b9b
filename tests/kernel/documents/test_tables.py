"""Tables are moved to newer versions row by row."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.documents import REF
from tests.support.store_desk import Desk
from tests.support.store_pages import NEW, OLD, desk, move, old, refuses, renamed

from perdure.kernel.documents.commit import OwnerGrip, TakeOwner
from perdure.kernel.documents.declare import DeclareTables
from perdure.kernel.documents.errors import (
    MigrationFailed,
    NewerTable,
    OwnerHeld,
    RowAbsent,
    TableDiffers,
    TableMigrating,
    UnknownTable,
)
from perdure.kernel.documents.migrate import (
    CHUNK_BYTES_MAX,
    AlterTable,
    EndMove,
    Migrate,
    MoveRows,
    chunk_rows_max,
    migrated,
    rows_left,
)
from perdure.kernel.documents.rows import DeleteRow, InsertRow, PutRow
from perdure.kernel.documents.tables import INDEXES_MAX, Table, stored_as
from perdure.kernel.errors import (
    Invalid,
    InvalidValue,
    MissingField,
    PerdureError,
    StaleWriter,
)
from perdure.kernel.ids import Epoch, Holder

pytestmark = pytest.mark.stores


def test_rows_are_moved_in_chunks_and_the_indexes_with_them():
    at = desk()
    at.ask(AlterTable(REF, NEW, at.attempt()))

    move(at, 2)
    halfway = [row.version for row in at.rows(NEW)]
    move(at, 3)
    at.ask(EndMove(REF, NEW, at.attempt()))

    assert halfway == [2, 2, 1, 1, 1]
    assert at.values(NEW) == [renamed(old(id), 1) for id in range(1, 6)]
    assert {row.version for row in at.rows(NEW)} == {2}
    assert at.stored(NEW) == stored_as(REF.partition, NEW)
    assert at.index_is_whole(NEW)


def test_the_head_tells_of_a_change_of_tables_when_a_move_begins_and_when_it_ends():
    at = desk(1)
    schemas = [at.head.schema]

    for request in (AlterTable(REF, NEW, at.attempt()), None, EndMove(REF, NEW, at.attempt())):
        if request is None:
            move(at, 1)
        else:
            at.ask(request)
        schemas.append(at.head.schema)

    assert schemas == [0, 1, 1, 2]


def test_the_log_tells_every_step_of_a_move_with_the_rows_it_wrote():
    at = desk(2)

    at.ask(AlterTable(REF, NEW, at.attempt()))
    altered = at.last()
    move(at, 2)
    moved = at.last()
    at.ask(EndMove(REF, NEW, at.attempt()))
    ended = at.last()

    assert [(each["w"], each["version"], each["key"]) for each in altered] == [
        ("table.alter", 2, ["id"])
    ]
    assert moved == [
        {"w": "row.move", "table": "notes:pages", "version": 2, "row": renamed(old(id), 1)}
        for id in (1, 2)
    ]
    assert ended == [{"w": "table.moved", "table": "notes:pages", "version": 2}]


def test_each_step_of_a_move_that_was_done_before_changes_nothing():
    at = desk(2)
    alter, end = AlterTable(REF, NEW, at.attempt()), EndMove(REF, NEW, at.attempt())
    at.ask(alter)
    left = rows_left(at.stored(NEW), 2)
    chunk = migrated(at.stored(NEW), at.rows(NEW)[: left.limit], renamed)
    rows = MoveRows(REF, NEW, at.attempt(), (), None, chunk)

    for request in (alter, rows, end):
        at.ask(request)
        before = at.bodies()
        at.ask(request)
        assert at.bodies() == before


def test_a_move_does_not_end_while_rows_are_left():
    at = desk()
    at.ask(AlterTable(REF, NEW, at.attempt()))
    move(at, 4)
    before = at.bodies()

    moved = at.ask(EndMove(REF, NEW, at.attempt()))

    assert moved.stored.moving is not None
    assert at.bodies() == before


def test_nobody_writes_a_table_that_moves_nor_one_that_has_moved_on():
    at = desk(3)
    prepared = at.head.schema
    at.ask(AlterTable(REF, NEW, at.attempt()))
    move(at, 1)

    def refused(kind: type[PerdureError], table: Table, **fields: Any) -> None:
        before = at.bodies()
        with pytest.raises(kind):
            at.commit(DeleteRow(table, (1,)), **fields)
        assert at.bodies() == before

    refused(TableMigrating, OLD, schema=prepared)
    refused(NewerTable, OLD)
    refused(TableMigrating, NEW)
    move(at, 2)
    at.ask(EndMove(REF, NEW, at.attempt()))
    refused(TableMigrating, OLD, schema=prepared)
    refused(NewerTable, OLD)
    at.commit(DeleteRow(NEW, (1,)), schema=at.head.schema)

    assert [row["id"] for row in at.values(NEW)] == [2, 3]


def test_a_table_that_moves_is_behind_to_those_who_bring_it_there_and_newer_to_others():
    at = desk(3)
    at.ask(AlterTable(REF, NEW, at.attempt()))
    third = Table("notes", "pages", NEW.columns, NEW.key, {}, version=3)
    other = Table("notes", "pages", NEW.columns, NEW.key, {}, version=2)

    declared = at.ask(DeclareTables(REF, (NEW,), at.attempt()))

    assert [stored.moving_to for _, stored in declared.behind] == [2]
    refuses(at, NewerTable, DeclareTables(REF, (OLD,), at.attempt()))
    assert at.ask(DeclareTables(REF, (third,), at.attempt())).behind[0][0] == third
    refuses(at, TableDiffers, DeclareTables(REF, (other,), at.attempt()))


@pytest.mark.parametrize(
    "table",
    [
        Table("notes", "pages", {"id": "str", "by": "str"}, ("id",), {}, version=2),
        Table("notes", "pages", {"id": "int", "by": "str"}, ("id", "by"), {}, version=2),
        Table("notes", "pages", {"id": "int", "by": "str"}, ("by",), {}, version=2),
    ],
)
def test_the_key_of_a_table_never_changes(table: Table):
    at = desk(1)

    refuses(at, Invalid, AlterTable(REF, table.checked(), at.attempt()))


def test_a_table_that_was_not_declared_is_not_moved():
    for request in (AlterTable, MoveRows, EndMove):
        at = Desk()
        refuses(at, UnknownTable, request(REF, NEW, at.attempt()))


@pytest.mark.parametrize(
    "migrate",
    [
        lambda row, _: row,
        lambda row, _: {**renamed(row, 1), "more": 1},
        lambda row, _: {**renamed(row, 1), "id": 77},
        lambda row, _: {**renamed(row, 1), "done": 1},
        lambda row, _: [row],
        lambda _, __: None,
        lambda row, _: row["no such column"],
        lambda _, __: 1 // 0,
    ],
)
def test_what_a_migration_must_not_make_is_refused_before_anything_is_written(migrate: Migrate):
    at = desk(2)
    at.ask(AlterTable(REF, NEW, at.attempt()))

    with pytest.raises(MigrationFailed, match="notes:pages at version 2") as refused:
        migrated(at.stored(NEW), at.rows(NEW), migrate)

    assert refused.value.code == "migration_failed"


def test_a_migration_is_given_a_row_of_its_own():
    at = Desk(Table("n", "t", {"id": "int", "x": "json"}, ("id",), {}))
    new = Table("n", "t", {"id": "int", "x": "json"}, ("id",), {}, version=2)
    at.commit(
        InsertRow(Table("n", "t", {"id": "int", "x": "json"}, ("id",), {}), {"id": 1, "x": [1]})
    )
    at.ask(AlterTable(REF, new, at.attempt()))
    rows = at.rows(new)

    def spoil(row: dict[str, Any], _: int) -> dict[str, Any]:
        row["x"].append(2)
        return row

    assert migrated(at.stored(new), rows, spoil) == (((1,), {"id": 1, "x": [1, 2]}),)
    assert rows[0].value == {"id": 1, "x": [1]}


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ((((9,), renamed(old(9), 1)),), RowAbsent),
        ((((2,), renamed(old(3), 1)),), InvalidValue),
        ((((2,), old(2)),), InvalidValue),
        ((((2,), {"id": 2}),), MissingField),
        ((((1,), renamed(old(1), 1)),), InvalidValue),
        ((((3,), renamed(old(3), 1)), ((2,), renamed(old(2), 1))), InvalidValue),
    ],
)
def test_a_chunk_that_does_not_fit_the_table_is_refused(rows: Any, kind: type[PerdureError]):
    at = desk(3)
    at.ask(AlterTable(REF, NEW, at.attempt()))
    move(at, 1)
    stored = at.stored(NEW)
    assert stored.moving is not None

    refuses(at, kind, MoveRows(REF, NEW, at.attempt(), (), stored.moving.behind, rows))


def test_the_largest_chunk_of_the_widest_table_fits_one_commit():
    columns: Any = {"id": "int"} | {f"c{n}": "int" for n in range(INDEXES_MAX)}
    was = Table("n", "w", columns, ("id",), {f"i{n}": (f"c{n}",) for n in range(INDEXES_MAX)})
    new = Table(
        "n", "w", columns, ("id",), {f"j{n}": (f"c{n}",) for n in range(INDEXES_MAX)}, version=2
    )
    at = Desk(was)
    for id in range(4):
        at.commit(InsertRow(was, dict.fromkeys(columns, 1) | {"id": id}))
    at.ask(AlterTable(REF, new, at.attempt()))
    count = chunk_rows_max(at.stored(new))

    chunk = migrated(at.stored(new), at.rows(new)[:count], lambda row, _: row)
    moved = at.ask(MoveRows(REF, new, at.attempt(), (), None, chunk))

    assert count == 2
    assert moved.stored.moving is not None
    assert moved.stored.moving.behind == at.rows(new)[1].key.sort


def test_large_rows_make_smaller_chunks():
    was = Table("n", "t", {"id": "int", "x": "json"}, ("id",), {})
    new = Table("n", "t", {"id": "int", "x": "json"}, ("id",), {}, version=2)
    at = Desk(was)
    for id in range(5):
        at.commit(InsertRow(was, {"id": id, "x": "x" * (CHUNK_BYTES_MAX // 2 - 1_000)}))
    at.commit(PutRow(was, {"id": 2, "x": "x" * (CHUNK_BYTES_MAX * 2)}))
    at.ask(AlterTable(REF, new, at.attempt()))
    stored, rows = at.stored(new), at.rows(new)

    sizes = [len(migrated(stored, rows[first:], lambda row, _: row)) for first in range(5)]

    assert sizes == [2, 1, 1, 2, 1]


def test_a_table_whose_owner_another_holds_is_neither_made_nor_moved():
    at = desk(1)
    grip, _ = at.ask(TakeOwner(REF, "notes", Holder("ann"), 1_000))
    stale = OwnerGrip("notes", Epoch(grip.epoch + 1), Holder("eve"))
    more = Table("notes", "more", {"id": "int"}, ("id",), {})

    refuses(at, OwnerHeld, DeclareTables(REF, (more,), at.attempt()))
    refuses(at, OwnerHeld, AlterTable(REF, NEW, at.attempt()))
    refuses(at, StaleWriter, AlterTable(REF, NEW, at.attempt(), (stale,)))
    at.ask(DeclareTables(REF, (OLD,), at.attempt()))
    at.ask(AlterTable(REF, NEW, at.attempt(), (grip,)))
    refuses(
        at, OwnerHeld, MoveRows(REF, NEW, at.attempt(), (), None, (((1,), renamed(old(1), 1)),))
    )

    assert at.stored(NEW).moving_to == 2
