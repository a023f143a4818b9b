"""Moves of a table to a newer version: how far each has come, and what it has overtaken."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from perdure.kernel.documents.errors import NewerTable, TableMigrating
from perdure.kernel.documents.tables import Moving, StoredTable, Table, declared_by, shaped
from perdure.kernel.errors import Invalid
from perdure.kernel.shown import shown

OVERTAKEN_MAX: Final = 8
"""Moves of one table that newer versions have overtaken before their end: each keeps its columns
and indexes in the table's record. Source: choice."""


def moving_table(stored: StoredTable) -> Table:
    """Return the table that a moving table is on its way to be."""
    assert stored.moving is not None, f"{stored.name} is at rest"
    return _moved_by(stored, stored.moving)


def shapes_of(stored: StoredTable) -> dict[int, Table]:
    """Return what rows of a table may be, by version: of several while it moves."""
    moves = stored.overtaken if stored.moving is None else (*stored.overtaken, stored.moving)
    between = {each.version: _moved_by(stored, each) for each in moves}
    return {stored.version: declared_by(stored), **between}


def altered(stored: StoredTable, table: Table) -> StoredTable:
    """Return what a store keeps of a table that is to be brought to another shape from now on.

    What an earlier move has come to stays known: its rows are of its version until they are met.
    """
    moving = stored.moving
    overtaken = stored.overtaken
    if moving is not None and moving.behind is not None:
        overtaken = (moving, *overtaken)
    return replace(stored, moving=moving_to(table), overtaken=overtaken)


def moved_up_to(stored: StoredTable, sort: str) -> StoredTable:
    """Return what a store keeps of a moving table whose rows up to a sort key are there."""
    assert stored.moving is not None, f"{stored.name} is at rest"
    overtaken = tuple(each for each in stored.overtaken if (each.behind or "") > sort)
    return replace(stored, moving=replace(stored.moving, behind=sort), overtaken=overtaken)


def moving_to(table: Table) -> Moving:
    """Return what a store keeps of a table that rows are being brought to."""
    return Moving(
        version=table.version,
        fingerprint=table.fingerprint,
        columns=dict(table.columns),
        indexes={name: tuple(columns) for name, columns in table.indexes.items()},
    )


def _moved_by(stored: StoredTable, move: Moving) -> Table:
    return shaped(stored, move.version, move.columns, move.indexes)


def check_alter(stored: StoredTable, table: Table) -> None:
    """Refuse a change that no migration of rows can make.

    Raises: Invalid for another key; NewerTable; TableMigrating if too many moves were overtaken.
    """
    newest = stored.moving_to or stored.version
    if newest >= table.version:
        raise NewerTable(
            expected=f"{stored.name} below version {table.version}", found=f"version {newest}"
        )
    if len(altered(stored, table).overtaken) > OVERTAKEN_MAX:
        raise TableMigrating(
            expected=f"at most {OVERTAKEN_MAX} moves of {stored.name} that others have overtaken",
            found=f"one more: prepare it at version {newest} first",
        )
    was = [(name, stored.columns[name]) for name in stored.key_columns]
    shall_be = [(name, table.columns[name]) for name in table.key]
    if was != shall_be:
        raise Invalid(
            expected=f"the key of {stored.name} to stay: {shown(was)}", found=shown(shall_be)
        )
