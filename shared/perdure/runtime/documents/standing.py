"""Tables of an open store: what this handle declares, and whether that is what stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from perdure.kernel.documents.conversation import ClaimId
from perdure.kernel.documents.declare import Declared
from perdure.kernel.documents.places import DocumentStoreRef, table_named
from perdure.kernel.documents.records import StoreHead, store_head_key
from perdure.kernel.documents.rows import RowWrite, check_stands
from perdure.kernel.documents.step import StagedWrite
from perdure.kernel.documents.tables import Table, stored_table_key
from perdure.kernel.view import Missing, View

T = TypeVar("T")


class OwnTables:
    """What one handle takes a store's tables for, and at which change of tables each stood so.

    A table that was changed elsewhere is looked at again once somebody reads it or writes to it.
    """

    def __init__(self) -> None:
        self._declared: dict[str, Table] = {}
        self._stood: dict[str, int] = {}

    def take(self, tables: Iterable[Table], declared: Declared) -> None:
        """Take tables for what they were declared as.

        One that is to be migrated first stays what it is to this handle as long as that stands.
        """
        behind = {table.full_name: stored for table, stored in declared.behind}
        for table in tables:
            stored = behind.get(table.full_name)
            if stored is None:
                self._declared[table.full_name] = table
                self._stood[table.full_name] = declared.schema
            elif table.full_name not in self._declared or stored.moving is not None:
                self.expect(table)

    def expect(self, table: Table) -> None:
        """Take a table for what it is on its way to be: it is not looked at before it is there."""
        self._declared[table.full_name] = table
        self._stood.pop(table.full_name, None)

    def known(self, staged: Sequence[StagedWrite]) -> tuple[int | None, list[Table]]:
        """Return the change at which all tables that writes are of stood, or what to look at first.

        Neither if they are of no table, or of one that this handle has not declared so: a commit
        then holds each to what the store has.
        """
        tables = written(staged)
        if any(self._declared.get(table.full_name) != table for table in tables):
            return None, []
        stood = {self._stood.get(table.full_name) for table in tables}
        return (stood.pop(), []) if len(stood) == 1 and None not in stood else (None, tables)

    def held(
        self, look: Callable[[View], T], ref: DocumentStoreRef
    ) -> Callable[[View], tuple[T, list[Table]]]:
        """Return a look that also returns the tables of this handle that it was held to.

        It raises what is wrong with them, also for what the look itself trips over: NewerTable,
        TableMigrating, TableDiffers, UnknownTable.
        """

        def held(view: View) -> tuple[T, list[Table]]:
            try:
                found = look(view)
            except Missing:
                raise
            except Exception:
                self._check_looked_at(view, ref)
                raise
            return found, self._check_looked_at(view, ref)

        return held

    def check(self, tables: Sequence[Table], view: View, ref: DocumentStoreRef) -> None:
        """Refuse tables that are not what they were declared as.

        Raises: Missing, NewerTable, TableMigrating, TableDiffers, UnknownTable.
        """
        keys = [stored_table_key(ref.partition, table.full_name) for table in tables]
        view.require(peeks=keys)
        for key, table in zip(keys, tables, strict=True):
            check_stands(view.peek(key), table)

    def stand(self, tables: Iterable[Table], head: StoreHead) -> None:
        """Note that tables were seen to stand at a head."""
        for table in tables:
            if self._declared.get(table.full_name) == table:
                self._stood[table.full_name] = head.schema

    def _check_looked_at(self, view: View, ref: DocumentStoreRef) -> list[Table]:
        head = view.peek(store_head_key(ref.partition))
        assert head is not None, "a reading begins with the head"
        changed = {
            name: table
            for name, table in self._declared.items()
            if self._stood.get(name) != head.schema
        }
        if not changed:
            return []
        reads = view.reads()
        sorts = [key.sort for key in (*reads.keys, *reads.peeks)]
        seen = {table_named(sort) for sort in (*sorts, *(each.first for each in reads.ranges))}
        tables = [table for name, table in changed.items() if name in seen]
        self.check(tables, view, ref)
        return tables


def written(staged: Sequence[StagedWrite]) -> list[Table]:
    """Return the tables whose rows writes are of."""
    found: list[Table] = []
    for each in staged:
        if isinstance(each, RowWrite):
            found.append(each.table)
        elif isinstance(each, ClaimId):
            found.append(each.tables.record_ids)
    return found
