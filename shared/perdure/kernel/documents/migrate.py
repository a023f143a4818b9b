"""Migrations: the rows of a table brought to a newer version, chunk by chunk.

A table is altered, its rows are moved, and the move is ended: each a commit, each in the log with
what it wrote. Whoever stops in between leaves a table on its way, and whoever opens it next goes on.
A newer version overtakes a move that has not ended: its own begins with the first row, and finds each
row at the version that it has come to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from perdure.kernel.canonical import canonical
from perdure.kernel.documents import places
from perdure.kernel.documents.commit import (
    DocumentsRequest,
    OwnerGrip,
    check_open,
    check_owners,
    existing_head,
    logged,
)
from perdure.kernel.documents.declare import shape_of
from perdure.kernel.documents.errors import (
    MigrationFailed,
    RowAbsent,
    TableMigrating,
    UnknownTable,
)
from perdure.kernel.documents.export_parts import table_of
from perdure.kernel.documents.moves import (
    altered,
    check_alter,
    moved_up_to,
    moving_table,
    shapes_of,
)
from perdure.kernel.documents.places import Part
from perdure.kernel.documents.records import Row, StoreHead, row_key, store_head_key
from perdure.kernel.documents.rows import index_key, replace_row, row_of
from perdure.kernel.documents.step import Step
from perdure.kernel.documents.tables import (
    StoredTable,
    Table,
    check_table,
    stored_as,
    stored_table_key,
)
from perdure.kernel.errors import Conflict, Corrupt, InvalidValue, PerdureError, WrongType
from perdure.kernel.ids import Instant, Token
from perdure.kernel.limits import COMMIT_ACTIONS_MAX, COMMIT_BYTES_MAX
from perdure.kernel.places import after
from perdure.kernel.shown import shown
from perdure.kernel.view import Decision, Range, Reads, View

BESIDE_ROWS: Final = 3
"""Records of a chunk beside its rows: head, log entry, table."""

CHUNK_BYTES_MAX: Final = COMMIT_BYTES_MAX // 2
"""Canonical bytes of the rows of one chunk, beside the indexes; a larger row is one alone."""

MOVES: Final = frozenset({"table.alter", "row.move", "table.moved"})
"""What a log tells of a table that moves."""

Migrate = Callable[[dict[str, Any], int], dict[str, Any]]
"""Makes a row of a table's new version of one that was written with the version named."""


@dataclass(frozen=True, slots=True)
class Moved:
    """How far a table is, and the store's change of tables."""

    schema: int
    stored: StoredTable


@dataclass(frozen=True, slots=True)
class _TableRequest(DocumentsRequest):
    table: Table
    attempt: Token
    grips: tuple[OwnerGrip, ...] = ()

    def reads(self) -> Reads:
        stored = stored_table_key(self.stream, self.table.full_name)
        return Reads(keys=(store_head_key(self.stream),), peeks=(stored,))

    def _begun(self, view: View) -> tuple[StoreHead, Step, StoredTable]:
        """Return where a commit on the table starts. Raises as check_table, UnknownTable."""
        head = existing_head(view, self.ref)
        step = Step(view, head, head.next_id)
        stored = step.read(stored_table_key(self.stream, self.table.full_name))
        if stored is None:
            raise UnknownTable(expected="a table that was declared", found=self.table.full_name)
        check_table(stored, self.table)
        return head, step, stored

    def _check_way(self, stored: StoredTable) -> None:
        """Refuse to go on with a move to an older version. Raises TableMigrating."""
        if stored.moving_to not in (None, self.table.version):
            raise TableMigrating(
                expected=f"{stored.name} on its way to version {self.table.version}",
                found=f"on its way to version {stored.moving_to}: alter it first",
            )

    def _ended(
        self, head: StoreHead, step: Step, stored: StoredTable, now: Instant
    ) -> Decision[Moved]:
        check_open(head, self.ref)
        head = check_owners(head, step.owners, self.grips, now)
        after, entry = logged(head, step, self.attempt, now)
        return Decision(Moved(after.schema, stored), (*step.writes(), entry, after))


