"""Writes of rows: insert, put, update, delete, one by one or by what they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
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
from perdure.kernel.documents.tables import (
    StoredTable,
    Table,
    check_table,
    stored_table_key,
)
from perdure.kernel.errors import InvalidValue, TooLarge
from perdure.kernel.ids import Partition
from perdure.kernel.limits import SORT_BYTES_MAX
from perdure.kernel.places import after
from perdure.kernel.shown import shown
from perdure.kernel.view import Key, Range, Reads

WHERE_RECORDS_MAX: Final = 96
"""Records that one write by condition may write: rows that change, and each place in an index that
one of them leaves or takes. Source: COMMIT_ACTIONS_MAX, beside head, log entry and commit id."""

WHERE_SCAN_MAX: Final = 1_000
"""Rows that one write by condition looks at: those that its key's first columns or an index hold
together, if ``where`` tells these, else all of the table."""


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
        step.tell_row("row.put", row.table, row.spelled)


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

    ``count`` is how many those must be, if that is known. A row that holds the changes already is
    counted and not written. It sees what its commit has written before it.
    Raises: RowCountDiffers; TooLarge for more than WHERE_RECORDS_MAX or WHERE_SCAN_MAX.
    """

    _given: ClassVar[tuple[str, ...]] = ("where", "changes")

    where: Mapping[str, Any]
    changes: Mapping[str, Any] = field(default_factory=dict)
    count: int | None = None

    def reads(self, store: Partition) -> Reads:
        self.table.check_values(self.where)
        self.table.check_values(self.changes)
        return Reads(ranges=(_where_lie(store, self.table, self.where),))

    def apply(self, step: Step) -> None:
        rows = _matching(step, self.table, self.where, self.count)
        changed = [(each, _changed(self.table, each, self.changes)) for each in rows]
        _write_many(step, self.table, [each for each in changed if _differs(*each)])
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
        return Reads(ranges=(_where_lie(store, self.table, self.where),))

    def apply(self, step: Step) -> None:
        rows = _matching(step, self.table, self.where, self.count)
        _write_many(step, self.table, [(each, None) for each in rows])
        told = {"table": self.table.full_name, "where": self.where, "count": len(rows)}
        step.tell("rows.delete", told)


RowWrite = InsertRow | PutRow | UpdateRow | DeleteRow | UpdateWhere | DeleteWhere


def place_of(
    store: Partition, table: Table, row: Mapping[str, Any], stamps: tuple[str, ...]
) -> Key[Row]:
    """Return where a row lies that a table can have. Raises InvalidValue kinds, TooLarge."""
    if stamps and not set(stamps).isdisjoint(table.key):
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
    step.tell_row("row.insert", row.table, row.spelled)


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
        for sort in sorted(stands - stood) if stands else ():
            step.put(IndexRow(partition=step.store, sort=sort, row_key=row.row_key))
    step.owners.add(table.owner)


def index_key(store: Partition, sort: str) -> Key[IndexRow]:
    return Key(store, sort, IndexRow)


def prove_table(step: Step, table: Table) -> None:
    """Hold a table to what the store has of it. Raises as :func:`check_stands`."""
    check_stands(step.read(stored_table_key(step.store, table.full_name)), table)


def check_stands(stored: StoredTable | None, table: Table) -> None:
    """Refuse a table that is not what it is declared as, or not yet.

    Raises: UnknownTable, NewerTable, TableMigrating, TableDiffers.
    """
    if stored is None:
        raise UnknownTable(expected="a table that was declared", found=table.full_name)
    if check_table(stored, table) < table.version or stored.moving is not None:
        way = "" if stored.moving is None else f", on its way to {stored.moving_to}"
        raise TableMigrating(
            expected=f"{table.full_name} at version {table.version}",
            found=f"version {stored.version}{way}: prepare it, or wait for whoever does",
        )


def _changed(table: Table, before: Row, changes: Mapping[str, Any]) -> Row:
    changed = row_of(before.partition, table, {**before.value, **changes})
    if changed.row_key != before.row_key:
        raise InvalidValue(
            expected=f"the key {shown(before.row_key)} to stay", found=shown(changed.row_key)
        )
    return changed


def _differs(before: Row, row: Row) -> bool:
    return row.spelled != canonical(before.value)  # 1 equals True, and 1.0


def _write_many(step: Step, table: Table, many: Sequence[tuple[Row, Row | None]]) -> None:
    """Write rows that a condition has met, with their places. Raises TooLarge, Missing."""
    leaves: list[str] = []
    records = len(many)
    for before, row in many:
        stood = set(table.index_sorts(before.value))
        stands = set() if row is None else set(table.index_sorts(row.value))
        leaves += stood - stands
        records += len(stood ^ stands)
    if records > WHERE_RECORDS_MAX:
        raise TooLarge(
            expected=f"a write by condition of at most {WHERE_RECORDS_MAX} records, which are rows"
            " and their places in indexes",
            found=f"{records} records, of {len(many)} rows",
        )
    step.require(*(index_key(step.store, sort) for sort in leaves))
    for before, row in many:
        write_row(step, table, before, row)


def _where_lie(
    store: Partition, table: Table, where: Mapping[str, Any]
) -> Range[Row] | Range[IndexRow]:
    """Return where all rows lie that may hold the values of ``where``, or their places in an index."""
    limit = WHERE_SCAN_MAX + 1
    prefix = places.rows_prefix(table.full_name)
    leading = list(takewhile(where.__contains__, table.key))
    if leading:
        with suppress(TooLarge):  # no key holds that, so no row of the table does
            prefix += places.spelled_key([where[name] for name in leading])
    for index, columns in () if leading else table.indexes.items():
        if all(where.get(name) for name in columns):
            place = places.index_prefix(table.full_name, index, [where[each] for each in columns])
            if len(place) <= SORT_BYTES_MAX:
                return Range(store, place, after(place), IndexRow, limit=limit)
    if len(prefix) > SORT_BYTES_MAX:
        prefix = places.rows_prefix(table.full_name)
    return Range(store, prefix, after(prefix), Row, limit=limit)


def _found(step: Step, table: Table, where: Mapping[str, Any]) -> list[Row]:
    """Return the rows that may hold the values of ``where``. Raises TooLarge, Missing."""
    wanted: Range[Any] = _where_lie(step.store, table, where)
    found = step.find_now(wanted)
    if max(len(found), len(step.find(wanted))) > WHERE_SCAN_MAX:
        raise TooLarge(
            expected=f"at most {WHERE_SCAN_MAX} rows to look at in a write by condition",
            found="more",
        )
    if wanted.of is Row:
        return found
    keys = [row_key(step.store, table.full_name, place.row_key) for place in found]
    step.require(*keys)
    return [row for key in keys if (row := step.read(key)) is not None]


def _matching(step: Step, table: Table, where: Mapping[str, Any], count: int | None) -> list[Row]:
    if step.proves_tables:  # though no row may fit
        prove_table(step, table)
    rows = [each for each in _found(step, table, where) if _fits(table, each.value, where)]
    if rows:
        step.owners.add(table.owner)
    if count is not None and len(rows) != count:
        raise RowCountDiffers(expected=f"{count} rows in {table.full_name}", found=str(len(rows)))
    return rows


def _fits(table: Table, value: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    return all(_equal(table, name, value.get(name), each) for name, each in where.items())


def _equal(table: Table, name: str, value: Any, wanted: Any) -> bool:
    if table.columns[name] == "float":  # one number, however it is spelled: 1, 1.0, and -0.0 is 0
        return bool(value == wanted)
    return canonical(value) == canonical(wanted)
