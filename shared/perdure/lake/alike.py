"""Alike: commands of one kind on different entities, held as columns and never one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from perdure.kernel.ids import EntityId, TableId
from perdure.lake.archetype import Archetype, Ids, Shape
from perdure.lake.entity import Kind, Values
from perdure.lake.state import Rows, WorldState


@dataclass(frozen=True, slots=True)
class Alike:
    """Commands of which :func:`perdure.lake.entity.changed_alike` told what becomes.

    ``homes`` are places of archetypes of the state before, -1 for none, and ``rows`` the rows
    there; ``columns`` are their values by component and field, and ``values`` returns them one
    by one.
    """

    kind: Kind
    subjects: Sequence[EntityId]
    homes: Sequence[int]
    rows: Sequence[int]
    values: Callable[[], Sequence[Values]]
    columns: Mapping[str, Mapping[str, Sequence[Any] | pa.Array]]

    def gone(self, before: WorldState) -> Iterator[tuple[TableId, Ids]]:
        """Yield the entities that are no longer, by table, in the order of their commands."""
        if self.kind.operation == "despawn":
            subjects = np.array(self.subjects, np.int64)
            for home, here in self._by_home():
                yield before.ordered[home].shape.table, subjects[here]

    def fresh(self, before: WorldState) -> Iterator[Rows]:
        """Yield whole rows of new and changed entities, by table, in the order of their commands."""
        if self.kind.operation == "spawn":
            yield self._fresh(self.kind.shape(None, self.kind.types), None, None)
        elif self.kind.operation == "update" and self.columns:
            for home, here in self._by_home():
                archetype = before.ordered[home]
                everywhere = len(here) == len(self.subjects)
                yield self._fresh(archetype.shape, archetype, None if everywhere else here)

    def _by_home(self) -> Iterator[tuple[int, Ids]]:
        """Yield the places of archetypes, and which commands are about entities there."""
        homes = np.array(self.homes, np.int64)
        for home in np.unique(homes).tolist():
            (here,) = np.nonzero(homes == home)
            yield home, here

    def _fresh(self, shape: Shape, archetype: Archetype | None, here: Ids | None) -> Rows:
        """Return rows of those commands that ``here`` names; all if that is None.

        Components without values are those that the entities have in ``archetype``.
        """
        chosen = slice(None) if here is None else here
        rows = pa.array(np.array(self.rows, np.int64)[chosen])
        arrays = [_array(self.subjects, pa.int64(), here)]
        for each in shape.types:
            values = self.columns.get(each.name)
            for field, column in shape.fields(each):
                if values is not None:
                    arrays.append(_array(values[field], column.type, here))
                elif archetype is not None:
                    arrays.append(archetype.array(column.name).take(rows))
        return Rows(shape, pa.Table.from_arrays(arrays, schema=shape.schema))


def _array(values: Sequence[Any] | pa.Array, kind: pa.DataType, here: Ids | None) -> pa.Array:
    whole = values if isinstance(values, pa.Array) else pa.array(values, kind)
    return whole if here is None else whole.take(pa.array(here))
