"""The overlay: entities that a tick touched, merged into the columns of the state before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perdure.kernel.ids import TableId
from perdure.lake.alike import Alike
from perdure.lake.archetype import Ids, Shape, ids_of, whole_columns
from perdure.lake.entity import Entity
from perdure.lake.state import Rows, WorldState


def merged(
    before: WorldState, touched: Mapping[int, Entity], alike: Iterable[Alike] = ()
) -> WorldState:
    """Return the state before with the touched entities as they are now.

    No entity is in two of ``touched`` and ``alike``.
    """
    gone: defaultdict[TableId, list[Ids]] = defaultdict(list)
    fresh: defaultdict[TableId, list[Rows]] = defaultdict(list)
    left, arrived = _parted(before, touched)
    for table, ids in left.items():
        gone[table].append(np.array(ids, np.int64))
    for shape, ids in arrived.values():
        fresh[shape.table].append(Rows(shape, _rows(before, shape, ids, touched)))
    for each in alike:
        for table, ended in each.gone(before):
            gone[table].append(ended)
        for rows in each.fresh(before):
            fresh[rows.shape.table].append(rows)
    return before.merged(
        {table: np.sort(np.concatenate(parts)) for table, parts in gone.items()},
        [_ascending(parts) for parts in fresh.values()],
    )


def _parted(
    before: WorldState, touched: Mapping[int, Entity]
) -> tuple[dict[TableId, list[int]], dict[TableId, tuple[Shape, list[int]]]]:
    """Return the entities that left each table, and those that have new rows in one."""
    tables = [each.shape.table for each in before.ordered]
    gone: defaultdict[TableId, list[int]] = defaultdict(list)
    arrived: dict[TableId, tuple[Shape, list[int]]] = {}
    for entity_id in sorted(touched):
        shape, values, home, _ = touched[entity_id]
        if shape is None:
            if home >= 0:
                gone[tables[home]].append(entity_id)
            continue
        table = shape.table
        if home >= 0 and tables[home] != table:
            gone[tables[home]].append(entity_id)
        elif home >= 0 and not values:
            continue
        arrived.setdefault(table, (shape, []))[1].append(entity_id)
    return gone, arrived


def _ascending(parts: Sequence[Rows]) -> Rows:
    """Join rows of one table, and put them in the order of their entities."""
    shape = parts[0].shape
    rows = whole_columns(pa.concat_tables([each.table for each in parts]))
    ids = ids_of(rows)
    if bool(np.all(ids[:-1] < ids[1:])):
        return Rows(shape, rows)
    return Rows(shape, rows.take(pa.array(np.argsort(ids, kind="stable"))))


def _rows(
    before: WorldState, shape: Shape, ids: Sequence[int], touched: Mapping[int, Entity]
) -> pa.Table:
    """Return whole rows of entities that have ``shape`` now."""
    _, values, homes, rows = zip(*map(touched.__getitem__, ids), strict=True)
    columns = [pa.array(ids, pa.int64())]
    for each in shape.types:
        given = [held.get(each.name) for held in values]
        arrays = [
            pa.array([value and value[field] for value in given], column.type)
            for field, column in shape.fields(each)
        ]
        if not all(given):
            kept = np.array([value is None for value in given])
            places = (np.array(homes, np.int64)[kept], np.array(rows, np.int64)[kept])
            arrays = [
                pc.replace_with_mask(array, pa.array(kept), _borrowed(before, column.name, *places))
                for array, (_, column) in zip(arrays, shape.fields(each), strict=True)
            ]
        columns += arrays
    return pa.Table.from_arrays(columns, schema=shape.schema)


def _borrowed(before: WorldState, column: str, homes: Ids, rows: Ids) -> pa.Array:
    """Return the values of a column that entities keep, wherever they come from."""
    parts, order = [], []
    for home in np.unique(homes).tolist():
        (here,) = np.nonzero(homes == home)
        parts.append(before.ordered[home].array(column).take(pa.array(rows[here])))
        order.append(here)
    if len(parts) == 1:
        return parts[0]
    back = np.argsort(np.concatenate(order))
    return pa.concat_arrays(parts).take(pa.array(back))
