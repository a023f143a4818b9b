"""The overlay: entities that a tick touched, merged into the columns of the state before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perdure.kernel.ids import TableId
from perdure.lake.archetype import Ids, Shape
from perdure.lake.entity import Entity
from perdure.lake.state import Rows, WorldState


def merged(before: WorldState, touched: Mapping[int, Entity]) -> WorldState:
    """Return the state before with the touched entities as they are now."""
    tables = [each.shape.table for each in before.ordered]
    gone: defaultdict[TableId, list[int]] = defaultdict(list)
    arrived: defaultdict[TableId, list[int]] = defaultdict(list)
    shapes: dict[TableId, Shape] = {}
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
        shapes[table] = shape
        arrived[table].append(entity_id)
    return before.merged(
        {table: np.array(ids, np.int64) for table, ids in gone.items()},
        [
            Rows(shapes[table], _rows(before, shapes[table], ids, touched))
            for table, ids in arrived.items()
        ],
    )


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
