"""A newer version overtakes a move that has not ended, and finds each row where that has brought it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.documents import REF
from tests.support.store_desk import Desk
from tests.support.store_pages import (
    NEW,
    OLD,
    THIRD,
    desk,
    move,
    old,
    paged,
    refuses,
    renamed,
)

from perdure.kernel.documents.declare import DeclareTables
from perdure.kernel.documents.errors import NewerTable, TableDiffers, TableMigrating
from perdure.kernel.documents.migrate import AlterTable, EndMove, MoveRows, chunk_rows_max
from perdure.kernel.documents.moves import OVERTAKEN_MAX
from perdure.kernel.documents.rows import DeleteRow, PutRow
from perdure.kernel.documents.tables import Table, stored_as
from perdure.kernel.errors import Invalid

pytestmark = pytest.mark.stores

COUNT = 5
FOURTH = Table(
    "notes", "pages", {"id": "int", "by": "str", "was": "int"}, ("id",),
    {"by_was": ("was",), "by_author": ("by",)}, version=4,
).checked()  # fmt: skip


def at_version(version: int) -> Table:
    """Return a table of the columns of OLD whose indexes are others at each version."""
    indexes = OLD.indexes if version == 1 else {f"i{version}": ("size",), "by_author": ("by",)}
    return Table("notes", "pages", OLD.columns, OLD.key, indexes, version=version)


def told(row: dict[str, Any], version: int) -> dict[str, Any]:
    """Make a row of FOURTH that tells which version it was made of."""
    return {"id": row["id"], "by": row.get("by") or row.get("author") or "", "was": version}


def halfway(moved: int, again: int | None = None) -> Desk:
    """Return a store whose table was altered to NEW, and maybe to THIRD, each by so many rows."""
    at = desk(COUNT)
    at.ask(AlterTable(REF, NEW, at.attempt()))
    move(at, moved)
    if again is not None:
        at.ask(AlterTable(REF, THIRD, at.attempt()))
        move(at, again, paged, THIRD)
    return at


def versions(at: Desk) -> list[int]:
    return [row.version for row in at.rows(OLD)]


@pytest.mark.parametrize("chunk", [1, 2, COUNT])
@pytest.mark.parametrize("moved", [0, 3, COUNT])
def test_each_row_is_brought_from_the_version_that_it_has(moved: int, chunk: int):
    at = halfway(moved)
    seen: list[tuple[int, int]] = []

    def noting(row: dict[str, Any], version: int) -> dict[str, Any]:
        seen.append((row["id"], version))
        return paged(row, version)

    at.ask(AlterTable(REF, THIRD, at.attempt()))
    for _ in range(0, COUNT, chunk):
        move(at, chunk, noting, THIRD)
    at.ask(EndMove(REF, THIRD, at.attempt()))

    assert seen == [(id, 2 if id <= moved else 1) for id in range(1, COUNT + 1)]
    assert at.values(THIRD) == [paged(old(id), 1) for id in range(1, COUNT + 1)]
    assert versions(at) == [3] * COUNT
    assert at.stored(THIRD) == stored_as(REF.partition, THIRD)
    assert at.index_is_whole(THIRD)


@pytest.mark.parametrize("moved", [0, 2, COUNT])
@pytest.mark.parametrize("again", [0, 1, 3, COUNT])
def test_a_move_that_has_overtaken_another_is_overtaken_itself(moved: int, again: int):
    at = halfway(moved, again)
    before = [3] * again + [2] * (moved - again) + [1] * (COUNT - max(moved, again))
    assert versions(at) == before

    at.ask(AlterTable(REF, FOURTH, at.attempt()))
    move(at, COUNT, told, FOURTH)
    at.ask(EndMove(REF, FOURTH, at.attempt()))

    assert [row["was"] for row in at.values(FOURTH)] == before
    assert at.stored(FOURTH) == stored_as(REF.partition, FOURTH)
    assert at.index_is_whole(FOURTH)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, COUNT), st.booleans()), max_size=8))
def test_whatever_overtakes_what_every_row_is_met_once_by_each_move(steps: list[Any]):
    """A model of a table: the version of each row, and how far the move under way has come."""
    at = desk(COUNT)
    version, rows, done = 1, [1] * COUNT, COUNT
    for newer, count, ends in steps:
        if newer:
            version, done = version + newer, 0
            at.ask(AlterTable(REF, at_version(version), at.attempt()))
        met = list[int]()
        if at.stored(OLD).moving is not None:
            move(at, count, lambda row, was, met=met: met.append(was) or row, at_version(version))
            if ends:
                at.ask(EndMove(REF, at_version(version), at.attempt()))

            assert met == rows[done : done + count]
            rows[done : done + count] = [version] * len(met)
            done = min(COUNT, done + count)

        assert versions(at) == rows
        assert (at.stored(OLD).moving is None) == (at.stored(OLD).version == version)
        assert at.index(OLD) == {
            sort: (row.row_key)
            for row in at.rows(OLD)
            for sort in at_version(row.version).index_sorts(row.value)
        }


def test_a_table_keeps_what_was_overtaken_as_long_as_a_row_is_of_it():
    at = halfway(2)
    at.ask(AlterTable(REF, THIRD, at.attempt()))

    kept = []
    for _ in range(3):
        kept.append([each.version for each in at.stored(THIRD).overtaken])
        move(at, 1, paged, THIRD)

    assert kept == [[2], [2], []]
    assert [each.version for each in halfway(0, 1).stored(THIRD).overtaken] == []


def test_whoever_brings_it_to_the_older_version_is_refused_from_then_on_and_changes_nothing():
    at = halfway(2)
    behind = at.stored(NEW).moving
    assert behind is not None
    chunk = (((3,), renamed(old(3), 1)),)
    at.ask(AlterTable(REF, THIRD, at.attempt()))

    for request in (
        DeclareTables(REF, (NEW,), at.attempt()),
        AlterTable(REF, NEW, at.attempt()),
        MoveRows(REF, NEW, at.attempt(), (), behind.behind, chunk),
        MoveRows(REF, NEW, at.attempt(), (), None, chunk),
        EndMove(REF, NEW, at.attempt()),
        DeclareTables(REF, (OLD,), at.attempt()),
    ):
        refuses(at, NewerTable, request)


def test_rows_are_moved_by_whoever_has_overtaken_and_by_nobody_before():
    at = halfway(2)
    behind = at.stored(NEW).moving
    assert behind is not None
    chunk = (((3,), paged(old(3), 1)),)

    refuses(at, TableMigrating, MoveRows(REF, THIRD, at.attempt(), (), behind.behind, chunk))
    refuses(at, TableMigrating, EndMove(REF, THIRD, at.attempt()))


def test_nobody_writes_a_table_that_another_version_has_overtaken():
    at = desk(COUNT)
    schema = at.head.schema
    at.ask(AlterTable(REF, NEW, at.attempt()))
    altered = at.head.schema
    at.ask(AlterTable(REF, THIRD, at.attempt()))

    for table, known, kind in (
        (OLD, None, NewerTable),
        (OLD, schema, TableMigrating),
        (NEW, None, NewerTable),
        (NEW, altered, TableMigrating),
        (THIRD, None, TableMigrating),
    ):
        before = at.bodies()
        with pytest.raises(kind):
            at.commit(DeleteRow(table, (1,)), schema=known)
        assert at.bodies() == before


def test_each_step_of_overtaking_that_was_done_before_changes_nothing():
    at = halfway(2)
    alter = AlterTable(REF, THIRD, at.attempt())
    at.ask(alter)
    chunk = tuple(((id,), paged(old(id), 1)) for id in range(1, 4))
    rows = MoveRows(REF, THIRD, at.attempt(), (), None, chunk)

    for request in (alter, rows, alter):
        at.ask(request)
        before = at.bodies()
        at.ask(request)
        assert at.bodies() == before


def test_the_log_tells_of_overtaking_as_of_any_change():
    at = halfway(2)

    at.ask(AlterTable(REF, THIRD, at.attempt()))

    (written,) = at.last()
    assert (written["w"], written["version"]) == ("table.alter", 3)
    assert at.head.schema == 2


def test_the_key_stays_and_so_does_what_a_version_is_while_one_overtakes_another():
    at = halfway(2)
    other = Table("notes", "pages", {"id": "str", "by": "str"}, ("id",), {}, version=3)
    refuses(at, Invalid, AlterTable(REF, other.checked(), at.attempt()))
    at.ask(AlterTable(REF, THIRD, at.attempt()))
    third = Table("notes", "pages", THIRD.columns, THIRD.key, {}, version=3)

    refuses(at, TableDiffers, AlterTable(REF, third, at.attempt()))


def test_only_so_many_moves_are_overtaken_and_the_newest_can_go_on():
    count = OVERTAKEN_MAX + 2
    at = Desk(at_version(1))
    at.commit(*(PutRow(at_version(1), old(id)) for id in range(1, count + 1)))
    for version in range(2, OVERTAKEN_MAX + 3):
        at.ask(AlterTable(REF, at_version(version), at.attempt()))
        move(at, count + 1 - version, lambda row, _: row, at_version(version))
    newest = at_version(OVERTAKEN_MAX + 2)

    refuses(at, TableMigrating, AlterTable(REF, at_version(OVERTAKEN_MAX + 3), at.attempt()))
    move(at, count, lambda row, _: row, newest)
    at.ask(EndMove(REF, newest, at.attempt()))
    assert at.stored(newest) == stored_as(REF.partition, newest)


def test_a_chunk_has_room_for_the_widest_of_the_versions_it_may_meet():
    columns: Mapping[str, Any] = {"id": "int"} | {f"c{n}": "int" for n in range(16)}

    def wide(count: int, version: int) -> Table:
        indexes = {f"i{version}_{n}": (f"c{n}",) for n in range(count)}
        return Table("n", "w", columns, ("id",), indexes, version=version).checked()

    at = Desk(wide(0, 1))
    row = dict.fromkeys(columns, 1)
    at.commit(*(PutRow(wide(0, 1), row | {"id": id}) for id in range(9)))
    for table, count in ((wide(16, 2), 5), (wide(15, 3), 0)):
        at.ask(AlterTable(REF, table, at.attempt()))
        move(at, count, lambda row, _: row, table)
    most = chunk_rows_max(at.stored(wide(15, 3)))

    move(at, most, lambda row, _: row, wide(15, 3))

    assert most == 97 // (1 + 16 + 15)
    assert [row.version for row in at.rows(wide(0, 1))][:6] == [3, 3, 3, 2, 2, 1]
