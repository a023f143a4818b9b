"""Tables are declared as they shall be, once for each version."""

from __future__ import annotations

import pytest
from tests.support.documents import REF
from tests.support.store_desk import Desk
from tests.support.store_pages import NEW, OLD, refuses

from perdure.kernel.documents.declare import DECLARED_MAX, DeclareTables
from perdure.kernel.documents.errors import (
    NewerTable,
    TableDiffers,
)
from perdure.kernel.documents.tables import INDEXES_MAX, Table, stored_as
from perdure.kernel.errors import (
    Invalid,
    InvalidId,
    PerdureError,
    TooLarge,
)

pytestmark = pytest.mark.stores


def test_tables_are_made_in_one_commit_and_told_in_the_log():
    at = Desk(OLD, Table("notes", "other", {"id": "int"}, ("id",), {}))

    assert at.head.seq == 1
    assert [told["table"] for told in at.last()] == ["notes:pages", "notes:other"]
    assert at.stored(OLD) == stored_as(REF.partition, OLD)


def test_a_table_that_is_there_is_not_made_again():
    at = Desk(OLD)
    before = at.bodies()

    at.ask(DeclareTables(REF, (OLD,), at.attempt()))

    assert at.bodies() == before


def test_one_version_is_one_shape():
    at = Desk(OLD)
    other = Table("notes", "pages", OLD.columns, OLD.key, {})

    refuses(at, TableDiffers, DeclareTables(REF, (other,), at.attempt()))


def test_a_newer_version_is_told_to_be_behind_and_an_older_is_refused():
    at = Desk(NEW)
    newer = Table("notes", "pages", NEW.columns, NEW.key, {}, version=3)

    declared = at.ask(DeclareTables(REF, (newer,), at.attempt()))

    assert [(table.version, stored.version) for table, stored in declared.behind] == [(3, 2)]
    refuses(at, NewerTable, DeclareTables(REF, (OLD,), at.attempt()))


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (Table("notes:x", "a", {"id": "int"}, ("id",), {}), InvalidId),
        (Table("", "a", {"id": "int"}, ("id",), {}), InvalidId),
        (Table("notes", "a/b", {"id": "int"}, ("id",), {}), InvalidId),
        (Table("notes", "a", {"id": "int", "a b": "int"}, ("id",), {}), InvalidId),
        (Table("notes", "a", {"id": "int"}, ("id",), {"x" * 65: ("id",)}), InvalidId),
        (Table("notes", "a", {"id": "int"}, (), {}), Invalid),
        (Table("notes", "a", {"id": "json"}, ("id",), {}), Invalid),
        (Table("notes", "a", {"id": "float"}, ("id",), {}), Invalid),
        (Table("notes", "a", {"id": "int"}, ("no",), {}), Invalid),
        (Table("notes", "a", {"id": "int"}, ("id",), {"x": ()}), Invalid),
        (Table("notes", "a", {"id": "int", "b": "text"}, ("id",), {}), Invalid),  # type: ignore[dict-item]
        (Table("notes", "a", {"id": "int"}, ("id", "id"), {}), Invalid),
        (Table("notes", "a", {"id": "int"}, ("id",), {"x": ("id", "id")}), Invalid),
        (Table("notes", "a", {"id": "int"}, ("id",), {}, version=0), Invalid),
        (Table("notes", "a", {"id": "int"}, ("id",), {}, version=True), Invalid),
        (
            Table(
                "notes",
                "a",
                {"id": "int"},
                ("id",),
                {f"i{n}": ("id",) for n in range(INDEXES_MAX + 1)},
            ),
            TooLarge,
        ),
    ],
)
def test_what_no_store_can_keep_is_refused(table: Table, kind: type[PerdureError]):
    with pytest.raises(kind):
        table.checked()


def test_more_tables_than_one_commit_can_make_are_refused():
    tables = tuple(Table("n", f"t{n}", {"id": "int"}, ("id",), {}) for n in range(DECLARED_MAX + 1))

    with pytest.raises(TooLarge):
        DeclareTables(REF, tables, Desk().attempt()).checked()
    assert Desk(*tables[:DECLARED_MAX]).head.seq == 1
