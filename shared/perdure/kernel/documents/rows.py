"""Writes of rows: insert, put, update, delete, one by one or by what they hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from perdure.kernel.canonical import canonical
from perdure.kernel.documents import places
from perdure.kernel.documents.errors import (
    RowAbsent,
    RowCountDiffers,
    RowExists,
    TableMigrating,
    UnknownTable,
)
from perdure.kernel.documents.ops import owned
from perdure.kernel.documents.places import Part
from perdure.kernel.documents.records import IndexRow, Row, row_key
from perdure.kernel.documents.step import Step
from perdure.kernel.documents.tables import Table, check_table, stored_table_key
from perdure.kernel.errors import InvalidValue, TooLarge
from perdure.kernel.ids import Partition
from perdure.kernel.places import after
from perdure.kernel.shown import shown
from perdure.kernel.view import Key, Range, Reads

WHERE_ROWS_MAX: Final = 24
"""Rows that one write by condition may touch. Source: COMMIT_ACTIONS_MAX, with three index rows
each."""

WHERE_SCAN_MAX: Final = 1_000
"""Rows that one write by condition looks at."""


@dataclass(frozen=True, slots=True)
class _RowWrite:
    table: Table

    _given: ClassVar[tuple[str, ...]] = ()
    """What is the caller's own, who may change it before the commit has its turn."""

    def __post_init__(self) -> None:
        for name in self._given:
            object.__setattr__(self, name, owned(getattr(self, name)))

    @property
    def owner(self) -> str:
        return self.table.owner

    @property
    def names_id(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class InsertRow(_RowWrite):
    """Write a row under a key that is free. ``stamps`` are columns that take the commit's seq."""

    _given: ClassVar[tuple[str, ...]] = ("row",)

    row: Mapping[str, Any]
    stamps: tuple[str, ...] = ()

    def reads(self, store: Partition) -> Reads:
        key = place_of(store, self.table, self.row, self.stamps)
        return Reads(keys=(key,), absent=frozenset((key,)))

    def apply(self, step: Step) -> None:
        row = row_of(step.store, self.table, stamped(self.row, self.stamps, step))
        if step.read(row.key) is not None:
            raise RowExists(expected=f"no row {shown(row.row_key)} in {row.table}", found="one")
        insert_row(step, self.table, row)


@dataclass(frozen=True, slots=True)
class PutRow(_RowWrite):
    """Write a row, whether or not there is one under its key."""

    _given: ClassVar[tuple[str, ...]] = ("row",)

    row: Mapping[str, Any]
    stamps: tuple[str, ...] = ()

    def reads(self, store: Partition) -> Reads:
        return Reads(keys=(place_of(store, self.table, self.row, self.stamps),))

    def apply(self, step: Step) -> None:
        row = row_of(step.store, self.table, stamped(self.row, self.stamps, step))
        write_row(step, self.table, step.read(row.key), row)
        step.tell("row.put", {"table": row.table}, row=row.spelled)


@dataclass(frozen=True, slots=True)
class UpdateRow(_RowWrite):
    """Change columns of a row that is there; its key stays."""

    _given: ClassVar[tuple[str, ...]] = ("changes",)

    row_key: tuple[Part, ...]
    changes: Mapping[str, Any] = field(default_factory=dict)

    def reads(self, store: Partition) -> Reads:
        self.table.check_key(self.row_key)
        self.table.check_values(self.changes)
        return Reads(peeks=(row_key(store, self.table.full_name, self.row_key),))

    def apply(self, step: Step) -> None:
        before = existing_row(step, self.table, self.row_key)
        changed = _changed(self.table, before, self.changes)
        write_row(step, self.table, before, changed)
        told = {"table": self.table.full_name, "key": self.row_key, "changes": self.changes}
        step.tell("row.update", told)


@dataclass(frozen=True, slots=True)
class DeleteRow(_RowWrite):
    """Take away a row that is there."""

    row_key: tuple[Part, ...]

    def reads(self, store: Partition) -> Reads:
        self.table.check_key(self.row_key)
        return Reads(peeks=(row_key(store, self.table.full_name, self.row_key),))

    def apply(self, step: Step) -> None:
        before = existing_row(step, self.table, self.row_key)
        write_row(step, self.table, before, None)
        step.tell("row.delete", {"table": self.table.full_name, "key": self.row_key})


@dataclass(frozen=True, slots=True)
class UpdateWhere(_RowWrite):
    """Change columns of every row whose columns hold the values of ``where``.

    ``count`` is how many those must be, if that is known. Raises RowCountDiffers; TooLarge for more
    than WHERE_ROWS_MAX. It sees what its commit has written before it.
    """

    _given: ClassVar[tuple[str, ...]] = ("where", "changes")

    where: Mapping[str, Any]
    changes: Mapping[str, Any] = field(default_factory=dict)
    count: int | None = None

    def reads(self, store: Partition) -> Reads:
        self.table.check_values(self.where)
        self.table.check_values(self.changes)
        return Reads(ranges=(_all_rows(store, self.table),))

    def apply(self, step: Step) -> None:
        rows = _matching(step, self.table, self.where, self.count)
        changed = [_changed(self.table, each, self.changes) for each in rows]
        _require_places(step, self.table, zip(rows, changed, strict=True))
        for before, row in zip(rows, changed, strict=True):
            write_row(step, self.table, before, row)
        told = {"table": self.table.full_name, "where": self.where, "changes": self.changes}
        step.tell("rows.update", {**told, "count": len(rows)})


@dataclass(frozen=True, slots=True)
class DeleteWhere(_RowWrite):
    """Take away every row whose columns hold the values of ``where``; see :class:`UpdateWhere`."""

    _given: ClassVar[tuple[str, ...]] = ("where",)

    where: Mapping[str, Any]
    count: int | None = None

    def reads(self, store: Partition) -> Reads:
        self.table.check_values(self.where)
        return Reads(ranges=(_all_rows(store, self.table),))

    def apply(self, step: Step) -> None:
        rows = _matching(step, self.table, self.where, self.count)
        _require_places(step, self.table, ((each, None) for each in rows))
        for each in rows:
            write_row(step, self.table, each, None)
        told = {"table": self.table.full_name, "where": self.where, "count": len(rows)}
        step.tell("rows.delete", told)


RowWrite = InsertRow | PutRow | UpdateRow | DeleteRow | UpdateWhere | DeleteWhere


def place_of(
    store: Partition, table: Table, row: Mapping[str, Any], stamps: tuple[str, ...]
) -> Key[Row]:
    """Return where a row lies that a table can have. Raises InvalidValue kinds, TooLarge."""
    if any(name in table.key for name in stamps):
        raise InvalidValue(
            expected=f"stamps beside the key of {table.full_name}", found=shown(stamps)
        )
    return row_key(store, table.full_name, table.checked_key(row))


def stamped(row: Mapping[str, Any], stamps: tuple[str, ...], step: Step) -> dict[str, Any]:
    """Return a row with the values that only the step knows; it is checked as it is spelled."""
    return {**row, **dict.fromkeys(stamps, step.seq)} if stamps else dict(row)


def existing_row(step: Step, table: Table, key: tuple[Part, ...]) -> Row:
    """Return the row under a key. Raises RowAbsent."""
    found = step.read(row_key(step.store, table.full_name, key))
    if found is None:
        raise RowAbsent(expected=f"a row {shown(key)} in {table.full_name}", found="none")
    return found


def row_of(store: Partition, table: Table, value: dict[str, Any]) -> Row:
    """Return a row, checked and spelled. Raises InvalidValue kinds, TooLarge."""
    spelled = table.spelled_row(value)
    return Row(
        partition=store,
        table=table.full_name,
        version=table.version,
        row_key=table.key_of(value),
        value=value,
        spelled=spelled,
    )


def insert_row(step: Step, table: Table, row: Row) -> None:
    """Write a row where none was, and tell the log of it. Raises as :func:`write_row`."""
    write_row(step, table, None, row)
    step.tell("row.insert", {"table": row.table}, row=row.spelled)


def write_row(step: Step, table: Table, before: Row | None, row: Row | None) -> None:
    """Write a row with its place in every index, or take both away.

    Raises: UnknownTable, NewerTable, TableMigrating if the tables are still to be proved.
    """
    if step.proves_tables:
        prove_table(step, table)
    stood = set() if before is None else set(table.index_sorts(before.value))
    replace_row(step, table, before, row, stood)


def replace_row(
    step: Step, table: Table, before: Row | None, row: Row | None, stood: set[str]
) -> None:
    """Write a row, or none, where one stood in its table and at these places of indexes."""
    stands = set() if row is None else set(table.index_sorts(row.value))
    if stood:
        gone = [index_key(step.store, sort) for sort in sorted(stood - stands)]
        step.require(*gone)
        for key in gone:
            step.remove(key)
    if row is None:
        assert before is not None, "a row that is taken away was there"
        step.remove(before.key)
    else:
        step.put(row)
        for sort in sorted(stands - stood):
            step.put(IndexRow(partition=step.store, sort=sort, row_key=row.row_key))
    step.owners.add(table.owner)


def index_key(store: Partition, sort: str) -> Key[IndexRow]:
    return Key(store, sort, IndexRow)


def prove_table(step: Step, table: Table) -> None:
    """Hold a table to what the store has of it.

    Raises: UnknownTable, NewerTable, TableMigrating, SchemaMismatch.
    """
    stored = step.read(stored_table_key(step.store, table.full_name))
    if stored is None:
        raise UnknownTable(expected="a table that was declared", found=table.full_name)
    if check_table(stored, table) < table.version or stored.moving is not None:
        raise TableMigrating(
            expected=f"{table.full_name} at version {table.version}",
            found=f"version {stored.version}: its rows are still to be migrated",
        )


def _changed(table: Table, before: Row, changes: Mapping[str, Any]) -> Row:
    changed = row_of(before.partition, table, {**before.value, **changes})
    if changed.row_key != before.row_key:
        raise InvalidValue(
            expected=f"the key {shown(before.row_key)} to stay", found=shown(changed.row_key)
        )
    return changed


def _require_places(step: Step, table: Table, many: Iterable[tuple[Row, Row | None]]) -> None:
    """Ask at once for the places of indexes that many rows leave. Raises Missing."""
    step.require(
        *(
            index_key(step.store, sort)
            for before, row in many
            for sort in set(table.index_sorts(before.value))
            - set(() if row is None else table.index_sorts(row.value))
        )
    )


def _all_rows(store: Partition, table: Table) -> Range[Row]:
    prefix = places.rows_prefix(table.full_name)
    return Range(store, prefix, after(prefix), Row, limit=WHERE_SCAN_MAX + 1)


def _matching(step: Step, table: Table, where: Mapping[str, Any], count: int | None) -> list[Row]:
    wanted = _all_rows(step.store, table)
    found = step.find_now(wanted)
    if max(len(found), len(step.find(wanted))) > WHERE_SCAN_MAX:
        raise TooLarge(
            expected=f"a table of at most {WHERE_SCAN_MAX} rows to write by condition",
            found="more",
        )
    rows = [each for each in found if _fits(each.value, where)]
    if len(rows) > WHERE_ROWS_MAX:
        raise TooLarge(
            expected=f"at most {WHERE_ROWS_MAX} rows in one write by condition",
            found=str(len(rows)),
        )
    if count is not None and len(rows) != count:
        raise RowCountDiffers(expected=f"{count} rows in {table.full_name}", found=str(len(rows)))
    return rows


def _fits(value: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    return all(canonical(value.get(name)) == canonical(each) for name, each in where.items())
