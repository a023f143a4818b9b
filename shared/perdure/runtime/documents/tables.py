"""Tables of an open store: declared, and brought to their version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from perdure.kernel.documents.declare import Declared
from perdure.kernel.documents.errors import TableMigrating
from perdure.kernel.documents.migrate import (
    AlterTable,
    EndMove,
    Migrate,
    Moved,
    MoveRows,
    chunk_rows_max,
    migrated,
    rows_left,
)
from perdure.kernel.documents.moves import altered, shapes_of
from perdure.kernel.documents.records import Row
from perdure.kernel.documents.tables import StoredTable, Table, check_table, stored_table_key
from perdure.kernel.view import View
from perdure.runtime.documents.store import OpenStore

AS_IT_WAS: Final[Migrate] = lambda row, _: row  # noqa: E731  # a value among others
NO_MIGRATIONS: Final[Mapping[str, Migrate]] = {}


async def prepared(
    store: OpenStore,
    tables: Sequence[Table],
    migrations: Mapping[str, Migrate] = NO_MIGRATIONS,
) -> Declared:
    """Make what is missing of an owner's tables, and bring rows of older versions to the present.

    ``migrations`` are by a table's name without its owner. A table whose columns stay needs none.
    What stops in between is gone on with by whoever prepares the table next. A move to an older
    version that has not ended is overtaken: a migration is given rows of that version as well.
    Raises: TableMigrating for a table that has no migration; MigrationFailed, and the table stays
    on its way; NewerTable, also if a newer version overtakes this one; TableDiffers, OwnerHeld,
    StaleWriter.
    """
    declared = await store.declared(tables)
    for table, stored in declared.behind:
        await _moved(store, table, stored, migrations.get(table.name))
    return await store.declared(tables) if declared.behind else declared


async def _moved(
    store: OpenStore, table: Table, stored: StoredTable, migrate: Migrate | None
) -> None:
    """Bring a table to its version, from wherever it is."""
    if migrate is None:
        older = [each for each in _written_as(stored, table) if each.columns != table.columns]
        if older:
            raise TableMigrating(
                expected=f"a migration of {table.full_name} to version {table.version}",
                found=f"none, and rows of version {older[0].version}",
            )
        migrate = AS_IT_WAS
    grips = store.grips
    moved: Moved = await store.ordered(AlterTable(store.ref, table, store.attempt(), grips))
    store.tables.expect(table)
    while moved.stored.moving is not None:
        moved = await _chunk_moved(store, table, migrate)


def _written_as(stored: StoredTable, table: Table) -> list[Table]:
    """Return what rows may have been written as that ``table`` is to be brought from."""
    begun = stored if stored.moving_to == table.version else altered(stored, table)
    return [each for version, each in shapes_of(begun).items() if version != table.version]


async def _chunk_moved(store: OpenStore, table: Table, migrate: Migrate) -> Moved:
    """Move the next rows from wherever the table is by now: others may be moving it as well."""

    def look(view: View) -> tuple[StoredTable | None, list[Row]]:
        stored = view.peek(stored_table_key(store.ref.partition, table.full_name))
        if stored is None:
            return stored, []
        check_table(stored, table)  # rows of a newer version would mean nothing to this one
        if stored.moving is None:
            return stored, []
        return stored, view.find(rows_left(stored, chunk_rows_max(stored)))

    stored, rows = await store.look(look)
    if stored is None or stored.moving is None or not rows:
        return await store.ordered(EndMove(store.ref, table, store.attempt(), store.grips))
    chunk = migrated(stored, rows, migrate)
    return await store.ordered(
        MoveRows(store.ref, table, store.attempt(), store.grips, stored.moving.behind, chunk)
    )