@dataclass(frozen=True, slots=True)
class AlterTable(_TableRequest):
    """Let a table be on its way to a newer version; from now on nobody writes to it as it was.

    Nothing if it is on that way, or there, already. A move to a version between is overtaken.
    Raises: NewerTable, TableDiffers, UnknownTable; Invalid for another key; TableMigrating if
    too many moves were overtaken; OwnerHeld, StaleWriter.
    """

    def decide(self, view: View, now: Instant) -> Decision[Moved]:
        head, step, stored = self._begun(view)
        if self.table.version in (stored.moving_to, stored.version):
            return Decision(Moved(head.schema, stored))
        return self._ended(head, step, alter(step, stored, self.table), now)


@dataclass(frozen=True, slots=True)
class MoveRows(_TableRequest):
    """Write the next rows of a moving table as its new version has them, in the order of their keys.

    Nothing if the table is not as far as ``behind`` says: somebody else was there.
    Raises: InvalidValue kinds for a row that is none of the table's; RowAbsent; NewerTable,
    TableMigrating if it is on its way to another version; OwnerHeld, StaleWriter.
    """

    behind: str | None = None
    rows: tuple[tuple[tuple[Part, ...], Mapping[str, Any]], ...] = ()

    def reads(self) -> Reads:
        keys = [row_key(self.stream, self.table.full_name, key) for key, _ in self.rows]
        return Reads.union(_TableRequest.reads(self), Reads(peeks=tuple(keys)))

    def decide(self, view: View, now: Instant) -> Decision[Moved]:
        head, step, stored = self._begun(view)
        self._check_way(stored)
        if stored.moving is None or stored.moving.behind != self.behind:
            return Decision(Moved(head.schema, stored))
        _require_places(step, stored, [key for key, _ in self.rows])
        for key, row in self.rows:
            stored = move_row(step, stored, key, dict(row))
        return self._ended(head, step, stored, now)


@dataclass(frozen=True, slots=True)
class EndMove(_TableRequest):
    """Let a table be at the version that all of its rows have by now.

    Nothing if rows are left, or it has ended already. Raises: NewerTable, TableMigrating if it is on
    its way to another version; OwnerHeld, StaleWriter.
    """

    def decide(self, view: View, now: Instant) -> Decision[Moved]:
        head, step, stored = self._begun(view)
        self._check_way(stored)
        if stored.moving is None or step.find(rows_left(stored, 1)):
            return Decision(Moved(head.schema, stored))
        return self._ended(head, step, end_move(step, stored), now)


def alter(step: Step, stored: StoredTable, table: Table) -> StoredTable:
    """Put a table on its way to another shape, as part of a commit. Raises as check_alter."""
    check_alter(stored, table)
    begun = altered(stored, table)
    step.put(begun)
    step.schema += 1
    step.owners.add(table.owner)
    step.tell("table.alter", shape_of(table))
    return begun


def move_row(
    step: Step, stored: StoredTable, key: tuple[Part, ...], row: dict[str, Any]
) -> StoredTable:
    """Write the next row of a moving table as its new version has it, as part of a commit.

    Raises: InvalidValue kinds, RowAbsent, Missing.
    """
    moving = stored.moving
    assert moving is not None, f"{stored.name} is at rest"
    table = moving_table(stored)
    made = row_of(step.store, table, row)
    if made.row_key != tuple(key):
        raise InvalidValue(expected=f"the key {shown(key)} to stay", found=shown(made.row_key))
    place = row_key(step.store, stored.name, key)
    if moving.behind is not None and place.sort <= moving.behind:
        raise InvalidValue(
            expected=f"a row of {stored.name} that was not moved yet", found=shown(key)
        )
    before = step.read(place)
    if before is None:
        raise RowAbsent(expected=f"a row {shown(key)} in {stored.name}", found="none")
    stood = set(written_as(stored, before).index_sorts(before.value))
    replace_row(step, table, before, made, stood)
    step.tell("row.move", {"table": stored.name, "version": table.version, "row": row})
    moved = moved_up_to(stored, place.sort)
    step.put(moved)
    return moved


def written_as(stored: StoredTable, row: Row) -> Table:
    """Return the table as it was when a row was written. Raises Corrupt."""
    shape = shapes_of(stored).get(row.version)
    if shape is None:
        raise Corrupt(
            expected=f"a row of {stored.name} of a version that it is told to have",
            found=f"version {row.version} for {shown(row.row_key)}",
        )
    return shape


