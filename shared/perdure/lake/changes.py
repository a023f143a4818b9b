"""Changes: the rows that tell one tick's state from the one before, and when to write it whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from perdure.kernel import limits
from perdure.kernel.component import ComponentType
from perdure.kernel.ids import TableId, Tick
from perdure.lake.archetype import (
    Archetype,
    Mask,
    changed_mask,
    empty,
    ids_of,
    single,
    whole_columns,
)
from perdure.lake.state import WorldState

_IS_ACTIVE: Final = pa.field("is_active", pa.bool_(), nullable=False)


@dataclass(frozen=True, slots=True)
class TableChanges:
    """Rows to be written to one table, ascending by entity.

    Columns: ``entity_id``, ``is_active`` and the component columns; world, run, tick and commit
    are the same in all rows of a tick. An inactive row holds the last values before the tick.
    """

    table: TableId
    types: tuple[ComponentType, ...]
    rows: pa.Table = field(repr=False)


@dataclass(frozen=True, slots=True)
class Changes:
    """What one tick writes.

    ``is_whole``: every living entity has an active row in it, so the very same rows would
    serve as a checkpoint.
    """

    tables: tuple[TableChanges, ...]
    rows: int
    is_whole: bool


def changes(before: WorldState, after: WorldState) -> Changes:
    """Return the rows whose values or liveness differ, by table.

    An entity that left a table has an inactive row there; one that changed its components has
    an active row in its new table besides.
    """
    tables, active = [], 0
    shapes = {each.shape.table: each.shape for each in (*after.ordered, *before.ordered)}
    for table in sorted(shapes):
        shape = shapes[table]
        old = before.archetypes.get(table) or empty(shape)
        new = after.archetypes.get(table) or empty(shape)
        found, living = _changed(old, new)
        active += living
        if found.num_rows:
            tables.append(TableChanges(table, shape.types, found))
    rows = sum(each.rows.num_rows for each in tables)
    return Changes(tuple(tables), rows, is_whole=active == after.entities)


def checkpoint(state: WorldState) -> tuple[TableChanges, ...]:
    """Return every living entity as an active row, by table."""
    return tuple(
        TableChanges(each.shape.table, each.shape.types, _marked(each.rows, is_active=True))
        for each in state.ordered
    )


def should_checkpoint(tick: Tick, last: Tick, rows_since: int, entities: int) -> bool:
    """Say whether a tick should write the whole state, given the rows written since ``last``.

    A world without a checkpoint (``last`` is NO_TICK) counts its ticks from before the first.
    """
    outgrown = rows_since >= max(limits.CHECKPOINT_GROWTH * entities, limits.CHECKPOINT_ROWS_MIN)
    return tick - last >= limits.CHECKPOINT_TICKS or outgrown


def _changed(old: Archetype, new: Archetype) -> tuple[pa.Table, int]:
    """Return the changed rows of one table, and how many of them are active."""
    if len(old) <= len(new) and np.array_equal(old.ids, new.ids[: len(old)]):
        # Rows keep their order, so a tick that only adds entities is compared without a search.
        here = _differing(old.rows, new.rows.slice(0, len(old)))
        mask = np.concatenate([here, np.ones(len(new) - len(old), np.bool_)])
        active = _chosen(new.rows, mask)
        return _marked(active, is_active=True), active.num_rows
    # What stayed is in the same order on both sides.
    stayed = np.isin(new.ids, old.ids, assume_unique=True)
    left = ~np.isin(old.ids, new.ids, assume_unique=True)
    mask = ~stayed
    mask[stayed] = _differing(_chosen(old.rows, ~left), _chosen(new.rows, stayed))
    active = _marked(_chosen(new.rows, mask), is_active=True)
    inactive = _marked(_chosen(old.rows, left), is_active=False)
    both = whole_columns(pa.concat_tables([active, inactive]))
    if active.num_rows and inactive.num_rows:
        both = both.take(pa.array(np.argsort(ids_of(both), kind="stable")))
    return whole_columns(both), active.num_rows


def _differing(old: pa.Table, new: pa.Table) -> Mask:
    """Return which rows differ in any column but the id, given the same entities in order."""
    differing = np.zeros(old.num_rows, np.bool_)
    for name in old.schema.names[1:]:
        mask = changed_mask(single(old.column(name)), single(new.column(name)))
        if mask is not None:
            differing |= mask
            if differing.all():
                break
    return differing


def _chosen(rows: pa.Table, mask: Mask) -> pa.Table:
    return rows if mask.all() else whole_columns(rows.filter(pa.array(mask)))


def _marked(rows: pa.Table, *, is_active: bool) -> pa.Table:
    return rows.add_column(1, _IS_ACTIVE, pa.repeat(pa.scalar(is_active), rows.num_rows))
