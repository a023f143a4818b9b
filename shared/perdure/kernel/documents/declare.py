"""Declaring tables: made at their newest version, or found to need a migration first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perdure.kernel.caller import LOCAL, Caller
from perdure.kernel.documents.commit import (
    DocumentsRequest,
    OwnerGrip,
    check_open,
    check_owners,
    existing_head,
    logged,
)
from perdure.kernel.documents.records import store_head_key
from perdure.kernel.documents.step import Step
from perdure.kernel.documents.tables import (
    StoredTable,
    Table,
    check_table,
    stored_as,
    stored_table_key,
)
from perdure.kernel.errors import TooLarge
from perdure.kernel.ids import Instant, Token
from perdure.kernel.view import Decision, Reads, View

DECLARED_MAX = 80
"""Tables that one declaration makes or looks at. Source: COMMIT_ACTIONS_MAX."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What declaring came to: the store's change of tables, and those that must be migrated."""

    schema: int
    behind: tuple[tuple[Table, StoredTable], ...]
    """Tables whose rows have an older version, and what the store has of each."""


@dataclass(frozen=True, slots=True)
class DeclareTables(DocumentsRequest):
    """Make the tables that are not there, in one commit.

    Raises: NewerTable; TableDiffers for the same version with other columns, key or indexes;
    OwnerHeld and StaleWriter if one must be made.
    """

    tables: tuple[Table, ...]
    attempt: Token
    grips: tuple[OwnerGrip, ...] = ()
    by: Caller = LOCAL
    """Whose quota it is paid from."""

    def checked(self) -> DeclareTables:
        """Return self if a store can keep that. Raises Invalid kinds."""
        if len({table.full_name for table in self.tables}) > DECLARED_MAX:
            raise TooLarge(
                expected=f"at most {DECLARED_MAX} tables at once", found=str(len(self.tables))
            )
        for table in self.tables:
            table.checked()
        return self

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
            elif check_table(stored, table) < table.version:
                behind.append((table, stored))
        if not made:
            return Decision(Declared(head.schema, tuple(behind)))
        check_open(head, self.ref)
        head = check_owners(head, step.owners, self.grips, now)
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