def end_move(step: Step, stored: StoredTable) -> StoredTable:
    """Let a moving table be what it was on its way to, as part of a commit."""
    table = moving_table(stored)
    there = stored_as(step.store, table)
    step.put(there)
    step.schema += 1
    step.owners.add(table.owner)
    step.tell("table.moved", {"table": stored.name, "version": table.version})
    return there


def replay_move(step: Step, told: Mapping[str, Any]) -> None:
    """Apply what a log tells of a table that moves.

    Raises: UnknownTable, Conflict for what the table is not on its way to, and as the write did;
    KeyError, TypeError for what is not spelled as writes are.
    """
    stored = step.read(stored_table_key(step.store, told["table"]))
    if stored is None:
        raise UnknownTable(expected="a table that was declared", found=shown(told["table"]))
    if told["w"] == "table.alter":
        alter(step, stored, table_of(told))
        return
    if stored.moving is None or stored.moving.version != told["version"]:
        raise Conflict(
            expected=f"{stored.name} on its way to version {told['version']}",
            found=f"version {stored.moving_to or stored.version}",
        )
    if told["w"] == "row.move":
        key = moving_table(stored).key_of(told["row"])
        move_row(step, stored, key, told["row"])
    elif step.find(rows_left(stored, 1)):
        raise Conflict(expected=f"every row of {stored.name} to be moved", found="rows left")
    else:
        end_move(step, stored)


def rows_left(stored: StoredTable, limit: int) -> Range[Row]:
    """Return where the next rows lie that are not moved yet. U+0000 is in no sort key."""
    prefix = places.rows_prefix(stored.name)
    behind = None if stored.moving is None else stored.moving.behind
    first = prefix if behind is None else f"{behind}\0"
    return Range(stored.partition, first, after(prefix), Row, limit=limit)


def chunk_rows_max(stored: StoredTable) -> int:
    """Return how many rows a chunk may have, whatever places in indexes each leaves and takes."""
    assert stored.moving is not None, f"{stored.name} is at rest"
    left = max(len(each.indexes) for each in shapes_of(stored).values())
    each = 1 + left + len(stored.moving.indexes)
    return max(1, (COMMIT_ACTIONS_MAX - BESIDE_ROWS) // each)


def migrated(
    stored: StoredTable, rows: Sequence[Row], migrate: Migrate
) -> tuple[tuple[tuple[Part, ...], Mapping[str, Any]], ...]:
    """Return the next rows as the new version has them, as many as one commit may write.

    Raises MigrationFailed for what ``migrate`` raises or makes.
    """
    table = moving_table(stored)
    made: list[tuple[tuple[Part, ...], Mapping[str, Any]]] = []
    size = 0
    for each in rows:
        row = _migrated(table, each, migrate)
        size += len(canonical(row))
        if made and size > CHUNK_BYTES_MAX:
            break
        made.append((each.row_key, row))
    return tuple(made)


def _migrated(table: Table, row: Row, migrate: Migrate) -> dict[str, Any]:
    expected = f"a row of {table.full_name} at version {table.version} for {shown(row.row_key)}"
    try:
        made = migrate(deepcopy(row.value), row.version)
        table.check_row(_row(made))
    except PerdureError as error:
        found = f"{error.found}, where {error.expected} must be"
        raise MigrationFailed(expected=expected, found=found) from error
    except Exception as error:
        raise MigrationFailed(expected=expected, found=repr(error)) from error
    if table.key_of(made) != row.row_key:
        raise MigrationFailed(expected=expected, found=f"one for {shown(table.key_of(made))}")
    return made


def _row(made: object) -> dict[str, Any]:
    if not isinstance(made, dict):
        raise WrongType(expected="a dict", found=shown(made))
    return made


def _require_places(step: Step, stored: StoredTable, keys: Sequence[tuple[Part, ...]]) -> None:
    """Ask at once for all that the rows of a chunk may leave. Raises Missing."""
    rows = [step.read(row_key(step.store, stored.name, key)) for key in keys]
    sorts = [
        sort
        for row in rows
        if row is not None
        for sort in written_as(stored, row).index_sorts(row.value)
    ]
    step.require(*(index_key(step.store, sort) for sort in sorts))
