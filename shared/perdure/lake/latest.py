"""Latest rows: of all that was written about an entity, what holds in the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def latest(rows: pa.Table) -> pa.Table:
    """Return one row per entity, by entity: its latest tick, and of one tick the active row.

    Two rows of one tick are an entity that changed its table: it left one for the other.
    """
    entities, ticks = _numbers(rows, "entity_id"), _numbers(rows, "tick")
    return _last_of(rows, np.lexsort((_active(rows), ticks, entities)), entities)


def latest_by_tick(rows: pa.Table) -> pa.Table:
    """Return one row per tick and entity, by both: the active one where there are two."""
    entities, ticks = _numbers(rows, "entity_id"), _numbers(rows, "tick")
    return _last_of(rows, np.lexsort((_active(rows), entities, ticks)), ticks, entities)


def _last_of(
    rows: pa.Table, order: npt.NDArray[np.intp], *groups: npt.NDArray[np.int64]
) -> pa.Table:
    """Return the last row, in ``order``, of each group of rows that agree in ``groups``."""
    ends = np.ones(len(order), dtype=bool)
    if len(order) > 1:
        changes = [np.diff(group[order]) != 0 for group in groups]
        ends[:-1] = np.logical_or.reduce(changes)
    return rows.take(pa.array(order[ends]))


def _numbers(rows: pa.Table, column: str) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = rows.column(column).to_numpy()
    return numbers


def _active(rows: pa.Table) -> npt.NDArray[Any]:
    flags: npt.NDArray[Any] = rows.column("is_active").to_numpy()
    return flags
