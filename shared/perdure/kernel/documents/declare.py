"""Declaring tables: made at their newest version, or found to need a migration first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perdure.kernel.documents.commit import DocumentsRequest, existing_head, logged
from perdure.kernel.documents.errors import NewerTable, TableMigrating
from perdure.kernel.documents.records import store_head_key
from perdure.kernel.documents.step import Step
from perdure.kernel.documents.tables import StoredTable, Table, stored_as, stored_table_key
from perdure.kernel.errors import SchemaMismatch
from perdure.kernel.ids import Instant, Token
from perdure.kernel.view import Decision, Reads, View

DECLARED_MAX = 40
"""Tables of one declaration. Source: COMMIT_ACTIONS_MAX."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What declaring came to: the store's change of tables, and those that must be migrated."""

    schema: int
    behind: tuple[tuple[Table, int], ...]
    """Tables whose rows have an older version, and which."""


@dataclass(frozen=True, slots=True)
class DeclareTables(DocumentsRequest):
    """Make the tables that are not there, in one commit.

    Raises: NewerTable; SchemaMismatch for the same version with other columns, key or indexes.
    """

    tables: tuple[Table, ...]
    attempt: Token

    def reads(self) -> Reads:
        keys = [stored_table_key(self.stream, table.full_name) for table in self.tables]
        return Reads(keys=(store_head_key(self.stream),), peeks=tuple(keys))

    def decide(self, view: View, now: Instant) -> Decision[Declared]:
        head = existing_head(view, self.ref)
        step = Step(view, head, head.next_id)
        behind = []
        made = False
        for table in self.tables:
            stored = step.read(stored_table_key(self.stream, table.full_name))
            if stored is None:
                made = True
                declare(step, table)
            elif check_table(stored, table) < table.version or stored.moving_to is not None:
                behind.append((table, stored.version))
        if not made:
            return Decision(Declared(head.schema, tuple(behind)))
        after, entry = logged(head, step, self.attempt, now)
        return Decision(Declared(after.schema, tuple(behind)), (*step.writes(), entry, after))


def declare(step: Step, table: Table) -> None:
    """Make a table, as part of a commit."""
    step.put(stored_as(step.store, table))
    step.owners.add(table.owner)
    step.tell("table.declare", shape_of(table))


def shape_of(table: Table) -> Mapping[str, object]:
    """Return what a log or an export says of a table."""
    return {
        "table": table.full_name,
        "version": table.version,
        "columns": dict(table.columns),
        "key": list(table.key),
        "indexes": {name: list(columns) for name, columns in table.indexes.items()},
    }


def check_table(stored: StoredTable, table: Table) -> int:
    """Return the version of a stored table that ``table`` declares. Raises as DeclareTables."""
    if stored.version > table.version or (stored.moving_to or 0) > table.version:
        raise NewerTable(
            expected=f"{table.full_name} at version {table.version} or older",
            found=f"version {stored.moving_to or stored.version}",
        )
    if stored.moving_to is not None and stored.moving_to != table.version:
        raise TableMigrating(
            expected=f"{table.full_name} at rest, or on its way to {table.version}",
            found=f"on its way to version {stored.moving_to}",
        )
    if stored.version == table.version and stored.fingerprint != table.fingerprint:
        raise SchemaMismatch(
            expected=f"version {table.version} of {table.full_name} as it was declared before",
            found="other columns, key or indexes: a change needs a new version",
        )
    return stored.version
