"""Tables of an open store: declared, and brought to their version."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.kernel.documents.declare import Declared, DeclareTables
from perdure.kernel.documents.errors import TableMigrating
from perdure.kernel.documents.tables import Table
from perdure.runtime.documents.store import OpenStore


async def prepared(store: OpenStore, tables: Sequence[Table]) -> Declared:
    """Make what is missing of an owner's tables. Raises TableMigrating, NewerTable, SchemaMismatch."""
    declared = await store.declared(
        DeclareTables(store.ref, tuple(table.checked() for table in tables), store.attempt())
    )
    if declared.behind:
        table, version = declared.behind[0]
        raise TableMigrating(
            expected=f"{table.full_name} at version {table.version}", found=f"version {version}"
        )
    return declared
